"""Networks as people train them, for either framework: dropout and padding, biases of positions,
windows, packed lengths, bags, messages along edges, experts, scans, adversaries.

In the form of `benchmarks.gpu_zoo`; `benchmarks.gpu_four_ways` times them.
"""

from __future__ import annotations

import math
from typing import Any

from benchmarks.gpu_zoo import Given, Network

DROPPED = 0.1


def heads_of(x: Any, heads: int) -> Any:
    """(batch, positions, features) as (batch, heads, positions, features of a head)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def attention(fw: Any, width: int, heads: int, causal: bool = False) -> Any:
    """Attention with dropout, a mask or a bias, over its own positions or another sequence's."""
    nn, f = fw.nn, fw.nn.functional

    class Attention(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.query, self.out = nn.Linear(width, width), nn.Linear(width, width)
            self.both = nn.Linear(width, 2 * width)
            self.dropout, self.after = DROPPED, nn.Dropout(DROPPED)

        def forward(self, x: Any, mask: Any = None, other: Any = None) -> Any:
            k, v = self.both(x if other is None else other).chunk(2, -1)
            q, k, v = (heads_of(y, heads) for y in (self.query(x), k, v))
            p = self.dropout if self.training else 0.0
            y = f.scaled_dot_product_attention(q, k, v, mask, p, causal)
            return self.after(self.out(y.transpose(1, 2).flatten(2)))

    return Attention()


def feed_forward(nn: Any, width: int) -> Any:
    wide = nn.Linear(width, 4 * width)
    return nn.Sequential(wide, nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(DROPPED))


def gpt(fw: Any, width: int = 512, layers: int = 6, words: int = 10000) -> Network:
    """GPT-2 as it is published: dropout of embeddings, weights and branches."""
    nn, f = fw.nn, fw.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attend = attention(fw, width, width // 64, causal=True)
            self.mlp = feed_forward(nn, width)

        def forward(self, x: Any) -> Any:
            x = x + self.attend(self.before(x))
            return x + self.mlp(self.between(x))

    class GPT(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(1024, width)
            self.dropping, self.norm = nn.Dropout(DROPPED), nn.LayerNorm(width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])

        def forward(self, x: Any) -> Any:
            h = self.words(x) + self.places(fw.arange(x.shape[1], device=x.device))
            h = self.dropping(h)
            for block in self.blocks:
                h = block(h)
            return f.linear(self.norm(h), self.words.weight)

    loss = lambda m, b: f.cross_entropy(m(b[0])[:, :-1].flatten(0, 1), b[0][:, 1:].flatten())
    return Network(GPT(), loss, (Given((8, 512), words),))


def bert(fw: Any, width: int = 512, layers: int = 6, words: int = 10000) -> Network:
    """An encoder whose sentences are padded; some words are to be guessed."""
    nn, f = fw.nn, fw.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.after, self.end = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attend, self.mlp = attention(fw, width, width // 64), feed_forward(nn, width)

        def forward(self, x: Any, mask: Any) -> Any:
            x = self.after(x + self.attend(x, mask))
            return self.end(x + self.mlp(x))

    class Bert(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(512, width)
            self.norm, self.dropping = nn.LayerNorm(width), nn.Dropout(DROPPED)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.out = nn.Linear(width, words)

        def forward(self, x: Any, lengths: Any) -> Any:
            places = fw.arange(x.shape[1], device=x.device)
            mask = (places < lengths[:, None] + 64)[:, None, None]
            h = self.dropping(self.norm(self.words(x) + self.places(places)))
            for block in self.blocks:
                h = block(h, mask)
            return self.out(h)

    def loss(model: Any, batch: list[Any]) -> Any:
        asked = batch[0].masked_fill(batch[2] > 0, -100)
        return f.cross_entropy(model(batch[0], batch[1]).flatten(0, 1), asked.flatten())

    batch = (Given((16, 256), words), Given((16,), 192), Given((16, 256), 7))
    return Network(Bert(), loss, batch, operands=2)


def t5(fw: Any, width: int = 384, layers: int = 3, words: int = 8000) -> Network:
    """An encoder and a decoder whose scores get a learnt bias by relative position."""
    nn, f, heads = fw.nn, fw.nn.functional, 6

    class Norm(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(fw.ones(width))

        def forward(self, x: Any) -> Any:
            scale = fw.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
            return self.weight * (x * scale).to(x.dtype)

    class Bias(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, causal: bool) -> None:
            super().__init__()
            self.table, self.causal = nn.Embedding(32, heads), causal

        def forward(self, size: int, device: Any) -> Any:
            places = fw.arange(size, device=device)
            apart = places[None, :] - places[:, None]
            far = fw.log(apart.abs().float().clamp(min=8) / 8) / math.log(16) * 8 + 8
            bucket = fw.where(apart.abs() < 8, apart.abs(), far.long().clamp(max=15))
            bias = self.table(bucket + 16 * (apart > 0)).permute(2, 0, 1)[None]
            return bias.masked_fill(apart > 0, -math.inf) if self.causal else bias

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, crossed: bool) -> None:
            super().__init__()
            self.first, self.last = Norm(), Norm()
            self.attend, self.mlp = attention(fw, width, heads), feed_forward(nn, width)
            self.cross = attention(fw, width, heads) if crossed else None
            self.middle = Norm() if crossed else None

        def forward(self, x: Any, bias: Any, other: Any = None) -> Any:
            x = x + self.attend(self.first(x), bias.to(x.dtype))
            if self.cross is not None:
                x = x + self.cross(self.middle(x), None, other)
            return x + self.mlp(self.last(x))

    class T5(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.out = nn.Embedding(words, width), nn.Linear(width, words)
            self.here, self.past = Bias(False), Bias(True)
            self.encoder = nn.ModuleList([Block(False) for _ in range(layers)])
            self.decoder = nn.ModuleList([Block(True) for _ in range(layers)])

        def forward(self, x: Any, y: Any) -> Any:
            h, bias = self.words(x), self.here(x.shape[1], x.device)
            for block in self.encoder:
                h = block(h, bias)
            d, bias = self.words(y), self.past(y.shape[1], y.device)
            for block in self.decoder:
                d = block(d, bias, h)
            return self.out(d)

    def loss(model: Any, batch: list[Any]) -> Any:
        x, y = batch
        return f.cross_entropy(model(x, y)[:, :-1].flatten(0, 1), y[:, 1:].flatten())

    return Network(T5(), loss, (Given((16, 128), words), Given((16, 96), words)), operands=2)


def swin(fw: Any, width: int = 96, heads: int = 3, size: int = 7) -> Network:
    """Attention within windows that shift, with a bias for each pair of places in one."""
    nn, f = fw.nn, fw.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, width: int, heads: int, shift: int) -> None:
            super().__init__()
            self.heads, self.shift = heads, shift
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.table = nn.Parameter(fw.zeros((2 * size - 1) ** 2, heads))
            self.mlp = feed_forward(nn, width)
            y = fw.arange(size * size) // size
            x = fw.arange(size * size) % size
            place = (y[:, None] - y + size - 1) * (2 * size - 1) + x[:, None] - x + size - 1
            self.register_buffer("place", place)

        def mask(self, side: int, x: Any) -> Any:
            line = fw.arange(side, device=x.device)
            part = (line >= side - size).long() + (line >= side - self.shift).long()
            part = self.windows((part[:, None] * 3 + part)[None, :, :, None])[..., 0]
            return (part[:, None] == part[:, :, None])[:, None]

        def windows(self, x: Any) -> Any:
            n, h, w, c = x.shape
            x = x.view(n, h // size, size, w // size, size, c).transpose(2, 3)
            return x.reshape(-1, size * size, c)

        def forward(self, x: Any) -> Any:
            n, h, w, c = x.shape
            y = self.before(x)
            if self.shift:
                y = fw.roll(y, (-self.shift, -self.shift), (1, 2))
            parts = self.windows(y)
            q, k, v = self.qkv(parts).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
            bias = self.table[self.place.view(-1)].view(size * size, size * size, -1)
            scores = scores + bias.permute(2, 0, 1)
            if self.shift:
                seen = self.mask(h, x)
                scores = scores.unflatten(0, (n, -1)).masked_fill(~seen, -100.0).flatten(0, 1)
            y = self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
            y = y.view(n, h // size, w // size, size, size, c).transpose(2, 3).reshape(n, h, w, c)
            if self.shift:
                y = fw.roll(y, (self.shift, self.shift), (1, 2))
            x = x + y
            return x + self.mlp(self.between(x))

    class Merge(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(4 * width)
            self.down = nn.Linear(4 * width, 2 * width, bias=False)

        def forward(self, x: Any) -> Any:
            parts = [x[:, a::2, b::2] for a, b in ((0, 0), (1, 0), (0, 1), (1, 1))]
            return self.down(self.norm(fw.cat(parts, -1)))

    class Head(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 4, 4)
            layers = [Block(width, heads, 0), Block(width, heads, size // 2), Merge(width)]
            layers += [Block(2 * width, 2 * heads, s) for s in (0, size // 2)]
            self.body = nn.Sequential(*layers)
            self.norm, self.out = nn.LayerNorm(2 * width), nn.Linear(2 * width, 100)

        def forward(self, x: Any) -> Any:
            x = self.body(self.patches(x).permute(0, 2, 3, 1))
            return self.out(self.norm(x).mean((1, 2)))

    batch = (Given((16, 3, 112, 112)), Given((16,), 100))
    return Network(Head(), lambda m, b: f.cross_entropy(m(b[0]), b[1]), batch)


def convnext(fw: Any) -> Network:
    """Depthwise convolutions of 7 x 7, norms and products over channels that lie last."""
    nn, f = fw.nn, fw.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.along = nn.Conv2d(width, width, 7, padding=3, groups=width)
            self.norm, self.up = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, 4 * width)
            self.down, self.scale = nn.Linear(4 * width, width), nn.Parameter(fw.ones(width) / 10)

        def forward(self, x: Any) -> Any:
            y = self.norm(self.along(x).permute(0, 2, 3, 1))
            y = self.scale * self.down(f.gelu(self.up(y)))
            return x + y.permute(0, 3, 1, 2)

    class Norm(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(width, eps=1e-6)

        def forward(self, x: Any) -> Any:
            return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    widths, layers = (64, 128, 256), []
    for k, (width, count) in enumerate(zip(widths, (2, 2, 4), strict=True)):
        if k:
            layers += [Norm(widths[k - 1]), nn.Conv2d(widths[k - 1], width, 2, 2)]
        else:
            layers += [nn.Conv2d(3, width, 4, 4), Norm(width)]
        layers += [Block(width) for _ in range(count)]
    model = nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(256), nn.Linear(256, 100)
    )
    batch = (Given((32, 3, 128, 128)), Given((32,), 100))
    return Network(model, lambda m, b: f.cross_entropy(m(b[0]), b[1]), batch)


def denoiser(fw: Any) -> Network:
    """A diffusion model's network: residual blocks told the time, attention in the middle."""
    nn, f = fw.nn, fw.nn.functional

    class Residual(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inside: int, out: int) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.GroupNorm(8, inside), nn.GroupNorm(8, out)
            self.conv1 = nn.Conv2d(inside, out, 3, padding=1)
            self.conv2, self.time = nn.Conv2d(out, out, 3, padding=1), nn.Linear(128, out)
            self.dropping = nn.Dropout(DROPPED)
            self.past = nn.Conv2d(inside, out, 1) if inside != out else nn.Identity()

        def forward(self, x: Any, t: Any) -> Any:
            h = self.conv1(f.silu(self.norm1(x))) + self.time(f.silu(t))[:, :, None, None]
            return self.past(x) + self.conv2(self.dropping(f.silu(self.norm2(h))))

    class Attend(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm, self.qkv = nn.GroupNorm(8, width), nn.Conv2d(width, 3 * width, 1)
            self.out = nn.Conv2d(width, width, 1)

        def forward(self, x: Any) -> Any:
            n, c, h, w = x.shape
            qkv = self.qkv(self.norm(x)).view(n, 3, 4, c // 4, h * w).transpose(-2, -1)
            y = f.scaled_dot_product_attention(*qkv.unbind(1))
            return x + self.out(y.transpose(-2, -1).reshape(n, c, h, w))

    class Denoiser(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.time = nn.Sequential(nn.Linear(64, 128), nn.SiLU(), nn.Linear(128, 128))
            self.first, self.out = nn.Conv2d(3, 64, 3, padding=1), nn.Conv2d(64, 3, 3, padding=1)
            self.a, self.b, self.c = Residual(64, 64), Residual(64, 128), Residual(128, 128)
            self.smaller = nn.Conv2d(64, 64, 3, 2, 1)
            self.smallest = nn.Conv2d(128, 128, 3, 2, 1)
            self.attend, self.d = Attend(128), Residual(128, 128)
            self.e, self.g = Residual(256, 64), Residual(128, 64)
            self.norm = nn.GroupNorm(8, 64)

        def forward(self, x: Any, t: Any) -> Any:
            angles = t[:, None] * fw.exp(-fw.arange(32, device=x.device) / 32 * 9.2)
            t = self.time(fw.cat([angles.sin(), angles.cos()], -1))
            a = self.a(self.first(x), t)
            b = self.b(self.smaller(a), t)
            c = self.d(self.attend(self.c(self.smallest(b), t)), t)
            c = f.interpolate(c, scale_factor=2, mode="nearest")
            d = f.interpolate(self.e(fw.cat([c, b], 1), t), scale_factor=2, mode="nearest")
            return self.out(f.silu(self.norm(self.g(fw.cat([d, a], 1), t))))

    loss = lambda m, b: f.mse_loss(m(b[0] + b[2], b[1]).float(), b[2])
    batch = (Given((16, 3, 64, 64)), Given((16,)), Given((16, 3, 64, 64)))
    return Network(Denoiser(), loss, batch, operands=2)
