"""QR factors and Householder reflections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.families import no_derivative, primitive
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.operations.return_types import RETURN_TYPES
from adjoint.engine.core.spec import Spec
from adjoint.engine.ops.linalg.common import (
    MATMUL,
    add_all,
    adjoint_of,
    check_inexact,
    check_matrix,
    check_same_dtype,
    diag,
    matrix_like,
    same_params,
    vector_like,
    zeros_from,
)
from adjoint.engine.ops.linalg.solve import TRIANGULAR_SOLVE
from adjoint.engine.ops.shape.join import cat

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _qr_infer(x: Spec, mode: str) -> tuple[Spec, Spec]:
    m, n = x.shape[-2:]
    k = m if mode == "complete" else min(m, n)
    q = Spec((0,), x.dtype, x.device) if mode == "r" else matrix_like(x, m, k)
    return q, matrix_like(x, k, n)


def _tall_vjp(g_q: Any, g_r: Any, Q: Tensor, R: Tensor) -> Tensor:
    """(gQ + Q S) R^-H, S Hermitian with the upper triangle of gR R^H - Q^H gQ."""
    triangle = add_all(
        None if g_r is None else MATMUL(g_r, adjoint_of(R)),
        None if g_q is None else -MATMUL(adjoint_of(Q), g_q),
    ).triu()
    d = diag(triangle)
    d = d.real.to(d.dtype) if d.dtype.is_complex else d
    hermitian = triangle + adjoint_of(triangle) - d.diag_embed()
    total = add_all(g_q, MATMUL(Q, hermitian))
    return adjoint_of(TRIANGULAR_SOLVE(R, adjoint_of(total), upper=True, unit=False))


def _qr_vjp(gs: Any, x: Tensor, outs: Any, mode: str, x_spec: Spec) -> Tensor | None:
    m, n = x_spec.shape[-2:]
    if mode == "r":
        raise RuntimeError(
            "linalg.qr: The derivative of linalg.qr depends on Q, which is not computed when "
            "mode='r'. Please use linalg.qr(A, mode='reduced') if you are going to require "
            "gradients of R."
        )
    if mode == "complete" and m > n:
        raise RuntimeError(
            "linalg.qr: The QR decomposition is not differentiable when mode='complete' and nrows "
            "> ncols. Use mode='reduced'."
        )
    (g_q, g_r), (Q, R) = gs, outs
    if g_q is None and g_r is None:
        return None
    if m >= n:
        return _tall_vjp(g_q, g_r, Q, R)
    # A = [X | Y] and R = [U | V]: X = Q U is square, and V = Q^H Y.
    if g_r is None:
        block = _tall_vjp(g_q, None, Q, R[..., :m])
        return cat([block, block.new_zeros((*x_spec.shape[:-1], n - m))], -1)
    g_u, g_v = g_r[..., :m], g_r[..., m:]
    g_q = add_all(g_q, MATMUL(x[..., m:], adjoint_of(g_v)))
    return cat([_tall_vjp(g_q, g_u, Q, R[..., :m]), MATMUL(Q, g_v)], -1)


def _qr_batch(size: int, x: Tensor, mode: str) -> tuple[Tensor, Tensor]:
    Q, R = QR(x, mode=mode)
    return Q.expand((size, 0)) if mode == "r" else Q, R  # no Q, then, for each


QR: Record = primitive(
    "qr",
    _qr_infer,
    _qr_vjp,
    outputs=2,
    batch=_qr_batch,
    fragment="host_looped",
    pulled="host_looped",
)
# GEQRF: R above the diagonal and the reflections' vectors below it, and their factors.
GEQRF: Record = primitive(
    "geqrf",
    lambda x: (x, vector_like(x, min(x.shape[-2:]))),
    no_derivative("geqrf"),
    outputs=2,
    batched_params=same_params,
)


@public(namespaces=("linalg",), out=True, name="qr")
def linalg_qr(A: Tensor, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and R upper triangular with A = Q R."""
    check_matrix("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode {mode!r} but expected one of 'reduced' (default), 'r', "
            "or 'complete'"
        )
    return RETURN_TYPES["linalg_qr"](*QR(A, mode=mode))


