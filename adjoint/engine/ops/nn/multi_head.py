"""Multi-head attention as a function of all its parameters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from adjoint.engine.core.dtype import bool_
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.public import public
from adjoint.engine.ops.nn.attention import attend, attend_and_show
from adjoint.engine.ops.products.linear import linear
from adjoint.engine.ops.shape.join import cat

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def check_shapes(
    query: Tensor, key: Tensor, value: Tensor, padding: Any, mask: Any, heads: int
) -> bool:
    """Whether the inputs have a batch; refuses masks of other shapes."""
    if query.ndim not in (2, 3):
        raise AssertionError(
            "query should be unbatched 2D or batched 3D tensor but received "
            f"{query.ndim}-D query tensor"
        )
    batched = query.ndim == 3
    word = "batched 3-D" if batched else "unbatched 2-D"
    if key.ndim != query.ndim or value.ndim != query.ndim:
        raise AssertionError(
            f"For {word} `query`, expected `key` and `value` to be {query.ndim}-D but found "
            f"{key.ndim}-D and {value.ndim}-D tensors respectively"
        )
    if padding is not None and padding.ndim != query.ndim - 1:
        raise AssertionError(
            f"For {word} `query`, expected `key_padding_mask` to be `None` or "
            f"{query.ndim - 1}-D but found {padding.ndim}-D tensor instead"
        )
    if mask is not None:
        if mask.ndim not in (2, 3):
            raise AssertionError(
                f"For {word} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
                f"{mask.ndim}-D tensor instead"
            )
        if not batched and mask.ndim == 3:
            wanted = (heads, query.shape[0], key.shape[0])
            if tuple(mask.shape) != wanted:
                raise AssertionError(
                    f"Expected `attn_mask` shape to be {wanted} but got {tuple(mask.shape)}"
                )
    return batched


def additive(mask: Tensor | None, name: str, like: Tensor) -> Tensor | None:
    """A mask as numbers to add: booleans say where not to attend."""
    if mask is None or mask.dtype.is_floating_point:
        return mask
    if mask.dtype is not bool_:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return like.new_zeros(mask.shape).masked_fill(mask, -math.inf)


def project_packed(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor | None, bias: Tensor | None
) -> list[Tensor]:
    """The inputs by a third of a weight each; what is the same tensor is multiplied once."""
    if weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    size = query.shape[-1]
    if query is key is value:
        return list(linear(query, weight, bias).chunk(3, -1))
    if key is value:
        w_q, w_kv = weight.split([size, 2 * size])
        b_q, b_kv = (None, None) if bias is None else bias.split([size, 2 * size])
        return [linear(query, w_q, b_q), *linear(key, w_kv, b_kv).chunk(2, -1)]
    weights = weight.chunk(3)
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return [linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)]


def project_apart(
    inputs: tuple[Tensor, ...],
    weights: tuple[Tensor | None, ...],
    biases: tuple[Tensor | None, ...],
) -> list[Tensor]:
    """Each input by the weight and the bias in its place."""
    projected = []
    for x, name, w, b in zip(inputs, "qkv", weights, biases, strict=True):
        if w is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
        projected.append(linear(x, w, b))
    return projected


def _check_mask(mask: Tensor, heads: int, batch: int, length: int, source: int) -> Tensor:
    wanted = (length, source) if mask.ndim == 2 else (batch * heads, length, source)
    if tuple(mask.shape) != wanted:
        raise ShapeError(
            f"The shape of the {mask.ndim}D attn_mask is {tuple(mask.shape)}, but should be "
            f"{wanted}."
        )
    return mask if mask.ndim == 2 else mask.reshape((batch, heads, length, source))


def _longer(mask: Tensor | None) -> Tensor | None:
    """A mask for one more position, which is always seen."""
    if mask is None:
        return None
    return cat([mask, mask.new_zeros((*mask.shape[:-1], 1))], -1)


def _appended(x: Tensor, row: Tensor) -> Tensor:
    """(B, S, C) with one more position, the same for the whole batch."""
    return cat([x, row.reshape((1, 1, -1)).expand((x.shape[0], 1, x.shape[2]))], 1)


def _static(name: str, x: Tensor, batch: int, heads: int, size: int) -> Tensor:
    if x.shape[0] != batch * heads:
        raise AssertionError(f"expecting {name}.size(0) of {batch * heads}, but got {x.shape[0]}")
    if x.shape[2] != size:
        raise AssertionError(f"expecting {name}.size(2) of {size}, but got {x.shape[2]}")
    return x.reshape((batch, heads, x.shape[1], size))


def _check_sizes(query: Tensor, key: Tensor, value: Tensor, layer: AttentionHeads) -> None:
    """Raise unless inputs fit the projections."""
    embed = query.shape[2]
    if embed != layer.size:
        raise AssertionError(f"was expecting embedding dimension of {layer.size}, but got {embed}")
    if embed // layer.heads * layer.heads != embed:
        raise AssertionError(f"embed_dim {embed} not divisible by num_heads {layer.heads}")
    if layer.apart is not None:
        if tuple(key.shape[:2]) != tuple(value.shape[:2]):
            raise AssertionError(
                f"key's sequence and batch dims {tuple(key.shape[:2])} do not match value's "
                f"{tuple(value.shape[:2])}"
            )
    elif key.shape != value.shape:
        raise AssertionError(
            f"key shape {tuple(key.shape)} does not match value shape {tuple(value.shape)}"
        )


def _with_padding(mask: Tensor | None, padding: Tensor, batch: int, source: int) -> Tensor:
    """A mask that also hides keys of sequences that are shorter than the batch."""
    if tuple(padding.shape) != (batch, source):
        raise AssertionError(
            f"expecting key_padding_mask shape of {(batch, source)}, but got {tuple(padding.shape)}"
        )
    padding = padding.reshape((batch, 1, 1, source))
    return padding if mask is None else mask + padding


def _as_batch(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sequences as a batch of one; what was the same tensor is the same."""
    batched = query.unsqueeze(1)
    keys = batched if query is key else key.unsqueeze(1)
    return batched, keys, keys if key is value else value.unsqueeze(1)


