"""How operations that are no universal function of NumPy's are written as rows.

Each takes the same steps as its kernel in `backends/array`, of which it must give the bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.engine.backends.array.kernels.reduce.reduction import in_series, kept_first
from adjoint.engine.backends.array.kernels.shape.views import follow
from adjoint.engine.backends.llvm.runtime.ufuncs import inner_loop_of
from adjoint.engine.backends.llvm.small.rows import (
    Array,
    NoRow,
    RowWriter,
    Spot,
    one_piece,
    spread,
    writes,
)
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.operations.reductions import reduced_shape
from adjoint.engine.core.result_layouts import block_position
from adjoint.engine.ops.elementwise import (
    bounds,
    condition,
    error_functions,
    exponential,
    logical,
    power,
    sign,
    trigonometric,
)
from adjoint.engine.ops.index import gather, index, scatter
from adjoint.engine.ops.products.linear import LINEAR
from adjoint.engine.ops.products.matmul import MATMUL
from adjoint.engine.ops.reduce import extremes, reduction
from adjoint.engine.ops.shape import convert, join, views
from adjoint.engine.tensor.tensor import DTYPE_OF

# What NumPy begins a sum with: it decides the sign of a sum of zeros.
_NOTHING = np.add.reduce(np.array([-0.0], np.float32))


def ufunc_of(w: RowWriter, function: np.ufunc, *operands: Any) -> Spot:
    """A universal function of places and numbers, in memory of its own."""
    like = next(x for x in operands if isinstance(x, Spot)).array
    placed = [x if isinstance(x, Spot) else w.constant(x, like.dtype) for x in operands]
    shape = np.broadcast_shapes(*[p.array.shape for p in placed])
    laid = next((p.array for p in placed if p.array.shape == shape), np.empty(shape, like.dtype))
    kinds = "".join([p.array.dtype.char for p in placed])
    signature = next((t for t in function.types if t.startswith(f"{kinds}->")), None)
    if signature is None:
        raise NoRow
    return w.ufunc(function, w.scratch(laid, np.dtype(signature[-1])), *placed)


# -- elementwise --------------------------------------------------------------------------------


@writes(power.RSQRT)
def write_rsqrt(w: RowWriter, out: Array, x: Spot) -> Spot:
    return ufunc_of(w, np.divide, 1, ufunc_of(w, np.sqrt, x))


@writes(exponential.SIGMOID)
def write_sigmoid(w: RowWriter, out: Array, x: Spot) -> Spot:
    powers = ufunc_of(w, np.exp, ufunc_of(w, np.negative, x))
    return ufunc_of(w, np.reciprocal, ufunc_of(w, np.add, powers, 1))


@writes(exponential.LOG1P)
def write_log1p(w: RowWriter, out: Array, x: Spot) -> Spot:
    if x.array.dtype.kind == "c":  # which takes other steps
        raise NoRow
    return ufunc_of(w, np.log1p, x)


@writes(exponential.LOGIT)
def write_logit(w: RowWriter, out: Array, x: Spot) -> Spot:
    return ufunc_of(w, np.log, ufunc_of(w, np.divide, x, ufunc_of(w, np.subtract, 1, x)))


@writes(exponential.LOGADDEXP)
def write_logaddexp(w: RowWriter, out: Array, x: Any, y: Any) -> Spot:
    if out.dtype.kind == "c":  # which takes other steps
        raise NoRow
    return ufunc_of(w, np.logaddexp, x, y)


@writes(bounds.RELU)
def write_relu(w: RowWriter, out: Array, x: Spot) -> Spot:
    return ufunc_of(w, np.maximum, x, 0)


@writes(bounds.CLAMP)
def write_clamp(w: RowWriter, out: Array, x: Spot, y: Any, z: Any) -> Spot:
    return ufunc_of(w, np.minimum, ufunc_of(w, np.maximum, x, y), z)


@writes(sign.SIGN)
def write_sign(w: RowWriter, out: Array, x: Spot) -> Spot:
    if x.array.dtype.kind != "f":
        raise NoRow
    signs = ufunc_of(w, np.sign, x)
    is_number = ufunc_of(w, np.equal, signs, signs)
    return select(w, w.scratch(out), is_number, signs, w.constant(0, out.dtype))


@writes(power.POW)
def write_power(w: RowWriter, out: Array, x: Any, y: Any) -> Spot:
    if isinstance(y, Spot) or not isinstance(x, Spot) or x.array.dtype.kind != "f":
        raise NoRow
    square = ufunc_of(w, np.multiply, x, x) if y in (2, 3, -2) else x
    match y:
        case 2:
            return square
        case 3:
            return ufunc_of(w, np.multiply, square, x)
        case -2 | -1:
            return ufunc_of(w, np.divide, 1, square)
        case 0.5:
            return ufunc_of(w, np.sqrt, x)
        case -0.5:
            return write_rsqrt(w, out, x)
    raise NoRow


def write_shift(w: RowWriter, function: np.ufunc, x: Any, y: Any) -> Spot:
    """Bits moved by a number that is the same at every call, and less than there are."""
    if not isinstance(x, Spot) or isinstance(y, Spot) or y.__class__ is not int:
        raise NoRow
    if x.array.dtype.kind not in "iu" or not 0 <= y < 8 * x.array.itemsize:
        raise NoRow
    return ufunc_of(w, function, x, y)


@writes(logical.LEFT_SHIFT)
def write_left_shift(w: RowWriter, out: Array, x: Any, y: Any) -> Spot:
    return write_shift(w, np.left_shift, x, y)


@writes(logical.RIGHT_SHIFT)
def write_right_shift(w: RowWriter, out: Array, x: Any, y: Any) -> Spot:
    return write_shift(w, np.right_shift, x, y)


@writes(trigonometric.SINC)
def write_sinc(w: RowWriter, out: Array, x: Spot) -> Spot:
    angle = ufunc_of(w, np.multiply, x, math.pi)
    is_zero = ufunc_of(w, np.equal, angle, 0)
    least = w.constant(1e-20, out.dtype)  # whose sine is itself
    angle = select(w, w.scratch(out), is_zero, least, angle)
    return ufunc_of(w, np.divide, ufunc_of(w, np.sin, angle), angle)


@writes(error_functions.ERF)
def write_erf(w: RowWriter, out: Array, x: Spot) -> Spot:
    from scipy.special import erf

    return ufunc_of(w, erf, x)


def select(w: RowWriter, out: Spot, condition: Spot, x: Spot, y: Spot) -> Spot:
    """out = x where the condition holds, else y."""
    if condition.array.dtype != np.bool_ or not x.array.dtype == y.array.dtype == out.array.dtype:
        raise NoRow
    w.own(f"select{out.array.itemsize}", condition, x, y, out)
    return out


@writes(condition.WHERE)
def write_where(w: RowWriter, out: Array, x: Spot, y: Any, z: Any) -> Spot:
    dtype = out.dtype
    if dtype.kind not in "fiub":
        raise NoRow
    placed = [v if isinstance(v, Spot) else w.constant(v, dtype) for v in (y, z)]
    return select(w, w.scratch(out), x, *placed)


@writes(convert.CAST)
def write_cast(w: RowWriter, out: Array, x: Spot, dtype: DType) -> Spot:
    return w.copy(x, w.scratch(out))


@writes(convert.CLONE)
def write_clone(w: RowWriter, out: Array, x: Spot, strides: Any = "same") -> Spot:
    return w.copy(x, w.scratch(out))


# -- reductions ---------------------------------------------------------------------------------


def reduce(
    w: RowWriter, function: np.ufunc, x: Spot, dims: tuple[int, ...], keepdim: bool, first: Any
) -> Spot:
    """function.reduce(x, dims) of elements that lie row after row, or in one dimension.

    NumPy goes through these in their order, dimensions that can be put together as one, and has
    the inner loop go along the last. What has no neutral element begins with its first ones.
    """
    array, dtype, given = x.array, x.array.dtype, dims
    loop = inner_loop_of(function, 2 * dtype.char + "->" + dtype.char)
    in_turn = array.flags.c_contiguous or array.ndim == 1
    if loop is None or not in_turn or dtype.char not in "fdlq?":
        raise NoRow
    whole = reduced_shape(array.shape, dims, True)
    rank = len(dims)
    if dims == (*range(array.ndim - rank, array.ndim),):  # the last ones: rows; none: rows of one
        x, dims = x.seen(array.reshape((*array.shape[: array.ndim - rank], -1))), (-1,)
    array = x.array
    reduced = tuple([d % array.ndim for d in dims])
    total = w.scratch(np.empty(reduced_shape(array.shape, reduced, True), dtype))
    if first is None:
        at_first = tuple([slice(0, 1) if d in reduced else slice(None) for d in range(array.ndim)])
        w.copy(x.seen(array[at_first]), total)
        if dims == (-1,):  # the others of each row; elsewhere the first may come again
            x = x.seen(array[..., 1:])
    else:
        w.copy(w.constant(first, dtype), total)
    shape = x.array.shape
    if x.array.size:
        steps = spread(total.array, shape)
        w.call(loop, [total, x, total], shape, [steps, spread(x.array, shape), steps])
    total = total.seen(total.array.reshape(whole))
    return total if keepdim else total.seen(total.array.reshape(without_dims(whole, given)))


def without_dims(shape: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    """A shape less some dimensions."""
    return tuple([n for d, n in enumerate(shape) if d not in dims])


@writes(reduction.SUM)
def write_sum(w: RowWriter, out: Array, x: Spot, dims: tuple[int, ...], keepdim: bool) -> Spot:
    if x.array.dtype.char in "eE":  # halves, which are added up in float32
        wide = w.copy(x, w.scratch(x.array, np.float32))
        total = reduce(w, np.add, wide, dims, keepdim, _NOTHING)
        return w.copy(total, w.scratch(total.array, x.array.dtype))
    if x.array.dtype.char in "fd" and in_series(x.array, dims):
        whole = reduced_shape(x.array.shape, dims, keepdim)
        moved = x.seen(x.array.transpose(kept_first(x.array.ndim, dims)))
        rows = w.copy(moved, w.scratch(np.empty(moved.array.shape, x.array.dtype)))
        last = (*range(x.array.ndim - len(dims), x.array.ndim),)
        total = reduce(w, np.add, rows, last, False, _NOTHING)
        return total.seen(total.array.reshape(whole))
    return reduce(w, np.add, x, dims, keepdim, _NOTHING)


@writes(extremes.AMAX)
def write_amax(w: RowWriter, out: Array, x: Spot, dims: tuple[int, ...], keepdim: bool) -> Spot:
    return reduce(w, np.maximum, x, dims, keepdim, None)


@writes(extremes.AMIN)
def write_amin(w: RowWriter, out: Array, x: Spot, dims: tuple[int, ...], keepdim: bool) -> Spot:
    return reduce(w, np.minimum, x, dims, keepdim, None)


# -- products -----------------------------------------------------------------------------------


def product(w: RowWriter, x: Spot, y: Spot) -> Spot:
    """np.matmul of matrices, or of stacks of them; of halves in float32, as the kernel does."""
    a, b = x.array, y.array
    if a.dtype != b.dtype or min(a.ndim, b.ndim) < 2:
        raise NoRow
    if DTYPE_OF[a.dtype].is_half:
        wide = [w.copy(p, w.scratch(p.array, np.dtype(np.float32))) for p in (x, y)]
        sums = product(w, *wide)
        return w.copy(sums, w.scratch(sums.array, a.dtype))
    if a.dtype.char not in "fdFD":
        raise NoRow
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    place = w.scratch(np.empty((*batch, a.shape[-2], b.shape[-1]), a.dtype))
    loop = inner_loop_of(np.matmul, 2 * a.dtype.char + "->" + a.dtype.char)
    if loop is None:
        raise NoRow
    steps = [spread(p[..., 0, 0], batch) for p in (a, b, place.array)]
    sizes = (a.shape[-2], a.shape[-1], b.shape[-1])
    core = [step for p in (a, b, place.array) for step in p.strides[-2:]]
    w.call(loop, [x, y, place], batch, steps, sizes, core)
    return place


@writes(MATMUL)
def write_matmul(w: RowWriter, out: Array, x: Spot, y: Spot) -> Spot:
    if not out.flags.c_contiguous:
        raise NoRow
    return product(w, x, y)


@writes(LINEAR)
def write_linear(w: RowWriter, out: Array, x: Spot, y: Spot, z: Spot | None = None) -> Spot:
    if y.array.ndim != 2 or x.array.ndim < 2:
        raise NoRow
    turned = y.seen(y.array.T)
    rows = x.array.reshape(-1, x.array.shape[-1])
    if not np.may_share_memory(rows, x.array):
        raise NoRow
    result = product(w, x.seen(rows), turned)
    result = result.seen(result.array.reshape(out.shape))
    if z is None:
        return result
    if z.array.dtype != out.dtype or z.array.ndim > out.ndim or out.dtype.char not in "fd":
        raise NoRow
    return w.ufunc(np.add, result, result, z)


# -- joins and indices --------------------------------------------------------------------------


@writes(join.CAT)
def write_cat(w: RowWriter, out: Array, *xs: Spot, dim: int) -> Spot:
    place, start = w.scratch(out), 0
    for x in xs:
        if x.array.dtype != out.dtype or x.array.ndim != out.ndim:
            raise NoRow
        stop = start + x.array.shape[dim]
        part = place.array[(slice(None),) * dim + (slice(start, stop),)]
        if part.size:
            w.copy(x, place.seen(part))
        start = stop
    return place


@writes(join.STACK)
def write_stack(w: RowWriter, out: Array, *xs: Spot, dim: int) -> Spot:
    apart = (slice(None),) * dim + (None,)
    return write_cat(w, out, *[x.seen(x.array[apart]) for x in xs], dim=dim)


@writes(views.VIEW_SCATTER)
def write_view_scatter(w: RowWriter, out: Array, x: Spot, y: Spot, chain: Any) -> Spot:
    place = w.copy(x, w.scratch(out))
    window = follow(np, place.array, chain)
    if not window.size or not np.may_share_memory(window, place.array):
        raise NoRow
    w.copy(y, place.seen(window))
    return place


def pick(
    w: RowWriter,
    name: str,
    places: list[Spot],
    shape: tuple[int, ...],
    steps: list[list[int]],
    size: int,
    along: int,
) -> None:
    """A row that reads indices, its second argument."""
    if places[1].array.dtype != np.int64:
        raise NoRow
    loop = w.loop(name)
    w.call(loop, places, shape, steps, (size,), (along,))


def without(array: Array, dim: int) -> list[int]:
    """The steps of an array that is not gone along at `dim`."""
    return [0 if d == dim else step for d, step in enumerate(array.strides)]


@writes(gather.GATHER)
def write_gather(
    w: RowWriter, out: Array, x: Spot, picks: Spot, dim: int, classes_of: str = ""
) -> Spot:
    place, a = w.scratch(out), x.array
    steps = [without(a, dim), [*picks.array.strides], [*place.array.strides]]
    size, along = a.shape[dim], a.strides[dim]
    pick(w, f"gather{a.itemsize}", [x, picks, place], out.shape, steps, size, along)
    return place


@writes(gather.SCATTER)
def write_scatter(
    w: RowWriter,
    out: Array,
    x: Spot,
    y: Spot,
    picks: Spot,
    dim: int,
    accumulate: bool,
    classes_of: str = "",
) -> Spot:
    """Of elements put at one place the last one stays, in the order in which indices lie."""
    if y.array.shape != picks.array.shape or not x.array.dtype == y.array.dtype == out.dtype:
        raise NoRow
    if accumulate:
        fits = out.dtype.char in "fdl"
    else:
        in_order = is_one_value(y.array) or (one_piece(picks.array) and one_piece(y.array))
        fits = in_order and out.dtype.kind in "fiub"
    if not fits:
        raise NoRow
    place = w.copy(x, w.scratch(out))
    array, shape = place.array, picks.array.shape
    steps = [[*y.array.strides], [*picks.array.strides], without(array, dim)]
    name = f"scatter_add_{out.dtype.char}" if accumulate else f"scatter{array.itemsize}"
    pick(w, name, [y, picks, place], shape, steps, array.shape[dim], array.strides[dim])
    return place


@writes(scatter.SCATTER_REDUCE)
def write_scatter_reduce(
    w: RowWriter, out: Array, x: Spot, y: Spot, picks: Spot, dim: int, reduce: str
) -> Spot:
    """In the order in which indices lie, which rounding of products depends on."""
    alike = x.array.dtype == y.array.dtype == out.dtype and y.array.shape == picks.array.shape
    in_order = reduce != "prod" or (one_piece(picks.array) and one_piece(y.array))
    if not alike or not in_order or out.dtype.char not in "fdl":
        raise NoRow
    place = w.copy(x, w.scratch(out))
    array, shape = place.array, picks.array.shape
    steps = [[*y.array.strides], [*picks.array.strides], without(array, dim)]
    name = f"scatter_{reduce}_{out.dtype.char}"
    pick(w, name, [y, picks, place], shape, steps, array.shape[dim], array.strides[dim])
    return place


def picked_at(
    w: RowWriter, x: Spot, indices: Sequence[Spot], dims: tuple[int, ...]
) -> tuple[Spot, int, int]:
    """What names the elements of each block, how many names there are, and the bytes of one.

    One index is that by itself. Several come to how many bytes away from the first element theirs
    is: each row adds what one index says, once it is known to be in bounds.
    """
    array = x.array
    if len(dims) == 1:
        return indices[0], array.shape[dims[0]], array.strides[dims[0]]
    if any(array.strides[d] < 0 for d in dims):
        raise NoRow
    block = np.broadcast_shapes(*[i.array.shape for i in indices])
    at, away = w.constant(0, np.int64), np.zeros(block, np.int64)
    for d, picks in zip(dims, indices, strict=True):
        size, along = array.shape[d], array.strides[d]
        away = away + picks.array % size * along  # a value from the start: rows may fail midway
        place = w.scratch(away)
        steps = [spread(p.array, block) for p in (at, picks, place)]
        pick(w, "position", [at, picks, place], block, steps, size, along)
        place.array[...] = away
        at = place
    reach = sum([(array.shape[d] - 1) * array.strides[d] for d in dims])
    return at, reach + 1, 1


def around(array: Array, dims: tuple[int, ...], block: Sequence[int]) -> list[int]:
    """The steps of an array at the dimensions that are not indexed, with a block's where it is."""
    rest = [step for d, step in enumerate(array.strides) if d not in dims]
    first = block_position(dims)
    return [*rest[:first], *block, *rest[first:]]


