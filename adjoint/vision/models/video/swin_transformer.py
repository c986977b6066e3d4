"""Video Swin Transformer (Liu et al., 2021): attention within windows of time and space."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from adjoint import nn
from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.tensor.tensor import Tensor
from adjoint.fx import wrap
from adjoint.nn import functional as F
from adjoint.vision.models.registry import network, weights_in
from adjoint.vision.models.swin_transformer import (
    PatchMerging,
    SwinTransformerBlock,
    mask_between_regions,
)

for _name in ("_fitting", "_relative_position_bias", "shifted_window_attention_3d", "_pad_to"):
    wrap(_name)


def _fitting(
    size: Sequence[int], window: Sequence[int], shift: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Windows no larger than what there is; what is one window is not shifted."""
    whole = [full <= wide for full, wide in zip(size, window, strict=True)]
    windows = [full if one else wide for one, full, wide in zip(whole, size, window, strict=True)]
    return windows, [0 if one else step for one, step in zip(whole, shift, strict=True)]


def _relative_position_bias(table: Tensor, index: Tensor, window_size: Sequence[int]) -> Tensor:
    size = math.prod(window_size)
    bias = table[index[:size, :size].flatten()].view(size, size, -1)
    return bias.permute(2, 0, 1).contiguous().unsqueeze(0)  # (1, heads, size, size)


def _pad_to(x: Tensor, multiple: Sequence[int], last: int) -> Tensor:
    """Zeros behind time, height and width, up to multiples; `last` dimensions follow them."""
    sizes = x.shape[-3 - last : x.ndim - last]
    missing = [-size % unit for size, unit in zip(sizes, multiple, strict=True)]
    edges = [edge for count in reversed(missing) for edge in (0, count)]
    return F.pad(x, (*[0, 0] * last, *edges))


def shifted_window_attention_3d(
    input: Tensor,
    qkv_weight: Tensor,
    proj_weight: Tensor,
    relative_position_bias: Tensor,
    window_size: Sequence[int],
    num_heads: int,
    shift_size: Sequence[int],
    attention_dropout: float = 0.0,
    dropout: float = 0.0,
    qkv_bias: Tensor | None = None,
    proj_bias: Tensor | None = None,
    training: bool = True,
) -> Tensor:
    """Attention of (B, T, H, W, C) within windows, which a shift moves; one call to `fx`."""
    batch, times, height, width, channels = input.shape
    x = _pad_to(input, window_size, last=1)
    full = list(x.shape[1:4])
    if any(shift_size):
        x = x.roll([-step for step in shift_size], (1, 2, 3))
    (one, two, three), (deep, high, wide) = (
        [size // window for size, window in zip(full, window_size, strict=True)],
        window_size,
    )
    count, size = one * two * three, deep * high * wide
    x = x.view(batch, one, deep, two, high, three, wide, channels)
    x = x.permute(0, 1, 3, 5, 2, 4, 6, 7).reshape(batch * count, size, channels)
    qkv = F.linear(x, qkv_weight, qkv_bias).reshape(x.shape[0], size, 3, num_heads, -1)
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1) + relative_position_bias
    if any(shift_size):
        mask = mask_between_regions(full, window_size, shift_size).to(x)
        scores = scores.view(batch, count, num_heads, size, size)
        scores = (scores + mask[None, :, None]).view(-1, num_heads, size, size)
    weights = F.dropout(scores.softmax(-1), attention_dropout, training)
    x = (weights @ v).transpose(1, 2).reshape(x.shape[0], size, channels)
    x = F.dropout(F.linear(x, proj_weight, proj_bias), dropout, training)
    x = x.view(batch, one, two, three, deep, high, wide, channels)
    x = x.permute(0, 1, 4, 2, 5, 3, 6, 7).reshape(batch, *full, channels)
    if any(shift_size):
        x = x.roll(list(shift_size), (1, 2, 3))
    return x[:, :times, :height, :width, :].contiguous()


class ShiftedWindowAttention3d(nn.Module):
    """Attention within windows, every other time shifted, with a bias for each distance."""

    def __init__(
        self,
        dim: int,
        window_size: Sequence[int],
        shift_size: Sequence[int],
        num_heads: int,
        qkv_bias: bool = True,
        proj_bias: bool = True,
        attention_dropout: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if len(window_size) != 3 or len(shift_size) != 3:
            raise ValueError("window_size and shift_size must be of length 3")
        self.window_size, self.shift_size = list(window_size), list(shift_size)
        self.num_heads = num_heads
        self.attention_dropout, self.dropout = attention_dropout, dropout
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim, bias=proj_bias)
        self.define_relative_position_bias_table()
        self.define_relative_position_index()

    def define_relative_position_bias_table(self) -> None:
        """A bias for each distance and head."""
        count = math.prod(2 * size - 1 for size in self.window_size)
        self.relative_position_bias_table = nn.Parameter(zeros(count, self.num_heads))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def define_relative_position_index(self) -> None:
        """The row of that table for each pair of places in a window."""
        spans = [np.arange(size) for size in self.window_size]
        places = np.stack(np.meshgrid(*spans, indexing="ij")).reshape(3, -1)
        apart = places[:, :, None] - places[:, None, :]
        _, high, wide = self.window_size
        index = 0
        for distance, size, rest in zip(
            apart, self.window_size, ((2 * high - 1) * (2 * wide - 1), 2 * wide - 1, 1), strict=True
        ):
            index = index + (distance + size - 1) * rest
        self.register_buffer("relative_position_index", from_numpy(np.asarray(index)))

    def get_relative_position_bias(self, window_size: Sequence[int]) -> Tensor:
        """(1, heads, window, window)."""
        return _relative_position_bias(
            self.relative_position_bias_table, self.relative_position_index, window_size
        )

    def forward(self, x: Tensor) -> Tensor:
        _, times, height, width, _ = x.shape
        window, shift = _fitting([times, height, width], self.window_size, self.shift_size)
        return shifted_window_attention_3d(
            x, self.qkv.weight, self.proj.weight, self.get_relative_position_bias(window), window,
            self.num_heads, shift_size=shift, attention_dropout=self.attention_dropout,
            dropout=self.dropout, qkv_bias=self.qkv.bias, proj_bias=self.proj.bias,
            training=self.training,
        )  # fmt: skip


