"""Least squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import int64
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.families import primitive
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.operations.return_types import RETURN_TYPES
from adjoint.engine.core.spec import Spec
from adjoint.engine.ops.linalg.common import (
    MATMUL,
    adjoint_of,
    broadcast_batches,
    check_inexact,
    check_matrix,
    check_same_dtype,
    matrix_like,
    same_params,
    scalar_like,
    vector_like,
)
from adjoint.engine.ops.linalg.svd import PINV, pinv_pull

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _infer(x: Spec, y: Spec, rcond: float, driver: str) -> tuple[Spec, Spec, Spec]:
    m, n = x.shape[-2:]
    return (
        matrix_like(y, n, y.shape[-1]),
        scalar_like(x, int64),
        vector_like(x, min(m, n), x.dtype.to_real()),
    )


def _pinv(x: Tensor, rcond: float) -> Tensor:
    return PINV(x, 0.0, rcond, hermitian=False)


def _joint(
    g: Tensor, x: Tensor, y: Tensor, needed: Sequence[bool], rcond: float
) -> tuple[Tensor | None, Tensor | None]:
    inverse = _pinv(x, rcond)
    return (
        pinv_pull(MATMUL(g, adjoint_of(y)), x, inverse) if needed[0] else None,
        MATMUL(adjoint_of(inverse), g) if needed[1] else None,
    )


# LSTSQ: (solution, rank, singular values) for one batch shape. The solution is pinv(x) y, and
# differentiates as such.
LSTSQ: Record = primitive(
    "lstsq",
    _infer,
    operands=("x", "y"),
    joint=_joint,
    joint_for={"y": ("x",)},
    outputs=3,
    batched_params=same_params,
    pulled="host_looped",
)


def _check(A: Tensor, B: Tensor, driver: str) -> None:
    name = "linalg.lstsq"
    check_matrix(name, A, "input")
    check_inexact(name, B)
    check_same_dtype(name, A, B)
    if B.ndim < 1:
        raise ShapeError(f"{name}: other must have at least 1 dimension.")
    if not 0 <= A.ndim - B.ndim <= 1:
        raise ShapeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - "
            f"other.dim()) <= 1, received {A.ndim} and {B.ndim}"
        )
    if driver not in _DRIVERS:
        raise RuntimeError(
            f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), received "
            f"{driver!r}"
        )


@public(namespaces=("linalg",), out=True)
def lstsq(input: Tensor, b: Tensor, rcond: Any = None, *, driver: str | None = None) -> Any:
    """The X that makes |A X - B| least, with residuals, rank and singular values."""
    driver = "gelsy" if driver is None else driver
    _check(input, b, driver)
    m, n = input.shape[-2:]
    vector = input.ndim - b.ndim == 1
    target = b.unsqueeze(-1) if vector else b
    if target.shape[-2] != m:
        raise ShapeError(
            f"linalg.lstsq: input.size(-2) should match other.size({-1 if vector else -2}), "
            f"received {tuple(input.shape)} and {tuple(b.shape)}"
        )
    epsilon = 2.0**-52 if input.dtype.to_real().itemsize == 8 else 2.0**-23
    rcond = epsilon * max(m, n) if rcond is None else float(rcond)
    batch = tuple(input.shape[:-2])
    input, target = broadcast_batches("linalg.lstsq", input, target)
    solution, rank, values = LSTSQ(input, target, rcond=rcond, driver=driver)
    residuals = _residuals(input, target, solution, rank, driver)
    return RETURN_TYPES["linalg_lstsq"](
        solution.squeeze(-1) if vector else solution,
        residuals,
        _of_matrices(rank, batch) if driver != "gels" else rank.new_zeros((0,)),
        _of_matrices(values.detach(), batch)
        if driver in ("gelsd", "gelss")
        else values.new_zeros((0,)),
    )


def _of_matrices(found: Tensor, batch: tuple[int, ...]) -> Tensor:
    """What was found once for each matrix given, of a batch that may have been repeated."""
    for dim, size in enumerate(batch):
        if size == 1:
            found = found.narrow(dim, 0, 1)
    return found


def _residuals(A: Tensor, B: Tensor, X: Tensor, rank: Tensor, driver: str) -> Tensor:
    """Sums of squares of A X - B; nothing where the system is not overdetermined.

    Nor with the default driver, which PyTorch leaves without them.
    """
    m, n = A.shape[-2:]
    if m > n and driver != "gelsy" and (driver == "gels" or _full_rank(rank, n)):
        error = MATMUL(A, X) - B
        return (error * error.conj()).real.sum(-2) if A.dtype.is_complex else (error**2).sum(-2)
    if not X.requires_grad:
        return X.new_zeros((0,), dtype=X.dtype.to_real())
    nothing = X.flatten()[:0]
    return nothing.real if X.dtype.is_complex else nothing


def _full_rank(rank: Tensor, n: int) -> bool:
    """Whether all have rank n; taken for granted where the ranks are not known yet."""
    if not hasattr(rank._array, "min"):
        return True
    return rank._array.size == 0 or int(rank._array.min()) == n
