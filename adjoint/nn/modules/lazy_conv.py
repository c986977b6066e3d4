"""Convolutions that take their number of input channels from the first input."""

from __future__ import annotations

from typing import Any

from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules import conv
from adjoint.nn.modules.lazy import LazyModuleMixin
from adjoint.nn.parameter import UninitializedParameter


class _LazyConvXdMixin(LazyModuleMixin):
    """Waits for the channels, then makes weight and bias."""

    def _wait(self: Any, out_channels: int, bias: bool, device: Any, dtype: DType | None) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self: Any) -> None:
        """Draw weight and bias anew, once there is a shape."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Take the input's channels."""
        rank = self._rank
        if self.has_uninitialized_params():
            if input.ndim not in (rank + 1, rank + 2):
                raise ShapeError(
                    f"{type(self).__name__}: expected {rank + 1}D (unbatched) or {rank + 2}D "
                    f"(batched) input, but got input of size: {list(input.shape)}"
                )
            self.in_channels = input.shape[-1 - rank]
            if self.in_channels % self.groups:
                raise ValueError(
                    f"{type(self).__name__}: in_channels must be divisible by groups, received "
                    f"{self.in_channels} and {self.groups}"
                )
            ends = (self.out_channels, self.in_channels)
            first, second = reversed(ends) if self.transposed else ends
            with no_grad():
                self.weight.materialize((first, second // self.groups, *self.kernel_size))
                if self.bias is not None:
                    self.bias.materialize((self.out_channels,))
                self.reset_parameters()
        if self.in_channels == 0:  # the shapes came from a state dict
            turned = self.transposed
            self.in_channels = self.weight.shape[0 if turned else 1] * (
                1 if turned else self.groups
            )


class _LazyConv(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype
        )
        self._wait(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            False,
            dilation,
            padding_mode,
            device,
            dtype,
        )
        self._wait(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, conv.Conv1d):
    """A Conv1d whose `in_channels` is that of the first input.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.LazyConv1d(6, 3)
        >>> layer(ad.randn(20, 16, 50)).shape
        adjoint.Size([20, 6, 48])
        >>> layer.in_channels
        16
    """

    cls_to_become = conv.Conv1d


class LazyConv2d(_LazyConv, conv.Conv2d):
    """A Conv2d whose `in_channels` is that of the first input.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.LazyConv2d(8, 3)
        >>> layer(ad.randn(1, 5, 6, 6)).shape
        adjoint.Size([1, 8, 4, 4])
        >>> layer
        Conv2d(5, 8, kernel_size=(3, 3), stride=(1, 1))
    """

    cls_to_become = conv.Conv2d


class LazyConv3d(_LazyConv, conv.Conv3d):
    """A Conv3d whose `in_channels` is that of the first input.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.LazyConv3d(6, 3)
        >>> layer(ad.randn(2, 4, 12, 10, 8)).shape
        adjoint.Size([2, 6, 10, 8, 6])
        >>> layer.in_channels
        4
    """

    cls_to_become = conv.Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, conv.ConvTranspose1d):
    """A ConvTranspose1d whose `in_channels` is that of the first input.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.LazyConvTranspose1d(6, 2, stride=2)
        >>> layer(ad.randn(20, 16, 50)).shape
        adjoint.Size([20, 6, 100])
        >>> layer.in_channels
        16
    """

    cls_to_become = conv.ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, conv.ConvTranspose2d):
    """A ConvTranspose2d whose `in_channels` is that of the first input.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.LazyConvTranspose2d(6, 2, stride=2)
        >>> layer(ad.randn(4, 3, 8, 8)).shape
        adjoint.Size([4, 6, 16, 16])
        >>> layer.in_channels
        3
    """

    cls_to_become = conv.ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, conv.ConvTranspose3d):
    """A ConvTranspose3d whose `in_channels` is that of the first input.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.LazyConvTranspose3d(6, 2, stride=2)
        >>> layer(ad.randn(2, 4, 12, 10, 8)).shape
        adjoint.Size([2, 6, 24, 20, 16])
        >>> layer.in_channels
        4
    """

    cls_to_become = conv.ConvTranspose3d