def beside(at: Array, dims: tuple[int, ...], rank: int) -> list[int]:
    """The steps of a block's index, which stays where it is along the other dimensions."""
    first = block_position(dims)
    return [*[0] * first, *at.strides, *[0] * (rank - len(dims) - first)]


@writes(index.INDEX)
def write_index(
    w: RowWriter, out: Array, x: Spot, *indices: Spot, dims: tuple[int, ...], wrap: bool = True
) -> Spot:
    place, a = w.scratch(out), x.array
    at, count, along = picked_at(w, x, indices, dims)
    none = [0] * at.array.ndim
    steps = [around(a, dims, none), beside(at.array, dims, a.ndim), [*place.array.strides]]
    pick(w, f"gather{a.itemsize}", [x, at, place], out.shape, steps, count, along)
    return place


def is_one_value(array: Array) -> bool:
    """Whether all elements are one in memory, so that it is no matter which is written last."""
    return all(
        step == 0 or size == 1 for size, step in zip(array.shape, array.strides, strict=True)
    )


def block_in_order(values: Array, first: int, rank: int) -> bool:
    """Whether NumPy puts values in the order of their indices: the rest of them may lie anyhow."""
    if one_piece(values):
        return True
    steps = [*zip(values.shape, values.strides, strict=True)][first : first + rank]
    block = [step for size, step in steps if size != 1]
    return block == sorted(block, reverse=True) and all(step > 0 for step in block)


