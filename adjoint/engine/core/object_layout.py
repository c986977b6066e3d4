"""Where the interpreter keeps what objects are made of: their class, and what is in their slots.

Native code that looks at objects asks here. What is not where it is expected is not told.
"""

from __future__ import annotations

import ctypes
import types
from functools import cache, lru_cache
from typing import Any

HEAD = object.__basicsize__  # what every object begins with
_OBJECT_SLOT = 16  # the type of a member that is an object and may be absent: Py_T_OBJECT_EX


def word_at(address: int) -> int:
    """The word of memory at an address."""
    return ctypes.c_size_t.from_address(address).value


def place_of(samples: list[tuple[Any, Any]], size: int) -> int | None:
    """Where in objects like these the second of each pair is kept, if that is one place."""
    offsets = [
        offset
        for offset in range(0, size, 8)
        if all(word_at(id(obj) + offset) == id(value) for obj, value in samples)
    ]
    return offsets[0] if len(offsets) == 1 else None


class _Plain:
    pass


class _Derived(_Plain):
    pass


@cache
def type_offset() -> int | None:
    """Where objects keep their class."""
    samples: list[Any] = [_Plain(), _Derived(), [], 1.5, "a"]
    return place_of([(x, type(x)) for x in samples], HEAD)


class _MemberDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
    ]


@lru_cache(maxsize=1024)
def slot_offset(descriptor: Any) -> int | None:
    """Where objects keep what a descriptor of `__slots__` gives."""
    definition = id(descriptor) + HEAD + 24  # behind the class and the two names
    if type(descriptor) is not types.MemberDescriptorType:
        return None
    if word_at(id(descriptor) + HEAD) != id(descriptor.__objclass__):
        return None
    member = _MemberDef.from_address(word_at(definition))
    named = member.name == descriptor.__name__.encode()
    return int(member.offset) if named and member.type == _OBJECT_SLOT else None
