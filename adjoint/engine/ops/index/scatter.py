"""Placing along one dimension: scatter and its reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import int64
from adjoint.engine.core.errors import DTypeError, ShapeError, ShapeIndexError
from adjoint.engine.core.operations.families import primitive
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.spec import wrap_dim
from adjoint.engine.ops.common.arguments import checked_scalar
from adjoint.engine.ops.create.creation import full
from adjoint.engine.ops.elementwise.records import EQ
from adjoint.engine.ops.index.gather import (
    GATHER,
    SCATTER,
    as_given,
    at_least_1d,
    check_index_shape,
    plain_dim,
    shift_dim,
)
from adjoint.engine.ops.index.index import INDEX, require_index

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

# -- products and extremes ----------------------------------------------------------------------


def _extreme_shares(x: Tensor, y: Tensor, index: Tensor, out: Tensor, dim: int) -> Any:
    """Where x and y reached the result, and how many did: they share the gradient evenly."""
    from_x = EQ(x, out).to(out.dtype)
    from_y = EQ(y, GATHER(out, index, dim=dim)).to(out.dtype)
    return from_x, from_y, SCATTER(from_x, from_y, index, dim=dim, accumulate=True)


def _reduce_self(
    g: Tensor, x: Tensor, y: Tensor, index: Tensor, out: Tensor, dim: int, reduce: str
) -> Tensor:
    if reduce == "prod":
        # The product of the others, also where x itself is zero.
        filled = x.masked_fill(EQ(x, 0), 1)
        others = SCATTER_REDUCE(filled, y, index, dim=dim, reduce=reduce) / filled
        return g * others.conj()
    from_x, _, count = _extreme_shares(x, y, index, out, dim)
    return g * (from_x / count)


def _reduce_source(
    g: Tensor, x: Tensor, y: Tensor, index: Tensor, out: Tensor, dim: int, reduce: str
) -> Tensor:
    if reduce == "prod":
        # As for x, with a zero seen as such only if it is the only one that meets its target.
        zero = EQ(y, 0)
        none = g.new_zeros(x.shape)
        zeros = SCATTER(none, zero.to(g.dtype), index, dim=dim, accumulate=True)
        single = zero.logical_and(EQ(GATHER(zeros, index, dim=dim), 1))
        others = SCATTER_REDUCE(x, y.masked_fill(single, 1), index, dim=dim, reduce=reduce)
        at_zero = GATHER(g * others.conj(), index, dim=dim)
        elsewhere = GATHER(g * out.conj(), index, dim=dim) / y.masked_fill(zero, 1).conj()
        return elsewhere.masked_fill(single, 0) + at_zero.masked_fill(single.logical_not(), 0)
    _, from_y, count = _extreme_shares(x, y, index, out, dim)
    return from_y * GATHER(g / count, index, dim=dim)


# SCATTER_REDUCE(x, y, index, dim, reduce): x multiplied by (or made the extreme with) all of y
# that index sends there.
SCATTER_REDUCE: Record = primitive(
    "scatter_reduce",
    lambda x, y, index, dim, reduce: x,
    _reduce_self,
    _reduce_source,
    None,
    operands=("x", "y", "index"),
    batched_params=shift_dim,
    native_check=True,
    rounding="sum",
    fragment="computed",
    indexed="written",
)


def full_like(x: Tensor, shape: Any, value: Any) -> Tensor:
    """A tensor of one number, of x's dtype and device."""
    return full(tuple(shape), value, dtype=x.dtype, device=x.device)


def _identity(reduce: str, x: Tensor) -> Any:
    """The value that leaves a reduction's other operands as they are."""
    if reduce == "prod":
        return 1
    if reduce in ("sum", "mean"):
        return 0
    d = x.dtype
    if d.name == "bool":
        return reduce == "amin"
    if d.is_inexact:
        return -float("inf") if reduce == "amax" else float("inf")
    bits = 8 * d.itemsize
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if d.is_signed else (0, 2**bits - 1)
    return low if reduce == "amax" else high


