"""A finished recording: what it computes, reads, gives back and changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from adjoint.engine.capture.backward.derivative import Derivative, differentiate
from adjoint.engine.capture.backward.hooks import check_hooks
from adjoint.engine.capture.backward.outside import tape_outside_holds
from adjoint.engine.capture.program.conditions import Conditions, conditions_of
from adjoint.engine.capture.program.effects import Effects, effects_of
from adjoint.engine.capture.program.outputs import Outputs
from adjoint.engine.capture.program.prepared import PreparedCall
from adjoint.engine.capture.program.python_state import python_state
from adjoint.engine.capture.program.recipes import CallResults
from adjoint.engine.capture.program.sharing import alias_pattern, reached_gradients
from adjoint.engine.capture.python.observation import Observation
from adjoint.engine.core.tree import flatten
from adjoint.engine.graph.execution import Executable, ExecutorFactory
from adjoint.engine.graph.ir import DataflowGraph
from adjoint.engine.graph.record.sources import CallArgument, GradOf, Host, Source, State
from adjoint.engine.graph.record.trace import Trace
from adjoint.engine.graph.sizes.sizing import Sizing
from adjoint.engine.graph.text import to_text
from adjoint.engine.graph.verify import verify, verifying
from adjoint.engine.tensor.tensor import Tensor

_ORDER = {State: 0, CallArgument: 1, GradOf: 2, Host: 3}


@dataclass(frozen=True, slots=True)
class Origin:
    """How a program was made."""

    once: bool  # whether it stands for no other call: Note [tapes from outside]
    catches: bool  # whether the function may end exceptions: Note [exceptions]
    modules: tuple[Callable[[], Any], ...] = ()  # outermost ones of the function, weakly
    sizing: Sizing | None = None  # of a program made from one with dynamic sizes


@dataclass(frozen=True, slots=True)
class Pending:
    """What a recording leaves behind, for its first call to keep or take back."""

    restores: list[Callable[[], None]]  # take back state that was made in the trace
    # Nodes from outside that backward went through, as the first call leaves them.
    used_up: list[tuple[Any, Any]]

    def settle(self) -> None:
        """Leave everything as the function left it."""
        for node, left in self.used_up:
            node.put(left)

    def take_back(self) -> None:
        """Have everything as before the recording."""
        for restore in self.restores:
            restore()


@dataclass(eq=False, slots=True)
class Program:
    """What `Captured` keeps per signature."""

    graph: DataflowGraph
    sources: list[Source]  # of its inputs: states, arguments, gradients, host numbers
    conditions: Conditions  # on which calls it stands
    results: CallResults
    effects: Effects
    derivative: Derivative | None  # what puts its results on the tape
    origin: Origin
    pending: Pending | None = None  # until its first call
    call: PreparedCall | None = None  # replays it
    used: int = 0  # when it was found last, in calls of all functions

    @property
    def executable(self) -> Executable | None:
        """What runs the graph."""
        return None if self.call is None else self.call.executable

    @property
    def shares_plans(self) -> bool:
        """Whether programs of other sizes have what runs it in common with it."""
        return self.origin.sizing is not None and bool(self.origin.sizing.shared_plans)

    @property
    def one_at_a_time(self) -> bool:
        """Whether its calls may not overlap: they change something besides making results."""
        return self.effects.any or bool(self.conditions.numbers)

    def valid(self, leaves: Sequence[Any]) -> bool:
        """Whether the recording stands for this call."""
        guards, sharing = self.conditions.guards, self.conditions.sharing
        return (
            guards.holds()
            and alias_pattern(leaves, sharing.states) == sharing.pattern
            and self.call.recall(leaves) is not None  # type: ignore[union-attr]
        )

    def fits(self, leaves: Sequence[Any]) -> bool:
        """Whether a program that is not prepared yet stands for a call of this signature."""
        self.call = PreparedCall(self)
        sharing = self.conditions.sharing
        if alias_pattern(leaves, sharing.states) != sharing.pattern:
            return False
        return self.call.recall(leaves) is not None

    def prepare(self, leaves: Sequence[Any], factory: ExecutorFactory) -> None:
        """Have the executable made, once the trace is over; `leaves` are the arguments it had."""
        self.call = self.call or PreparedCall(self)
        self.call.compile(self, leaves, factory)

    @property
    def made_state(self) -> bool:
        """Whether the recording made state (an optimizer's) that is still there to be kept."""
        return self.pending is not None and bool(self.pending.restores)

    def take_back(self) -> None:
        """Take back what the recording left behind, unless a call has kept it."""
        pending, self.pending = self.pending, None
        if pending is not None:
            pending.take_back()

    def explain(self) -> str:
        """What the graph runs as."""
        tell = getattr(self.executable, "explain", None)
        return str(tell()) if tell is not None else f"{len(self.graph)} nodes, interpreted"

    def text(self) -> str:
        """The graph as Python."""
        return to_text(self.graph)


def finish(
    trace: Trace,
    observation: Observation,
    leaves: list[Any],
    reached: Sequence[Tensor],
    held: Sequence[Tensor],
) -> Program:
    """Turn a trace that has run to its end into a program (before the trace is undone).

    `reached` are tensors from outside that the function can see; `held` are these and those that
    an optimizer sees, which steps natively.
    """
    outputs = Outputs(trace, leaves, reached)
    python = python_state(observation, observation.result, outputs)
    known = len(observation.effects), len(observation.recorder.guards)
    flat, structure = flatten(observation.result if python is None else ())
    returned = [outputs.recipe(x) for x in flat]
    effects = effects_of(trace, outputs, python)
    outputs.finish()
    written = {s.own_storage.identity for s, _ in effects.writes if isinstance(s, State)}
    derivative = differentiate(trace, outputs, reached, written)
    check_hooks(observation, *known)
    once = not tape_outside_holds(trace, reached)
    _sort_inputs(trace, derivative)
    trace.graph.outputs = list(outputs.indices)
    states = [s.own_storage for s in trace.sources if isinstance(s, State)]
    states += reached_gradients(trace, held)
    if verifying():
        verify(trace.graph)
    return Program(
        graph=trace.graph,
        sources=trace.sources,
        conditions=conditions_of(trace, outputs, states),
        results=outputs.results(structure, returned),
        effects=replace(effects, moves=trace.moves()),  # the derivative may draw
        derivative=derivative,
        origin=Origin(once=once, catches=observation.recorder.catches),
    )


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
