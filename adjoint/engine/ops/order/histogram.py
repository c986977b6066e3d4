"""Counting values into bins."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from numpy import float32 as numpy_float32

from adjoint.engine.core.dtype import DType, float32, float64
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.families import depends_on_values, no_derivative, primitive
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.operations.return_types import RETURN_TYPES
from adjoint.engine.core.spec import Spec, same_shape
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.common.arguments import whole
from adjoint.engine.ops.create.creation import ARANGE, FULL
from adjoint.engine.ops.elementwise.records import where

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

LARGEST = 2.0**127  # of numbers that single precision surely has
_refuse = depends_on_values("bincount", "Call it outside, or use histc with a fixed range.")


def _bincount_vjp(g: Tensor, xs: Sequence[Tensor]) -> Tensor:
    return g.index_select(0, xs[0])  # by the weights: whole numbers have no gradient


# BINCOUNT(x) or BINCOUNT(x, weights)
BINCOUNT = primitive(
    "bincount",
    _refuse,
    _bincount_vjp,
    operands=("*xs",),
    batch=_refuse,
    native_check=True,
)
# HISTC(x, low, high): equal bins between two 0-d tensors, in the dtype of x; on a GPU in eager mode
# perhaps between two numbers, or between the extremes of x where the two are the same.
HISTC = primitive("histc", lambda x, *_, bins: Spec((bins,), x.dtype, x.device), None, None, None)


def _histogram_infer(*xs: Spec, weighted: bool) -> Spec:
    edges = xs[1 + weighted :]
    return Spec(tuple(e.shape[0] - 1 for e in edges), xs[0].dtype, xs[0].device)


# HISTOGRAMDD(points (n, d), [weights (n,)], edges of each of d dimensions)
HISTOGRAMDD = primitive(
    "histogramdd", _histogram_infer, no_derivative("histogram"), operands=("*xs",)
)


@public(method=True)
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each non-negative integer occurs (or the sum of its weights).

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([0, 2, 2]).bincount()
        tensor([1, 0, 2])
    """
    if input.ndim != 1 or input.dtype.is_inexact or input.dtype.name == "bool":
        unlike = NotImplementedError if input.dtype.is_inexact else RuntimeError
        raise unlike(
            "bincount: only supports 1-d non-negative integral inputs, received "
            f"{input.dtype.name} with {input.ndim} dimensions"
        )
    minlength = whole("bincount", "minlength", minlength)
    if minlength < 0:
        raise RuntimeError(f"bincount: minlength should be >= 0, received {minlength}")
    if weights is None:
        return BINCOUNT(input, minlength=minlength)
    if weights.shape != input.shape:
        raise ShapeError(
            f"bincount: weights should be 1-d and have the same length as input, received "
            f"{tuple(weights.shape)} and {tuple(input.shape)}"
        )
    weights = weights if weights.dtype is float32 else weights.to(float64)
    return BINCOUNT(input, weights, minlength=minlength)


def _scalar(value: Any, like: Tensor) -> Tensor:
    return FULL(value, shape=(), dtype=like.dtype, device=like.device)


def _rounded(value: Any, dtype: DType) -> float | None:
    """A plain number in single or double precision; None of one that is too large."""
    if type(value) not in (int, float) or abs(value) > LARGEST:
        return None
    return float(numpy_float32(value)) if dtype is float32 else float(value)


@public(method=True, out=True)
def histc(input: Tensor, bins: int = 100, min: Any = 0, max: Any = 0) -> Tensor:
    """Counts in equal bins between `min` and `max`, or between the extremes if these are equal.

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([0.0, 1.0, 1.0, 4.0]).histc(bins=4)
        tensor([1., 2., 0., 1.])
    """
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"histc: not implemented for {input.dtype.name}")
    if bins <= 0:
        raise RuntimeError(f"histc: bins must be > 0, received {bins}")
    if min > max:
        raise RuntimeError(f"histc: max must be larger than min, received [{min}, {max}]")
    if not (isfinite(min) and isfinite(max)):
        raise RuntimeError(f"histc: range of [{min}, {max}] is not finite")
    x = input.detach().reshape(-1)
    if x._array.__class__ in DEVICE_LAYOUTS and x.dtype in (float32, float64) and CONTEXT.settled:
        ends = _rounded(min, x.dtype), _rounded(max, x.dtype)
        if None not in ends and (ends[0] != ends[1] or min == max):
            return HISTC(x, *ends, bins=bins)
    low, high = _scalar(min, x), _scalar(max, x)
    if min == max and x.numel():
        low, high = x.amin(), x.amax()
    wider = low.eq(high).to(x.dtype)  # by 1 on both sides, where all are the same
    return HISTC(x, low - wider, high + wider, bins=bins)


