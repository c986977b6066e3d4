"""What a program does to Python's state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from adjoint.engine.capture.following import TensorEngine
from adjoint.engine.capture.program.recipes import Outputs
from adjoint.engine.capture.python import Observation, Replay
from adjoint.engine.capture.python.locations import Item
from adjoint.engine.capture.python.rebuilding import CallObjects
from adjoint.engine.capture.python.recorder import Effect
from adjoint.engine.core.operations.record import is_tensor


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor in a call: by the number of its recipe."""

    number: int

    def make(self, call: CallObjects) -> Any:
        return call.engine[self.number]


class PythonState:
    """The effects of a program on Python's state, and a result made of more than tensors."""

    __slots__ = ("late", "replay", "sized")

    def __init__(self, replay: Replay, late: Sequence[tuple[Any, list[Any]]], sized: bool) -> None:
        self.sized = sized  # whether a size is kept outside or returned
        self.replay = replay
        self.late = tuple(late)

    def begin(self) -> None:
        """Draw numbers, and read those that effects need, before anything changes."""
        for draw in self.replay.draws:
            draw.again()
        for scalar, slot in self.late:
            slot[0] = scalar.get()

    def finish(self, made: Sequence[Any]) -> Any:
        """Carry out the effects; the result."""
        return self.replay.finish(made)


def python_state(
    observation: Observation, result: Any, flat: Sequence[Any], outputs: Outputs
) -> PythonState | None:
    """What a call does besides making tensors; None where there is nothing."""
    recorder = observation.recorder
    engine: TensorEngine = recorder.engine  # type: ignore[assignment]
    simple = all(is_tensor(x) or not _is_made(recorder, x) for x in flat)
    if simple and not recorder.effects and not recorder.draws:
        return None

    def tensor(value: Any) -> Any:
        return Output(outputs.recipe(value)) if is_tensor(value) else None

    observation.result = result
    recorder.effects[:] = [e for e in recorder.effects if not _left_by_body(recorder, e)]
    replay = observation.replay(tensor)
    return PythonState(replay, engine.late, engine.sized)


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
            raise RuntimeError(
                f"{trace.what}: a captured body reads and assigns the attribute {name!r} "
                f"({value._spec}), which would not be carried from iteration to iteration. "
                "Make it part of the carry: take it as an argument and return the new value."
            )
        return True
    return False


def _is_made(recorder: Any, value: Any) -> bool:
    return bool(recorder.is_fresh(value) or recorder.engine.is_symbol(value))
