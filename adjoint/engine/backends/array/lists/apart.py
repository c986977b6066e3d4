"""Whether arrays share memory: what is written many at once must not be read or written twice.

Two arrays can show the same memory without knowing of each other, as tensors made by `from_numpy`
of one NumPy array do, so what counts is addresses, not the storages of tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from numpy import ndarray

from adjoint.engine.backends.array.buffers import address

Array = Any
UNKNOWN = 0  # no object has this identity


def apart(written: Sequence[Array], read: Sequence[Array] = ()) -> bool:
    """Whether no array of the first list shares memory with another, nor with one that is read.

    Arrays whose elements alternate in memory count as sharing it.

    >>> import numpy as np
    >>> x = np.zeros(4)
    >>> apart([x[:2], x[2:]]), apart([x[:2], x[1:]]), apart([x[:2]], [x[2:]]), apart([x], [x])
    (True, False, True, False)
    """
    owners = [owner_of(array) for array in written]
    others = [owner_of(array) for array in read]
    if UNKNOWN not in owners and UNKNOWN not in others:
        names = set(owners)
        if len(names) == len(owners) and names.isdisjoint(others):
            return True
    spans = sorted((*span(array), True) for array in written if array.size)
    if any(end > start for (_, end, _), (start, _, _) in pairwise(spans)):
        return False
    # The written ones are apart, so one that meets a span is next to it in this order.
    spans = sorted([*spans, *((*span(array), False) for array in read if array.size)])
    reach, reach_written = 0, 0  # ends of what came before: of all, and of what is written
    for start, end, is_written in spans:
        if start < (reach if is_written else reach_written):
            return False
        reach = max(reach, end)
        if is_written:
            reach_written = end
    return True


def owner_of(array: Array) -> int:
    """Which array has the memory; UNKNOWN where something else has, and others may show it."""
    if type(array) is not ndarray:
        memory = getattr(array.data, "mem", None)
        # What a pool hands out (Note [counted memory]) is nobody else's.
        return id(memory) if getattr(memory, "handed_out", False) else UNKNOWN
    owner = array if array.base is None else array.base
    return id(owner) if type(owner) is ndarray and owner.flags.owndata else UNKNOWN


def owners_of(arrays: Sequence[Array]) -> list[int]:
    """`owner_of` of many arrays, of a GPU's without a call for each."""
    owners = []
    for array in arrays:
        if type(array) is ndarray:
            owners.append(owner_of(array))
            continue
        memory = getattr(array.data, "mem", None)
        owners.append(id(memory) if getattr(memory, "handed_out", False) else UNKNOWN)
    return owners


def span(array: Array) -> tuple[int, int]:
    """From the lowest address of an array's elements to the end of the highest."""
    start = end = address(array)
    for size, stride in zip(array.shape, array.strides, strict=True):
        reach = (size - 1) * stride
        start, end = (start + reach, end) if reach < 0 else (start, end + reach)
    return start, end + int(array.dtype.itemsize)


def plain(array: Array) -> bool:
    """Whether an array can be written, each of its elements at a place of its own."""
    flags = array.flags
    whole = flags.c_contiguous or flags.f_contiguous
    return bool(whole and getattr(flags, "writeable", True))  # CuPy's always are
