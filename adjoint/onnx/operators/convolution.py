"""Convolutions, their transposes, and columns."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.onnx.operators.shapes import pad
from adjoint.onnx.reading import OnnxError
from adjoint.onnx.table import operator
from adjoint.onnx.types import Value, integers

_CONV = {1: ad.conv1d, 2: ad.conv2d, 3: ad.conv3d}
_TRANSPOSED = {1: ad.conv_transpose1d, 2: ad.conv_transpose2d, 3: ad.conv_transpose3d}


def paddings(
    auto_pad: str,
    pads: list[int] | None,
    sizes: list[int],
    kernel: list[int],
    strides: list[int],
    dilations: list[int],
) -> list[int]:
    """What is added before each dimension, then after each."""
    rank = len(sizes)
    if auto_pad in ("NOTSET", ""):
        return pads if pads is not None else [0] * (2 * rank)
    if auto_pad == "VALID":
        return [0] * (2 * rank)
    before, after = [], []
    for size, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
        total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        small = total // 2
        first = small if auto_pad == "SAME_UPPER" else total - small
        before.append(first)
        after.append(total - first)
    return [*before, *after]


def convolve(
    x: Tensor,
    w: Tensor,
    b: Tensor | None,
    auto_pad: str,
    dilations: list[int] | None,
    group: int,
    pads: list[int] | None,
    strides: list[int] | None,
) -> Tensor:
    """A convolution of one to three dimensions."""
    rank = x.ndim - 2
    if rank not in _CONV:
        raise OnnxError(f"onnx: Conv of {rank} spatial dimensions is not supported; 1 to 3 are.")
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    kernel = [int(d) for d in w.shape[2:]]
    around = paddings(auto_pad, pads, [int(d) for d in x.shape[2:]], kernel, strides, dilations)
    before, after = around[:rank], around[rank:]
    if before != after:
        x = pad(x, around, axes=list(range(2, x.ndim)))
        before = [0] * rank
    return _CONV[rank](x, w, b, tuple(strides), tuple(before), tuple(dilations), group)


@operator("Conv")
def conv(
    x: Tensor,
    w: Tensor,
    b: Value = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Convolution."""
    return convolve(x, w, b, auto_pad, dilations, group, pads, strides)


