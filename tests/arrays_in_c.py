"""Objects laid out as CuPy's are, in C: arrays, pointers and memory that native code may look into."""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import numpy as np

_NUMBER, _HALF = 19, 1  # of members: words, and numbers of 32 bits
_MEMBERS, _BASE = 72, 1 << 10  # a type's slot for them, and the flag that others derive from it
_KEPT: list[Any] = []  # what types point to


class _Member(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("type", ctypes.c_int), ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    ]  # fmt: skip


class _Slot(ctypes.Structure):
    _fields_ = [("number", ctypes.c_int), ("value", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("size", ctypes.c_int), ("items", ctypes.c_int),
        ("flags", ctypes.c_uint), ("slots", ctypes.c_void_p),
    ]  # fmt: skip


def in_c(name: str, **members: int) -> Any:
    """A class with numbers that are members of its C structure, in this order."""
    at = object.__basicsize__
    rows = []
    for member, kind in members.items():
        rows.append((member.encode(), kind, at, 0, None))
        at += 8
    table = (_Member * (len(rows) + 1))(*rows)
    slots = (_Slot * 2)((_MEMBERS, ctypes.addressof(table)))
    spec = _Spec(f"stand_in.{name}".encode(), at, 0, _BASE, ctypes.addressof(slots))
    _KEPT.extend((table, slots, spec))
    make = ctypes.pythonapi.PyType_FromSpec
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p]
    return make(ctypes.addressof(spec))


BaseMemory: Any = in_c("BaseMemory", ptr=_NUMBER, size=_NUMBER, device_id=_HALF)


class MemoryPointer(in_c("Pointer", ptr=_NUMBER, device_id=_HALF)):  # type: ignore[misc]
    """An address in memory that it holds."""

    __slots__ = ("mem",)

    def __init__(self, mem: Any, offset: int) -> None:
        self.mem, self.ptr, self.device_id = mem, mem.ptr + offset, mem.device_id


_VECTORS = ("shape0", "shape1", "shape2", "steps0", "steps1", "steps2")
_Array: Any = in_c("Array", size=_NUMBER, **dict.fromkeys(_VECTORS, _NUMBER), in_order=_HALF)


class BaseArray(_Array):  # type: ignore[misc]
    """What says where an array is, and how it lies: shape and steps are vectors of C++'s."""

    __slots__ = ("__weakref__", "data", "dtype", "whole")

    @property
    def base(self) -> Any:
        return getattr(self, "whole", None)

    def __getitem__(self, key: Any) -> Any:
        """A view, which lies as NumPy says."""
        whole = np.lib.stride_tricks.as_strided(np.zeros(1, self.dtype), self.shape, self.strides)
        part = whole[key]
        data = MemoryPointer(self.data.mem, 0)
        data.ptr = self.data.ptr + part.ctypes.data - whole.ctypes.data
        made = type(self).__new__(type(self))
        made._init(part.shape, part.dtype, data, part.strides)
        made.whole = self if self.base is None else self.base
        return made

    def _init(self, shape: Any, dtype: Any, data: Any, strides: Any = None) -> None:
        self.dtype, self.data, self.size = dtype, data, prod(shape)
        own = np.empty(shape, dtype).strides
        self.in_order = strides is None or tuple(strides) == own
        self.shape0, self.shape1, self.shape2 = vector(shape)
        self.steps0, self.steps1, self.steps2 = vector(own if strides is None else strides)

    @property
    def shape(self) -> tuple[int, ...]:
        return numbers(self.shape0, self.shape1)

    @property
    def strides(self) -> tuple[int, ...]:
        return numbers(self.steps0, self.steps1)

    @property
    def ndim(self) -> int:
        return (int(self.shape1) - int(self.shape0)) // 8

    @property
    def flags(self) -> str:
        return f"in order: {self.in_order}"

    @property
    def nbytes(self) -> int:
        return int(self.size) * int(self.dtype.itemsize)


def vector(values: Any) -> tuple[int, int, int]:
    """Numbers in memory that is never let go of, and where they begin and end."""
    if not values:
        return 0, 0, 0
    kept = (ctypes.c_int64 * len(values))(*values)
    _KEPT.append(kept)
    begin = ctypes.addressof(kept)
    return begin, begin + 8 * len(values), begin + 8 * len(values)


def numbers(begin: int, end: int) -> tuple[int, ...]:
    """What is in such a vector."""
    return tuple((ctypes.c_int64 * ((end - begin) // 8)).from_address(begin)) if end > begin else ()
