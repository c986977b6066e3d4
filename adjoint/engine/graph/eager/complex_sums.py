"""Complex numbers as reals, which lie side by side: large sums, and what does the same to both.

Note [sums of pairs]
    Real and imaginary parts are two apart, so loops over either load every other word. But where
    elements lie row after row, a sum over outer dimensions adds rows of reals, whichever part each
    is of; and a sum over the last ones adds rows of `LANES` numbers, of which few are left to be
    added in pairs by NumPy. Both are sums of columns, as of reals.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.operations.reductions import reduced_shape
from adjoint.engine.tensor.tensor import Tensor, wrap

LANES = 16  # numbers of a row, two or four registers of reals
WORTH = 1 << 14  # elements: below, NumPy is as quick
LONG = 16 * LANES  # terms of each sum over the last dimensions


def is_left_to_numpy(x: Any) -> bool:
    """Whether a tensor has few complex numbers: NumPy adds them sooner than loops over parts."""
    return is_tensor(x) and x._array.dtype.kind == "c" and x._array.size < WORTH


def summed_as_reals(record: Record, x: Any, dims: tuple[int, ...], keepdim: bool) -> Tensor | None:
    """The sum over `dims`; None where it is to be as it is."""
    array = x._array if is_tensor(x) else None
    if array.__class__ is not ndarray or array.dtype.kind != "c" or array.size < WORTH:
        return None
    if not array.flags.carray:
        return None
    real = array.real.dtype
    inner = array.ndim - len(dims)  # where the last dimensions begin, if they are `dims`
    if dims and array.ndim - 1 not in dims:
        sums = record(wrap(array.view(real)), dims=dims, keepdim=keepdim)._array.view(array.dtype)
    elif dims == (*range(inner, array.ndim),) and prod(array.shape[inner:]) >= LONG:
        rows = array.reshape(prod(array.shape[:inner]), -1)
        whole = rows.shape[1] // LANES * LANES
        lanes = rows[:, :whole].reshape(len(rows), -1, LANES).view(real)
        few = record(wrap(lanes), dims=(1,), keepdim=False)._array.view(array.dtype)
        sums = np.add.reduce(few, -1)
        if whole < rows.shape[1]:
            sums += np.add.reduce(rows[:, whole:], -1)
    else:
        return None
    return wrap(sums.reshape(reduced_shape(array.shape, dims, keepdim)))


# What does the same with the real parts of numbers as with the imaginary ones, element by element
# or along a dimension.
PARTED = frozenset({"neg", "cumsum"})


def as_parts(operands: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Complex operands as reals, their parts in a further dimension; None: not all are such.

    They are alike, and lie row after row.
    """
    first = operands[0]._array if is_tensor(operands[0]) else None
    if first.__class__ is not ndarray or first.dtype.kind != "c" or not first.ndim:
        return None
    real, parts = first.real.dtype, []
    for x in operands:
        array = x._array if is_tensor(x) else None
        if array.__class__ is not ndarray or array.dtype != first.dtype:
            return None
        if array.shape != first.shape or not array.flags.carray:
            return None
        parts.append(wrap(array.view(real).reshape((*array.shape, 2))))
    return tuple(parts)
