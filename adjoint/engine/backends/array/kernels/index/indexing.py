"""Kernels of indexing, gathering and scattering."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from adjoint.engine.backends.array.buffers import Buffers
from adjoint.engine.backends.array.devices import cupy, library
from adjoint.engine.backends.array.dtypes import accumulator
from adjoint.engine.backends.array.gpu import faults
from adjoint.engine.backends.array.kernels.order import choosing
from adjoint.engine.backends.array.memory.laying import ArrayPlace, in_elements, with_strides
from adjoint.engine.backends.array.quiet import quietly
from adjoint.engine.backends.array.table import lowers, on_device, row_major
from adjoint.engine.core.device import CURRENT_INDEX
from adjoint.engine.core.errors import BoundsError
from adjoint.engine.core.layout import elementwise_strides
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.result_layouts import picked_places
from adjoint.engine.core.state import determinism
from adjoint.engine.ops.index import gather, index, nonzero, scatter
from adjoint.engine.tensor.tensor import DTYPE_OF, wrap

Array = Any


def wrong_index(xp: Any, picks: Array, size: int, low: int) -> int | None:
    """An index outside [low, size), or None."""
    if picks.size == 0:
        return None
    signless = xp is np and not low and picks.dtype == np.int64
    # One look in place of two: below zero is very large without a sign.
    if signless and np.maximum.reduce(picks.view(np.uint64), None) < size:
        return None
    smallest, largest = picks.min(), picks.max()
    if smallest < low:
        return int(smallest)
    return int(largest) if largest >= size else None


def full_index(
    xp: Any,
    x: Array,
    dims: tuple[int, ...],
    indices: tuple[Array, ...],
    wrap: bool,
    accumulate: bool = False,
    name: str = "index_put",
) -> tuple[Any, ...]:
    """Index arrays at their dimensions, whole slices elsewhere; all in bounds.

    NumPy checks bounds itself; CuPy wraps silently, and neither refuses negative indices.
    """
    if xp is not np or not wrap or not x.size:  # of no elements, NumPy looks for none
        for d, picks in zip(dims, indices, strict=True):
            size = x.shape[d]
            if xp is np and x.size and not accumulate and (not picks.size or picks.min() >= 0):
                continue
            bad = wrong_index(xp, picks, size, -size if wrap else 0)
            if bad is not None:
                raise index.out_of_bounds(name, bad, d, size, accumulate=accumulate, wrap=wrap)
    at = dict(zip(dims, indices, strict=True))
    return tuple(at.get(d, slice(None)) for d in range(dims[-1] + 1))


def _renamed(name: str, error: IndexError, wrap: bool = True) -> IndexError:
    """NumPy's message in our words; of rows that are chosen (no `wrap`) as `out_of_bounds`."""
    kind = IndexError if wrap or name != "index" else BoundsError
    return kind(f"{name}: {str(error).replace('for axis', 'for dimension')}")


@lowers(index.INDEX)
def index_(xp: Any, x: Array, *indices: Array, dims: tuple[int, ...], wrap: bool = True) -> Array:
    in_rows = x.flags.c_contiguous and 1 not in x.shape
    if not wrap or (in_rows and all(picks.flags.c_contiguous for picks in indices)):
        return _index_in_rows(xp, x, *indices, dims=dims, wrap=wrap)
    out = _index_in_memory_order(xp, x, indices[0], dims[0]) if len(dims) == 1 else None
    if out is None:
        out = _index_in_rows(xp, x, *indices, dims=dims, wrap=wrap)
    places = tuple([(a.shape, a.strides, a.itemsize) for a in (x, *indices)])
    return with_strides(xp, out, _picked_strides(places, out.shape, dims))


def _index_in_memory_order(xp: Any, x: Array, picks: Array, dim: int) -> Array | None:
    """What a vector picks, found in the order of memory: by rows, where its result mostly lies.

    None where x lies in order, or where an index is out of bounds of one of its own dimensions.
    """
    order = tuple(sorted(range(x.ndim), key=lambda d: -x.strides[d]))
    if picks.ndim != 1 or order == tuple(range(x.ndim)):
        return None
    at = (order.index(dim),)
    try:
        out = _index_in_rows(xp, x.transpose(order), picks, dims=at, wrap=True)
    except IndexError:
        return None
    return out.transpose([order.index(d) for d in range(x.ndim)])


