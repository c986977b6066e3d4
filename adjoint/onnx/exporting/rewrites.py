"""Operations that ONNX has no operator for, in operations that it has.

Each is a function of tensors under a record's name, recorded where the record is met.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import adjoint as ad
from adjoint.engine.graph.sizes.extents import Extent
from adjoint.engine.ops.index.gather import SCATTER
from adjoint.engine.ops.index.index import INDEX
from adjoint.onnx.exporting.writer import REWRITES, NoForm

Tensor = ad.Tensor
Shape = tuple[int, ...]


def rewrites(*names: str) -> Callable[[Any], Any]:
    """Enter a function for the records of these names."""

    def enter(function: Any) -> Any:
        REWRITES.update(dict.fromkeys(names, function))
        return function

    return enter


# -- of one element -----------------------------------------------------------------------------


def _hypot(x: Any, y: Any) -> Tensor:
    large, small = ad.maximum(x.abs(), y.abs()), ad.minimum(x.abs(), y.abs())
    plain = large * (1 + (small / large).square()).sqrt()
    whole = ad.where(large == 0, large, plain)
    return ad.where((x.abs() == math.inf) | (y.abs() == math.inf), math.inf, whole)


def _entropy(x: Tensor) -> Tensor:
    inside = ad.where(x == 0, 0.0, -x * x.log())
    return ad.where(x < 0, -math.inf, inside)


def _atan2(y: Tensor, x: Tensor) -> Tensor:
    turned = ad.where(_negative(y), -math.pi, math.pi)
    far = (x.abs() == math.inf) & (y.abs() == math.inf)
    slope = ad.where(far, ad.where((x > 0) == (y > 0), 1.0, -1.0), y / x)
    beside = slope.atan() + ad.where(_negative(x), turned, 0.0)
    upright = ad.where(y == 0, ad.where(_negative(x), turned, y), turned / 2)
    return ad.where((x == 0) & (y == y), upright, beside)


def _logaddexp(x: Tensor, y: Tensor) -> Tensor:
    near = ad.maximum(x, y) + (-(x - y).abs()).exp().log1p()
    return ad.where(x == y, x + math.log(2), near)


def _logaddexp2(x: Tensor, y: Tensor) -> Tensor:
    near = ad.maximum(x, y) + (-(x - y).abs()).exp2().log1p() / math.log(2)
    return ad.where(x == y, x + 1, near)


def _negative(x: Tensor) -> Tensor:
    """Whether a number is below zero, or the zero that is."""
    if not x.dtype.is_floating_point:
        return x < 0
    return (x < 0) | ((x == 0) & (1 / x < 0))


def _real(x: Tensor) -> Tensor:
    """Integers as floats, in which the smallest has an absolute value."""
    return x if x.dtype.is_floating_point else x.to(ad.float32)


def _times_log(log: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def product(x: Any, y: Any) -> Any:
        return ad.where((x == 0) & (y == y), x * 0.0, x * log(y))

    return product


def _number_or(this: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The larger or smaller, a number rather than NaN."""
    return lambda x, y: ad.where(x != x, y, ad.where(y != y, x, this(x, y)))


_OF_ELEMENTS: dict[str, Callable[..., Any]] = {
    "lerp": lambda x, y, z: ad.where(z.abs() < 0.5, x + z * (y - x), y - (y - x) * (1 - z)),
    "addcmul": lambda x, y, z, w: x + w * y * z,
    "addcdiv": lambda x, y, z, w: x + w * y / z,
    "isfinite": lambda x: x.abs() < math.inf,
    "logaddexp": _logaddexp,
    "logaddexp2": _logaddexp2,
    "logit": lambda x: (x / (1 - x)).log(),
    "xlogy": _times_log(lambda y: y.log()),
    "xlog1py": _times_log(lambda y: y.log1p()),
    "fmax": _number_or(ad.maximum),
    "fmin": _number_or(ad.minimum),
    "signbit": _negative,
    "copysign": lambda x, y: ad.where(_negative(y), -_real(x).abs(), _real(x).abs()),
    "heaviside": lambda x, y: ad.where(x == 0, y, (x > 0).to(x.dtype)),
    "hypot": _hypot,
    "frac": lambda x: x - x.trunc(),
    "sinc": lambda x: ad.where(x == 0, 1.0, (x * math.pi).sin() / (x * math.pi)),
    "entr": _entropy,
    "ndtr": lambda x: 0.5 * (1 + (x / math.sqrt(2)).erf()),
    "erfc": lambda x: 1 - x.erf(),
    "atan2": _atan2,
    "bitwise_left_shift": lambda x, y: x * ad.pow(2, y.to(ad.int64)),
    "bitwise_right_shift": lambda x, y: x // ad.pow(2, y.to(ad.int64)),
    "ldexp": lambda x, y: x * _real(y).to(ad.result_type(_real(x), _real(y))).exp2(),
    "angle": lambda x: ad.where(x < 0, math.pi, ad.where(x == x, 0.0, x)),
    "require": lambda x, condition, **_: x,  # a check of values, which runtimes do not make
}


