"""`x[...]`: reads by basic, boolean, integer-array and mixed keys.

A key is split in two (`subscripts.py`): a basic index, which is one SLICE (a view), and index
tensors for dimensions of its result, which are one INDEX.
"""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from adjoint.engine.core.dtype import bool_, int64
from adjoint.engine.core.layout import contiguous_format
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.overrides import OVERRIDES, PASS, both_ordinary, taken
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.index.index import (
    INDEX,
    check_mask,
    expand_mask,
)
from adjoint.engine.ops.index.nonzero import chosen_by, nonzero_rows
from adjoint.engine.ops.shape.views import SLICE
from adjoint.engine.tensor.index import few
from adjoint.engine.tensor.index.subscripts import Basic, Picks, quick_index, split_key
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import (
    Tensor,
    mark_view,
    window,
)

EVERYTHING = slice(None)
_INDICES = "lq?"  # NumPy's letters for the dtypes of places and masks


def is_whole(basic: Basic, shape: tuple[int, ...]) -> bool:
    """Whether a basic index shows all there is."""
    return len(basic) == len(shape) and all(
        e == (0, n, 1) for e, n in zip(basic, shape, strict=True)
    )


def indices_of(x: Tensor, picks: Picks) -> tuple[tuple[int, ...], list[Tensor]]:
    """Dimensions and int64 indices of picks, masks expanded."""
    dims: list[int] = []
    indices: list[Tensor] = []
    for dim, pick in picks:
        expanded = expand_mask(pick, x.shape, dim) if pick.dtype is bool_ else [pick]
        dims += range(dim, dim + len(expanded))
        indices += expanded
    return tuple(dims), indices


# -- reading ------------------------------------------------------------------------------------


def getitem(self: Tensor, key: Any) -> Any:
    """Select elements: a view for basic indices, a copy for index tensors."""
    if OVERRIDES.active and not both_ordinary(self, key):
        given = taken(getitem, self, key)
        if given is not PASS:
            return given
    array = self._array
    index = None
    if few.has_tensors(key):
        selected = few.taken(self, key)
        if selected.__class__ is Tensor:
            return selected
        if selected is not None:  # numbers
            key, index = selected, quick_index(selected, array.shape)
    else:
        index = quick_index(key, array.shape)
    if index is not None:
        if not (CONTEXT.plain or CONTEXT.inferring) or array.__class__ is Window:
            return SLICE(self, index=index)
        # What executing SLICE comes to, without the way there: 3 us instead of 8.
        shown = shown_by(array, key, index)
        params = {"index": index}
        show = HOOKS.show if array.__class__ is ndarray else HOOKS.show_there
        if show is not None and not CONTEXT.inferring:
            plans = SLICE.tape if CONTEXT.grad_enabled else None
            seen = show(self, shown, SLICE, params, plans)
            if seen is not None:
                return seen
        out = window(self, shown, SLICE, params)
        mark_view(out, self)
        followed = CONTEXT.grad_enabled and not CONTEXT.inferring
        if followed and (self._requires_grad or self._base is not None):
            HOOKS.attach(SLICE, (self,), params, out)
        return out
    if followed_keys(self, key):
        split = few.picks_of(key, len(array.shape))
        if split is not None and split[2]:
            shown, _, tensors, dims = split
            return INDEX(self if shown is None else getitem(self, shown), *tensors, dims=dims)
    if isinstance(key, Tensor) and array.shape:
        if not key._array.shape:
            number = with_numbers(self, key)
            if number is not None:
                return getitem(self, number)
        elif key.dtype is int64 and key.device == self.device:
            return INDEX(self, key, dims=(0,))
        elif key.dtype is bool_ and key.device == self.device:
            return _select(self, 0, key)
    if key.__class__ is ndarray and key.dtype.char in _INDICES and key.shape and CONTEXT.plain:
        return getitem(self, HOOKS.array.index_tensor(key, self.device))
    if key.__class__ is bool:  # a mask that adds a dimension, and keeps it or empties it
        seen = getitem(self, None)
        return (seen if key else seen[:0]).clone(memory_format=contiguous_format)
    selected = few.taken(self, key) if key.__class__ in (list, tuple, range) else None
    if selected.__class__ is Tensor:
        return selected
    numbers = with_numbers(self, key)
    if numbers is not None:
        return getitem(self, numbers)
    alone = _only_index(self, key)
    if alone is not None:
        return INDEX(self, key[alone], dims=(alone,))
    if _are_indices(self, key):
        return INDEX(self, *key, dims=tuple(range(len(key))))
    basic, picks = split_key(self, key)
    if not picks:
        return SLICE(self, index=basic)
    x = self if is_whole(basic, array.shape) else SLICE(self, index=basic)
    if len(picks) == 1 and picks[0][1].dtype is bool_:
        return _select(x, *picks[0])
    x, picks = _pick_scalars(x, picks)
    if not picks:
        return x
    dims, indices = indices_of(x, picks)
    return INDEX(x, *indices, dims=dims)