def _reduce(
    x: Tensor, dim: int, index: Tensor, y: Tensor, reduce: str, include_self: bool
) -> Tensor:
    """A scatter reduction of operands already checked."""
    start = x
    if not include_self:
        blank = full_like(x, y.shape, _identity(reduce, x))
        start = SCATTER(x, blank, index, dim=dim, accumulate=False)
    if reduce not in ("sum", "mean"):
        return SCATTER_REDUCE(start, y, index, dim=dim, reduce=reduce)
    total = SCATTER(start, y, index, dim=dim, accumulate=True)
    if reduce == "sum":
        return total
    none = full_like(x, x.shape, 1 if include_self else 0)
    count = SCATTER(none, x.new_ones(y.shape), index, dim=dim, accumulate=True)
    count = count.masked_fill(EQ(count, 0), 1)
    return total / count if x.dtype.is_inexact else total.div(count, rounding_mode="floor")


# -- the public functions -----------------------------------------------------------------------


def _require_one_dtype(name: str, input: Tensor, src: Tensor) -> None:
    if src.dtype is not input.dtype:
        raise DTypeError(
            f"{name}: expected self.dtype to be equal to src.dtype, received {input.dtype.name} "
            f"and {src.dtype.name}. Convert the source first."
        )


def _prepare(
    name: str, input: Tensor, dim: int, index: Tensor, src: Any
) -> tuple[Tensor, int, Tensor, Tensor]:
    """Operands of one rank (0-d counts as 1-d), the source cut to the index's shape."""
    d = wrap_dim(name, dim, input.ndim)
    picks = require_index(name, index)
    x, picks = at_least_1d(input), at_least_1d(picks)
    if not is_tensor(src):
        src = full_like(x, picks.shape, checked_scalar(name, src, x.dtype))
    _require_one_dtype(name, input, src)
    y = at_least_1d(src)
    check_index_shape(name, x, picks, d)
    if y.shape == picks.shape:
        return x, d, picks, y
    if y.ndim != x.ndim or any(n > m for n, m in zip(picks.shape, y.shape, strict=True)):
        raise ShapeError(
            f"{name}: expected index {list(index.shape)} to be no larger than src "
            f"{list(src.shape)} in every dimension"
        )
    return x, d, picks, y[tuple(slice(0, n) for n in picks.shape)]


def _nothing_sent(name: str, input: Tensor, dim: int, index: Tensor, src: Any) -> Tensor:
    """What an index without elements leaves: `input`, which gradients of `src` still lead to.

    Shapes of `src` and `index` are free then, as in PyTorch.
    """
    d = wrap_dim(name, dim, input.ndim)
    if not is_tensor(src):
        return input.clone()
    _require_one_dtype(name, input, src)
    if not input.dtype.is_inexact:
        return input.clone()
    x = at_least_1d(input)
    none = (0,) * x.ndim
    y, picks = (z.reshape(-1)[:0].reshape(none) for z in (src, index.to(int64)))
    return SCATTER(x, y, picks, dim=d, accumulate=True).reshape(input.shape)


