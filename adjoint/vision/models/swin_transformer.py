"""Swin Transformer (Liu et al., 2021) and its second version."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from adjoint import nn
from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.ops.create.creation import ones, zeros
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.fx import wrap
from adjoint.nn import functional as F
from adjoint.vision.models.registry import network, weights_in
from adjoint.vision.ops.misc import MLP, Permute
from adjoint.vision.ops.stochastic_depth import StochasticDepth

for _name in ("_patch_merging_pad", "_get_relative_position_bias", "shifted_window_attention"):
    wrap(_name)


def _patch_merging_pad(x: Tensor) -> Tensor:
    """Four neighbours as one: (..., H, W, C) -> (..., H/2, W/2, 4C), padded where odd."""
    height, width = x.shape[-3:-1]
    x = F.pad(x, (0, 0, 0, width % 2, 0, height % 2))
    corners = [(0, 0), (1, 0), (0, 1), (1, 1)]
    return cat([x[..., i::2, j::2, :] for i, j in corners], -1)


class PatchMerging(nn.Module):
    """Half the size, double the width: normalised, then reduced."""

    def __init__(self, dim: int, norm_layer: Callable[..., Any] = nn.LayerNorm) -> None:
        super().__init__()
        self.dim = dim
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = norm_layer(4 * dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.reduction(self.norm(_patch_merging_pad(x)))


class PatchMergingV2(nn.Module):
    """Half the size, double the width: reduced, then normalised."""

    def __init__(self, dim: int, norm_layer: Callable[..., Any] = nn.LayerNorm) -> None:
        super().__init__()
        self.dim = dim
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = norm_layer(2 * dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.reduction(_patch_merging_pad(x)))


def _get_relative_position_bias(
    table: Tensor, index: Tensor, window_size: Sequence[int]
) -> Tensor:  # (1, heads, window, window)
    size = math.prod(window_size)
    return table[index].view(size, size, -1).permute(2, 0, 1).contiguous().unsqueeze(0)


def _projections(x: Tensor, weight: Tensor, bias: Tensor | None, cosines: bool) -> Tensor:
    """Queries, keys and values in one; keys that are compared by cosines have no bias."""
    if bias is not None and cosines:
        length = bias.numel() // 3
        bias = cat([bias[:length], bias[length : 2 * length] * 0, bias[2 * length :]])
    return F.linear(x, weight, bias)


def _scores(q: Tensor, k: Tensor, logit_scale: Tensor | None) -> Tensor:
    """How much each element attends to each; by cosines where heads have a sharpness."""
    if logit_scale is None:
        return (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    cosines = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
    return cosines * logit_scale.clamp(max=math.log(100.0)).exp()


def shifted_window_attention(
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
    logit_scale: Tensor | None = None,
    training: bool = True,
) -> Tensor:
    """Attention of (B, H, W, C) within windows, which a shift moves; one call to `fx`."""
    batch, height, width, channels = input.shape
    win_h, win_w = window_size
    x = F.pad(input, (0, 0, 0, -width % win_w, 0, -height % win_h))
    full_h, full_w = x.shape[1:3]
    shift = [
        0 if window >= full else step
        for window, full, step in zip(window_size, (full_h, full_w), shift_size, strict=True)
    ]
    if any(shift):
        x = x.roll((-shift[0], -shift[1]), (1, 2))
    rows, columns = full_h // win_h, full_w // win_w
    count, size = rows * columns, win_h * win_w
    x = x.view(batch, rows, win_h, columns, win_w, channels).permute(0, 1, 3, 2, 4, 5)
    x = x.reshape(batch * count, size, channels)
    qkv = _projections(x, qkv_weight, qkv_bias, logit_scale is not None)
    qkv = qkv.reshape(x.shape[0], size, 3, num_heads, -1)
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    scores = _scores(q, k, logit_scale) + relative_position_bias
    if any(shift):
        mask = mask_between_regions((full_h, full_w), window_size, shift).to(x)
        scores = scores.view(batch, count, num_heads, size, size)
        scores = (scores + mask[None, :, None]).view(-1, num_heads, size, size)
    weights = F.dropout(scores.softmax(-1), attention_dropout, training)
    x = (weights @ v).transpose(1, 2).reshape(x.shape[0], size, channels)
    x = F.dropout(F.linear(x, proj_weight, proj_bias), dropout, training)
    x = x.view(batch, rows, columns, win_h, win_w, channels).permute(0, 1, 3, 2, 4, 5)
    x = x.reshape(batch, full_h, full_w, channels)
    if any(shift):
        x = x.roll((shift[0], shift[1]), (1, 2))
    return x[:, :height, :width, :].contiguous()


class ShiftedWindowAttention(nn.Module):
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
        if len(window_size) != 2 or len(shift_size) != 2:
            raise ValueError("window_size and shift_size must be of length 2")
        self.window_size, self.shift_size = list(window_size), list(shift_size)
        self.num_heads = num_heads
        self.attention_dropout, self.dropout = attention_dropout, dropout
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim, bias=proj_bias)
        self.register_parameter("logit_scale", None)  # the second version has one
        self.define_bias()
        height, width = self.window_size
        places = np.stack(np.meshgrid(np.arange(height), np.arange(width), indexing="ij"))
        flat = places.reshape(2, -1)
        apart = (flat[:, :, None] - flat[:, None, :]).transpose(1, 2, 0)
        index = (apart[..., 0] + height - 1) * (2 * width - 1) + apart[..., 1] + width - 1
        self.register_buffer("relative_position_index", from_numpy(index.reshape(-1)))

    logit_scale: nn.Parameter | None

    def define_bias(self) -> None:
        """What the bias of each distance is computed from: here, itself."""
        count = math.prod(2 * size - 1 for size in self.window_size)
        self.relative_position_bias_table = nn.Parameter(zeros(count, self.num_heads))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def get_relative_position_bias(self) -> Tensor:
        """(1, heads, window, window)."""
        return _get_relative_position_bias(
            self.relative_position_bias_table, self.relative_position_index, self.window_size
        )

    def forward(self, x: Tensor) -> Tensor:
        bias = self.get_relative_position_bias()
        return shifted_window_attention(
            x, self.qkv.weight, self.proj.weight, bias, self.window_size, self.num_heads,
            shift_size=self.shift_size, attention_dropout=self.attention_dropout,
            dropout=self.dropout, qkv_bias=self.qkv.bias, proj_bias=self.proj.bias,
            logit_scale=self.logit_scale, training=self.training,
        )  # fmt: skip


def mask_between_regions(
    sizes: Sequence[int], window: Sequence[int], shift: Sequence[int]
) -> Tensor:
    """-100 between elements that the shift brought together, (windows, size, size)."""
    region: Any = np.zeros(sizes, np.float32)
    cuts = [
        [(0, full - size), (full - size, full - step), (full - step, full)]
        for full, size, step in zip(sizes, window, shift, strict=True)
    ]
    for count, spans in enumerate(itertools.product(*cuts)):
        region[tuple(slice(*span) for span in spans)] = count
    rank = len(sizes)
    counts = [full // size for full, size in zip(sizes, window, strict=True)]
    tiles = region.reshape([n for pair in zip(counts, window, strict=True) for n in pair])
    tiles = tiles.transpose(*range(0, 2 * rank, 2), *range(1, 2 * rank, 2))
    tiles = tiles.reshape(-1, math.prod(window))
    apart = tiles[:, None, :] != tiles[:, :, None]
    return from_numpy(np.where(apart, np.float32(-100.0), np.float32(0.0)))


class ShiftedWindowAttentionV2(ShiftedWindowAttention):
    """The same by cosines, with a bias computed from logarithmic distances."""

    def define_bias(self) -> None:
        """A small network from distances to biases, and how sharp each head is."""
        heads = self.num_heads
        self.logit_scale = nn.Parameter((10 * ones(heads, 1, 1)).log())
        last = nn.Linear(512, heads, bias=False)
        self.cpb_mlp = nn.Sequential(nn.Linear(2, 512), nn.ReLU(inplace=True), last)
        if self.qkv.bias is not None:
            length = self.qkv.bias.numel() // 3
            self.qkv.bias[length : 2 * length].data.zero_()
        height, width = self.window_size
        spans = [np.arange(-(size - 1), size, dtype=np.float32) for size in (height, width)]
        table: Any = np.stack(np.meshgrid(*spans, indexing="ij"), -1)[None]
        table = table / np.array([height - 1, width - 1], np.float32) * 8
        table = np.sign(table) * np.log2(np.abs(table) + 1.0) / 3.0
        self.register_buffer("relative_coords_table", from_numpy(table.astype(np.float32)))

    def get_relative_position_bias(self) -> Tensor:
        """(1, heads, window, window)."""
        table = self.cpb_mlp(self.relative_coords_table).view(-1, self.num_heads)
        index = self.relative_position_index
        return 16 * _get_relative_position_bias(table, index, self.window_size).sigmoid()


class SwinTransformerBlock(nn.Module):
    """Attention in windows and a small network, each after a normalisation."""

    attention: Any = ShiftedWindowAttention

    def __init__(
        self,
        dim: int,
        num_heads: int,
        window_size: Sequence[int],
        shift_size: Sequence[int],
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.0,
        norm_layer: Callable[..., Any] = nn.LayerNorm,
        attn_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self.norm1 = norm_layer(dim)
        self.attn = (attn_layer or self.attention)(
            dim, window_size, shift_size, num_heads,
            attention_dropout=attention_dropout, dropout=dropout,
        )  # fmt: skip
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.norm2 = norm_layer(dim)
        hidden = [int(dim * mlp_ratio), dim]
        self.mlp = MLP(dim, hidden, activation_layer=nn.GELU, inplace=None, dropout=dropout)
        for module in self.mlp.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.normal_(module.bias, std=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.stochastic_depth(self.attn(self.norm1(x)))
        return x + self.stochastic_depth(self.mlp(self.norm2(x)))


class SwinTransformerBlockV2(SwinTransformerBlock):
    """The same with normalisations afterwards."""

    attention = ShiftedWindowAttentionV2

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.stochastic_depth(self.norm1(self.attn(x)))
        return x + self.stochastic_depth(self.norm2(self.mlp(x)))


class SwinTransformer(nn.Module):
    """Stages of windowed attention: (B, 3, H, W) -> (B, num_classes)."""

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
        num_classes: int = 1000,
        norm_layer: Callable[..., Any] | None = None,
        block: Callable[..., nn.Module] | None = None,
        downsample_layer: Callable[..., nn.Module] = PatchMerging,
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        make, norm = block or SwinTransformerBlock, norm_layer or partial(nn.LayerNorm, eps=1e-5)
        patch = (patch_size[0], patch_size[1])
        cut = nn.Conv2d(3, embed_dim, patch, patch)
        layers: list[nn.Module] = [nn.Sequential(cut, Permute([0, 2, 3, 1]), norm(embed_dim))]
        total, seen, dim = sum(depths), 0, embed_dim
        for stage, depth in enumerate(depths):
            dim = embed_dim << stage
            blocks = []
            for index in range(depth):
                drop = stochastic_depth_prob * float(seen) / (total - 1)
                shift = [0 if index % 2 == 0 else size // 2 for size in window_size]
                blocks.append(
                    make(dim, num_heads[stage], window_size=window_size, shift_size=shift,
                         mlp_ratio=mlp_ratio, dropout=dropout, attention_dropout=attention_dropout,
                         stochastic_depth_prob=drop, norm_layer=norm)
                )  # fmt: skip
                seen += 1
            layers.append(nn.Sequential(*blocks))
            if stage < len(depths) - 1:
                layers.append(downsample_layer(dim, norm))
        self.features = nn.Sequential(*layers)
        self.norm = norm(dim)
        self.permute = Permute([0, 3, 1, 2])
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten(1)
        self.head = nn.Linear(dim, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.permute(self.norm(self.features(x)))
        return self.head(self.flatten(self.avgpool(x)))


_SECOND = {"block": SwinTransformerBlockV2, "downsample_layer": PatchMergingV2}
# embedding, depths, heads, window, stochastic depth, what differs in the second version
PLANS: dict[str, tuple[int, list[int], list[int], int, float, dict[str, Any]]] = {
    "swin_t": (96, [2, 2, 6, 2], [3, 6, 12, 24], 7, 0.2, {}),
    "swin_s": (96, [2, 2, 18, 2], [3, 6, 12, 24], 7, 0.3, {}),
    "swin_b": (128, [2, 2, 18, 2], [4, 8, 16, 32], 7, 0.5, {}),
    "swin_v2_t": (96, [2, 2, 6, 2], [3, 6, 12, 24], 8, 0.2, _SECOND),
    "swin_v2_s": (96, [2, 2, 18, 2], [3, 6, 12, 24], 8, 0.3, _SECOND),
    "swin_v2_b": (128, [2, 2, 18, 2], [4, 8, 16, 32], 8, 0.5, _SECOND),
}


def _builder(name: str) -> Callable[..., Any]:
    width, depths, heads, window, drop, second = PLANS[name]

    def build(**options: Any) -> SwinTransformer:
        given = {"stochastic_depth_prob": drop, **second, **options}
        return SwinTransformer([4, 4], width, depths, heads, [window, window], **given)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"The Swin transformer `{name}`: width {width}, depths {depths}."
    return network(build)


globals().update({name: _builder(name) for name in PLANS})

__getattr__ = weights_in(__name__)
