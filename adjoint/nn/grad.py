"""Gradients of convolutions as functions of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine.autodiff.tape.reverse import grad as _grad
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F


def _input(conv: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def gradient(
        input_size: Any, weight: Tensor, grad_output: Tensor,
        stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        x = zeros(*input_size, dtype=weight.dtype, device=weight.device).requires_grad_()
        out = conv(x, weight.detach(), None, stride, padding, dilation, groups)
        return _grad(out, x, grad_output)[0]

    gradient.__name__ = f"{conv.__name__}_input"
    gradient.__doc__ = f"The gradient of {conv.__name__} with respect to its input."
    return gradient


def _weight(conv: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def gradient(
        input: Tensor, weight_size: Any, grad_output: Tensor,
        stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        w = zeros(*weight_size, dtype=input.dtype, device=input.device).requires_grad_()
        out = conv(input.detach(), w, None, stride, padding, dilation, groups)
        return _grad(out, w, grad_output)[0]

    gradient.__name__ = f"{conv.__name__}_weight"
    gradient.__doc__ = f"The gradient of {conv.__name__} with respect to its weight."
    return gradient


conv1d_input, conv1d_weight = _input(F.conv1d), _weight(F.conv1d)
conv2d_input, conv2d_weight = _input(F.conv2d), _weight(F.conv2d)
conv3d_input, conv3d_weight = _input(F.conv3d), _weight(F.conv3d)
