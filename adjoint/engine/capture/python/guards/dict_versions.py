"""Versions of dicts: one number that changes with anything a dict holds.

Up to Python 3.12 the interpreter gives a dict a number of its own at each change, none of them
twice. Where it lies is known of those versions, and only used where it is seen to change whenever
it should; later ones have none, and what is in dicts is looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from adjoint.engine.core.object_layout import HEAD, word_at

from .rows import keys_kind, keys_kind_of

_WITH_VERSIONS = ((3, 11), (3, 12))


class _Thing:
    pass


@cache
def dict_version_offset() -> int | None:
    """Where dicts keep their version, in bytes: behind how many entries there are."""
    offset = HEAD + 8
    if sys.version_info[:2] not in _WITH_VERSIONS or sys.implementation.name != "cpython":
        return None
    thing = _Thing()
    things = thing.__dict__
    plain: dict[Any, Any] = {"a": 1, "b": 2}
    changes: list[tuple[dict[Any, Any], Callable[[], Any]]] = [
        (plain, lambda: plain.__setitem__("a", 2.5)),
        (plain, lambda: plain.update(b=3.5)),
        (plain, lambda: plain.setdefault("c", 4)),
        (plain, lambda: plain.pop("a")),
        (plain, lambda: plain.__delitem__("b")),
        (plain, lambda: plain.popitem()),
        (plain, lambda: plain.__ior__({1: 2})),
        (plain, lambda: plain.clear()),
        (things, lambda: setattr(thing, "a", 1.5)),
        (things, lambda: setattr(thing, "a", 2.5)),
        (things, lambda: delattr(thing, "a")),
        (things, lambda: object.__setattr__(thing, "b", 3)),
    ]
    seen: set[int] = set()
    for table, change in changes:
        before = word_at(id(table) + offset)
        table.get("a"), len(table), list(table.items())
        if word_at(id(table) + offset) != before:
            return None
        change()
        after = word_at(id(table) + offset)
        if after == before or after in seen:
            return None
        seen.add(after)
    return offset


def dict_version(table: dict[Any, Any]) -> int:
    """The version of a dict as it is now, where dicts have any.

    >>> table = {"a": 1}
    >>> before = dict_version(table)
    >>> table["a"] = 2
    >>> dict_version_offset() is None or dict_version(table) != before
    True
    """
    offset = dict_version_offset()
    return 0 if offset is None else word_at(id(table) + offset)


def has_plain_keys(table: dict[Any, Any]) -> bool:
    """Whether all keys of a dict are plain strings: looking for one runs nobody's code."""
    return keys_kind() is not None and bool(keys_kind_of(table))
