"""Cholesky factors and what is solved with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.core.families import primitive
from adjoint.core.public import public
from adjoint.core.record import Record
from adjoint.core.return_types import RETURN_TYPES
from adjoint.ops.linalg.common import (
    MATMUL,
    adjoint_of,
    broadcast_batches,
    check_matrix,
    diag,
    info_like,
    same_params,
)
from adjoint.ops.linalg.solve import TRIANGULAR_SOLVE, check_system

if TYPE_CHECKING:
    from adjoint.tensor.tensor import Tensor


def _cholesky_vjp(gs: Any, outs: Any) -> Tensor:
    """L^-H P L^-1, with P the Hermitian matrix that has the lower triangle of L^H gL."""
    factor = outs[0]
    low = MATMUL(adjoint_of(factor), gs[0]).tril()
    middle = (low + adjoint_of(low) - diag(low).diag_embed()) * 0.5
    back = adjoint_of(factor)
    left = TRIANGULAR_SOLVE(back, middle, upper=True, unit=False)
    return adjoint_of(TRIANGULAR_SOLVE(back, adjoint_of(left), upper=True, unit=False))


# CHOLESKY: (L, info), reading the lower triangle of a Hermitian matrix.
CHOLESKY: Record = primitive(
    "cholesky",
    lambda x, name, check: (x, info_like(x)),
    _cholesky_vjp,
    outputs=2,
    shift=same_params,
)


def _factor(name: str, A: Tensor, upper: bool, check: bool) -> tuple[Tensor, Tensor]:
    check_matrix(name, A, square=True)
    if not upper:
        return CHOLESKY(A, name=name, check=check)
    factor, info = CHOLESKY(adjoint_of(A), name=name, check=check)
    return adjoint_of(factor), info


@public(namespaces=("linalg",), out=True, name="cholesky")
def linalg_cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular L with A = L L^H (or the upper L^H).

    >>> import adjoint as ad
    >>> ad.linalg.cholesky(ad.tensor([[4.0, 0.0], [0.0, 9.0]]))
    tensor([[2., 0.],
            [0., 3.]])
    """
    return _factor("linalg.cholesky", A, upper, check=True)[0]


@public(namespaces=("linalg",), out=True)
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    """The Cholesky factor, and per matrix 0 or the order of the minor that is not positive."""
    found = _factor("linalg.cholesky_ex", A, upper, check=check_errors)
    return RETURN_TYPES["linalg_cholesky_ex"](*found)


@public(method=True, out=True)
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """The Cholesky factor of a positive-definite matrix."""
    return _factor("cholesky", input, upper, check=True)[0]


def _solve_with_factor(B: Tensor, L: Tensor, upper: bool) -> Tensor:
    """(L L^H)^-1 B, or (L^H L)^-1 B for an upper factor."""
    other = adjoint_of(L)
    first, second = (other, L) if upper else (L, other)
    half = TRIANGULAR_SOLVE(first, B, upper=False, unit=False)
    return TRIANGULAR_SOLVE(second, half, upper=True, unit=False)


@public(method=True, out=True)
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """X with A X = B, given the Cholesky factor of A."""
    check_system("cholesky_solve", L, B)
    L, B = broadcast_batches("cholesky_solve", L, B)
    return _solve_with_factor(B, L, upper)


@public(method=True, out=True)
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A, given its Cholesky factor."""
    check_matrix("cholesky_inverse", L, square=True)
    eye = L.new_eye(L.shape[-1]).expand(L.shape)
    return _solve_with_factor(eye, L, upper)
