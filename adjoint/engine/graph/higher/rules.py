"""The rules of a node as one operation, whose gradient is asked for in turn.

Note [rules on the tape]
    Under `create_graph` the rules of a node are themselves put on the tape. One by one, the
    operations of a rule are as many calls and nodes: five and four for a `tanh`. So where all is
    on few elements (Note [rules of few elements]) the rules of a plan are an operation of their
    own, from what the node saved and the cotangents to the operands' cotangents. It is a record
    like any other, a composite with a joint rule, so programs are found for it natively, forward,
    backward and, since its own rules are met the same way, to any order.

    Gradients of gradients are then added up in another order than one by one, so it is decided
    where a kind of operands is met first, and for good, whether it is such an operation: the bits
    are the same every time, with a program or without.

    Its rule is the gradient of that composition, by a tape of its own (a level). What of that may
    be seen from outside is as if the operations had been called one by one, or there is no such
    operation. So it is looked at, on the tape, where a kind of operands is met first:
      - it leads back to the operands that the operations led back to, and no others (`followed`);
      - cotangents go where those of the results that did come lead (`leads_by_results`);
      - it saves what the gradient reads (`reads`), which is what its operations would have saved,
        so a write in between is refused where it was, and nowhere else. Where they would have
        kept something that they computed (a mask), only what PyTorch keeps is kept (`KEPT_WHOLE`);
      - its parts are plain operations: what a user wrote, what has kinks, views and draws are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy import ndarray

from adjoint.engine.autodiff.levels.transpose import pull_through
from adjoint.engine.autodiff.tape.saved import Unpacked
from adjoint.engine.autodiff.tape.tape import KinkedNode, RecordNode, WrittenNode
from adjoint.engine.autodiff.tape.tape_plan import TapePlan, plan_for
from adjoint.engine.core.dtype import FLOAT
from adjoint.engine.core.operations.record import HOOKS, Record, Rule
from adjoint.engine.core.operations.small_calls import FEW_ON_TAPE, FLOATS_SUCCEED
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.graph.higher.reading import what_is_read
from adjoint.engine.graph.ir import frozen
from adjoint.engine.tensor.tensor import Tensor, alias, wrap

KINDS = 64  # of operands, for each operation: to look at one takes some milliseconds
TRIED = 4  # of them, where none stands for its operations: others are not looked at
# Whose rules tell by a whole operand or result on which side of something it is, and keep that in
# PyTorch too; of others a mask is kept.
KEPT_WHOLE = frozenset({"relu", "leaky_relu", "mse_loss", "huber_loss", "smooth_l1_loss"})
SPECS = "specs"  # among parameters: those of operands, of results, and the same of an inner one
NO_SPECS = None, None, None


class RulesNode(RecordNode):
    """The node of such an operation."""

    __slots__ = ()
    leads_by_results = True


class RulePlans(dict[Any, Any]):
    """The plans of such an operation, made when they are asked for."""

    def __init__(self, count: int, outputs: int) -> None:
        super().__init__()
        self.count, self.outputs = count, outputs
        self.record: Record | None = None
        self.led: tuple[Any, ...] | None = None

    def __missing__(self, key: Any) -> Any:
        plan = plan_for(self.record, key, self.count, self.outputs, RulesNode)  # type: ignore[arg-type]
        if plan is not None:
            plan.led = self.led
        return plan


class RuleOperation:
    """The rules of a plan for the operands that are wanted, as an operation."""

    __slots__ = (
        "count", "edges", "followed", "kinds", "plan", "positions", "reads", "record",
        "wanted",
    )  # fmt: skip

    def __init__(self, plan: TapePlan, needed: Sequence[bool] | None, grads: int) -> None:
        self.plan = plan
        which = range(len(plan.tracked))
        if plan.joint is None:
            ruled = {step.position for step in plan.steps}
        else:
            ruled = {k for k in which if plan.tracked[k]}
        self.wanted = [k in ruled and (needed is None or needed[k]) for k in which]
        self.positions = [k for k in which if self.wanted[k]]
        self.edges = [() if wanted else None for wanted in self.wanted]
        self.count = len(plan.saves) + grads
        self.kinds: dict[Any, bool] = {}  # whether it stands for its operations
        self.record: Record | None = None
        self.followed: frozenset[int] = frozenset()
        self.reads: frozenset[int] = frozenset()

    def compose(self, *values: Any, **params: Any) -> Any:
        """The cotangents that are wanted, by the rules as they are."""
        node: RecordNode = object.__new__(self.plan.node_class)
        saves = len(self.plan.saves)
        node.plan, node.edges, node.outputs = self.plan, self.edges, self.plan.outputs  # type: ignore[assignment]
        node.sequence, node.extra = 0, None
        node.specs, node.out_specs, inner = params.pop(SPECS, NO_SPECS)
        node.params = params if inner is None else {**params, SPECS: inner}
        node.saved = [Unpacked(x) for x in values[:saves]]
        node.versions = [0] * saves
        results = node.apply_rules(values[saves:], self.wanted, None)
        found = tuple([results[k] for k in self.positions])
        return found[0] if len(found) == 1 else found

    def pull(self, *given: Any) -> list[Any]:
        """The cotangents of its operands: `given` what is read, or its spec, and the last three."""
        *operands, gs, needed, params = given
        one = next(g for g in gs if g is not None)
        values = [x if k in self.reads else stand_in(x, one) for k, x in enumerate(operands)]
        return self.pulled(values, gs, needed, params)

    def pulled(
        self,
        values: Sequence[Any],
        gs: Sequence[Any],
        needed: Sequence[bool],
        params: dict[str, Any],
    ) -> list[Any]:
        """The same, where all operands are there: the composition, by a tape of its own."""
        return pull_through(self.compose, values, gs, needed, params)

    def of_node(
        self, node: RecordNode, grads: Sequence[Any], needed: Sequence[bool] | None
    ) -> Sequence[Any] | None:
        """The cotangents of a node's operands, on the tape; None: its operations are called."""
        params = with_specs(node)
        saved = [
            node.load(k, None, -1 - code if code < 0 else None)
            for k, code in enumerate(node.plan.saves)
        ]
        values = (*saved, *grads)
        record = self.record
        outs: Sequence[Any] | None = None
        if record is not None and record.small and not LISTENERS:
            given = self.led(values)
            found = HOOKS.meet_noted(record.small, given, params, record.tape)  # type: ignore[misc]
            if found.__class__ is Tensor:
                outs = (found,)
            elif found is not None:
                outs = tuple([wrap(array) for array in found])
                HOOKS.attach(record, given, params, outs if len(outs) > 1 else outs[0])
        if outs is None:
            outs = self.by_python(values, params)
        if outs is None:
            return None
        results: list[Any] = [None] * len(self.edges)
        for k, out in zip(self.positions, outs, strict=True):
            results[k] = out
        return results

    def led(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Operands, on the tape where the operation leads back to them."""
        if len(self.followed) == len(values):
            return values
        return tuple(
            [
                alias(x) if k not in self.followed and is_followed(x) else x
                for k, x in enumerate(values)
            ]
        )

    def by_python(self, values: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """The same by Python, for a kind of operands that has no program yet.

        Whether it is an operation is decided here, once.
        """
        kind: list[Any] = [frozen(params)]
        for x in values:
            if isinstance(x, Tensor):
                array = x._array
                if array.__class__ is not ndarray or array.size > FEW_ON_TAPE:
                    return None
                kind += (array.dtype, array.shape, array.strides)
            elif x is None or type(x) in (int, float, bool):
                kind.append(frozen(x))
            else:
                return None
        key = tuple(kind)
        try:
            fits = self.kinds.get(key)
        except TypeError:  # something in it has no hash
            return None
        if fits is None:
            if len(self.kinds) >= (KINDS if self.record is not None else TRIED):
                return None
            self.kinds[key] = fits = self.stands_for(values, params)
        if not fits:
            return None
        record, given = self.record, self.led(values)
        out = None if LISTENERS else HOOKS.straight.forward(record, given, params)
        if out is None:
            with CONTEXT.having(grad_enabled=False):
                out = self.compose(*given, **params)
        HOOKS.attach(record, given, params, out)
        return out if out.__class__ is tuple else (out,)

    def stands_for(self, values: tuple[Any, ...], params: dict[str, Any]) -> bool:
        """Whether operands of a kind are such that nobody can tell it from its operations."""
        before = CONTEXT.every_field()
        try:
            seen = self.looked_at(values, params)
        except Exception:  # whatever it is, its operations are called, which say what is wrong
            return False
        finally:
            CONTEXT.__dict__.update(before)  # an interrupt may have left them
        if seen is None:
            return False
        if self.record is None:
            self.followed, self.reads = seen
            self.record = self.made()
        return seen == (self.followed, self.reads)

    def looked_at(
        self, values: tuple[Any, ...], params: dict[str, Any]
    ) -> tuple[frozenset[int], frozenset[int]] | None:
        """Which operands it leads back to, and which its gradient reads; None: it is none."""
        leaves = [followed_leaf(x) for x in values]
        with CONTEXT.having(grad_enabled=True):
            made = self.compose(*leaves, **params)
        outs = made if made.__class__ is tuple else (made,)
        found = parts_of(outs, leaves)
        if found is None:
            return None
        followed, kept = found
        given = [x for x in values if isinstance(x, Tensor)]
        gs = [alias(x) for x in outs]
        needed = [k in followed for k in range(len(values))]
        read = what_is_read([*given, *gs], lambda: self.pulled(values, gs, needed, params))
        if read is None:
            return None
        reads = {k for k, x in enumerate(values) if not isinstance(x, Tensor) or id(x) in read}
        if self.plan.record.name not in KEPT_WHOLE:
            for k in reads:
                x = values[k]
                if isinstance(x, Tensor) and x._storage not in kept and is_floating(x):
                    return None
        return followed, frozenset(reads)

    def made(self) -> Record:
        """The record, and plans for its nodes."""
        names = tuple([f"v{k}" for k in range(self.count)])
        asked = [n if k in self.reads else f"{n}_spec" for k, n in enumerate(names)]
        plans = RulePlans(self.count, len(self.positions))
        record = Record(
            f"{self.plan.record.name}_backward",
            "composite",
            infer=refuse,
            operands=names,
            outputs=len(self.positions),
            joint=Rule(self.pull, (*asked, "gs", "needed", "params")),
            compose=self.compose,
            tape=plans,
            listed=False,
        )
        plans.record = record
        return record


def with_specs(node: RecordNode) -> dict[str, Any]:
    """A node's parameters, and the specs that its rules may ask for among them."""
    params = node.params
    if node.specs is None and node.out_specs is None and SPECS not in params:
        return params
    return {**params, SPECS: (node.specs, node.out_specs, params.get(SPECS))}


def refuse(*_: Any, **__: Any) -> Any:
    """A composite is inferred by its composition."""
    raise NotImplementedError("rules on the tape: inferred by their composition")


def is_floating(x: Tensor) -> bool:
    """Whether a gradient may lead to it."""
    return x.dtype.category >= FLOAT


def is_followed(x: Any) -> bool:
    """Whether it is on the tape, or may be."""
    return isinstance(x, Tensor) and (x._requires_grad or x._base is not None)


def followed_leaf(x: Any) -> Any:
    """The same elements in the same memory as a leaf, which is followed if that is possible."""
    if not isinstance(x, Tensor):
        return x
    leaf = alias(x)
    leaf._requires_grad = is_floating(leaf)
    return leaf


def stand_in(spec: Any, like: Tensor) -> Tensor:
    """A tensor of a spec, of which no element is read, where another one is."""
    made: Tensor = like.new_ones((), dtype=spec.dtype).expand(spec.shape)
    return made


def parts_of(outs: Sequence[Any], leaves: Sequence[Any]) -> tuple[frozenset[int], set[Any]] | None:
    """Which leaves results come from, and what memory the operations between them keep.

    None where one of these is more than that, or a result is handed on.
    """
    memory = {x._storage for x in leaves if isinstance(x, Tensor)}
    place = {id(x): k for k, x in enumerate(leaves)}
    kept: set[Any] = set()
    followed: set[int] = set()
    stack: list[Any] = []
    for out in outs:
        if out.__class__ is not Tensor or out._node is None or out._storage in memory:
            return None
        stack.append(out._node)
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if not isinstance(node, RecordNode) or isinstance(node, KinkedNode | WrittenNode):
            return None
        record = node.plan.record
        if record.draws or record.opaque or record.communicates or record.given_a_draw:
            return None
        kept.update([x._storage for x in node.saved or () if isinstance(x, Tensor)])
        for edge in node.edges:
            if edge is None:
                continue
            if id(edge[0]) in place:
                followed.add(place[id(edge[0])])
            else:
                stack.append(edge[0])
    return frozenset(followed), kept


def has_rule_operations(plan: TapePlan) -> bool:
    """Whether the rules of a plan may be an operation."""
    record = plan.record
    return not (
        plan.hands_on
        or record.draws
        or record.given_a_draw
        or record.opaque
        or record.communicates
        or record.pulls_views
        or record.fails not in FLOATS_SUCCEED
        or record.window is not None
        or plan.node_class.is_write  # type: ignore[attr-defined]
    )


def pull_on_tape(
    node: RecordNode, grads: Sequence[Any], needed: Sequence[bool] | None
) -> Sequence[Any] | None:
    """The cotangents of a node's operands, on the tape; None: its operations are called."""
    plan = node.plan
    key = (None if needed is None else tuple(needed), len(grads))
    operation: Any = plan.higher.get(key)
    if operation is None:
        operation = RuleOperation(plan, needed, len(grads)) if has_rule_operations(plan) else False
        plan.higher[key] = operation
    return operation.of_node(node, grads, needed) if operation else None


HOOKS.pull_on_tape = pull_on_tape
