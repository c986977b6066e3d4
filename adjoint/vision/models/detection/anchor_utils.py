"""Boxes that detection starts from, laid over the levels of a pyramid."""

from __future__ import annotations

import math
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
        levels = []
        for (rows, columns), (down, across), cell in zip(
            grid_sizes, strides, self.cell_anchors, strict=True
        ):
            y, x = meshgrid(
                arange(rows, device=cell.device) * down,
                arange(columns, device=cell.device) * across,
                indexing="ij",
            )
            shifts = stack([x, y, x, y], -1).reshape(-1, 1, 4)
            levels.append((shifts + cell[None]).reshape(-1, 4))
        return levels

    def forward(self, image_list: ImageList, feature_maps: list[Tensor]) -> list[Tensor]:
        """Of each image, the boxes of all levels."""
        height, width = image_list.tensors.shape[-2:]
        grids = [tuple(level.shape[-2:]) for level in feature_maps]
        self.set_cell_anchors(feature_maps[0].dtype, feature_maps[0].device)
        levels = self.grid_anchors(grids, [(height // h, width // w) for h, w in grids])
        every = cat(levels, 0)
        return [every for _ in image_list.image_sizes]


class DefaultBoxGenerator(nn.Module):
    """Boxes of shares of the image's sides, around every place of each level.

    Args:
        aspect_ratios: of each level, ratios of sides beside that of squares.
        min_ratio, max_ratio: the sides of the first and last level's squares.
        scales: the sides of each level's squares, and one more, instead.
        steps: pixels between the places of each level; by default the image's over the level's.
        clip: no box is larger than the image.

    Example:
        >>> DefaultBoxGenerator([[2], [2, 3]]).num_anchors_per_location()
        [4, 6]
    """

    def __init__(
        self, aspect_ratios: Sequence[Sequence[float]], min_ratio: float = 0.15,
        max_ratio: float = 0.9, scales: list[float] | None = None,
        steps: Sequence[int] | None = None, clip: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if steps is not None and len(aspect_ratios) != len(steps):
            raise ValueError("aspect_ratios and steps should have the same length")
        self.aspect_ratios, self.steps, self.clip = aspect_ratios, steps, clip
        levels = len(aspect_ratios)
        if scales is None and levels > 1:
            wide = (max_ratio - min_ratio) / (levels - 1.0)
            scales = [min_ratio + wide * level for level in range(levels)] + [1.0]
        self.scales = scales or [min_ratio, max_ratio]
        self._wh_pairs = self._generate_wh_pairs(levels)

    def _generate_wh_pairs(
        self, num_outputs: int, dtype: DType = float32, device: Any = "cpu"
    ) -> list[Tensor]:
        """Of each level, widths and heights: two squares, and both ways of each ratio."""
        levels = []
        for level in range(num_outputs):
            side, above = self.scales[level], self.scales[level + 1]
            between = math.sqrt(side * above)
            pairs = [[side, side], [between, between]]
            for ratio in self.aspect_ratios[level]:
                w, h = side * math.sqrt(ratio), side / math.sqrt(ratio)
                pairs += [[w, h], [h, w]]
            levels.append(as_tensor(pairs, dtype=dtype, device=device))
        return levels

    def num_anchors_per_location(self) -> list[int]:
        """Boxes at a place, of each level."""
        return [2 + 2 * len(ratios) for ratios in self.aspect_ratios]

    def _grid_default_boxes(
        self, grid_sizes: Sequence[Sequence[int]], image_size: Sequence[int], dtype: DType = float32
    ) -> Tensor:
        """Middles, widths and heights as shares of the image: (boxes of all levels, 4)."""
        levels = []
        for level, (rows, columns) in enumerate(grid_sizes):
            down, across = float(rows), float(columns)
            if self.steps is not None:
                down, across = (size / self.steps[level] for size in image_size)
            y, x = meshgrid(
                ((arange(rows) + 0.5) / down).to(dtype),
                ((arange(columns) + 0.5) / across).to(dtype),
                indexing="ij",
            )
            pairs = self._wh_pairs[level].to("cpu")
            sides = pairs.clamp(0, 1) if self.clip else pairs
            count = int(sides.shape[0])
            middles = stack([x.reshape(-1), y.reshape(-1)] * count, -1).reshape(-1, 2)
            levels.append(cat([middles, sides.to(dtype).repeat(rows * columns, 1)], 1))
        return cat(levels, 0)

    def forward(self, image_list: ImageList, feature_maps: list[Tensor]) -> list[Tensor]:
        """Of each image, the boxes of all levels in its pixels."""
        height, width = (int(n) for n in image_list.tensors.shape[-2:])
        grids = [(int(level.shape[-2]), int(level.shape[-1])) for level in feature_maps]
        shares = self._grid_default_boxes(grids, (height, width), feature_maps[0].dtype)
        shares = shares.to(feature_maps[0].device)
        size = as_tensor([width, height], device=shares.device)
        middle, half = shares[:, :2], 0.5 * shares[:, 2:]
        every = cat([(middle - half) * size, (middle + half) * size], -1)
        return [every for _ in image_list.image_sizes]

    def extra_repr(self) -> str:
        """Its options."""
        return (
            f"aspect_ratios={self.aspect_ratios}, clip={self.clip}, scales={self.scales}, "
            f"steps={self.steps}"
        )
