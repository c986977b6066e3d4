"""Normalisations and dropout."""

from __future__ import annotations

import adjoint as ad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.onnx.table import NodeCall, operator
from adjoint.onnx.types import TENSORS, Value, element, number


def _wide(x: Tensor, stash_type: int) -> Tensor:
    """In the precision that a normalisation computes in."""
    wanted = TENSORS[element(stash_type, "normalisation")]
    return x.to(wanted) if x.dtype.itemsize < wanted.itemsize else x


@operator("LayerNormalization")
def layer_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Value = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    call: NodeCall,
) -> tuple[Tensor, ...]:
    """Over the last dimensions from an axis on; also the mean and the inverse deviation."""
    dims = list(range(axis % x.ndim, x.ndim))
    own = list(x.shape[dims[0] :])
    if (
        call.outputs == 1
        and stash_type == 1
        and tuple(scale.shape) == tuple(own)
        and (bias is None or bias.shape == scale.shape)
    ):
        return (F.layer_norm(x, own, scale, bias, epsilon),)
    wide = _wide(x, stash_type)
    mean = ad.mean(wide, dims, keepdim=True)
    away = wide - mean
    inverse = ad.rsqrt(ad.mean(away * away, dims, keepdim=True) + epsilon)
    out = (away * inverse).to(x.dtype) * scale
    return (out if bias is None else out + bias), mean, inverse


@operator("RMSNormalization")
def rms_normalization(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """Divided by the root of the mean square over the last dimensions."""
    dims = list(range(axis % x.ndim, x.ndim))
    wide = _wide(x, stash_type)
    inverse = ad.rsqrt(ad.mean(wide * wide, dims, keepdim=True) + epsilon)
    return (wide * inverse).to(x.dtype) * scale


@operator("BatchNormalization")
def batch_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    spatial: int = 1,
    is_test: int = 1,
    consumed_inputs: list[int] | None = None,
) -> tuple[Tensor, ...]:
    """Over all but the channels; in training mode, with the statistics that follow."""
    if not training_mode:
        return (F.batch_norm(x, mean, var, scale, bias, False, 0.0, epsilon),)
    dims = [0, *range(2, x.ndim)]
    view = [1, -1, *[1] * (x.ndim - 2)]
    now = ad.mean(x, dims)
    spread = ad.mean((x - now.reshape(view)) ** 2, dims)
    out = (x - now.reshape(view)) * ad.rsqrt(spread + epsilon).reshape(view) * scale.reshape(
        view
    ) + bias.reshape(view)
    return out, mean * momentum + now * (1 - momentum), var * momentum + spread * (1 - momentum)


@operator("InstanceNormalization")
def instance_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5
) -> Tensor:
    """Over the places of each channel of each image."""
    dims = list(range(2, x.ndim))
    view = [1, -1, *[1] * len(dims)]
    away = x - ad.mean(x, dims, keepdim=True)
    inverse = ad.rsqrt(ad.mean(away * away, dims, keepdim=True) + epsilon)
    return away * inverse * scale.reshape(view) + bias.reshape(view)


@operator("GroupNormalization")
def group_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor:
    """Over groups of channels; a scale to each channel (opset 21) or to each group (18)."""
    channels = int(x.shape[1])
    if int(scale.shape[0]) != channels:
        scale, bias = (ad.repeat_interleave(v, channels // num_groups) for v in (scale, bias))
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@operator("MeanVarianceNormalization")
def mean_variance_normalization(x: Tensor, *, axes: list[int] | None = None) -> Tensor:
    """Mean zero, deviation one."""
    dims = [0, 2, 3] if axes is None else axes
    mean = ad.mean(x, dims, keepdim=True)
    spread = ad.mean(x * x, dims, keepdim=True) - mean * mean
    return (x - mean) / (ad.sqrt(spread) + 1e-9)


@operator("LRN")
def lrn(
    x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    """Divided by the energy of neighbouring channels."""
    before, channels = (size - 1) // 2, int(x.shape[1])
    square = x * x
    rows = [
        ad.sum(square[:, max(0, c - before) : min(channels, c + size - before)], 1, keepdim=True)
        for c in range(channels)
    ]
    return x / (bias + alpha / size * ad.cat(rows, 1)) ** beta


@operator("Dropout", draws=True)
def dropout(
    x: Tensor,
    ratio: Value = None,
    training_mode: Value = None,
    *,
    seed: int | None = None,
    is_test: int = 1,
    call: NodeCall,
) -> tuple[Tensor, ...]:
    """Elements zeroed at random in training mode, the others scaled; and which were kept."""
    training = training_mode is not None and bool(number(training_mode))
    part = 0.5 if ratio is None else ratio if isinstance(ratio, float) else number(ratio)
    if not training or part == 0:
        mask = ad.ones(x.shape, dtype=ad.bool if call.opset >= 10 else x.dtype)
        return x, mask
    source = None if seed is None else ad.Generator().manual_seed(seed)
    mask = ad.rand(x.shape, dtype=ad.float32, generator=source) >= part
    return ad.where(mask, x / (1 - part), ad.zeros_like(x)), mask
