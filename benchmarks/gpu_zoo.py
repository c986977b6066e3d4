"""Networks of a few layers, as people write them, for either framework: what a GPU does in less
time than it takes the host to ask for it, or at batch 1.

Each entry gives a model, its loss (of the model and a batch), and what a batch is: shapes of
numbers, or of whole numbers below a limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Loss = Callable[[Any, list[Any]], Any]


class Given(NamedTuple):
    """An operand: its shape, and what whole numbers are below; 0: numbers."""

    shape: tuple[int, ...]
    below: int = 0

    def array(self, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        """Fresh elements."""
        if self.below:
            return rng.integers(0, self.below, self.shape)
        return rng.standard_normal(self.shape).astype(np.float32)

    def of_one(self) -> Given:
        """The same of a single image or sentence."""
        return Given((1, *self.shape[1:]), self.below)


class Network(NamedTuple):
    """A model, what its steps minimise, and their batch; the model's own operands come first."""

    model: Any
    loss: Loss
    batch: tuple[Given, ...]
    operands: int = 1


def residual_block(nn: Any, f: Any, inside: int, middle: int, out: int, stride: int) -> Any:
    """A bottleneck of ResNet-50."""

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(inside, middle, 1, bias=False), nn.BatchNorm2d(middle), nn.ReLU(),
                nn.Conv2d(middle, middle, 3, stride, 1, bias=False), nn.BatchNorm2d(middle),
                nn.ReLU(),
                nn.Conv2d(middle, out, 1, bias=False), nn.BatchNorm2d(out),
            )  # fmt: skip
            self.past: Any = nn.Identity()
            if stride != 1 or inside != out:
                conv = nn.Conv2d(inside, out, 1, stride, bias=False)
                self.past = nn.Sequential(conv, nn.BatchNorm2d(out))

        def forward(self, x: Any) -> Any:
            return f.relu(self.past(x) + self.body(x))

    return Block()


def resnet(fw: Any) -> Network:
    nn, f = fw.nn, fw.nn.functional
    head = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    layers, width = head, 64
    for middle, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(count):
            layers.append(residual_block(nn, f, width, middle, 4 * middle, 1 if k else stride))
            width = 4 * middle
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000))
    batch = (Given((32, 3, 224, 224)), Given((32,), 1000))
    return Network(model, lambda m, b: f.cross_entropy(m(b[0]), b[1]), batch)


