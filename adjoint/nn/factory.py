"""Keyword arguments that say how a module's tensors are made."""

from __future__ import annotations

from typing import Any

_NAMES = {"device", "dtype", "memory_format"}


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Of a module's keyword arguments, those for making its tensors, checked.

    Example:
        >>> factory_kwargs({"device": "cpu"})
        {'device': 'cpu'}
    """
    if kwargs is None:
        return {}
    nested = kwargs.get("factory_kwargs", {})
    unknown = set(kwargs) - _NAMES - {"factory_kwargs"}
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    for name in nested:
        if name in kwargs:
            raise TypeError(f"{name} specified twice, in kwargs and in factory_kwargs")
    return {**nested, **{k: v for k, v in kwargs.items() if k in _NAMES}}
