"""Layers that trade channels for pixels."""

from __future__ import annotations

from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.module import Module


class PixelShuffle(Module):
    """Channels laid out as pixels: (*, C r^2, H, W) -> (*, C, H r, W r).

    Example:
        >>> import adjoint as ad
        >>> ad.nn.PixelShuffle(3)(ad.randn(1, 9, 4, 4)).shape
        adjoint.Size([1, 1, 12, 12])
    """

    __constants__ = ["upscale_factor"]

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """The inverse of `PixelShuffle`: (*, C, H r, W r) -> (*, C r^2, H, W).

    Example:
        >>> import adjoint as ad
        >>> ad.nn.PixelUnshuffle(3)(ad.randn(1, 1, 12, 12)).shape
        adjoint.Size([1, 9, 4, 4])
    """

    __constants__ = ["downscale_factor"]

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"
