"""Multiscale Vision Transformers (Fan et al., 2021; Li et al., 2022): mvit_v1_b and mvit_v2_s."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from adjoint import nn
from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.ops.products.einsum import einsum
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.fx import wrap
from adjoint.nn import functional as F
from adjoint.vision.models.registry import network, weights_in
from adjoint.vision.ops.misc import MLP
from adjoint.vision.ops.stochastic_depth import StochasticDepth

for _name in ("_with_dimension", "_without_dimension", "_add_rel_pos", "_add_shortcut"):
    wrap(_name)

Triple = tuple[int, int, int]


@dataclass
class MSBlockConfig:
    """A block: its heads, widths, and how queries, keys and values are pooled; [] for not."""

    num_heads: int
    input_channels: int
    output_channels: int
    kernel_q: list[int]
    kernel_kv: list[int]
    stride_q: list[int]
    stride_kv: list[int]


def _with_dimension(x: Tensor, wanted: int, at: int) -> tuple[Tensor, int]:
    """A tensor of that many dimensions, of one that may lack the one at a place."""
    given = x.dim()
    if given not in (wanted, wanted - 1):
        raise ValueError(f"Unsupported input dimension {x.shape}")
    return (x if given == wanted else x.unsqueeze(at)), given


def _without_dimension(x: Tensor, at: int, given: int) -> Tensor:
    """Undo `_with_dimension`."""
    return x if x.dim() == given else x.squeeze(at)


class Pool(nn.Module):
    """Pooling of tokens that lie in time and space, behind a class token that is left alone."""

    def __init__(
        self,
        pool: nn.Module,
        norm: nn.Module | None,
        activation: nn.Module | None = None,
        norm_before_pool: bool = False,
    ) -> None:
        super().__init__()
        self.pool = pool
        layers = [layer for layer in (norm, activation) if layer is not None]
        self.norm_act = nn.Sequential(*layers) if layers else None
        self.norm_before_pool = norm_before_pool

    def forward(self, x: Tensor, thw: Triple) -> tuple[Tensor, Triple]:
        x, given = _with_dimension(x, 4, 1)
        token, x = x.tensor_split((1,), dim=2)
        batch, heads, _, width = x.shape
        x = x.transpose(2, 3).reshape(batch * heads, width, *thw).contiguous()
        if self.norm_before_pool and self.norm_act is not None:
            x = self.norm_act(x)
        x = self.pool(x)
        times, height, across = x.shape[2:]
        x = cat([token, x.reshape(batch, heads, width, -1).transpose(2, 3)], 2)
        if not self.norm_before_pool and self.norm_act is not None:
            x = self.norm_act(x)
        return _without_dimension(x, 1, given), (times, height, across)


def _distances(queries: int, keys: int, table: Tensor) -> Tensor:
    """What a table says of each query's distance from each key, (queries, keys, C)."""
    span = 2 * max(queries, keys) - 1
    if table.shape[0] != span:  # learned for another size
        table = F.interpolate(table.permute(1, 0).unsqueeze(0), size=span, mode="linear")
        table = table.squeeze(0).permute(1, 0)
    by_query, by_key = max(keys / queries, 1.0), max(queries / keys, 1.0)
    here, there = np.arange(queries, dtype=np.float32), np.arange(keys, dtype=np.float32)
    apart = here[:, None] * np.float32(by_query)
    apart = apart - (there[None, :] + np.float32(1.0 - keys)) * np.float32(by_key)
    return table[from_numpy(apart.astype(np.int64))]


def _add_rel_pos(
    attn: Tensor, q: Tensor, q_thw: Triple, k_thw: Triple, rel_pos_h: Tensor, rel_pos_w: Tensor,
    rel_pos_t: Tensor,
) -> Tensor:  # fmt: skip
    """Scores with the bias of distances in height, width and time; the class token has none."""
    (q_t, q_h, q_w), (k_t, k_h, k_w) = q_thw, k_thw
    batch, heads, _, width = q.shape
    tokens = q[:, :, 1:].reshape(batch, heads, q_t, q_h, q_w, width)
    by_h = einsum("bythwc,hkc->bythwk", tokens, _distances(q_h, k_h, rel_pos_h))
    by_w = einsum("bythwc,wkc->bythwk", tokens, _distances(q_w, k_w, rel_pos_w))
    by_t = einsum("bythwc,tkc->bythwk", tokens, _distances(q_t, k_t, rel_pos_t))
    bias = by_h[..., None, :, None] + by_w[..., None, None, :] + by_t[..., :, None, None]
    bias = bias.reshape(batch, heads, q_t * q_h * q_w, k_t * k_h * k_w)
    return attn + F.pad(bias, (1, 0, 1, 0))


