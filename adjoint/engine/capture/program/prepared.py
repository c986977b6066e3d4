"""Replaying a program: a call of it, with all that is known beforehand laid ready."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from adjoint.engine.autodiff.tape.hooks import retain_grad
from adjoint.engine.autodiff.tape.node import edge_of
from adjoint.engine.capture.backward.derivative import Derivative
from adjoint.engine.capture.backward.program_node import ProgramNode
from adjoint.engine.capture.program.layouts import laid_out
from adjoint.engine.capture.program.overlaps import Overlaps
from adjoint.engine.capture.program.ready import (
    LATE,
    UNREAD,
    ReadyEffects,
    ReadyInputs,
    ReadyResults,
    lasting_inputs,
    overlaps_of,
    refusal,
)
from adjoint.engine.capture.program.recipes import Making, tensor_on
from adjoint.engine.capture.python.errors import Raised
from adjoint.engine.core.errors import raised_outside
from adjoint.engine.core.operations.dispatch import mark_birth
from adjoint.engine.core.state.context import CONTEXT, INFERENCE_VERSION
from adjoint.engine.core.tree import unflatten
from adjoint.engine.graph.execution import Executable, ExecutorFactory, Task, one_at_a_time
from adjoint.engine.graph.record.sources import Host
from adjoint.engine.tensor.storage import FOREIGN
from adjoint.engine.tensor.tensor import (
    Tensor,
    alias_with_history,
    meta_of,
)
from adjoint.engine.tensor.watching import doubt
from adjoint.engine.tensor.writing.mutation import take_window

if TYPE_CHECKING:
    from adjoint.engine.capture.program.program import Program


class PreparedCall:
    """What runs a program; calling it with the leaves of the arguments does."""

    __slots__ = (
        "catches", "changes", "conditions", "derivative", "effects", "executable", "inputs",
        "overlaps", "particular", "python", "results", "run", "shown", "sources",
    )  # fmt: skip
    run: Executable  # the executable, one call at a time

    def __init__(self, program: Program) -> None:
        self.sources = program.sources
        self.conditions = program.conditions
        self.results = program.results
        self.effects = program.effects
        self.derivative = program.derivative
        self.python = program.effects.python
        self.catches = program.origin.catches
        self.particular = program.conditions.particular
        self.inputs = ReadyInputs(self.sources, self.conditions, self.python)
        self.changes = ReadyEffects(self.effects, self.results.retained)
        self.shown = ReadyResults(self.results, self.effects, self.derivative)
        self.executable: Executable | None = None  # runs the graph; made by `compile`
        self.overlaps: Overlaps | None = None

    def compile(self, program: Program, leaves: Sequence[Any], factory: ExecutorFactory) -> None:
        """Have the executable made; `leaves` are the arguments of the call it is made for."""
        returned = {root.output for root in self.results.roots}
        if self.derivative is not None:
            residuals = {k for kind, k in self.derivative.residuals if kind == "output"}
            returned |= residuals - self.derivative.written.keys()
            self.derivative.factory = factory
        writes = self.effects.writes
        self.overlaps = overlaps_of(self.sources, self.effects)
        self.executable = factory(
            Task(
                graph=program.graph,
                sources=tuple(self.sources),
                writes=tuple(writes),
                returned=frozenset(returned),
                examples=tuple([source.given(leaves) for source in self.sources]),
                targets=tuple([source.array(leaves) for source, _ in writes]),
                sizing=program.origin.sizing,
                lasting=self.lasting(),
            )
        )
        # Where calls may not overlap a lock is held already.
        locked = program.one_at_a_time
        run = self.executable if locked else one_at_a_time(self.executable)
        # Its class's: one that wraps another, to check its first call, has not the other's.
        quickest = getattr(type(self.executable), "quickest", None)
        self.run = run if quickest is None else quickest(self.executable)

    def lasting(self) -> frozenset[int]:
        """The inputs of which executables may keep what they make (Note [kept for calls])."""
        if self.derivative is not None or CONTEXT.grad_enabled:
            return frozenset()
        return lasting_inputs(self.sources, self.effects)

    # -- whether it stands for a call --------------------------------------------------------------

    def recall(self, leaves: Sequence[Any]) -> list[Any] | None:
        """The host's numbers for this call, as `__call__` takes them; None: it does not stand."""
        apart = self.conditions.sharing.apart
        if apart and not apart.isdisjoint(map(id, leaves)):
            return None
        if self.particular and not self.conditions.particulars_hold(leaves):
            return None
        python = self.python
        if python is None or not python.tested:
            return self.inputs.numbers()
        python.begin()  # a trial
        try:
            return self.inputs.numbers()
        finally:
            python.put_back()

    # -- the call ----------------------------------------------------------------------------------

    def __call__(self, leaves: Sequence[Any], given: Any = None, hosts: list[Any] = UNREAD) -> Any:
        """Run the graph, then carry out the effects; an error before that changes nothing.

        `hosts` are the numbers that `recall` gave for this call.
        """
        for slot in self.conditions.numbers:
            slot.value = leaves[slot.place]
        python, ready, shown = self.python, self.inputs, self.shown
        try:
            if python is not None:
                python.begin()
            if hosts is UNREAD and ready.host_count:
                hosts = ready.read_hosts()
        except (ArithmeticError, ValueError) as error:  # Python raises it where the function does
            if python is not None:
                python.put_back()
            if raised_outside(error):
                raise
            raise Raised(error, by_program=True) from None
        inputs = ready.fixed.copy()
        for position in ready.windows:
            inputs.append(leaves[position]._array)
        for source in ready.others:
            inputs.append(source.given(leaves))
        inputs += hosts
        changes = self.changes
        targets = changes.targets
        if targets is None:
            targets = [source.array(leaves) for source, _ in self.effects.writes]
        node = None
        try:
            if FOREIGN.seen and self.overlaps is not None:
                self.overlaps.check(inputs)
            if shown.refusals is None and self.derivative is not None:
                node = self._node(leaves, inputs)
            arrays = self.run(inputs, targets)
            changes.count_writes(changes.written, changes.write_counts)
            for source, count in changes.written_others:
                source.storage(leaves).version += count
        except BaseException as error:
            if targets:
                others = [source.storage(leaves) for source, _ in changes.written_others]
                doubt(*changes.written, *others)
            if python is not None:
                python.put_back()
            if (
                not self.catches
                or isinstance(error, MemoryError)
                or not isinstance(error, Exception)
                or raised_outside(error)
            ):
                raise
            raise Raised(error, by_program=True) from None
        for k, strides in shown.layouts:
            arrays[k] = laid_out(arrays[k], strides)
        roots = shown.wrap(arrays, shown.root_outputs)
        if shown.refusals is not None and not CONTEXT.inference:
            for i, error_node in shown.refusals:
                roots[i]._node, roots[i]._requires_grad = error_node.fresh(), True
        elif shown.special or CONTEXT.inference:
            self._place(leaves, roots, node, arrays)
        for ref in changes.wanting:  # before views of them are made
            ref.of(leaves)._requires_grad = True
        tensors = roots if shown.roots_are_results else self._made(leaves, roots, node)
        if changes.after:
            self._change(leaves, tensors)
        if python is not None:
            return python.finish(tensors, given)
        if shown.single is not None:
            return tensors[shown.single]
        return unflatten(self.results.structure, [tensors[i] for i in self.results.leaves])

    def _change(self, leaves: Sequence[Any], tensors: list[Any]) -> None:
        """Set gradients and flags, and move generators; `tensors` are what the recipes made."""
        changes = self.changes
        for meta, i in changes.metas:
            meta.grad = tensors[i]
        for position, i in changes.argument_grads:
            meta_of(leaves[position]).grad = tensors[i]
        for result in self.results.retained:
            if tensors[result].requires_grad:
                retain_grad(tensors[result])
        for result, i in self.effects.result_grads:
            meta_of(tensors[result]).grad = tensors[i]
        for ref in changes.unwanting:
            ref.of(leaves)._requires_grad = False
        if changes.moves is not None:
            changes.moves.carry_out()

    def _made(self, leaves: Sequence[Any], roots: list[Tensor], node: Any) -> list[Any]:
        """What the recipes make, in their order; tensors come to show other memory meanwhile."""
        effects, recipes = self.effects, self.results.recipes
        for ref in effects.detached:
            tensor = ref.of(leaves)
            tensor._node, tensor._nr, tensor._requires_grad, tensor._base = None, 0, False, None
        for ref, other in effects.joined:
            tensor, place = ref.of(leaves), other.of(leaves)
            tensor._node, tensor._nr, tensor._requires_grad = place._node, place._nr, True
        for k in self.shown.for_inference:
            roots[k]._storage.version = INFERENCE_VERSION
        call = Making(leaves, roots, partial(self._put_on_tape, node))
        tensors = call.results
        for i, n in enumerate(self.shown.shortcuts):
            tensors.append(roots[n] if n >= 0 else None if n == LATE else recipes[i].make(call))
        for (ref, shown, how), late in zip(effects.rebound, self.results.late, strict=True):
            tensor = ref.of(leaves)
            if how == "data":
                tensor.data = tensors[shown]
            else:
                take_window(tensor, _apart_from(tensor, tensors[shown]))
            for i in late:
                tensors[i] = recipes[i].make(call)
        for i, kind, attributes in self.results.kinds:
            tensors[i].__class__ = kind
            tensors[i].__dict__.update(attributes)
        for k, i in self.shown.inner_targets if node is not None else ():
            node.lead(k, edge_of(tensors[i]))
        return tensors

    # -- the tape ----------------------------------------------------------------------------------

    def _node(self, leaves: Sequence[Any], inputs: list[Any]) -> Any:
        """The node of this call, made before the program can change what it saves."""
        derivative: Derivative = self.derivative  # type: ignore[assignment]
        wanting = [ref.of(leaves) for ref in self.changes.wanting]
        flags = [tensor._requires_grad for tensor in wanting]
        for tensor in wanting:  # the function asks for their gradients before it uses them
            tensor._requires_grad = True
        edges = [
            target.edge if target.ref is None else edge_of(target.ref.of(leaves))
            for target in derivative.targets
        ]
        for tensor, flag in zip(wanting, flags, strict=True):
            tensor._requires_grad = flag
        saved = [
            given if isinstance(source, Host) else tensor_on(source, leaves)
            for source, given in zip(self.sources, inputs, strict=True)
        ]
        node = ProgramNode(derivative, edges, saved, list(leaves))
        node.note_versions()
        return node

    def _place(
        self, leaves: Sequence[Any], roots: list[Tensor], node: Any, results: list[Any]
    ) -> None:
        """Put fresh tensors, and those written in place, where they are on the tape."""
        made_of = self.results.roots
        if isinstance(node, ProgramNode):
            seen = {root.output: t for root, t in zip(made_of, roots, strict=True)}
            for k, source in node.derivative.written.items():
                seen[k] = tensor_on(source, leaves)
            node.save(results, seen)
        for tensor, root in zip(roots, made_of, strict=True):
            mark_birth(tensor._storage)
            if root.seed is not None:
                self._put_on_tape(node, tensor, root.seed)
        for ref, seed in self.effects.places:
            self._put_on_tape(node, ref.of(leaves), seed)

    def _put_on_tape(self, node: Any, tensor: Tensor, seed: int) -> None:
        """Make a tensor a result of the program's node, or of one that refuses."""
        refused = self.derivative.refused.get(seed)  # type: ignore[union-attr]
        tensor._node, tensor._nr = (node, seed) if refused is None else (refusal(refused), 0)
        tensor._requires_grad = True


def _apart_from(tensor: Tensor, view: Tensor) -> Tensor:
    """A view that a tensor is about to become: if of the tensor itself, then of what it was."""
    if view._base is not None and view._base[0] is tensor:
        view._base = (alias_with_history(tensor), view._base[1])
    return view
