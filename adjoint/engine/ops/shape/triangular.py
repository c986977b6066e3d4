"""Triangles of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import DType, int64
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.layout import check_layout
from adjoint.engine.core.operations.families import linear, primitive
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.placement import chosen
from adjoint.engine.ops.common.arguments import whole

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _infer(x: Spec, diagonal: int) -> Spec:
    if len(x.shape) < 2:
        raise ShapeError(
            f"tril/triu: input tensor must have at least 2 dimensions, received {x.shape}"
        )
    return x


def _same_params(params: dict[str, Any], size: int) -> dict[str, Any]:
    return params


TRIL: Record = linear(
    "tril",
    _infer,
    lambda g, diagonal: TRIL(g, diagonal=diagonal),
    batched_params=_same_params,
    rounding="exact",
    pointwise=True,
    fragment="computed",
)
TRIU: Record = linear(
    "triu",
    _infer,
    lambda g, diagonal: TRIU(g, diagonal=diagonal),
    batched_params=_same_params,
    rounding="exact",
    pointwise=True,
    fragment="computed",
)
TRIANGLE_INDICES = primitive(
    "triangle_indices",
    lambda *, row, col, offset, lower, dtype, device: Spec(
        (2, triangle_count(row, col, offset, lower)), dtype, device
    ),
)


def triangle(n: int, offset: int, device: Any) -> Tensor:
    """Rows and columns of all pairs i + offset <= j below n, row by row: (2, their number)."""
    return TRIANGLE_INDICES(row=n, col=n, offset=offset, lower=False, dtype=int64, device=device)


def before_diagonal(row: int, col: int, offset: int) -> int:
    """How many of the first `offset` + i columns there are in all rows i, of `col` columns.

    >>> before_diagonal(4, 3, -1), before_diagonal(4, 3, 1)
    (3, 9)
    """
    empty = min(max(-offset, 0), row)
    growing = min(max(col - offset, empty), row)
    sloped = (growing - empty) * offset + (growing * (growing - 1) - empty * (empty - 1)) // 2
    return sloped + (row - growing) * col


def triangle_count(row: int, col: int, offset: int, lower: bool) -> int:
    """How many elements of a matrix lie in a triangle."""
    if lower:
        return before_diagonal(row, col, offset + 1)
    return row * col - before_diagonal(row, col, offset)


def _diagonal(name: str, diagonal: int) -> int:
    """Which diagonal, a number that compiled programs have room for."""
    given = whole(name, "diagonal", diagonal)
    if not -(1 << 63) <= given < 1 << 63:
        raise ValueError(f"{name}: expected a diagonal in the range of int64, received {given}")
    return given


@public(method=True, inplace=True, out=True)
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """Matrices with zeros above a diagonal.

    Example:
        >>> import adjoint as ad
        >>> ad.ones(2, 2).tril()
        tensor([[1., 0.],
                [1., 1.]])
    """
    return TRIL(input, diagonal=_diagonal("tril", diagonal))


@public(method=True, inplace=True, out=True)
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """Matrices with zeros below a diagonal.

    Example:
        >>> import adjoint as ad
        >>> ad.ones(2, 2).triu()
        tensor([[1., 1.],
                [0., 1.]])
    """
    return TRIU(input, diagonal=_diagonal("triu", diagonal))


def _indices(
    row: int,
    col: int,
    offset: int,
    dtype: DType | None,
    device: Any,
    layout: Any,
    *,
    lower: bool,
) -> Tensor:
    name = "tril_indices" if lower else "triu_indices"
    check_layout(name, layout)
    row, col = whole(name, "row", row), whole(name, "col", col)
    offset = whole(name, "offset", offset)
    if row < 0 or col < 0:
        raise RuntimeError(f"{name}: row and col must be non-negative, got {row} and {col}")
    return TRIANGLE_INDICES(
        row=row,
        col=col,
        offset=offset,
        lower=lower,
        dtype=int64 if dtype is None else dtype,
        device=chosen(device),
    )


@public()
def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: DType | None = None,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Row and column numbers of the lower triangle, row by row."""
    return _indices(row, col, offset, dtype, device, layout, lower=True)


@public()
def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: DType | None = None,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Row and column numbers of the upper triangle, row by row."""
    return _indices(row, col, offset, dtype, device, layout, lower=False)
