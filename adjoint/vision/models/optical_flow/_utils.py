"""Places of pixels, images read between them, and flows made finer."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.dtype import float32
from adjoint.engine.ops.create.ranges import arange
from adjoint.engine.ops.shape.join import cat, meshgrid, stack
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F


def grid_sample(
    img: Tensor, absolute_grid: Tensor, mode: str = "bilinear", align_corners: bool | None = None
) -> Tensor:
    """`F.grid_sample` at places counted in pixels."""
    height, width = img.shape[-2:]
    across, down = absolute_grid.split([1, 1], dim=-1)
    across = 2 * across / (width - 1) - 1
    if height > 1:
        down = 2 * down / (height - 1) - 1
    return F.grid_sample(img, cat([across, down], -1), mode=mode, align_corners=align_corners)


def make_coords_grid(batch_size: int, h: int, w: int, device: Any = "cpu") -> Tensor:
    """The place of each pixel, (B, 2, h, w): across, then down."""
    down, across = meshgrid(arange(h, device=device), arange(w, device=device), indexing="ij")
    return stack([across, down], 0).to(float32)[None].repeat(batch_size, 1, 1, 1)


def upsample_flow(flow: Tensor, up_mask: Tensor | None = None, factor: int = 8) -> Tensor:
    """A flow at `factor` times the size: interpolated, or weighed from nine neighbours."""
    batch, channels, height, width = flow.shape
    size = (height * factor, width * factor)
    if up_mask is None:
        return factor * F.interpolate(flow, size=size, mode="bilinear", align_corners=True)
    weights = up_mask.view(batch, 1, 9, factor, factor, height, width).softmax(2)
    around = F.unfold(factor * flow, kernel_size=3, padding=1)
    finer = (weights * around.view(batch, channels, 9, 1, 1, height, width)).sum(2)
    return finer.permute(0, 1, 4, 2, 5, 3).reshape(batch, channels, *size)
