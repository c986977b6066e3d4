"""Vision transformer (Dosovitskiy et al., 2020), with torchvision's weight names."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt
from typing import Any, NamedTuple

from adjoint import nn
from adjoint.checks import _assert
from adjoint.engine.ops.create.creation import empty, zeros
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor

MakesLayer = Callable[..., nn.Module]
PlainNorm = partial(nn.LayerNorm, eps=1e-6)


class ConvStemConfig(NamedTuple):
    """One layer of a stem of convolutions, in place of the patches' single one."""

    out_channels: int
    kernel_size: int
    stride: int
    norm_layer: MakesLayer = nn.BatchNorm2d
    activation_layer: MakesLayer = nn.ReLU


class MLPBlock(nn.Sequential):
    """The feed-forward layer of a block."""

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        super().__init__(
            nn.Linear(in_dim, mlp_dim),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(mlp_dim, in_dim),
            nn.Dropout(dropout),
        )
        for layer in self:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.normal_(layer.bias, std=1e-6)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        """As any module's; the first published weights call the linear layers by name."""
        for theirs, ours in (("linear_1", "0"), ("linear_2", "3")):
            for kind in ("weight", "bias"):
                weight = state_dict.pop(f"{prefix}{theirs}.{kind}", None)
                if weight is not None:
                    state_dict[f"{prefix}{ours}.{kind}"] = weight
        super()._load_from_state_dict(state_dict, prefix, *others)