@public(method=True, out=True)
def qr(input: Tensor, some: bool = True) -> Any:
    """`linalg.qr`, reduced or complete."""
    check_matrix("qr", input)
    return RETURN_TYPES["qr"](*QR(input, mode="reduced" if some else "complete"))


@public(method=True, out=True)
def geqrf(input: Tensor) -> Any:
    """QR factors as LAPACK leaves them: R with the reflections' vectors below it, and tau."""
    check_matrix("geqrf", input)
    return RETURN_TYPES["geqrf"](*GEQRF(input))


# -- products of reflections --------------------------------------------------------------------


def _reflector(A: Tensor, i: int) -> Tensor:
    """The i-th reflection's vector as a column: zeros, a one, then what `A` holds below it."""
    column = A[..., i : i + 1]
    place = A.new_arange(A.shape[-2]).unsqueeze(-1)
    return column.masked_fill(place < i, 0).masked_fill(place == i, 1)


def _reflect(x: Tensor, v: Tensor, tau: Tensor) -> Tensor:
    """(1 - tau v v^H) x"""
    return x - MATMUL(tau.unsqueeze(-1).unsqueeze(-1) * v, MATMUL(adjoint_of(v), x))


@public(namespaces=("linalg",), out=True)
def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """The first columns of a product of Householder reflections."""
    name = "linalg.householder_product"
    check_matrix(name, input, "input")
    check_inexact(name, tau)
    check_same_dtype(name, input, tau)
    m, n = input.shape[-2:]
    if m < n:
        raise ShapeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1], received "
            f"{tuple(input.shape)}"
        )
    if tau.ndim < 1 or tau.shape[-1] > n:
        raise ShapeError(
            f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1], received "
            f"{tuple(input.shape)} and {tuple(tau.shape)}"
        )
    if tau.shape[:-1] != input.shape[:-2]:
        raise ShapeError(
            f"{name}: Expected tau to have one dimension less than input and the same batch, "
            f"received {tuple(input.shape)} and {tuple(tau.shape)}"
        )
    eye = (input.new_arange(m).unsqueeze(-1) == input.new_arange(n)).to(input.dtype)
    out = eye.expand(input.shape) if tau.shape[-1] else zeros_from(input) + eye
    for i in reversed(range(tau.shape[-1])):
        out = _reflect(out, _reflector(input, i), tau[..., i])
    return out


@public(method=True, out=True)
def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """Alias of `linalg.householder_product`."""
    return householder_product(input, input2)


def _check_ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool) -> None:
    check_inexact("ormqr", input, tau, other)
    check_same_dtype("ormqr", input, tau)
    check_same_dtype("ormqr", input, other)
    if input.ndim < 2 or other.ndim < 2:
        raise ShapeError("ormqr: input and other must have at least 2 dimensions.")
    if input.ndim - tau.ndim != 1 or input.shape[:-2] != tau.shape[:-1]:
        raise ShapeError(
            f"ormqr: Expected tau to have one dimension less than input and its batch, received "
            f"{tuple(input.shape)} and {tuple(tau.shape)}"
        )
    if input.ndim != other.ndim or input.shape[:-2] != other.shape[:-2]:
        raise ShapeError(
            "ormqr: Expected batch dimensions of other to be equal to input's, received "
            f"{tuple(other.shape)} and {tuple(input.shape)}"
        )
    size = other.shape[-2] if left else other.shape[-1]
    if input.shape[-2] != size or tau.shape[-1] != min(size, input.shape[-1]):
        raise ShapeError(
            f"ormqr: other.shape[{-2 if left else -1}] must be equal to input.shape[-2], and the "
            f"smaller of it and input.shape[-1] to tau.shape[-1], received "
            f"{tuple(other.shape)}, {tuple(input.shape)}, "
            f"{tuple(tau.shape)}"
        )


@public(method=True, out=True)
def ormqr(
    input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    """`other` multiplied by the square Q of a product of Householder reflections."""
    _check_ormqr(input, tau, other, left)
    count = tau.shape[-1]
    # (other Q) is (Q^H other^H)^H, so the right-hand case applies the adjoint, and back.
    adjoint = transpose == left
    out = other if left else adjoint_of(other)
    for i in range(count) if adjoint else reversed(range(count)):
        factor = tau[..., i].conj() if adjoint else tau[..., i]
        out = _reflect(out, _reflector(input, i), factor)
    return out if left else adjoint_of(out)