def _edges(low: Tensor, high: Tensor, bins: int) -> Tensor:
    """bins + 1 equally spaced edges, each counted from the nearer end."""
    same = low.eq(high)
    low, high = where(same, low - 0.5, low), where(same, high + 0.5, high)
    steps = ARANGE(start=0, step=1, length=bins + 1, dtype=low.dtype, device=low.device)
    step = (high - low) / bins
    return where(steps < (bins + 1) // 2, low + step * steps, high - step * (bins - steps))


def _check_points(name: str, x: Tensor, weight: Tensor | None) -> None:
    if not x.dtype.is_floating_point:
        raise NotImplementedError(f"{name}: not implemented for {x.dtype.name}")
    if weight is None:
        return
    if weight.dtype is not x.dtype:
        raise DTypeError(
            f"{name}: if weight tensor is provided, it should have the same dtype as input, "
            f"received {weight.dtype.name} and {x.dtype.name}"
        )
    if not same_shape(weight.shape, x.shape[:-1]):
        raise ShapeError(
            f"{name}: if weight tensor is provided, it should have the shape of the input without "
            f"its innermost dimension, received {tuple(weight.shape)} and {tuple(x.shape)}"
        )


def _equal_edges(
    name: str, points: Tensor, bins: Sequence[int], range: Sequence[float] | None
) -> list[Tensor]:
    """Edges for numbers of bins, over `range` or the extremes of each dimension."""
    dims = len(bins)
    bins = [whole(name, "bins", n) for n in bins]
    if range is not None:
        if len(range) != 2 * dims:
            raise RuntimeError(
                f"{name}: range should have {2 * dims} elements if provided, received {len(range)}"
            )
        ends = [
            (_scalar(range[2 * i], points), _scalar(range[2 * i + 1], points)) for i in _count(dims)
        ]
        for i in _count(dims):
            if not (isfinite(range[2 * i]) and isfinite(range[2 * i + 1])):
                raise RuntimeError(f"{name}: range {tuple(range)} is not finite")
            if range[2 * i] > range[2 * i + 1]:
                raise RuntimeError(f"{name}: min should not exceed max, received {tuple(range)}")
    elif points.shape[0] == 0:
        ends = [(_scalar(0, points), _scalar(1, points))] * dims
    else:
        ends = [(points.select(1, i).amin(), points.select(1, i).amax()) for i in _count(dims)]
    for n in bins:
        if n <= 0:
            raise RuntimeError(f"{name}: bins must be > 0, received {n}")
    return [_edges(low, high, n) for (low, high), n in zip(ends, bins, strict=True)]


_count = range  # the parameter `range` hides the builtin


def _density(hist: Tensor, edges: Sequence[Tensor]) -> Tensor:
    """Counts over their total and the volumes of their bins."""
    hist = hist / hist.sum()
    for i, e in enumerate(edges):
        shape = [-1 if d == i else 1 for d in _count(len(edges))]
        hist = hist / e.diff().reshape(shape)
    return hist


def _histogramdd(
    name: str, points: Tensor, edges: Sequence[Tensor], weight: Tensor | None, density: bool
) -> Tensor:
    operands = [] if weight is None else [weight.reshape(-1)]
    hist = HISTOGRAMDD(points, *operands, *edges, weighted=weight is not None)
    return _density(hist, edges) if density else hist


@public(method=True, out=True)
def histogram(
    input: Tensor,
    bins: Any = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """Counts (or weights) in bins, and the edges of the bins."""
    points = input.detach().reshape(-1, 1)
    weight = None if weight is None else weight.reshape(-1)
    _check_points("histogram", points, weight)
    if is_tensor(bins):
        if bins.dtype is not input.dtype:
            raise DTypeError(
                "histogram: input tensor and bins tensors should have the same dtype, received "
                f"{input.dtype.name} and {bins.dtype.name}"
            )
        edges = [bins.detach().reshape(-1)]
    else:
        edges = _equal_edges("histogram", points, [bins], range)
    hist = _histogramdd("histogram", points, edges, weight, density)
    return RETURN_TYPES["histogram"](hist, edges[0])


@public()
def histogramdd(
    input: Tensor,
    bins: Any,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """Counts (or weights) of points in a grid of bins, and the edges along each dimension."""
    if input.ndim < 2:
        raise ShapeError(
            f"histogramdd: input tensor should have at least 2 dimensions, received {input.ndim}"
        )
    _check_points("histogramdd", input, weight)
    dims = input.shape[-1]
    points = input.detach().reshape(-1, dims)
    sizes: list[Any] = [bins] * dims if isinstance(bins, int) else list(bins)
    if len(sizes) != dims:
        raise RuntimeError(
            f"histogramdd: expected {dims} sequences of bins or bin counts, received {len(sizes)}"
        )
    if sizes and is_tensor(sizes[0]):
        edges = [b.detach() for b in sizes]
        for b in edges:
            if b.dtype is not input.dtype:
                raise DTypeError(
                    "histogramdd: input tensor and bins tensors should have the same dtype, "
                    f"received {input.dtype.name} and {b.dtype.name}"
                )
    else:
        edges = _equal_edges("histogramdd", points, sizes, range)
    hist = _histogramdd("histogramdd", points, edges, weight, density)
    return RETURN_TYPES["histogramdd"](hist, tuple(edges))
