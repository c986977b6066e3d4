"""Attention of sequences of different lengths that lie one after another."""

from __future__ import annotations

import math
from typing import NamedTuple

from adjoint.engine.core.dtype import int32, int64
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.ops.nn.attention import attend_ranges
from adjoint.engine.ops.nn.key_ranges import KEY_RANGES
from adjoint.engine.tensor.tensor import Tensor

Window = tuple[int, int]


class AuxRequest(NamedTuple):
    """Which further results are wanted: the logsumexp of each query's scores."""

    lse: bool = False


def varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    is_causal: bool = False,
    return_aux: AuxRequest | None = None,
    *,
    scale: float | None = None,
    window_size: Window = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention within each of several sequences, whose rows lie one after another.

    Memory grows with the number of rows: there is no padding, and no mask.

    Args:
        query: (rows of all sequences, heads, features).
        key: the same of keys.
        value: the same of values.
        cu_seq_q: where each sequence of queries begins, and where the last ends: (sequences + 1,).
        cu_seq_k: the same of keys; None where they lie as queries do.
        max_q: the greatest length of queries. Nothing depends on it.
        max_k: the greatest length of keys. Nothing depends on it.
        is_causal: as a window of (-1, 0).
        return_aux: asks for the logsumexp, (heads, rows), as a second result.
        scale: the factor of products; one over the root of the features unless given.
        window_size: how many keys before and after its own place a query sees; -1: all of them.
            Ends of queries and keys are at the same place.
        enable_gqa: groups of heads of queries may share a head of keys.
        seqused_k: how many keys of each sequence are there yet.
        block_table: refused unless None: there are no paged keys.
        num_splits: accepted as PyTorch has it. Results of a sequence depend on nothing beside it.

    Example:
        >>> import adjoint as ad
        >>> x, ends = ad.randn(5, 1, 4), ad.tensor([0, 2, 5])
        >>> varlen_attn(x, x, x, ends, ends, 3, 3).shape
        adjoint.Size([5, 1, 4])
    """
    if block_table is not None:
        raise NotImplementedError("varlen_attn: there are no paged keys; pass block_table=None.")
    cu_seq_k = cu_seq_q if cu_seq_k is None else cu_seq_k
    _check(query, key, value, cu_seq_q, cu_seq_k, enable_gqa)
    left, right = (window_size[0], 0) if is_causal else window_size
    used = () if seqused_k is None else (seqused_k,)
    low, high = KEY_RANGES(cu_seq_q, cu_seq_k, *used, rows=query.shape[0], left=left, right=right)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    heads, shared = query.shape[1], key.shape[1]
    q, k, v = (x.transpose(0, 1) for x in (query, key, value))
    if heads != shared:
        q = q.unflatten(0, (shared, heads // shared))
        k, v = k.unsqueeze(1), v.unsqueeze(1)
    out, lse = attend_ranges(q, k, v, low, high, factor)
    if heads != shared:
        out, lse = out.flatten(0, 1), lse.flatten(0, 1)
    out = out.transpose(0, 1)
    return (out, lse.squeeze(-1)) if return_aux is not None and return_aux.lse else out


def _check(
    query: Tensor, key: Tensor, value: Tensor, starts: Tensor, key_starts: Tensor, shared: bool
) -> None:
    """Raise where shapes or dtypes are none of this function's."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.ndim != 3:
            raise ShapeError(
                f"varlen_attn: {name} must be (rows, heads, features), received {tuple(x.shape)}"
            )
    if key.shape[:2] != value.shape[:2] or query.shape[2] != key.shape[2]:
        raise ShapeError(
            "varlen_attn: keys and values must have the same rows and heads, queries and keys the "
            f"same features; received query {tuple(query.shape)}, key {tuple(key.shape)}, value "
            f"{tuple(value.shape)}"
        )
    heads, own = query.shape[1], key.shape[1]
    if heads != own and (not shared or not own or heads % own):
        raise ShapeError(
            f"varlen_attn: {heads} heads of queries and {own} of keys; enable_gqa=True allows a "
            "multiple"
        )
    for name, x in (("cu_seq_q", starts), ("cu_seq_k", key_starts)):
        if x.dtype not in (int32, int64):
            raise DTypeError(f"varlen_attn: {name} must be int32 or int64, received {x.dtype}")
        if x.ndim != 1 or x.shape[0] < 2:
            raise ShapeError(f"varlen_attn: {name} must be (sequences + 1,), received {x.shape}")
    if starts.shape != key_starts.shape:
        raise ShapeError(
            f"varlen_attn: {starts.shape[0] - 1} sequences of queries and "
            f"{key_starts.shape[0] - 1} of keys"
        )
