"""The process group, as far as layers below `distributed` need to know it."""

from __future__ import annotations

from typing import Any, Protocol


class Group(Protocol):
    """Processes that train together, and which of them this is."""

    def rank(self) -> int: ...
    def size(self) -> int: ...


class _State:
    group: Any = None


STATE = _State()


def default_group() -> Any:
    """The group that was set up; an error where none was."""
    if STATE.group is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    return STATE.group
