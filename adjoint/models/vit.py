"""Vision transformer (Dosovitskiy et al., 2020), with torchvision's weight names."""

from __future__ import annotations

from collections import OrderedDict
from math import sqrt
from typing import Any

from adjoint import nn
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.ops.create.creation import empty, zeros
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor


class EncoderBlock(nn.Module):
    """Self-attention and a feed-forward layer, each after a normalisation, beside shortcuts."""

    def __init__(self, heads: int, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads, dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, width),
            nn.Dropout(dropout),
        )
        for layer in self.mlp:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.normal_(layer.bias, std=1e-6)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        """As any module's; the first published weights call the linear layers by name."""
        for theirs, ours in (("linear_1", "0"), ("linear_2", "3")):
            for kind in ("weight", "bias"):
                found = state_dict.pop(f"{prefix}mlp.{theirs}.{kind}", None)
                if found is not None:
                    state_dict[f"{prefix}mlp.{ours}.{kind}"] = found
        super()._load_from_state_dict(state_dict, prefix, *others)

    def forward(self, x: Tensor) -> Tensor:
        y = self.ln_1(x)
        y, _ = self.self_attention(y, y, y, need_weights=False)
        x = x + self.dropout(y)
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Positions added, blocks, a last normalisation."""

    def __init__(
        self, length: int, layers: int, heads: int, width: int, hidden: int, dropout: float
    ) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(empty(1, length, width))
        nn.init.normal_(self.pos_embedding, std=0.02)
        self.dropout = nn.Dropout(dropout)
        blocks = [
            (f"encoder_layer_{i}", EncoderBlock(heads, width, hidden, dropout))
            for i in range(layers)
        ]
        self.layers = nn.Sequential(OrderedDict(blocks))
        self.ln = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return self.ln(self.layers(self.dropout(x + self.pos_embedding)))


class VisionTransformer(nn.Module):
    """Patches of an image as tokens, and a class token that answers.

    Args:
        image_size, patch_size: sides in pixels.
        num_layers, num_heads, hidden_dim, mlp_dim: of the encoder.

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
        num_classes: int = 1000,
        channels: int = 3,
    ) -> None:
        super().__init__()
        if image_size % patch_size:
            raise ValueError(
                f"VisionTransformer: image_size {image_size} is no multiple of patch_size "
                f"{patch_size}"
            )
        self.image_size = image_size
        length = (image_size // patch_size) ** 2 + 1
        self.conv_proj = nn.Conv2d(channels, hidden_dim, patch_size, patch_size)
        self.class_token = nn.Parameter(zeros(1, 1, hidden_dim))
        self.encoder = Encoder(length, num_layers, num_heads, hidden_dim, mlp_dim, dropout)
        self.heads = nn.Sequential(OrderedDict(head=nn.Linear(hidden_dim, num_classes)))
        nn.init.trunc_normal_(self.conv_proj.weight, std=sqrt(1 / (channels * patch_size**2)))
        for tensor in (self.conv_proj.bias, self.heads.head.weight, self.heads.head.bias):
            nn.init.zeros_(tensor)

    def forward(self, x: Tensor) -> Tensor:
        if tuple(x.shape[-2:]) != (self.image_size, self.image_size):
            raise ShapeError(
                f"VisionTransformer: expected images of {self.image_size} by {self.image_size}, "
                f"got {tuple(x.shape)}"
            )
        patches = self.conv_proj(x).flatten(2).transpose(1, 2)  # (B, patches, width)
        token = self.class_token.expand(x.shape[0], -1, -1)
        return self.heads(self.encoder(cat([token, patches], 1))[:, 0])


def vit_b_16(num_classes: int = 1000) -> VisionTransformer:
    """ViT-B/16: 86,567,656 parameters."""
    return VisionTransformer(num_classes=num_classes)


def vit_b_32(num_classes: int = 1000) -> VisionTransformer:
    """ViT-B/32: 88,224,232 parameters."""
    return VisionTransformer(patch_size=32, num_classes=num_classes)


def vit_l_16(num_classes: int = 1000) -> VisionTransformer:
    """ViT-L/16: 304,326,632 parameters."""
    return VisionTransformer(
        num_layers=24, num_heads=16, hidden_dim=1024, mlp_dim=4096, num_classes=num_classes
    )


def vit_l_32(num_classes: int = 1000) -> VisionTransformer:
    """ViT-L/32: 306,535,400 parameters."""
    return VisionTransformer(224, 32, 24, 16, 1024, 4096, num_classes=num_classes)


def vit_h_14(num_classes: int = 1000) -> VisionTransformer:
    """ViT-H/14: 632,045,800 parameters."""
    return VisionTransformer(224, 14, 32, 16, 1280, 5120, num_classes=num_classes)
