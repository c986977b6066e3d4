"""Attention with functions of scores and of places: PyTorch's `flex_attention`.

Functions are mapped over (batch, head, query, key) by `vmap`. A block mask says which blocks of
queries and keys meet at all; which of their elements do is for its function to say.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from adjoint.engine.autodiff.transforms.batching import vmap
from adjoint.engine.backends.array.interop import tensor
from adjoint.engine.core.dtype import bool_, float32, float64, int32
from adjoint.engine.core.errors import DTypeTypeError, ShapeValueError
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.ops.create.ranges import arange
from adjoint.engine.ops.nn.attention import scaled_dot_product_attention
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.attention.block_mask import BlockMask as BlockMask
from adjoint.nn.attention.block_mask import everywhere, ordered

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]
_DEFAULT_SPARSE_BLOCK_SIZE = 128
_score_mod_signature = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
_mask_mod_signature = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
Places = tuple[Tensor, Tensor, Tensor, Tensor]


class AuxRequest(NamedTuple):
    """Which results besides the attention are wanted."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """Those results: None where not asked for."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def _mapped(fn: Callable[..., Any], with_score: bool) -> Callable[..., Any]:
    """A function of one score and place, over all of them."""
    first = (0,) if with_score else ()
    for place in (3, 2, 1, 0):
        dims = tuple(0 if place == dim else None for dim in range(4))
        fn = vmap(fn, in_dims=(*first, *dims))
    return fn


def _places(batch: int, heads: int, queries: int, keys: int, device: Any) -> Places:
    ranges = [arange(0, size, device=device) for size in (batch, heads, queries, keys)]
    return ranges[0], ranges[1], ranges[2], ranges[3]


noop_mask = everywhere


