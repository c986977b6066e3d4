"""Matrix products with sparse operands."""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.ops.index.index import INDEX, INDEX_PUT
from adjoint.engine.ops.index.scatter import index_reduce
from adjoint.engine.ops.products.derived_products import addmm as dense_addmm
from adjoint.engine.ops.products.matmul import check_dtypes
from adjoint.engine.ops.products.matmul import mm as matrix_product
from adjoint.engine.ops.shape.join import stack
from adjoint.engine.sparse.coo import CooTensor, make, picked, positions
from adjoint.engine.sparse.runs import matches
from adjoint.engine.sparse.tensor import SparseTensor, refusal
from adjoint.engine.tensor.tensor import Tensor


def _product(x: Tensor, y: Tensor, rows: Tensor, columns: Tensor, size: int) -> Tensor:
    """Each element times its row of y, added to its row of the result."""
    terms = x.unsqueeze(1) * INDEX(y, columns, dims=(0,), wrap=False)  # (nnz, k)
    out = terms.new_zeros((size, y.shape[1]))
    return INDEX_PUT(out, terms, rows, dims=(0,), accumulate=True, wrap=False)


# SPARSE_MATMUL(x, y, rows, columns, size): the product of a matrix of `size` rows, with elements x
# at (rows, columns), and a dense y. A backend's own need not make the (nnz, k) terms.
SPARSE_MATMUL: Record = composite(
    "sparse_matmul",
    _product,
    lambda g, y, rows, columns: (
        INDEX(g, rows, dims=(0,)) * INDEX(y, columns, dims=(0,)).conj()
    ).sum(1),
    lambda g, x, y_spec, rows, columns: SPARSE_MATMUL(
        x.conj(), g, columns, rows, size=y_spec.shape[0]
    ),
    None,
    None,
    operands=("x", "y", "rows", "columns"),
)


def matmul(x: Any, y: Any) -> Tensor:
    """x @ y of two matrices, at least one of them sparse; sparse if both are."""
    if any(map(_has_batch, (x, y))):
        return _batched(x, y)
    for operand in (x, y):
        if operand.ndim != 2 or (isinstance(operand, SparseTensor) and operand.dense_dim()):
            raise refusal("matmul of anything but two matrices", x if _is_sparse(x) else y)
    check_dtypes("matmul", x, y)
    if x.shape[1] != y.shape[0]:
        raise ShapeError(
            f"matmul: cannot contract {tuple(x.shape)} with {tuple(y.shape)}: {x.shape[1]} != "
            f"{y.shape[0]}. Transpose one operand or check the last two dimensions."
        )
    if not _is_sparse(x):
        return _by_dense(y.spread().t(), x.t()).t()
    if not _is_sparse(y):
        return _by_dense(x.spread(), y)
    return x.in_layout(_by_sparse(x.spread(), y.spread()))


def _batched(x: Any, y: Any) -> Tensor:
    """The products of a batch of sparse matrices and dense ones: one product, of the matrix that
    has the sparse ones along its diagonal.
    """
    if _is_sparse(x) and _is_sparse(y):
        raise refusal("matmul of two batches of sparse matrices", x)
    if not _is_sparse(x):
        return _batched(y.transpose(-1, -2), x.transpose(-1, -2)).transpose(-1, -2)
    if x.dense_dim() or y.ndim < 2:
        raise refusal("matmul of anything but matrices", x)
    check_dtypes("matmul", x, y)
    outer, (rows, inner) = tuple(x.shape[:-2]), tuple(x.shape[-2:])
    if y.shape[-2] != inner or tuple(y.shape[:-2]) not in ((), outer):
        raise ShapeError(
            f"matmul: cannot contract {tuple(x.shape)} with {tuple(y.shape)}. A batch of sparse "
            "matrices takes one dense matrix, or as many."
        )
    coordinates = x.spread()
    *which, row, column = coordinates._coordinates.unbind(0)
    number = positions(stack(which), outer)
    tall = y.expand((*outer, *y.shape[-2:])).reshape((prod(outer) * inner, y.shape[-1]))
    at = (number * rows + row, number * inner + column)
    out = SPARSE_MATMUL(coordinates._elements, tall, *at, size=prod(outer) * rows)
    return out.reshape((*outer, rows, y.shape[-1]))


