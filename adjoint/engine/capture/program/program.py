"""A finished recording: graph, sources of its inputs, results and effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from adjoint.engine.autodiff.tape.hooks import retain_grad
from adjoint.engine.autodiff.tape.node import edge_of
from adjoint.engine.capture.backward.derivative import Derivative, differentiate
from adjoint.engine.capture.backward.hooks import check_hooks
from adjoint.engine.capture.backward.outside import tape_outside_holds
from adjoint.engine.capture.backward.program_node import ProgramNode
from adjoint.engine.capture.program.effects import Effects, times_written
from adjoint.engine.capture.program.layouts import laid_out
from adjoint.engine.capture.program.outputs import Outputs
from adjoint.engine.capture.program.overlaps import Overlaps
from adjoint.engine.capture.program.prepared import LATE, UNREAD, PreparedCall, refusal
from adjoint.engine.capture.program.python_state import PythonState, python_state
from adjoint.engine.capture.program.recipes import Making, OutsideTensor, Recipe, Root
from adjoint.engine.capture.program.sharing import (
    alias_pattern,
    base_of,
    bases,
    grad_pattern,
    reached_gradients,
)
from adjoint.engine.capture.python import Guards, Observation
from adjoint.engine.capture.python.errors import Raised
from adjoint.engine.capture.python.plain import same
from adjoint.engine.core.operations.dispatch import mark_birth
from adjoint.engine.core.state.context import CONTEXT, INFERENCE_VERSION
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.core.state.rng import seed_all
from adjoint.engine.core.tree import TreeDef, flatten, unflatten
from adjoint.engine.graph.execution import Executable, ExecutorFactory, Task, one_at_a_time
from adjoint.engine.graph.ir import DataflowGraph
from adjoint.engine.graph.record.sources import Argument, GradOf, Host, Source, State
from adjoint.engine.graph.record.streams import Moves
from adjoint.engine.graph.record.trace import Trace
from adjoint.engine.graph.sizes.sizing import Sizing
from adjoint.engine.graph.text import to_text
from adjoint.engine.graph.verify import verify, verifying
from adjoint.engine.tensor.storage import FOREIGN, Storage
from adjoint.engine.tensor.tensor import (
    Tensor,
    alias,
    alias_with_history,
    meta_of,
    wrap,
)
from adjoint.engine.tensor.writing.mutation import take_window

_ORDER = {State: 0, Argument: 1, GradOf: 2, Host: 3}


@dataclass(eq=False, slots=True)
class Program:
    """What `Captured` keeps per signature; calling it with the argument leaves runs it."""

    graph: DataflowGraph
    sources: list[Source]  # states, arguments, gradients, host numbers, in this order
    structure: TreeDef
    results: list[int]  # which recipe makes each leaf of what is returned
    recipes: list[Recipe]
    roots: list[Root]
    writes: list[tuple[Source, int]]
    write_counts: list[int]  # how often each of them was written to
    grads: list[tuple[OutsideTensor, int]]  # tensors and the recipes of their new gradients
    result_grads: list[tuple[int, int]]  # the same for results, by their recipes
    retained: list[int]  # results that keep the gradients that arrive at them
    places: list[tuple[OutsideTensor, int]]  # tensors written on the tape: which seed they become
    flags: list[tuple[OutsideTensor, bool]]
    moves: Moves  # where generators are left
    detached: list[OutsideTensor]  # tensors that were taken off the tape
    joined: list[tuple[OutsideTensor, OutsideTensor]]  # tensors and whose place there they take
    rebound: list[tuple[OutsideTensor, int, str]]  # tensors and the recipes of what they show now
    kinds: list[tuple[int, type, dict[str, Any]]]  # results of subclasses, with attributes
    late: list[list[int]]  # for each of those, the recipes that are made after it
    guards: list[tuple[Callable[[], bool], str]]
    counters: list[list[Tensor]]  # step counts read as one
    grads_seen: list[
        tuple[OutsideTensor, Any]
    ]  # None, or spec and strides of the gradient that was there
    host_guards: list[tuple[HostScalar, Any]]
    states: list[Storage]
    python: PythonState | None  # what is done to Python's state
    derivative: Derivative | None
    dependence: Guards | None = None  # what the function read; set after the trace
    pattern: tuple[Any, ...] = ()  # see `alias_pattern`; set after the trace, as the next one is
    grad_pattern: tuple[Any, ...] = ()
    numbers: list[Any] = field(default_factory=list)  # `Slot`s of float arguments
    pinned: list[tuple[int, Tensor]] = field(
        default_factory=list
    )  # arguments reached otherwise too
    # Of arguments that are put on the tape, whether and of what they are views.
    bases: list[tuple[int, Tensor | None]] = field(default_factory=list)
    # What the function asked tensors, and the answers; set after the trace.
    looks: list[tuple[OutsideTensor, Callable[[Any], Any], Any]] = field(default_factory=list)
    apart: frozenset[int] = frozenset()  # tensors it reaches that are no arguments, by id
    once: bool = False  # whether it stands for no other call: Note [tapes from outside]
    # Nodes from outside that backward went through, as the first call leaves them.
    used_up: list[tuple[Any, Any]] = field(default_factory=list)
    catches: bool = False  # whether the function may end exceptions: Note [exceptions]
    sizing: Sizing | None = None  # of a program made from one with dynamic sizes
    restore: Callable[[], None] | None = None  # takes back state made in the trace; until it ran
    executable: Executable | None = None  # runs the graph; made by `prepare`
    plan: PreparedCall | None = None
    used: int = 0  # when it was found last, in calls of all functions
    modules: list[Callable[[], Any]] = field(default_factory=list)  # outermost ones, weakly

    @property
    def effects(self) -> bool:
        """Whether a call changes anything besides making results."""
        changes = self.writes or self.grads or self.places or self.numbers or self.python
        changes = changes or self.rebound or self.detached or self.joined
        return bool(changes) or self.plan.effects  # type: ignore[union-attr]

    def valid(self, leaves: Sequence[Any]) -> bool:
        """Whether the recording stands for this call."""
        return (
            (self.dependence is None or self.dependence.holds())
            and alias_pattern(leaves, self.states) == self.pattern
            and self.holds(leaves)
            and (self.dependence is None or self.dependence.asked_hold())
        )

    def fits(self, leaves: Sequence[Any]) -> bool:
        """Whether a program that is not prepared yet stands for a call of this signature."""
        self.plan = PreparedCall(self)
        return self.holds(leaves)

    def holds(self, leaves: Sequence[Any]) -> bool:
        """Whether what the function found out about the host is still so."""
        return self.recall(leaves) is not None

    def recall(self, leaves: Sequence[Any]) -> list[Any] | None:
        """The host's numbers for this call, as `__call__` takes them; None: it does not hold."""
        plan: PreparedCall = self.plan  # type: ignore[assignment]
        if self.apart and not self.apart.isdisjoint(map(id, leaves)):
            return None
        few = self.pinned or self.bases or self.looks or self.numbers or self.grads_seen
        if (few or self.guards) and not self._particulars_hold(leaves):
            return None
        python = self.python
        if python is None or not python.tested:
            return plan.numbers()
        python.begin()  # a trial
        try:
            return plan.numbers()
        finally:
            python.put_back()

    def _particulars_hold(self, leaves: Sequence[Any]) -> bool:
        """Whether what few functions look at is as it was; floats of this call are put in place."""
        for position, tensor in self.pinned:
            if leaves[position] is not tensor:
                return False
        for position, base in self.bases:
            if base_of(leaves[position]) is not base:
                return False
        for ref, read, answer in self.looks:
            if not same(read(ref.of(leaves)), answer):
                return False
        for slot in self.numbers:
            slot.value = leaves[slot.place]
        if self.grads_seen and not self._grads_hold(leaves):
            return False
        return not self.guards or all(holds() for holds, _ in self.guards)

    def _grads_hold(self, leaves: Sequence[Any]) -> bool:
        """Whether gradients that were looked for are there, or not, as they were."""
        there = []
        for ref, expected in self.grads_seen:
            meta = ref.of(leaves)._grad_meta
            grad = None if meta is None else meta.grad
            if grad is None or expected is None:
                if grad is not expected:
                    return False
                continue
            if (grad._spec, grad.stride()) != expected:
                return False
            there.append(grad)
        return not there or grad_pattern(leaves, self.states, there) == self.grad_pattern

    def prepare(self, leaves: Sequence[Any], factory: ExecutorFactory) -> None:
        """Have the executable made, once the trace is over; `leaves` are the arguments it had."""
        returned = {root.output for root in self.roots}
        if self.derivative is not None:
            residuals = {k for kind, k in self.derivative.residuals if kind == "output"}
            returned |= residuals - self.derivative.written.keys()
            self.derivative.factory = factory
        self.plan = self.plan or PreparedCall(self)
        self.plan.overlaps = self._overlaps()
        self.executable = factory(
            Task(
                graph=self.graph,
                sources=tuple(self.sources),
                writes=tuple(self.writes),
                returned=frozenset(returned),
                examples=tuple([source.given(leaves) for source in self.sources]),
                targets=tuple([source.array(leaves) for source, _ in self.writes]),
                sizing=self.sizing,
            )
        )
        # A call with effects holds a lock already.
        self.plan.run = self.executable if self.effects else one_at_a_time(self.executable)

    def _overlaps(self) -> Overlaps | None:
        """What calls have to look at before they write (Note [overlaps])."""
        if not self.writes:
            return None
        changed = {id(source) for source, _ in self.writes}
        given = {
            k: id(source) in changed
            for k, source in enumerate(self.sources)
            if isinstance(source, (Argument, GradOf))
        }
        states = [s.held.buffer for s in self.sources if isinstance(s, State)]
        written = [s.held.buffer for s, _ in self.writes if isinstance(s, State)]
        return Overlaps(states, written, given)

    def __call__(self, leaves: Sequence[Any], given: Any = None, hosts: list[Any] = UNREAD) -> Any:
        """Run the graph, then carry out the effects; an error before that changes nothing.

        `hosts` are the numbers that `recall` gave for this call.
        """
        plan: PreparedCall = self.plan  # type: ignore[assignment]
        for slot in self.numbers:
            slot.value = leaves[slot.place]
        python = self.python
        try:
            if python is not None:
                python.begin()
            if hosts is UNREAD and plan.host_count:
                hosts = plan.read_hosts()
        except (ArithmeticError, ValueError) as error:  # Python raises it where the function does
            if python is not None:
                python.put_back()
            raise Raised(error, by_program=True) from None
        inputs = plan.fixed.copy()
        for position in plan.windows:
            inputs.append(leaves[position]._array)
        for source in plan.others:
            inputs.append(source.given(leaves))
        inputs += hosts
        targets = plan.targets
        if targets is None:
            targets = [source.array(leaves) for source, _ in self.writes]
        if FOREIGN.seen and plan.overlaps is not None:
            plan.overlaps.check(inputs)
        node = None
        if plan.refusals is None and self.derivative is not None:
            node = self._node(leaves, inputs)
        try:
            results = plan.run(inputs, targets)
        except Exception as error:
            if not self.catches or isinstance(error, MemoryError):
                raise
            if python is not None:
                python.put_back()
            raise Raised(error, by_program=True) from None
        plan.count_writes(plan.written, plan.write_counts)
        for source, count in plan.written_others:
            source.storage(leaves).version += count
        for k, strides in plan.layouts:
            results[k] = laid_out(results[k], strides)
        roots = plan.wrap(results, plan.root_outputs)
        if plan.refusals is not None and not CONTEXT.inference:
            for i, refusal in plan.refusals:
                roots[i]._node, roots[i]._requires_grad = refusal.fresh(), True
        elif plan.special or CONTEXT.inference:
            self._place(leaves, roots, node, results)
        for ref in plan.wanting:  # before views of them are made
            ref.of(leaves)._requires_grad = True
        made = roots if plan.roots_are_results else self._made(leaves, roots, node)
        for meta, i in plan.metas:
            meta.grad = made[i]
        for position, i in plan.argument_grads:
            meta_of(leaves[position]).grad = made[i]
        for result in self.retained:
            if made[result].requires_grad:
                retain_grad(made[result])
        for result, i in self.result_grads:
            meta_of(made[result]).grad = made[i]
        if plan.effects:
            self._carry_out(leaves)
        if python is not None:
            return python.finish(made, given)
        if plan.single:
            return made[self.results[0]]
        return unflatten(self.structure, [made[i] for i in self.results])

    def _made(self, leaves: Sequence[Any], roots: list[Tensor], node: Any) -> list[Any]:
        """What the recipes make, in their order; tensors come to show other memory meanwhile."""
        plan: PreparedCall = self.plan  # type: ignore[assignment]
        for ref in self.detached:
            tensor = ref.of(leaves)
            tensor._node, tensor._nr, tensor._requires_grad, tensor._base = None, 0, False, None
        for ref, other in self.joined:
            tensor, place = ref.of(leaves), other.of(leaves)
            tensor._node, tensor._nr, tensor._requires_grad = place._node, place._nr, True
        for k in plan.for_inference:
            roots[k]._storage.version = INFERENCE_VERSION
        call = Making(leaves, roots, partial(self._put_on_tape, node))
        made = call.made
        for i, n in enumerate(plan.shortcuts):
            made.append(roots[n] if n >= 0 else None if n == LATE else self.recipes[i].make(call))
        for (ref, shown, how), late in zip(self.rebound, self.late, strict=True):
            tensor = ref.of(leaves)
            if how == "data":
                tensor.data = made[shown]
            else:
                take_window(tensor, _apart_from(tensor, made[shown]))
            for i in late:
                made[i] = self.recipes[i].make(call)
        for i, kind, attributes in self.kinds:
            made[i].__class__ = kind
            made[i].__dict__.update(attributes)
        for k, i in plan.inner_targets if node is not None else ():
            node.lead(k, edge_of(made[i]))
        return made

    def _node(self, leaves: Sequence[Any], inputs: list[Any]) -> Any:
        """The node of this call, made before the program can change what it saves."""
        derivative: Derivative = self.derivative  # type: ignore[assignment]
        wanting = [ref.of(leaves) for ref in self.plan.wanting]  # type: ignore[union-attr]
        flags = [tensor._requires_grad for tensor in wanting]
        for tensor in wanting:  # the function asks for their gradients before it uses them
            tensor._requires_grad = True
        edges = [
            target.edge if target.ref is None else edge_of(target.ref.of(leaves))
            for target in derivative.targets
        ]
        for tensor, flag in zip(wanting, flags, strict=True):
            tensor._requires_grad = flag
        saved: list[Any] = []
        for source, given in zip(self.sources, inputs, strict=True):
            if isinstance(source, Host):
                saved.append(given)
            else:
                saved.append(_shown(source, leaves))
        node = ProgramNode(derivative, edges, saved, list(leaves))
        node.note_versions()
        return node

    def _place(
        self, leaves: Sequence[Any], roots: list[Tensor], node: Any, results: list[Any]
    ) -> None:
        """Put fresh tensors, and those written in place, where they are on the tape."""
        if isinstance(node, ProgramNode):
            seen = {root.output: t for root, t in zip(self.roots, roots, strict=True)}
            for k, source in node.derivative.written.items():
                seen[k] = _shown(source, leaves)
            node.save(results, seen)
        for tensor, root in zip(roots, self.roots, strict=True):
            mark_birth(tensor._storage)
            if root.seed is not None:
                self._put_on_tape(node, tensor, root.seed)
        for ref, seed in self.places:
            self._put_on_tape(node, ref.of(leaves), seed)

    def _put_on_tape(self, node: Any, tensor: Tensor, seed: int) -> None:
        """Make a tensor a result of the program's node, or of one that refuses."""
        refused = self.derivative.refused.get(seed)  # type: ignore[union-attr]
        tensor._node, tensor._nr = (node, seed) if refused is None else (refusal(refused), 0)
        tensor._requires_grad = True

    def _carry_out(self, leaves: Sequence[Any]) -> None:
        for ref, flag in self.flags:
            if not flag:
                ref.of(leaves)._requires_grad = False
        move_generators(self.moves)

    def explain(self) -> str:
        """What the graph runs as."""
        tell = getattr(self.executable, "explain", None)
        return str(tell()) if tell is not None else f"{len(self.graph)} nodes, interpreted"

    def text(self) -> str:
        """The graph as Python."""
        return to_text(self.graph)