@public(method=True, inplace=True, out=True, numbers="values")
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Tensor:
    """`input` with `src` (a tensor or number) put where `index` says along `dim`.

    >>> import adjoint as ad
    >>> ad.zeros(2, 3).scatter(1, ad.tensor([[2], [0]]), 1.0)
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    source = value if src is None else src
    if source is None:
        raise TypeError("scatter: needs a `src` tensor or a `value`")
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError(f"scatter: reduce must be either add or multiply, received {reduce!r}")
    number = not is_tensor(source)
    plain = plain_dim(input, dim, index, None if number else source) if reduce is None else None
    if plain is not None:
        if number:
            source = full_like(input, index.shape, checked_scalar("scatter", source, input.dtype))
        return SCATTER(input, source, index, dim=plain, accumulate=False)
    if 0 in index.shape:
        return _nothing_sent("scatter", input, dim, index, source)
    x, d, picks, y = _prepare("scatter", input, dim, index, source)
    if reduce == "multiply":
        out = SCATTER_REDUCE(x, y, picks, dim=d, reduce="prod")
    else:
        out = SCATTER(x, y, picks, dim=d, accumulate=reduce == "add")
    return as_given(out, input)


@public(method=True, inplace=True, out=True)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """`input` with `src` added where `index` says along `dim`; repeated places add up."""
    if not is_tensor(src):
        raise TypeError(
            f"scatter_add(): argument 'src' must be Tensor, not {type(src).__name__}. Use "
            "index_add, or a tensor of the index's shape."
        )
    plain = plain_dim(input, dim, index, src)
    if plain is not None:
        return SCATTER(input, src, index, dim=plain, accumulate=True)
    if 0 in index.shape:
        return _nothing_sent("scatter_add", input, dim, index, src)
    x, d, picks, y = _prepare("scatter_add", input, dim, index, src)
    return as_given(SCATTER(x, y, picks, dim=d, accumulate=True), input)


REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


@public(method=True, inplace=True, out=True)
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Reduce all of `src` that `index` sends to one place (sum, prod, mean, amax or amin)."""
    if reduce not in REDUCTIONS:
        raise RuntimeError(
            f"scatter_reduce: reduce argument must be either sum, prod, mean, amax or amin, got "
            f"{reduce}"
        )
    if 0 in index.shape:
        return _nothing_sent("scatter_reduce", input, dim, index, src)
    x, d, picks, y = _prepare("scatter_reduce", input, dim, index, src)
    return as_given(_reduce(x, d, picks, y, reduce, include_self), input)


@public(method=True, inplace=True, out=True)
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """Reduce each slice of `source` along `dim` into the slice of `input` its index names."""
    if reduce not in REDUCTIONS[1:]:
        raise RuntimeError(
            f"index_reduce: expected reduce to be one of prod, mean, amax or amin but got {reduce}"
        )
    if input.ndim != source.ndim:
        raise ShapeError(
            f"index_reduce: source tensor shape must match self tensor shape, excluding the "
            f"specified dimension. Got self.shape = {list(input.shape)} source.shape = "
            f"{list(source.shape)}"
        )
    d, picks, y = check_slices("index_reduce", input, dim, index, source)
    if 0 in y.shape:
        return _nothing_sent("index_reduce", input, dim, index, y)
    x = at_least_1d(input)
    # Looking the indices up in 0, 1, ... refuses those out of range with an IndexError.
    picks = INDEX(x.new_arange(x.shape[d]), picks, dims=(0,), wrap=False)
    spread = picks.reshape((-1, *(1,) * (x.ndim - d - 1))).expand(y.shape)
    return as_given(_reduce(x, d, spread, y, reduce, include_self), input)


def check_slices(
    name: str, input: Tensor, dim: int, index: Tensor, source: Tensor, *dtypes: Any
) -> tuple[int, Tensor, Tensor]:
    """(dim, index as a vector, source) of an operation that pairs indices with slices."""
    d = wrap_dim(name, dim, input.ndim)
    picks = at_least_1d(require_index(name, index, *dtypes))
    if index.ndim > 1:
        raise ShapeIndexError(
            f"{name}: index is supposed to be a vector, received {index.ndim} dims"
        )
    if source.dtype is not input.dtype:
        raise DTypeError(
            f"{name}: self and source expected to have the same dtype, but got (self) "
            f"{input.dtype.name} and (source) {source.dtype.name}"
        )
    x, y = at_least_1d(input), source
    if not source.ndim:
        y = source.reshape((1,) * x.ndim)
    if picks.shape[0] != (y.shape[d] if d < y.ndim else 1):
        kind = RuntimeError if name == "index_add" else IndexError
        raise kind(
            f"{name}: number of indices ({picks.shape[0]}) should be equal to source.size(dim) "
            f"for dim {d}, received source of shape {list(source.shape)}"
        )
    wanted = (*x.shape[:d], picks.shape[0], *x.shape[d + 1 :])
    number = not source.ndim and x.ndim > 1 and name == "index_copy"  # index_add takes it
    if number or tuple(y.shape) != wanted:
        raise ShapeError(
            f"{name}: source of shape {list(source.shape)} must match self of shape "
            f"{list(input.shape)} outside dimension {d}"
        )
    return d, picks, y
