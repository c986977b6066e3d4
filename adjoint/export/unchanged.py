"""Effects on Python's state that leave it as it was: C may leave them out.

Libraries set a flag for the time of a call and put it back (a context of transformers').
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.capture.program.program import Program
from adjoint.engine.capture.program.python_state import Output, PythonState
from adjoint.engine.capture.python.rebuilding import Mutable, Same

_ABSENT = object()


def leaves_all(state: PythonState) -> bool:
    """Whether a call's effects end with everything as it is now."""
    replay = state.replay
    if replay.draws or replay.error is not None or state.late or state.tested:
        return False
    last: dict[tuple[int, Any], tuple[Any, Any, Any]] = {}
    for effect in replay.effects:
        if effect.do not in (dict.__setitem__, object.__setattr__) or len(effect.args) != 3:
            return False
        owner, key, value = effect.args
        if not (isinstance(owner, Same) and isinstance(key, Same) and type(key.value) is str):
            return False
        last[id(owner.value), key.value] = owner.value, key.value, value
    return all(_is_now(*entry) for entry in last.values())


def _is_now(owner: Any, key: str, value: Any) -> bool:
    if not isinstance(value, Same):
        return False
    table = owner if isinstance(owner, dict) else getattr(owner, "__dict__", {})
    return table.get(key, _ABSENT) is value.value


def result_leaves(program: Program) -> list[int] | None:
    """The recipes of the tensors that a call returns, as a list; None if it returns another thing.

    Beside effects the result is told as they are.
    """
    state = program.effects.python
    if state is None:
        return list(program.results.leaves)
    result = state.replay.result
    parts = result.parts if isinstance(result, Mutable) and result.empty() == [] else (None,)
    numbers = [part.number for part in parts if isinstance(part, Output)]
    return numbers if len(numbers) == len(parts) and min(numbers, default=0) >= 0 else None
