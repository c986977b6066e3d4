"""Recording operations on the tape, and running their rules backward."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from numpy import ndarray

from adjoint.engine.autodiff.tape import tape_plan as kinds
from adjoint.engine.autodiff.tape.kinks import behind_kink
from adjoint.engine.autodiff.tape.node import (
    SEQUENCE,
    BackwardNode,
    Edge,
    TapeNode,
    edge_of,
    specs_of,
)
from adjoint.engine.autodiff.tape.saved import Packed, Unpacked, refuse_inference
from adjoint.engine.autodiff.tape.tape_plan import RuleCall, TapePlan, plan_for
from adjoint.engine.core.dtype import FLOAT
from adjoint.engine.core.operations.families import apply_partial, fit, only_needed, partial_for
from adjoint.engine.core.operations.large import (
    DEVICE_LAYOUTS,
    HALF_DTYPES,
    HALVES,
    NEW_ON_DEVICE,
)
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.operations.small_calls import FEW_ON_TAPE, is_looked_at
from adjoint.engine.core.origins import place_now
from adjoint.engine.core.spec import Spec, same_shape
from adjoint.engine.core.state import switches
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.core.value import TensorBase
from adjoint.engine.tensor.tensor import DTYPE_OF, Tensor, alias, sync_view, wrap

_new = object.__new__
_SAVED_NAMES = {"_saved_self": 0, "_saved_other": 1, "_saved_result": -1}


class RecordNode(TapeNode):
    """A recorded primitive or composite: its vjp comes from the record, through a plan."""

    __slots__ = ("out_specs", "params", "plan", "specs")
    keeps_saved_alone = True
    plan: TapePlan
    params: dict[str, Any]
    # Kept only where the plan asks; for an elementwise operation, only where an operand's shape
    # or dtype differs from the result's, since only then a cotangent must be made to fit.
    specs: tuple[Spec | None, ...] | None
    out_specs: tuple[Spec, ...] | None

    @property
    def repeatable(self) -> bool:
        return not self.plan.saves and self.extra is None

    def apply(
        self, grads: Sequence[Any], needed: Sequence[bool] | None, level: Any
    ) -> Sequence[Any]:
        if self.saved is None:
            if not self.plan.saves:
                self.saved = ()
            self.require_saved()
        if self.extra is not None and any(x.__class__ is Packed for x in self.saved or ()):
            return self.apply_unpacked(grads, needed, level)
        capture = CONTEXT.capture
        if capture is not None and level is None and capture.pulls is not None:
            capture.pulled = capture.origins.get(self.sequence)
            try:
                return self.apply_captured(capture.pulls, grads, needed)
            finally:
                capture.pulled = None
        plan = self.plan
        if plan.hands_on:
            array = grads[0]._array
            few = array.__class__ is ndarray and array.size < plan.record.large
            if few or self.specs is None:
                return self.handed_on(grads[0], needed)
        if level is None and CONTEXT.plain:
            if CONTEXT.grad_enabled and plan.of_tape:
                on_tape = HOOKS.pull_on_tape(self, grads, needed)
                if on_tape is not None:
                    return on_tape
            quiet = not (CONTEXT.grad_enabled or LISTENERS)
            if plan.small and quiet:
                cotangents = self.apply_small(grads, needed)
                if cotangents is not None:
                    return cotangents
            if plan.by_library and quiet and grads[0]._array.__class__ in DEVICE_LAYOUTS:
                cotangents = self.apply_by_library(grads[0], needed)
                if cotangents is not None:
                    return cotangents
            if plan.met and quiet:
                cotangents = self.apply_met(grads, needed)
                if cotangents is not None:
                    return cotangents
            if plan.whole or plan.on_device:
                cotangents = self.apply_fragment(grads, needed)
                if cotangents is not None:
                    return cotangents
            if plan.of_few and quiet and is_looked_at(plan):
                cotangents = self.apply_sighted(grads, needed)
                if cotangents is not None:
                    return cotangents
        if level is not None and plan.at_levels:
            cotangents = HOOKS.pull_at_level(self, grads, needed, level)
            if cotangents is not None:
                return cotangents
        return self.apply_rules(grads, needed, level)

    def handed_on(self, g: Any, needed: Sequence[bool] | None) -> list[Any]:
        """The cotangent as it comes, made to match operands that are not like the result."""
        results: list[Any] = [None] * len(self.edges)
        specs = self.specs
        for step in self.plan.steps:
            position = step.position
            if needed is None or needed[position]:
                results[position] = g if specs is None else fit(g, specs[position])  # type: ignore[arg-type]
        return results

    def apply_sighted(self, grads: Sequence[Any], needed: Sequence[bool] | None) -> Any:
        """The rules, looked at for a program of few elements.

        Note [rules of few elements]
            The rules of a composite are a program from the first calls on (Note [straight
            programs]); those of a single operation come to two or three, of which each has its
            own program (Note [small calls]), so they are told apart here, as kernels are in the
            forward (Note [seen on the tape]): after the first, few are looked at. Where a rule
            hands the cotangent on or gives a view of it, there is nothing to compute, and no
            program.
        """
        values = [*self.intact(), *grads]
        for x in values:
            if isinstance(x, TensorBase):
                array = x._array
                if array.__class__ is not ndarray or array.size > FEW_ON_TAPE:
                    return None
        return self.apply_once(HOOKS.straight, values, grads, needed, sighted=True)

    def apply_fragment(
        self, grads: Sequence[Any], needed: Sequence[bool] | None
    ) -> Sequence[Any] | None:
        """The rules as one program: Note [fragments], or small ones, Note [straight programs]."""
        plan, g = self.plan, grads[0]
        if plan.record.given_a_draw and any(type(x) is int for x in self.saved or ()):
            return None  # where a draw began: what the rule calls is a fragment that is given it
        if g is None and len(grads) > 1:
            g = next((grad for grad in grads if grad is not None), None)
        if g is not None and g._array.__class__ in DEVICE_LAYOUTS:
            return None if CONTEXT.grad_enabled else self.apply_on_device(grads, needed)
        least = plan.record.pulled_large or plan.record.large
        if least > HALVES and g is not None and g._array.dtype in HALF_DTYPES:
            least = HALVES
        # An elementwise operation has one result, of the size of its largest operand.
        if not plan.whole or (plan.elementwise and (g is None or g._array.size < least)):
            return None
        if plan.elementwise and g._array.dtype.kind == "c":
            return None  # fragments take complex numbers apart: NumPy is quicker
        if CONTEXT.grad_enabled:
            return None
        values = [*self.intact(), *grads]  # of a loss, the cotangent is one number
        if least and any(isinstance(x, TensorBase) and x._array.size >= least for x in values):
            return self.apply_quickly(values, grads, needed)
        if self.plan.elementwise:
            return None
        much = plan.record.much if plan.record.pulled_large else None
        if much is not None:
            shapes = [x._array.shape for x in values if isinstance(x, TensorBase)]
            if much(shapes, self.params):
                return self.apply_quickly(values, grads, needed)
        return self.apply_once(HOOKS.straight, values, grads, needed)

    def apply_small(self, grads: Sequence[Any], needed: Sequence[bool] | None) -> Any:
        """The rules by a program for few elements, if there is one (Note [meeting])."""
        values = (*self.intact(), *grads)
        rest = (self.specs, self.out_specs, needed)
        if HOOKS.meet_rules is not None:
            return HOOKS.meet_rules(self.plan.small, values, self.params, rest)
        arrays = HOOKS.meet(self.plan.small, values, self.params, rest)
        if arrays is None:
            return None
        return [None if array is None else wrap(array) for array in arrays]

    def apply_by_library(self, g: Any, needed: Sequence[bool] | None) -> Any:
        """The rules by a library that was asked for the like before, if it was."""
        plan, rest = self.plan, (switches.computed_with, needed)
        values = (*self.intact(), g)
        if plan.straight:
            cotangents = HOOKS.meet_straight(plan.straight, values, self.params, rest)
            if cotangents is not None:
                return cotangents
        return HOOKS.pull_prepared(plan, values, self.params, rest)

    def intact(self) -> list[Any]:
        """Everything that was saved, quickly where nothing happened to it since."""
        versions, values = self.versions, []
        for k, value in enumerate(self.saved):  # type: ignore[arg-type]
            if isinstance(value, TensorBase) and value._storage.version == versions[k]:
                values.append(value)
            else:
                values.append(self.load(k, None, self.output_at(k)))
        return values

    def apply_met(self, grads: Sequence[Any], needed: Sequence[bool] | None) -> Any:
        """The rules by a fragment on a GPU, if native code finds one (Note [met launches])."""
        plan = self.plan
        if plan.record.given_a_draw or (plan.hands_on and self.specs is None):
            return None
        rest = (switches.computed_with, self.specs, self.out_specs, needed)
        values = [*self.intact(), *grads]
        try:
            met = HOOKS.meet_on_device(plan.record.name, plan.met, values, self.params, rest)
        except MemoryError:  # Python's way tries again, and says what is wrong
            return None
        return None if met is None else [*met]

    def apply_on_device(self, grads: Sequence[Any], needed: Sequence[bool] | None) -> Any:
        """The rules as one program on a GPU."""
        plan = self.plan
        if not plan.on_device or (plan.hands_on and self.specs is None):
            return None
        values = [*self.intact(), *grads]
        if plan.met and not LISTENERS:
            rest = (switches.computed_with, self.specs, self.out_specs, needed)
            try:
                met = HOOKS.meet_on_device(plan.record.name, plan.met, values, self.params, rest)
            except MemoryError:  # Python's way tries again, and says what is wrong
                met = None
            if met is not None:
                return [*met]
        return self.apply_quickly(values, grads, needed)

    def expect(self, g: Any) -> None:
        """Have the program of its rules on a GPU made, whose kernels are not waited for, as far as
        it is known what they will be given: a cotangent like this of the first result."""
        plan = self.plan
        if plan.record.name == "cast" and self.specs is not None:  # as its rule is
            dtype = self.specs[0].dtype  # type: ignore[union-attr]
            HOOKS.fragments.described(plan.record, (g,), {"dtype": dtype})
            return
        if not plan.on_device or plan.record.given_a_draw or self.extra is not None:
            return
        if (plan.hands_on and self.specs is None) or (self.saved is None and plan.saves):
            return
        grads = [g, *[None] * (self.outputs - 1)]
        saved = self.intact() if plan.saves else []
        self.apply_once(HOOKS.fragments, [*saved, *grads], grads, None)

    def apply_quickly(
        self, values: Sequence[Any], grads: Sequence[Any], needed: Sequence[bool] | None
    ) -> Any:
        """The rules as one program, by a key that takes little to make (Note [quick keys])."""
        specs = self.specs
        wanted = None if needed is None else tuple(needed)
        key = (self.plan, specs, self.out_specs, wanted, self.params)
        owned = (self.plan, values, self.params, (self.specs, self.out_specs, needed))

        def again(quick: Any) -> Any:
            return self.apply_once(HOOKS.fragments, values, grads, needed, quick)

        return HOOKS.fragments.run_quickly(key, values, again, owned)

    def apply_captured(
        self, pulls: Any, grads: Sequence[Any], needed: Sequence[bool] | None
    ) -> Sequence[Any]:
        """The rules, recorded once for tensors alike (Note [repeats])."""
        return self.apply_once(pulls, [*self.loaded(None), *grads], grads, needed)

    def apply_once(
        self,
        repeats: Any,
        values: Sequence[Any],
        grads: Sequence[Any],
        needed: Sequence[bool] | None,
        quick: Any = None,
        sighted: bool = False,
    ) -> Sequence[Any]:
        """The rules by what knows them for tensors alike; `values` is all that they see."""
        # Each with its place: which of several cotangents did not come is a matter of that alone.
        literals = [(f"{k}", x) for k, x in enumerate(values) if not isinstance(x, TensorBase)]
        tensors = [x for x in values if isinstance(x, TensorBase)]
        specs = self.specs
        key = (self.plan, self.params, literals, specs, self.out_specs, needed)
        rule = partial(self.apply_rules, grads, needed, None)
        if repeats is HOOKS.fragments:
            return repeats.run(
                key, tensors, rule, quick, partial(self.apply_others, values, len(grads))
            )
        if repeats is HOOKS.straight:
            rest = (self.specs, self.out_specs, needed)
            owned = (self.plan, values, self.params, rest)
            return repeats.run(key, tensors, rule, owned, sighted)
        return repeats.run(key, tensors, rule)

    def apply_others(
        self, values: Sequence[Any], grads: int, tensors: Sequence[Any], rest: Any
    ) -> Any:
        """The rules for other tensors, and other numbers in what else they look at.

        In place of `values`, of which the last are so many cotangents.
        """
        params, literals, specs, out_specs, needed = rest
        kinds = iter(tensors), iter([x for _, x in literals])
        saved = [next(kinds[not isinstance(x, TensorBase)]) for x in values]
        count = len(values) - grads
        node = self.with_saved(saved[:count])
        node.params, node.specs, node.out_specs = params, specs, out_specs
        return node.apply_rules(saved[count:], needed, None)

    def apply_unpacked(
        self, grads: Sequence[Any], needed: Sequence[bool] | None, level: Any
    ) -> Sequence[Any]:
        """The rules, where hooks keep what is saved: each is asked once, however many read it."""
        node = self.with_saved([Unpacked(value) for value in self.loaded(level)])
        if CONTEXT.capture is not None:
            return node.apply_rules(grads, needed, level)
        return RecordNode.apply(node, grads, needed, level)

    def with_saved(self, saved: list[Any]) -> RecordNode:
        """A node like this with other values saved, whose rules are called and nothing else."""
        node: RecordNode = _new(self.plan.node_class)
        node.edges, node.outputs, node.sequence = self.edges, self.outputs, self.sequence
        node.extra, node.plan, node.params = None, self.plan, self.params
        node.specs, node.out_specs, node.saved = self.specs, self.out_specs, saved
        node.versions = [x._storage.version if is_tensor(x) else 0 for x in saved]
        return node

    def loaded(self, level: Any) -> list[Any]:
        """Everything that was saved."""
        return [self.load(k, level, self.output_at(k)) for k in range(len(self.plan.saves))]

    def apply_rules(
        self, grads: Sequence[Any], needed: Sequence[bool] | None, level: Any
    ) -> Sequence[Any]:
        """The cotangents of the operands, rule by rule."""
        plan = self.plan
        if plan.joint is not None:
            return self.apply_joint(plan.joint, grads, needed, level)
        results: list[Any] = [None] * len(self.edges)
        elementwise = plan.elementwise
        for step in plan.steps:
            position, fn, factor, single, _ = step
            if needed is not None and not needed[position]:
                continue
            if fn is None:
                value: Any = factor
            else:
                if single >= 0:
                    code = plan.saves[single]
                    arguments = [self.load(single, level, None if code >= 0 else -1 - code)]
                else:
                    arguments = self.arguments(step, grads, level)
                value = partial_for(grads[0], fn, arguments) if elementwise else fn(*arguments)
            results[position] = self.chain(grads[0], value, position) if elementwise else value
        return results

    def apply_joint(
        self, joint: RuleCall, grads: Sequence[Any], needed: Sequence[bool] | None, level: Any
    ) -> Sequence[Any]:
        """The cotangents of all operands by one rule."""
        wanted = [e is not None and (needed is None or needed[i]) for i, e in enumerate(self.edges)]
        cotangents = joint.fn(*self.arguments(joint, grads, level, wanted))  # type: ignore[misc]
        return only_needed(self.plan.record, cotangents, wanted)

    def chain(self, g: Any, partial: Any, position: int) -> Any:
        """The cotangent g through an elementwise partial, made to match the operand."""
        out = apply_partial(g, partial, conjugate=True)
        if self.specs is not None:
            return fit(out, self.specs[position])  # type: ignore[arg-type]
        # The operand is like the result, so like g; only a wider partial needs a cast.
        return out if out._array.dtype is g._array.dtype else out.to(g.dtype)

    def arguments(
        self, step: RuleCall, grads: Sequence[Any], level: Any, needed: Sequence[bool] = ()
    ) -> list[Any]:
        """What a rule asked for, in its order."""
        arguments: list[Any] = []
        for kind, key in step.arguments:
            if kind == kinds.SAVED:
                arguments.append(self.load(key, level, self.output_at(key)))
            elif kind == kinds.GRAD:
                arguments.append(grads[0])
            elif kind == kinds.PARAM:
                arguments.append(self.params[key])
            elif kind == kinds.OPTIONAL:
                arguments.append(self.params.get(*key))
            elif kind == kinds.SPEC:
                arguments.append(self.specs[key])  # type: ignore[index]
            elif kind == kinds.SAVED_MANY:
                arguments.append([self.load(k, level, self.output_at(k)) for k in key])
            elif kind == kinds.GRADS:
                arguments.append(grads)
            elif kind == kinds.SPECS:
                arguments.append(self.specs[key])  # type: ignore[index]
            elif kind == kinds.OUT_SPEC:
                arguments.append(self.out_specs[0])  # type: ignore[index]
            elif kind == kinds.OUT_SPECS:
                arguments.append(self.out_specs)
            elif kind == kinds.CONSTANT:
                arguments.append(key)
            elif kind == kinds.NEEDED:
                arguments.append(needed)
            elif kind == kinds.PARAMS:
                arguments.append(self.params)
            else:
                raise AssertionError(f"{self.name()}: unhandled argument kind {kind}")
        return arguments

    def __getattr__(self, name: str) -> Any:
        """PyTorch's view on what was saved: `_saved_self`, `_saved_other`, `_saved_result`."""
        code = _SAVED_NAMES.get(name)
        plan = object.__getattribute__(self, "plan")
        if code is None or code not in plan.saves:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.require_saved()
        k = plan.saves.index(code)
        return self.load(k, None, self.output_at(k))

    def output_at(self, k: int) -> int | None:
        """Which result the k-th saved value is, if it is one."""
        code = self.plan.saves[k]
        return None if code >= 0 else -1 - code


