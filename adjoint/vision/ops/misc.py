"""Blocks that vision models are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint import nn
from adjoint.engine.ops.create.creation import ones, zeros
from adjoint.engine.tensor.tensor import Tensor

__all__ = ["MLP", "Conv2dNormActivation", "ConvNormActivation", "FrozenBatchNorm2d", "Permute",
           "SqueezeExcitation"]  # fmt: skip


class FrozenBatchNorm2d(nn.Module):
    """Batch normalisation with statistics and weights that are fixed.

    Args:
        num_features: channels.
        eps: added to the variance.
    """

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", ones(num_features))
        self.register_buffer("bias", zeros(num_features))
        self.register_buffer("running_mean", zeros(num_features))
        self.register_buffer("running_var", ones(num_features))

    def forward(self, x: Tensor) -> Tensor:
        """Scale and shift each channel."""
        scale = self.weight * (self.running_var + self.eps).rsqrt()  # (C,)
        shift = self.bias - self.running_mean * scale
        return x * scale.reshape(1, -1, 1, 1) + shift.reshape(1, -1, 1, 1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.weight.shape[0]}, eps={self.eps})"


class ConvNormActivation(nn.Sequential):
    """A convolution, a normalisation and an activation.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: of the convolution.
        stride: of the convolution.
        padding: of the convolution; keeps the size unless given.
        groups: of the convolution.
        norm_layer: makes the normalisation; None for none.
        activation_layer: makes the activation; None for none.
        dilation: of the convolution.
        inplace: passed to the activation.
        bias: of the convolution; by default only without normalisation.
        conv_layer: the convolution's class.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any = 3,
        stride: Any = 1,
        padding: Any = None,
        groups: int = 1,
        norm_layer: Callable[..., nn.Module] | None = nn.BatchNorm2d,
        activation_layer: Callable[..., nn.Module] | None = nn.ReLU,
        dilation: Any = 1,
        inplace: bool | None = True,
        bias: bool | None = None,
        conv_layer: Callable[..., nn.Module] = nn.Conv2d,
    ) -> None:
        if padding is None:
            if isinstance(kernel_size, int) and isinstance(dilation, int):
                padding = (kernel_size - 1) // 2 * dilation
            else:
                kernel = (kernel_size,) * 2 if isinstance(kernel_size, int) else kernel_size
                spread = (dilation,) * len(kernel) if isinstance(dilation, int) else dilation
                padding = tuple((k - 1) // 2 * d for k, d in zip(kernel, spread, strict=True))
        if bias is None:
            bias = norm_layer is None
        layers: list[nn.Module] = [
            conv_layer(in_channels, out_channels, kernel_size, stride, padding,
                       dilation=dilation, groups=groups, bias=bias)
        ]  # fmt: skip
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            options = {} if inplace is None else {"inplace": inplace}
            layers.append(activation_layer(**options))
        super().__init__(*layers)
        self.out_channels = out_channels


class Conv2dNormActivation(ConvNormActivation):
    """The same for images."""


class Conv3dNormActivation(ConvNormActivation):
    """The same for volumes."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any = 3, stride: Any = 1,
        padding: Any = None, groups: int = 1,
        norm_layer: Callable[..., nn.Module] | None = nn.BatchNorm3d,
        activation_layer: Callable[..., nn.Module] | None = nn.ReLU,
        dilation: Any = 1, inplace: bool | None = True, bias: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, groups, norm_layer,
            activation_layer, dilation, inplace, bias, nn.Conv3d,
        )  # fmt: skip


class SqueezeExcitation(nn.Module):
    """Channels weighted by what the whole image says of them.

    Args:
        input_channels: channels.
        squeeze_channels: channels in between.
        activation: makes the activation in between.
        scale_activation: makes that of the weights.
    """

    def __init__(
        self,
        input_channels: int,
        squeeze_channels: int,
        activation: Callable[..., nn.Module] = nn.ReLU,
        scale_activation: Callable[..., nn.Module] = nn.Sigmoid,
    ) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def forward(self, input: Tensor) -> Any:
        """Weight the channels."""
        scale = self.activation(self.fc1(self.avgpool(input)))
        return self.scale_activation(self.fc2(scale)) * input


class MLP(nn.Sequential):
    """Linear layers with activations and dropout.

    Args:
        in_channels: of the input.
        hidden_channels: of each layer.
        norm_layer: makes a normalisation after each but the last; None for none.
        activation_layer: makes the activations.
        inplace: passed to activations and dropout.
        bias: of the linear layers.
        dropout: the share dropped.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: Sequence[int],
        norm_layer: Callable[..., nn.Module] | None = None,
        activation_layer: Callable[..., nn.Module] = nn.ReLU,
        inplace: bool | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        options = {} if inplace is None else {"inplace": inplace}
        layers: list[nn.Module] = []
        width = in_channels
        for hidden in hidden_channels[:-1]:
            layers.append(nn.Linear(width, hidden, bias=bias))
            if norm_layer is not None:
                layers.append(norm_layer(hidden))
            layers += [activation_layer(**options), nn.Dropout(dropout, **options)]
            width = hidden
        layers += [nn.Linear(width, hidden_channels[-1], bias=bias), nn.Dropout(dropout, **options)]
        super().__init__(*layers)


class Permute(nn.Module):
    """Dimensions in another order."""

    def __init__(self, dims: list[int]) -> None:
        super().__init__()
        self.dims = dims

    def forward(self, x: Tensor) -> Tensor:
        """Reorder."""
        return x.permute(self.dims)
