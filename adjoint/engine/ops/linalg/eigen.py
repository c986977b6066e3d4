"""Eigenvalues and eigenvectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.operations.families import primitive
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.operations.return_types import RETURN_TYPES
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.linalg.common import (
    MATMUL,
    adjoint_of,
    check_matrix,
    diag,
    ensure_zero,
    match_real,
    same_params,
    vector_like,
)
from adjoint.engine.ops.linalg.solve import SOLVE

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _gaps(values: Tensor) -> Tensor:
    """The differences l_j - l_i, with ones on the diagonal."""
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    return gaps + gaps.new_eye(gaps.shape[-1])


def _off_diagonal(x: Tensor) -> Tensor:
    return x.masked_fill(x.new_eye(x.shape[-1]) != 0, 0)


def _phase_message(name: str) -> str:
    return (
        f"{name}: The eigenvectors in the complex case are specified up to multiplication by "
        "e^{i phi}. The specified loss function depends on this quantity, so it is ill-defined. "
        "Make the loss a function of quantities that do not depend on the phase."
    )


def _eigh_vjp(gs: Any, outs: Any) -> Tensor | None:
    """The Hermitian part of V (diag(gL) + (V^H gV) / (l_j - l_i)) V^H"""
    (g_values, g_vectors), (values, V) = gs, outs
    Vh = adjoint_of(V)
    if g_vectors is None:
        if g_values is None:
            return None
        return MATMUL(V * g_values.unsqueeze(-2), Vh)
    inner = MATMUL(Vh, g_vectors)
    if V.dtype.is_complex:
        inner = ensure_zero(inner, diag(inner).imag, message=_phase_message("linalg_eigh_backward"))
    middle = _off_diagonal(inner / _gaps(values))
    middle = (middle + adjoint_of(middle)) * 0.5
    if g_values is not None:
        middle = middle + g_values.to(middle.dtype).diag_embed()
    return MATMUL(MATMUL(V, middle), Vh)


def _eigh_infer(x: Spec, upper: bool) -> tuple[Spec, Spec]:
    return vector_like(x, x.shape[-1], x.dtype.to_real()), x


# EIGH: (eigenvalues ascending, eigenvectors) of a Hermitian matrix, one triangle of which is read.
EIGH: Record = primitive(
    "eigh",
    _eigh_infer,
    _eigh_vjp,
    outputs=2,
    batched_params=same_params,
    fails="values",
    pulled="host_looped",
)


def _eigvalsh_vjp(g: Tensor, x: Tensor, upper: bool) -> Tensor:
    """V diag(g) V^H, with vectors that are computed only now."""
    V = EIGH(x, upper=upper)[1]
    return MATMUL(V * g.unsqueeze(-2), adjoint_of(V))


# EIGVALSH: the eigenvalues alone, in a fraction of the time; those of EIGH but for rounding.
EIGVALSH: Record = primitive(
    "eigvalsh",
    lambda x, upper: _eigh_infer(x, upper)[0],
    _eigvalsh_vjp,
    batched_params=same_params,
    fails="values",
)


def _eig_vjp(gs: Any, outs: Any, x_spec: Spec) -> Tensor | None:
    """V^-H (diag(gL) + (V^H gV - V^H V Re diag(V^H gV)) / (l_j - l_i)*) V^H"""
    (g_values, g_vectors), (values, V) = gs, outs
    if g_values is None and g_vectors is None:
        return None
    Vh = adjoint_of(V)
    if g_vectors is None:
        right = g_values.unsqueeze(-1) * Vh
    else:
        inner = MATMUL(Vh, g_vectors)
        inner = ensure_zero(inner, diag(inner).imag, message=_phase_message("linalg_eig_backward"))
        scale = diag(inner).real.unsqueeze(-2)
        middle = _off_diagonal((inner - MATMUL(Vh, V) * scale) / _gaps(values).conj())
        if g_values is not None:
            middle = middle + g_values.diag_embed()
        right = MATMUL(middle, Vh)
    return match_real(SOLVE(Vh, right, name="linalg.eig", check=False)[0], x_spec)


def _eig_infer(x: Spec) -> tuple[Spec, Spec]:
    dtype = x.dtype.to_complex()
    return vector_like(x, x.shape[-1], dtype), Spec(x.shape, dtype, x.device)


EIG: Record = primitive(
    "eig",
    _eig_infer,
    _eig_vjp,
    outputs=2,
    batched_params=same_params,
    fails="values",
    pulled="host_looped",
)


def _pairs_infer(x: Spec) -> tuple[Spec, Spec]:
    return Spec((*x.shape[:-1], 2), x.dtype, x.device), Spec((*x.shape, 2), x.dtype, x.device)


# EIG_PAIRS: EIG of real matrices, its complex numbers as pairs along a further dimension, to which
# compiled programs bring it.
EIG_PAIRS: Record = primitive("eig_pairs", _pairs_infer, None, outputs=2, fails="values")


def _is_upper(name: str, UPLO: str) -> bool:
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"{name}: Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper() == "U"


@public(namespaces=("linalg",), out=True)
def eigh(input: Tensor, UPLO: str = "L") -> Any:
    """Eigenvalues, ascending, and orthonormal eigenvectors of a Hermitian matrix.

    >>> import adjoint as ad
    >>> ad.linalg.eigh(ad.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    check_matrix("linalg.eigh", input, square=True)
    return RETURN_TYPES["linalg_eigh"](*EIGH(input, upper=_is_upper("linalg.eigh", UPLO)))


@public(namespaces=("linalg",), out=True)
def eigvalsh(input: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues, ascending, of a Hermitian matrix."""
    check_matrix("linalg.eigvalsh", input, square=True)
    upper = _is_upper("linalg.eigvalsh", UPLO)
    if CONTEXT.levels or (CONTEXT.grad_enabled and input.requires_grad):
        return EIGH(input, upper=upper)[0]  # their derivative needs the vectors
    return EIGVALSH(input, upper=upper)


@public(namespaces=("linalg",), out=True)
def eig(input: Tensor) -> Any:
    """Complex eigenvalues and eigenvectors of a square matrix."""
    check_matrix("linalg.eig", input, square=True)
    return RETURN_TYPES["linalg_eig"](*EIG(input))


@public(namespaces=("linalg",), out=True)
def eigvals(input: Tensor) -> Tensor:
    """Complex eigenvalues of a square matrix."""
    check_matrix("linalg.eigvals", input, square=True)
    return EIG(input)[0]
