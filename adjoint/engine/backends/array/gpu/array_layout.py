"""Where CuPy's arrays, pointers and blocks keep what they say: CuPy does not tell, so it is tried.

Words of some objects are compared with what CuPy says about them. What is not found in exactly one
place is not known, and whoever asked does without.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from adjoint.engine.core.object_layout import word_at

HEAD = object.__basicsize__
DEVICES = (5, 70_001, 3)  # numbers of devices that memory may be said to be on
PLACES = (0x1_2345_6000, 0x2_8642_0000, 0x7_1357_9000)  # where memory may be said to begin
SIZES = (0x4_4000, 0x5_2000, 0x7_1A00)  # bytes that it may be said to have
PAGES = 4096  # no memory lies below
FLAGS = 256  # no half of a word from here on is taken for one


def samples(module: Any) -> list[Any]:
    """Arrays of many kinds."""
    make = module.ndarray
    return [
        make((3,), np.float32),
        make((2, 5), np.float64)[:, 1:3],
        make((2, 3, 4), np.int32).transpose(2, 0, 1),
        make((), np.bool_),
        make((1, 2, 3, 1, 5), np.int64)[:, 1:],
    ]


def only(offsets: Iterable[int]) -> int | None:
    """The one there is."""
    found = [*offsets]
    return found[0] if len(found) == 1 else None


def offset_of(things: Sequence[Any], expected: Callable[[Any], int]) -> int | None:
    """Where objects of a class have a word that is known of each."""
    sizes = range(HEAD, type(things[0]).__basicsize__ - 7, 8)
    return only(at for at in sizes if all(word_at(id(x) + at) == expected(x) for x in things))


def number_offset(things: Sequence[Any], expected: Callable[[Any], int]) -> int | None:
    """Where they have a number of 32 bits that is known of each."""
    sizes = range(HEAD, type(things[0]).__basicsize__ - 3, 4)
    return only(
        at
        for at in sizes
        if all(ctypes.c_int32.from_address(id(x) + at).value == expected(x) for x in things)
    )


def vector_offset(arrays: Sequence[Any], expected: Callable[[Any], tuple[int, ...]]) -> int | None:
    """Where arrays have a vector of numbers: where it begins, ends, and how far it may grow."""

    def has(array: Any, at: int) -> bool:
        begin, end, limit = (word_at(id(array) + at + 8 * k) for k in range(3))
        if end - begin != 8 * array.ndim or limit < end or (begin < PAGES and array.ndim):
            return False
        return not array.ndim or (ctypes.c_int64 * array.ndim).from_address(begin)[:] == [
            *expected(array)
        ]

    sizes = range(HEAD, type(arrays[0]).__basicsize__ - 23, 8)
    return only(at for at in sizes if all(has(array, at) for array in arrays))


def device_offset(module: Any, like: Any) -> int | None:
    """Where a pointer has the number of its device, of 32 bits."""
    memory = module.cuda.memory
    things = [
        memory.MemoryPointer(memory.UnownedMemory(like.data.ptr, 4, like, device), 0)
        for device in DEVICES
    ]
    if [x.device_id for x in things] != [*DEVICES]:
        return None
    return number_offset(things, lambda x: int(x.device_id))


def base_offset(arrays: Sequence[Any]) -> int | None:
    """Where views have the array that they are views of."""
    try:
        views = [array[..., None] for array in arrays]
    except TypeError:  # arrays that have no views
        return None
    shown = all(view.base is array for view, array in zip(views, arrays, strict=True))
    return offset_of(views, lambda view: id(view.base)) if shown else None


class PieceLayout(NamedTuple):
    """Where a new array, its pointer and its block keep what decides them."""

    block: tuple[int, int, int]  # address, bytes, device
    pointer: tuple[int, int, int]  # address, device, block
    array: tuple[int, int, int, int]  # shape, steps, dtype, pointer
    plain: tuple[int, ...]  # an array's words that are neither
    base: int | None  # where an array has the one that it is a view of, if that is known


def piece_layout(cupy: Any) -> PieceLayout | None:
    """That; None where it is not known."""
    try:
        return _piece_layout(cupy)
    except (AttributeError, TypeError):  # it has not even what is asked for
        return None


def _piece_layout(cupy: Any) -> PieceLayout | None:
    blocks = []
    for place, size, device in zip(PLACES, SIZES, DEVICES, strict=True):
        one = cupy.cuda.memory.BaseMemory()
        one.ptr, one.size, one.device_id = place, size, device
        blocks.append(one)
    pointers = [cupy.cuda.memory.MemoryPointer(one, 0) for one in blocks]
    base, kinds = cupy.ndarray.__base__, (np.dtype(np.float32), np.dtype(np.int64))

    def made(shape: Any, dtype: Any, at: int, strides: Any = None) -> Any:
        array = base.__new__(cupy.ndarray)
        array._init(shape, dtype, pointers[at], strides)
        return array

    arrays = [
        made((3,), kinds[0], 0), made((2, 5), kinds[1], 1, (8, 16)), made((), kinds[0], 2),
        made((1, 2, 3, 1, 5), kinds[1], 0),
    ]  # fmt: skip
    found = (
        offset_of(blocks, lambda b: int(b.ptr)),
        offset_of(blocks, lambda b: int(b.size)),
        number_offset(blocks, lambda b: int(b.device_id)),
        offset_of(pointers, lambda p: int(p.ptr)),
        number_offset(pointers, lambda p: int(p.device_id)),
        offset_of(pointers, lambda p: id(p.mem)),
        vector_offset(arrays, lambda a: a.shape),
        vector_offset(arrays, lambda a: a.strides),
        offset_of(arrays, lambda a: id(a.dtype)),
        offset_of(arrays, lambda a: id(a.data)),
    )
    at: list[int] = [offset for offset in found if offset is not None]
    if len(at) != len(found):
        return None
    vectors = {at[k] + 8 * n for k in (6, 7) for n in range(3)}
    base_at = base_offset(arrays)
    known = {*vectors, at[8], at[9], base_at}
    plain = [offset for offset in range(HEAD, cupy.ndarray.__basicsize__, 8) if offset not in known]
    blank = base.__new__(cupy.ndarray)
    for array in arrays:  # what is another word than in a blank one is its size, or flags
        for offset in plain:
            word = word_at(id(array) + offset)
            is_flags = max(word >> 32, word & 0xFFFF_FFFF) < FLAGS
            if word not in (word_at(id(blank) + offset), array.size) and not is_flags:
                return None
    layout = PieceLayout(tuple(at[:3]), tuple(at[3:6]), tuple(at[6:]), tuple(plain), base_at)  # type: ignore[arg-type]
    return layout if all(a.base is None for a in arrays) else None
