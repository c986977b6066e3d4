"""Many arrays in the CPU's memory put side by side, a row of each after the other, by all workers.

NumPy makes an iterator for each array, and calls a loop for each of its rows: of pieces of eight
columns that is most of the time.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from math import prod
from typing import Any

import numpy as np

from adjoint.engine.backends.array.memory.filling import is_moved, is_shared
from adjoint.engine.core.operations.record import HOOKS

Array = Any
# Arrays, and bytes of all of them, that are worth being looked at: a row takes NumPy's loop eleven
# nanoseconds where all lie in a cache, twice as many where they do not, the kernel eight.
MANY, LARGE = 4, 1 << 18


def joined(arrays: Sequence[Array], dim: int) -> Array | None:
    """Arrays of one dtype joined along a dimension; None where NumPy is to do that.

    So where their other sizes differ, which it refuses, and where a row of one is in parts.
    """
    if len(arrays) < MANY or dim == 0:
        return None
    first = arrays[0]
    size = first.nbytes * len(arrays)  # about
    if size < LARGE or not is_shared(size) or {x.dtype for x in arrays} != {first.dtype}:
        return None
    before, after = first.shape[:dim], first.shape[dim + 1 :]
    inner = prod(after) * first.dtype.itemsize
    shapes = [x.shape for x in arrays]
    if any(s[:dim] != before or s[dim + 1 :] != after for s in {*shapes}):
        return None
    sizes = [s[dim] * inner for s in shapes]
    if first.ndim == 2:
        strides = [x.strides for x in arrays]
        if any(s[1] != inner for s in {*strides}):
            return None
        steps = [s[0] for s in strides]
    elif all(x.flags.c_contiguous for x in arrays):
        steps = sizes
    else:
        return None
    *places, width = accumulate(sizes, initial=0)
    out = np.empty((*before, width // inner, *after), first.dtype)
    address = address_of_data if HOOKS.address is None else HOOKS.address
    words = zip(map(address, arrays), steps, sizes, places, strict=True)
    pieces = array("q", [*chain.from_iterable(words)])
    moved = is_moved(HOOKS.join_memory, address(out), width, prod(before), pieces)
    return out if moved else None


def address_of_data(x: Array) -> int:
    """Where an array begins, while there is no native code that tells."""
    where: int = x.__array_interface__["data"][0]
    return where
