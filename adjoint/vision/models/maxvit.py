"""MaxViT (Tu et al., 2022): attention within windows, then across them."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from adjoint import nn
from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.ops.create.creation import empty
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.models.registry import network, weights_in
from adjoint.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation
from adjoint.vision.ops.stochastic_depth import StochasticDepth

Layer = Callable[..., nn.Module]


def _halved(size: tuple[int, int]) -> tuple[int, int]:
    """The size after a step of two."""
    return (size[0] - 1) // 2 + 1, (size[1] - 1) // 2 + 1


class MBConv(nn.Module):
    """A wide filter of each channel, squeezed and excited, beside a shortcut."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        expansion_ratio: float,
        squeeze_ratio: float,
        stride: int,
        activation_layer: Layer,
        norm_layer: Layer,
        p_stochastic_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        beside: list[nn.Module] = [nn.AvgPool2d(3, stride, 1)] if stride == 2 else []
        if stride != 1 or in_channels != out_channels:
            beside.append(nn.Conv2d(in_channels, out_channels, 1, 1, bias=True))
        self.proj = nn.Sequential(*beside) if beside else nn.Identity()
        middle, squeezed = int(out_channels * expansion_ratio), int(out_channels * squeeze_ratio)
        drop = p_stochastic_dropout
        self.stochastic_depth = StochasticDepth(drop, "row") if drop else nn.Identity()
        conv = partial(
            Conv2dNormActivation, activation_layer=activation_layer, norm_layer=norm_layer,
            inplace=None,
        )  # fmt: skip
        self.layers = nn.Sequential(
            OrderedDict(
                pre_norm=norm_layer(in_channels),
                conv_a=conv(in_channels, middle, 1, 1, 0),
                conv_b=conv(middle, middle, 3, stride, 1, groups=middle),
                squeeze_excitation=SqueezeExcitation(middle, squeezed, activation=nn.SiLU),
                conv_c=nn.Conv2d(middle, out_channels, 1, bias=True),
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x) + self.stochastic_depth(self.layers(x))


def _index_of_distances(size: int) -> Any:
    """The row of a table of distances for each pair of places in a square."""
    places = np.stack(np.meshgrid(np.arange(size), np.arange(size), indexing="ij")).reshape(2, -1)
    down, across = places[:, :, None] - places[:, None, :] + size - 1
    return down * (2 * size - 1) + across


class RelativePositionalMultiHeadAttention(nn.Module):
    """Attention of (B, groups, places, C) within groups, with a bias for each distance."""

    def __init__(self, feat_dim: int, head_dim: int, max_seq_len: int) -> None:
        super().__init__()
        if feat_dim % head_dim != 0:
            raise ValueError(f"feat_dim: {feat_dim} must be divisible by head_dim: {head_dim}")
        self.n_heads, self.head_dim = feat_dim // head_dim, head_dim
        self.size, self.max_seq_len = int(math.sqrt(max_seq_len)), max_seq_len
        self.to_qkv = nn.Linear(feat_dim, 3 * feat_dim)
        self.scale_factor = feat_dim**-0.5
        self.merge = nn.Linear(feat_dim, feat_dim)
        distances = (2 * self.size - 1) ** 2
        self.relative_position_bias_table = nn.Parameter(empty(distances, self.n_heads))
        index = from_numpy(_index_of_distances(self.size))
        self.register_buffer("relative_position_index", index)
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def get_relative_positional_bias(self) -> Tensor:
        """(1, heads, places, places)."""
        rows = self.relative_position_bias_table[self.relative_position_index.view(-1)]
        bias = rows.view(self.max_seq_len, self.max_seq_len, -1)
        return bias.permute(2, 0, 1).contiguous().unsqueeze(0)

    def forward(self, x: Tensor) -> Tensor:
        batch, groups, places, width = x.shape
        qkv = self.to_qkv(x).reshape(batch, groups, places, 3, self.n_heads, self.head_dim)
        q, k, v = qkv.permute(3, 0, 1, 4, 2, 5).unbind(0)  # (B, groups, heads, places, C)
        scores = q @ (k * self.scale_factor).transpose(-2, -1)
        weights = (scores + self.get_relative_positional_bias()).softmax(-1)
        out = (weights @ v).permute(0, 1, 3, 2, 4).reshape(batch, groups, places, width)
        return self.merge(out)


class SwapAxes(nn.Module):
    """Two dimensions in each other's place."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.a, self.b = a, b

    def forward(self, x: Tensor) -> Tensor:
        return x.swapaxes(self.a, self.b)


class WindowPartition(nn.Module):
    """Squares of p by p: (B, C, H, W) -> (B, squares, p * p, C)."""

    def forward(self, x: Tensor, p: int) -> Tensor:
        batch, channels, height, width = x.shape
        x = x.reshape(batch, channels, height // p, p, width // p, p).permute(0, 2, 4, 3, 5, 1)
        return x.reshape(batch, (height // p) * (width // p), p * p, channels)


class WindowDepartition(nn.Module):
    """Squares put together again: (B, squares, p * p, C) -> (B, C, H, W)."""

    def forward(self, x: Tensor, p: int, h_partitions: int, w_partitions: int) -> Tensor:
        batch, _, _, channels = x.shape
        x = x.reshape(batch, h_partitions, w_partitions, p, p, channels)
        x = x.permute(0, 5, 1, 3, 2, 4)
        return x.reshape(batch, channels, h_partitions * p, w_partitions * p)


class PartitionAttentionLayer(nn.Module):
    """Attention within squares ("window"), or among places that lie alike in them ("grid")."""

    def __init__(
        self,
        in_channels: int,
        head_dim: int,
        partition_size: int,
        partition_type: str,
        grid_size: tuple[int, int],
        mlp_ratio: int,
        activation_layer: Layer,
        norm_layer: Layer,
        attention_dropout: float,
        mlp_dropout: float,
        p_stochastic_dropout: float,
    ) -> None:
        super().__init__()
        if partition_type not in ("grid", "window"):
            raise ValueError("partition_type must be either 'grid' or 'window'")
        self.n_heads, self.head_dim = in_channels // head_dim, head_dim
        self.n_partitions = grid_size[0] // partition_size
        self.partition_type, self.grid_size = partition_type, grid_size
        grid = partition_type == "grid"
        sides = (partition_size, self.n_partitions)
        self.p, self.g = reversed(sides) if grid else sides
        self.partition_op, self.departition_op = WindowPartition(), WindowDepartition()
        self.partition_swap = SwapAxes(-2, -3) if grid else nn.Identity()
        self.departition_swap = SwapAxes(-2, -3) if grid else nn.Identity()
        self.attn_layer = nn.Sequential(
            norm_layer(in_channels),
            RelativePositionalMultiHeadAttention(in_channels, head_dim, partition_size**2),
            nn.Dropout(attention_dropout),
        )
        self.mlp_layer = nn.Sequential(
            nn.LayerNorm(in_channels), nn.Linear(in_channels, in_channels * mlp_ratio),
            activation_layer(), nn.Linear(in_channels * mlp_ratio, in_channels),
            nn.Dropout(mlp_dropout),
        )  # fmt: skip
        self.stochastic_dropout = StochasticDepth(p_stochastic_dropout, "row")

    def forward(self, x: Tensor) -> Tensor:
        if self.grid_size[0] % self.p or self.grid_size[1] % self.p:
            raise ValueError(
                f"Grid size must be divisible by partition size. Got grid size of "
                f"{self.grid_size} and partition size of {self.p}"
            )
        x = self.partition_swap(self.partition_op(x, self.p))
        x = x + self.stochastic_dropout(self.attn_layer(x))
        x = x + self.stochastic_dropout(self.mlp_layer(x))
        rows, columns = self.grid_size[0] // self.p, self.grid_size[1] // self.p
        return self.departition_op(self.departition_swap(x), self.p, rows, columns)


class MaxVitLayer(nn.Module):
    """A filter, attention within windows, attention across them."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        squeeze_ratio: float,
        expansion_ratio: float,
        stride: int,
        norm_layer: Layer,
        activation_layer: Layer,
        head_dim: int,
        mlp_ratio: int,
        mlp_dropout: float,
        attention_dropout: float,
        p_stochastic_dropout: float,
        partition_size: int,
        grid_size: tuple[int, int],
    ) -> None:
        super().__init__()
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        layers["MBconv"] = MBConv(
            in_channels, out_channels, expansion_ratio, squeeze_ratio, stride, activation_layer,
            norm_layer, p_stochastic_dropout,
        )  # fmt: skip
        for kind in ("window", "grid"):
            layers[f"{kind}_attention"] = PartitionAttentionLayer(
                out_channels, head_dim, partition_size, kind, grid_size, mlp_ratio,
                activation_layer, nn.LayerNorm, attention_dropout, mlp_dropout,
                p_stochastic_dropout,
            )  # fmt: skip
        self.layers = nn.Sequential(layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class MaxVitBlock(nn.Module):
    """Layers, of which the first halves the size."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        squeeze_ratio: float,
        expansion_ratio: float,
        norm_layer: Layer,
        activation_layer: Layer,
        head_dim: int,
        mlp_ratio: int,
        mlp_dropout: float,
        attention_dropout: float,
        partition_size: int,
        input_grid_size: tuple[int, int],
        n_layers: int,
        p_stochastic: Sequence[float],
    ) -> None:
        super().__init__()
        if len(p_stochastic) != n_layers:
            raise ValueError(
                f"p_stochastic must have length n_layers={n_layers}, got {p_stochastic=}."
            )
        self.grid_size = _halved(input_grid_size)
        self.layers = nn.ModuleList(
            MaxVitLayer(
                out_channels if index else in_channels, out_channels, squeeze_ratio,
                expansion_ratio, 1 if index else 2, norm_layer, activation_layer, head_dim,
                mlp_ratio, mlp_dropout, attention_dropout, drop, partition_size, self.grid_size,
            )
            for index, drop in enumerate(p_stochastic)
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class MaxVit(nn.Module):
    """Stages of such blocks: (B, 3, H, W) -> (B, num_classes).

    Args:
        input_size: height and width of the images.
        stem_channels: the first width.
        partition_size: side of a window.
        block_channels: width of each block.
        block_layers: layers of each block.
        head_dim: width of a head.
        stochastic_depth_prob: how often the last layer is left out.
        norm_layer: makes the normalisations of filters.
        activation_layer: makes the activations.
        squeeze_ratio: of squeezing.
        expansion_ratio: how much wider a filter is.
        mlp_ratio: how much wider a small network is.
        mlp_dropout: of it.
        attention_dropout: of attention.
        num_classes: of the answer.
    """

    def __init__(
        self,
        input_size: tuple[int, int],
        stem_channels: int,
        partition_size: int,
        block_channels: Sequence[int],
        block_layers: Sequence[int],
        head_dim: int,
        stochastic_depth_prob: float,
        norm_layer: Layer | None = None,
        activation_layer: Layer = nn.GELU,
        squeeze_ratio: float = 0.25,
        expansion_ratio: float = 4,
        mlp_ratio: int = 4,
        mlp_dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
    ) -> None:
        super().__init__()
        norm = norm_layer or partial(nn.BatchNorm2d, eps=1e-3, momentum=0.01)
        size = _halved(input_size)
        _check_sizes(size, len(block_channels), partition_size)
        self.stem = nn.Sequential(
            Conv2dNormActivation(
                3, stem_channels, 3, 2, norm_layer=norm, activation_layer=activation_layer,
                bias=False, inplace=None,
            ),
            Conv2dNormActivation(
                stem_channels, stem_channels, 3, 1, norm_layer=None, activation_layer=None,
                bias=True,
            ),
        )  # fmt: skip
        self.partition_size = partition_size
        self.blocks = nn.ModuleList()
        drops = np.linspace(0, stochastic_depth_prob, sum(block_layers)).tolist()
        before = [stem_channels, *block_channels[:-1]]
        for into, out, count in zip(before, block_channels, block_layers, strict=True):
            block = MaxVitBlock(
                into, out, squeeze_ratio, expansion_ratio, norm, activation_layer, head_dim,
                mlp_ratio, mlp_dropout, attention_dropout, partition_size, size, count,
                drops[:count],
            )  # fmt: skip
            self.blocks.append(block)
            size, drops = block.grid_size, drops[count:]
        last = block_channels[-1]
        self.classifier = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(last), nn.Linear(last, last),
            nn.Tanh(), nn.Linear(last, num_classes, bias=False),
        )  # fmt: skip
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.classifier(x)


def _check_sizes(size: tuple[int, int], blocks: int, partition_size: int) -> None:
    for index in range(blocks):
        size = _halved(size)
        if size[0] % partition_size or size[1] % partition_size:
            raise ValueError(
                f"Input size {size} of block {index} is not divisible by partition size "
                f"{partition_size}. Consider changing the partition size or the input size."
            )


@network
def maxvit_t(**options: Any) -> MaxVit:
    """MaxViT-T: 30,919,624 parameters."""
    given = {"input_size": (224, 224), "partition_size": 7, **options}
    return MaxVit(
        stem_channels=64, block_channels=[64, 128, 256, 512], block_layers=[2, 2, 5, 2],
        head_dim=32, stochastic_depth_prob=0.2, **given,
    )  # fmt: skip


__getattr__ = weights_in(__name__)