def _of_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with numbers among its operands as tensors, which have methods."""

    def of_tensors(*operands: Any, **params: Any) -> Any:
        return function(
            *[x if isinstance(x, Tensor) else ad.full((), float(x)) for x in operands], **params
        )

    return of_tensors


REWRITES.update({name: _of_tensors(function) for name, function in _OF_ELEMENTS.items()})


# -- views and places ---------------------------------------------------------------------------


def _positions(x: Tensor) -> Tensor:
    return ad.arange(math.prod(x.shape)).reshape(x.shape)


def size_tensor(value: int) -> Tensor:
    """A size as a tensor: `full` would take an open one as the example's."""
    return ad.zeros((), dtype=ad.int64) + value


def _windows(count: int, size: int, step: int, dilation: int = 1) -> Tensor:
    """Where elements of windows are: (count, size)."""
    return ad.arange(count).unsqueeze(1) * step + ad.arange(size) * dilation


@rewrites("diagonal")
def diagonal(x: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    rest = [d for d in range(x.ndim) if d not in (dim1, dim2)]
    high, wide = x.shape[dim1], x.shape[dim2]
    length = min(high, wide - offset) if offset >= 0 else min(high + offset, wide)
    flat = x.permute([*rest, dim1, dim2]).reshape((*[x.shape[d] for d in rest], high * wide))
    start = offset if offset >= 0 else -offset * wide
    return flat.index_select(-1, start + ad.arange(max(length, 0)) * (wide + 1))


@rewrites("roll")
def roll(x: Tensor, shifts: Shape, dims: Shape) -> Tensor:
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        if shift == 0 or (not isinstance(size, Extent) and size == 0):
            continue
        if isinstance(size, Extent):
            places = (ad.arange(size) - shift) % size_tensor(size)
            x = x.index_select(dim, places)
            continue
        by = shift % size
        x = ad.cat([x.narrow(dim, size - by, by), x.narrow(dim, 0, size - by)], dim)
    return x


@rewrites("unfold")
def unfold(x: Tensor, dim: int, size: int, step: int) -> Tensor:
    count = (x.shape[dim] - size) // step + 1
    picked = x.index_select(dim, _windows(count, size, step).reshape(count * size))
    return picked.unflatten(dim, (count, size)).movedim(dim + 1, -1)


@rewrites("frame")
def frame(x: Tensor, size: int, hop: int) -> Tensor:
    return unfold(x, x.ndim - 1, size, hop)


@rewrites("overlap_add")
def overlap_add(x: Tensor, hop: int, length: int) -> Tensor:
    count, size = x.shape[-2:]
    at = _windows(count, size, hop).reshape(count * size)
    zeros = x.new_zeros((*x.shape[:-2], length))
    return zeros.index_add(-1, at, x.reshape((*x.shape[:-2], count * size)))


@rewrites("as_strided")
def as_strided(x: Tensor, size: Shape, stride: Shape, offset: int, x_stride: Shape) -> Tensor:
    packed = [1, *accumulate(reversed(x.shape[1:]), lambda a, b: a * b)][::-1][-x.ndim :]
    if x.ndim and any(n > 1 and a != b for n, a, b in zip(x.shape, x_stride, packed, strict=True)):
        raise NoForm("strides over a tensor whose elements do not lie in order")
    places = ad.full((), offset, dtype=ad.int64)
    for count, step in zip(size, stride, strict=True):
        places = places.unsqueeze(-1) + ad.arange(count) * step
    return x.reshape(-1)[places]


def _spread(x: Tensor, dim: int, count: int, size: int, step: int, dilation: int) -> Tensor:
    """A dimension as windows: (..., size, count, ...)."""
    at = _windows(count, size, step, dilation).t().reshape(size * count)
    return x.index_select(dim, at).unflatten(dim, (size, count))


@rewrites("unfold_windows")
def unfold_windows(
    x: Tensor, kernel: Shape, stride: Shape, padding: Any, dilation: Shape
) -> Tensor:
    rank = len(kernel)
    x = ad.nn.functional.pad(x, [n for pair in reversed(padding) for n in pair])
    for k in range(rank):  # dimensions before are two each by now
        dim, reach = 2 + 2 * k, dilation[k] * (kernel[k] - 1) + 1
        count = (x.shape[dim] - reach) // stride[k] + 1
        x = _spread(x, dim, count, kernel[k], stride[k], dilation[k])
    return x.permute((0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2)))


