"""Cholesky factors and what is solved with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.operations.families import primitive
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.operations.return_types import RETURN_TYPES
from adjoint.engine.ops.linalg.common import (
    MATMUL,
    adjoint_of,
    broadcast_batches,
    check_matrix,
    info_like,
    of_many,
    same_params,
)
from adjoint.engine.ops.linalg.solve import TRIANGULAR_SOLVE, check_system

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _cholesky_vjp(gs: Any, outs: Any, upper: bool) -> Tensor:
    """L^-H P L^-1, with P the lower triangle of L^H gL / 2 reflected to the upper one."""
    factor, g = (adjoint_of(t) if upper else t for t in (outs[0], gs[0]))
    product = MATMUL(adjoint_of(factor), g)
    middle = (product.tril() + adjoint_of(product.tril(-1))) * 0.5
    back = adjoint_of(factor)
    left = TRIANGULAR_SOLVE(back, middle, upper=True, unit=False)
    return adjoint_of(TRIANGULAR_SOLVE(back, adjoint_of(left), upper=True, unit=False))


# CHOLESKY: (L or L^H, info), reading one triangle of a Hermitian matrix.
CHOLESKY: Record = primitive(
    "cholesky",
    lambda x, upper, name, check: (x, info_like(x)),
    _cholesky_vjp,
    outputs=2,
    batched_params=same_params,
    fails="values",
    fragment="host_looped",
    pulled="host_looped",
    much=of_many,
)


def _factor(name: str, A: Tensor, upper: bool, check: bool) -> tuple[Tensor, Tensor]:
    check_matrix(name, A, square=True)
    return CHOLESKY(A, upper=upper, name=name, check=check)


@public(namespaces=("linalg",), out=True, name="cholesky")
def linalg_cholesky(input: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular L with A = L L^H (or the upper L^H).

    >>> import adjoint as ad
    >>> ad.linalg.cholesky(ad.tensor([[4.0, 0.0], [0.0, 9.0]]))
    tensor([[2., 0.],
            [0., 3.]])
    """
    return _factor("linalg.cholesky", input, upper, check=True)[0]


@public(namespaces=("linalg",), out=True)
def cholesky_ex(input: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    """The Cholesky factor, and per matrix 0 or the order of the minor that is not positive."""
    results = _factor("linalg.cholesky_ex", input, upper, check=check_errors)
    return RETURN_TYPES["linalg_cholesky_ex"](*results)


@public(method=True, out=True)
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """The Cholesky factor of a positive-definite matrix."""
    return _factor("cholesky", input, upper, check=True)[0]


def _solve_joint(
    g: Tensor, y: Tensor, out: Tensor, needed: Sequence[bool], upper: bool
) -> tuple[Tensor, Tensor | None]:
    back = CHOLESKY_SOLVE(g, y, upper=upper)
    return back, _factor_cotangent(back, y, out, upper) if needed[1] else None


def _factor_cotangent(back: Tensor, y: Tensor, out: Tensor, upper: bool) -> Tensor:
    """As if all of the factor were read: what is outside its triangle gets a gradient too."""
    half = MATMUL(back, adjoint_of(out))
    both = half + adjoint_of(half)
    return -MATMUL(y, both) if upper else -MATMUL(both, y)


# CHOLESKY_SOLVE(x, y, upper): (y y^H)^-1 x, or (y^H y)^-1 x for an upper factor y.
CHOLESKY_SOLVE: Record = primitive(
    "cholesky_solve",
    lambda x, y, upper: x,
    operands=("x", "y"),
    joint=_solve_joint,
    joint_for={"out": ("y",)},
    batched_params=same_params,
    fragment="host_looped",
    pulled="host_looped",
    much=of_many,
)


@public(method=True, out=True)
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """X with A X = B, given the Cholesky factor of A."""
    check_system("cholesky_solve", input2, input)
    factor, target = broadcast_batches("cholesky_solve", input2, input)
    return CHOLESKY_SOLVE(target, factor, upper=upper)


@public(method=True, out=True)
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A, given its Cholesky factor."""
    check_matrix("cholesky_inverse", input, square=True)
    eye = input.new_eye(input.shape[-1]).expand(input.shape)
    return CHOLESKY_SOLVE(eye, input, upper=upper)
