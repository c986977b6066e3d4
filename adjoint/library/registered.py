"""What users registered for their operations, looked up at each call."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.state.context import CONTEXT


def observed(table: dict[str, Any], name: str) -> Any:
    """A function that was registered, or None; in a recording, one that is followed.

    The function runs where nobody observes it, so what it reads would be no guard.
    """
    capture = CONTEXT.capture
    if capture is None or capture.item is None or capture.follow is None:
        return table.get(name)
    capture.item(table, name)
    return None if table.get(name) is None else capture.follow(table[name])
