"""`x[...] = y`: writes by basic, boolean, integer-array and mixed keys, split as in reads.

A basic key is a view that is written to; index tensors are one INDEX_PUT.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from numpy import broadcast_to, empty, ndarray

from adjoint.engine.core.dtype import DTYPES, INT, bool_, int64
from adjoint.engine.core.errors import DTypeError, DTypeValueError
from adjoint.engine.core.numeric_limits import iinfo
from adjoint.engine.core.operations.large import AT_ONCE
from adjoint.engine.core.operations.met_calls import may_be_small
from adjoint.engine.core.operations.overrides import OVERRIDES, PASS, asking, taken
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.result_layouts import block_position
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import fits_a_word
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.core.value import TensorBase
from adjoint.engine.ops.common.arguments import rounded_scalar
from adjoint.engine.ops.common.scalars import LARGEST, converted
from adjoint.engine.ops.elementwise.comparison import FEW
from adjoint.engine.ops.elementwise.condition import fitting, masked_fill
from adjoint.engine.ops.elementwise.records import WHERE
from adjoint.engine.ops.index.index import (
    INDEX_PUT,
    check_mask,
    fit_values,
    index_put,
    selected_shape,
)
from adjoint.engine.ops.index.nonzero import spread
from adjoint.engine.ops.shape.views import SLICE, VIEW_SCATTER
from adjoint.engine.tensor.index import few
from adjoint.engine.tensor.index.few import BOOL
from adjoint.engine.tensor.index.indexing import (
    getitem,
    indices_of,
    is_whole,
    shown_by,
    with_numbers,
)
from adjoint.engine.tensor.index.repeats import assigned, repeats, write_repeated
from adjoint.engine.tensor.index.subscripts import Basic, Picks, quick_index, split_key
from adjoint.engine.tensor.reading.item import known, plain_number, scalar_tensor
from adjoint.engine.tensor.tensor import (
    LONG,
    NO_GRAD,
    Tensor,
    alias_with_history,
    root_of,
    wrap,
)
from adjoint.engine.tensor.watching import doubt
from adjoint.engine.tensor.writing.filling import AS_TOLD, copied_small
from adjoint.engine.tensor.writing.mutation import (
    SHARED,
    assign,
    constants,
    direct_array,
    update,
    write,
)

# Numbers up to these are written as they are: larger ones may overflow, or a library has none.
PLAIN = 2.0**62
MASKED = "masked_fill_"
NUMBERS = (float, int, bool)
DIRECT = {d: min(largest, PLAIN) for d, largest in LARGEST.items()}
# Whole numbers that a dtype holds as they are.
HELD = {(int, d): range(iinfo(d).min, iinfo(d).max + 1) for d in DTYPES if d.category == INT} | {
    (bool, bool_): range(2)
}


def _is_everything(key: Any, array: Any) -> bool:
    """Whether an index shows all that there is, as it is."""
    if key.__class__ is not slice:
        return key is ...
    return key.start is key.stop is key.step is None and array.ndim > 0


def setitem(self: Tensor, key: Any, value: Any) -> None:
    """Write elements in place, through a view for basic indices."""
    if OVERRIDES.active and taken(setitem, self, key, value) is not PASS:
        return
    try:
        if key.__class__ is bool:
            if not key:
                return
            key = Ellipsis  # everything, converted as a basic index does
        if (
            isinstance(value, TensorBase)
            and _is_everything(key, self._array)
            and copied_small(self, value)
        ):
            return
        if _write_at_once(self, key, value):
            return
        basic = None if few.has_tensors(key) else quick_index(key, self._array.shape)
        if basic is not None and value.__class__ is Tensor and _is_written(self, basic, value):
            value._storage.version += 1
            return
        picks: Picks = []
        repeated = basic is None and repeats(self)
        if basic is None and not repeated and _write_chosen(self, key, value):
            return
        if not repeated and _write_directly(self, key, value, basic):
            return
        if basic is not None and _write_followed(self, key, value, basic):
            return
        if basic is None:
            numbers = with_numbers(self, key)
            if numbers is not None:
                setitem(self, numbers, value)
                return
            basic, picks = split_key(self, key)
        whole = bool(picks) and is_whole(basic, self._array.shape)
        target = self if whole else SLICE(self, index=basic)
        if not isinstance(value, TensorBase):
            value = _number_like(value, target)
        if value.device != target.device and value.ndim == 0:
            value = value.to(target.device)
        if not picks:
            _write_basic(target, value)
        elif repeated and assigned(target, value, picks):
            return
        elif len(picks) == 1 and picks[0][1].dtype is bool_:
            _write_masked(target, value, *picks[0])
        else:
            _write_indexed(target, value, picks)
    except BaseException:
        doubt(self._storage)
        raise


def _is_written(self: Tensor, basic: Basic, value: Tensor) -> bool:
    """Whether a view that was written through would be put where it looks.

    So `x[i] += y` ends. Off the tape, that is a copy to itself; on it, the root has the write
    already, and this view would be derived from the root (Note [view aliasing]) to be copied.
    """
    base, chain, storage = value._base, value._chain, value._storage
    if base is None or not chain or storage is not self._storage or not CONTEXT.settled:
        return False
    if chain[-1][0] is not SLICE or chain[-1][1]["index"] != basic or chain[:-1] != self._chain:
        return False
    root = self if self._base is None else root_of(self)
    if base[0] is not root or storage.version < 0 or CONTEXT.before_write is not None:
        return False
    if not CONTEXT.grad_enabled:
        return True
    node = root._node
    if node is None:
        return not (root._requires_grad or self._requires_grad or value._requires_grad)
    return node is not base[1] is not NO_GRAD and bool(node.is_write)


def _write_at_once(self: Tensor, key: Any, value: Any) -> bool:
    """The commonest writes, where NumPy does as it is told; whether it was one.

    They are of a number or of elements of the same dtype, off the tape.
    """
    array, number = self._array, value.__class__ in NUMBERS
    if array.__class__ is not ndarray or array.nbytes >= SHARED:
        return False
    basic = few.is_basic(key)
    if not basic and not few.is_seen_by_none(self, key):
        return False
    if number:
        source = value = _as_written(self, value) if array.dtype.char in AS_TOLD else None
        if source is None:
            return False
    elif value.__class__ is Tensor:
        source = value._array
        if source.__class__ is not ndarray or source.dtype is not array.dtype:
            return False
        if basic and value._storage is self._storage:
            return False
        if (value._requires_grad or value._base is not None) and not constants(value):
            return False
    else:
        return False
    if 0 in array.strides or direct_array(self) is None:
        return False
    try:
        if basic:
            array[key] = source
        elif (
            key.__class__ is Tensor
            and key._array.__class__ is ndarray
            and key._array.dtype.char == "?"
            and key._array.shape == array.shape
            and array.size <= FEW
            and (number or not source.shape)
        ):
            array[key._array] = source
        elif not few.put(self, array, key, value):
            return False
    except (IndexError, TypeError, ValueError):  # found before anything is written
        return False
    self._storage.version += 1
    return True


def _as_written(self: Tensor, value: Any) -> Any:
    """A number as it is written to a tensor; None where it has to be looked at first."""
    kind, dtype = value.__class__, self.dtype
    if not dtype.is_inexact:
        # An integer may have to wrap around, a float to be checked.
        held = HELD.get((kind, dtype))
        if held is None or value not in held or self._array.__class__ is not ndarray:
            return None
        return value
    if kind is bool:
        value = float(value)
    if abs(value) > DIRECT.get(dtype, PLAIN) and isfinite(value):
        return None
    return None if kind is int and not fits_a_word(value) else value


def _write_followed(self: Tensor, key: Any, value: Any, basic: Basic) -> bool:
    """The common writes through a basic index that the tape follows; whether it was one.

    What `write` comes to for the view that the index shows, which is made for its chain alone.
    """
    array = self._array
    if not (CONTEXT.plain and CONTEXT.grad_enabled) or CONTEXT.before_write is not None:
        return False
    root = self if self._base is None else root_of(self)
    if (
        array.__class__ is not ndarray
        or LISTENERS
        or 0 in array.strides
        or self._storage.version < 0
        or root._base is not None
        or len(self._chain) >= LONG - 1
        or (root._node is None and (root._requires_grad or self._requires_grad))
    ):
        return False
    if root is not self and (self._base[1] is NO_GRAD or self._node is None):  # type: ignore[index]
        return False
    shown = shown_by(array, key, basic)
    if value.__class__ in NUMBERS:
        source = _as_written(self, value) if root._requires_grad else None
        if source is None:
            return False
        value = wrap(shown)  # which the tape asks for its shape alone
    elif isinstance(value, Tensor) and (root._requires_grad or value.requires_grad):
        source = value._array
        if source.__class__ is not ndarray or value._storage is self._storage:
            return False
        if source.dtype is not shown.dtype or source.shape != shown.shape:
            return False
    else:
        return False
    before = alias_with_history(root)
    HOOKS.array.copy_into(shown, source)
    self._storage.version += 1
    chain = (*self._chain[len(root._chain) :], (SLICE, {"index": basic}))
    HOOKS.attach(VIEW_SCATTER, (before, value), {"chain": chain}, root)
    if root._grad_meta is not None and root._grad_meta.retains_grad is not None:
        HOOKS.keep_retaining(root)
    return True


def _write_chosen(self: Tensor, key: Any, value: Any) -> bool:
    """The common writes at a mask or at index tensors that the tape follows; whether it was one.

    What `_write_masked` and `_write_indexed` come to where the key says all that they ask: a mask
    of every element, or int64 indices among whole slices.
    """
    array = self._array
    if array.__class__ is not ndarray or not (CONTEXT.plain and CONTEXT.grad_enabled):
        return False
    number = value.__class__ in NUMBERS
    if number:
        value = _as_written(self, value) if array.dtype.char in AS_TOLD else None
        if value is None:
            return False
    elif value.__class__ is not Tensor or getattr(value._array, "dtype", None) is not array.dtype:
        return False
    mask = key._array if key.__class__ is Tensor else None
    if mask.__class__ is ndarray and mask.dtype is BOOL:
        if not array.shape or mask.shape != array.shape:
            return False
        if number or not value._array.shape:
            update("index_put_", self, masked_fill, key, value)
            return True
        places = mask.nonzero() if array.size <= FEW else ()
        if not places or value._array.size == 1 or value._array.shape != places[0].shape:
            return False
        indices, dims = tuple([wrap(place.copy()) for place in places]), tuple(range(array.ndim))
    else:
        indices, dims = few.places_of(key, array.ndim)
        if not dims:
            return False
        wanted = few.shape_of_chosen(array.shape, indices, dims)
        if number:
            filled = empty(wanted, array.dtype)  # sooner than `broadcast_to`: indices are few
            filled.fill(value)
            value = wrap(filled)
        elif value._array.shape != wanted:
            value = fit_values(value, wanted)
    update("index_put_", self, INDEX_PUT, value, *indices, dims=dims, accumulate=False)
    return True


def _write_directly(self: Tensor, key: Any, value: Any, basic: Basic | None) -> bool:
    """The common writes, of a constant off the tape, without a view; whether it was one."""
    number = value.__class__ in NUMBERS
    if number:
        value = _as_written(self, value)
        if value is None:
            return False
    elif not isinstance(value, Tensor) or not constants(value, self):
        return False
    if 0 in self._array.strides:  # whether locations repeat depends on what the key shows
        return False
    array = direct_array(self)
    if array is None:
        return False
    source = value if number else value._array
    if basic is not None:
        shown = shown_by(array, key, basic)
        if not number:
            if source.dtype != shown.dtype:
                return False
            if source.shape != shown.shape:
                source = _spread_over(shown, source)
                if source is None:
                    return False
        HOOKS.array.copy_into(shown, source)
    elif number and isinstance(key, Tensor) and key._array.shape and constants(key, self):
        if key.dtype is int64 and array.shape:
            HOOKS.array.put_into(array, source, (0,), (key._array,))
        elif key.dtype is bool_ and key.shape == array.shape:
            many = array.size >= AT_ONCE
            if not (many and HOOKS.compute_large(masked_fill, MASKED, self, (key, value), {})):
                HOOKS.array.fill_where(array, key._array, source)
        else:
            return False
    elif not may_be_small(self) or not few.put(self, array, key, value):
        return False
    self._storage.version += 1
    return True


def _spread_over(shown: Any, source: Any) -> Any:
    """An array broadcast to another's shape; None where it is not NumPy's or does not fit."""
    if shown.__class__ is not ndarray or source.__class__ is not ndarray:
        return None
    try:
        return broadcast_to(source, shown.shape)
    except ValueError:
        return None


def _word(number: int) -> int:
    if not fits_a_word(number):
        raise DTypeValueError(
            f"setitem: overflow: a whole number of int64 is expected, received {number}. Give a "
            "float."
        )
    return number


def _number_like(value: Any, target: Tensor) -> Tensor:
    number = plain_number(value)
    if number is None:
        raise TypeError(
            f"can't assign a {type(value).__name__} to a {target.dtype.name} tensor: expected a "
            "number or a Tensor. Wrap it in tensor(...)."
        )
    if isinstance(number, int):
        number = converted(_word, number)
    return scalar_tensor(rounded_scalar("setitem", number, target.dtype), target)


def _write_basic(target: Tensor, value: Tensor) -> None:
    if value.dtype is not target.dtype or value.device != target.device:
        value = value.to(device=target.device, dtype=target.dtype)
    shape = tuple(value.shape)
    while len(shape) > target.ndim and shape[0] == 1:
        shape = shape[1:]
    if shape != value.shape:
        value = value.reshape(shape)
    write(target, value if shape == target.shape else value.expand(target.shape))


def _write_back(picked: Any) -> None:
    """Put what was written to a copy that stands for `x[i]` into x, as a view would have."""
    out = picked.out if picked.out._base is None else root_of(picked.out)
    _write_indexed(picked.source, out, [(picked.dim, picked.index)])
    picked.seen = CONTEXT.capture.value_here(picked.source)


HOOKS.write_back = _write_back


def _check_dtype(target: Tensor, value: Tensor) -> None:
    if value.dtype is not target.dtype:
        raise DTypeError(
            "index_put: requires the source and destination dtypes match, got "
            f"{target.dtype.name} for the destination and {value.dtype.name} for the source. "
            "Convert the source first."
        )


def _write_masked(target: Tensor, value: Tensor, dim: int, mask: Tensor) -> None:
    """Assignment by one mask: a choice between elements, of which no shape depends on values.

    The selection has shape (leading, count, trailing); a value that does not vary along `count`
    broadcasts to (leading, mask, trailing) at once.
    """
    if value.numel() == 1:  # fills, and so converts
        value = fitting("index_put", value.reshape(()), target.dtype)
    _check_dtype(target, value)
    check_mask(mask, target.shape, dim)
    trailing = tuple(target.shape[dim + mask.ndim :])
    shape = tuple(value.shape)
    at = len(shape) - len(trailing) - 1  # of the count
    if at >= 0 and shape[at] != 1:
        if known(mask) is not None:
            _write_indexed(target, value, [(dim, mask)])
            return
        wanted = (*target.shape[:dim], shape[at], *trailing)
        value = spread(mask, fit_values(value, wanted), dim)
    elif at >= 0:
        value = value.reshape((*shape[:at], *(1,) * mask.ndim, *shape[at + 1 :]))
    widened = mask.reshape((*mask.shape, *(1,) * len(trailing)))
    if value.ndim == 0 and constants(value, mask):
        array = direct_array(target)
        if array is not None:
            HOOKS.array.fill_where(array, widened._array, value._array)
            target._storage.version += 1
            return
    assign("index_put_", target, WHERE(widened, fit_values(value, tuple(target.shape)), target))


def _write_indexed(target: Tensor, value: Tensor, picks: Picks) -> None:
    _check_dtype(target, value)
    dims, indices = indices_of(target, picks)
    single = [d for d, i in zip(dims, indices, strict=True) if i.ndim == 0]
    several = tuple(d - sum(s < d for s in single) for d in dims if d not in single)
    shapes = [tuple(i.shape) for i in indices if i.ndim]
    sizes = [n for d, n in enumerate(target.shape) if d not in single]
    value = fit_values(value, selected_shape(sizes, shapes, several) if several else tuple(sizes))
    if (
        single and several
    ):  # the block of picked dimensions may stand elsewhere with them than without
        rank = max(map(len, shapes))
        here, there = block_position(several), block_position(dims)
        value = value.movedim(tuple(range(here, here + rank)), tuple(range(there, there + rank)))
    if constants(value, *indices):
        array = direct_array(target)
        if array is not None:
            HOOKS.array.put_into(array, value._array, dims, tuple([i._array for i in indices]))
            target._storage.version += 1
            return
    put = INDEX_PUT(target, value, *indices, dims=dims, accumulate=False)
    assign("index_put_", target, put)


_put_repeated = write_repeated("index_put")


@public(name="index_put_", numbers="elements")
def index_put_(
    input: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False
) -> Tensor:
    """In-place form of `index_put`."""
    if _put_repeated is not None and _put_repeated(input, (indices, values, accumulate), {}):
        return input
    return update("index_put_", input, index_put, indices, values, accumulate)


def install_indexing() -> None:
    """Put indexing on Tensor."""
    getitem.__name__, setitem.__name__ = "__getitem__", "__setitem__"  # what an override reads
    asking(getitem)
    asking(setitem)
    setattr(Tensor, "__getitem__", getitem)  # noqa: B010
    setattr(Tensor, "__setitem__", setitem)  # noqa: B010
