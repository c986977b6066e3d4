"""Linear systems; where gradients are wanted, large matrices are eliminated once for both ways."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.operations.return_types import RETURN_TYPES
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.linalg.common import (
    MATMUL,
    adjoint_of,
    broadcast_batches,
    check_inexact,
    check_matrix,
    check_same_dtype,
)
from adjoint.engine.ops.linalg.lu import LU_FACTOR, solve_factored
from adjoint.engine.ops.linalg.solve import SOLVE, check_system, is_vector

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

KEPT = 96  # rows up to which to eliminate again takes less time than to keep factors


def _joint(
    g: Tensor,
    x: Tensor,
    factors: Tensor,
    pivots: Tensor,
    out: Tensor,
    needed: Sequence[bool],
    adjoint: bool,
) -> tuple[Tensor | None, None, None, Tensor]:
    back = SOLVE_FACTORED(x, factors, pivots, g, adjoint=not adjoint)
    if not needed[0]:
        return None, None, None, back
    left, right = (out, back) if adjoint else (back, out)
    return -MATMUL(left, adjoint_of(right)), None, None, back


# SOLVE_FACTORED(x, factors, pivots, y, adjoint): x^-1 y, or x^-H y, of what LU_FACTOR gives of x.
# Its derivative is by x, of which the factors are a function, so there is none by them.
SOLVE_FACTORED: Record = composite(
    "solve_factored",
    lambda x, factors, pivots, y, adjoint: solve_factored(factors, pivots, y, adjoint),
    operands=("x", "factors", "pivots", "y"),
    joint=_joint,
    joint_for={"out": ("x",)},
    fragment="host_looped",
)


def _keeps_factors(A: Tensor, B: Tensor) -> bool:
    """Whether a derivative will want them, and of a matrix so large that they are worth it."""
    if CONTEXT.levels or not CONTEXT.grad_enabled or not (A.requires_grad or B.requires_grad):
        return False
    return bool(A.device.type == "cpu" and A.shape[-1] > KEPT and 0 not in B.shape)


def _solution(name: str, A: Tensor, B: Tensor, check: bool) -> tuple[Tensor, Tensor]:
    """A^-1 B of one batch shape, and info."""
    if not check or not _keeps_factors(A, B):
        return SOLVE(A, B, name=name, check=check)
    factors, pivots, info = LU_FACTOR(A.detach(), name=name, check=True)
    return SOLVE_FACTORED(A, factors, pivots, B, adjoint=False), info


def _solve(name: str, A: Tensor, B: Tensor, left: bool, check: bool) -> tuple[Tensor, Tensor]:
    check_matrix(name, A, square=True)
    check_inexact(name, B)
    if B.ndim == 0:
        raise ShapeError(f"{name}: The input tensor B must have at least 1 dimension")
    vector = is_vector(A, B)
    if vector and not left:
        raise ShapeError(f"{name}: Vector broadcasting of the left hand side is not supported")
    if vector:
        B = B.unsqueeze(-1)
    check_system(name, A, B, left=left)
    A, B = broadcast_batches(name, A, B)
    if left:
        out, info = _solution(name, A, B, check)
        return out.squeeze(-1) if vector else out, info
    out, info = _solution(name, A.transpose(-2, -1), B.transpose(-2, -1), check)
    return out.transpose(-2, -1), info


@public(namespaces=("linalg",), out=True)
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with A X = B (X A = B where `left` is false).

    >>> import adjoint as ad
    >>> ad.linalg.solve(ad.tensor([[2.0, 0.0], [0.0, 4.0]]), ad.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    return _solve("linalg.solve", A, B, left, check=True)[0]


@public(namespaces=("linalg",), out=True)
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """The solution, and per matrix 0 or the place of the zero pivot."""
    results = _solve("linalg.solve_ex", A, B, left, check=check_errors)
    return RETURN_TYPES["linalg_solve_ex"](*results)


@public(namespaces=("linalg",), out=True)
def tensorsolve(input: Tensor, other: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B."""
    check_inexact("linalg.tensorsolve", input, other)
    if dims is not None:
        input = input.movedim(tuple(dims), tuple(range(input.ndim - len(dims), input.ndim)))
    shape = tuple(input.shape[other.ndim :])
    size = prod(shape)
    if size != prod(input.shape[: other.ndim]) or size != prod(other.shape):
        raise ShapeError(
            "linalg.tensorsolve: Expected self to satisfy the requirement "
            "prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got "
            f"{size} != {prod(input.shape[: other.ndim])}"
        )
    check_same_dtype("linalg.tensorsolve", input, other)
    out = solve(input.reshape((size, size)), other.reshape((size,)))
    return out.reshape(shape)
