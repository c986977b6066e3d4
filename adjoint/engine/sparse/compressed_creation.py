"""Making compressed tensors: of where lines start, places in them and elements, or of others."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.layout import Layout, sparse_bsc, sparse_bsr, sparse_csc, sparse_csr
from adjoint.engine.core.operations.public import method, public
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.sparse.compressed import (
    INDEX_NAMES,
    KINDS,
    CompressedTensor,
    compressed,
    lines_of,
    make_compressed,
)
from adjoint.engine.sparse.creation import as_elements, as_tensor, only_sparse, to_sparse
from adjoint.engine.sparse.invariants import check_sparse_tensor_invariants
from adjoint.engine.tensor.tensor import Tensor

Size = tuple[int, ...]


@public()
def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Any:
    """A sparse matrix kept line by line, in the layout given.

    Args:
        compressed_indices: (lines + 1,), where each row or column begins among the elements, and
            the end.
        plain_indices: (nnz,), where in its row or column each element is.
        values: (nnz,), the elements; (nnz, height, width) in the layouts of blocks.
        size: the shape; by default just large enough.
        layout: sparse_csr, sparse_csc, sparse_bsr or sparse_bsc.

    Example:
        >>> import adjoint as ad
        >>> x = ad.sparse_compressed_tensor([0, 1, 2], [1, 0], [5.0, 6.0], layout=ad.sparse_csc)
        >>> x.to_dense()
        tensor([[0., 6.],
                [5., 0.]])
    """
    if layout not in KINDS:
        raise RuntimeError(
            "sparse_compressed_tensor: layout must be sparse_csr, sparse_csc, sparse_bsr or "
            f"sparse_bsc, received {layout!r}"
        )
    name = f"{layout.name}_tensor"
    cls = KINDS[layout]
    elements = as_elements(values, dtype, device, requires_grad=requires_grad)
    starts = as_tensor(compressed_indices, None, device or elements.device)
    places = as_tensor(plain_indices, None, device or elements.device)
    rank = 3 if cls.in_blocks else 1
    if not (starts.ndim == places.ndim == 1 and elements.ndim == rank):
        first, second = INDEX_NAMES[cls.by_rows]
        raise NotImplementedError(
            f"{name}: batches and dense dimensions are not implemented, received {first} "
            f"{list(starts.shape)}, {second} {list(places.shape)} and values "
            f"{list(elements.shape)}. Use sparse_coo_tensor."
        )
    size = _fitting(cls, starts, places, elements) if size is None else tuple(size)
    check_lines(cls, starts, places, elements, size)
    _check_order(cls, starts, places, elements, size)
    wanted = check_sparse_tensor_invariants.is_enabled()
    if wanted if check_invariants is None else check_invariants:
        _check_rising(cls, starts, places)
    return make_compressed(cls, starts.detach(), places.detach(), elements, size)


def _sides(cls: type[CompressedTensor], elements: Tensor) -> tuple[int, int]:
    """Height and width of what is kept together."""
    return (elements.shape[1], elements.shape[2]) if cls.in_blocks else (1, 1)


def _fitting(cls: type[CompressedTensor], starts: Tensor, places: Tensor, elements: Tensor) -> Size:
    """The smallest size that has room for the elements."""
    across = int(places.max()) + 1 if places.shape[0] else 0
    counts = (starts.shape[0] - 1, across)
    rows, columns = counts if cls.by_rows else counts[::-1]
    height, width = _sides(cls, elements)
    return (rows * height, columns * width)


def _counts(cls: type[CompressedTensor], elements: Tensor, size: Size) -> tuple[int, int]:
    """How many lines a matrix has, and how many places in each."""
    height, width = _sides(cls, elements)
    if len(size) != 2 or not height or not width or size[0] % height or size[1] % width:
        raise ShapeError(
            f"{cls.named.name}_tensor: values of shape {list(elements.shape)} do not make a matrix "
            f"of size {list(size)}"
        )
    pair = (size[0] // height, size[1] // width)
    return pair if cls.by_rows else pair[::-1]


def check_lines(
    cls: type[CompressedTensor], starts: Tensor, places: Tensor, elements: Tensor, size: Size
) -> None:
    """Refuse parts whose shapes do not make a matrix of this size."""
    if elements.ndim != (3 if cls.in_blocks else 1) or starts.ndim != 1 or places.ndim != 1:
        raise ShapeError(
            f"{cls.named.name}_tensor: values of shape {list(elements.shape)} are of no such matrix"
        )
    count = elements.shape[0]
    lines, _ = _counts(cls, elements, size)
    if starts.shape[0] != lines + 1 or places.shape[0] != count:
        line, place = ("row", "columns") if cls.by_rows else ("column", "rows")
        raise ShapeError(
            f"{cls.named.name}_tensor: {starts.shape[0]} {line} starts, {places.shape[0]} {place} "
            f"and {count} values do not make a matrix of size {list(size)}"
        )


def _check_order(
    cls: type[CompressedTensor], starts: Tensor, places: Tensor, elements: Tensor, size: Size
) -> None:
    if CONTEXT.capture is not None:
        return
    name, count = f"{cls.named.name}_tensor", places.shape[0]
    first, second = INDEX_NAMES[cls.by_rows]
    listed = starts[:1].tolist() + starts[-1:].tolist()
    if listed != [0, count] or bool((starts[1:] < starts[:-1]).any()):
        raise RuntimeError(f"{name}: {first} must rise from 0 to the number of values, {count}")
    across = _counts(cls, elements, size)[1]
    if count and not (int(places.min()) >= 0 and int(places.max()) < across):
        raise RuntimeError(
            f"{name}: {second} must be from 0 to {across - 1}, received "
            f"{int(places.min())} to {int(places.max())}"
        )


def _check_rising(cls: type[CompressedTensor], starts: Tensor, places: Tensor) -> None:
    if CONTEXT.capture is not None:
        return
    lines = lines_of(starts, places.shape[0])
    if bool(((lines[1:] == lines[:-1]) & (places[1:] <= places[:-1])).any()):
        raise RuntimeError(
            f"{cls.named.name}_tensor: {INDEX_NAMES[cls.by_rows][1]} must rise within each "
            f"{'row' if cls.by_rows else 'column'}"
        )


@public()
def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Any:  # fmt: skip
    """A sparse matrix kept row by row.

    Args:
        crow_indices: (rows + 1,), where each row begins among the elements, and the end.
        col_indices: (nnz,), the column of each element.
        values: (nnz,), the elements.
        size: the shape; by default just large enough.

    Example:
        >>> import adjoint as ad
        >>> ad.sparse_csr_tensor([0, 1, 3], [1, 0, 2], [1.0, 2.0, 3.0]).to_dense()
        tensor([[0., 1., 0.],
                [2., 0., 3.]])
    """
    return sparse_compressed_tensor(
        crow_indices, col_indices, values, size, dtype=dtype, layout=sparse_csr, device=device,
        requires_grad=requires_grad, check_invariants=check_invariants,
    )  # fmt: skip


@public()
def sparse_csc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Any:  # fmt: skip
    """A sparse matrix kept column by column.

    Args:
        ccol_indices: (columns + 1,), where each column begins among the elements, and the end.
        row_indices: (nnz,), the row of each element.
        values: (nnz,), the elements.
        size: the shape; by default just large enough.

    Example:
        >>> import adjoint as ad
        >>> ad.sparse_csc_tensor([0, 1, 3], [1, 0, 2], [1.0, 2.0, 3.0]).to_dense()
        tensor([[0., 2.],
                [1., 0.],
                [0., 3.]])
    """
    return sparse_compressed_tensor(
        ccol_indices, row_indices, values, size, dtype=dtype, layout=sparse_csc, device=device,
        requires_grad=requires_grad, check_invariants=check_invariants,
    )  # fmt: skip


@public()
def sparse_bsr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Any:  # fmt: skip
    """A sparse matrix in blocks, one row of blocks after the other; values: (nnz, height, width).

    Example:
        >>> import adjoint as ad
        >>> ad.sparse_bsr_tensor([0, 1], [1], [[[1.0, 2.0]]]).to_dense()
        tensor([[0., 0., 1., 2.]])
    """
    return sparse_compressed_tensor(
        crow_indices, col_indices, values, size, dtype=dtype, layout=sparse_bsr, device=device,
        requires_grad=requires_grad, check_invariants=check_invariants,
    )  # fmt: skip


@public()
def sparse_bsc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Any:  # fmt: skip
    """A sparse matrix in blocks, one column of blocks after the other.

    Example:
        >>> import adjoint as ad
        >>> ad.sparse_bsc_tensor([0, 0, 1], [0], [[[1.0, 2.0]]]).to_dense()
        tensor([[0., 0., 1., 2.]])
    """
    return sparse_compressed_tensor(
        ccol_indices, row_indices, values, size, dtype=dtype, layout=sparse_bsc, device=device,
        requires_grad=requires_grad, check_invariants=check_invariants,
    )  # fmt: skip


# -- from dense tensors -------------------------------------------------------------------------


def _from_dense(x: Tensor, layout: Layout, blocksize: Any = None) -> Any:
    return compressed(KINDS[layout], to_sparse(x), blocksize)


@method
def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Any:
    """The nonzero elements of a matrix, row by row."""
    return _from_dense(self, sparse_csr)


@method
def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Any:
    """The nonzero elements of a matrix, column by column."""
    return _from_dense(self, sparse_csc)


@method
def to_sparse_bsr(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Any:
    """The blocks of a matrix that have a nonzero element, row by row."""
    return _from_dense(self, sparse_bsr, blocksize)


@method
def to_sparse_bsc(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Any:
    """The blocks of a matrix that have a nonzero element, column by column."""
    return _from_dense(self, sparse_bsc, blocksize)


for _name in INDEX_NAMES[True]:
    only_sparse(_name, "row compressed")
for _name in INDEX_NAMES[False]:
    only_sparse(_name, "column compressed")
