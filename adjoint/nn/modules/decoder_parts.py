"""Parts of present-day decoders: rotary positions, SwiGLU, shared key heads, a cache of keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.ops.create.ranges import arange
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.linear import Linear
from adjoint.nn.modules.module import Module


class RotaryEmbedding(Module):
    r"""Positions as rotations: pair i of a head turns by $t \cdot base^{-2i/d}$ at position t.

    The pair of element i is element i + d/2, as in Llama (Su et al. 2021: RoFormer).

    Args:
        dim: d, the size of a head; even.
        max_positions: how many positions are prepared.
        base: of the frequencies.
        scaling: a function of the frequencies, for positions beyond those of the training.

    Shape:
        (..., T, d) -> (..., T, d)

    Example:
        >>> import adjoint as ad
        >>> ad.nn.RotaryEmbedding(8)(ad.randn(2, 4, 5, 8)).shape
        adjoint.Size([2, 4, 5, 8])
    """

    def __init__(
        self,
        dim: int,
        max_positions: int = 2048,
        base: float = 10000.0,
        scaling: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        if dim % 2:
            raise ValueError(f"RotaryEmbedding: dim must be even, received {dim}")
        self.dim, self.max_positions, self.base = dim, max_positions, base
        frequencies = base ** (-(arange(0, dim, 2).float() / dim))
        if scaling is not None:
            frequencies = scaling(frequencies)
        angles = arange(max_positions).float().unsqueeze(1) * frequencies  # (T, d/2)
        self.register_buffer("cos", cat([angles.cos()] * 2, -1), persistent=False)
        self.register_buffer("sin", cat([angles.sin()] * 2, -1), persistent=False)

    def forward(self, x: Tensor, offset: int = 0) -> Tensor:
        """x turned by its positions, which begin at `offset`."""
        steps = x.shape[-2]
        if x.shape[-1] != self.dim or offset + steps > self.max_positions:
            raise ShapeError(
                f"RotaryEmbedding: expected (..., T, {self.dim}) with positions below "
                f"{self.max_positions}, received {tuple(x.shape)} at offset {offset}"
            )
        cos = self.cos[offset : offset + steps].to(x.dtype)
        sin = self.sin[offset : offset + steps].to(x.dtype)
        first, second = x.chunk(2, -1)
        return x * cos + cat([-second, first], -1) * sin

    def extra_repr(self) -> str:
        return f"{self.dim}, max_positions={self.max_positions}, base={self.base}"


class SwiGLU(Module):
    r"""A gated feed-forward network: $W_2 (silu(W_1 x) \cdot W_3 x)$ (Shazeer 2020).

    Args:
        dim: size of inputs and outputs.
        hidden_dim: size between.
        bias: whether the maps have biases.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.SwiGLU(8, 16)(ad.randn(2, 8)).shape
        adjoint.Size([2, 8])
    """

    def __init__(
        self,
        dim: int,
        hidden_dim: int,
        bias: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.w1 = Linear(dim, hidden_dim, bias, device, dtype)
        self.w2 = Linear(hidden_dim, dim, bias, device, dtype)
        self.w3 = Linear(dim, hidden_dim, bias, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class KVCache(Module):
    """Keys and values of the positions seen so far, in buffers of a fixed size.

    Args:
        batch: how many sequences.
        heads: how many key heads.
        max_positions: room for how many positions.
        head_dim: size of a head.

    Example:
        >>> import adjoint as ad
        >>> cache = ad.nn.KVCache(1, 2, 8, 4)
        >>> keys, values = cache.update(ad.randn(1, 2, 3, 4), ad.randn(1, 2, 3, 4))
        >>> keys.shape, cache.length
        (adjoint.Size([1, 2, 3, 4]), 3)
    """

    def __init__(
        self,
        batch: int,
        heads: int,
        max_positions: int,
        head_dim: int,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.max_positions = max_positions
        self.length = 0
        for name in ("keys", "values"):
            room = zeros((batch, heads, max_positions, head_dim), device=device, dtype=dtype)
            self.register_buffer(name, room, persistent=False)

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append (batch, heads, T, head_dim) keys and values; returns all of them so far."""
        end = self.length + key.shape[-2]
        if end > self.max_positions:
            raise RuntimeError(
                f"KVCache: room for {self.max_positions} positions, received position {end - 1}. "
                "Make a larger cache, or call reset()."
            )
        with no_grad():
            self.keys[:, :, self.length : end] = key
            self.values[:, :, self.length : end] = value
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def reset(self) -> None:
        """Forget all positions."""
        self.length = 0


class GroupedQueryAttention(Module):
    """Causal self-attention whose query heads share key and value heads (Ainslie et al. 2023).

    Args:
        embed_dim: size of inputs and outputs.
        num_heads: query heads; they divide `embed_dim`.
        num_kv_heads: key and value heads; they divide `num_heads`.
        rotary: turns queries and keys by their positions; none by default.
        bias: whether the projections have biases.

    Shape:
        (B, T, embed_dim) -> (B, T, embed_dim)

    Example:
        >>> import adjoint as ad
        >>> ad.nn.GroupedQueryAttention(16, 4, 2)(ad.randn(2, 5, 16)).shape
        adjoint.Size([2, 5, 16])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_kv_heads: int,
        rotary: RotaryEmbedding | None = None,
        bias: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if embed_dim % num_heads or num_heads % num_kv_heads:
            raise ValueError(
                "GroupedQueryAttention: num_heads must divide embed_dim and num_kv_heads "
                f"num_heads, received {embed_dim}, {num_heads} and {num_kv_heads}"
            )
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim = embed_dim // num_heads
        narrow = num_kv_heads * self.head_dim
        self.q_proj = Linear(embed_dim, embed_dim, bias, device, dtype)
        self.k_proj = Linear(embed_dim, narrow, bias, device, dtype)
        self.v_proj = Linear(embed_dim, narrow, bias, device, dtype)
        self.o_proj = Linear(embed_dim, embed_dim, bias, device, dtype)
        self.rotary = rotary

    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        """Attention of each position to itself and those before, cached ones included."""
        batch, steps, _ = x.shape

        def heads(y: Tensor, count: int) -> Tensor:
            return y.reshape((batch, steps, count, self.head_dim)).transpose(1, 2)

        q = heads(self.q_proj(x), self.num_heads)
        k = heads(self.k_proj(x), self.num_kv_heads)
        v = heads(self.v_proj(x), self.num_kv_heads)
        before = 0 if cache is None else cache.length
        if self.rotary is not None:
            q, k = self.rotary(q, before), self.rotary(k, before)
        mask = None
        if cache is not None:
            k, v = cache.update(k, v)
            seen = x.new_ones((steps, before + steps)).tril(before)
            mask = seen.bool()
        out = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=True
        )
        return self.o_proj(out.transpose(1, 2).reshape((batch, steps, -1)))
