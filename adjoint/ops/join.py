"""Putting tensors together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adjoint.core.families import device_of, linear
from adjoint.core.promotion import common_dtype
from adjoint.core.public import public
from adjoint.core.spec import Spec, wrap_dim

if TYPE_CHECKING:
    from adjoint.tensor.tensor import Tensor


def _cat_infer(*xs: Spec, dim: int) -> Spec:
    first = xs[0].shape
    for i, x in enumerate(xs):
        same_rank = len(x.shape) == len(first)
        if not same_rank or any(
            a != b for d, (a, b) in enumerate(zip(x.shape, first, strict=True)) if d != dim
        ):
            raise RuntimeError(
                f"cat: sizes of tensors must match except in dimension {dim}. Expected {first}, "
                f"received {x.shape} for tensor number {i} in the list."
            )
    shape = (*first[:dim], sum(x.shape[dim] for x in xs), *first[dim + 1 :])
    return Spec(shape, common_dtype(xs), device_of("cat", xs))


def _cat_transpose(g: Tensor, x_specs: Sequence[Spec], position: int, dim: int) -> Tensor:
    start = sum(s.shape[dim] for s in x_specs[:position])
    return g.narrow(dim, start, x_specs[position].shape[dim]).to(x_specs[position].dtype)


CAT = linear(
    "cat",
    _cat_infer,
    _cat_transpose,
    operands=("*xs",),
    shift=lambda params, size: {"dim": params["dim"] + 1},
    policy="promote",
)


@public(out=True, aliases=("concat", "concatenate"))
def cat(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """Join tensors along an existing dimension."""
    if not len(tensors):
        raise RuntimeError("cat: expected a non-empty list of Tensors")
    rank = max(t.ndim for t in tensors)
    kept = [t for t in tensors if t.ndim == rank or t.shape != (0,)]  # a legacy PyTorch allows
    return CAT(*kept, dim=wrap_dim("cat", dim, rank))


@public(out=True)
def stack(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """Join tensors along a new dimension."""
    if not len(tensors):
        raise RuntimeError("stack: expected a non-empty list of Tensors")
    d = wrap_dim("stack", dim, tensors[0].ndim + 1)
    return cat([t.unsqueeze(d) for t in tensors], d)
