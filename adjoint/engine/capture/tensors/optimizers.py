"""What a recorded function does to optimizers, which step natively: what no recording keeps."""

from __future__ import annotations

from typing import Any

from adjoint.engine.capture.python.plain import has
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

    def _is_set(self, counter: Any) -> bool:
        """Whether somebody but a step wrote to a counter."""
        value = self._value(counter)
        cell = self.trace.cells.get(counter._storage.identity)
        expected = self.counted.get(id(counter), None if cell is None else cell.initial)
        return value is not expected

    def _value(self, counter: Any) -> Any:
        cell = self.trace.cells.get(counter._storage.identity)
        return None if cell is None else cell.value


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