def _add_shortcut(x: Tensor, shortcut: Tensor, residual_with_cls_embed: bool) -> Tensor:
    """Queries added to what was attended to, the class token's too or not."""
    if residual_with_cls_embed:
        return x + shortcut
    return x + F.pad(shortcut[:, :, 1:, :], (0, 0, 1, 0))


class MultiscaleAttention(nn.Module):
    """Attention whose queries, keys and values are pooled first."""

    def __init__(
        self,
        input_size: Sequence[int],
        embed_dim: int,
        output_dim: int,
        num_heads: int,
        kernel_q: Sequence[int],
        kernel_kv: Sequence[int],
        stride_q: Sequence[int],
        stride_kv: Sequence[int],
        residual_pool: bool,
        residual_with_cls_embed: bool,
        rel_pos_embed: bool,
        dropout: float = 0.0,
        norm_layer: Callable[..., nn.Module] = nn.LayerNorm,
    ) -> None:
        super().__init__()
        self.embed_dim, self.output_dim = embed_dim, output_dim
        self.num_heads, self.head_dim = num_heads, output_dim // num_heads
        self.scaler = 1.0 / math.sqrt(self.head_dim)
        self.residual_pool = residual_pool
        self.residual_with_cls_embed = residual_with_cls_embed
        self.qkv = nn.Linear(embed_dim, 3 * output_dim)
        layers: list[nn.Module] = [nn.Linear(output_dim, output_dim)]
        if dropout > 0.0:
            layers.append(nn.Dropout(dropout, inplace=True))
        self.project = nn.Sequential(*layers)
        self.pool_q = self._pool(kernel_q, stride_q, norm_layer)
        self.pool_k = self._pool(kernel_kv, stride_kv, norm_layer)
        self.pool_v = self._pool(kernel_kv, stride_kv, norm_layer)
        for name, size in zip(
            ("rel_pos_h", "rel_pos_w", "rel_pos_t"),
            self._spans(input_size, stride_q, stride_kv),
            strict=True,
        ):
            table = nn.Parameter(zeros(size, self.head_dim)) if rel_pos_embed else None
            self.register_parameter(name, table)
            if table is not None:
                nn.init.trunc_normal_(table, std=0.02)

    rel_pos_h: nn.Parameter | None
    rel_pos_w: nn.Parameter | None
    rel_pos_t: nn.Parameter | None

    def _pool(
        self, kernel: Sequence[int], stride: Sequence[int], norm: Callable[..., nn.Module]
    ) -> Pool | None:
        if math.prod(kernel) <= 1 and math.prod(stride) <= 1:
            return None
        width, edges = self.head_dim, tuple(size // 2 for size in kernel)
        filters = nn.Conv3d(
            width, width, tuple(kernel), tuple(stride), edges, groups=width, bias=False
        )
        return Pool(filters, norm(width))

    @staticmethod
    def _spans(
        input_size: Sequence[int], stride_q: Sequence[int], stride_kv: Sequence[int]
    ) -> Triple:
        """How many distances there are, in height, width and time."""
        size = max(input_size[1:])
        pooled = [size // stride[1] if len(stride) else size for stride in (stride_q, stride_kv)]
        across = 2 * max(pooled) - 1
        return across, across, 2 * input_size[0] - 1

    def forward(self, x: Tensor, thw: Triple) -> tuple[Tensor, Triple]:
        batch, length, _ = x.shape
        qkv = self.qkv(x).reshape(batch, length, 3, self.num_heads, self.head_dim)
        q, k, v = qkv.transpose(1, 3).unbind(dim=2)
        k_thw = thw
        if self.pool_k is not None:
            k, k_thw = self.pool_k(k, thw)
        if self.pool_v is not None:
            v = self.pool_v(v, thw)[0]
        if self.pool_q is not None:
            q, thw = self.pool_q(q, thw)
        scores = (self.scaler * q) @ k.transpose(2, 3)
        if self.rel_pos_h is not None and self.rel_pos_w is not None and self.rel_pos_t is not None:
            scores = _add_rel_pos(
                scores, q, thw, k_thw, self.rel_pos_h, self.rel_pos_w, self.rel_pos_t
            )
        x = scores.softmax(-1) @ v
        if self.residual_pool:
            x = _add_shortcut(x, q, self.residual_with_cls_embed)
        return self.project(x.transpose(1, 2).reshape(batch, -1, self.output_dim)), thw


class MultiscaleBlock(nn.Module):
    """Pooled attention and a small network, each beside a shortcut that is pooled alike."""

    def __init__(
        self,
        input_size: Sequence[int],
        cnf: MSBlockConfig,
        residual_pool: bool,
        residual_with_cls_embed: bool,
        rel_pos_embed: bool,
        proj_after_attn: bool,
        dropout: float = 0.0,
        stochastic_depth_prob: float = 0.0,
        norm_layer: Callable[..., nn.Module] = nn.LayerNorm,
    ) -> None:
        super().__init__()
        self.proj_after_attn = proj_after_attn
        self.pool_skip = None
        if math.prod(cnf.stride_q) > 1:
            kernel = [step + 1 if step > 1 else step for step in cnf.stride_q]
            edges = [size // 2 for size in kernel]
            self.pool_skip = Pool(nn.MaxPool3d(kernel, cnf.stride_q, edges), None)
        width = cnf.output_channels if proj_after_attn else cnf.input_channels
        self.norm1, self.norm2 = norm_layer(cnf.input_channels), norm_layer(width)
        self.needs_transposal = isinstance(self.norm1, nn.BatchNorm1d)
        self.attn = MultiscaleAttention(
            input_size, cnf.input_channels, width, cnf.num_heads, kernel_q=cnf.kernel_q,
            kernel_kv=cnf.kernel_kv, stride_q=cnf.stride_q, stride_kv=cnf.stride_kv,
            rel_pos_embed=rel_pos_embed, residual_pool=residual_pool,
            residual_with_cls_embed=residual_with_cls_embed, dropout=dropout,
            norm_layer=norm_layer,
        )  # fmt: skip
        hidden = [4 * width, cnf.output_channels]
        self.mlp = MLP(width, hidden, activation_layer=nn.GELU, dropout=dropout, inplace=None)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.project = None
        if cnf.input_channels != cnf.output_channels:
            self.project = nn.Linear(cnf.input_channels, cnf.output_channels)

    def _normalised(self, norm: nn.Module, x: Tensor) -> Tensor:
        return norm(x.transpose(1, 2)).transpose(1, 2) if self.needs_transposal else norm(x)

    def forward(self, x: Tensor, thw: Triple) -> tuple[Tensor, Triple]:
        normed = self._normalised(self.norm1, x)
        attended, thw_new = self.attn(normed, thw)
        if self.project is not None and self.proj_after_attn:
            x = self.project(normed)
        beside = x if self.pool_skip is None else self.pool_skip(x, thw)[0]
        x = beside + self.stochastic_depth(attended)
        normed = self._normalised(self.norm2, x)
        if self.project is not None and not self.proj_after_attn:
            x = self.project(normed)
        return x + self.stochastic_depth(self.mlp(normed)), thw_new


class PositionalEncoding(nn.Module):
    """A class token first, and what each place adds unless attention knows of distances."""

    def __init__(
        self, embed_size: int, spatial_size: tuple[int, int], temporal_size: int,
        rel_pos_embed: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.spatial_size, self.temporal_size = spatial_size, temporal_size
        self.class_token = nn.Parameter(zeros(embed_size))
        places = {
            "spatial_pos": (spatial_size[0] * spatial_size[1], embed_size),
            "temporal_pos": (temporal_size, embed_size),
            "class_pos": (embed_size,),
        }
        for name, shape in places.items():
            self.register_parameter(name, None if rel_pos_embed else nn.Parameter(zeros(shape)))

    spatial_pos: nn.Parameter | None
    temporal_pos: nn.Parameter | None
    class_pos: nn.Parameter | None

    def forward(self, x: Tensor) -> Tensor:
        x = cat([self.class_token.expand(x.size(0), -1).unsqueeze(1), x], 1)
        space, time, first = self.spatial_pos, self.temporal_pos, self.class_pos
        if space is None or time is None or first is None:
            return x
        places = (time[:, None] + space[None]).reshape(-1, space.shape[1])
        return x + cat([first.unsqueeze(0), places], 0).unsqueeze(0)


class MViT(nn.Module):
    """Blocks that pool as they attend: (B, 3, T, H, W) -> (B, num_classes).

    Args:
        spatial_size: height and width of the frames.
        temporal_size: how many frames.
        block_setting: the blocks.
        residual_pool: add queries to what was attended to.
        residual_with_cls_embed: the class token's too.
        rel_pos_embed: attention knows distances, in place of places.
        proj_after_attn: widths change beside attention, not beside the small network.
        dropout: before the answer.
        attention_dropout: of projections and small networks.
        stochastic_depth_prob: how often the last block is left out.
        num_classes: of the answer.
        block: makes the blocks.
        norm_layer: makes the normalisations.
        patch_embed_kernel: size of the filter that makes tokens.
        patch_embed_stride: how it steps.
        patch_embed_padding: its padding.
    """

    def __init__(
        self,
        spatial_size: tuple[int, int],
        temporal_size: int,
        block_setting: Sequence[MSBlockConfig],
        residual_pool: bool,
        residual_with_cls_embed: bool,
        rel_pos_embed: bool,
        proj_after_attn: bool,
        dropout: float = 0.5,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.0,
        num_classes: int = 400,
        block: Callable[..., nn.Module] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
        patch_embed_kernel: Triple = (3, 7, 7),
        patch_embed_stride: Triple = (2, 4, 4),
        patch_embed_padding: Triple = (1, 3, 3),
    ) -> None:
        super().__init__()
        if not block_setting:
            raise ValueError("The configuration parameter can't be empty.")
        make, norm = block or MultiscaleBlock, norm_layer or partial(nn.LayerNorm, eps=1e-6)
        first, last = block_setting[0].input_channels, block_setting[-1].output_channels
        self.conv_proj = nn.Conv3d(
            3, first, patch_embed_kernel, patch_embed_stride, patch_embed_padding
        )
        given = (temporal_size, *spatial_size)
        size = [n // step for n, step in zip(given, patch_embed_stride, strict=True)]
        self.pos_encoding = PositionalEncoding(first, (size[1], size[2]), size[0], rel_pos_embed)
        self.blocks = nn.ModuleList()
        for index, cnf in enumerate(block_setting):
            self.blocks.append(
                make(
                    input_size=size, cnf=cnf, residual_pool=residual_pool,
                    residual_with_cls_embed=residual_with_cls_embed, rel_pos_embed=rel_pos_embed,
                    proj_after_attn=proj_after_attn, dropout=attention_dropout,
                    stochastic_depth_prob=stochastic_depth_prob
                    * index / (len(block_setting) - 1.0),
                    norm_layer=norm,
                )
            )  # fmt: skip
            if cnf.stride_q:
                size = [n // step for n, step in zip(size, cnf.stride_q, strict=True)]
        self.norm = norm(last)
        self.head = nn.Sequential(nn.Dropout(dropout, inplace=True), nn.Linear(last, num_classes))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, PositionalEncoding):
                for weights in module.parameters():
                    nn.init.trunc_normal_(weights, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_proj(_with_dimension(x, 5, 2)[0]).flatten(2).transpose(1, 2)
        x = self.pos_encoding(x)
        thw = (self.pos_encoding.temporal_size, *self.pos_encoding.spatial_size)
        for block in self.blocks:
            x, thw = block(x, thw)
        return self.head(self.norm(x)[:, 0])


HEADS = [1, 2, 2, *[4] * 11, 8, 8]
POOLED_BY = [8, 4, 4, *[2] * 11, 1, 1]  # keys and values, in height and width


def _build(
    widths: Sequence[tuple[int, int]], kernels: Sequence[list[int]],
    strides: Sequence[list[int]], given: dict[str, Any], options: dict[str, Any],
) -> MViT:  # fmt: skip
    blocks = [
        MSBlockConfig(heads, into, out, kernel, [3, 3, 3], stride, [1, by, by])
        for heads, (into, out), kernel, stride, by in zip(
            HEADS, widths, kernels, strides, POOLED_BY, strict=True
        )
    ]
    fixed = {"residual_with_cls_embed": False, "block_setting": blocks, **given}
    sizes = {"spatial_size": (224, 224), "temporal_size": 16, "stochastic_depth_prob": 0.2}
    return MViT(**fixed, **{**sizes, **options})


@network
def mvit_v1_b(**options: Any) -> MViT:
    """MViT-B: 36,610,672 parameters; a block that halves the size is one of three."""
    into = [96, 192, 192, *[384] * 11, 768, 768]
    out = [192, 192, *[384] * 11, 768, 768, 768]
    halves = [index in (1, 3, 14) for index in range(16)]
    return _build(
        list(zip(into, out, strict=True)), [[3, 3, 3] if here else [] for here in halves],
        [[1, 2, 2] if here else [] for here in halves],
        {"residual_pool": False, "rel_pos_embed": False, "proj_after_attn": False}, options,
    )  # fmt: skip


@network
def mvit_v2_s(**options: Any) -> MViT:
    """MViTv2-S: 34,537,744 parameters; queries are pooled everywhere, distances are known."""
    into = [96, 96, 192, 192, *[384] * 11, 768]
    out = [96, 192, 192, *[384] * 11, 768, 768]
    strides = [[1, 2, 2] if index in (1, 3, 14) else [1, 1, 1] for index in range(16)]
    return _build(
        list(zip(into, out, strict=True)), [[3, 3, 3]] * 16, strides,
        {"residual_pool": True, "rel_pos_embed": True, "proj_after_attn": True}, options,
    )  # fmt: skip


__getattr__ = weights_in(__name__)