def and_masks(*mask_mods: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Where all of some masks hold."""

    def both(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        answers = (mod(b, h, q, kv) for mod in mask_mods)
        return functools.reduce(lambda x, y: x & y, answers, b.new_ones((), dtype=bool_))

    return both


def or_masks(*mask_mods: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Where one of some masks holds."""

    def either(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        answers = (mod(b, h, q, kv) for mod in mask_mods)
        return functools.reduce(lambda x, y: x | y, answers, b.new_zeros((), dtype=bool_))

    return either


def create_mask(
    mod_fn: Callable[..., Tensor],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
) -> Tensor:
    """A mask function's values, (B, H, Q_LEN, KV_LEN).

    Example:
        >>> create_mask(lambda b, h, q, kv: q >= kv, 1, 1, 2, 3)
        tensor([[[[ True, False, False],
                  [ True,  True, False]]]])
    """
    places = _places(B or 1, H or 1, Q_LEN, KV_LEN, device)
    mask = _mapped(mod_fn, with_score=False)(*places)
    if mask.dtype is not bool_:
        raise DTypeTypeError(f"create_mask: a mask function gives booleans, received {mask.dtype}")
    return mask


def create_block_mask(
    mask_mod: Callable[..., Tensor],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
) -> BlockMask:
    """A mask function with the blocks of queries and keys in which it ever holds.

    Args:
        mask_mod: whether a query meets a key, of batch, head, query and key.
        B: for how many batches, one for all of them if None.
        H: for how many heads, likewise.
        Q_LEN: the number of queries.
        KV_LEN: the number of keys.
        device: where the mask lies, the default device unless given.
        BLOCK_SIZE: of queries and of keys.
        separate_full_blocks: whether blocks in which it always holds are listed apart.

    Example:
        >>> mask = create_block_mask(lambda b, h, q, kv: q >= kv, 1, 1, 256, 256)
        >>> mask.shape, mask.sparsity()
        ((1, 1, 256, 256), 25.0)
    """
    rows, columns = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    blocks_q, blocks_kv = math.ceil(Q_LEN / rows), math.ceil(KV_LEN / columns)
    padded = zeros(
        (*mask.shape[:2], blocks_q * rows, blocks_kv * columns), dtype=bool_, device=mask.device
    )
    padded[:, :, :Q_LEN, :KV_LEN] = mask
    split = padded.view(*mask.shape[:2], blocks_q, rows, blocks_kv, columns)
    count = split.to(int32).sum((3, 5))
    if not separate_full_blocks:
        counts, indices = ordered(count > 0)
        return BlockMask((Q_LEN, KV_LEN), counts, indices, None, None, (rows, columns), mask_mod)
    whole = count == rows * columns
    partial = (count > 0) & ~whole
    return BlockMask.from_dense_blocks(partial, whole, (rows, columns), mask_mod, (Q_LEN, KV_LEN))


def _repeated(x: Tensor, heads: int, enable_gqa: bool) -> Tensor:
    """Keys or values with as many heads as queries have."""
    if x.shape[1] == heads:
        return x
    if not enable_gqa or heads % x.shape[1]:
        raise ShapeValueError(
            f"flex_attention: queries have {heads} heads and keys {x.shape[1]}. Pass "
            "enable_gqa=True if the former is a multiple of the latter."
        )
    return x.repeat_interleave(heads // x.shape[1], 1)


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention whose scores a function changes and a block mask leaves out.

    Args:
        query: (B, Hq, L, E).
        key: (B, Hkv, S, E).
        value: (B, Hkv, S, Ev).
        score_mod: the new score, of a score and its batch, head, query and key.
        block_mask: which queries meet which keys.
        scale: what products are multiplied by, `1 / sqrt(E)` unless given.
        return_lse: whether to return the logarithms of the rows' sums as well.
        kernel_options: PyTorch's kernels' options, without a meaning here.

    Example:
        >>> import adjoint as ad
        >>> x = ad.ones(1, 1, 3, 2)
        >>> flex_attention(x, x, x, lambda s, b, h, q, kv: s - (q - kv).abs()).shape
        adjoint.Size([1, 1, 3, 2])
    """
    if any(x.ndim != 4 for x in (query, key, value)):
        raise ShapeValueError("flex_attention: query, key and value must have 4 dimensions")
    batch, heads, queries, width = query.shape
    key, value = _repeated(key, heads, enable_gqa), _repeated(value, heads, enable_gqa)
    if key.shape[0] != batch:
        if key.shape[0] != 1:
            raise ShapeValueError("flex_attention: queries and keys have different batches")
        key, value = key.expand(batch, -1, -1, -1), value.expand(batch, -1, -1, -1)
    places = _places(batch, heads, queries, key.shape[2], query.device)
    mask = None if block_mask is None else _mask_of(block_mask, places)
    asked = AuxRequest(lse=return_lse) if return_aux is None else return_aux
    if score_mod is None and not any(asked):
        return scaled_dot_product_attention(query, key, value, mask, scale=scale)
    factor = 1 / math.sqrt(width) if scale is None else scale
    wide = query.dtype if query.dtype is float64 else float32
    scores = (query.to(wide) @ key.to(wide).transpose(-2, -1)) * factor
    if score_mod is not None:
        scores = _mapped(score_mod, with_score=True)(scores, *places).to(wide)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    top = scores.amax(-1, keepdim=True)
    lse = scores.logsumexp(-1, keepdim=True)
    empty = top == -math.inf  # such rows give zeros
    weights = (scores - lse.masked_fill(empty, 0.0)).exp()
    out = (weights @ value.to(wide)).to(query.dtype)
    if return_aux is not None:
        return out, AuxOutput(
            lse.squeeze(-1) if asked.lse else None,
            top.squeeze(-1) if asked.max_scores else None,
        )
    return (out, lse.squeeze(-1)) if return_lse else out


def _mask_of(block_mask: BlockMask, places: Places) -> Tensor:
    """The mask of each query and key, (B or 1, H or 1, L, S)."""
    batch, heads, queries, keys = places
    wanted = len(queries), len(keys)
    if tuple(block_mask.seq_lengths) != wanted:
        raise ValueError(
            f"flex_attention: the block mask was made for lengths {block_mask.seq_lengths}, "
            f"received {wanted}. Make one for these, or take a part of it."
        )
    size = block_mask.kv_num_blocks.shape[:2]
    if size[0] not in (1, len(batch)) or size[1] not in (1, len(heads)):
        raise ShapeValueError(
            f"flex_attention: the block mask has batch and heads {tuple(size)}, received "
            f"{(len(batch), len(heads))}"
        )
    partial, whole = (
        blocks.repeat_interleave(block_mask.BLOCK_SIZE[0], -2).repeat_interleave(
            block_mask.BLOCK_SIZE[1], -1
        )[..., : wanted[0], : wanted[1]]
        for blocks in block_mask.dense_blocks()
    )
    if block_mask.mask_mod is noop_mask:
        return partial | whole
    first = tensor([0], device=batch.device)
    asked = (
        first if size[0] == 1 else batch,
        first if size[1] == 1 else heads,
        queries,
        keys,
    )
    return (partial & _mapped(block_mask.mask_mod, with_score=False)(*asked)) | whole
