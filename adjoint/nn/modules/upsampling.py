"""Resizing layers."""

from __future__ import annotations

from typing import Any

from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.module import Module


class Upsample(Module):
    """`functional.interpolate` as a layer.

    Args:
        size: the wanted size; or
        scale_factor: how many times the input's.
        mode: nearest, nearest-exact, linear, bilinear, bicubic, trilinear or area.
        align_corners: whether the corner pixels' centres, not their edges, stay in place.
        recompute_scale_factor: place pixels by the ratio of sizes instead of by the factor.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Upsample(scale_factor=2, mode="bilinear")(ad.randn(1, 3, 4, 5)).shape
        adjoint.Size([1, 3, 8, 10])
    """

    __constants__ = [
        "size",
        "scale_factor",
        "mode",
        "align_corners",
        "name",
        "recompute_scale_factor",
    ]

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        self.scale_factor: Any = None
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        elif scale_factor:
            self.scale_factor = float(scale_factor)
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            text = f"scale_factor={self.scale_factor!r}"
        else:
            text = f"size={self.size!r}"
        return f"{text}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """An image enlarged by repeating pixels.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.UpsamplingNearest2d(scale_factor=2)(ad.ones(1, 1, 1, 1))
        tensor([[[[1., 1.],
                  [1., 1.]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """An image enlarged bilinearly, its corner pixels staying in place.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.UpsamplingBilinear2d(scale_factor=2)(ad.ones(1, 1, 2, 2)).shape
        adjoint.Size([1, 1, 4, 4])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