@operator("ConvTranspose")
def conv_transpose(
    x: Tensor,
    w: Tensor,
    b: Value = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    output_padding: list[int] | None = None,
    output_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """The transpose of a convolution: whole, then cut to what padding leaves."""
    rank = x.ndim - 2
    if rank not in _TRANSPOSED:
        raise OnnxError(
            f"onnx: ConvTranspose of {rank} spatial dimensions is not supported; 1 to 3 are."
        )
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    extra = output_padding or [0] * rank
    kernel = [int(d) for d in w.shape[2:]]
    full = [
        (int(n) - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip(x.shape[2:], strides, kernel, dilations, strict=True)
    ]
    around = pads or [0] * (2 * rank)
    if output_shape is not None or auto_pad.startswith("SAME"):
        wanted = output_shape or [int(n) * s for n, s in zip(x.shape[2:], strides, strict=True)]
        total = [f + e - n for f, e, n in zip(full, extra, wanted[-rank:], strict=True)]
        low = [t // 2 for t in total]
        first = (
            low if auto_pad == "SAME_UPPER" else [t - h for t, h in zip(total, low, strict=True)]
        )
        around = [*first, *[t - f for t, f in zip(total, first, strict=True)]]
    out = _TRANSPOSED[rank](x, w, None, tuple(strides), 0, 0, group, tuple(dilations))
    cut = [
        *[-p for p in around[:rank]],
        *[e - p for e, p in zip(extra, around[rank:], strict=True)],
    ]
    out = pad(out, cut, axes=list(range(2, x.ndim)))
    return out if b is None else out + b.reshape(1, -1, *[1] * rank)


@operator("Col2Im")
def col2im(
    x: Tensor,
    image_shape: Value,
    block_shape: Value,
    *,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Columns of blocks added up into an image."""
    image, block = integers(image_shape), integers(block_shape)
    rank = len(image)
    strides, dilations, pads = (
        strides or [1] * rank,
        dilations or [1] * rank,
        pads or [0] * (2 * rank),
    )
    batch, channels = int(x.shape[0]), int(x.shape[1]) // math.prod(block)
    padded = [n + pads[k] + pads[k + rank] for k, n in enumerate(image)]
    place = ad.zeros(1, 1, dtype=ad.int64)  # (elements of a block, blocks): the place in the image
    for k in range(rank):
        count = (padded[k] - (block[k] - 1) * dilations[k] - 1) // strides[k] + 1
        here = ad.arange(block[k])[:, None] * dilations[k] + ad.arange(count)[None, :] * strides[k]
        place = (place[:, None, :, None] * padded[k] + here[None, :, None, :]).reshape(
            place.shape[0] * block[k], place.shape[1] * count
        )
    flat = x.reshape(batch, channels, -1)
    index = place.reshape(1, 1, -1).expand(flat.shape)
    out = ad.zeros(batch, channels, math.prod(padded), dtype=x.dtype).scatter_add(2, index, flat)
    cut = [-p for p in pads]
    return pad(out.reshape(batch, channels, *padded), cut, axes=list(range(2, 2 + rank)))


@operator("DeformConv")
def deform_conv(
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    b: Value = None,
    mask: Value = None,
    *,
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    offset_group: int = 1,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """A convolution whose taps are moved by offsets and weighed by a mask."""
    if x.ndim != 4:
        raise OnnxError(
            f"onnx: DeformConv of {x.ndim - 2} spatial dimensions is not supported; 2 are."
        )
    n, c, h, width = (int(d) for d in x.shape)
    kh, kw = int(w.shape[2]), int(w.shape[3])
    sh, sw = strides or [1, 1]
    dh, dw = dilations or [1, 1]
    ph, pw = (pads or [0] * 4)[:2]
    oh, ow = int(offset.shape[2]), int(offset.shape[3])
    moved = offset.reshape(n, offset_group, kh * kw, 2, oh, ow)
    tap_y = (ad.arange(kh) * dh)[:, None].expand(kh, kw).reshape(-1, 1, 1)
    tap_x = (ad.arange(kw) * dw)[None, :].expand(kh, kw).reshape(-1, 1, 1)
    y = moved[:, :, :, 0] + (tap_y + (ad.arange(oh) * sh - ph)[:, None]).to(x.dtype)
    z = moved[:, :, :, 1] + (tap_x + (ad.arange(ow) * sw - pw)[None, :]).to(x.dtype)
    grid = ad.stack([(2 * z + 1) / width - 1, (2 * y + 1) / h - 1], -1)
    groups = x.reshape(n * offset_group, c // offset_group, h, width)
    taken = F.grid_sample(
        groups, grid.reshape(n * offset_group, kh * kw * oh, ow, 2), "bilinear", "zeros", False
    )
    taken = taken.reshape(n, offset_group, c // offset_group, kh * kw, oh, ow)
    if mask is not None:
        taken = taken * mask.reshape(n, offset_group, 1, kh * kw, oh, ow)
    columns = taken.reshape(n, group, c // group * kh * kw, oh * ow)
    weights = w.reshape(group, int(w.shape[0]) // group, -1)
    out = ad.matmul(weights, columns).reshape(n, int(w.shape[0]), oh, ow)
    return out if b is None else out + b.reshape(1, -1, 1, 1)


@operator("CausalConvWithState")
def causal_conv_with_state(
    x: Tensor, w: Tensor, b: Value = None, past_state: Value = None, *, activation: str = "none"
) -> tuple[Tensor, Tensor]:
    """A depthwise convolution over the past: (N, C, L), and the state for what follows."""
    width = int(w.shape[-1])
    past = x.new_zeros(x.shape[0], x.shape[1], width - 1) if past_state is None else past_state
    whole = ad.cat([past, x], 2)
    out = ad.conv1d(whole, w.reshape(int(x.shape[1]), 1, width), b, groups=int(x.shape[1]))
    out = out if activation == "none" else out * ad.sigmoid(out)
    return out, whole.narrow(2, int(whole.shape[2]) - (width - 1), width - 1)
