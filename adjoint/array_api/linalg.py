"""The linear algebra extension."""

from __future__ import annotations

from typing import Any, NamedTuple

import adjoint as ad
from adjoint.array_api.arrays import anything, standard
from adjoint.array_api.dtypes import cast, result_type
from adjoint.array_api.manipulation import axes_of, broadcast_shapes
from adjoint.array_api.products import matmul as matmul
from adjoint.array_api.products import matrix_transpose as matrix_transpose
from adjoint.array_api.products import pair
from adjoint.array_api.products import tensordot as tensordot
from adjoint.array_api.products import vecdot as vecdot
from adjoint.array_api.reductions import sum as _sum
from adjoint.engine.core.errors import ShapeValueError

_engine: Any = ad.linalg  # its names come from the table of operations


class EighResult(NamedTuple):
    """Eigenvalues and eigenvectors of a symmetric matrix."""

    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    """Eigenvalues and eigenvectors of a matrix."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """An orthogonal and a triangular factor."""

    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    """The sign of a determinant and the logarithm of its size."""

    sign: Any
    logabsdet: Any


class SVDResult(NamedTuple):
    """Left vectors, singular values, right vectors."""

    U: Any
    S: Any
    Vh: Any


@anything
def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    """The triangular factor of a positive definite matrix."""
    return _engine.cholesky(x, upper=upper)


@standard
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The cross product of vectors of three elements along a dimension."""
    one, two = pair("cross", x1, x2)
    if one.shape[axis] != 3 or two.shape[axis] != 3:
        raise ShapeValueError(
            f"cross: expected 3 elements along axis {axis}, received {one.shape[axis]} and "
            f"{two.shape[axis]}"
        )
    shape = broadcast_shapes(tuple(one.shape), tuple(two.shape))
    return _engine.cross(one.expand(shape), two.expand(shape), dim=axis)


@anything
def det(x: Any, /) -> Any:
    """The determinant of each matrix."""
    return _engine.det(x)


@anything
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """A diagonal of each matrix."""
    return x.diagonal(offset, -2, -1)


@anything
def eig(x: Any, /) -> Any:
    """Eigenvalues and eigenvectors of each matrix."""
    return EigResult(*_engine.eig(x))


@anything
def eigvals(x: Any, /) -> Any:
    """Eigenvalues of each matrix."""
    return _engine.eigvals(x)


@anything
def eigh(x: Any, /) -> Any:
    """Eigenvalues and eigenvectors of each symmetric matrix."""
    return EighResult(*_engine.eigh(x))


@anything
def eigvalsh(x: Any, /) -> Any:
    """Eigenvalues of each symmetric matrix."""
    return _engine.eigvalsh(x)


@anything
def inv(x: Any, /) -> Any:
    """The inverse of each matrix."""
    return _engine.inv(x)


@anything
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """A norm of each matrix."""
    return _engine.matrix_norm(x, ord=ord, keepdim=keepdims)


@anything
def matrix_power(x: Any, n: int, /) -> Any:
    """Each matrix multiplied with itself."""
    return _engine.matrix_power(x, n)


@anything
def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """The rank of each matrix: its singular values above `rtol` times the greatest."""
    return _engine.matrix_rank(x, rtol=_tolerance(x, rtol), atol=0.0)


def _tolerance(x: Any, rtol: Any) -> Any:
    if rtol is None:
        return max(x.shape[-2:]) * ad.finfo(x.dtype).eps
    return rtol


@standard
def outer(x1: Any, x2: Any, /) -> Any:
    """All products of elements of two vectors."""
    if x1.ndim != 1 or x2.ndim != 1:
        raise ShapeValueError(
            f"outer: expected vectors, received {x1.ndim} and {x2.ndim} dimensions"
        )
    one, two = pair("outer", x1, x2)
    return one[:, None] * two[None, :]


@anything
def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """The pseudo-inverse of each matrix."""
    return _engine.pinv(x, rtol=_tolerance(x, rtol), atol=0.0)


@anything
def qr(x: Any, /, *, mode: str = "reduced") -> Any:
    """An orthogonal and a triangular factor of each matrix."""
    return QRResult(*_engine.qr(x, mode=mode))


@anything
def slogdet(x: Any, /) -> Any:
    """The sign of each determinant and the logarithm of its size."""
    return SlogdetResult(*_engine.slogdet(x))


@anything
def solve(x1: Any, x2: Any, /) -> Any:
    """The solution of linear equations; a vector on the right only if it is one-dimensional."""
    dtype = result_type(x1, x2)
    one, two = cast(x1, dtype), cast(x2, dtype)
    if two.ndim == 1:
        return _engine.solve(one, two[:, None].expand(*one.shape[:-1], 1))[..., 0]
    shape = broadcast_shapes(tuple(one.shape[:-2]), tuple(two.shape[:-2]))
    one, two = one.expand(*shape, *one.shape[-2:]), two.expand(*shape, *two.shape[-2:])
    return _engine.solve(one, two)


@anything
def svd(x: Any, /, *, full_matrices: bool = True) -> Any:
    """The singular value decomposition of each matrix."""
    return SVDResult(*_engine.svd(x, full_matrices=full_matrices))


@anything
def svdvals(x: Any, /) -> Any:
    """The singular values of each matrix."""
    return _engine.svdvals(x)


@anything
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sum of a diagonal of each matrix."""
    return _sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


@anything
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """A norm over some dimensions, over all if `axis` is None."""
    axes = axes_of("vector_norm", axis, x.ndim)
    if not axes:  # of each number by itself
        return (x != 0).to(x.dtype.to_real()) if ord == 0 else ad.abs(x)
    return _engine.vector_norm(x, ord=ord, dim=tuple(axes), keepdim=keepdims)
