"""Model families, each written once for every framework that has PyTorch's names.

`family.model(fw)` builds the network in the framework `fw` (the module `torch` or `adjoint`),
`family.data()` makes a batch in NumPy, `family.loss(fw, model, *batch)` is a scalar. Weights are
drawn by `fill` from the names and shapes of the parameters, so every framework starts alike.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Batch = tuple[np.ndarray, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of model: what it computes, on what, and how its gradients are treated."""

    name: str
    what: str
    model: Callable[[Any], Any]
    data: Callable[[], Batch]
    loss: Callable[..., Any]
    clip: float = 0.0


def fill(fw: Any, model: Any) -> None:
    """Give matrices and filters weights drawn by name; vectors keep what layers give them."""
    with fw.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim < 2:
                if name.endswith("bias") or ".bias_" in name:
                    parameter.zero_()
                continue
            rng = np.random.default_rng(zlib.crc32(name.encode()))
            shape = tuple(parameter.shape)
            scale = 1 / math.sqrt(math.prod(shape[1:]))
            drawn = rng.standard_normal(shape, np.float32) * np.float32(scale)
            parameter.copy_(fw.from_numpy(drawn))


def normal(*shape: int) -> np.ndarray:
    """Inputs: a standard normal sample."""
    return np.random.default_rng(1).standard_normal(shape, np.float32)


def classes(count: int, *shape: int) -> np.ndarray:
    """Labels, or tokens."""
    return np.random.default_rng(2).integers(0, count, shape)


def cross_entropy(fw: Any, model: Any, x: Any, y: Any) -> Any:
    """The loss of classification."""
    return fw.nn.functional.cross_entropy(model(x), y)


def token_loss(fw: Any, model: Any, tokens: Any, targets: Any) -> Any:
    """The loss of a language model."""
    logits = model(tokens)
    flat = logits.reshape(-1, logits.shape[-1])
    return fw.nn.functional.cross_entropy(flat, targets.reshape(-1))


# -- models -------------------------------------------------------------------------------------


def tiny(fw: Any) -> Any:
    nn = fw.nn
    return nn.Sequential(
        nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2)
    )


def mlp(fw: Any) -> Any:
    nn = fw.nn
    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)
    )


def cnn(fw: Any) -> Any:
    nn = fw.nn
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def attention_block(fw: Any, width: int, heads: int, causal: bool) -> Any:
    """A transformer block: norm before attention and before a feed-forward part."""
    nn, F = fw.nn, fw.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            B, T, C = x.shape
            parts = self.qkv(self.norm1(x)).split(width, dim=2)
            q, k, v = (p.view(B, T, heads, C // heads).transpose(1, 2) for p in parts)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)  # (B, heads, T, C/heads)
            x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    return Block()


def gpt(fw: Any) -> Any:
    nn = fw.nn
    width, heads, layers, length, vocabulary = 128, 4, 4, 64, 256

    class GPT(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, width)
            self.positions = nn.Embedding(length, width)
            self.blocks = nn.ModuleList(
                [attention_block(fw, width, heads, True) for _ in range(layers)]
            )
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.tokens(tokens) + self.positions(fw.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return GPT()


def residual(fw: Any) -> Any:
    nn, F = fw.nn, fw.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inside: int, outside: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inside, outside, 3, stride=stride, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(outside)
            self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(outside)
            self.short = nn.Identity()
            if stride > 1 or inside != outside:
                self.short = nn.Sequential(
                    nn.Conv2d(inside, outside, 1, stride=stride, bias=False),
                    nn.BatchNorm2d(outside),
                )

        def forward(self, x: Any) -> Any:
            y = F.relu(self.bn1(self.conv1(x)))
            return F.relu(self.bn2(self.conv2(y)) + self.short(x))

    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def lstm(fw: Any) -> Any:
    nn = fw.nn

    class Language(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(128, 64)
            self.lstm = nn.LSTM(64, 128, num_layers=2, batch_first=True)
            self.head = nn.Linear(128, 128)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.lstm(self.tokens(tokens))[0])

    return Language()


def vit(fw: Any) -> Any:
    nn = fw.nn
    width, heads, layers = 96, 3, 4

    class ViT(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 4, stride=4)
            self.first = nn.Parameter(fw.zeros(1, 1, width))
            self.positions = nn.Parameter(fw.zeros(1, 65, width))
            self.blocks = nn.ModuleList(
                [attention_block(fw, width, heads, False) for _ in range(layers)]
            )
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

        def forward(self, images: Any) -> Any:
            x = self.patches(images).flatten(2).transpose(1, 2)  # (B, 64, width)
            x = fw.cat([self.first.expand(len(x), -1, -1), x], dim=1) + self.positions
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x)[:, 0])

    return ViT()


def vae(fw: Any) -> Any:
    nn, F = fw.nn, fw.nn.functional

    class VAE(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.hidden, self.codes = nn.Linear(784, 400), nn.Linear(400, 40)
            self.up, self.out = nn.Linear(20, 400), nn.Linear(400, 784)

        def forward(self, x: Any, noise: Any) -> Any:
            mean, log_variance = self.codes(F.relu(self.hidden(x))).chunk(2, dim=1)
            code = mean + noise * (0.5 * log_variance).exp()
            return self.out(F.relu(self.up(code))), mean, log_variance

    return VAE()


def vae_loss(fw: Any, model: Any, x: Any, noise: Any) -> Any:
    """Reconstruction and divergence, summed over pixels and codes; the noise is given."""
    logits, mean, log_variance = model(x, noise)
    F = fw.nn.functional
    rebuilt = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum()
    return (rebuilt + divergence) / len(x)


def pictures(count: int, *shape: int) -> Batch:
    return normal(count, *shape), classes(10, count)


FAMILIES = {
    family.name: family
    for family in (
        Family(
            "tiny", "MLP 16-32-32-2 tanh, batch 32", tiny,
            lambda: (normal(32, 16), classes(2, 32)), cross_entropy,
        ),
        Family(
            "mlp", "MLP 784-512-256-10 relu, batch 128", mlp,
            lambda: (normal(128, 784), classes(10, 128)), cross_entropy,
        ),
        Family(
            "cnn", "conv32-bn-relu-pool, conv64-bn-relu-pool, 128, 10; 64x1x28x28", cnn,
            lambda: pictures(64, 1, 28, 28), cross_entropy,
        ),
        Family(
            "gpt", "4 layers, width 128, 4 heads, 16 x 64 tokens, vocabulary 256, clipped", gpt,
            lambda: (classes(256, 16, 64), classes(256, 64, 16).reshape(16, 64)), token_loss, 1.0,
        ),
        Family(
            "residual", "ResNet of 3 blocks, 16-32-64 channels; 32x3x32x32", residual,
            lambda: pictures(32, 3, 32, 32), cross_entropy,
        ),
        Family(
            "lstm", "2-layer LSTM 64-128, 16 x 32 tokens, vocabulary 128", lstm,
            lambda: (classes(128, 16, 32), classes(128, 32, 16).reshape(16, 32)), token_loss,
        ),
        Family(
            "vit", "4 layers, width 96, 3 heads, patches of 4; 32x3x32x32", vit,
            lambda: pictures(32, 3, 32, 32), cross_entropy,
        ),
        Family(
            "vae", "784-400-20-400-784, batch 128", vae,
            lambda: (
                np.random.default_rng(3).random((128, 784), np.float32), normal(128, 20),
            ), vae_loss,
        ),
    )
}  # fmt: skip
