"""Products of arrays."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint.array_api.arrays import anything, standard
from adjoint.array_api.dtypes import cast, result_type
from adjoint.array_api.manipulation import broadcast_shapes
from adjoint.engine.core.errors import ShapeIndexError, ShapeValueError


def pair(name: str, x1: Any, x2: Any) -> tuple[Any, Any]:
    """Two arrays of numbers in the dtype of their product."""
    dtype = result_type(x1, x2)
    if dtype is ad.bool:
        raise TypeError(f"{name}: expected numbers, received two arrays of bool")
    return cast(x1, dtype), cast(x2, dtype)


@standard
def matmul(x1: Any, x2: Any, /) -> Any:
    """The product of matrices, vectors or stacks of them."""
    if x1.ndim == 0 or x2.ndim == 0:
        raise ShapeValueError("matmul: expected arrays of at least one dimension")
    one, two = pair("matmul", x1, x2)
    return ad.matmul(one, two)


@anything
def matrix_transpose(x: Any, /) -> Any:
    """The transpose of each matrix of a stack."""
    if x.ndim < 2:
        raise ShapeValueError(
            f"matrix_transpose: expected matrices, received shape {tuple(x.shape)}"
        )
    return x.transpose(-2, -1)


@standard
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """Sums of products over pairs of dimensions, given by number or as two sequences."""
    one, two = pair("tensordot", x1, x2)
    dims = axes if isinstance(axes, int) else tuple([int(a) for a in listed] for listed in axes)
    if isinstance(dims, int):
        firsts, seconds = list(range(one.ndim - dims, one.ndim)), list(range(dims))
    else:
        firsts = [a % one.ndim for a in dims[0]]
        seconds = [a % two.ndim for a in dims[1]]
    for a, b in zip(firsts, seconds, strict=True):
        if one.shape[a] != two.shape[b]:
            raise ShapeValueError(
                f"tensordot: sizes {one.shape[a]} and {two.shape[b]} do not match"
            )
    return ad.tensordot(one, two, dims=(firsts, seconds))


@standard
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Scalar products along a dimension, the first array conjugated."""
    one, two = pair("vecdot", x1, x2)
    if min(one.ndim, two.ndim) < -axis or axis >= min(one.ndim, two.ndim):
        raise ShapeIndexError(f"vecdot: axis {axis} is out of range")
    one, two = one.movedim(axis, -1), two.movedim(axis, -1)
    if one.shape[-1] != two.shape[-1]:
        raise ShapeValueError(f"vecdot: sizes {one.shape[-1]} and {two.shape[-1]} do not match")
    shape = broadcast_shapes(tuple(one.shape), tuple(two.shape))
    one = one.conj().resolve_conj() if one.is_complex() else one
    return (one.expand(shape) * two.expand(shape)).sum(-1, dtype=one.dtype)
