"""The process group, as far as one process needs to know it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class ProcessGroup:
    """Processes that train together, and which of them this is."""

    backend: str
    rank: int = 0
    size: int = 1


class _State:
    group: ProcessGroup | None = None


STATE = _State()


def default_group() -> ProcessGroup:
    """The group that was set up; an error where none was."""
    if STATE.group is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    return STATE.group