class KinkedNode(RecordNode):
    """An operation whose gradient by its first operand does not change with it: Note [kinks]."""

    __slots__ = ()

    def apply(
        self, grads: Sequence[Any], needed: Sequence[bool] | None, level: Any
    ) -> Sequence[Any]:
        results = RecordNode.apply(self, grads, needed, level)
        if not CONTEXT.grad_enabled or CONTEXT.levels or level is not None:
            return results
        operand, grad = self.edges[0], results[0]
        if operand is None or grad is None:
            return results
        lasting = -1 in self.plan.saves  # it keeps its result
        return [behind_kink(grad, operand, lasting), *results[1:]]


class WrittenNode(RecordNode):
    """A write through a view (VIEW_SCATTER): its rules as copies, without the way to each.

    What was before the write gets the cotangent with zeros where the view looks, what was written
    what the view shows of it. A program for few elements would be one for each place written to.
    """

    __slots__ = ()
    is_write = True

    def apply(
        self, grads: Sequence[Any], needed: Sequence[bool] | None, level: Any
    ) -> Sequence[Any]:
        if level is None and CONTEXT.plain and not (CONTEXT.grad_enabled or LISTENERS):
            array = grads[0]._array
            if array.__class__ is ndarray:
                around, inside = [
                    edge is not None and (needed is None or needed[k])
                    for k, edge in enumerate(self.edges)
                ]
                apart = HOOKS.array.taken_apart(array, self.params["chain"], around, inside)
                if apart is not None:
                    return [None if x is None else wrap(x) for x in apart]
        return RecordNode.apply(self, grads, needed, level)


