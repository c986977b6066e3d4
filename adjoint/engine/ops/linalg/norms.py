"""Norms of vectors and matrices, and condition numbers."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import DType, promote_types
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.reductions import reduced_shape
from adjoint.engine.core.spec import wrap_dims
from adjoint.engine.ops.linalg.common import check_inexact, check_matrix
from adjoint.engine.ops.linalg.solve import INV
from adjoint.engine.ops.linalg.svd import singular_values
from adjoint.engine.ops.reduce.norms import p_norm

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

_SINGULAR = ("nuc", 2, -2)
_ORDERS = ("fro", "nuc", 1, -1, 2, -2, inf, -inf)


@public(namespaces=("linalg",), out=True)
def vector_norm(
    input: Tensor,
    ord: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """(sum |x|^ord)^(1/ord) over `dim`, all dimensions by default.

    >>> import adjoint as ad
    >>> ad.linalg.vector_norm(ad.tensor([3.0, 4.0]))
    tensor(5.)
    """
    input = _as_dtype("linalg.vector_norm", input, dtype)
    return p_norm("linalg.vector_norm", input, ord, dim, keepdim)


def _as_dtype(name: str, A: Tensor, dtype: DType | None) -> Tensor:
    check_inexact(name, A, halves=True)
    if dtype is None:
        return A
    if not dtype.is_inexact:
        raise DTypeError(f"{name}: dtype should be floating point or complex, got {dtype.name}")
    if A.dtype.is_complex != dtype.is_complex:
        kind = "complex" if A.dtype.is_complex else "real"
        raise DTypeError(f"{name}: dtype should be {kind} for {kind} inputs, but got {dtype.name}")
    if promote_types(A.dtype, dtype) is not dtype:
        raise DTypeError(
            f"{name}: the dtype of the input ({A.dtype.name}) should be convertible without "
            f"narrowing to the specified dtype ({dtype.name})"
        )
    return A.to(dtype)


def _matrix_dims(name: str, A: Tensor, dim: Any) -> tuple[int, int]:
    if A.ndim < 2:
        raise ShapeError(
            f"{name}: The input tensor A must have at least 2 dimensions, received "
            f"{tuple(A.shape)}."
        )
    if isinstance(dim, int) or len(dim) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {dim}")
    first, second = (d + A.ndim if d < 0 else d for d in dim)
    if first == second:
        raise RuntimeError(f"{name}: dims must be different. Got ({dim[0]}, {dim[1]})")
    wrapped = wrap_dims(name, dim, A.ndim)
    return wrapped[0], wrapped[1]


def _extreme(values: Tensor, ord: float, dim: int, keepdim: bool) -> Tensor:
    """The largest of values that are not negative (0 of none), or the smallest."""
    if ord < 0:
        return values.amin(dim, keepdim)
    return values.amax(dim, keepdim) if values.shape[dim] else values.sum(dim, keepdim)


def _singular_norm(name: str, A: Tensor, ord: Any, dims: tuple[int, int], keepdim: bool) -> Tensor:
    check_matrix(name, A)
    values = singular_values(A.movedim(dims, (-2, -1)))
    out = values.sum(-1) if ord == "nuc" else _extreme(values, ord, -1, keepdim=False)
    return out.reshape(reduced_shape(A.shape, dims, keepdim=True)) if keepdim else out


def _matrix_norm(
    name: str, A: Tensor, ord: Any, dim: Any, keepdim: bool, dtype: DType | None
) -> Tensor:
    A = _as_dtype(name, A, dtype)
    dims = _matrix_dims(name, A, dim)
    if ord not in _ORDERS:
        raise RuntimeError(f"{name}: Order {ord} not supported. Use one of {_ORDERS}.")
    if ord == "fro":
        return p_norm(name, A, 2, dims, keepdim)
    if ord in _SINGULAR:
        return _singular_norm(name, A, ord, dims, keepdim)
    rows, columns = dims
    summed, reduced = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = p_norm(name, A, 1, summed, keepdim)
    if not keepdim and reduced > summed:
        reduced -= 1
    return _extreme(sums, ord, reduced, keepdim)


@public(namespaces=("linalg",), out=True)
def matrix_norm(
    input: Tensor,
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """A norm of matrices: Frobenius, nuclear, or of order 1, 2, inf or their negatives."""
    if isinstance(dim, int):
        raise TypeError(f"linalg.matrix_norm: dim must be a tuple of two ints, received {dim}")
    return _matrix_norm("linalg.matrix_norm", input, ord, dim, keepdim, dtype)


@public(namespaces=("linalg",), out=True)
def norm(
    input: Tensor,
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """A vector norm, or a matrix norm where `dim` or the order says matrix."""
    name = "linalg.norm"
    if dim is not None and not isinstance(dim, int) and len(dim) not in (1, 2):
        raise RuntimeError(f"{name}: If dim is specified, it must be of length 1 or 2. Got {dim}")
    if ord is not None and dim is None and input.ndim not in (1, 2):
        raise ShapeError(
            f"{name}: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{input.ndim}D."
        )
    if ord is None:
        return p_norm(name, _as_dtype(name, input, dtype), 2, dim, keepdim)
    pair = (0, 1) if dim is None and input.ndim == 2 else dim
    if isinstance(ord, str) or (pair is not None and not isinstance(pair, int) and len(pair) == 2):
        if pair is None:
            pair = tuple(range(input.ndim))
        return _matrix_norm(name, input, ord, pair, keepdim, dtype)
    return p_norm(name, _as_dtype(name, input, dtype), ord, pair, keepdim)


@public(namespaces=("linalg",), out=True)
def cond(input: Tensor, p: Any = None) -> Tensor:
    """The condition number |A| |A^-1|, infinite for a singular matrix."""
    name = "linalg.cond"
    check_matrix(name, input)
    if p is None or p in (2, -2):
        if 0 in input.shape[-2:]:
            return input.new_zeros(tuple(input.shape[:-2]), dtype=input.dtype.to_real())
        values = singular_values(input)
        largest, smallest = values[..., 0], values[..., -1]
        return smallest / largest if p == -2 else largest / smallest
    if p not in _ORDERS:
        raise RuntimeError(f"{name}: got an invalid norm type: {p}. Use one of {_ORDERS}.")
    check_matrix(name, input, square=True)
    if 0 in input.shape[-2:]:
        return input.new_zeros(tuple(input.shape[:-2]), dtype=input.dtype.to_real())
    inverse, info = INV(input, name="linalg.inv", check=False)
    singular = info.ne(0).unsqueeze(-1).unsqueeze(-1)
    there = _matrix_norm(name, input, p, (-2, -1), keepdim=False, dtype=None)
    back = _matrix_norm(
        name, inverse.masked_fill(singular, 1), p, (-2, -1), keepdim=False, dtype=None
    )
    return (there * back).masked_fill(info.ne(0), inf)