def followed_keys(x: Tensor, key: Any) -> bool:
    """Whether a key may be read as it is where nobody looks on, for operations of the tape."""
    return (
        key.__class__ is tuple
        and x._array.__class__ is ndarray
        and CONTEXT.plain
        and CONTEXT.grad_enabled
        and x.requires_grad
    )


def _number_of(k: Any) -> int | None:
    """The whole number that a tensor of no dimensions in a key is, where it is known."""
    if isinstance(k, Tensor) and not k._array.shape and k._array.__class__ is ndarray:
        return int(k._array) if k.dtype is int64 and k._storage.level is None else None
    return None


def with_numbers(x: Tensor, key: Any) -> Any:
    """A key with numbers for the tensors that are numbers; None where there are none."""
    if x._array.__class__ is not ndarray or not CONTEXT.plain:
        return None
    if key.__class__ is not tuple:
        return _number_of(key)
    numbers = None
    for at, k in enumerate(key):
        if isinstance(k, Tensor) and not k._array.shape:
            number = _number_of(k)
            if number is not None:
                numbers = numbers or [*key]
                numbers[at] = number
    return None if numbers is None else tuple(numbers)


def _only_index(x: Tensor, key: Any) -> int | None:
    """Where the one index of a key is, if it is a tensor among slices of all there is."""
    at = None
    for d, k in enumerate(key if key.__class__ is tuple and len(key) <= x.ndim else ()):
        if k.__class__ is slice and k == EVERYTHING:
            continue
        if at is not None or not isinstance(k, Tensor) or k.dtype is not int64:
            return None
        if not k._array.shape or k.device != x.device:
            return None
        at = d
    return at


def _are_indices(x: Tensor, key: Any) -> bool:
    """Whether a key is several index tensors and nothing else, of a rank and on its device."""
    return (
        key.__class__ is tuple
        and 1 < len(key) <= x.ndim
        and all(
            isinstance(k, Tensor) and k.dtype is int64 and k._array.shape and k.device == x.device
            for k in key
        )
    )


def _select(x: Tensor, dim: int, mask: Tensor) -> Tensor:
    """The slices where one mask holds, by positions in the flattened dimensions it covers."""
    check_mask(mask, x._array.shape, dim)
    chosen = chosen_by(x, mask) if dim == 0 else None
    if chosen is not None:
        return chosen
    if mask.ndim > 1:
        x = x.reshape((*x.shape[:dim], mask.numel(), *x.shape[dim + mask.ndim :]))
        mask = mask.reshape(-1)
    return INDEX(x, nonzero_rows(mask).reshape(-1), dims=(dim,))


def shown_by(array: Any, key: Any, index: Basic) -> Any:
    """The part of an array a basic key shows, as an array (a 0-d one, not a number)."""
    if DEVICE_LAYOUTS and array.__class__ in DEVICE_LAYOUTS:
        return HOOKS.array.part_of(array, key, index)
    if key.__class__ is tuple:
        return array[key if Ellipsis in key else (*key, ...)]
    return array[key] if key is Ellipsis else array[key, ...]


def _pick_scalars(x: Tensor, picks: Picks) -> tuple[Tensor, Picks]:
    """0-d indices whose value is not known act as integers do: alone, before the others."""
    for dim, pick in reversed(picks):
        if pick.ndim == 0:
            source, x = x, INDEX(x, pick, dims=(dim,))
            if CONTEXT.capture is not None and not CONTEXT.levels:
                CONTEXT.capture.pick(x, source, pick, dim)
            picks = [(d - (d > dim), p) for d, p in picks if p is not pick]
    return x, picks


# -- writing ------------------------------------------------------------------------------------