def attach(record: Record, operands: tuple[Any, ...], params: dict[str, Any], outs: Any) -> None:
    """Record an operation on the tape if any operand's gradient is wanted."""
    if CONTEXT.settled:
        one = outs[0] if outs.__class__ is tuple and outs else outs
        if one.__class__ is Tensor:
            note = HOOKS.note if one._array.__class__ is ndarray else HOOKS.note_there
            if note is not None and note(record.tape, operands, params, outs):
                if NEW_ON_DEVICE:
                    HOOKS.fragments.expect_rules(record, one)
                return  # Note [noting]
    edges: list[Edge | None] = []
    bits = 1
    for x in operands:
        bits <<= 1
        if isinstance(x, TensorBase):
            base = x._base
            if base is not None and base[0]._node is not base[1]:
                sync_view(x)  # type: ignore[arg-type]
            if x._requires_grad:
                node = x._node
                edges.append((x, 0) if node is None else (node, x._nr))
                bits |= 1
                continue
        edges.append(None)
    if bits == 1 << len(operands):
        return
    if record.attach is not None:
        record.attach(operands, params, outs, edges)
        return
    many = outs.__class__ is tuple
    key: Any = bits if record.outputs else (bits, len(outs))
    try:
        plan = record.tape[key]
    except KeyError:
        node_class = KinkedNode if record.kinked else RecordNode
        if record is HOOKS.view_scatter:
            node_class = WrittenNode
        plan = plan_for(record, key, len(operands), len(outs) if many else 1, node_class)
    if plan is None:
        return
    results = outs if many else (outs,)
    node = make_node(plan, operands, params, results, edges)
    if not CONTEXT.plain:
        decorate(node, plan, operands, results)
    if plan.always_floating:
        out = results[0]
        out._node, out._nr, out._requires_grad = node, 0, True
    else:
        attach_node(node, results)
    if NEW_ON_DEVICE:
        HOOKS.fragments.expect_rules(record, results[0])


