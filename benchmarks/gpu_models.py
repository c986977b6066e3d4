"""Models of the GPU table that are written once, for Adjoint and for PyTorch.

The framework's module is given: what is built from it is the same program in both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

WORDS = 32000  # of a Llama's vocabulary
CACHE = 1024  # tokens that a decoder has room for


def llama(ad: Any, width: int = 1024, layers: int = 8, heads: int = 16, shared: int = 4) -> Any:
    """Llama's blocks: RMS norms, rotary positions, shared keys, SwiGLU."""
    nn, attend = ad.nn, ad.nn.functional.scaled_dot_product_attention
    size = width // heads

    class Norm(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(ad.ones(width))

        def forward(self, x: Any) -> Any:
            y = x.float()
            return y * ad.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight

    def turned(x: Any, cos: Any, sin: Any) -> Any:
        a, b = x.chunk(2, -1)
        return x * cos + ad.cat([-b, a], -1) * sin

    def linear(given: int, made: int) -> Any:
        return nn.Linear(given, made, bias=False)

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = Norm(), Norm()
            self.query, self.out = linear(width, width), linear(width, width)
            self.key, self.value = linear(width, shared * size), linear(width, shared * size)
            self.gate, self.up = linear(width, 3 * width), linear(width, 3 * width)
            self.down = linear(3 * width, width)

        def forward(self, x: Any, cos: Any, sin: Any) -> Any:
            B, T, C = x.shape
            h = self.norm1(x)
            q, k, v = (
                part(h).view(B, T, n, size).transpose(1, 2)
                for part, n in ((self.query, heads), (self.key, shared), (self.value, shared))
            )
            q, k = (turned(y, cos, sin).to(v.dtype) for y in (q, k))
            y = attend(q, k, v, is_causal=True, enable_gqa=True)
            x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
            h = self.norm2(x)
            return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))

    class Llama(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(WORDS, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm, self.head = Norm(), linear(width, WORDS)
            rates = 10000.0 ** (-ad.arange(0, size, 2).float() / size)
            angles = ad.arange(1024).float()[:, None] * rates[None]
            angles = ad.cat([angles, angles], -1)
            self.register_buffer("cos", angles.cos())
            self.register_buffer("sin", angles.sin())

        def forward(self, x: Any) -> Any:
            h, length = self.tokens(x), x.shape[1]
            for block in self.blocks:
                h = block(h, self.cos[:length], self.sin[:length])
            return self.head(self.norm(h))

    return Llama()


def vit(ad: Any, width: int = 768, layers: int = 12, heads: int = 12) -> Any:
    """ViT-B/16."""
    nn = ad.nn

    class ViT(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 16, 16)
            self.first = nn.Parameter(ad.zeros(1, 1, width))
            self.places = nn.Parameter(ad.randn(1, 197, width) * 0.02)
            self.blocks = nn.ModuleList(
                [
                    nn.TransformerEncoderLayer(
                        width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
                    )
                    for _ in range(layers)
                ]
            )
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

        def forward(self, x: Any) -> Any:
            h = self.patches(x).flatten(2).transpose(1, 2)
            h = ad.cat([self.first.expand(h.shape[0], -1, -1), h], 1) + self.places
            for block in self.blocks:
                h = block(h)
            return self.head(self.norm(h)[:, 0])

    return ViT()


def lstm(ad: Any, width: int = 512) -> Any:
    """Two layers of an LSTM and a head over its last state."""
    nn = ad.nn

    class Recurrent(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.LSTM(128, width, 2, batch_first=True)
            self.head = nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.layers(x)[0][:, -1])

    return Recurrent()


def odd(ad: Any) -> Any:
    """Layers of sizes that nothing divides."""
    nn = ad.nn
    return nn.Sequential(
        nn.Linear(1001, 777), nn.LayerNorm(777), nn.GELU(), nn.Linear(777, 1533), nn.SiLU(),
        nn.Linear(1533, 333), nn.Softmax(-1), nn.Linear(333, 101),
    )  # fmt: skip


def trained(name: str, ad: Any) -> tuple[Any, Any, Any, int]:
    """A model, its input and target on the GPU, and how many tokens or samples they are."""
    make: Callable[[Any], Any]
    make, shape, classes = {
        "llama": (llama, (8, 1024), WORDS),
        "vit": (vit, (64, 3, 224, 224), 1000),
        "lstm": (lstm, (64, 64, 128), 10),
        "odd": (odd, (1777, 1001), 101),
    }[name]
    net = make(ad).to("cuda")
    if name == "llama":
        tokens = ad.randint(0, classes, (shape[0], shape[1] + 1)).to("cuda")
        return net, tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), shape[0] * shape[1]
    x, y = ad.randn(*shape).to("cuda"), ad.randint(0, classes, (shape[0],)).to("cuda")
    return net, x, y, shape[0]


def decoder(ad: Any, width: int = 768, layers: int = 12, heads: int = 12) -> Callable[..., Any]:
    """One token of GPT-2 at batch 1 in bfloat16, with a cache of keys and values."""
    nn, F = ad.nn, ad.nn.functional
    size = width // heads

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            for name in ("keys", "values"):
                self.register_buffer(name, ad.zeros(1, heads, CACHE, size))

        def forward(self, x: Any, at: Any, seen: Any) -> Any:
            q, k, v = (
                part.view(1, 1, heads, size).transpose(1, 2)
                for part in self.qkv(self.norm1(x)).split(width, 2)
            )
            self.keys.index_copy_(2, at, k)
            self.values.index_copy_(2, at, v)
            y = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)
            x = x + self.out(y.transpose(1, 2).reshape(1, 1, width))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Decoder(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(50304, width), nn.Embedding(CACHE, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm = nn.LayerNorm(width)

        def forward(self, token: Any, at: Any) -> Any:
            seen = (ad.arange(CACHE, device=token.device) <= at).reshape(1, 1, 1, CACHE)
            h = (self.tokens(token) + self.places(at)).reshape(1, 1, width)
            for block in self.blocks:
                h = block(h, at, seen)
            return F.linear(self.norm(h), self.tokens.weight).argmax(-1).reshape(1)

    net = Decoder().to("cuda").to(ad.bfloat16).eval()

    def step(token: Any, at: Any) -> Any:
        with ad.no_grad():
            return net(token, at)

    return step