@writes(index.INDEX_PUT)
def write_index_put(
    w: RowWriter,
    out: Array,
    x: Spot,
    values: Spot,
    *indices: Spot,
    dims: tuple[int, ...],
    accumulate: bool,
    wrap: bool = True,
) -> Spot:
    """Sums go through the values in order; so does what overwrites, of which the last one stays.

    One value may be put at all of them.
    """
    if not x.array.dtype == values.array.dtype == out.dtype:
        raise NoRow
    if accumulate:
        fits = out.dtype.char in "fdl"
    else:
        in_order = all(one_piece(i.array) for i in indices) and block_in_order(
            values.array, block_position(dims), indices[0].array.ndim
        )
        same = len({p.array.shape for p in indices}) == 1
        fits = (is_one_value(values.array) or (in_order and same)) and out.dtype.kind in "fiub"
    if not fits:
        raise NoRow
    place = w.copy(x, w.scratch(out))
    array, first = place.array, block_position(dims)
    at, count, along = picked_at(w, place, indices, dims)
    rest = [size for d, size in enumerate(array.shape) if d not in dims]
    shape = (*rest[:first], *at.array.shape, *rest[first:])
    if accumulate and values.array.shape != shape:
        raise NoRow
    steps = [
        spread(values.array, shape),
        beside(at.array, dims, array.ndim),
        around(array, dims, [0] * at.array.ndim),
    ]
    name = f"scatter_add_{out.dtype.char}" if accumulate else f"scatter{array.itemsize}"
    pick(w, name, [values, at, place], shape, steps, count, along)
    return place