def make_node(
    plan: TapePlan,
    operands: tuple[Any, ...],
    params: dict[str, Any],
    outs: tuple[Tensor, ...],
    edges: list[Edge | None],
) -> RecordNode:
    """A node as a plan says, with what it saves."""
    node: RecordNode = _new(plan.node_class)
    node.edges = edges
    node.outputs = len(outs)
    node.sequence = next(SEQUENCE)
    node.extra = None
    node.plan = plan
    node.params = params
    node.specs = node.out_specs = None
    if plan.wants_specs:
        node.specs = specs_of(operands)
    elif plan.elementwise:
        array = outs[0]._array
        shape, dtype = array.shape, array.dtype
        for step in plan.steps:
            array = operands[step.position]._array
            if array.dtype is not dtype or not same_shape(array.shape, shape):
                node.specs = specs_of(operands)
                break
    if plan.wants_out_specs:
        node.out_specs = tuple([o._spec for o in outs])
    if not plan.saves:
        node.saved = node.versions = ()
        return node
    saved: list[Any] = []
    versions: list[int] = []
    for code in plan.saves:
        value = operands[code] if code >= 0 else alias(outs[-1 - code])
        saved.append(value)
        version = value._storage.version if isinstance(value, TensorBase) else 0
        if version < 0 and not CONTEXT.levels:  # a transform keeps what it saves to itself
            raise refuse_inference()
        versions.append(version)
    node.saved = saved
    node.versions = tuple(versions)
    return node


def decorate(node: RecordNode, plan: TapePlan, operands: Any, outs: tuple[Tensor, ...]) -> None:
    """What a context that is not plain adds: anomaly traces and saved-tensor hooks."""
    if CONTEXT.anomaly:
        from adjoint.engine.autodiff.tape.anomaly import call_site

        extra = node.make_extra()
        extra.trace, extra.where = call_site(), place_now()
    if CONTEXT.capture is not None:
        CONTEXT.capture.attached(node.sequence)
        for out in outs:
            CONTEXT.capture.touch(out)
    if CONTEXT.saved_hooks and not CONTEXT.levels:
        saved = node.saved or []
        for k, code in enumerate(plan.saves):
            if isinstance(saved[k], TensorBase):
                edge = edge_of(operands[code]) if code >= 0 else None
                saved[k] = Packed(saved[k], edge)
                node.make_extra()  # few nodes are asked whether anything is packed


def attach_node(node: BackwardNode, results: Sequence[Any]) -> None:
    """Make `results` the node's outputs, those that are there and can carry a gradient."""
    for i, out in enumerate(results):
        if out is not None and DTYPE_OF[out._array.dtype].category >= FLOAT:
            out._node, out._nr, out._requires_grad = node, i, True
