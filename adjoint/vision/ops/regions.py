"""Features of regions: pooled and sampled at boxes, and convolutions at moved places.

Sampling between pixels and averaging treat rows and columns apart, so that a region is two small
matrices: `rows @ image @ columns`. Gradients follow from the products.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint import nn
from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.core.errors import ShapeError, ShapeValueError
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.ops.image.pixels import grid_sample
from adjoint.engine.ops.products.einsum import einsum
from adjoint.engine.ops.shape.join import cat, stack
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.parameter import Parameter
from adjoint.vision.ops._utils import check_roi_boxes_shape, convert_boxes_to_roi_format
from adjoint.vision.ops.recorded import by_records, roi_align_record

CHUNK = 64  # regions at once: what is between the two products is as large as they are many


def _pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def as_rois(boxes: Any) -> Tensor:
    """Boxes as (K, 5), the image's number first, from a list of (L, 4) an image."""
    check_roi_boxes_shape(boxes)
    return boxes if isinstance(boxes, Tensor) else convert_boxes_to_roi_format(boxes)


def _sampled(start: float, length: float, bins: int, size: int, ratio: int) -> Any:
    """(bins, size): how much of each place each bin takes, by linear interpolation."""
    step = length / bins
    count = ratio if ratio > 0 else max(math.ceil(length / bins), 0)
    out = np.zeros((bins, size), np.float64)
    if count == 0 or size == 0:
        return out
    places = start + step * (np.arange(bins)[:, None] + (np.arange(count) + 0.5) / count)
    inside = (places >= -1.0) & (places <= size)
    low = places.clip(0.0, size - 1)
    first = np.floor(low).astype(np.int64)
    second = np.minimum(first + 1, size - 1)
    share = low - first
    rows = np.broadcast_to(np.arange(bins)[:, None], places.shape)
    np.add.at(out, (rows, first), np.where(inside, 1 - share, 0.0))
    np.add.at(out, (rows, second), np.where(inside, share, 0.0))
    return out / count


def _averaged(start: float, length: float, bins: int, size: int, ratio: int) -> Any:
    """(bins, size): the mean of the whole places that each bin touches."""
    out = np.zeros((bins, size), np.float64)
    step = np.float32(length) / np.float32(bins)
    for number in range(bins):
        first = int(np.clip(np.floor(np.float32(number) * step + np.float32(start)), 0, size))
        last = int(np.clip(np.ceil(np.float32(number + 1) * step + np.float32(start)), 0, size))
        if last > first:
            out[number, first:last] = 1.0 / (last - first)
    return out


def _pooled(
    input: Tensor, rois: Tensor, size: tuple[int, int], span: Callable[[Any], Any],
    weigh: Callable[..., Any], ratio: int,
) -> Tensor:  # fmt: skip
    """Each region's bins: (K, C, bins down, bins across)."""
    if not rois.shape[0]:
        return input.new_zeros((0, input.shape[1], *size)) + input.sum() * 0
    numbers = np.asarray(rois.detach().cpu().numpy(), np.float64)
    height, width = int(input.shape[-2]), int(input.shape[-1])
    out = []
    for begin in range(0, len(numbers), CHUNK):
        part = numbers[begin : begin + CHUNK]
        down, across = [], []
        for row in part:
            x, y, w, h = span(row[1:])
            down.append(weigh(y, h, size[0], height, ratio))
            across.append(weigh(x, w, size[1], width, ratio))
        rows, columns = (
            from_numpy(np.stack(axis)).to(input.device, input.dtype) for axis in (down, across)
        )
        images = input[from_numpy(part[:, 0].astype(np.int64)).to(input.device)]
        out.append(einsum("kph,kchw,kqw->kcpq", rows, images, columns))
    return cat(out, 0)


def roi_align(
    input: Tensor, boxes: Any, output_size: Any, spatial_scale: float = 1.0,
    sampling_ratio: int = -1, aligned: bool = False,
) -> Tensor:  # fmt: skip
    """The mean of samples in each bin of each box (He et al., 2017).

    Args:
        input: images (N, C, H, W).
        boxes: (K, 5) with the image's number first, or a list of (L, 4).
        output_size: bins down and across.
        spatial_scale: from the boxes' coordinates to the input's.
        sampling_ratio: samples each way in a bin; as many as pixels if not positive.
        aligned: count pixels from their middles.
    """

    def span(box: Any) -> Any:
        x1, y1, x2, y2 = box * spatial_scale - (0.5 if aligned else 0.0)
        w, h = x2 - x1, y2 - y1
        return (x1, y1, w, h) if aligned else (x1, y1, max(w, 1.0), max(h, 1.0))

    rois, size = as_rois(boxes), _pair(output_size)
    if by_records():
        options = {"scale": float(spatial_scale), "ratio": sampling_ratio, "aligned": aligned}
        pooled: Tensor = roi_align_record()(input, rois, size=size, **options)
        return pooled
    return _pooled(input, rois, size, span, _sampled, sampling_ratio)