@lru_cache(maxsize=1 << 12)
def _picked_strides(
    places: tuple[ArrayPlace, ...], shape: tuple[int, ...], dims: tuple[int, ...]
) -> tuple[int, ...]:
    """The strides, in elements, of what indices pick of an array: the first of these places."""
    seen = [in_elements(place) for place in places]
    return elementwise_strides(shape, picked_places(seen, shape, dims))


def _index_in_rows(xp: Any, x: Array, *indices: Array, dims: tuple[int, ...], wrap: bool) -> Array:
    """What indices pick, row by row."""
    # By flat positions it needs a third of the time.
    if len(dims) == x.ndim > 1 and x.flags.c_contiguous and indices[0].size > 64:
        positions = flat_positions(xp, x.shape, in_bounds(xp, x.shape, indices))
        return row_major(xp, x.reshape(-1).take(positions))
    where = full_index(xp, x, dims, indices, wrap, name="index")
    try:
        # `take` needs half the time of x[index], a quarter along a middle dimension, but it
        # copies an array that is not contiguous.
        if len(dims) == 1 and x.flags.c_contiguous:
            return row_major(xp, x.take(indices[0], axis=dims[0]))
        out = x[where]
    except IndexError as error:
        raise _renamed("index", error, wrap) from None
    if not out.ndim:
        return out
    # Where the indexed block stays in the middle NumPy's result is a transposed array, with strides
    # of its own also where it is one slice.
    return out.copy() if dims[0] else row_major(xp, out)


def in_bounds(
    xp: Any, shape: tuple[int, ...], indices: tuple[Array, ...], name: str = "index"
) -> tuple[Array, ...]:
    """An index per dimension of a shape, checked and counted from the start."""
    result = []
    for d, (picks, size) in enumerate(zip(indices, shape, strict=True)):
        bad = wrong_index(xp, picks, size, -size)
        if bad is not None:
            raise index.out_of_bounds(name, bad, d, size)
        negative = picks.size and picks.min() < 0
        result.append(xp.where(picks < 0, picks + size, picks) if negative else picks)
    return tuple(result)


@lowers(index.INDEX_PUT)
def index_put(
    xp: Any,
    x: Array,
    values: Array,
    *indices: Array,
    dims: tuple[int, ...],
    accumulate: bool,
    wrap: bool = True,
) -> Array:
    where = full_index(xp, x, dims, indices, wrap, accumulate)
    if accumulate:
        return add_at(xp, x, where, dims, indices, values)
    try:
        out = x.copy(order="C")
        out[where] = values
    except IndexError as error:
        raise _renamed("index_put", error) from None
    return out


def put_into(target: Array, values: Any, dims: tuple[int, ...], indices: tuple[Array, ...]) -> None:
    """Write values at indices of an array itself; out of bounds, nothing is written."""
    xp = np if isinstance(target, np.ndarray) else library(wrap(target).device)
    where = full_index(xp, target, dims, indices, wrap=True)
    try:
        target[where] = values
    except IndexError as error:
        raise _renamed("index_put", error) from None


def fill_where(target: Array, mask: Array, value: Any) -> None:
    """Write a number where a mask holds, to an array itself."""
    xp = np if isinstance(target, np.ndarray) else library(wrap(target).device)
    if xp is np and are_lines(target, mask):
        one = np.empty((), target.dtype)
        np.copyto(one, value, casting="unsafe")
        if np.count_nonzero(mask) < MOSTLY * mask.size:
            target.reshape(-1)[np.flatnonzero(mask)] = one
            return
    xp.copyto(target, value, casting="unsafe", where=mask)


# Where a mask has no pattern, processors guess wrongly in NumPy's loops over it: places looked up
# first are written in a third of the time, unless they are most of them.
MANY_ASKED, MOSTLY = 1 << 12, 0.75


def are_lines(target: Array, mask: Array) -> bool:
    """Whether an array and its mask have many elements that lie one after the other."""
    if mask.size < MANY_ASKED or mask.shape != target.shape:
        return False
    return bool(target.flags.c_contiguous and mask.flags.c_contiguous)


def chosen_there(x: Array, mask: Array) -> Array | None:
    """What a mask of its shape chooses of an array on the current GPU; None: not at once."""
    if x.__class__ not in DEVICE_LAYOUTS or mask.__class__ is not x.__class__:
        return None
    xp, current = cupy(), CURRENT_INDEX["cuda"]()
    here = x.data.device_id == mask.data.device_id == current
    if not (here and on_device(xp)) or faults.BLOCKING:
        return None
    return choosing.masked(xp, x, mask)


