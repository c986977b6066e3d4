"""Pooling over windows, whole images and regions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import adjoint as ad
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.onnx.operators.convolution import paddings
from adjoint.onnx.operators.shapes import pad
from adjoint.onnx.table import NodeCall, operator
from adjoint.onnx.types import Value, integers

_MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_MEAN = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


@dataclass(frozen=True, slots=True)
class Windows:
    """Where windows lie: a number to each spatial dimension."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[int]
    after: list[int]
    counts: list[int]  # of windows

    @property
    def plain(self) -> bool:
        """Whether PyTorch's pooling has them: as much before as after, at most half a window."""
        half = all(2 * p <= k for p, k in zip(self.before, self.kernel, strict=True))
        return self.before == self.after and half and len(self.kernel) <= 3


def windows(
    x: Tensor,
    kernel: list[int],
    strides: list[int] | None,
    dilations: list[int] | None,
    pads: list[int] | None,
    auto_pad: str,
    ceil_mode: int,
) -> Windows:
    """Windows over a tensor's spatial dimensions."""
    rank = x.ndim - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    sizes = list(x.shape[2:])
    around = paddings(auto_pad, pads, sizes, kernel, strides, dilations)
    before, after, counts = list(around[:rank]), list(around[rank:]), []
    for k in range(rank):
        span = (kernel[k] - 1) * dilations[k] + 1
        room = sizes[k] + before[k] + after[k] - span
        count = room // strides[k] + 1
        # Of a size that is open, pooling itself says which windows a ceiling adds.
        if (
            ceil_mode
            and not is_extent(sizes[k])
            and room % strides[k]
            and count * strides[k] < sizes[k] + before[k]
        ):
            after[k] += count * strides[k] + span - (sizes[k] + before[k] + after[k])
            count += 1
        counts.append(count)
    return Windows(kernel, strides, dilations, before, after, counts)


def taken(x: Tensor, at: Windows, filling: float) -> Tensor:
    """What lies in the windows: (N, C, windows..., elements of a window)."""
    rank = len(at.kernel)
    x = pad(x, [*at.before, *at.after], axes=list(range(2, x.ndim)), value=filling)
    for k in range(rank):
        starts = ad.arange(at.counts[k])[:, None] * at.strides[k]
        index = (starts + ad.arange(at.kernel[k])[None, :] * at.dilations[k]).reshape(-1)
        dim = 2 + k
        x = ad.index_select(x, dim, index)
        x = x.reshape(*x.shape[:dim], at.counts[k], at.kernel[k], *x.shape[dim + 1 :]).movedim(
            dim + 1, -1
        )
    return x.reshape(*x.shape[: 2 + rank], math.prod(at.kernel))


@operator("MaxPool")
def max_pool(
    x: Tensor,
    *,
    kernel_shape: list[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    storage_order: int = 0,
    strides: list[int] | None = None,
    call: NodeCall,
) -> tuple[Tensor, ...]:
    """The largest of each window, and where it lies in the whole tensor."""
    at = windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    if call.outputs == 1 and at.plain and x.is_floating_point():
        ceil = bool(ceil_mode)
        if not ceil or any(map(is_extent, x.shape[2:])):
            pool = _MAX[len(at.kernel)]
            return (pool(x, at.kernel, at.strides, at.before, at.dilations, ceil),)
    lowest = -math.inf if x.is_floating_point() else ad.iinfo(x.dtype).min
    values = taken(x, at, lowest)
    best = ad.amax(values, -1)
    if call.outputs == 1:
        return (best,)
    sizes = list(x.shape)
    place = ad.arange(math.prod(sizes)).reshape(sizes)
    if storage_order:
        rows, columns = sizes[-2:]
        local = ad.arange(rows)[:, None] + ad.arange(columns)[None, :] * rows
        place = place - place % (rows * columns) + local
    places = taken(place, at, -1)
    return best, ad.take_along_dim(places, ad.argmax(values, -1, keepdim=True), -1).squeeze(-1)


@operator("AveragePool")
def average_pool(
    x: Tensor,
    *,
    kernel_shape: list[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """The mean of each window, over its elements or those inside the tensor."""
    at = windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    rank = len(at.kernel)
    ceil, openly = bool(ceil_mode), any(map(is_extent, x.shape[2:]))
    if at.plain and (not ceil or openly) and all(d == 1 for d in at.dilations):
        return _MEAN[rank](x, at.kernel, at.strides, at.before, ceil, bool(count_include_pad))
    total = ad.sum(taken(x, at, 0.0), -1)
    inside = ad.ones(1, 1, *x.shape[2:], dtype=x.dtype)
    if count_include_pad:  # what ceil_mode adds beyond the padding is never counted
        around = paddings(
            auto_pad, pads, [int(d) for d in x.shape[2:]], at.kernel, at.strides, at.dilations
        )
        inside = pad(inside, around, axes=list(range(2, x.ndim)), value=1.0)
        spare = [a - g for a, g in zip(at.after, around[rank:], strict=True)]
        at = Windows(at.kernel, at.strides, at.dilations, [0] * rank, spare, at.counts)
    return total / ad.sum(taken(inside, at, 0.0), -1)


@operator("LpPool")
def lp_pool(
    x: Tensor,
    *,
    kernel_shape: list[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: list[int] | None = None,
    p: int = 2,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """The p-norm of each window."""
    at = windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    return ad.sum(ad.abs(taken(x, at, 0.0)) ** p, -1) ** (1.0 / p)


@operator("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    """The mean of each channel."""
    return ad.mean(x, list(range(2, x.ndim)), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    """The largest of each channel."""
    return ad.amax(x, list(range(2, x.ndim)), keepdim=True)


@operator("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: int = 2) -> Tensor:
    """The p-norm of each channel."""
    return ad.sum(ad.abs(x) ** p, list(range(2, x.ndim)), keepdim=True) ** (1.0 / p)


@operator("MaxUnpool")
def max_unpool(
    x: Tensor,
    indices: Tensor,
    output_shape: Value = None,
    *,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Values back where MaxPool found them, zeros elsewhere."""
    rank = len(kernel_shape)
    strides, pads = strides or [1] * rank, pads or [0] * (2 * rank)
    sizes = [
        (int(x.shape[2 + k]) - 1) * strides[k] + kernel_shape[k] - pads[k] - pads[k + rank]
        for k in range(rank)
    ]
    own = [int(d) for d in (*x.shape[:2], *sizes)]
    out = (
        ad.zeros(math.prod(own), dtype=x.dtype)
        .scatter(0, indices.reshape(-1), x.reshape(-1))
        .reshape(own)
    )
    if output_shape is None:
        return out
    wanted = integers(output_shape)
    return pad(out, [*[0] * len(own), *[w - o for w, o in zip(wanted, own, strict=True)]])
