"""Replaying a program: a call of it, with all that is known beforehand laid ready."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from adjoint.engine.autodiff.tape.hooks import retain_grad
from adjoint.engine.autodiff.tape.node import ErrorNode, edge_of
from adjoint.engine.capture.backward.derivative import Derivative
from adjoint.engine.capture.backward.program_node import ProgramNode
from adjoint.engine.capture.program.hosts import checked_reader, reader
from adjoint.engine.capture.program.layouts import laid_out
from adjoint.engine.capture.program.overlaps import Overlaps
from adjoint.engine.capture.program.recipes import Made, Making, tensor_on
from adjoint.engine.capture.python.errors import Raised
from adjoint.engine.core.identity.number_key import number_key
from adjoint.engine.core.operations.dispatch import mark_birth
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT, INFERENCE_VERSION
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.core.tree import unflatten
from adjoint.engine.graph.execution import Executable, ExecutorFactory, Task, one_at_a_time
from adjoint.engine.graph.record.sources import Argument, GradOf, Host, Source, State
from adjoint.engine.tensor.storage import FOREIGN, Storage, count_writes
from adjoint.engine.tensor.tensor import (
    Tensor,
    alias_with_history,
    meta_of,
    wrap_places,
)
from adjoint.engine.tensor.writing.mutation import take_window

if TYPE_CHECKING:
    from adjoint.engine.capture.program.program import Program

UNREAD: list[Any] = []  # in the place of numbers that are read later
LATE = -2  # in the place of a root: made after tensors came to show other memory


class PreparedCall:
    """What runs a program; calling it with the leaves of the arguments does."""

    executable: Executable | None = None  # runs the graph; made by `compile`
    run: Executable  # the same, one call at a time
    overlaps: Overlaps | None = None
    count_writes: Callable[[tuple[Storage, ...], tuple[int, ...]], None]
    wrap: Callable[[list[Any], tuple[int, ...]], list[Tensor]]

    def __init__(self, program: Program) -> None:
        self.conditions = program.conditions
        self.results = program.results
        self.effects = program.effects
        self.derivative = program.derivative
        self.sources = program.sources
        self.catches = program.origin.catches
        self._prepare_inputs()
        self._prepare_writes()
        self._prepare_results()

    def _prepare_inputs(self) -> None:
        sources, conditions = self.sources, self.conditions
        self.apart = conditions.sharing.apart
        self.particular = conditions.particular
        self.slots = conditions.numbers
        self.fixed = [s.held.buffer for s in sources if isinstance(s, State)]
        arguments = [s for s in sources if isinstance(s, Argument)]
        simple = not any(s.whole for s in arguments)
        self.windows = [s.position for s in arguments] if simple else []
        self.others: list[Source] = [] if simple else list(arguments)
        self.others += [s for s in sources if isinstance(s, GradOf)]
        hosts = [s.scalar for s in sources if isinstance(s, Host)]
        self.host_count = len(hosts)
        self.read_hosts = reader(hosts)
        tests = [
            (_keyed(test, outcome), _outcome(outcome)) for test, outcome in conditions.host_tests
        ]
        # Counters that were alike in the trace, and must be so in every call.
        counters = [[c._array.item for c in g] for g in conditions.counters if len(g) > 1]
        self.test_hosts = checked_reader(tests, counters, [])
        # Numbers made from draws are known once the call has drawn.
        self.python = python = self.effects.python
        self.trial = python is not None and python.tested
        self.early = python is None or not (python.replay.draws or python.tested)
        self.recall_hosts = (
            checked_reader(tests, counters, hosts) if self.early else self.test_hosts
        )

    def _prepare_writes(self) -> None:
        effects = self.effects
        written = [s for s, _ in effects.writes]
        states = [s for s in written if isinstance(s, State)]
        self.targets = [s.held.buffer for s in states] if len(states) == len(written) else None
        counted = list(zip(written, effects.write_counts, strict=True))
        self.written = tuple([s.held for s, _ in counted if isinstance(s, State)])
        self.write_counts = tuple([n for s, n in counted if isinstance(s, State)])
        self.count_writes, self.wrap = HOOKS.objects or (count_writes, wrap_places)
        self.written_others = [(s, n) for s, n in counted if not isinstance(s, State)]
        self.wanting = [ref for ref, flag in effects.flags if flag]
        self.unwanting = [ref for ref, flag in effects.flags if not flag]
        self.moves = effects.moves if effects.moves.any else None
        self.metas = [  # a tensor keeps the one it has
            (meta_of(ref.tensor), i)
            for ref, i in effects.grads
            if ref.position is None and ref.tensor is not None
        ]
        self.argument_grads = [
            (ref.position, i) for ref, i in effects.grads if ref.position is not None
        ]
        self.result_grads = effects.result_grads

    def _prepare_results(self) -> None:
        effects, results, derivative = self.effects, self.results, self.derivative
        self.layouts = [(r.output, r.strides) for r in results.roots if r.strides is not None]
        self.root_outputs = tuple([root.output for root in results.roots])
        self.special = bool(effects.places) or derivative is not None
        late = {i for step in results.late for i in step}
        self.shortcuts = [
            LATE if i in late
            else r.root if type(r) is Made and r.itself and not r.leaf
            else -1
            for i, r in enumerate(results.recipes)
        ]  # fmt: skip
        self.inner_targets = [
            (k, t.result)
            for k, t in enumerate(() if derivative is None else derivative.targets)
            if t.result is not None
        ]
        self.for_inference = [k for k, root in enumerate(results.roots) if root.inference]
        self.roots_are_results = self.shortcuts == list(range(len(results.roots))) and not (
            effects.rebound
            or effects.detached
            or results.kinds
            or effects.joined
            or self.for_inference
        )
        self.retained = results.retained
        self.refusals = self._refusals()
        self.single = results.leaves[0] if results.structure.kind is None else None

    def _refusals(self) -> list[tuple[int, ErrorNode]] | None:
        """Nodes for roots whose part of the tape was used up inside; None if it was not.

        A second backward is refused as eager execution refuses it, and the result prints alike.
        """
        derivative = self.derivative
        if derivative is None or self.effects.places:
            return None
        if len(derivative.refused) < len(derivative.seeds):
            return None
        return [
            (i, _refusal(derivative.refused[root.seed]))
            for i, root in enumerate(self.results.roots)
            if root.seed is not None
        ]

    def compile(self, program: Program, leaves: Sequence[Any], factory: ExecutorFactory) -> None:
        """Have the executable made; `leaves` are the arguments of the call it is made for."""
        returned = {root.output for root in self.results.roots}
        if self.derivative is not None:
            residuals = {k for kind, k in self.derivative.residuals if kind == "output"}
            returned |= residuals - self.derivative.written.keys()
            self.derivative.factory = factory
        writes = self.effects.writes
        self.overlaps = self._overlaps()
        self.executable = factory(
            Task(
                graph=program.graph,
                sources=tuple(self.sources),
                writes=tuple(writes),
                returned=frozenset(returned),
                examples=tuple([source.given(leaves) for source in self.sources]),
                targets=tuple([source.array(leaves) for source, _ in writes]),
                sizing=program.origin.sizing,
            )
        )
        # Where calls may not overlap a lock is held already.
        locked = program.one_at_a_time
        self.run = self.executable if locked else one_at_a_time(self.executable)

    def _overlaps(self) -> Overlaps | None:
        """What calls have to look at before they write (Note [overlaps])."""
        writes = self.effects.writes
        if not writes:
            return None
        changed = {id(source) for source, _ in writes}
        given = {
            k: id(source) in changed
            for k, source in enumerate(self.sources)
            if isinstance(source, (Argument, GradOf))
        }
        written = [s.held.buffer for s, _ in writes if isinstance(s, State)]
        return Overlaps(self.fixed, written, given)

    # -- whether it stands for a call --------------------------------------------------------------

    def recall(self, leaves: Sequence[Any]) -> list[Any] | None:
        """The host's numbers for this call, as `__call__` takes them; None: it does not stand."""
        if self.apart and not self.apart.isdisjoint(map(id, leaves)):
            return None
        if self.particular and not self.conditions.particulars_hold(leaves):
            return None
        if not self.trial:
            return self._numbers()
        self.python.begin()  # type: ignore[union-attr]
        try:
            return self._numbers()
        finally:
            self.python.put_back()  # type: ignore[union-attr]

    def _numbers(self) -> list[Any] | None:
        """The host's numbers for a call, None where the tests of them come out otherwise.

        `UNREAD`: they are known, or raise, when the call runs.
        """
        try:
            numbers = self.recall_hosts()
            return numbers if self.early or numbers is None else UNREAD
        except (ArithmeticError, ValueError):
            pass
        try:  # a test that another keeps from failing
            return None if self.test_hosts() is None else UNREAD
        except (ArithmeticError, ValueError):  # Python did not come to it, or raises it itself
            return None

    # -- the call ----------------------------------------------------------------------------------

    def __call__(self, leaves: Sequence[Any], given: Any = None, hosts: list[Any] = UNREAD) -> Any:
        """Run the graph, then carry out the effects; an error before that changes nothing.

        `hosts` are the numbers that `recall` gave for this call.
        """
        for slot in self.slots:
            slot.value = leaves[slot.place]
        python = self.python
        try:
            if python is not None:
                python.begin()
            if hosts is UNREAD and self.host_count:
                hosts = self.read_hosts()
        except (ArithmeticError, ValueError) as error:  # Python raises it where the function does
            if python is not None:
                python.put_back()
            raise Raised(error, by_program=True) from None
        inputs = self.fixed.copy()
        for position in self.windows:
            inputs.append(leaves[position]._array)
        for source in self.others:
            inputs.append(source.given(leaves))
        inputs += hosts
        targets = self.targets
        if targets is None:
            targets = [source.array(leaves) for source, _ in self.effects.writes]
        if FOREIGN.seen and self.overlaps is not None:
            self.overlaps.check(inputs)
        node = None
        if self.refusals is None and self.derivative is not None:
            node = self._node(leaves, inputs)
        try:
            results = self.run(inputs, targets)
        except Exception as error:
            if not self.catches or isinstance(error, MemoryError):
                raise
            if python is not None:
                python.put_back()
            raise Raised(error, by_program=True) from None
        self.count_writes(self.written, self.write_counts)
        for source, count in self.written_others:
            source.storage(leaves).version += count
        for k, strides in self.layouts:
            results[k] = laid_out(results[k], strides)
        roots = self.wrap(results, self.root_outputs)
        if self.refusals is not None and not CONTEXT.inference:
            for i, refusal in self.refusals:
                roots[i]._node, roots[i]._requires_grad = refusal.fresh(), True
        elif self.special or CONTEXT.inference:
            self._place(leaves, roots, node, results)
        for ref in self.wanting:  # before views of them are made
            ref.of(leaves)._requires_grad = True
        made = roots if self.roots_are_results else self._made(leaves, roots, node)
        for meta, i in self.metas:
            meta.grad = made[i]
        for position, i in self.argument_grads:
            meta_of(leaves[position]).grad = made[i]
        for result in self.retained:
            if made[result].requires_grad:
                retain_grad(made[result])
        for result, i in self.result_grads:
            meta_of(made[result]).grad = made[i]
        for ref in self.unwanting:
            ref.of(leaves)._requires_grad = False
        if self.moves is not None:
            self.moves.carry_out()
        if python is not None:
            return python.finish(made, given)
        if self.single is not None:
            return made[self.single]
        return unflatten(self.results.structure, [made[i] for i in self.results.leaves])

    def _made(self, leaves: Sequence[Any], roots: list[Tensor], node: Any) -> list[Any]:
        """What the recipes make, in their order; tensors come to show other memory meanwhile."""
        effects, recipes = self.effects, self.results.recipes
        for ref in effects.detached:
            tensor = ref.of(leaves)
            tensor._node, tensor._nr, tensor._requires_grad, tensor._base = None, 0, False, None
        for ref, other in effects.joined:
            tensor, place = ref.of(leaves), other.of(leaves)
            tensor._node, tensor._nr, tensor._requires_grad = place._node, place._nr, True
        for k in self.for_inference:
            roots[k]._storage.version = INFERENCE_VERSION
        call = Making(leaves, roots, partial(self._put_on_tape, node))
        made = call.made
        for i, n in enumerate(self.shortcuts):
            made.append(roots[n] if n >= 0 else None if n == LATE else recipes[i].make(call))
        for (ref, shown, how), late in zip(effects.rebound, self.results.late, strict=True):
            tensor = ref.of(leaves)
            if how == "data":
                tensor.data = made[shown]
            else:
                take_window(tensor, _apart_from(tensor, made[shown]))
            for i in late:
                made[i] = recipes[i].make(call)
        for i, kind, attributes in self.results.kinds:
            made[i].__class__ = kind
            made[i].__dict__.update(attributes)
        for k, i in self.inner_targets if node is not None else ():
            node.lead(k, edge_of(made[i]))
        return made

    # -- the tape ----------------------------------------------------------------------------------

    def _node(self, leaves: Sequence[Any], inputs: list[Any]) -> Any:
        """The node of this call, made before the program can change what it saves."""
        derivative: Derivative = self.derivative  # type: ignore[assignment]
        wanting = [ref.of(leaves) for ref in self.wanting]
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
        tensor._node, tensor._nr = (node, seed) if refused is None else (_refusal(refused), 0)
        tensor._requires_grad = True


def _refusal(refused: tuple[str, str]) -> ErrorNode:
    """What is in the place of a node that was used up inside."""
    message, name = refused
    return ErrorNode(message, (), name)


def _outcome(outcome: Any) -> Any:
    """The outcome of a test for comparison: of a float, its key."""
    return number_key(outcome) if isinstance(outcome, (float, complex)) else outcome


def _keyed(test: HostScalar, outcome: Any) -> HostScalar:
    """A test that gives what `_outcome` compares."""
    floats = isinstance(outcome, (float, complex))
    return HostScalar.computed(number_key, test) if floats else test


def _apart_from(tensor: Tensor, view: Tensor) -> Tensor:
    """A view that a tensor is about to become: if of the tensor itself, then of what it was."""
    if view._base is not None and view._base[0] is tensor:
        view._base = (alias_with_history(tensor), view._base[1])
    return view
