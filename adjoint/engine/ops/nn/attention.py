"""Scaled dot-product attention: one composite, whose backward is stated jointly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from adjoint.engine.core.dtype import bool_, int64
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.state.rng import generator_for
from adjoint.engine.ops.nn.attention_rows import (
    NAME,
    How,
    Problem,
    batch_of,
    draw_blocks,
    widened,
)
from adjoint.engine.ops.products.matmul import product
from adjoint.engine.ops.random.placed import place_tensor
from adjoint.engine.ops.random.random import batch_levels, draw
from adjoint.engine.ops.shape.convert import CLONE

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _attend(
    query: Tensor, key: Tensor, value: Tensor, *extras: Any, **how: Any
) -> tuple[Tensor, Tensor]:
    problem = Problem(query, key, value, extras, How(**how))
    (out, lse), _ = problem.run(lambda part: part.forward, lambda part: part.unseen_forward)
    return out.to(query.dtype), lse


def _joint(
    gs: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    extras: Any,
    outs: Any,
    needed: Sequence[bool],
    params: dict[str, Any],
) -> list[Any]:
    """Cotangents of query, key, value and mask from those of result and logsumexp."""
    out, lse = map(widened, outs)
    g = out.new_zeros(out.shape) if gs[0] is None else widened(gs[0])
    shift = (g * out).sum(-1, keepdim=True).sum_to_size(lse.shape)
    if gs[1] is not None:
        shift = shift - gs[1]
    asked = tuple(needed[:4])
    cotangents = iter(
        ATTENTION_BACKWARD(query, key, value, lse, g, shift, *extras, needed=asked, **params)
    )
    operands = (query, key, value)
    return [
        None if not n else next(cotangents) if i > 2 else lying_like(next(cotangents), operands[i])
        for i, n in enumerate(needed)
    ]


def _flops(shapes: Sequence[Sequence[int]], out: Sequence[int]) -> int:
    query, key, value = shapes[:3]
    return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _backward_flops(shapes: Sequence[Sequence[int]], out: Sequence[int]) -> int:
    return 5 * _flops(shapes, out) // 2  # five products to the two of before, one made again


# ATTENTION(query, key, value, [mask], [dropout's factors, or seed and offset of their draw, as two
# numbers or as one tensor])
# or ATTENTION(query, key, value, first key of each query, one past its last)
# -> (result, logsumexp of the rows of scores); see Note [attention].
ATTENTION: Record = composite(
    NAME,
    _attend,
    joint=_joint,
    operands=("query", "key", "value", "*extras"),
    outputs=2,
    fragment="composed",
    lies_in_rows=True,
    given_a_draw=True,
    flops=_flops,
)


def _attend_backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lse: Tensor,
    g: Tensor,
    shift: Tensor,
    *extras: Any,
    needed: Sequence[bool],
    **how: Any,
) -> tuple[Tensor, ...]:
    """The cotangents that are needed, in the order of the operands."""
    problem = Problem(query, key, value, extras, How(**how))
    problem.rows.update(lse=lse, g=g, shift=shift)
    masks = any(needed[3:])
    summed = [x for x, n in ((value, needed[2]), (key, needed[1])) if n]
    if masks and not problem.mask_has_rows:
        summed.append(problem.mask)
    found_by = problem.run(
        lambda part: part.backward(needed), lambda part: part.unseen_backward(needed), summed
    )
    by_row, sums = map(iter, found_by)
    cotangents: dict[int, Any] = {}
    for position, source in ((0, by_row), (2, sums), (1, sums)):
        if needed[position]:
            cotangents[position] = next(source)
    if masks:
        cotangents[3] = next(by_row if problem.mask_has_rows else sums)
    operands = (query, key, value, problem.mask)
    return tuple(cotangents[i].to(operands[i].dtype) for i in sorted(cotangents))


ATTENTION_BACKWARD: Record = composite(
    f"{NAME}_backward",
    _attend_backward,
    operands=("query", "key", "value", "lse", "g", "shift", "*extras"),
    outputs=0,
    fragment="composed",
    lies_in_rows=True,
    given_a_draw=True,
    flops=_backward_flops,
)


# -- dropout --------------------------------------------------------------------------------------


def _check_probability(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout_factors(shape: Sequence[int], p: float, like: Tensor) -> Tensor:
    """0 with probability p, else 1 / (1 - p)."""
    _check_probability(p)
    if p == 1:
        return like.new_zeros(tuple(shape))
    mask = draw(NAME, "bernoulli", (1.0 - p,), tuple(shape), like.dtype, like.device, None)
    return mask / (1.0 - p)


def _dropping(query: Tensor, key: Tensor, p: float) -> list[Any]:
    """The operands that say what dropout does: the place of its draw, or the factors themselves.

    Factors where each element of a vmap draws its own, since a place is one for all.
    """
    _check_probability(p)
    if p == 1:
        return []
    batch, length, keys = batch_of(query, key), query.shape[-2], key.shape[-2]
    if batch_levels(NAME):
        return [dropout_factors((*batch, length, keys), p, query)]
    place = generator_for(NAME, None, query.device).draw(draw_blocks(length, batch, keys))
    return [*place] if query.device.type == "cpu" else [place_tensor(*place, query.device)]


# -- the functions --------------------------------------------------------------------------------


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    causal: bool,
    scale: float,
) -> Tensor:
    """The result alone."""
    extras = _dropping(query, key, dropout_p) if dropout_p else []
    masks = [] if mask is None else [mask.reshape((1, -1)) if mask.ndim < 2 else mask]
    return ATTENTION(
        query, key, value, *masks, *extras,
        scale=scale, causal=causal, safe=mask is not None, masked=mask is not None,
        dropout=dropout_p, drawn=len(extras) == 1 and extras[0].dtype is not int64,
        placed=len(extras) == 1 and extras[0].dtype is int64,
    )[0]  # fmt: skip


def attend_ranges(
    query: Tensor, key: Tensor, value: Tensor, low: Tensor, high: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """The result and the logsumexp where query i sees keys low[i] to high[i], which has no part.

    Both bounds are (queries, 1) of int32; a query that sees no key gets zeros.
    """
    out, lse = ATTENTION(
        query, key, value, low, high,
        scale=scale, causal=False, safe=True, masked=False, dropout=0.0, drawn=False, ranged=True,
    )  # fmt: skip
    return out, lse


def attend_and_show(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """The result, and the weights with dropout applied; nan for a query that sees nothing."""
    how = How(scale, causal, False, mask is not None, dropout_p, False)
    problem = Problem(query, key, value, [] if mask is None else [mask], how)
    weights = problem.scores(problem.rows).softmax(-1)
    if dropout_p:
        weights = weights * dropout_factors(weights.shape, dropout_p, weights)
    return product(weights, problem.value).to(query.dtype), weights.to(query.dtype)


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Any, is_causal: bool) -> None:
    for which, x in (("query", query), ("key", key), ("value", value)):
        if not is_tensor(x):
            raise TypeError(f"{NAME}(): argument '{which}' must be Tensor, not {type(x).__name__}")
    if not query.dtype is key.dtype is value.dtype:
        raise DTypeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype} key.dtype: {key.dtype} and value.dtype: {value.dtype} instead."
        )
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ShapeError(
            "Expected query, key, and value to all be at least 2 dimensional, but got query.dim(): "
            f"{query.ndim}, key.dim(): {key.ndim} and value.dim(): {value.ndim} instead."
        )
    width, other = query.shape[-1], key.shape[-1]
    if type(width) is int and type(other) is int and width != other:  # symbols: matmul sees to them
        raise ShapeError(
            f"{NAME}: queries have {width} features and keys have {other}; received query "
            f"{list(query.shape)} and key {list(key.shape)}"
        )
    if mask is None:
        return
    if is_causal:
        raise RuntimeError(f"{NAME}: Explicit attn_mask should not be set when is_causal=True")
    if mask.dtype is not bool_ and not mask.dtype.is_floating_point:
        raise DTypeError(
            f"Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {mask.dtype} and query.dtype: {query.dtype} instead."
        )


def _group_heads(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Heads as (those of key and value, queries that share one): nothing is copied."""
    heads, shared = query.shape[-3], key.shape[-3]
    if heads % shared or heads % value.shape[-3]:
        raise ShapeError(
            "scaled_dot_product_attention: enable_gqa wants a number of query heads that those of "
            f"key and value divide, received {heads}, {shared} and {value.shape[-3]}"
        )
    if value.shape[-3] != shared:
        key, value = (x.repeat_interleave(heads // x.shape[-3], -3) for x in (key, value))
        return query, key, value, mask
    sizes = (shared, heads // shared)
    if mask is not None and mask.ndim > 2:
        if mask.shape[-3] not in (1, heads):
            raise ShapeError(
                f"scaled_dot_product_attention: attn_mask is for {mask.shape[-3]} heads, received "
                f"{heads} of queries. Give it as many, or 1."
            )
        mask = mask.unsqueeze(-3) if mask.shape[-3] == 1 else mask.unflatten(-3, sizes)
    return query.unflatten(-3, sizes), key.unsqueeze(-3), value.unsqueeze(-3), mask


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
    factor = 1.0 / math.sqrt(max(query.shape[-1], 1)) if scale is None else float(scale)
    if not enable_gqa:
        out = attend(query, key, value, attn_mask, dropout_p, is_causal, factor)
    else:
        q, k, v, mask = _group_heads(query, key, value, attn_mask)
        out = attend(q, k, v, mask, dropout_p, is_causal, factor)
        out = out if q is query else out.flatten(-4, -3)
    strides = None if dropout_p else _query_strides(query, out)
    return out if strides is None else CLONE(out, strides=strides)


def lying_like(g: Tensor, x: Tensor) -> Tensor:
    """A cotangent that lies as its operand does, if that was transposed: back then is no copy."""
    strides = _query_strides(x, g) if g.device.type == "cpu" else None
    return g if strides is None else CLONE(g, strides=strides)


def _query_strides(query: Tensor, out: Tensor) -> tuple[int, ...] | None:
    """How a result lies in memory: as queries do that were transposed; None: row by row.

    Programs made of (batch, positions, heads, features) count on `out.transpose(1, 2).view(...)`.
    """
    array = query._array
    if array.ndim != 4 or (array.__class__ is ndarray and array.flags.c_contiguous):
        return None
    batch, head, row, feature = query.stride()
    number, heads, rows, width = out._array.shape
    if feature != 1 or not batch or not head or not head < row or width != array.shape[-1]:
        return None
    if row <= batch:
        return heads * rows * width, width, heads * width, 1
    return heads * width, width, number * heads * width, 1
