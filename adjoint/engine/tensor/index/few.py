"""Indexing few elements by index tensors, lists and masks as NumPy does it, without operations.

Note [few elements]
    Between `x[i, j]` and what NumPy does with it lie a sorting of the key, several operations and
    their checks: ten times what PyTorch takes. So where nobody looks on, NumPy's indexing is called
    at once, in two steps as everywhere here: numbers, slices, None and `...` show a part, of which
    index arrays, masks and lists then choose. With nothing but those and whole slices in it the
    second key means the same to NumPy. What it refuses is done as ever, which says what is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from adjoint.engine.core.operations.public import may_be_small
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.result_layouts import lie_in_order
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.elementwise.comparison import FEW
from adjoint.engine.tensor.tensor import Tensor

Keys = tuple[Any, ...]

EVERYTHING = slice(None)
INT64, BOOL = np.dtype(np.int64), np.dtype(np.bool_)
CHOOSING = (INT64, np.dtype(np.int32), BOOL)


def picks_of(key: Any, rank: int) -> tuple[Keys, Keys] | None:
    """NumPy's keys of the part that is shown and of what is chosen of it, by some array.

    None where no array is in it, or where it may mean something else.
    """
    shown: list[Any] = []
    picks: list[Any] = []
    found, size, left, gap = False, 0, rank, -1
    for k in key if key.__class__ is tuple else (key,):
        kind = k.__class__
        if k is None:
            shown.append(k)
            picks.append(EVERYTHING)
            continue
        if k is Ellipsis:
            if gap >= 0:
                return None
            gap, at = len(shown), len(picks)
            continue
        covers = 1
        if kind is slice:
            if not _is_plain(k):
                return None
            shown.append(k)
            picks.append(EVERYTHING)
        elif kind is int:
            shown.append(k)
        else:
            array = k._array if isinstance(k, Tensor) else _of_list(k)
            if array.__class__ is not ndarray or array.dtype not in CHOOSING:
                return None
            if array.dtype == BOOL and not array.size:
                return None  # NumPy takes some that are not of the right shape
            if array.ndim:
                found = True
                size += array.size
                covers = array.ndim if array.dtype == BOOL else 1
                shown += (EVERYTHING,) * covers
                picks.append(array)
            elif array.dtype == BOOL:
                return None
            else:
                shown.append(int(array))
        left -= covers
    if not found or size > FEW or left < 0:
        return None
    if gap >= 0:
        shown[gap:gap] = (EVERYTHING,) * left
        picks[at:at] = (EVERYTHING,) * left
    return tuple(shown), tuple(picks)


def _is_plain(key: slice) -> bool:
    """Whether a slice has numbers or nothing in it, and goes forwards."""
    step = key.step
    return (
        (step is None or (step.__class__ is int and step > 0))
        and (key.start is None or key.start.__class__ is int)
        and (key.stop is None or key.stop.__class__ is int)
    )


def _of_list(key: Any) -> Any:
    """The array of a list of whole numbers, or of truths; None for all else."""
    if key.__class__ is not list or not key:
        return key if key.__class__ is ndarray else None
    kind = key[0].__class__
    if kind not in (int, bool) or any(k.__class__ is not kind for k in key):
        return None
    try:
        return np.array(key, INT64 if kind is int else BOOL)
    except OverflowError:
        return None


def taken(x: Tensor, key: Any) -> Tensor | None:
    """What a key selects; None where that is to be found as ever."""
    array = x._array
    if array.__class__ is not ndarray or array.size > FEW or not may_be_small(x):
        return None
    if CONTEXT.grad_enabled and x.requires_grad:
        return None
    keys = picks_of(key, array.ndim)
    if keys is None:
        return None
    shown, picks = keys
    try:
        view = array[shown]
        if not _gives_rows(array, view, picks):
            return None
        selected = view[picks]
    except IndexError:
        return None
    # Where slices come first NumPy's result is a transposed array.
    own = selected.base is None and selected.flags.c_contiguous
    return HOOKS.array.wrap(selected if own else selected.copy())


def _gives_rows(array: Any, view: Any, picks: Keys) -> bool:
    """Whether what is picked of this part of an array surely lies row by row."""
    rest: list[int] = []
    at = 0
    for k in picks:
        if k.__class__ is ndarray:
            if k.ndim > 1 and k.dtype != BOOL and (not k.flags.c_contiguous or 1 in k.shape):
                return False
            at += k.ndim if k.dtype == BOOL else 1
        else:
            rest.append(at)
            at += 1
    if array.flags.c_contiguous and 1 not in array.shape:
        return True
    rest += range(at, view.ndim)
    return lie_in_order([view.shape[d] for d in rest], [view.strides[d] for d in rest])


def put(array: Any, key: Any, source: Any) -> bool:
    """Whether a number, or elements of the same dtype, were written to what a key selects."""
    if array.__class__ is not ndarray or array.size > FEW:
        return False
    keys = picks_of(key, array.ndim)
    if keys is None:
        return False
    if source.__class__ is ndarray:
        if source.dtype != array.dtype:
            return False
        if np.may_share_memory(array, source):
            source = source.copy()
    shown, picks = keys
    if array.dtype == INT64:  # places must not change while they are read
        picks = tuple([k.copy() if k.__class__ is ndarray else k for k in picks])
    try:
        array[shown][picks] = source
    except (IndexError, TypeError, ValueError):  # found before anything is written
        return False
    return True