def put_where(target: Array, mask: Array, values: Array) -> bool:
    """Write values, in order, where a mask holds, to an array itself; False: there are too few."""
    own = values.base is target.base is None and values is not target  # so no memory is shared
    if not own and np.may_share_memory(target, values):
        values = values.copy()
    if own and 0 < mask.size <= values.size and mask.size < MANY_ASKED:
        np.place(target, mask, values)  # sooner, and values are enough
        return True
    count = np.count_nonzero(mask)
    if count > values.size:
        return False
    if values.ndim != 1 or values.size != count:
        values = values.reshape(-1)[:count]
    if are_lines(target, mask):
        target.reshape(-1)[np.flatnonzero(mask)] = values
    else:
        target[mask] = values
    return True


# Dtypes that native code adds rows of (`backends.llvm.templates.rows.added`).
NATIVELY_ADDED = frozenset("float32 float64 int8 uint8 int16 int32 int64".split())
FEW_ADDED = 256  # elements up to which NumPy's loop is done before native code is found


SHORT_SLICE = 64  # elements of a table that are worth a call of native code


def write_slices(target: Array, values: Any, dim: int, picks: Array, wrap: bool) -> bool:
    """Write slices, or one number, where a vector of indices says, to an array itself.

    False, and nothing is done, where an index is out of bounds or arrays share memory.
    """
    size = target.shape[dim]
    if not target.size or wrong_index(np, picks, size, -size if wrap else 0) is not None:
        return False
    given = np.empty((), target.dtype) if values.__class__ is not np.ndarray else values
    if given is not values:
        quietly(np.copyto, (given, values), {"casting": "unsafe"})
    if np.may_share_memory(target, given) or np.may_share_memory(target, picks):
        return False
    if target.dtype.kind == "V" and target.dtype.names is None:  # which NumPy copies as bytes
        words = f"u{target.dtype.itemsize}"
        target, given = target.view(words), given.view(words)
    target[(slice(None),) * dim + (picks,)] = given
    return True


def add_slices(target: Array, values: Array, dim: int, picks: Array) -> bool:
    """Add slices where a vector of indices says, to an array itself; False as in `add_into`."""
    if dim == 0:
        return add_into(target, values, (picks,), wrap=False)
    if not is_added_natively(target, values, (picks,)):
        return False
    outer, row = math.prod(target.shape[:dim]), math.prod(target.shape[dim + 1 :])
    if len(picks) * row < SHORT_SLICE:
        return False
    rows = np.ascontiguousarray(values).reshape(-1, row)
    tables = target.reshape(outer, target.shape[dim], row)
    return bool(HOOKS.add_rows(tables, rows, np.ascontiguousarray(picks), False))


def is_added_natively(target: Array, values: Array, indices: Sequence[Array]) -> bool:
    """Whether native code adds values to an array itself: many of them, which lie apart from it."""
    if DTYPE_OF[target.dtype].name not in NATIVELY_ADDED or values.size <= FEW_ADDED:
        return False
    if not (target.flags.carray and values.flags.aligned):
        return False
    return not any(np.may_share_memory(target, a) for a in (values, *indices))


def add_into(target: Array, values: Array, coordinates: Sequence[Array], wrap: bool = True) -> bool:
    """Add values at coordinates, one of these a dimension, to an array itself.

    False, and nothing is done, where an index is out of bounds, and where that must be done
    otherwise: halves accumulate in float32.
    """
    kind = DTYPE_OF[target.dtype]
    if kind.is_half or not target.flags.carray or not values.size:
        return False
    if any(np.may_share_memory(target, a) for a in (values, *coordinates)):
        return False
    if values.size <= FEW_ADDED and wrap:
        try:  # NumPy looks at all indices before it adds
            np.add.at(target, tuple(coordinates), values)
        except IndexError:
            return False
        return True
    rank = len(coordinates)
    sizes, row = target.shape[:rank], math.prod(target.shape[rank:])
    rows = np.ascontiguousarray(values).reshape(-1, row)
    many = values.size > FEW_ADDED and kind.name in NATIVELY_ADDED and rows.flags.aligned
    where = np.ascontiguousarray(coordinates[0]).reshape(-1)
    if not many or rank > 1:  # native code looks at indices itself
        try:  # indices from the start, at once
            where = np.ravel_multi_index(tuple(coordinates), sizes).reshape(-1)
        except ValueError:
            for one, size in zip(coordinates, sizes, strict=True):
                if wrong_index(np, one, size, -size if wrap else 0) is not None:
                    return False
            where = flat_positions(np, sizes, in_bounds(np, sizes, tuple(coordinates))).reshape(-1)
    if many:
        return bool(HOOKS.add_rows(target.reshape(1, -1, row), rows, where, wrap))
    places = where[:, None] * row + np.arange(row)
    np.add.at(target.reshape(-1), places.reshape(-1), rows.reshape(-1))
    return True


