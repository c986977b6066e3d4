"""Versions of classes: one number that changes with any attribute of a class or of its bases.

The interpreter gives a class a number when an attribute is looked for in it, and takes the number
away when the class or one of its bases changes; no number is given twice. Its own caches of what
classes have rest on that. Where the number lies is found out by trial, and only used where it is
seen to change whenever it should.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

NO_VERSION = 0
_UNKNOWN_NAME = "no attribute has this name"
_SIZE: int = type.__dict__["__basicsize__"].__get__(type)
_ORDER: Any = type.__dict__["__mro__"]


def _numbers(cls: type) -> list[int]:
    """The memory of a class as numbers of 32 bits."""
    return list((ctypes.c_uint32 * (_SIZE // 4)).from_address(id(cls)))


def _look(cls: type) -> None:
    """Look for an attribute that is not there, which runs nobody's code."""
    try:
        type.__getattribute__(cls, _UNKNOWN_NAME)
    except AttributeError:
        return


@cache
def version_offset() -> int | None:
    """Where classes keep their version, if a place behaves as one; in bytes."""
    base: Any = type("Base", (), {"a": 1})
    other: Any = type("Other", (), {"a": 2})
    middle: Any = type("Middle", (base,), {})
    last: Any = type("Last", (middle,), {"b": 1})
    changes: list[Callable[[], Any]] = [
        lambda: setattr(last, "b", 2),
        lambda: setattr(base, "a", 2),
        lambda: delattr(base, "a"),
        lambda: setattr(base, "a", 2),
        lambda: setattr(middle, "__getattr__", len),
        lambda: setattr(middle, "__bases__", (other,)),
        lambda: setattr(other, "b", None),
    ]
    _look(last)
    seen = [_numbers(last)]
    places = list(range(len(seen[0])))
    for change in changes:
        last().b, last.b
        _look(last)
        unchanged = _numbers(last)
        change()
        changed = _numbers(last)
        _look(last)
        renewed = _numbers(last)
        places = [i for i in places if unchanged[i] == seen[-1][i] and changed[i] == NO_VERSION]
        places = [
            i for i in places if renewed[i] not in (NO_VERSION, *[versions[i] for versions in seen])
        ]
        seen.append(renewed)
    return 4 * places[0] if len(places) == 1 else None


def version_of(cls: type) -> int:
    """The version of a class as it is now; `NO_VERSION`: it has none.

    >>> class Thing:
    ...     pass
    >>> before = version_of(Thing)
    >>> Thing.size = 3
    >>> version_of(Thing) == before
    False
    """
    offset = version_offset()
    if offset is None or not has_version(cls):
        return NO_VERSION
    _look(cls)
    return ctypes.c_uint32.from_address(id(cls) + offset).value


def has_version(cls: type) -> bool:
    """Whether a class's version stands for what attributes it has: its order is Python's own."""
    return type(cls).mro is type.mro


def order_of(cls: type) -> tuple[type, ...]:
    """The classes in which attributes of a class are looked for, past what its metaclass says."""
    order: tuple[type, ...] = _ORDER.__get__(cls)
    return order


def in_version(name: Any) -> bool:
    """Whether a class's version changes with an attribute of this name, whoever sets it.

    Names that `type` keeps itself are set by its own ways, some of them when they are first read.
    """
    if type(name) is not str or name.startswith("__annot"):
        return False
    return not hasattr(type(type.__dict__.get(name)), "__set__")
