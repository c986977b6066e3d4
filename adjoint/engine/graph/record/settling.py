"""Parameters of operations that are numbers of the host: a node keeps what they are now."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.state.host import HostScalar


def settled(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters with numbers in the place of host scalars: a node keeps them as they are."""
    for value in params.values():
        if _has_hosts(value):
            return {name: _pinned(value) for name, value in params.items()}
    return params


def _has_hosts(x: Any) -> bool:
    kind = type(x)
    if kind is tuple or kind is list:
        return any(type(v) is not int and _has_hosts(v) for v in x)
    if kind is dict:  # parameters of a view, in a chain of views
        return any(map(_has_hosts, x.values()))
    return kind is HostScalar


def _pinned(x: Any) -> Any:
    if isinstance(x, HostScalar):
        return x.pin()
    if type(x) is dict:
        return {name: _pinned(value) for name, value in x.items()}
    return type(x)(map(_pinned, x)) if type(x) in (tuple, list) else x
