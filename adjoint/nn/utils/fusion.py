"""Folding a batch norm in evaluation mode into the layer before it."""

from __future__ import annotations

import copy
from typing import Any

from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.parameter import Parameter


def _check_eval(*modules: Any) -> None:
    if any(module.training for module in modules):
        raise AssertionError("Fusion only for eval!")
    if modules[1].running_mean is None or modules[1].running_var is None:
        raise AssertionError("Fusion needs a batch norm with running statistics")


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """One convolution that does what a convolution and then a batch norm do.

    Args:
        conv: the convolution, in evaluation mode.
        bn: the batch norm after it, in evaluation mode.
        transpose: whether the convolution is a transposed one.
    """
    _check_eval(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    return fused


def _scale_and_shift(
    bias: Tensor | None, mean: Tensor, var: Tensor, eps: float, gain: Any, shift: Any
) -> tuple[Tensor, Tensor]:
    """The factor a batch norm multiplies each channel by, and the bias it amounts to."""
    scale = (var + eps).rsqrt()
    if gain is not None:
        scale = scale * gain
    centred = -mean if bias is None else bias - mean
    return scale, centred * scale if shift is None else centred * scale + shift


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the fused convolution."""
    scale, bias = _scale_and_shift(conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    weight = (conv_w * scale.reshape(shape)).to(conv_w.dtype)
    wanted = conv_w.requires_grad
    return Parameter(weight, wanted), Parameter(
        bias.to(conv_w.dtype), conv_b is not None and conv_b.requires_grad
    )


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """One linear layer that does what a linear layer and then a batch norm do."""
    _check_eval(linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the fused linear layer."""
    scale, bias = _scale_and_shift(linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    weight = (linear_w * scale.unsqueeze(-1)).to(linear_w.dtype)
    wanted = linear_w.requires_grad
    return Parameter(weight, wanted), Parameter(
        bias.to(linear_w.dtype), linear_b is not None and linear_b.requires_grad
    )
