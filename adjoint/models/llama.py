"""Llama (Touvron et al., 2023; with grouped heads from version 2), Hugging Face's weight names."""

from __future__ import annotations

from dataclasses import dataclass

from adjoint import nn
from adjoint.nn import functional as F
from adjoint.ops.join import cat
from adjoint.ops.ranges import arange
from adjoint.tensor.tensor import Tensor

Cache = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """Sizes of a Llama; the defaults are those of 7B."""

    vocab_size: int = 32000
    hidden_size: int = 4096
    intermediate_size: int = 11008
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    num_key_value_heads: int = 32
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-6

    def parameters(self) -> int:
        """The number of parameters of such a model.

        >>> LlamaConfig().parameters()
        6738415616
        """
        width, size = self.hidden_size, self.hidden_size // self.num_attention_heads
        attention = 2 * width * width + 2 * width * size * self.num_key_value_heads
        layer = attention + 3 * width * self.intermediate_size + 2 * width
        return 2 * self.vocab_size * width + self.num_hidden_layers * layer + width


def rotate(x: Tensor, start: int, theta: float) -> Tensor:
    """Rotary positions: each pair (i, i + size/2) turned by an angle that grows with the place."""
    size, length = x.shape[-1], x.shape[-2]
    frequency = theta ** (-arange(0, size, 2, device=x.device).float() / size)  # (size/2)
    angle = arange(start, start + length, device=x.device).float()[:, None] * frequency
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)  # (T, size/2)
    first, second = x.chunk(2, -1)
    return cat([first * cos - second * sin, second * cos + first * sin], -1)


class LlamaAttention(nn.Module):
    """Causal attention with rotary positions; several query heads share a key head."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        width = config.hidden_size
        self.size = width // config.num_attention_heads
        shared = self.size * config.num_key_value_heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, shared, bias=False)
        self.v_proj = nn.Linear(width, shared, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(
        self, x: Tensor, past: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        B, T, C = x.shape
        q, k, v = (
            p(x).view(B, T, -1, self.size).transpose(1, 2)  # (B, heads, T, size)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        start = 0 if past is None else int(past[0].shape[2])
        q, k = (rotate(part, start, self.config.rope_theta) for part in (q, k))
        if past is not None:
            k, v = cat([past[0], k], 2), cat([past[1], v], 2)
        mask = None
        if past is not None and T > 1:  # each token sees the past and those before it
            places = arange(start + T, device=x.device)
            mask = places[None, :] <= places[start:, None]
        grouped = self.config.num_key_value_heads != self.config.num_attention_heads
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=past is None, enable_gqa=grouped
        )
        return self.o_proj(y.transpose(1, 2).reshape(B, T, C)), (k, v)


class LlamaMLP(nn.Module):
    """SwiGLU feed-forward."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        width, hidden = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(nn.Module):
    """Attention and feed-forward, each after a normalisation, beside shortcuts."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        width, eps = config.hidden_size, config.rms_norm_eps
        self.self_attn = LlamaAttention(config)
        self.mlp = LlamaMLP(config)
        self.input_layernorm = nn.RMSNorm(width, eps=eps)
        self.post_attention_layernorm = nn.RMSNorm(width, eps=eps)

    def forward(
        self, x: Tensor, past: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        y, kept = self.self_attn(self.input_layernorm(x), past)
        x = x + y
        return x + self.mlp(self.post_attention_layernorm(x)), kept


class Llama(nn.Module):
    """The language model, with a cache of keys and values for generation.

    Shape:
        (B, T) tokens -> (B, T, vocab_size) scores of the next token

    Example:
        >>> import adjoint as ad
        >>> model = Llama(LlamaConfig(11, 16, 32, 2, 4, 2))
        >>> tokens = ad.arange(6).view(1, 6)
        >>> whole = model(tokens)
        >>> first, cache = model.step(tokens[:, :4])
        >>> rest, cache = model.step(tokens[:, 4:], cache)
        >>> ad.allclose(whole[:, 4:], rest, atol=1e-5)
        True
    """

    def __init__(self, config: LlamaConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or LlamaConfig()
        self.model = nn.ModuleDict(
            {
                "embed_tokens": nn.Embedding(config.vocab_size, config.hidden_size),
                "layers": nn.ModuleList(
                    LlamaLayer(config) for _ in range(config.num_hidden_layers)
                ),
                "norm": nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps),
            }
        )
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def step(self, tokens: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        """Scores for new tokens after those in the cache, and the longer cache."""
        x = self.model["embed_tokens"](tokens)
        longer: Cache = []
        for index, layer in enumerate(self.model["layers"]):
            x, kept = layer(x, None if cache is None else cache[index])
            longer.append(kept)
        return self.lm_head(self.model["norm"](x)), longer

    def forward(self, tokens: Tensor) -> Tensor:
        return self.step(tokens)[0]