class PatchEmbed3d(nn.Module):
    """Patches of a video as vectors: (B, C, T, H, W) -> (B, T', H', W', embed_dim)."""

    def __init__(
        self,
        patch_size: Sequence[int],
        in_channels: int = 3,
        embed_dim: int = 96,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        size = (patch_size[0], patch_size[1], patch_size[2])
        self.tuple_patch_size = size
        self.proj = nn.Conv3d(in_channels, embed_dim, size, size)
        self.norm = nn.Identity() if norm_layer is None else norm_layer(embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        x = self.proj(_pad_to(x, self.tuple_patch_size, last=0))
        return self.norm(x.permute(0, 2, 3, 4, 1))


class SwinTransformer3d(nn.Module):
    """Stages of windowed attention: (B, 3, T, H, W) -> (B, num_classes).

    Args:
        patch_size: frames, height and width of a patch.
        embed_dim: the first stage's width, which doubles.
        depths: blocks of each stage.
        num_heads: of each stage.
        window_size: frames, height and width of a window.
        mlp_ratio: how much wider a block's small network is.
        dropout: of patches and projections.
        attention_dropout: of attention's weights.
        stochastic_depth_prob: how often the last block is left out.
        num_classes: of the answer.
        norm_layer: makes the normalisations.
        block: makes the blocks.
        downsample_layer: makes what lies between stages.
        patch_embed: makes what comes first.
    """

    def __init__(
        self,
        patch_size: Sequence[int],
        embed_dim: int,
        depths: Sequence[int],
        num_heads: Sequence[int],
        window_size: Sequence[int],
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.1,
        num_classes: int = 400,
        norm_layer: Callable[..., Any] | None = None,
        block: Callable[..., nn.Module] | None = None,
        downsample_layer: Callable[..., nn.Module] = PatchMerging,
        patch_embed: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        norm = norm_layer or partial(nn.LayerNorm, eps=1e-5)
        make = block or SwinTransformerBlock
        embed = patch_embed or PatchEmbed3d
        self.patch_embed = embed(patch_size=patch_size, embed_dim=embed_dim, norm_layer=norm)
        self.pos_drop = nn.Dropout(dropout)
        layers: list[nn.Module] = []
        total, seen = sum(depths), 0
        for stage, depth in enumerate(depths):
            blocks = []
            for index in range(depth):
                drop = stochastic_depth_prob * float(seen) / (total - 1)
                shift = [0 if index % 2 == 0 else size // 2 for size in window_size]
                blocks.append(
                    make(embed_dim << stage, num_heads[stage], window_size=window_size,
                         shift_size=shift, mlp_ratio=mlp_ratio, dropout=dropout,
                         attention_dropout=attention_dropout, stochastic_depth_prob=drop,
                         norm_layer=norm, attn_layer=ShiftedWindowAttention3d)
                )  # fmt: skip
                seen += 1
            layers.append(nn.Sequential(*blocks))
            if stage < len(depths) - 1:
                layers.append(downsample_layer(embed_dim << stage, norm))
        self.features = nn.Sequential(*layers)
        self.num_features = embed_dim << (len(depths) - 1)
        self.norm = norm(self.num_features)
        self.avgpool = nn.AdaptiveAvgPool3d(1)
        self.head = nn.Linear(self.num_features, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.features(self.pos_drop(self.patch_embed(x))))  # (B, T, H, W, C)
        return self.head(self.avgpool(x.permute(0, 4, 1, 2, 3)).flatten(1))


# embedding, depths, heads
PLANS = {
    "swin3d_t": (96, [2, 2, 6, 2], [3, 6, 12, 24]),
    "swin3d_s": (96, [2, 2, 18, 2], [3, 6, 12, 24]),
    "swin3d_b": (128, [2, 2, 18, 2], [4, 8, 16, 32]),
}


def _builder(name: str) -> Callable[..., Any]:
    width, depths, heads = PLANS[name]

    def build(**options: Any) -> SwinTransformer3d:
        return SwinTransformer3d([2, 4, 4], width, depths, heads, [8, 7, 7], **options)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"The Swin transformer for video `{name}`: width {width}, depths {depths}."
    return network(build)


globals().update({name: _builder(name) for name in PLANS})

__getattr__ = weights_in(__name__)
