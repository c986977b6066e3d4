"""Approximate factors of large matrices, by products with a few random vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.engine.core.operations.public import public
from adjoint.engine.ops.linalg.common import MATMUL, adjoint_of
from adjoint.engine.ops.linalg.qr import QR
from adjoint.engine.ops.linalg.svd import SVD
from adjoint.engine.ops.random.random import randn

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _basis(A: Tensor, q: int, niter: int) -> Tensor:
    """Columns that nearly span the range of A (Halko et al., algorithm 4.4)."""
    start = randn((*A.shape[:-2], A.shape[-1], q), dtype=A.dtype, device=A.device)
    Ah = adjoint_of(A)
    Q = QR(MATMUL(A, start), mode="reduced")[0]
    for _ in range(niter):
        Q = QR(MATMUL(Ah, Q), mode="reduced")[0]
        Q = QR(MATMUL(A, Q), mode="reduced")[0]
    return Q


@public()
def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """U, S, V with U diag(S) V^H close to A (or to A - M), of rank q."""
    q = 6 if q is None else q
    niter = 2 if niter is None else niter
    if M is not None:
        A = A - M.expand(A.shape)
    m, n = A.shape[-2:]
    if m < n:  # the basis of the shorter side
        U, S, V = svd_lowrank(adjoint_of(A), q, niter)
        return V, S, U
    Q = _basis(A, q, niter)
    U, S, Vh = SVD(MATMUL(adjoint_of(Q), A), full_matrices=False)
    return MATMUL(Q, U), S, adjoint_of(Vh)


@public()
def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """Principal components of the rows of A: U, S and V as `svd_lowrank` of centred rows."""
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(
            f"pca_lowrank: q(={q}) must be non-negative integer and not greater than min(m, n)="
            f"{min(m, n)}"
        )
    if niter < 0:
        raise ValueError(f"pca_lowrank: niter(={niter}) must be non-negative integer")
    if center:
        A = A - A.mean(-2, keepdim=True)
    return svd_lowrank(A, q, niter)
