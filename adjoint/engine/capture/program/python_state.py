"""What a program does to Python's state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from adjoint.engine.capture.given import ATTRIBUTES, Path, containers, follow, holds_one
from adjoint.engine.capture.program.outputs import Outputs
from adjoint.engine.capture.python.locations import Item
from adjoint.engine.capture.python.observation import Observation, Replay
from adjoint.engine.capture.python.plain import ObjectIdentity
from adjoint.engine.capture.python.rebuilding import CallObjects, Immutable, ReadNumber, Same
from adjoint.engine.capture.python.recorder import Effect, keep
from adjoint.engine.capture.tensors.arrays import array_recipe
from adjoint.engine.capture.tensors.following import TensorEngine
from adjoint.engine.capture.tensors.late_values import is_late_value
from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.rng import Generator
from adjoint.engine.core.tree import REGISTERED, flatten
from adjoint.engine.tensor.meta import is_meta


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor in a call: by the number of its recipe."""

    number: int

    def make(self, call: CallObjects) -> Any:
        return call.engine[self.number]


class PythonState:
    """The effects of a program on Python's state, and a result made of more than tensors."""

    __slots__ = ("late", "paths", "replay", "restores", "sized", "tested", "watched")

    def __init__(
        self, replay: Replay, late: Sequence[tuple[Any, list[Any]]], sized: bool, tested: bool,
        paths: Sequence[Path] = (), watched: frozenset[int] | None = None,
    ) -> None:  # fmt: skip
        self.paths = tuple(paths)  # the ways to the given containers that it needs
        self.watched = watched  # containers reached from outside, if any container is written to
        self.sized = sized  # whether a size is read in a way that knows one size only
        self.tested = tested  # whether a recording holds for some draws only
        self.replay = replay
        self.late = tuple(late)
        self.restores: list[Callable[[], None]] = []  # put generators back to where the call began

    def at(self, sized: Callable[[Any], Any]) -> PythonState:
        """The same for a program of other sizes, which `sized` puts into numbers."""
        late = [(sized(scalar), slot) for scalar, slot in self.late]
        return PythonState(self.replay, late, self.sized, self.tested, self.paths, self.watched)

    def begin(self) -> None:
        """Draw numbers, and read those that effects need, before anything changes."""
        if self.replay.draws:
            self.restores = keep(self.replay.draws)
        for draw in self.replay.draws:
            draw.again()
        for scalar, slot in self.late:
            slot[0] = scalar.get()

    def put_back(self) -> None:
        """Have the generators as they were when the call began."""
        for restore in self.restores:
            restore()

    def finish(self, results: Sequence[Any], given: Any = None) -> Any:
        """Carry out the effects; the result."""
        if self.paths:  # looked up before anything in them changes
            results = [*results, *[follow(given, path) for path in self.paths]]
        return self.replay.finish(results)


def python_state(observation: Observation, result: Any, outputs: Outputs) -> PythonState | None:
    """What a call does besides making tensors; None where there is nothing."""
    recorder = observation.recorder
    engine: TensorEngine = recorder.engine  # type: ignore[assignment]
    for tensor in engine.tagged.values():
        for name, value in tensor.__dict__.items():
            recorder.effect(object.__setattr__, tensor, name, value)
    simple = (
        not engine.by_python
        and _is_tree(recorder, result)  # others may hold themselves
        and not (engine.given_paths and holds_one(result, engine.given_paths, engine.changed))
        and all(is_tensor(x) or not _is_made(recorder, x) for x in flatten(result)[0])
    )
    if simple and not recorder.effects and not recorder.draws:
        return None
    wanted: dict[int, Output] = {}  # given containers, which come after the tensors

    def known(value: Any) -> Any:
        if is_tensor(value):
            if is_meta(value) and recorder.journal.held(value):
                return Same(value)  # without elements, and put back (`functional_call`)
            return Output(outputs.recipe(value))
        if is_late_value(value):
            fn, parts = value.fn, tuple(map(part, value.args))
            return Immutable(id(value), lambda values: fn(*values), parts)
        array = array_recipe(recorder, value)
        if array is not None:
            return array
        if type(value) is Generator and value in engine.trace.own:
            raise CaptureError(
                "compile: a Generator that the function makes is kept or returned, and a call "
                "could not make another like it. Make it outside, and seed it inside."
            )
        if id(value) not in engine.given_paths:
            return None
        return wanted.setdefault(id(value), Output(-len(wanted) - 1))

    def part(value: Any) -> Any:
        if is_tensor(value) or is_late_value(value):
            return known(value)
        return ReadNumber(engine.reader(value), value) if engine.is_symbol(value) else Same(value)

    recorder.effects[:] = [e for e in recorder.effects if not _left_by_body(recorder, e)]
    replay = observation.replay(known)
    paths = [engine.given_paths[identity] for identity in reversed(wanted)]
    watched = None
    if engine.given_paths and recorder.journal.copies:
        owners = [guard.place.owner for guard in recorder.guards.values()]
        reached = {id(owner) for owner in owners} | {*recorder.journal.copies}
        watched = frozenset(reached - {*engine.given_paths})
    return PythonState(replay, engine.late, engine.sized, engine.tests_draws, paths, watched)


def _left_by_body(recorder: Any, effect: Effect) -> bool:
    """Whether an effect keeps a tensor of a loop's or branch's body: it stays as it was before.

    A body that reads what it assigns is refused: each iteration would see the first.
    """
    for value in effect.args:
        trace = value._storage.trace if is_tensor(value) else None
        if trace is None or not trace.closes:
            continue
        owner, name = effect.args[:2]
        read = recorder.guards.get(Item(owner, name).token()) if isinstance(owner, dict) else None
        if read is not None and id(read.value) in trace.lifted:
            raise CaptureError(
                f"{trace.what}: a captured body reads and assigns the attribute {name!r} "
                f"({value._spec}), which would not be carried from iteration to iteration. "
                "Make it part of the carry: take it as an argument and return the new value."
            )
        return True
    return False


def _is_tree(recorder: Any, result: Any) -> bool:
    """Whether the containers of a result are all new, and none of them is met twice."""
    met: set[int] = set()
    for container, path in containers(result):
        if path and path[-1] is ATTRIBUTES:
            continue
        if id(container) in met or id(container) in recorder.ways.locations:
            return False
        if type(container) in REGISTERED:  # whose functions may leave something out
            return False
        met.add(id(container))
    return True


def _is_made(recorder: Any, value: Any) -> bool:
    engine = recorder.engine
    own = recorder.is_fresh(value) or engine.is_symbol(value) or engine.holds_new(value)
    return bool(own or type(value) is ObjectIdentity)
