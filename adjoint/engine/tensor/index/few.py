"""Indexing few elements by index tensors, lists and masks without the operations it comes to.

Note [few elements]
    Between `x[i, j]` and what it does with memory lie a sorting of the key, several operations and
    their checks: ten times what PyTorch takes. So where nobody looks on, the key is read once, in
    two steps as everywhere here: numbers, slices, None and `...` show a part, of which index
    tensors, masks and lists then choose. The part is a view, made at once, so a number or a slice
    that differs from call to call makes no other kind of call. What index tensors choose of it, or
    where they write, is then a small call (Note [small calls]) of this part and these tensors.
    Where that has no program, and for masks, NumPy's indexing is called: with nothing but arrays
    and whole slices in it the second key means the same to NumPy. What it refuses is done as ever,
    which says what is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from adjoint.engine.core.errors import raised_outside
from adjoint.engine.core.operations.met_calls import write_part
from adjoint.engine.core.operations.overrides import OVERRIDES, concerns_nobody
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.operations.small_calls import SmallCalls, is_looked_at
from adjoint.engine.core.result_layouts import lie_in_order
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.ops.elementwise.comparison import FEW
from adjoint.engine.ops.index.index import INDEX, INDEX_PUT, fit_values, selected_shape
from adjoint.engine.tensor.tensor import Tensor, wrap

EVERYTHING = slice(None)
# The one object that NumPy's own arrays have each for; others are no matter here.
INT64, INT32, BOOL = np.dtype(np.int64), np.dtype(np.int32), np.dtype(np.bool_)
WORTH = 1 << 10  # elements of a part up to which programs, which copy it, are sooner than NumPy
NO_PARAMETERS: dict[str, Any] = {}
_TAKEN, _PUT = SmallCalls("getitem"), SmallCalls("setitem", into=True)


# A key in two steps: NumPy's key of the part that is shown (None: all there is); of each dimension
# of that part an array, or `EVERYTHING`; those arrays as int64 tensors (none where a program would
# not know them), and along which dimensions of the part they go.
Picks = tuple[tuple[Any, ...] | None, tuple[Any, ...], tuple[Tensor, ...], tuple[int, ...]]


def picks_of(key: Any, rank: int) -> Picks | None:
    """What is shown and chosen by a key; None where it is another matter."""
    shown: list[Any] = []
    arrays: list[Any] = []
    tensors: list[Tensor] = []
    dims: list[int] = []
    size, left, gap, whole, known = 0, rank, -1, True, True
    for k in key if key.__class__ is tuple else (key,):
        kind = k.__class__
        if kind is slice:
            if k != EVERYTHING:
                if not _is_plain(k):
                    return None
                whole = False
            shown.append(k)
            arrays.append(EVERYTHING)
        elif kind is int:
            shown.append(k)
            whole = False
        elif k is None:
            shown.append(k)
            arrays.append(EVERYTHING)
            whole = False
            continue
        elif k is Ellipsis:
            if gap >= 0:
                return None
            gap, at, before = len(shown), len(arrays), len(dims)
            continue
        else:
            array = k._array if isinstance(k, Tensor) else _of_list(k)
            if array.__class__ is not ndarray:
                return None
            dtype, covers = array.dtype, array.ndim
            size += array.size
            if dtype is BOOL:
                if not covers or not array.size:
                    return None  # NumPy takes some that are not of the right shape
                left -= covers - 1
                shown += (EVERYTHING,) * covers
                dims.append(-1)
                arrays.append(array)
                known = False
            elif dtype is not INT64 and dtype is not INT32:
                return None
            elif not covers:
                shown.append(int(array))
                whole = False
            else:
                known = known and dtype is INT64
                shown.append(EVERYTHING)
                dims.append(len(arrays))
                if known:
                    tensors.append(wrap(array) if kind is list or kind is range else k)
                arrays.append(array)
        left -= 1
    if left < 0 or size > FEW:
        return None
    if gap >= 0:
        shown[gap:gap] = (EVERYTHING,) * left
        arrays[at:at] = (EVERYTHING,) * left
        dims[before:] = [d if d < 0 else d + left for d in dims[before:]]
    part = None if whole else tuple(shown)
    return part, tuple(arrays), tuple(tensors) if known and size else (), tuple(dims)


def places_of(key: Any, rank: int) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """The int64 tensors of a key that shows all there is, and along which dimensions they go.

    Neither for any other key.
    """
    if key.__class__ is Tensor:  # the commonest
        index = key._array
        if index.__class__ is not ndarray or index.dtype is not INT64 or not (index.ndim and rank):
            return (), ()
        return ((key,), (0,)) if 0 < index.size <= FEW else ((), ())
    picks = picks_of(key, rank)
    if picks is None or picks[0] is not None or not picks[2]:
        return (), ()
    tensors, dims = picks[2:]
    return tuple([x if x.__class__ is Tensor else wrap(np.array(x)) for x in tensors]), dims


def shape_of_chosen(
    shape: tuple[int, ...], indices: tuple[Tensor, ...], dims: tuple[int, ...]
) -> tuple[int, ...]:
    """The shape of what int64 tensors choose."""
    if dims == (0,):
        return indices[0]._array.shape + shape[1:]
    return selected_shape(shape, [index._array.shape for index in indices], dims)


def _is_plain(key: slice) -> bool:
    """Whether a slice has numbers or nothing in it, and goes forwards."""
    step = key.step
    return (
        (step is None or (step.__class__ is int and step > 0))
        and (key.start is None or key.start.__class__ is int)
        and (key.stop is None or key.stop.__class__ is int)
    )


def is_basic(key: Any) -> bool:
    """Whether a key has nothing in it but numbers, slices that go forwards, None and `...`."""
    for k in key if key.__class__ is tuple else (key,):
        kind = k.__class__
        if kind is slice:
            if not _is_plain(k):
                return False
        elif kind is not int and k is not None and k is not Ellipsis:
            return False
    return True


def _of_list(key: Any) -> Any:
    """The array of a list of whole numbers, a range, or truths; None for all else."""
    kind = key.__class__
    if kind is range:
        return np.array(key, INT64) if len(key) <= FEW else None
    if kind is not list or not key:
        return key if kind is ndarray else None
    kind = key[0].__class__
    if kind not in (int, bool) or any(k.__class__ is not kind for k in key):
        return None
    try:
        return np.array(key, INT64 if kind is int else BOOL)
    except OverflowError:
        return None


def is_seen_by_none(x: Tensor, key: Any) -> bool:
    """Whether elements of a tensor may be chosen without operations."""
    if x._array.__class__ is not ndarray or LISTENERS or not CONTEXT.plain:
        return False
    if OVERRIDES.active and not concerns_nobody((x, key), NO_PARAMETERS):
        return False
    followed = x._requires_grad if x._base is None else x.requires_grad
    return not (followed and CONTEXT.grad_enabled)


def _taken_at(x: Tensor, dims: tuple[int, ...], indices: tuple[Tensor, ...]) -> Tensor | None:
    """What int64 tensors choose of a tensor, by a program; None where there is none."""
    operands = (x, dims, *indices)
    if _TAKEN.small:
        try:
            found: Tensor | None = HOOKS.meet_call(_TAKEN.small, operands, NO_PARAMETERS, False)
        except Exception as error:  # as it is, it succeeds or says what is wrong
            if raised_outside(error):
                raise
            found = None
        if found is not None:
            return found
    if is_looked_at(_TAKEN):
        HOOKS.note_call(_TAKEN, operands, NO_PARAMETERS, lambda: INDEX(x, *indices, dims=dims))
    return None


def taken(x: Tensor, key: Any) -> Any:
    """What a key selects, or the same key with numbers for tensors that are numbers.

    None where it is to be found as ever.
    """
    if not is_seen_by_none(x, key):
        return None
    array = x._array
    if key.__class__ is Tensor:  # the commonest
        index = key._array
        if index.__class__ is not ndarray or index.dtype is not INT64:
            return None
        if not array.ndim:
            return None
        if index.ndim:
            return _taken_at(x, (0,), (key,)) if index.size else None
        return int(index)
    picks = picks_of(key, array.ndim)
    if picks is None:
        return None
    shown, arrays, tensors, dims = picks
    if not dims:
        return shown
    try:
        view = array if shown is None else array[shown]
        if tensors:
            found = _taken_at(x if shown is None else wrap(view), dims, tensors)
            if found is not None:
                return found
        if array.size > FEW or not _gives_rows(array, view, arrays):
            return None
        selected = view[arrays]
    except IndexError:
        return None
    # Where slices come first NumPy's result is a transposed array; a step of a dimension of size 1
    # is any number.
    own = selected.base is None and selected.flags.c_contiguous and 1 not in selected.shape
    return HOOKS.array.wrap(selected if own else selected.copy())


def has_tensors(key: Any) -> bool:
    """Whether plain tensors are in a key."""
    if key.__class__ is tuple:
        for k in key:  # noqa: SIM110 (a generator takes longer than all the rest)
            if k.__class__ is Tensor:
                return True
        return False
    return key.__class__ is Tensor


def _gives_rows(array: Any, view: Any, picks: tuple[Any, ...]) -> bool:
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


def put(target: Tensor, array: Any, key: Any, source: Any) -> bool:
    """Whether a number, or a tensor's elements of the same dtype, were written to what a key picks.

    Nobody has to know of it, which the caller has asked, and `array` is the target's.
    """
    if array.__class__ is not ndarray or array.size > FEW:
        return False
    number = source.__class__ is not Tensor
    if not number and (
        source._array.__class__ is not ndarray or source._array.dtype is not array.dtype
    ):
        return False
    picks: Picks | None
    if key.__class__ is Tensor and (index := key._array).ndim and index.dtype is INT64:
        picks = (None, (index,), (key,), (0,)) if index.size and array.ndim else None
    else:
        picks = picks_of(key, array.ndim)
    if picks is None:
        return False
    shown, arrays, tensors, dims = picks
    try:
        if not dims:  # nothing but numbers in it
            if shown is None:
                return False
            array[shown] = source if number else source._array
            return True
        view = array if shown is None else array[shown]
        if number:
            value = source
        else:
            value = source._array
            if tensors and view.size <= WORTH:
                part = target if shown is None else wrap(view)
                if write_part(_PUT, _with_put, (part, dims, source, *tensors)):
                    return True
            if np.may_share_memory(array, value):
                value = value.copy()
        if array.dtype is INT64:  # places must not change while they are read
            arrays = tuple([k.copy() if k.__class__ is ndarray else k for k in arrays])
        view[arrays] = value
    except (IndexError, TypeError, ValueError):  # found before anything is written
        return False
    return True


def _with_put(x: Tensor, dims: tuple[int, ...], source: Tensor, *indices: Tensor) -> Tensor:
    """What that program is made of."""
    wanted = shape_of_chosen(tuple(x.shape), indices, dims)
    return INDEX_PUT(x, fit_values(source, wanted), *indices, dims=dims, accumulate=False)