class EncoderBlock(nn.Module):
    """Self-attention and a feed-forward layer, each after a normalisation, beside shortcuts."""

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: MakesLayer = PlainNorm,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.ln_1 = norm_layer(hidden_dim)
        self.self_attention = nn.MultiheadAttention(
            hidden_dim, num_heads, attention_dropout, batch_first=True
        )
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = norm_layer(hidden_dim)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input: Tensor) -> Tensor:
        _assert(input.dim() == 3, f"EncoderBlock: wanted (B, S, width), received {input.shape}")
        y = self.ln_1(input)
        y, _ = self.self_attention(y, y, y, need_weights=False)
        x = input + self.dropout(y)
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Positions added, blocks, a last normalisation."""

    def __init__(
        self,
        seq_length: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: MakesLayer = PlainNorm,
    ) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(empty(1, seq_length, hidden_dim))
        nn.init.normal_(self.pos_embedding, std=0.02)
        self.dropout = nn.Dropout(dropout)
        shape = (num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer)
        blocks = [(f"encoder_layer_{i}", EncoderBlock(*shape)) for i in range(num_layers)]
        self.layers = nn.Sequential(OrderedDict(blocks))
        self.ln = norm_layer(hidden_dim)

    def forward(self, input: Tensor) -> Tensor:
        _assert(input.dim() == 3, f"Encoder: wanted (B, S, width), received {input.shape}")
        return self.ln(self.layers(self.dropout(input + self.pos_embedding)))


def _stem(layers: Sequence[ConvStemConfig], hidden_dim: int) -> nn.Sequential:
    """Convolutions that halve the picture step by step, and one to the encoder's width."""
    stem = nn.Sequential()
    channels = 3
    for place, layer in enumerate(layers):
        side = layer.kernel_size
        part = nn.Sequential(
            nn.Conv2d(channels, layer.out_channels, side, layer.stride, side // 2, bias=False),
            layer.norm_layer(layer.out_channels),
            layer.activation_layer(inplace=True),
        )
        stem.add_module(f"conv_bn_relu_{place}", part)
        channels = layer.out_channels
    last = nn.Conv2d(channels, hidden_dim, 1)
    nn.init.normal_(last.weight, std=sqrt(2 / hidden_dim))
    nn.init.zeros_(last.bias)
    stem.add_module("conv_last", last)
    return stem


class VisionTransformer(nn.Module):
    """Patches of an image as tokens, and a class token that answers.

    Args:
        image_size, patch_size: sides in pixels.
        num_layers, num_heads, hidden_dim, mlp_dim: of the encoder.
        dropout, attention_dropout: the shares dropped.
        num_classes: how many answers.
        representation_size: width of a layer before the answers; None for none.
        norm_layer: makes the normalisations.
        conv_stem_configs: layers of convolutions in place of the patches' single one.

    Shape:
        (B, 3, image_size, image_size) -> (B, num_classes)
    """

    def __init__(
        self,
        image_size: int = 224,
        patch_size: int = 16,
        num_layers: int = 12,
        num_heads: int = 12,
        hidden_dim: int = 768,
        mlp_dim: int = 3072,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
        representation_size: int | None = None,
        norm_layer: MakesLayer = PlainNorm,
        conv_stem_configs: Sequence[ConvStemConfig] | None = None,
    ) -> None:
        super().__init__()
        if image_size % patch_size:
            raise AssertionError(
                f"VisionTransformer: image_size {image_size} is no multiple of patch_size "
                f"{patch_size}"
            )
        self.image_size, self.patch_size = image_size, patch_size
        self.hidden_dim, self.mlp_dim = hidden_dim, mlp_dim
        self.dropout, self.attention_dropout = dropout, attention_dropout
        self.num_classes, self.representation_size = num_classes, representation_size
        self.norm_layer = norm_layer
        self.seq_length = (image_size // patch_size) ** 2 + 1
        self.conv_proj: nn.Module = (
            nn.Conv2d(3, hidden_dim, patch_size, patch_size)
            if conv_stem_configs is None
            else _stem(conv_stem_configs, hidden_dim)
        )
        self.class_token = nn.Parameter(zeros(1, 1, hidden_dim))
        shape = (num_layers, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout)
        self.encoder = Encoder(self.seq_length, *shape, norm_layer)
        self.heads = self._heads()
        if isinstance(self.conv_proj, nn.Conv2d):
            nn.init.trunc_normal_(self.conv_proj.weight, std=sqrt(1 / (3 * patch_size**2)))
            nn.init.zeros_(self.conv_proj.bias)

    def _heads(self) -> nn.Sequential:
        """The layers that answer; the last starts at zero."""
        width, layers = self.hidden_dim, OrderedDict[str, nn.Module]()
        if self.representation_size is not None:
            before = nn.Linear(width, self.representation_size)
            nn.init.trunc_normal_(before.weight, std=sqrt(1 / width))
            nn.init.zeros_(before.bias)
            layers |= {"pre_logits": before, "act": nn.Tanh()}
            width = self.representation_size
        head = nn.Linear(width, self.num_classes)
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        layers["head"] = head
        return nn.Sequential(layers)

    def _process_input(self, x: Tensor) -> Tensor:
        """The patches of pictures as tokens."""
        batch, _, height, width = x.shape
        side = self.image_size
        for length in (height, width):
            _assert(length == side, f"VisionTransformer: wanted images of {side} by {side}")
        rows, columns = height // self.patch_size, width // self.patch_size
        patches = self.conv_proj(x).reshape(batch, self.hidden_dim, rows * columns)
        return patches.permute(0, 2, 1)  # (B, patches, width)

    def forward(self, x: Tensor) -> Tensor:
        patches = self._process_input(x)
        count = patches.shape[0]
        token = self.class_token.expand(count, -1, -1)
        return self.heads(self.encoder(cat([token, patches], 1))[:, 0])


def vit_b_16(num_classes: int = 1000, **options: Any) -> VisionTransformer:
    """ViT-B/16: 86,567,656 parameters."""
    return VisionTransformer(num_classes=num_classes, **options)


def vit_b_32(num_classes: int = 1000, **options: Any) -> VisionTransformer:
    """ViT-B/32: 88,224,232 parameters."""
    return VisionTransformer(**{"patch_size": 32, **options}, num_classes=num_classes)


def vit_l_16(num_classes: int = 1000, **options: Any) -> VisionTransformer:
    """ViT-L/16: 304,326,632 parameters."""
    large = {"num_layers": 24, "num_heads": 16, "hidden_dim": 1024, "mlp_dim": 4096, **options}
    return VisionTransformer(num_classes=num_classes, **large)


def vit_l_32(num_classes: int = 1000, **options: Any) -> VisionTransformer:
    """ViT-L/32: 306,535,400 parameters."""
    return vit_l_16(num_classes, **{"patch_size": 32, **options})


def vit_h_14(num_classes: int = 1000, **options: Any) -> VisionTransformer:
    """ViT-H/14: 632,045,800 parameters."""
    huge = {"num_layers": 32, "num_heads": 16, "hidden_dim": 1280, "mlp_dim": 5120, **options}
    return VisionTransformer(**{"patch_size": 14, **huge}, num_classes=num_classes)