Buffers.put_into = staticmethod(put_into)
Buffers.add_into_at = staticmethod(add_into)
Buffers.add_slices = staticmethod(add_slices)
Buffers.write_slices = staticmethod(write_slices)
Buffers.fill_where = staticmethod(fill_where)
Buffers.chosen_there = staticmethod(chosen_there)
Buffers.put_where = staticmethod(put_where)


def add_at(
    xp: Any,
    x: Array,
    where: tuple[Any, ...],
    dims: tuple[int, ...],
    indices: tuple[Array, ...],
    values: Array,
) -> Array:
    """x with values added at indices, repeated ones adding up.

    `ufunc.at` on a vector with flat positions is 4 times as fast as on rows (2048 rows of 64
    floats: 0.64 ms against 2.5).
    """
    if len(dims) == 1 and dims[0] == 0:  # rows: no need to index an array of all positions
        row = x.size // x.shape[0] if x.shape[0] else 0
        (picks,) = in_bounds(xp, x.shape[:1], indices, "index_put")
        positions = picks[..., None] * row + xp.arange(row)
    elif len(dims) == x.ndim:
        positions = flat_positions(xp, x.shape, in_bounds(xp, x.shape, indices, "index_put"))
    else:
        try:
            positions = xp.arange(x.size).reshape(x.shape)[where]
        except IndexError as error:
            raise _renamed("index_put", error) from None
    return combine_at(xp, xp.add, x, positions, values)


def combine_at(xp: Any, ufunc: Any, x: Array, positions: Array, values: Array) -> Array:
    """x with `ufunc` applied at flat positions, in order; halves accumulate in float32."""
    wide = accumulator(DTYPE_OF[x.dtype])
    if xp is not np and wide.kind in "iub" and ufunc is xp.add:
        wide = np.dtype(np.int64)  # CuPy's atomics have no narrower integers
    flat = x.astype(wide, order="C", copy=True).reshape(-1)
    values = values.astype(wide, copy=False).reshape(-1)
    positions = positions.reshape(-1)
    if xp is np or (_has_atomic(xp, ufunc, wide) and not _must_repeat(xp, ufunc, wide)):
        ufunc.at(flat, positions, values)
    elif ufunc is xp.add and wide.kind == "c" and not _must_repeat(xp, ufunc, wide):
        for part in ("real", "imag"):
            sums = xp.ascontiguousarray(getattr(flat, part))
            ufunc.at(sums, positions, xp.ascontiguousarray(getattr(values, part)))
            setattr(flat, part, sums)
    else:
        host = xp.asnumpy(flat)
        name = (getattr(ufunc, "name", None) or ufunc.__name__).removeprefix("cupy_")
        getattr(np, name).at(host, xp.asnumpy(positions), xp.asnumpy(values))
        flat = xp.asarray(host)
    return flat.reshape(x.shape).astype(x.dtype, copy=False)


def _has_atomic(xp: Any, ufunc: Any, dtype: Any) -> bool:
    """Whether CuPy's `ufunc.at` is right for a dtype: its float64 extremes round to float32."""
    if ufunc is xp.add:
        return dtype.kind in "fi"
    return ufunc in (xp.maximum, xp.minimum) and dtype == np.float32


def _must_repeat(xp: Any, ufunc: Any, dtype: Any) -> bool:
    """Whether atomics, whose order varies, are ruled out: rounded sums depend on their order."""
    return (
        determinism.are_deterministic_algorithms_enabled()
        and ufunc is xp.add
        and dtype.kind in "fc"
    )


