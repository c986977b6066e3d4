"""Scaled dot-product attention: one composite whose rules reuse the weights it computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import bool_
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.spec import Spec, broadcast_shapes
from adjoint.engine.ops.products.matmul import product
from adjoint.engine.ops.random.random import draw

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _split(extras: Sequence[Tensor], masked: bool) -> tuple[Tensor | None, Tensor | None]:
    """The mask and the dropout factors among the operands after query, key and value."""
    rest = list(extras)
    return rest.pop(0) if masked else None, rest[0] if rest else None


def _weights(scores: Tensor, safe: bool) -> Tensor:
    if not safe:
        return scores.softmax(-1)
    # A row that may attend to nothing gets zeros, where softmax would give nan.
    top = scores.detach().amax(-1, keepdim=True)
    e = (scores - top.masked_fill(top == -math.inf, 0)).exp()
    total = e.sum(-1, keepdim=True)
    return e / total.masked_fill(total == 0, 1)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *extras: Tensor,
    scale: float,
    causal: bool,
    masked: bool,
    safe: bool,
) -> tuple[Tensor, Tensor]:
    mask, keep = _split(extras, masked)
    dtype = query.dtype
    if dtype.is_half:  # one rounding, at the end
        query, key, value = query.float(), key.float(), value.float()
    scores = product(query * scale, key.transpose(-2, -1))  # (..., L, S)
    if causal:
        future = scores.new_ones(scores.shape[-2:], dtype=bool_).triu(1)
        scores = scores.masked_fill(future, -math.inf)
    if mask is not None:
        if mask.dtype is bool_:
            scores = scores.masked_fill(~mask, -math.inf)
        else:
            scores = scores + mask
    weights = _weights(scores, safe)
    out = product(weights if keep is None else weights * keep, value)
    if dtype.is_half:
        return out.to(dtype), weights.to(dtype)
    return out, weights


def _scores_cotangent(gs: Any, value: Tensor, later_outs: Any, extras: Any, masked: bool) -> Tensor:
    """From the cotangents of result and weights to that of the scores before softmax."""
    g, g_weights = gs
    keep = _split(extras, masked)[1]
    weights = later_outs[0]
    total = g_weights
    if g is not None:
        total = product(g, value.transpose(-2, -1))
        if keep is not None:
            total = total * keep
        if g_weights is not None:
            total = total + g_weights
    return weights * (total - (total * weights).sum(-1, keepdim=True))


def _query_vjp(
    gs: Any,
    key: Tensor,
    value: Tensor,
    later_outs: Any,
    extras: Any,
    masked: bool,
    scale: float,
    query_spec: Spec,
) -> Tensor:
    g = _scores_cotangent(gs, value, later_outs, extras, masked)
    return (product(g, key) * scale).sum_to_size(query_spec.shape)


def _key_vjp(
    gs: Any,
    query: Tensor,
    value: Tensor,
    later_outs: Any,
    extras: Any,
    masked: bool,
    scale: float,
    key_spec: Spec,
) -> Tensor:
    g = _scores_cotangent(gs, value, later_outs, extras, masked)
    return (product(g.transpose(-2, -1), query) * scale).sum_to_size(key_spec.shape)


def _value_vjp(
    gs: Any, later_outs: Any, extras: Any, masked: bool, value_spec: Spec
) -> Tensor | None:
    keep = _split(extras, masked)[1]
    weights = later_outs[0] if keep is None else later_outs[0] * keep
    if gs[0] is None:
        return None
    return product(weights.transpose(-2, -1), gs[0]).sum_to_size(value_spec.shape)


def _extra_vjp(
    gs: Any, value: Tensor, later_outs: Any, extras: Any, masked: bool, position: int
) -> Tensor | None:
    if not masked or position != 3:
        return None
    mask = extras[0]
    g = _scores_cotangent(gs, value, later_outs, extras, masked)
    return g.sum_to_size(mask.shape).to(mask.dtype)


# ATTENTION(query, key, value, [mask], [dropout factors]) -> (result, weights before dropout).
ATTENTION: Record = composite(
    "scaled_dot_product_attention",
    _attend,
    _query_vjp,
    _key_vjp,
    _value_vjp,
    _extra_vjp,
    operands=("query", "key", "value", "*extras"),
    outputs=2,
    policy="lower",
)


def dropout_factors(shape: Sequence[int], p: float, like: Tensor) -> Tensor:
    """0 with probability p, else 1 / (1 - p)."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if p == 1:
        return like.new_zeros(tuple(shape))
    name = "scaled_dot_product_attention"
    kept = draw(name, "bernoulli", (1.0 - p,), tuple(shape), like.dtype, like.device, None)
    return kept / (1.0 - p)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    causal: bool,
    scale: float,
    safe: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Result, weights, and the factors that dropout applied to them."""
    extras = [] if mask is None else [mask]
    keep = None
    if dropout_p:
        batch = broadcast_shapes("scaled_dot_product_attention", query.shape[:-2], key.shape[:-2])
        keep = dropout_factors((*batch, query.shape[-2], key.shape[-2]), dropout_p, query)
        extras.append(keep)
    out, weights = ATTENTION(
        query, key, value, *extras,
        scale=scale, causal=causal, masked=mask is not None, safe=safe,
    )  # fmt: skip
    return out, weights, keep


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Any, is_causal: bool) -> None:
    name = "scaled_dot_product_attention"
    for which, x in (("query", query), ("key", key), ("value", value)):
        if not is_tensor(x):
            raise TypeError(f"{name}(): argument '{which}' must be Tensor, not {type(x).__name__}")
    if not query.dtype is key.dtype is value.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype} key.dtype: {key.dtype} and value.dtype: {value.dtype} instead."
        )
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be at least 2 dimensional, but got query.dim(): "
            f"{query.ndim}, key.dim(): {key.ndim} and value.dim(): {value.ndim} instead."
        )
    if mask is None:
        return
    if is_causal:
        raise RuntimeError(f"{name}: Explicit attn_mask should not be set when is_causal=True")
    if mask.dtype is not bool_ and not mask.dtype.is_floating_point:
        raise RuntimeError(
            f"Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {mask.dtype} and query.dtype: {query.dtype} instead."
        )


def _share_heads(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values repeated for the groups of query heads that share them."""
    heads = query.shape[-3]
    if heads % key.shape[-3] or heads % value.shape[-3]:
        raise RuntimeError(
            "scaled_dot_product_attention: enable_gqa wants a number of query heads that those of "
            f"key and value divide, received {heads}, {key.shape[-3]} and {value.shape[-3]}"
        )
    return (
        key.repeat_interleave(heads // key.shape[-3], -3),
        value.repeat_interleave(heads // value.shape[-3], -3),
    )


@public(namespaces=("nn.functional",))
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    r"""Values averaged by the likeness of queries and keys: $softmax(s Q K^T + mask) V$.

    A query that may attend to nothing gets zeros.

    Args:
        query: (..., heads, L, E).
        key: (..., heads, S, E).
        value: (..., heads, S, Ev).
        attn_mask: broadcasts to (..., L, S); booleans say where to attend, numbers are added.
        dropout_p: probability of dropping a weight; applied whenever it is above zero.
        is_causal: whether position i sees positions up to i only.
        scale: s, by default $1/\sqrt{E}$.
        enable_gqa: whether key and value may have fewer heads, shared by groups of queries.

    Example:
        >>> import adjoint as ad
        >>> q, k, v = ad.randn(3, 2, 4, 5, 8)
        >>> ad.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).shape
        adjoint.Size([2, 4, 5, 8])
    """
    _check(query, key, value, attn_mask, is_causal)
    if enable_gqa:
        key, value = _share_heads(query, key, value)
    factor = 1.0 / math.sqrt(max(query.shape[-1], 1)) if scale is None else float(scale)
    safe = attn_mask is not None
    return attend(query, key, value, attn_mask, dropout_p, is_causal, factor, safe)[0]
