"""LU factors: A = P L U."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import int32, int64
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.families import primitive
from adjoint.engine.core.operations.public import method, public
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
    info_like,
    same_params,
    vector_like,
)
from adjoint.engine.ops.linalg.solve import TRIANGULAR_SOLVE, check_system
from adjoint.engine.ops.shape.join import cat

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

# PERMUTATION(pivots, size, inverse): the rows LAPACK's exchanges put in order, as indices p with
# (P^T A)[i] = A[p[i]]; or the inverse of that.
PERMUTATION: Record = primitive(
    "pivots_to_permutation",
    lambda x, size, inverse: Spec((*x.shape[:-1], size), int64, x.device),
    None,
    batched_params=same_params,
    fails="values",
    fragment="host_looped",
)


def take_rows(x: Tensor, rows: Tensor) -> Tensor:
    """The rows of matrices in another order."""
    return x.gather(-2, rows.unsqueeze(-1).expand(x.shape))


def split_factors(LU: Tensor) -> tuple[Tensor, Tensor]:
    """L, with its ones, and U from both in one matrix."""
    rows, columns = LU.shape[-2:]
    k = min(rows, columns)
    low = LU[..., :k].tril(-1)
    eye = (LU.new_arange(rows).unsqueeze(-1) == LU.new_arange(k)).to(LU.dtype)
    return low + eye, LU[..., :k, :].triu()


def _lu_vjp(gs: Any, outs: Any, x_spec: Spec) -> Tensor:
    """A_1 is the leading square block; what lies beyond it follows by triangular solves."""
    LU, pivots, _ = outs
    rows, columns = x_spec.shape[-2:]
    k = min(rows, columns)
    g = gs[0]
    L, U = split_factors(LU)
    square_l, square_u = L[..., :k, :], U[..., :k]
    lower = MATMUL(adjoint_of(square_l), g[..., :k, :k].tril(-1))
    upper = MATMUL(g[..., :k, :k].triu(), adjoint_of(square_u))
    if columns > rows:
        lower = lower - MATMUL(g[..., k:], adjoint_of(U[..., k:]))
    elif rows > columns:
        upper = upper - MATMUL(adjoint_of(L[..., k:, :]), g[..., k:, :])
    middle = lower.tril(-1) + upper.triu()
    block = _times_inverse_upper(_adjoint_lower(square_l, middle), square_u)
    if columns > rows:
        block = cat([block, _adjoint_lower(square_l, g[..., k:])], -1)
    elif rows > columns:
        block = cat([block, _times_inverse_upper(g[..., k:, :], square_u)], -2)
    return take_rows(block, PERMUTATION(pivots, size=rows, inverse=True))


def _adjoint_lower(L: Tensor, x: Tensor) -> Tensor:
    """L^-H x"""
    return TRIANGULAR_SOLVE(adjoint_of(L), x, upper=True, unit=True)


def _times_inverse_upper(x: Tensor, U: Tensor) -> Tensor:
    """x U^-H"""
    return adjoint_of(TRIANGULAR_SOLVE(U, adjoint_of(x), upper=True, unit=False))


def _lu_infer(x: Spec, name: str, check: bool) -> tuple[Spec, Spec, Spec]:
    return x, vector_like(x, min(x.shape[-2:]), int32), info_like(x)


# LU_FACTOR: (L and U in one matrix, LAPACK's 1-based exchanges, info).
LU_FACTOR: Record = primitive(
    "lu_factor",
    _lu_infer,
    _lu_vjp,
    outputs=3,
    batched_params=same_params,
    fails="values",
    fragment="host_looped",
    pulled="host_looped",
)


def _need_pivot(name: str, pivot: bool) -> None:
    if not pivot:
        raise RuntimeError(f"{name}: LU without pivoting is not implemented on the CPU")


@public(namespaces=("linalg",), out=True)
def lu_factor(A: Tensor, *, pivot: bool = True) -> Any:
    """L and U in one matrix, and the row exchanges."""
    check_matrix("linalg.lu_factor", A)
    _need_pivot("linalg.lu_factor", pivot)
    results = LU_FACTOR(A, name="linalg.lu_factor", check=True)
    return RETURN_TYPES["linalg_lu_factor"](*results[:2])


@public(namespaces=("linalg",), out=True)
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """`lu_factor`, and per matrix 0 or the place of the zero pivot."""
    check_matrix("linalg.lu_factor_ex", A)
    _need_pivot("linalg.lu_factor_ex", pivot)
    results = LU_FACTOR(A, name="linalg.lu_factor_ex", check=check_errors)
    return RETURN_TYPES["linalg_lu_factor_ex"](*results)


@public(name="lu")
def packed_lu(
    A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None
) -> tuple[Tensor, ...]:
    """L and U in one matrix, the row exchanges, and info where asked."""
    return packed_lu_method(A, pivot, get_infos)


@method(name="lu")
def packed_lu_method(
    self: Tensor, pivot: bool = True, get_infos: bool = False
) -> tuple[Tensor, ...]:
    """L and U in one matrix, the row exchanges, and info where asked."""
    check_matrix("lu", self)
    _need_pivot("lu", pivot)
    results = LU_FACTOR(self, name="lu", check=False)
    return results if get_infos else results[:2]


def _permutation_matrix(pivots: Tensor, size: int, like: Tensor) -> Tensor:
    rows = PERMUTATION(pivots, size=size, inverse=False)
    return (like.new_arange(size).unsqueeze(-1) == rows.unsqueeze(-2)).to(like.dtype)


@public(namespaces=("linalg",), out=True)
def lu(A: Tensor, *, pivot: bool = True) -> Any:
    """P, L and U with A = P L U."""
    check_matrix("linalg.lu", A)
    _need_pivot("linalg.lu", pivot)
    LU, pivots, _ = LU_FACTOR(A, name="linalg.lu", check=False)
    P = _permutation_matrix(pivots, A.shape[-2], A)
    return RETURN_TYPES["linalg_lu"](P, *split_factors(LU))


@public(out=True)
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> Any:
    """P, L and U from what `lu_factor` returned."""
    if unpack_pivots and LU_pivots.dtype is not int32:
        raise DTypeError(
            "lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype, "
            f"received {LU_pivots.dtype.name}"
        )
    wanted = (*LU_data.shape[:-2], min(LU_data.shape[-2:]))
    if unpack_pivots and tuple(LU_pivots.shape) != wanted:
        raise ShapeError(
            f"lu_unpack: LU_data of shape {list(LU_data.shape)} wants LU_pivots of shape "
            f"{list(wanted)}, received {list(LU_pivots.shape)}"
        )
    nothing = LU_data.new_zeros((0,))
    P = _permutation_matrix(LU_pivots, LU_data.shape[-2], LU_data) if unpack_pivots else nothing
    L, U = split_factors(LU_data) if unpack_data else (nothing, nothing)
    return RETURN_TYPES["lu_unpack"](P, L, U)


def solve_factored(LU: Tensor, pivots: Tensor, B: Tensor, adjoint: bool) -> Tensor:
    """A^-1 B, or A^-H B, of the factors of A."""
    size = LU.shape[-1]
    if not adjoint:
        rows = PERMUTATION(pivots, size=size, inverse=False)
        half = TRIANGULAR_SOLVE(LU, take_rows(B, rows), upper=False, unit=True)
        return TRIANGULAR_SOLVE(LU, half, upper=True, unit=False)
    half = TRIANGULAR_SOLVE(adjoint_of(LU), B, upper=False, unit=False)
    out = TRIANGULAR_SOLVE(adjoint_of(LU), half, upper=True, unit=True)
    return take_rows(out, PERMUTATION(pivots, size=size, inverse=True))


@public(namespaces=("linalg",), out=True, name="lu_solve")
def linalg_lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """X with A X = B (or X A = B; A^H for A if `adjoint`), given A's LU factors."""
    name = "linalg.lu_solve"
    check_system(name, LU, B, left=left)
    if pivots.dtype is not int32:
        raise DTypeError(
            f"{name}: pivots should be a Tensor of scalar type int32, received {pivots.dtype.name}"
        )
    if pivots.shape != LU.shape[:-1]:
        raise ShapeError(
            f"{name}: Number of pivots per batch should be same as the dimension of the matrix: "
            f"received {tuple(pivots.shape)} for {tuple(LU.shape)}"
        )
    if not left:  # X A = B is A^H X^H = B^H
        B = adjoint_of(B)
    LU, B = broadcast_batches(name, LU, B)
    pivots = pivots.expand((*LU.shape[:-2], pivots.shape[-1]))
    if left:
        return solve_factored(LU, pivots, B, adjoint)
    return adjoint_of(solve_factored(LU, pivots, B, not adjoint))


@public(method=True, out=True)
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """X with A X = b, given A's LU factors."""
    check_inexact("lu_solve", input, LU_data)
    check_same_dtype("lu_solve", input, LU_data)
    return linalg_lu_solve(LU_data, LU_pivots, input)