def _is_sparse(x: Any) -> bool:
    return isinstance(x, SparseTensor)


def _has_batch(x: Any) -> bool:
    """Whether a sparse tensor is several matrices: of lines, or with coordinates of their own."""
    return _is_sparse(x) and (x.batch_dim() > 0 or (x.ndim > 2 and x.sparse_dim() == x.ndim))


def _by_dense(x: CooTensor, y: Tensor) -> Tensor:
    rows, columns = x._coordinates.unbind(0)
    return SPARSE_MATMUL(x._elements, y, rows, columns, size=x.shape[0])


def _by_sparse(x: CooTensor, y: CooTensor) -> CooTensor:
    """Each element of x times all elements of the row of y that its column names."""
    rows, inner = x._coordinates.unbind(0)
    their_rows, columns = y._coordinates.unbind(0)
    left, right = matches("matmul", inner, their_rows, y.shape[0])
    terms = INDEX(x._elements, left, dims=(0,)) * INDEX(y._elements, right, dims=(0,))
    at = stack([INDEX(rows, left, dims=(0,)), INDEX(columns, right, dims=(0,))])
    return make(at, terms, (x.shape[0], y.shape[1]), coalesced=False).coalesce()


def mm(mat1: Any, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """The product of a sparse matrix and a dense or sparse one, with gradients to both.

    Args:
        mat1: the sparse matrix.
        mat2: the other.
        reduce: what becomes of an element's terms, those that are kept: "sum", "mean", "amax" or
            "amin". Rows that keep none are zero.

    Example:
        >>> import adjoint as ad
        >>> adjacency = ad.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2))
        >>> ad.sparse.mm(adjacency, ad.tensor([[1.0], [10.0]]))
        tensor([[10.],
                [ 2.]])
    """
    if reduce in (None, "sum"):
        return matrix_product(mat1, mat2)
    if reduce not in ("mean", "amax", "amin"):
        raise ValueError(f"sparse.mm: reduce must be sum, mean, amax or amin, received {reduce!r}")
    if not _is_sparse(mat1) or _is_sparse(mat2):
        raise TypeError(
            f"sparse.mm: reduce={reduce!r} takes a sparse matrix and a dense one, received "
            f"{mat1.layout} and {mat2.layout}"
        )
    if mat1.shape[1] != mat2.shape[0]:
        raise ShapeError(
            f"sparse.mm: shapes {tuple(mat1.shape)} and {tuple(mat2.shape)} cannot be multiplied"
        )
    x = mat1.spread()
    rows, columns = x._coordinates.unbind(0)
    terms = x._elements.unsqueeze(1) * INDEX(mat2, columns, dims=(0,))
    out = terms.new_zeros((x.shape[0], mat2.shape[1]))
    return index_reduce(out, 0, rows, terms, reduce, include_self=False)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """beta * mat + alpha * (mat1 @ mat2), for a sparse mat1."""
    return dense_addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sampled_addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0
) -> Any:
    """beta * input + alpha * (mat1 @ mat2) at the positions a sparse input keeps.

    Only those elements of the product are computed.
    """
    if not isinstance(input, SparseTensor):
        raise RuntimeError(f"sampled_addmm: expected a sparse input, received {input._spec}")
    if input.shape != (mat1.shape[0], mat2.shape[1]):
        raise ShapeError(
            f"sampled_addmm: input of shape {tuple(input.shape)} does not match the product of "
            f"{tuple(mat1.shape)} and {tuple(mat2.shape)}"
        )
    rows, columns = input.at()
    terms = INDEX(mat1, rows, dims=(0,)) * INDEX(mat2.t(), columns, dims=(0,))
    return input.with_elements(input._elements * beta + terms.sum(-1) * alpha)


@public(aliases=("dsmm",))
def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of a sparse matrix and a dense one."""
    return matrix_product(input, mat2)


def masked(dense: Tensor, mask: Any) -> Any:
    """The elements of a dense tensor at the positions a sparse one keeps."""
    return mask.with_elements(picked(dense, mask))
