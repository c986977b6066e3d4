"""LDL factors of Hermitian or symmetric matrices that need not be definite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import int32
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.families import no_derivative, primitive
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.operations.return_types import RETURN_TYPES
from adjoint.engine.core.spec import Spec
from adjoint.engine.ops.linalg.common import (
    broadcast_batches,
    check_matrix,
    info_like,
    same_params,
    vector_like,
)
from adjoint.engine.ops.linalg.solve import check_system

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _infer(x: Spec, name: str, check: bool, hermitian: bool) -> tuple[Spec, Spec, Spec]:
    return x, vector_like(x, x.shape[-1], int32), info_like(x)


# PyTorch states no derivative for these either.
LDL_FACTOR: Record = primitive("ldl_factor", _infer, None, outputs=3, batched_params=same_params)
LDL_SOLVE: Record = primitive(
    "ldl_solve",
    lambda x, pivots, y, hermitian: y,
    no_derivative("linalg.ldl_solve"),
    None,
    no_derivative("linalg.ldl_solve"),
    batched_params=same_params,
)


@public(namespaces=("linalg",), out=True)
def ldl_factor(input: Tensor, *, hermitian: bool = False) -> Any:
    """L and the blocks of D in one matrix, and the exchanges."""
    check_matrix("linalg.ldl_factor", input, square=True)
    results = LDL_FACTOR(input, name="linalg.ldl_factor", check=True, hermitian=hermitian)
    return RETURN_TYPES["linalg_ldl_factor"](*results[:2])


@public(namespaces=("linalg",), out=True)
def ldl_factor_ex(input: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """`ldl_factor`, and per matrix 0 or the place of a zero block of D."""
    check_matrix("linalg.ldl_factor_ex", input, square=True)
    results = LDL_FACTOR(
        input, name="linalg.ldl_factor_ex", check=check_errors, hermitian=hermitian
    )
    return RETURN_TYPES["linalg_ldl_factor_ex"](*results)


@public(namespaces=("linalg",), out=True)
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """X with A X = B, given A's LDL factors."""
    name = "linalg.ldl_solve"
    check_system(name, LD, B)
    if pivots.dtype.is_inexact or pivots.dtype.name == "bool":
        raise DTypeError(f"{name}: Expected pivots to be integers. Got {pivots.dtype.name}")
    if pivots.shape != LD.shape[:-1]:
        raise ShapeError(
            f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with "
            f"shape {list(pivots.shape)} for LD with shape {list(LD.shape)}"
        )
    LD, B = broadcast_batches(name, LD, B)
    pivots = pivots.expand((*LD.shape[:-2], pivots.shape[-1]))
    return LDL_SOLVE(LD, pivots, B, hermitian=hermitian)
