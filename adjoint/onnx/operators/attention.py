"""Attention, in its forms, and the rotary embedding."""

from __future__ import annotations

import math
from typing import Any

import adjoint as ad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.onnx.reading import OnnxError
from adjoint.onnx.table import NodeCall, operator
from adjoint.onnx.types import TENSORS, Value, element


def heads(x: Tensor, count: int) -> Tensor:
    """(B, T, H*D) as (B, H, T, D)."""
    return x.reshape(x.shape[0], x.shape[1], count, -1).transpose(1, 2)


def merged(x: Tensor) -> Tensor:
    """(B, H, T, D) as (B, T, H*D)."""
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


def shared(x: Tensor, query: Tensor) -> Tensor:
    """Heads of keys or values, each repeated for the heads of queries that share it."""
    times = int(query.shape[1]) // int(x.shape[1])
    return x if times == 1 else ad.repeat_interleave(x, times, dim=1)


def _bias(
    q: Tensor,
    k: Tensor,
    mask: Tensor | None,
    past: Tensor | None,
    lengths: Tensor | None,
    causal: bool,
    left: int,
    right: int,
) -> Tensor:
    """What is added to the scores: (T, S), or of more dimensions."""
    queries, keys = q.shape[2], k.shape[2]
    none = float("-inf")
    bias = ad.zeros(queries, keys, dtype=q.dtype)
    if mask is not None:
        short = keys - mask.shape[-1]
        mask = ad.where(mask, ad.zeros((), dtype=q.dtype), none) if mask.dtype is ad.bool else mask
        if short > 0:
            mask = ad.cat([mask, ad.full((*mask.shape[:-1], short), none, dtype=mask.dtype)], -1)
        bias = bias + mask
    row, column = ad.arange(queries)[:, None], ad.arange(keys)[None, :]
    if past is not None:
        row = row + past.shape[2]
    elif lengths is not None:
        row = row + (lengths.long().reshape(-1, 1, 1, 1) - queries)
    allowed = ad.ones_like(column, dtype=ad.bool)
    if causal:
        allowed = allowed & (column <= row)
    if left >= 0:
        allowed = allowed & (column >= row - left)
    if right >= 0:
        allowed = allowed & (column <= row + right)
    if lengths is not None:
        allowed = allowed & (column < lengths.long().reshape(-1, 1, 1, 1))
    return ad.where(allowed, bias, ad.full((), none, dtype=q.dtype))


@operator("Attention")
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Value = None,
    past_key: Value = None,
    past_value: Value = None,
    nonpad_kv_seqlen: Value = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    left_window_size: int = -1,
    right_window_size: int = -1,
    call: NodeCall,
) -> tuple[Tensor, ...]:
    """Attention with masks, windows, a cache, shared heads, a cap; no key to see gives zero."""
    flat = q.ndim == 3
    if flat:
        if not q_num_heads or not kv_num_heads:
            raise OnnxError(
                "onnx: Attention of three dimensions needs q_num_heads and kv_num_heads."
            )
        q, k, v = heads(q, q_num_heads), heads(k, kv_num_heads), heads(v, kv_num_heads)
    if past_key is not None:
        k, v = ad.cat([past_key, k], 2), ad.cat([past_value, v], 2)
    bias = _bias(
        q,
        k,
        attn_mask,
        past_key,
        nonpad_kv_seqlen,
        bool(is_causal),
        left_window_size,
        right_window_size,
    )
    factor = math.sqrt(1 / math.sqrt(q.shape[3]) if scale is None else scale)
    root = ad.full((), factor, dtype=q.dtype)
    scores = ad.matmul(q * root, (shared(k, q) * root).transpose(2, 3))
    seen = scores
    if softcap:
        scores = softcap * ad.tanh(scores / softcap)
        seen = scores if qk_matmul_output_mode == 1 else seen
    if qk_matmul_output_mode == 0 and softcap:
        seen = scores
    scores = scores + bias
    seen = scores if qk_matmul_output_mode == 2 else seen
    weights = probabilities(scores, bias, softmax_precision, q)
    seen = weights.to(q.dtype) if qk_matmul_output_mode == 3 else seen
    out = ad.matmul(weights.to(q.dtype), shared(v, q))
    return (merged(out) if flat else out), k, v, seen


