"""The process group, as far as layers below `distributed` need to know it."""

from __future__ import annotations

from typing import Any, Protocol

from adjoint.engine.core.state.settings import SETTINGS, AmbientSetting, consult

_SETTING = "process group"


class Group(Protocol):
    """Processes that train together, and which of them this is."""

    def rank(self) -> int: ...
    def size(self) -> int: ...


class _ProcessState:
    """What processes know of each other; a recording that asks for the group depends on it."""

    def __init__(self) -> None:
        self.present: Any = None

    @property
    def group(self) -> Any:
        """The group that was set up, or None."""
        consult(_SETTING)
        return self.present

    @group.setter
    def group(self, group: Any) -> None:
        self.present = group


STATE = _ProcessState()


def default_group() -> Any:
    """The group that was set up; an error where none was."""
    group = STATE.group
    if group is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    return group


def _put(group: Any) -> None:
    STATE.group = group


SETTINGS[_SETTING] = AmbientSetting(lambda: STATE.present, _put)
