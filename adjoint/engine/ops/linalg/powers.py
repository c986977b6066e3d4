"""Powers, exponentials and products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from adjoint.engine.core.dtype import bool_, int64
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.families import primitive
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.ops.linalg.common import (
    MATMUL,
    adjoint_of,
    check_inexact,
    check_same_dtype,
    same_params,
    zeros_from,
)
from adjoint.engine.ops.linalg.solve import INV
from adjoint.engine.ops.products.derived_products import cross_along, multiply_chain
from adjoint.engine.ops.shape.join import cat

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _exp_vjp(g: Tensor, x: Tensor) -> Tensor:
    """The upper right block of exp([[x^H, g], [0, x^H]])."""
    n = x.shape[-1]
    xh = adjoint_of(x)
    rows = [cat([xh, g], -1), cat([xh.new_zeros(xh.shape), xh], -1)]
    return MATRIX_EXP(cat(rows, -2))[..., :n, n:]


MATRIX_EXP: Record = primitive(
    "matrix_exp",
    lambda x: x,
    _exp_vjp,
    batched_params=same_params,
    fragment="host_looped",
    pulled="host_looped",
)


def _check_square(name: str, A: Tensor) -> None:
    if A.ndim < 2:
        raise ShapeError(
            f"{name}: The input tensor A must have at least 2 dimensions, received "
            f"{tuple(A.shape)}."
        )
    if A.shape[-1] != A.shape[-2]:
        raise ShapeError(
            f"{name}: A must be batches of square matrices, but they are {A.shape[-2]} by "
            f"{A.shape[-1]} matrices"
        )


@public(method=True, namespaces=("", "linalg"))
def matrix_exp(input: Tensor) -> Tensor:
    """The exponential of a square matrix, 1 + A + A^2 / 2 + ...

    >>> import adjoint as ad
    >>> ad.matrix_exp(ad.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    check_inexact("linalg.matrix_exp", input, halves=True)
    _check_square("linalg.matrix_exp", input)
    return MATRIX_EXP(input)


@public(method=True, out=True, namespaces=("", "linalg"))
def matrix_power(input: Tensor, n: int) -> Tensor:
    """A square matrix to an integer power; negative ones invert it first."""
    _check_square("linalg.matrix_power", input)
    if n < 0:
        check_inexact("linalg.matrix_power", input)
        input, n = INV(input, name="linalg.inv", check=True)[0], -n
    if n == 0:
        return zeros_from(input) + input.new_eye(input.shape[-1])
    if n == 1:
        return input.clone()
    result, square = None, input
    while n:
        if n & 1:
            result = square if result is None else MATMUL(result, square)
        n >>= 1
        if n:
            square = MATMUL(square, square)
    return result  # type: ignore[return-value]


@public(namespaces=("linalg",), out=True)
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """Product of matrices in the order that costs least; the ends may be vectors."""
    name = "multi_dot"
    if len(tensors) < 2:
        raise RuntimeError(f"{name}: expected at least 2 tensors but got {len(tensors)}")
    first, last = tensors[0], tensors[-1]
    for i, t in enumerate(tensors):
        ends = (1, 2) if i in (0, len(tensors) - 1) else (2,)
        if t.ndim not in ends:
            raise ShapeError(
                f"{name}: tensor {i} must be {' or '.join(map(str, ends))}-D but got {t.ndim}-D"
            )
        if t.dtype is not first.dtype:
            raise DTypeError(
                f"{name}: all tensors must have be the same dtype; tensor 0 is "
                f"{first.dtype.name} and tensor {i} {t.dtype.name}"
            )
    chain = list(tensors)
    if first.ndim == 1:
        chain[0] = first.unsqueeze(0)
    if last.ndim == 1:
        chain[-1] = last.unsqueeze(1)
    out = multiply_chain(name, chain)
    shape = [n for n, t in ((out.shape[0], first), (out.shape[1], last)) if t.ndim == 2]
    return out.reshape(tuple(shape))


# -- vectors ------------------------------------------------------------------------------------


@public(namespaces=("linalg",), out=True, name="cross")
def linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Vector product of 3-vectors along `dim`, the other dimensions broadcast."""
    return cross_along("linalg.cross", input, other, dim)


@public(namespaces=("linalg",), out=True)
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Dot products of vectors along `dim`, the first ones conjugated."""
    check_inexact("linalg.vecdot", x, y, halves=True)
    check_same_dtype("linalg.vecdot", x, y)
    return (x.conj() * y).sum(dim)


@public(namespaces=("linalg",), name="diagonal")
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of diagonals, of the last two dimensions by default."""
    return A.diagonal(offset, dim1, dim2)


@public(namespaces=("linalg",))
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The powers 0 to N - 1 of each element, in a new last dimension."""
    x = x if x.ndim else x.unsqueeze(0)
    size = x.shape[-1] if N is None else N
    if size <= 1:
        raise RuntimeError(f"linalg.vander: N must be greater than 1, received {size}")
    if x.dtype.is_half or x.dtype is bool_:
        raise DTypeError(
            "linalg.vander: supports floating point, complex, and integer tensors, but got "
            f"{x.dtype.name}"
        )
    if not x.dtype.is_inexact:
        x = x.to(int64)
    ones = x.new_ones((*x.shape, 1))
    powers = x.unsqueeze(-1).expand((*x.shape, size - 1)).cumprod(-1)
    return cat([ones, powers], -1)


@public(name="vander")
def vander_columns(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """A matrix whose columns are powers of a vector's elements, falling unless `increasing`.

    >>> import adjoint as ad
    >>> ad.vander(ad.tensor([1, 2]), 3)
    tensor([[1, 1, 1],
            [4, 2, 1]])
    """
    if x.ndim != 1:
        raise ShapeError(f"vander: x must be a one-dimensional tensor, received {x.ndim}")
    size = len(x) if N is None else N
    if size < 0:
        raise RuntimeError(f"vander: N must be non-negative, received {size}")
    if not x.dtype.is_inexact:
        x = x.to(int64)
    ones = x.new_ones((len(x), 1))
    powers = x.unsqueeze(-1).expand((len(x), max(size - 1, 0))).cumprod(-1)
    out = cat([ones, powers], -1)[:, :size]
    return out if increasing else out.flip(1)
