"""Layers of detection networks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from adjoint import nn
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.vision.ops.misc import Conv2dNormActivation


class ExtraFPNBlock(nn.Module):
    """Further levels on top of a pyramid."""

    def forward(
        self, results: list[Tensor], x: list[Tensor], names: list[str]
    ) -> tuple[list[Tensor], list[str]]:
        """The levels and their names with those added."""
        raise NotImplementedError


class LastLevelMaxPool(ExtraFPNBlock):
    """Every other pixel of the last level, as one more."""

    def forward(
        self, results: list[Tensor], x: list[Tensor], names: list[str]
    ) -> tuple[list[Tensor], list[str]]:
        pooled = F.max_pool2d(results[-1], kernel_size=1, stride=2, padding=0)
        return [*results, pooled], [*names, "pool"]


class LastLevelP6P7(ExtraFPNBlock):
    """Two more levels by convolutions."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.p6 = nn.Conv2d(in_channels, out_channels, 3, 2, 1)
        self.p7 = nn.Conv2d(out_channels, out_channels, 3, 2, 1)
        for module in (self.p6, self.p7):
            nn.init.kaiming_uniform_(module.weight, a=1)
            nn.init.zeros_(module.bias)
        self.use_P5 = in_channels == out_channels

    def forward(
        self, results: list[Tensor], x: list[Tensor], names: list[str]
    ) -> tuple[list[Tensor], list[str]]:
        sixth = self.p6(results[-1] if self.use_P5 else x[-1])
        return [*results, sixth, self.p7(F.relu(sixth))], [*names, "p6", "p7"]


class FeaturePyramidNetwork(nn.Module):
    """Levels of a network brought to one width, each with what the coarser ones know.

    Args:
        in_channels_list: the widths of the levels.
        out_channels: the width they get.
        extra_blocks: further levels on top.
        norm_layer: makes normalisations; None for none.
    """

    def __init__(
        self,
        in_channels_list: list[int],
        out_channels: int,
        extra_blocks: ExtraFPNBlock | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self.inner_blocks, self.layer_blocks = nn.ModuleList(), nn.ModuleList()
        for width in in_channels_list:
            if width == 0:
                raise ValueError("in_channels=0 is currently not supported")
            options: dict[str, Any] = {"norm_layer": norm_layer, "activation_layer": None}
            self.inner_blocks.append(
                Conv2dNormActivation(width, out_channels, 1, padding=0, **options)
            )
            self.layer_blocks.append(Conv2dNormActivation(out_channels, out_channels, 3, **options))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_uniform_(module.weight, a=1)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        self.extra_blocks = extra_blocks

    def forward(self, x: dict[str, Tensor]) -> dict[str, Tensor]:
        names, levels = list(x), list(x.values())
        above = self.inner_blocks[-1](levels[-1])
        results = [self.layer_blocks[-1](above)]
        for at in range(len(levels) - 2, -1, -1):
            here = self.inner_blocks[at](levels[at])
            above = here + F.interpolate(above, size=here.shape[-2:], mode="nearest")
            results.insert(0, self.layer_blocks[at](above))
        if self.extra_blocks is not None:
            results, names = self.extra_blocks(results, levels, names)
        return OrderedDict(zip(names, results, strict=True))


def drop_block(
    input: Tensor, p: float, block_size: int, inplace: bool, eps: float, training: bool, dims: int
) -> Tensor:
    """Blocks of each channel zeroed at random, the rest scaled up (Ghiasi et al., 2018)."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"drop probability has to be between 0 and 1, but got {p}.")
    if input.ndim != dims + 2:
        raise ShapeValueError(
            f"input should be {dims + 2} dimensional. Got {input.ndim} dimensions."
        )
    if not training or p == 0.0:
        return input
    sides = [int(n) for n in input.shape[2:]]
    block = min(block_size, *sides)
    rate = p / block**dims
    inner = []
    for side in sides:
        rate *= side / (side - block + 1)
        inner.append(side - block + 1)
    noise = input.new_empty((*input.shape[:2], *inner)).bernoulli_(rate)
    noise = F.pad(noise, [block // 2] * (2 * dims), value=0)
    pool = F.max_pool2d if dims == 2 else F.max_pool3d
    grown = pool(noise, stride=[1] * dims, kernel_size=[block] * dims, padding=block // 2)
    keep = 1 - grown[tuple(slice(None) for _ in range(2)) + tuple(slice(0, n) for n in sides)]
    scale = keep.numel() / (eps + keep.sum())
    return input.mul_(keep).mul_(scale) if inplace else input * keep * scale


def drop_block2d(
    input: Tensor, p: float, block_size: int, inplace: bool = False, eps: float = 1e-06,
    training: bool = True,
) -> Tensor:  # fmt: skip
    """`drop_block` of images (N, C, H, W)."""
    return drop_block(input, p, block_size, inplace, eps, training, 2)


def drop_block3d(
    input: Tensor, p: float, block_size: int, inplace: bool = False, eps: float = 1e-06,
    training: bool = True,
) -> Tensor:  # fmt: skip
    """`drop_block` of volumes (N, C, D, H, W)."""
    return drop_block(input, p, block_size, inplace, eps, training, 3)


class DropBlock2d(nn.Module):
    """`drop_block2d` as a layer."""

    dims = 2

    def __init__(
        self, p: float, block_size: int, inplace: bool = False, eps: float = 1e-06
    ) -> None:
        super().__init__()
        self.p, self.block_size, self.inplace, self.eps = p, block_size, inplace, eps

    def forward(self, input: Tensor) -> Tensor:
        return drop_block(
            input, self.p, self.block_size, self.inplace, self.eps, self.training, self.dims
        )


class DropBlock3d(DropBlock2d):
    """`drop_block3d` as a layer."""

    dims = 3
