"""What programs set for all that follows: how each setting is read, and how it is set.

A compiled call leaves settings as its function left them. A recording depends on those that the
function consulted or set; the ones that are part of every recording's key need not say so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from adjoint.engine.core import dtype as dtypes
from adjoint.engine.core.state.context import CONTEXT


@dataclass(frozen=True, slots=True)
class AmbientSetting:
    """One setting; values that are equal are one."""

    read: Callable[[], Any]
    write: Callable[[Any], Any]


def _of_context(*fields: str) -> AmbientSetting:
    """Fields of the thread's context that are set together."""
    return AmbientSetting(
        read=lambda: tuple([getattr(CONTEXT, field) for field in fields]),
        write=lambda values: CONTEXT.set(**dict(zip(fields, values, strict=True))),
    )


def _autocast() -> tuple[Any, Any]:
    active = CONTEXT.autocast
    return None if active is None else replace(active, cache={}), CONTEXT.autocast_settings


def _set_autocast(values: tuple[Any, Any]) -> None:
    active, settings = values  # casts that are kept belong to one region
    own = None if active is None else replace(active, cache={})
    CONTEXT.set(autocast=own, autocast_settings=settings)


# Further ones are added by the modules that keep them.
SETTINGS: dict[str, AmbientSetting] = {
    "grad mode": _of_context("grad_enabled"),
    "inference mode": _of_context("inference"),
    "autocast": AmbientSetting(_autocast, _set_autocast),
    "anomaly mode": _of_context("anomaly", "check_nan"),
    "default device": _of_context("device", "devices"),
    "default dtype": AmbientSetting(dtypes.get_default_dtype, dtypes.set_default_dtype),
}


def consult(name: str) -> None:
    """Tell the recording under way, if any, that it depends on a setting."""
    if CONTEXT.consulted is not None:
        CONTEXT.consulted.add(name)


def present() -> dict[str, Any]:
    """What everything is set to."""
    return {name: setting.read() for name, setting in SETTINGS.items()}


def changed_since(before: dict[str, Any]) -> dict[str, Any]:
    """What is set otherwise than it was; put back to what it was."""
    now = {name: SETTINGS[name].read() for name in before}
    changed = {name: value for name, value in now.items() if value != before[name]}
    for name in changed:
        put(name, before[name])
    return changed


def holds(name: str, value: Any) -> bool:
    """Whether a setting has a value.

    >>> holds("default dtype", dtypes.float32)
    True
    """
    return bool(SETTINGS[name].read() == value)


def put(name: str, value: Any) -> None:
    """Have a setting at a value that it had before."""
    SETTINGS[name].write(value)