def _with_biases(
    k: Tensor, v: Tensor, bias_k: Tensor | None, bias_v: Tensor | None, static: bool
) -> tuple[Tensor, Tensor, bool]:
    """Keys and values (B, S, E) with one more position where there are biases; whether it is so."""
    if bias_k is None and bias_v is None:
        return k, v, False
    if bias_k is None or bias_v is None:
        raise AssertionError("bias_k and bias_v must be given together")
    if static:
        raise AssertionError("bias cannot be added to static key or value.")
    return _appended(k, bias_k), _appended(v, bias_v), True


@public(namespaces=("nn.functional",))
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention by several heads on projections of the inputs; see `nn.MultiheadAttention`.

    Shape:
        query (L, B, E) or (L, E), key and value (S, B, E) or (S, E) ->
        (L, B, E) or (L, E), and weights (B, L, S), (L, S), or with a dimension of heads before L.
    """
    heads = AttentionHeads(
        embed_dim_to_check,
        num_heads,
        in_proj_weight,
        (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None,
        in_proj_bias,
        out_proj_weight,
        out_proj_bias,
        bias_k,
        bias_v,
        add_zero_attn,
        dropout_p if training else 0.0,
    )
    return attend_by_heads(
        heads,
        query,
        key,
        value,
        key_padding_mask,
        need_weights,
        attn_mask,
        average_attn_weights,
        is_causal,
        static_k,
        static_v,
    )


class AttentionHeads(NamedTuple):
    """What a layer of multi-head attention has, besides what a call is given."""

    size: int  # of a position, all heads together
    heads: int
    packed: Tensor | None  # the weight that queries, keys and values are projected by
    apart: tuple[Tensor | None, Tensor | None, Tensor | None] | None  # three in its place
    in_bias: Tensor | None
    out_weight: Tensor
    out_bias: Tensor | None
    key_row: Tensor | None  # one more position, the same for the whole batch
    value_row: Tensor | None
    add_zero: bool  # whether there is one more of zeros
    dropout: float
    batch_first: bool = False  # (B, L, E), which need not be turned round then


def _projected(layer: AttentionHeads, query: Tensor, key: Tensor, value: Tensor) -> Any:
    """Queries, keys and values, projected by one weight or by three."""
    if layer.apart is None:
        return project_packed(query, key, value, layer.packed, layer.in_bias)
    biases = (None,) * 3 if layer.in_bias is None else layer.in_bias.chunk(3)
    return project_apart((query, key, value), layer.apart, biases)


def attend_by_heads(
    layer: AttentionHeads,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    padding: Tensor | None,
    need_weights: bool,
    mask: Tensor | None,
    average: bool,
    is_causal: bool,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """The same for `nn.MultiheadAttention`, which may have its batch first."""
    batched = check_shapes(query, key, value, padding, mask, layer.heads)
    batch_first = layer.batch_first and batched
    if not batched:
        query, key, value = _as_batch(query, key, value)
        padding = None if padding is None else padding.unsqueeze(0)
    along, over = (1, 0) if batch_first else (0, 1)  # dimensions: the sequence, the batch
    length, batch, embed = query.shape[along], query.shape[over], query.shape[2]
    if is_causal and mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    _check_sizes(query, key, value, layer)
    head = embed // layer.heads
    padding = additive(padding, "key_padding_mask", query)
    causal = is_causal and padding is None and not need_weights
    mask = None if causal else additive(mask, "attn_mask", query)
    if mask is not None:
        mask = _check_mask(mask, layer.heads, batch, length, key.shape[along])

    q, k, v = _projected(layer, query, key, value)
    if not batch_first:
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))  # (B, L, E)
    static = static_k is not None or static_v is not None
    k, v, is_longer = _with_biases(k, v, layer.key_row, layer.value_row, static)
    if is_longer:
        mask, padding = _longer(mask), _longer(padding)

    def heads(x: Tensor) -> Tensor:
        return x.reshape((*x.shape[:2], layer.heads, head)).transpose(1, 2)  # (B, H, L, D)

    q = heads(q)
    k = heads(k) if static_k is None else _static("static_k", static_k, batch, layer.heads, head)
    v = heads(v) if static_v is None else _static("static_v", static_v, batch, layer.heads, head)
    if layer.add_zero:
        zeros = k.new_zeros((batch, layer.heads, 1, head))
        k, v = cat([k, zeros], 2), cat([v, zeros], 2)
        mask, padding = _longer(mask), _longer(padding)
    if padding is not None:
        mask = _with_padding(mask, padding, batch, k.shape[2])
    if mask is not None and mask.dtype is not q.dtype:
        mask = mask.to(q.dtype)

    asked = (q, k, v, mask, layer.dropout, causal, 1 / math.sqrt(head))
    out, shown = attend_and_show(*asked) if need_weights else (attend(*asked), None)
    out = out.permute((0, 2, 1, 3) if batch_first else (2, 0, 1, 3))
    out = out.reshape((*query.shape[:2], embed))
    out = linear(out, layer.out_weight, layer.out_bias)
    if not batched:
        out = out.squeeze(1)
    if shown is None:
        return out, None
    if average:
        shown = shown.mean(1)
    return out, shown if batched else shown.squeeze(0)
