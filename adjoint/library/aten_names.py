"""Operations that PyTorch's compiled library has under names of its own, made of ours.

`ops.aten` looks here for what is no public function: inner forms that return what their
derivative needs, derivatives of single functions, and forms with other arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.core.dtype import bool_
from adjoint.engine.core.operations.public import PUBLIC
from adjoint.engine.ops.nn.common import in_float32, widen
from adjoint.engine.tensor.tensor import Tensor


def _public(name: str, space: str = "") -> Callable[..., Any]:
    return PUBLIC[space, name].fn


def _functional(name: str) -> Callable[..., Any]:
    return _public(name, "nn.functional")


def sym_size(x: Tensor, dim: int) -> int:
    """The size of a dimension, as programs ask for it."""
    return x.shape[dim]


def sym_stride(x: Tensor, dim: int) -> int:
    """The stride of a dimension, as programs ask for it."""
    return int(x.stride(dim))


def sym_numel(x: Tensor) -> int:
    """The number of elements, as programs ask for it."""
    return x.numel()


def sym_storage_offset(x: Tensor) -> int:
    """Where the elements begin, as programs ask for it."""
    return int(x.storage_offset())


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Layer norm, with the mean and the inverse deviation of each row."""
    dims = list(range(-len(normalized_shape), 0))
    out = _functional("layer_norm")(input, tuple(normalized_shape), weight, bias, eps)
    mean = input.mean(dims, keepdim=True)
    return out, mean, (input.var(dims, correction=0, keepdim=True) + eps).rsqrt()


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int,
    group: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Group norm, with the mean and the inverse deviation of each group."""
    out = _functional("group_norm")(input, group, weight, bias, eps)
    rows = input.reshape(N, group, -1)
    return out, rows.mean(-1), (rows.var(-1, correction=0) + eps).rsqrt()


def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Batch norm, with the mean and the inverse deviation of each channel (none in evaluation)."""
    out = _functional("batch_norm")(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )
    if not training:
        return out, input.new_empty(0), input.new_empty(0)
    dims = [dim for dim in range(input.ndim) if dim != 1]
    return out, input.mean(dims), (input.var(dims, correction=0) + eps).rsqrt()


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Dropout, with the mask of what was kept."""
    if not train:
        return input.clone(), _public("ones_like")(input, dtype=bool_)
    mask = _public("rand_like")(input) >= p
    scale = 0.0 if p == 1 else 1.0 / (1.0 - p)
    return input * mask * scale, mask


def softmax(input: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """Softmax in its inner form."""
    return _functional("softmax")(input.float() if half_to_float else input, dim)


def log_softmax(input: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """Logarithms of softmax in its inner form."""
    return _functional("log_softmax")(input.float() if half_to_float else input, dim)


def to_copy(
    input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool | None = None, non_blocking: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """A copy, of another dtype or on another device."""
    return input.to(dtype=dtype or input.dtype, device=device or input.device, copy=True)


def alias(input: Tensor) -> Tensor:
    """The same elements under another name."""
    return input.view(input.shape)


def nll_loss_forward(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """The loss, with the weight of all targets that count."""
    names = ("none", "mean", "sum")
    loss = _functional("nll_loss")(
        input, target, weight, ignore_index=ignore_index, reduction=names[reduction]
    )
    counted = target != ignore_index
    weights = weight[target * counted] if weight is not None else counted.to(input.dtype)
    total = (weights * counted).sum() if names[reduction] != "none" else input.new_zeros(())
    return loss, total


def threshold_backward(grad_output: Tensor, input: Tensor, threshold: float) -> Tensor:
    """The derivative of relu and threshold."""
    return grad_output * (input > threshold)


@in_float32
def sigmoid_backward(grad_output: Tensor, output: Tensor) -> Tensor:
    """The derivative of sigmoid, from its result."""
    return grad_output * output * (1 - output)


@in_float32
def tanh_backward(grad_output: Tensor, output: Tensor) -> Tensor:
    """The derivative of tanh, from its result."""
    return grad_output * (1 - output * output)


@in_float32
def gelu_backward(grad: Tensor, input: Tensor, *, approximate: str = "none") -> Tensor:
    """The derivative of gelu."""
    if approximate == "tanh":
        scale = math.sqrt(2 / math.pi)
        bent = (scale * (input + 0.044715 * input**3)).tanh()
        slope = scale * (1 + 3 * 0.044715 * input * input)
        return grad * (0.5 * (1 + bent) + 0.5 * input * (1 - bent * bent) * slope)
    below = 0.5 * (1 + (input / math.sqrt(2)).erf())
    return grad * (below + input * (-0.5 * input * input).exp() / math.sqrt(2 * math.pi))


@in_float32
def silu_backward(grad_output: Tensor, input: Tensor) -> Tensor:
    """The derivative of silu."""
    gate = input.sigmoid()
    return grad_output * gate * (1 + input * (1 - gate))


def softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any
) -> Tensor:
    """The derivative of softmax, from its result."""
    grad_output, output = widen(grad_output), widen(output)
    weighed = grad_output * output
    return (weighed - output * weighed.sum(dim, keepdim=True)).to(input_dtype)


def log_softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any
) -> Tensor:
    """The derivative of the logarithms of softmax, from its result."""
    grad_output, output = widen(grad_output), widen(output)
    return (grad_output - output.exp() * grad_output.sum(dim, keepdim=True)).to(input_dtype)


def embedding_dense_backward(
    grad_output: Tensor, indices: Tensor, num_weights: int, padding_idx: int,
    scale_grad_by_freq: bool,
) -> Tensor:  # fmt: skip
    """The derivative of a lookup with respect to its table."""
    if scale_grad_by_freq:
        raise NotImplementedError("aten.embedding_dense_backward: scale_grad_by_freq")
    rows = grad_output.reshape(-1, grad_output.shape[-1])
    flat = indices.reshape(-1)
    if padding_idx >= 0:
        rows = rows * (flat != padding_idx).unsqueeze(-1)
    table = rows.new_zeros(num_weights, rows.shape[-1])
    return table.index_add(0, flat, rows)


def _upsample(mode: str, linear: bool) -> Callable[..., Tensor]:
    def upsample(input: Tensor, output_size: Any, *rest: Any) -> Tensor:
        align = bool(rest[0]) if linear else None
        scales = rest[1:] if linear else rest
        given = next((scale for scale in scales if scale is not None), None)
        if output_size is None and isinstance(given, (tuple, list)):
            return _functional("interpolate")(
                input, scale_factor=tuple(given), mode=mode, align_corners=align
            )
        return _functional("interpolate")(
            input, size=tuple(output_size), mode=mode, align_corners=align
        )

    return upsample


def local_scalar_dense(input: Tensor) -> Any:
    """The one element as a number."""
    return input.item()


def unsafe_view(input: Tensor, size: Sequence[int]) -> Tensor:
    """The elements in another shape."""
    return input.view(tuple(size))


NAMES: dict[str, Callable[..., Any]] = {
    "sym_size": sym_size,
    "sym_stride": sym_stride,
    "sym_numel": sym_numel,
    "sym_storage_offset": sym_storage_offset,
    "native_layer_norm": native_layer_norm,
    "native_group_norm": native_group_norm,
    "native_batch_norm": native_batch_norm,
    "native_dropout": native_dropout,
    "_softmax": softmax,
    "_log_softmax": log_softmax,
    "_softmax_backward_data": softmax_backward_data,
    "_log_softmax_backward_data": log_softmax_backward_data,
    "_to_copy": to_copy,
    "_unsafe_view": unsafe_view,
    "_reshape_alias": lambda input, size, stride: input.as_strided(size, stride),
    "_local_scalar_dense": local_scalar_dense,
    "alias": alias,
    "lift_fresh": alias,
    "lift_fresh_copy": Tensor.clone,
    "nll_loss_forward": nll_loss_forward,
    "threshold_backward": threshold_backward,
    "sigmoid_backward": sigmoid_backward,
    "tanh_backward": tanh_backward,
    "gelu_backward": gelu_backward,
    "silu_backward": silu_backward,
    "embedding_dense_backward": embedding_dense_backward,
    "upsample_nearest1d": _upsample("nearest", linear=False),
    "upsample_nearest2d": _upsample("nearest", linear=False),
    "upsample_nearest3d": _upsample("nearest", linear=False),
    "upsample_linear1d": _upsample("linear", linear=True),
    "upsample_bilinear2d": _upsample("bilinear", linear=True),
    "upsample_bicubic2d": _upsample("bicubic", linear=True),
    "upsample_trilinear3d": _upsample("trilinear", linear=True),
}


def __getattr__(name: str) -> Callable[..., Any]:
    """An operation by PyTorch's name."""
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return NAMES[name]
