"""Boxes that detection starts from, laid over the levels of a pyramid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import nn
from adjoint.engine.backends.array.interop import as_tensor
from adjoint.engine.core.dtype import DType, float32
from adjoint.engine.ops.create.ranges import arange
from adjoint.engine.ops.shape.join import cat, meshgrid, stack
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.models.detection.image_list import ImageList


class AnchorGenerator(nn.Module):
    """Boxes of several sizes and shapes around every place of each level.

    Args:
        sizes: of each level, the square roots of the boxes' areas.
        aspect_ratios: of each level, heights over widths.

    Example:
        >>> AnchorGenerator(((32,),), ((0.5, 1.0, 2.0),)).num_anchors_per_location()
        [3]
    """

    cell_anchors: list[Tensor]

    def __init__(
        self, sizes: Sequence[Any] = ((128, 256, 512),),
        aspect_ratios: Sequence[Any] = ((0.5, 1.0, 2.0),),
    ) -> None:  # fmt: skip
        super().__init__()
        if not isinstance(sizes[0], (list, tuple)):
            sizes = tuple((size,) for size in sizes)
        if not isinstance(aspect_ratios[0], (list, tuple)):
            aspect_ratios = (aspect_ratios,) * len(sizes)
        self.sizes, self.aspect_ratios = sizes, aspect_ratios
        self.cell_anchors = [
            self.generate_anchors(size, ratio)
            for size, ratio in zip(sizes, aspect_ratios, strict=False)
        ]

    def generate_anchors(
        self, scales: Sequence[int], aspect_ratios: Sequence[float], dtype: DType = float32,
        device: Any = "cpu",
    ) -> Tensor:  # fmt: skip
        """Boxes around the origin in whole pixels: (ratios * scales, 4)."""
        sizes = as_tensor(scales, dtype=dtype, device=device)
        tall = as_tensor(aspect_ratios, dtype=dtype, device=device).sqrt()
        w = ((1 / tall)[:, None] * sizes).reshape(-1)
        h = (tall[:, None] * sizes).reshape(-1)
        return (stack([-w, -h, w, h], 1) / 2).round()

    def set_cell_anchors(self, dtype: DType, device: Any) -> None:
        """Move the boxes around the origin to a type and device."""
        self.cell_anchors = [cell.to(device, dtype) for cell in self.cell_anchors]

    def num_anchors_per_location(self) -> list[int]:
        """Boxes at a place, of each level."""
        return [
            len(size) * len(ratio)
            for size, ratio in zip(self.sizes, self.aspect_ratios, strict=False)
        ]

    def grid_anchors(
        self, grid_sizes: Sequence[Sequence[int]], strides: Sequence[Sequence[Any]]
    ) -> list[Tensor]:
        """The boxes of each level: (places down * places across * boxes at a place, 4)."""
        if not len(grid_sizes) == len(strides) == len(self.cell_anchors):
            raise AssertionError(
                f"AnchorGenerator: {len(grid_sizes)} levels but sizes and aspect_ratios of "
                f"{len(self.cell_anchors)}. Give one tuple of sizes and of ratios for each level."
            )
        found = []
        for (rows, columns), (down, across), cell in zip(
            grid_sizes, strides, self.cell_anchors, strict=True
        ):
            y, x = meshgrid(
                arange(rows, device=cell.device) * down,
                arange(columns, device=cell.device) * across,
                indexing="ij",
            )
            shifts = stack([x, y, x, y], -1).reshape(-1, 1, 4)
            found.append((shifts + cell[None]).reshape(-1, 4))
        return found

    def forward(self, image_list: ImageList, feature_maps: list[Tensor]) -> list[Tensor]:
        """Of each image, the boxes of all levels."""
        height, width = image_list.tensors.shape[-2:]
        grids = [tuple(level.shape[-2:]) for level in feature_maps]
        self.set_cell_anchors(feature_maps[0].dtype, feature_maps[0].device)
        levels = self.grid_anchors(grids, [(height // h, width // w) for h, w in grids])
        every = cat(levels, 0)
        return [every for _ in image_list.image_sizes]