def move_generators(moves: Moves) -> None:
    """Leave generators where the function left them."""
    if not moves.starts and moves.everywhere is None:
        for generator, count in moves.counts:
            generator.advance(count)
        return
    places = [(generator, *generator.position(), count) for generator, count in moves.counts]
    places += [(g, start.seed.get(), start.offset.get(), n) for g, start, n in moves.starts]
    if moves.everywhere is not None:
        seed_all(moves.everywhere.get())
    for generator, seed, offset, count in places:
        generator.move(seed, offset + count)


def _shown(source: Source, leaves: Sequence[Any]) -> Tensor:
    """A tensor on the memory of a source."""
    if isinstance(source, Argument) and not source.whole:
        return alias(leaves[source.position])
    shown = wrap(source.array(leaves))
    shown._storage = source.storage(leaves)
    return shown


def _apart_from(tensor: Tensor, view: Tensor) -> Tensor:
    """A view that a tensor is about to become: if of the tensor itself, then of what it was."""
    if view._base is not None and view._base[0] is tensor:
        view._base = (alias_with_history(tensor), view._base[1])
    return view


def build(
    trace: Trace,
    result: Any,
    leaves: list[Any],
    observation: Observation,
    reached: Sequence[Tensor],
) -> Program:
    """Turn a trace that has run to its end into a program (before the trace is undone)."""
    outputs = Outputs(trace, leaves, reached)
    python = python_state(observation, result, outputs)
    known = len(observation.effects), len(observation.recorder.guards)
    flat, structure = flatten(result if python is None else ())
    results = [outputs.recipe(x) for x in flat]
    rebound = [(outputs.ref(t), outputs.recipe(shown), how) for t, shown, how in trace.rebound]
    effects = Effects(trace, outputs)
    changed = [
        (cell.source, outputs.index(cell.value), times_written(trace, cell.storage))
        for cell in trace.cells.values()
        if cell.source is not None and cell.value is not cell.initial
    ]
    writes = [(source, output) for source, output, _ in changed]
    outputs.finish()
    written = {s.held.identity for s, _ in writes if isinstance(s, State)}
    derivative = differentiate(trace, outputs, reached, written)
    check_hooks(observation, *known)
    once = not tape_outside_holds(trace, reached)
    _sort_inputs(trace, derivative)
    trace.graph.outputs = list(outputs.indices)
    states = [s.held for s in trace.sources if isinstance(s, State)]
    states += reached_gradients(trace, reached)
    if verifying():
        verify(trace.graph)
    return Program(
        graph=trace.graph,
        sources=trace.sources,
        structure=structure,
        results=results,
        recipes=outputs.recipes,
        roots=outputs.roots,
        writes=writes,
        write_counts=[count for _, _, count in changed],
        grads=effects.grads,
        result_grads=effects.result_grads,
        retained=[
            outputs.recipe(x)
            for x in outputs.tensors()
            if x.retains_grad and id(x) not in outputs.positions
        ],
        places=effects.places,
        flags=effects.flags,
        moves=trace.moves(),
        detached=effects.detached,
        joined=effects.joined,
        rebound=rebound,
        kinds=outputs.kinds(),
        late=outputs.late(),
        guards=trace.guards,
        counters=list(trace.counters.values()),
        grads_seen=[
            (outputs.ref(t), None if g is None else (g._spec, g.stride()))
            for t, g in trace.grads_seen.items()
        ],
        host_guards=list(trace.host_guards.values()),
        states=states,
        python=python,
        derivative=derivative,
        looks=[(outputs.ref(t), read, None) for t, read in trace.looks.values()],
        catches=observation.recorder.catches,
        once=once,
    )


def note_memory(program: Program, trace: Trace, leaves: Sequence[Any]) -> None:
    """Note what shares memory, once tensors are as the call found them."""
    program.pattern = alias_pattern(leaves, program.states)
    grads = [grad for grad in trace.grads_seen.values() if grad is not None]
    program.grad_pattern = grad_pattern(leaves, program.states, grads)
    program.looks = [(ref, read, read(ref.of(leaves))) for ref, read, _ in program.looks]
    program.bases = bases([ref for ref, _ in program.places], leaves)


def _sort_inputs(trace: Trace, derivative: Derivative | None) -> None:
    """Put states first, then arguments, gradients and host numbers."""
    order = sorted(range(len(trace.sources)), key=lambda i: _ORDER[type(trace.sources[i])])
    trace.sources = [trace.sources[i] for i in order]
    trace.graph.inputs = [trace.graph.inputs[i] for i in order]
    if derivative is not None:
        now = {old: new for new, old in enumerate(order)}
        derivative.residuals = [
            (kind, now[k] if kind == "input" else k) for kind, k in derivative.residuals
        ]