@rewrites("fold_windows")
def fold_windows(x: Tensor, kernel: Shape, stride: Shape, padding: Any, dilation: Shape) -> Tensor:
    rank = len(kernel)
    counts = x.shape[2 + rank :]
    x = x.permute((0, 1, *[d for k in range(rank) for d in (2 + k, 2 + rank + k)]))
    for k in range(rank):
        dim, size, count = 2 + k, kernel[k], counts[k]
        whole = (count - 1) * stride[k] + dilation[k] * (size - 1) + 1
        at = _windows(count, size, stride[k], dilation[k]).t().reshape(size * count)
        rows = x.reshape((*x.shape[:dim], size * count, *x.shape[dim + 2 :]))
        zeros = rows.new_zeros((*rows.shape[:dim], whole, *rows.shape[dim + 1 :]))
        x = zeros.index_add(dim, at, rows)
    return ad.nn.functional.pad(x, [-n for pair in reversed(padding) for n in pair])


@rewrites("max_pool")
def max_pool(x: Tensor, windows: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    """Windows of any kind: those that are too short see an element of theirs again."""
    lead = x.ndim - len(windows)
    places = _positions(x.new_empty(x.shape[lead:]))
    for k, window in enumerate(windows):
        at = _pooled(window, x.shape[lead + k])
        x, places = _beside(x, lead + k, at, k > 0), _beside(places, k, at, k > 0)
    best = x.argmax(-1, keepdim=True)
    return x.gather(-1, best).squeeze(-1), places.expand(x.shape).gather(-1, best).squeeze(-1)


def _beside(x: Tensor, dim: int, at: Tensor, windowed: bool) -> Tensor:
    """A dimension's windows; their elements lie behind, with those of dimensions before it."""
    rows = x.index_select(dim, at.reshape(-1)).unflatten(dim, tuple(at.shape)).movedim(dim + 1, -1)
    return rows.flatten(-2) if windowed else rows


def _pooled(window: tuple[Any, ...], source: int) -> Tensor:
    """Which elements each window sees: (count, extent)."""
    if window[0] == "adaptive":
        count = window[2]
        if isinstance(source, Extent):
            return adaptive_windows(source, count)[0]
        starts = [i * source // count for i in range(count)]
        stops = [-(-(i + 1) * source // count) for i in range(count)]
        seen = [list(range(a, b)) for a, b in zip(starts, stops, strict=True)]
    else:
        _, _, count, extent, step, offset, dilation = window
        if isinstance(extent, Extent):
            raise NoForm("windows of a dynamic extent")
        if isinstance(source, Extent):  # the nearest element of theirs stands for one outside
            at = _windows(count, extent, step, dilation) + offset
            below, above = at.clamp(max=0), (at - (size_tensor(source) - 1)).clamp(min=0)
            return at - (below // dilation) * dilation + (-above // dilation) * dilation
        at = [[i * step + offset + j * dilation for j in range(extent)] for i in range(count)]
        seen = [[p for p in row if 0 <= p < source] for row in at]
    longest = max(map(len, seen), default=1)
    return ad.tensor([row + row[-1:] * (longest - len(row)) for row in seen], dtype=ad.int64)


def adaptive_windows(source: int, count: int) -> tuple[Tensor, Tensor]:
    """Windows that cover a dynamic size: which elements each sees, and which are no repeats.

    All are as long as the longest may be; those that are shorter see their last element again.
    """
    if isinstance(count, Extent) or not count:
        raise NoForm("adaptive windows of a dynamic count")
    places, size = ad.arange(count).unsqueeze(1), size_tensor(source)
    starts, stops = places * size // count, ((places + 1) * size + (count - 1)) // count
    at = starts + ad.arange(source // count + 2)
    return at.minimum(stops - 1), at < stops


@rewrites("index_put")
def index_put(
    x: Tensor, y: Tensor, *indices: Tensor, dims: Shape, accumulate: bool, **_: Any
) -> Tensor:
    at = INDEX(_positions(x), *indices, dims=dims)
    flat = [t.reshape(-1) for t in (x, y.expand(at.shape), at)]
    return SCATTER(*flat, dim=0, accumulate=accumulate).reshape(x.shape)


@rewrites("mask_rank")
def mask_rank(x: Tensor, leading: int, limit: int) -> Tensor:
    shape = (*x.shape[:leading], math.prod(x.shape[leading:]))
    counts = x.reshape(shape).to(ad.int64).cumsum(-1)
    return (counts - x.reshape(shape).to(ad.int64)).clamp(max=limit - 1).reshape(x.shape)


# -- order and running values -------------------------------------------------------------------


@rewrites("isin")
def isin(x: Tensor, y: Tensor) -> Tensor:
    return (x.unsqueeze(-1) == y.reshape(-1)).any(-1)


@rewrites("searchsorted")
def searchsorted(x: Tensor, y: Tensor, right: bool) -> Tensor:
    edges, values = x if x.ndim == 1 else x.unsqueeze(-2), y.unsqueeze(-1)
    return (edges <= values if right else edges < values).sum(-1)


def _middle(rows: Tensor) -> Tensor:
    """The median of those elements of rows that are numbers."""
    missing = rows != rows
    ordered = ad.where(missing, math.inf, rows).sort(-1).values
    numbers = (~missing).sum(-1, True)
    picked = ordered.gather(-1, ((numbers - 1) // 2).clamp(min=0))
    return ad.where(numbers == 0, math.nan, picked).squeeze(-1)


@rewrites("argmedian")
def argmedian(x: Tensor, dim: int, omit: bool) -> Tensor:
    """Where the median is: of equal elements the one that a stable order has there."""
    rows = x.movedim(dim, -1)
    value = _middle(rows).unsqueeze(-1)
    equal = rows == value
    ahead = ((rows == rows).sum(-1, True) - 1) // 2 - (rows < value).sum(-1, True)
    here = equal & (equal.to(ad.int64).cumsum(-1) == ahead + 1)
    return here.to(ad.int32).argmax(-1, True).movedim(-1, dim)


@rewrites("median")
def median(x: Tensor, dims: Shape, keepdim: bool, omit: bool) -> Tensor:
    rest = [d for d in range(x.ndim) if d not in dims]
    count = math.prod(x.shape[d] for d in dims)
    rows = x.permute([*rest, *dims]).reshape((*[x.shape[d] for d in rest], count))
    middle = _middle(rows) if omit else rows.sort(-1).values.select(-1, (count - 1) // 2)
    return (
        middle.reshape([1 if d in dims else n for d, n in enumerate(x.shape)])
        if keepdim
        else middle
    )


@rewrites("argmode")
def argmode(x: Tensor, dim: int) -> Tensor:
    """The last place of the most frequent element, the smallest of such."""
    rows = x.movedim(dim, -1)
    counts = (rows.unsqueeze(-1) == rows.unsqueeze(-2)).sum(-1)
    frequent = counts == counts.amax(-1, True)
    highest = rows.amax(-1, True)
    mode = ad.where(frequent, rows, highest).amin(-1, True)
    places = ad.arange(rows.shape[-1])
    return ad.where(rows == mode, places, -1).amax(-1, True).movedim(-1, dim)


def _running(step: Callable[[Tensor, Tensor], Tensor], first: float) -> Callable[..., Tensor]:
    def running(x: Tensor, dim: int, **_: Any) -> Tensor:
        rows = x.movedim(dim, 0)
        start = ad.full_like(rows[0], first)

        def one(carry: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            now = step(carry, row)
            return now, now

        return ad.scan(one, start, rows)[1].movedim(0, dim)

    return running


REWRITES["cumprod"] = _running(lambda carry, row: carry * row, 1)
REWRITES["logcumsumexp"] = _running(_logaddexp, -math.inf)


@rewrites("cumextreme")
def cumextreme(x: Tensor, dim: int, largest: bool) -> Tensor:
    rows = x.movedim(dim, 0)
    places = ad.arange(rows.shape[0]).reshape((-1, *(1,) * (x.ndim - 1))).expand(rows.shape)

    def one(carry: Any, row: Any) -> Any:
        (value, place), (now, here) = carry, row
        better = now >= value if largest else now <= value
        extremes = ad.where(better, now, value), ad.where(better, here, place)
        return extremes, extremes[1]

    positions: Tensor = ad.scan(one, (rows[0], places[0]), (rows, places))[1]
    return positions.movedim(0, dim)
