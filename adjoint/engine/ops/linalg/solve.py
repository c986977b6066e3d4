"""Inverses and linear systems."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.families import primitive
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.operations.return_types import RETURN_TYPES
from adjoint.engine.ops.linalg.common import (
    MATMUL,
    adjoint_of,
    broadcast_batches,
    check_inexact,
    check_matrix,
    check_same_dtype,
    info_like,
    of_many,
    same_params,
)

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

# Each of these has a parameter `name`, the function to blame, and `check`: whether a singular
# matrix raises LinAlgError. INV -> (inverse, info).
INV: Record = primitive(
    "inv",
    lambda x, name, check: (x, info_like(x)),
    lambda g, outs: -MATMUL(MATMUL(adjoint_of(outs[0]), g), adjoint_of(outs[0])),
    outputs=2,
    batched_params=same_params,
    fails="values",
    fragment="host_looped",
    pulled="host_looped",
    much=of_many,
)


def _solve_joint(
    g: Tensor, x: Tensor, out: Tensor, needed: Sequence[bool], name: str, check: bool
) -> tuple[Tensor | None, Tensor]:
    back = SOLVE(adjoint_of(x), g, name=name, check=check)[0]
    return -MATMUL(back, adjoint_of(out)) if needed[0] else None, back


# SOLVE: (x^-1 y, info) for matrices x and y with one batch shape.
SOLVE: Record = primitive(
    "solve",
    lambda x, y, name, check: (y, info_like(x)),
    operands=("x", "y"),
    joint=_solve_joint,
    joint_for={"out": ("x",)},
    outputs=2,
    batched_params=same_params,
    fails="values",
    fragment="host_looped",
    pulled="host_looped",
    much=of_many,
)


def triangle(x: Tensor, upper: bool, unit: bool) -> Tensor:
    """The triangle a triangular operation reads, zero elsewhere."""
    offset = 1 if unit else 0
    return x.triu(offset) if upper else x.tril(-offset)


def _triangular_joint(
    g: Tensor, x: Tensor, out: Tensor, needed: Sequence[bool], upper: bool, unit: bool
) -> tuple[Tensor | None, Tensor]:
    back = TRIANGULAR_SOLVE(adjoint_of(x), g, upper=not upper, unit=unit)
    whole = -MATMUL(back, adjoint_of(out)) if needed[0] else None
    return None if whole is None else triangle(whole, upper, unit), back


# TRIANGULAR_SOLVE: x^-1 y, reading one triangle of x (and ones on the diagonal if `unit`).
TRIANGULAR_SOLVE: Record = primitive(
    "triangular_solve",
    lambda x, y, upper, unit: y,
    operands=("x", "y"),
    joint=_triangular_joint,
    joint_for={"out": ("x",)},
    batched_params=same_params,
    fragment="host_looped",
    pulled="host_looped",
    much=of_many,
)


# -- inverse ------------------------------------------------------------------------------------


@public(namespaces=("linalg",), out=True)
def inv(A: Tensor) -> Tensor:
    """The inverse of a square matrix, or of each in a batch.

    >>> import adjoint as ad
    >>> ad.linalg.inv(ad.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    check_matrix("linalg.inv", A, square=True)
    return INV(A, name="linalg.inv", check=True)[0]


@public(method=True, out=True)
def inverse(input: Tensor) -> Tensor:
    """Alias of `linalg.inv`."""
    return inv(input)


@public(namespaces=("linalg",), out=True)
def inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:
    """The inverse, and per matrix 0 or the place of the zero pivot."""
    check_matrix("linalg.inv_ex", A, square=True)
    results = INV(A, name="linalg.inv_ex", check=check_errors)
    return RETURN_TYPES["linalg_inv_ex"](*results)


# -- solve --------------------------------------------------------------------------------------


def is_vector(A: Tensor, B: Tensor) -> bool:
    """Whether `B` is a batch of vectors rather than of matrices, beside `A`."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])


def check_system(name: str, A: Tensor, B: Tensor, *, left: bool = True) -> None:
    """Refuse matrices that do not make a linear system."""
    check_matrix(name, A, square=True)
    check_inexact(name, B)
    check_same_dtype(name, A, B)
    if B.ndim < 2:
        raise ShapeError(
            f"{name}: The input tensor B must have at least 2 dimensions, received "
            f"{tuple(B.shape)}."
        )
    size = B.shape[-2] if left else B.shape[-1]
    if A.shape[-1] != size:
        raise ShapeError(
            f"{name}: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} ({A.shape[-2]}x{A.shape[-1]} and "
            f"{B.shape[-2]}x{B.shape[-1]})"
        )


# -- triangular ---------------------------------------------------------------------------------


@public(namespaces=("linalg",), out=True)
def solve_triangular(
    input: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X with A X = B (or X A = B) for a triangular A; only that triangle is read."""
    name = "linalg.solve_triangular"
    check_system(name, input, B, left=left)
    input, B = broadcast_batches(name, input, B)
    if left:
        return TRIANGULAR_SOLVE(input, B, upper=upper, unit=unitriangular)
    out = TRIANGULAR_SOLVE(
        input.transpose(-2, -1), B.transpose(-2, -1), upper=not upper, unit=unitriangular
    )
    return out.transpose(-2, -1)


@public(method=True, out=True)
def triangular_solve(
    input: Tensor,
    A: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Any:
    """X with A X = input for a triangular A, and A itself."""
    check_system("triangular_solve", A, input)
    A, input = broadcast_batches("triangular_solve", A, input)
    coefficient = A.clone()
    if transpose:
        A, upper = A.transpose(-2, -1), not upper
    out = TRIANGULAR_SOLVE(A, input, upper=upper, unit=unitriangular)
    return RETURN_TYPES["triangular_solve"](out, coefficient)


# -- tensors as matrices ------------------------------------------------------------------------


@public(namespaces=("linalg",), out=True)
def tensorinv(input: Tensor, ind: int = 2) -> Tensor:
    """The inverse of `A` as a map from its dimensions after `ind` to those before."""
    check_inexact("linalg.tensorinv", input)
    if ind <= 0:
        raise RuntimeError(
            f"linalg.tensorinv: Expected ind to be strictly positive, received {ind}"
        )
    front, back = tuple(input.shape[:ind]), tuple(input.shape[ind:])
    if prod(front) != prod(back):
        raise ShapeError(
            "linalg.tensorinv: Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {prod(back)} != {prod(front)}"
        )
    square = input.reshape((prod(front), prod(back)))
    return INV(square, name="linalg.inv", check=True)[0].reshape((*back, *front))