def _diagonal(out: Tensor, size: tuple[int, int]) -> Tensor:
    """Of channels that belong to one bin each, the value in that bin."""
    count, channels = out.shape[:2]
    down, across = size
    if channels % (down * across):
        raise ShapeValueError(
            f"position-sensitive pooling: {channels} channels are no multiple of {down * across}"
        )
    parts = out.reshape(count, -1, down, across, down, across)
    return parts.diagonal(0, 2, 4).diagonal(0, 2, 3)  # (K, C', down, across)


def ps_roi_align(
    input: Tensor, boxes: Any, output_size: Any, spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
) -> Tensor:  # fmt: skip
    """`roi_align` in which every bin has channels of its own."""
    size = _pair(output_size)
    return _diagonal(roi_align(input, boxes, size, spatial_scale, sampling_ratio, True), size)


def _rounded(box: Any, scale: float) -> list[float]:
    """Corners in whole pixels, halves away from zero."""
    scaled = np.asarray(box, np.float32) * np.float32(scale)
    return [float(v) for v in np.trunc(scaled + np.copysign(np.float32(0.5), scaled))]


def ps_roi_pool(input: Tensor, boxes: Any, output_size: Any, spatial_scale: float = 1.0) -> Tensor:
    """The mean of each bin, in which every bin has channels of its own."""

    def span(box: Any) -> Any:
        x1, y1, x2, y2 = _rounded(box, spatial_scale)
        return x1, y1, max(x2 - x1, 1.0), max(y2 - y1, 1.0)

    size = _pair(output_size)
    return _diagonal(_pooled(input, as_rois(boxes), size, span, _averaged, -1), size)


def roi_pool(input: Tensor, boxes: Any, output_size: Any, spatial_scale: float = 1.0) -> Tensor:
    """The greatest value in each bin of each box (Girshick, 2015); 0 in empty ones."""
    rois, (down, across) = as_rois(boxes), _pair(output_size)
    height, width = int(input.shape[-2]), int(input.shape[-1])
    out = []
    for row in np.asarray(rois.detach().cpu().numpy(), np.float64):
        x1, y1, x2, y2 = _rounded(row[1:], spatial_scale)
        image = input[int(row[0])]
        edges = [
            _edges(start, max(end - start + 1.0, 1.0), bins, size)
            for start, end, bins, size in ((y1, y2, down, height), (x1, x2, across, width))
        ]
        cells = [
            image[:, top:bottom, left:right].amax((-2, -1))
            if bottom > top and right > left
            else image.new_zeros(image.shape[0])
            for top, bottom in edges[0]
            for left, right in edges[1]
        ]
        out.append(stack(cells, 1).reshape(-1, down, across))
    return stack(out, 0) if out else input.new_zeros((0, input.shape[1], down, across))


def _edges(start: float, length: float, bins: int, size: int) -> list[tuple[int, int]]:
    step = np.float32(length) / np.float32(bins)
    return [
        (
            int(np.clip(np.floor(np.float32(n) * step) + start, 0, size)),
            int(np.clip(np.ceil(np.float32(n + 1) * step) + start, 0, size)),
        )
        for n in range(bins)
    ]