# -- along one dimension ------------------------------------------------------------------------


def along(
    name: str, xp: Any, x: Array, picks: Array, dim: int, classes_of: str = ""
) -> tuple[Array, ...]:
    """The index that shows, at each place of `picks`, the element it names along `dim`."""
    size = x.shape[dim]
    bad = wrong_index(xp, picks, size, 0)
    if bad is not None:
        raise index.out_of_bounds(name, bad, dim, size, classes_of=classes_of)
    places = small_grid if xp is np and picks.size <= SMALL else grid
    return tuple([picks if d == dim else at for d, at in enumerate(places(xp, picks.shape))])


SMALL = 256  # elements of index arrays whose grids are kept


def grid(xp: Any, shape: tuple[int, ...]) -> list[Array]:
    """For each dimension its numbers, to be broadcast along the others."""
    return [
        xp.arange(n).reshape((1,) * d + (n,) + (1,) * (len(shape) - d - 1))
        for d, n in enumerate(shape)
    ]


@lru_cache(256)
def small_grid(xp: Any, shape: tuple[int, ...]) -> list[Array]:
    """The same, kept, and not to be written to."""
    axes = grid(xp, shape)
    for at in axes:
        at.flags.writeable = False
    return axes


@lowers(gather.GATHER)
def gather_(xp: Any, x: Array, picks: Array, dim: int, classes_of: str = "") -> Array:
    where = along("gather", xp, x, picks, dim, classes_of)
    if x.flags.c_contiguous and picks.size > 64:
        return row_major(xp, x.reshape(-1).take(flat_positions(xp, x.shape, where)))
    return row_major(xp, x[where])


@lowers(gather.SCATTER)
def scatter_(
    xp: Any,
    x: Array,
    y: Array,
    picks: Array,
    dim: int,
    accumulate: bool,
    classes_of: str = "",
) -> Array:
    where = along("scatter", xp, x, picks, dim, classes_of)
    if accumulate:
        return combine_at(xp, xp.add, x, flat_positions(xp, x.shape, where), y)
    out = x.copy(order="C")
    out[where] = y
    return out


def flat_positions(xp: Any, shape: tuple[int, ...], where: tuple[Array, ...]) -> Array:
    """Row-major positions of elements given by one broadcastable index per dimension."""
    total: Any = 0
    for n, picks in zip(shape, where, strict=True):
        total = total * n + picks
    return total


_UFUNC = {"prod": "multiply", "amax": "maximum", "amin": "minimum"}


@lowers(scatter.SCATTER_REDUCE)
def scatter_reduce(xp: Any, x: Array, y: Array, picks: Array, dim: int, reduce: str) -> Array:
    positions = flat_positions(xp, x.shape, along("scatter_reduce", xp, x, picks, dim))
    return combine_at(xp, getattr(xp, _UFUNC[reduce]), x, positions, y)


# -- where not zero -----------------------------------------------------------------------------


@lowers(nonzero.NONZERO)
def nonzero_(xp: Any, x: Array) -> Array:
    if not x.ndim:
        return xp.zeros((int(x != 0), 0), dtype=np.int64)
    if xp is np:
        return nonzero.coordinates(x)
    if on_device(xp) and x.dtype.names is None:
        return choosing.nonzero(xp, x).T
    return xp.stack(x.nonzero(), axis=0).T


@lowers(nonzero.NONZERO_STATIC)
def nonzero_static(xp: Any, x: Array, size: int, fill_value: int) -> Array:
    rows = nonzero_(xp, x)[:size]
    out = xp.full((size, x.ndim), fill_value, dtype=np.int64)
    out[: len(rows)] = rows
    return out


@lowers(nonzero.MASK_RANK)
def mask_rank(xp: Any, mask: Array, leading: int, limit: int) -> Array:
    flat = mask.reshape((*mask.shape[:leading], prod(mask.shape[leading:])))
    count = flat.astype(np.int64)  # which takes less than to convert while adding
    count.cumsum(axis=-1, out=count)
    if count.size:
        most = int(count[..., -1].max()) if leading else int(count[-1])
        if most > limit:
            raise RuntimeError(
                f"number of elements of source ({limit}) < number of ones in mask ({most})"
            )
    count -= 1
    xp.maximum(count, 0, out=count)
    xp.minimum(count, max(limit - 1, 0), out=count)
    return count.reshape(mask.shape)
