"""Determinants and their logarithms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.operations.families import primitive
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.operations.return_types import RETURN_TYPES
from adjoint.engine.core.spec import Spec
from adjoint.engine.ops.linalg.common import (
    MATMUL,
    adjoint_of,
    check_matrix,
    of_many,
    same_params,
    scalar_like,
)
from adjoint.engine.ops.linalg.solve import INV

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _per_matrix(x: Tensor) -> Tensor:
    return x.reshape((*x.shape, 1, 1))


def _inverse_adjoint(x: Tensor) -> Tensor:
    """x^-H; infinite where x is singular, rather than an error."""
    return adjoint_of(INV(x, name="linalg.inv", check=False)[0])


# Rows: beyond, minors have minors, and singular values take fewer steps.
MOST_BY_MINORS = 4


def _are_large(operands: tuple[Any, ...], params: dict[str, Any]) -> bool:
    """Whether a GPU has no kernel of its own for such matrices."""
    x = operands[0]._array
    return x.dtype.kind == "c" or not x.size or not 2 <= x.shape[-1] <= MOST_BY_MINORS


# The derivative of det is the conjugate of the matrix of cofactors, det(x)* x^-H where x is
# invertible; the kernel gives it for singular x too.
DET: Record = primitive(
    "det",
    lambda x: scalar_like(x),
    lambda g, x: _per_matrix(g) * COFACTOR(x),
    batched_params=same_params,
    fragment="looped",
    pulled="host_looped",
    much=of_many,
    by_table=_are_large,
)


def _cofactor_vjp(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """s C - C g^H x^-H with s = sum of g* x^-H."""
    inverse = _inverse_adjoint(x)
    s = (g.conj() * inverse).sum((-2, -1), keepdim=True)
    return s * out - MATMUL(MATMUL(out, adjoint_of(g)), inverse)


COFACTOR: Record = primitive(
    "cofactor",
    lambda x: x,
    _cofactor_vjp,
    batched_params=same_params,
    fragment="device",
    by_table=_are_large,
)


def _slogdet_vjp(gs: Any, x: Tensor, out: Tensor) -> Tensor | None:
    """Only the sign is kept: users add to the logarithm in place."""
    g_sign, g_log = gs
    weight = None if g_log is None else g_log.to(x.dtype)
    if g_sign is not None and x.dtype.is_complex:
        turn = (g_sign.conj() * out).imag * -1j
        weight = turn if weight is None else weight + turn
    return None if weight is None else _per_matrix(weight) * _inverse_adjoint(x)


def _slogdet_infer(x: Spec) -> tuple[Spec, Spec]:
    return scalar_like(x), scalar_like(x, x.dtype.to_real())


SLOGDET: Record = primitive(
    "slogdet",
    _slogdet_infer,
    _slogdet_vjp,
    outputs=2,
    batched_params=same_params,
    fragment="host_looped",
    pulled="host_looped",
    much=of_many,
)


@public(method=True)
def det(input: Tensor) -> Tensor:
    """The determinant of a square matrix, or of each in a batch.

    >>> import adjoint as ad
    >>> ad.linalg.det(ad.tensor([[2.0, 1.0], [0.0, 4.0]]))
    tensor(8.)
    """
    check_matrix("linalg.det", input, square=True)
    return DET(input)


@public(out=True, namespaces=("linalg",), name="det")
def linalg_det(A: Tensor) -> Tensor:
    """The determinant of a square matrix, or of each in a batch."""
    check_matrix("linalg.det", A, square=True)
    return DET(A)


@public(method=True, out=True)
def slogdet(input: Tensor) -> Any:
    """The sign of the determinant and the logarithm of its absolute value."""
    check_matrix("slogdet", input, square=True)
    return RETURN_TYPES["slogdet"](*SLOGDET(input))


@public(out=True, namespaces=("linalg",), name="slogdet")
def linalg_slogdet(A: Tensor) -> Any:
    """The sign of the determinant and the logarithm of its absolute value."""
    check_matrix("linalg.slogdet", A, square=True)
    return RETURN_TYPES["linalg_slogdet"](*SLOGDET(A))


@public(method=True)
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant; NaN where that is negative."""
    check_matrix("logdet", input, square=True)
    sign, logabs = SLOGDET(input)
    if input.dtype.is_complex:
        return sign.log() + logabs
    return logabs.masked_fill(sign == -1, float("nan"))
