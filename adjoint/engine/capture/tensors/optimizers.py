"""What a recorded function does to optimizers, which step natively: what no recording keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine.capture.python.calling import call
from adjoint.engine.capture.python.errors import PlainCall
from adjoint.engine.capture.python.plain import MISSING, has
from adjoint.engine.core.operations.record import is_tensor

_REBUILDS = frozenset({"load_state_dict", "add_param_group"})  # methods that replace its tables
_APART = frozenset({"zero_grad"})  # methods that have nothing to do with its state


class SteppedOptimizers:
    """The optimizers that a recording met, and the step counts that they advanced."""

    def __init__(self, recorder: Any, trace: Any) -> None:
        self.recorder, self.trace = recorder, trace
        self.counted: dict[int, Any] = {}  # what counters hold after steps, by their identity

    def hindrance(self, name: str, optimizer: Any) -> str | None:
        """Why a method cannot be recorded; None where it can, or this is no optimizer."""
        optimizers = [] if name in _APART else with_inner(optimizer)
        if optimizers and name in _REBUILDS:
            return "it gives the optimizer other tables"
        for state in (getattr(one, "state", None) for one in optimizers):
            if not isinstance(state, dict):
                continue
            keys = self.recorder.journal.written.get(id(state), ())
            if keys is None or any(key not in state for key in keys):
                return "state of the optimizer was taken away before it"
            if any(map(self._is_set, _counters(state))):
                return "a step count of the optimizer was written to before it"
        return None

    def has_run(self, name: str, optimizer: Any) -> None:
        """A method of an optimizer has run: what its counters hold is its own."""
        for one in [] if name in _APART else with_inner(optimizer):
            for counter in _counters(getattr(one, "state", None)):
                self.counted[id(counter)] = self._value(counter)

    def take_step(
        self, optimizer: Any, step: Callable[[], Any], kept: Callable[[], list[Any]]
    ) -> Any:
        """A step that is undone by selection where a gradient was not finite (`GradScaler`).

        Selection undoes what is written to tensors that `kept` tells of, and nothing else: what
        else a user's step or a hook does would be done though no step is made.
        """
        recorder, cells = self.recorder, self.trace.changed
        effects, writes, reads = len(recorder.effects), len(cells), len(recorder.draws)
        draws = dict(self.trace.draws)
        name = f"{type(optimizer).__name__}.step under a GradScaler"
        before = {id(tensor): tensor for tensor in kept()}
        result = call(recorder, step, (), {})
        done = [e for e in recorder.effects[effects:] if not _notes_it(optimizer, e.args)]
        if done and all(self._makes_state(optimizer, *effect.args[:2]) for effect in done):
            why = f"{name}: it makes the optimizer's state, as a first step does ({done[0].line})."
            recorder.refusal = PlainCall(why)
            raise recorder.refusal
        after = {id(tensor): tensor for tensor in kept()}
        known = {tensor._storage.identity for tensor in after.values()}
        strays = any(
            cell.source is not None and cell.storage.identity not in known
            for cell in cells[writes:]
        )
        drawn = any(draw.keep is not None for draw in recorder.draws[reads:])
        drawn = drawn or self.trace.draws != draws
        if done or strays or drawn or before.keys() - after.keys():
            raise recorder.refuse(
                name,
                "whether it is made depends on the gradients, and it changes more than parameters "
                "and tensors of the optimizer's state" + (f", at {done[0].line}" if done else ""),
                "Keep counts and the like in tensors of the state, or step outside.",
            )
        return result

    def _makes_state(self, optimizer: Any, table: Any, key: Any = None) -> bool:
        """Whether something is put where there was nothing yet: the state of a parameter."""
        state = getattr(optimizer, "state", None)
        if not isinstance(state, dict) or not any(x is table for x in (state, *state.values())):
            return False
        before = self.recorder.journal.original(table)
        return before is not MISSING and key not in dict(before)

    def _is_set(self, counter: Any) -> bool:
        """Whether somebody but a step wrote to a counter."""
        value = self._value(counter)
        cell = self.trace.cells.get(counter._storage.identity)
        expected = self.counted.get(id(counter), None if cell is None else cell.initial)
        return value is not expected

    def _value(self, counter: Any) -> Any:
        cell = self.trace.cells.get(counter._storage.identity)
        return None if cell is None else cell.value


def _notes_it(optimizer: Any, written: tuple[Any, ...]) -> bool:
    """Whether it is noted that a step was asked for, which schedulers look at."""
    return written[0] is optimizer.__dict__ and written[1] == "_opt_called"


def with_inner(value: Any) -> list[Any]:
    """An optimizer, and those it steps; nothing for what is none."""
    if not has(type(value), "capture_keep"):
        return []
    parts = getattr(value, "__dict__", {}).values()
    return [value, *[part for part in parts if has(type(part), "capture_keep")]]


def _counters(state: Any) -> list[Any]:
    """The tensors that count steps."""
    if not isinstance(state, dict):
        return []
    counters = [of.get("step") for of in state.values() if isinstance(of, dict)]
    return [counter for counter in counters if is_tensor(counter)]