def efficient(fw: Any) -> Network:
    """Inverted bottlenecks with depthwise convolutions and channels weighed by their means."""
    nn, f = fw.nn, fw.nn.functional

    class Weighed(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, width: int, inner: int) -> None:
            super().__init__()
            self.down, self.up = nn.Conv2d(width, inner, 1), nn.Conv2d(inner, width, 1)

        def forward(self, x: Any) -> Any:
            return x * f.sigmoid(self.up(f.silu(self.down(x.mean((2, 3), keepdim=True)))))

    class Inverted(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inside: int, out: int, size: int, stride: int, by: int) -> None:
            super().__init__()
            wide = inside * by
            self.body = nn.Sequential(
                nn.Conv2d(inside, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.SiLU(),
                nn.Conv2d(wide, wide, size, stride, size // 2, groups=wide, bias=False),
                nn.BatchNorm2d(wide), nn.SiLU(), Weighed(wide, max(1, inside // 4)),
                nn.Conv2d(wide, out, 1, bias=False), nn.BatchNorm2d(out),
            )  # fmt: skip
            self.residual = inside == out and stride == 1

        def forward(self, x: Any) -> Any:
            return x + self.body(x) if self.residual else self.body(x)

    kinds = (
        (32, 16, 3, 1, 1), (16, 24, 3, 2, 6), (24, 24, 3, 1, 6), (24, 40, 5, 2, 6),
        (40, 40, 5, 1, 6), (40, 80, 3, 2, 6), (80, 80, 3, 1, 6), (80, 80, 3, 1, 6),
    )  # fmt: skip
    head = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.SiLU()]
    tail = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(80, 100)]
    model = nn.Sequential(*head, *[Inverted(*kind) for kind in kinds], *tail)
    batch = (Given((32, 3, 128, 128)), Given((32,), 100))
    return Network(model, lambda m, b: f.cross_entropy(m(b[0]), b[1]), batch)


def unet(fw: Any) -> Network:
    """Two steps down and up again, group norms between."""
    nn, f = fw.nn, fw.nn.functional

    def block(inside: int, out: int) -> Any:
        def half(width: int) -> list[Any]:
            return [nn.Conv2d(width, out, 3, padding=1), nn.GroupNorm(8, out), nn.SiLU()]

        return nn.Sequential(*half(inside), *half(out))

    class UNet(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.third = block(3, 32), block(32, 64), block(64, 128)
            self.wider, self.widest = (
                nn.ConvTranspose2d(128, 64, 2, 2),
                nn.ConvTranspose2d(64, 32, 2, 2),
            )
            self.fourth, self.fifth, self.out = block(128, 64), block(64, 32), nn.Conv2d(32, 3, 1)

        def forward(self, x: Any) -> Any:
            a = self.first(x)
            b = self.second(f.max_pool2d(a, 2))
            c = self.third(f.max_pool2d(b, 2))
            d = self.fourth(fw.cat([self.wider(c), b], 1))
            return self.out(self.fifth(fw.cat([self.widest(d), a], 1)))

    return Network(UNet(), lambda m, b: f.mse_loss(m(b[0]), b[0]), (Given((8, 3, 64, 64)),))


def encoder(fw: Any) -> Network:
    """Six layers of a transformer over tokens."""
    nn, f = fw.nn, fw.nn.functional

    class Encoder(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(8000, 256), nn.Embedding(128, 256)
            layer = nn.TransformerEncoderLayer(256, 4, 1024, 0.1, "gelu", batch_first=True)
            self.body, self.out = nn.TransformerEncoder(layer, 6), nn.Linear(256, 8000)

        def forward(self, x: Any) -> Any:
            places = self.places(fw.arange(x.shape[1], device=x.device))
            return self.out(self.body(self.words(x) + places))

    loss = lambda m, b: f.cross_entropy(m(b[0]).flatten(0, 1), b[0].flatten())
    return Network(Encoder(), loss, (Given((16, 128), 8000),))


def conformer(fw: Any) -> Network:
    """Attention and depthwise convolutions over frames of sound."""
    nn, f, width = fw.nn, fw.nn.functional, 144

    def forward_part() -> Any:
        wide = nn.Linear(width, 4 * width)
        return nn.Sequential(nn.LayerNorm(width), wide, nn.SiLU(), nn.Linear(4 * width, width))

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = forward_part(), forward_part()
            self.norm, self.between, self.end = (nn.LayerNorm(width) for _ in range(3))
            self.attend = nn.MultiheadAttention(width, 4, batch_first=True)
            self.gate = nn.Conv1d(width, 2 * width, 1)
            self.along = nn.Conv1d(width, width, 15, padding=7, groups=width)
            self.batch, self.out = nn.BatchNorm1d(width), nn.Conv1d(width, width, 1)

        def forward(self, x: Any) -> Any:
            x = x + 0.5 * self.first(x)
            h = self.norm(x)
            x = x + self.attend(h, h, h, need_weights=False)[0]
            c = f.glu(self.gate(self.between(x).transpose(1, 2)), 1)
            x = x + self.out(f.silu(self.batch(self.along(c)))).transpose(1, 2)
            return self.end(x + 0.5 * self.last(x))

    blocks = [Block() for _ in range(6)]
    model = nn.Sequential(nn.Linear(80, width), *blocks, nn.Linear(width, 100))
    loss = lambda m, b: f.cross_entropy(m(b[0]).flatten(0, 1), b[1])
    return Network(model, loss, (Given((16, 200, 80)), Given((3200,), 100)))


def diffusion_transformer(fw: Any) -> Network:
    """Eight layers whose norms are scaled by the time step."""
    nn, f, width, heads = fw.nn, fw.nn.functional, 256, 4

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            norm = lambda: nn.LayerNorm(width, elementwise_affine=False)
            self.before, self.between = norm(), norm()
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            wide, gelu = nn.Linear(width, 4 * width), nn.GELU(approximate="tanh")
            self.mlp = nn.Sequential(wide, gelu, nn.Linear(4 * width, width))
            self.by_time = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

        def forward(self, x: Any, time: Any) -> Any:
            n, t, _ = x.shape
            a, b, g, a2, b2, g2 = self.by_time(time).unsqueeze(1).chunk(6, -1)
            qkv = self.qkv(self.before(x) * (1 + a) + b).view(n, t, 3, heads, width // heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            y = f.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, width)
            x = x + g * self.out(y)
            return x + g2 * self.mlp(self.between(x) * (1 + a2) + b2)

    class Transformer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.patches, self.time = nn.Linear(16, width), nn.Linear(64, width)
            self.blocks = nn.ModuleList([Block() for _ in range(8)])
            self.out = nn.Linear(width, 16)

        def forward(self, x: Any, t: Any) -> Any:
            angles = t[:, None] * fw.exp(-fw.arange(32, device=x.device) / 32 * 9.2)
            time = self.time(fw.cat([angles.sin(), angles.cos()], -1))
            h = self.patches(x)
            for block in self.blocks:
                h = block(h, time)
            return self.out(h)

    loss = lambda m, b: f.mse_loss(m(b[0], b[1]).float(), b[0])
    return Network(Transformer(), loss, (Given((16, 256, 16)), Given((16,))), operands=2)


def wavenet(fw: Any) -> Network:
    """Sixteen dilated convolutions over samples of sound."""
    nn, f = fw.nn, fw.nn.functional

    class WaveNet(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.out = nn.Conv1d(1, 32, 1), nn.Conv1d(32, 256, 1)
            dilated = [nn.Conv1d(32, 64, 2, dilation=2 ** (k % 8)) for k in range(16)]
            self.dilated = nn.ModuleList(dilated)
            self.on = nn.ModuleList([nn.Conv1d(32, 32, 1) for _ in dilated])
            self.aside = nn.ModuleList([nn.Conv1d(32, 32, 1) for _ in dilated])

        def forward(self, x: Any) -> Any:
            x, total = self.first(x), 0
            for dilated, on, aside in zip(self.dilated, self.on, self.aside, strict=True):
                a, b = dilated(f.pad(x, (dilated.dilation[0], 0))).chunk(2, 1)
                z = fw.tanh(a) * fw.sigmoid(b)
                total, x = total + aside(z), x + on(z)
            return self.out(f.relu(total))

    batch = (Given((8, 1, 2048)), Given((8, 2048), 256))
    return Network(WaveNet(), lambda m, b: f.cross_entropy(m(b[0]), b[1]), batch)


NETWORKS: dict[str, Callable[[Any], Network]] = {
    "resnet": resnet, "efficient": efficient, "unet": unet, "encoder": encoder,
    "conformer": conformer, "diffusion": diffusion_transformer, "wavenet": wavenet,
}  # fmt: skip