def deform_conv2d(
    input: Tensor, offset: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = (1, 1),
    padding: Any = (0, 0), dilation: Any = (1, 1), mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """A convolution whose every tap is moved by an offset (Dai et al., 2017; Zhu et al., 2018).

    Args:
        input: (N, C, H, W).
        offset: (N, 2 * groups * taps, H', W'): down and across, of each tap.
        weight: (C', C / conv groups, taps down, taps across).
        bias: (C',).
        stride, padding, dilation: of the convolution.
        mask: (N, groups * taps, H', W'), times what is sampled.
    """
    (sh, sw), (ph, pw), (dh, dw) = _pair(stride), _pair(padding), _pair(dilation)
    batch, channels, height, width = input.shape
    out_channels, per_group, kh, kw = weight.shape
    taps = kh * kw
    out_h = (height + 2 * ph - (dh * (kh - 1) + 1)) // sh + 1
    out_w = (width + 2 * pw - (dw * (kw - 1) + 1)) // sw + 1
    groups = offset.shape[1] // (2 * taps)
    if groups == 0 or offset.shape != (batch, 2 * groups * taps, out_h, out_w):
        raise ShapeError(
            f"deform_conv2d: offset of shape {tuple(offset.shape)} does not fit: expected "
            f"({batch}, 2 * groups * {taps}, {out_h}, {out_w})"
        )
    moved = offset.reshape(batch * groups, taps, 2, out_h, out_w)
    down = np.arange(out_h)[None, :, None] * sh - ph + (np.arange(taps) // kw * dh)[:, None, None]
    across = np.arange(out_w)[None, None, :] * sw - pw + (np.arange(taps) % kw * dw)[:, None, None]
    y = moved[:, :, 0] + from_numpy(down.astype(np.float32)).to(input)
    x = moved[:, :, 1] + from_numpy(across.astype(np.float32)).to(input)
    grid = stack([(x + 0.5) * (2.0 / width) - 1.0, (y + 0.5) * (2.0 / height) - 1.0], -1)
    images = input.reshape(batch * groups, channels // groups, height, width)
    sampled = grid_sample(
        images, grid.reshape(batch * groups, taps * out_h, out_w, 2),
        mode="bilinear", padding_mode="zeros", align_corners=False,
    )  # fmt: skip
    sampled = sampled.reshape(batch, groups, channels // groups, taps, out_h, out_w)
    if mask is not None:
        sampled = sampled * mask.reshape(batch, groups, 1, taps, out_h, out_w)
    parts = channels // per_group
    columns = sampled.reshape(batch, parts, per_group * taps, out_h * out_w)
    weights = weight.reshape(parts, out_channels // parts, per_group * taps)
    out = einsum("gok,ngkp->ngop", weights, columns).reshape(batch, out_channels, out_h, out_w)
    return out if bias is None else out + bias.view(1, -1, 1, 1)


class RoIAlign(nn.Module):
    """`roi_align` as a layer."""

    def __init__(
        self, output_size: Any, spatial_scale: float, sampling_ratio: int, aligned: bool = False
    ) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale
        self.sampling_ratio, self.aligned = sampling_ratio, aligned

    def forward(self, input: Tensor, rois: Any) -> Tensor:
        return roi_align(
            input, rois, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned
        )


class RoIPool(nn.Module):
    """`roi_pool` as a layer."""

    def __init__(self, output_size: Any, spatial_scale: float) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale

    def forward(self, input: Tensor, rois: Any) -> Tensor:
        return roi_pool(input, rois, self.output_size, self.spatial_scale)


class PSRoIAlign(nn.Module):
    """`ps_roi_align` as a layer."""

    def __init__(self, output_size: Any, spatial_scale: float, sampling_ratio: int) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale
        self.sampling_ratio = sampling_ratio

    def forward(self, input: Tensor, rois: Any) -> Tensor:
        return ps_roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio)


class PSRoIPool(nn.Module):
    """`ps_roi_pool` as a layer."""

    def __init__(self, output_size: Any, spatial_scale: float) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale

    def forward(self, input: Tensor, rois: Any) -> Tensor:
        return ps_roi_pool(input, rois, self.output_size, self.spatial_scale)


class DeformConv2d(nn.Module):
    """`deform_conv2d` as a layer."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise ValueError("in_channels and out_channels must be divisible by groups")
        self.stride, self.padding, self.dilation = _pair(stride), _pair(padding), _pair(dilation)
        size = _pair(kernel_size)
        self.weight = Parameter(zeros(out_channels, in_channels // groups, *size))
        self.bias = Parameter(zeros(out_channels)) if bias else None
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(math.prod(self.weight.shape[1:]))
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        return deform_conv2d(
            input, offset, self.weight, self.bias, self.stride, self.padding, self.dilation, mask
        )


class MultiScaleRoIAlign(nn.Module):
    """`roi_align` on the level of a pyramid that fits each box's size.

    Args:
        featmap_names: which levels.
        output_size: bins down and across.
        sampling_ratio: see `roi_align`.
        canonical_scale, canonical_level: the size of a box that belongs to a level.
    """

    def __init__(
        self, featmap_names: list[str], output_size: Any, sampling_ratio: int, *,
        canonical_scale: int = 224, canonical_level: int = 4,
    ) -> None:  # fmt: skip
        super().__init__()
        self.featmap_names, self.output_size = featmap_names, _pair(output_size)
        self.sampling_ratio = sampling_ratio
        self.canonical_scale, self.canonical_level = canonical_scale, canonical_level
        self.scales: list[float] | None = None

    def forward(
        self, x: dict[str, Tensor], boxes: list[Tensor], image_shapes: list[tuple[int, int]]
    ) -> Tensor:
        levels = [value for name, value in x.items() if name in self.featmap_names]
        side = max(shape[0] for shape in image_shapes), max(shape[1] for shape in image_shapes)
        scales = [2.0 ** round(math.log2(level.shape[-2] / side[0])) for level in levels]
        self.scales, rois = scales, as_rois(boxes)
        if len(levels) == 1:
            return roi_align(levels[0], rois, self.output_size, scales[0], self.sampling_ratio)
        corners = rois.detach()
        areas = (corners[:, 3] - corners[:, 1]) * (corners[:, 4] - corners[:, 2])
        fit = (self.canonical_level + (areas.sqrt() / self.canonical_scale).log2() + 1e-6).floor()
        lowest, highest = -math.log2(scales[0]), -math.log2(scales[-1])
        fit = fit.clamp(lowest, highest) - lowest
        out = levels[0].new_zeros((rois.shape[0], levels[0].shape[1], *self.output_size))
        for number, (level, scale) in enumerate(zip(levels, scales, strict=True)):
            chosen = (fit == number).nonzero()[:, 0]
            part = roi_align(level, rois[chosen], self.output_size, scale, self.sampling_ratio)
            out = out.index_put((chosen,), part.to(out.dtype))
        return out
