"""Convolution: one trilinear form, seen from its three sides.

    form(x, w, g) = sum over n, o, k of g[n, co, o] w[co, ci, k] x[n, ci, o s + k d - lo]

CONVOLUTION is its derivative by g, CONVOLUTION_TRANSPOSE by x, CONVOLUTION_WEIGHT by w. Each one's
transposes are the other two, so convolutions differentiate to any order among themselves.

Note [exact padding]
    `padding` is (lo, hi) per dimension with hi such that the windows use up the padded input: what
    a stride leaves over at the end is taken off hi, which may become negative. Any two of the three
    shapes then determine the third, and all three records take the same parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.families import bilinear, device_of
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.ops.common.channels import (
    channels_second,
    goes_by_channels,
    rows_of_channels,
)
from adjoint.engine.ops.products.matmul import MATMUL

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

Shape = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


def exact_padding(
    source: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    lo: Sequence[int],
    hi: Sequence[int],
    dilation: Sequence[int],
) -> Pairs:
    """Padding with what no window reaches taken off the end: Note [exact padding]."""
    return tuple(
        [
            (a, b - (n + a + b - d * (k - 1) - 1) % s)
            for n, k, s, a, b, d in zip(source, kernel, stride, lo, hi, dilation, strict=True)
        ]
    )


def is_even(pair: tuple[int, int], stride: int) -> bool:
    """Whether padding by the first on both sides gives as many windows."""
    low, high = pair
    return low >= 0 and 0 <= low - high < stride


def window_count(source: int, kernel: int, stride: int, pads: tuple[int, int], d: int) -> int:
    """How many windows of a dilated kernel fit."""
    return (source + sum(pads) - d * (kernel - 1) - 1) // stride + 1


def _check_dtypes(name: str, x: Spec, y: Spec) -> None:
    if x.dtype.name == "bool" and (y.dtype is x.dtype or "transpose" in name):
        raise NotImplementedError(f"{name}: not implemented for bool. Convert it with .to(...).")
    if x.dtype is not y.dtype:
        raise DTypeError(
            f"{name}: input type ({x.dtype.name}) and weight type ({y.dtype.name}) should be the "
            "same. Convert one with .to(...)."
        )


def _infer(x: Spec, y: Spec, stride: Shape, padding: Pairs, dilation: Shape, groups: int) -> Spec:
    name = f"conv{len(stride)}d"
    _check_dtypes(name, x, y)
    if x.shape[1] != y.shape[1] * groups:
        raise ShapeError(
            f"{name}: given groups={groups}, weight of size {list(y.shape)}, expected input"
            f"{list(x.shape)} to have {y.shape[1] * groups} channels, but got {x.shape[1]} "
            "channels instead"
        )
    out = map(window_count, x.shape[2:], y.shape[2:], stride, padding, dilation)
    return Spec((x.shape[0], y.shape[0], *out), x.dtype, device_of(name, (x, y)))


def _infer_transpose(
    x: Spec, y: Spec, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Spec:
    name = f"conv_transpose{len(stride)}d"
    _check_dtypes(name, x, y)
    if x.shape[1] != y.shape[0]:
        raise ShapeError(
            f"{name}: given transposed=1, weight of size {list(y.shape)}, expected input"
            f"{list(x.shape)} to have {y.shape[0]} channels, but got {x.shape[1]} channels instead"
        )
    sizes = [
        (n - 1) * s + d * (k - 1) + 1 - sum(p)
        for n, k, s, p, d in zip(x.shape[2:], y.shape[2:], stride, padding, dilation, strict=True)
    ]
    return Spec((x.shape[0], y.shape[1] * groups, *sizes), x.dtype, device_of(name, (x, y)))


def _infer_weight(
    x: Spec, y: Spec, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Spec:
    _check_dtypes("conv_weight", x, y)
    kernel = [
        (n + sum(p) - (o - 1) * s - 1) // d + 1
        for n, o, s, p, d in zip(x.shape[2:], y.shape[2:], stride, padding, dilation, strict=True)
    ]
    shape = (y.shape[1], x.shape[1] // groups, *kernel)
    return Spec(shape, x.dtype, device_of("conv_weight", (x, y)))


def _conj(x: Tensor) -> Tensor:
    return x.conj() if x.dtype.is_complex else x


# -- batching: into the batch where the weight is shared, into channels or groups elsewhere ------


def _rows(x: Tensor) -> Tensor:
    """(B, N, ...) as (B N, ...)."""
    return x.reshape((x.shape[0] * x.shape[1], *x.shape[2:]))


def _lanes(x: Tensor) -> Tensor:
    """(B, N, C, ...) as (N, B C, ...)."""
    x = x.movedim(0, 1)
    return x.reshape((x.shape[0], x.shape[1] * x.shape[2], *x.shape[3:]))


def _unlane(x: Tensor, size: int) -> Tensor:
    """(N, B C, ...) as (B, N, C, ...)."""
    shape = (x.shape[0], size, x.shape[1] // size, *x.shape[2:])
    return x.reshape(shape).movedim(1, 0)


def _unrow(x: Tensor, size: int) -> Tensor:
    return x.reshape((size, x.shape[0] // size, *x.shape[1:]))


def _batch(record: Record) -> Any:
    """Each of the batch with a weight of its own: that many times the groups."""

    def batch(size: int, x: Tensor, y: Tensor, groups: int, **geometry: Any) -> Tensor:
        out = record(_lanes(x), _rows(y), groups=groups * size, **geometry)
        return _unlane(out, size)

    return batch


def _share(
    size: int, values: list[Tensor], batched: list[bool], groups: int, **geometry: Any
) -> Tensor:
    x, y = values
    if batched[0]:
        return _unrow(CONVOLUTION(_rows(x), y, groups=groups, **geometry), size)
    if groups == 1:
        return _unlane(CONVOLUTION(x, _rows(y), groups=1, **geometry), size)
    return CONVOLUTION.batch(  # type: ignore[misc]
        size, x.expand((size, *x.shape)), y, groups=groups, **geometry
    )


def _share_transpose(
    size: int, values: list[Tensor], batched: list[bool], groups: int, **geometry: Any
) -> Tensor:
    x, y = values
    if batched[0]:
        return _unrow(CONVOLUTION_TRANSPOSE(_rows(x), y, groups=groups, **geometry), size)
    if groups == 1:
        return _unlane(CONVOLUTION_TRANSPOSE(x, _lanes(y), groups=1, **geometry), size)
    return CONVOLUTION_TRANSPOSE.batch(  # type: ignore[misc]
        size, x.expand((size, *x.shape)), y, groups=groups, **geometry
    )


def _batch_weight(size: int, x: Tensor, y: Tensor, groups: int, **geometry: Any) -> Tensor:
    out = CONVOLUTION_WEIGHT(_lanes(x), _lanes(y), groups=groups * size, **geometry)
    return _unrow(out, size)


def _share_weight(
    size: int, values: list[Tensor], batched: list[bool], groups: int, **geometry: Any
) -> Tensor:
    x, y = values
    if groups == 1 and batched[0]:
        return _unlane(CONVOLUTION_WEIGHT(_lanes(x), y, groups=1, **geometry), size)
    if groups == 1:
        return _unrow(CONVOLUTION_WEIGHT(x, _lanes(y), groups=1, **geometry), size)
    x = x if batched[0] else x.expand((size, *x.shape))
    y = y if batched[1] else y.expand((size, *y.shape))
    return _batch_weight(size, x, y, groups=groups, **geometry)


# -- filters of one tap: products of rows of channels, where these lie innermost ------------------


def _is_product(images: Tensor, taps: Sequence[int], geometry: dict[str, Any]) -> bool:
    """Whether each result is a product of one row of channels of these images."""
    return (
        geometry["groups"] == 1
        and all(size == 1 for size in (*taps, *geometry["stride"]))
        and all(pair == (0, 0) for pair in geometry["padding"])
        and goes_by_channels(images)
    )


def _images(rows: Tensor, like: Tensor) -> Tensor:
    """Rows of channels (N ..., C) as images of the sizes of others."""
    return channels_second(rows.reshape((like.shape[0], *like.shape[2:], rows.shape[1])))


def _matrix(weight: Tensor) -> Tensor:
    """Filters of one tap (O, I, 1...) as (O, I)."""
    return weight.reshape((weight.shape[0], weight.shape[1]))


def _by_channels(x: Tensor, y: Tensor, **geometry: Any) -> Tensor | None:
    if not _is_product(x, y.shape[2:], geometry):
        return None
    return _images(MATMUL(rows_of_channels(x), _matrix(y).mT), x)


def _transpose_by_channels(x: Tensor, y: Tensor, **geometry: Any) -> Tensor | None:
    if not _is_product(x, y.shape[2:], geometry):
        return None
    return _images(MATMUL(rows_of_channels(x), _matrix(y)), x)


def _weight_by_channels(x: Tensor, y: Tensor, **geometry: Any) -> Tensor | None:
    taps = [n - count + 1 for n, count in zip(x.shape[2:], y.shape[2:], strict=True)]
    if not (_is_product(x, taps, geometry) and goes_by_channels(y)):
        return None
    weight: Tensor = MATMUL(rows_of_channels(y).mT, rows_of_channels(x))
    return weight.reshape((*weight.shape, *taps))


# -- the three records ---------------------------------------------------------------------------


def _weight_flops(shapes: Sequence[Sequence[int]], out: Sequence[int]) -> int:
    """A product for each element of a filter, channel and place of the maps."""
    maps = min(shapes[:2], key=lambda shape: prod(shape[2:]))
    return 2 * prod(out) * maps[0] * prod(maps[2:])


# x (N, G I, S...), y (G O, I, K...) -> (N, G O, L...)
CONVOLUTION: Record = bilinear(
    "convolution",
    _infer,
    lambda g, y, stride, padding, dilation, groups: CONVOLUTION_TRANSPOSE(
        g, _conj(y), stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    lambda g, x, stride, padding, dilation, groups: CONVOLUTION_WEIGHT(
        _conj(x), g, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    batch=lambda *args, **params: _batch(CONVOLUTION)(*args, **params),
    batch_mixed=_share,
    keeps_layout="convolved",
    by_channels=_by_channels,
    fragment="computed",
    by_library=True,
    in_steps=True,
    flops=lambda shapes, out: 2 * prod(out) * prod(shapes[1][1:]),
)

# x (N, G O, L...), y (G O, I, K...) -> (N, G I, S...)
CONVOLUTION_TRANSPOSE: Record = bilinear(
    "convolution_transpose",
    _infer_transpose,
    lambda g, y, stride, padding, dilation, groups: CONVOLUTION(
        g, _conj(y), stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    lambda g, x, stride, padding, dilation, groups: CONVOLUTION_WEIGHT(
        g, _conj(x), stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    batch=lambda *args, **params: _batch(CONVOLUTION_TRANSPOSE)(*args, **params),
    batch_mixed=_share_transpose,
    keeps_layout="convolved",
    by_channels=_transpose_by_channels,
    fragment="computed",
    by_library=True,
    in_steps=True,
    flops=lambda shapes, out: 2 * prod(shapes[0]) * prod(shapes[1][1:]),
)

# x (N, G I, S...), y (N, G O, L...) -> (G O, I, K...)
CONVOLUTION_WEIGHT: Record = bilinear(
    "convolution_weight",
    _infer_weight,
    lambda g, y, stride, padding, dilation, groups: CONVOLUTION_TRANSPOSE(
        _conj(y), g, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    lambda g, x, stride, padding, dilation, groups: CONVOLUTION(
        _conj(x), g, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    batch=_batch_weight,
    batch_mixed=_share_weight,
    keeps_layout="convolved",
    by_channels=_weight_by_channels,
    fragment="computed",
    by_library=True,
    in_steps=True,
    flops=_weight_flops,
)