def probabilities(scores: Tensor, bias: Tensor, precision: int | None, q: Tensor) -> Tensor:
    """Softmax of scores; zero where every key is masked."""
    wide = scores if precision is None else scores.to(TENSORS[element(precision, "Attention")])
    hidden = ad.amax(bias, -1, keepdim=True) == float("-inf")
    weights = ad.softmax(ad.where(hidden, ad.zeros_like(wide), wide), -1)
    return ad.where(hidden, ad.zeros_like(weights), weights)


@operator("FlexAttention", domain="ai.onnx.preview")
def flex_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score_mod: Any = None,
    prob_mod: Any = None,
    scale: float | None = None,
    softmax_precision: int | None = None,
    call: NodeCall,
) -> Tensor:
    """Attention whose scores and probabilities graphs of the model change."""
    precision = ad.float64 if q.dtype is ad.float64 else ad.float32
    if softmax_precision:
        precision = TENSORS[element(softmax_precision, "FlexAttention")]
    factor = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    scores = (ad.matmul(q, shared(k, q).transpose(2, 3)) * factor).to(precision)
    if score_mod is not None:
        scores = call.body(score_mod)(scores)[0]
    weights = ad.softmax(scores, -1)
    if prob_mod is not None:
        weights = call.body(prob_mod)(weights)[0]
    return ad.matmul(weights.to(v.dtype), shared(v, q)).to(q.dtype)


@operator("LinearAttention")
def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_state: Value = None,
    decay: Value = None,
    beta: Value = None,
    *,
    q_num_heads: int,
    kv_num_heads: int,
    update_rule: str = "gated_delta",
    scale: float = 0.0,
    chunk_size: int = 64,
) -> tuple[Tensor, Tensor]:
    """A recurrence over tokens on a state of keys by values."""
    dtype = q.dtype
    wide = ad.float64 if dtype is ad.float64 else ad.float32
    q, k, v = (
        heads(q.to(wide), q_num_heads),
        heads(k.to(wide), kv_num_heads),
        heads(v.to(wide), kv_num_heads),
    )
    batch, _, length, width = (int(d) for d in q.shape)
    factor = scale or 1 / math.sqrt(width)
    state = (
        ad.zeros(batch, kv_num_heads, width, v.shape[3], dtype=wide)
        if past_state is None
        else past_state.to(wide)
    )
    gates = None if decay is None else ad.exp(heads(decay.to(wide), kv_num_heads))
    rates = None if beta is None else heads(beta.to(wide), min(kv_num_heads, int(beta.shape[2])))
    outputs = []
    for t in range(length):
        if update_rule in ("gated", "gated_delta") and gates is not None:
            state = state * gates[:, :, t].unsqueeze(-1)
        key, value = k[:, :, t].unsqueeze(-1), v[:, :, t].unsqueeze(-2)
        if update_rule in ("delta", "gated_delta"):
            value = value - ad.matmul(key.transpose(2, 3), state)
            value = value if rates is None else value * rates[:, :, t].unsqueeze(-1)
        state = state + key * value
        outputs.append(ad.matmul(q[:, :, t].unsqueeze(-2), shared(state, q)) * factor)
    return merged(ad.cat(outputs, 2)).to(dtype), state.to(
        dtype if past_state is None else past_state.dtype
    )


@operator("RotaryEmbedding")
def rotary_embedding(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    position_ids: Value = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """Pairs of elements turned by angles of their positions."""
    flat = x.ndim == 3
    parts = (
        x.reshape(x.shape[0], x.shape[1], num_heads, -1) if flat else x.transpose(1, 2)
    )  # (B, T, H, D)
    width = rotary_embedding_dim or int(parts.shape[3])
    turned, rest = parts[..., :width], parts[..., width:]
    if position_ids is not None:
        cos, sin = cos[position_ids.long()], sin[position_ids.long()]
    cos, sin = (v[..., : width // 2].unsqueeze(2) for v in (cos, sin))
    if interleaved:
        first, second = turned[..., 0::2], turned[..., 1::2]
    else:
        first, second = turned[..., : width // 2], turned[..., width // 2 :]
    real, imaginary = cos * first - sin * second, sin * first + cos * second
    if interleaved:
        joined = ad.stack([real, imaginary], -1).reshape(turned.shape)
    else:
        joined = ad.cat([real, imaginary], -1)
    out = ad.cat([joined, rest], -1)
    return out.reshape(x.shape) if flat else out.transpose(1, 2)
