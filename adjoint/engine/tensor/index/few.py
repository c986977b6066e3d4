"""Indexing few elements by index tensors, lists and masks as NumPy does it, without operations.

Note [few elements]
    Between `x[i, j]` and what NumPy does with it lie a sorting of the key, several operations and
    their checks: ten times what PyTorch takes. Where keys mean the same to NumPy (whole slices
    first, then index tensors, lists of whole numbers and whole numbers, and nothing else) and
    nobody looks on, its indexing is called at once. What it refuses is done as ever, which says
    what is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from adjoint.engine.core.operations.public import may_be_small
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.elementwise.comparison import FEW
from adjoint.engine.tensor.tensor import Tensor

EVERYTHING = slice(None)
INT64, BOOL = np.dtype(np.int64), np.dtype(np.bool_)


def picks_of(key: Any, rank: int) -> tuple[Any, ...] | None:
    """A key as NumPy's, in which some index is an array; None where it may mean something else."""
    keys = key if key.__class__ is tuple else (key,)
    if not 0 < len(keys) <= rank:
        return None
    picks: list[Any] = []
    found, size = False, 0
    for k in keys:
        kind = k.__class__
        if kind is slice:
            if found or k != EVERYTHING or (picks and picks[-1].__class__ is int):
                return None
            picks.append(k)
            continue
        if kind is int:
            picks.append(k)
            continue
        array = k._array if isinstance(k, Tensor) else _of_list(k)
        if array.__class__ is not ndarray or array.dtype is not INT64 or not array.ndim:
            return None
        found = True
        size += array.size
        picks.append(array)
    return tuple(picks) if found and size <= FEW else None


def _of_list(key: Any) -> Any:
    """The array of a list of whole numbers; None for all else."""
    if key.__class__ is not list or not key or any(k.__class__ is not int for k in key):
        return None
    try:
        return np.array(key, INT64)
    except OverflowError:
        return None


def taken(x: Tensor, key: Any) -> Tensor | None:
    """What a key selects; None where that is to be found as ever."""
    array = x._array
    if array.__class__ is not ndarray or array.size > FEW or not may_be_small(x):
        return None
    if CONTEXT.grad_enabled and x.requires_grad:
        return None
    picks = picks_of(key, array.ndim)
    if picks is None:
        return None
    try:
        selected = array[picks]
    except IndexError:
        return None
    # Where slices come first NumPy's result is a transposed array.
    turned = picks[0].__class__ is slice
    return HOOKS.array.wrap(selected.copy() if turned else np.ascontiguousarray(selected))


def put(array: Any, key: Any, source: Any) -> bool:
    """Whether a number, or elements of the same dtype and of the shape selected, were written."""
    if array.__class__ is not ndarray or array.size > FEW:
        return False
    mask = key._array if isinstance(key, Tensor) else None
    if mask.__class__ is ndarray and mask.dtype is BOOL:
        return _put_masked(array, mask, source)
    picks = picks_of(key, array.ndim)
    if picks is None:
        return False
    try:
        if source.__class__ is ndarray:
            selected = array[picks]
            if selected.shape != source.shape or selected.dtype != source.dtype:
                return False
            if np.may_share_memory(array, source):
                source = source.copy()
        array[picks] = source
    except IndexError:
        return False
    return True


def _put_masked(array: Any, mask: Any, source: Any) -> bool:
    """The same of a mask for all elements, and as many others as it chooses."""
    if source.__class__ is not ndarray or source.ndim != 1 or mask.shape != array.shape:
        return False
    if source.dtype != array.dtype or len(source) != np.count_nonzero(mask) or not mask.ndim:
        return False
    array[mask] = source.copy() if np.may_share_memory(array, source) else source
    return True
