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
    """A sparse matrix, or a batch of them, kept line by line, in the layout given.

    Args:
        compressed_indices: (*batch, lines + 1), where each row or column begins among the elements,
            and the end.
        plain_indices: (*batch, nnz), where in its row or column each element is.
        values: (*batch, nnz, *dense), the elements; (*batch, nnz, height, width, *dense) in the
            layouts of blocks.
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
    cls = KINDS[layout]
    elements = as_elements(values, dtype, device, requires_grad=requires_grad)
    starts = as_tensor(compressed_indices, None, device or elements.device)
    places = as_tensor(plain_indices, None, device or elements.device)
    if size is None:
        size = _fitting(cls, starts, places, elements)
    size = tuple(size)
    check_lines(cls, starts, places, elements, size)
    check_order(cls, starts, places, elements, size)
    wanted = check_sparse_tensor_invariants.is_enabled()
    if wanted if check_invariants is None else check_invariants:
        _check_rising(cls, starts, places)
    return make_compressed(cls, starts.detach(), places.detach(), elements, size)


def _sides(cls: type[CompressedTensor], batch: int, elements: Tensor) -> tuple[int, int]:
    """Height and width of what is kept together."""
    if not cls.in_blocks:
        return (1, 1)
    return (elements.shape[batch + 1], elements.shape[batch + 2])


def _check_ranks(
    cls: type[CompressedTensor], starts: Tensor, places: Tensor, elements: Tensor
) -> int:
    """Refuse parts of which some lack dimensions; how many batch dimensions they have."""
    name, (first, second) = f"{cls.named.name}_tensor", INDEX_NAMES[cls.by_rows]
    if starts.ndim < 1 or places.ndim != starts.ndim:
        raise ShapeError(
            f"{name}: {first} and {second} must have the same number of dimensions, at least 1, "
            f"received {starts.ndim} and {places.ndim}"
        )
    least = starts.ndim + (2 if cls.in_blocks else 0)
    if elements.ndim < least:
        raise ShapeError(
            f"{name}: values must have dimensionality of at least {least}, that of {first}"
            f"{' and two of blocks' if cls.in_blocks else ''}, but got {elements.ndim}"
        )
    batch = starts.ndim - 1
    shapes = [tuple(t.shape[:batch]) for t in (starts, places, elements)]
    if len(set(shapes)) != 1:
        raise ShapeError(
            f"{name}: all batch dimensions of {first} ({list(shapes[0])}), {second} "
            f"({list(shapes[1])}) and values ({list(shapes[2])}) must be equal."
        )
    return batch


def _fitting(cls: type[CompressedTensor], starts: Tensor, places: Tensor, elements: Tensor) -> Size:
    """The smallest size that has room for the elements."""
    batch = _check_ranks(cls, starts, places, elements)
    across = int(places.max()) + 1 if places.numel() else 0
    counts = (starts.shape[-1] - 1, across)
    rows, columns = counts if cls.by_rows else counts[::-1]
    height, width = _sides(cls, batch, elements)
    dense = elements.shape[batch + (3 if cls.in_blocks else 1) :]
    return (*starts.shape[:-1], rows * height, columns * width, *dense)


def _counts(
    cls: type[CompressedTensor], batch: int, elements: Tensor, size: Size
) -> tuple[int, int]:
    """How many lines a matrix has, and how many places in each."""
    height, width = _sides(cls, batch, elements)
    dense = tuple(elements.shape[batch + (3 if cls.in_blocks else 1) :])
    rank = batch + 2 + len(dense)
    if (
        len(size) != rank
        or size[:batch] != tuple(elements.shape[:batch])
        or (size[batch + 2 :] != dense)
    ):
        raise ShapeError(
            f"{cls.named.name}_tensor: values of shape {list(elements.shape)}, {batch} of its "
            f"dimensions of a batch, do not make a tensor of size {list(size)}"
        )
    rows, columns = size[batch : batch + 2]
    if not height or not width or rows % height or columns % width:
        raise ShapeError(
            f"{cls.named.name}_tensor: values of shape {list(elements.shape)} do not make a matrix "
            f"of size {[rows, columns]}"
        )
    pair = (rows // height, columns // width)
    return pair if cls.by_rows else pair[::-1]


def check_lines(
    cls: type[CompressedTensor], starts: Tensor, places: Tensor, elements: Tensor, size: Size
) -> None:
    """Refuse parts whose shapes do not make a tensor of this size."""
    batch = _check_ranks(cls, starts, places, elements)
    count = elements.shape[batch]
    lines, _ = _counts(cls, batch, elements, size)
    if starts.shape[-1] != lines + 1 or places.shape[-1] != count:
        line, place = ("row", "columns") if cls.by_rows else ("column", "rows")
        raise ShapeError(
            f"{cls.named.name}_tensor: {starts.shape[-1]} {line} starts, {places.shape[-1]} "
            f"{place} and {count} values do not make a matrix of size {list(size)}"
        )


def check_order(
    cls: type[CompressedTensor], starts: Tensor, places: Tensor, elements: Tensor, size: Size
) -> None:
    """Refuse lines that do not follow each other, and places outside them."""
    if CONTEXT.capture is not None:
        return
    name, count = f"{cls.named.name}_tensor", places.shape[-1]
    first, second = INDEX_NAMES[cls.by_rows]
    whole = bool((starts[..., 0] == 0).all()) and bool((starts[..., -1] == count).all())
    if not whole or bool((starts[..., 1:] < starts[..., :-1]).any()):
        raise RuntimeError(f"{name}: {first} must rise from 0 to the number of values, {count}")
    across = _counts(cls, starts.ndim - 1, elements, size)[1]
    if places.numel() and not (int(places.min()) >= 0 and int(places.max()) < across):
        raise RuntimeError(
            f"{name}: {second} must be from 0 to {across - 1}, received "
            f"{int(places.min())} to {int(places.max())}"
        )


def _check_rising(cls: type[CompressedTensor], starts: Tensor, places: Tensor) -> None:
    if CONTEXT.capture is not None:
        return
    lines = lines_of(starts, places.shape[-1])
    same = lines[..., 1:] == lines[..., :-1]
    if bool((same & (places[..., 1:] <= places[..., :-1])).any()):
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


def _from_dense(x: Tensor, layout: Layout, dense_dim: int | None, blocksize: Any = None) -> Any:
    return to_sparse(x, layout=layout, blocksize=blocksize, dense_dim=dense_dim)


@method
def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Any:
    """The nonzero elements of a matrix, or of each of a batch, row by row.

    The last `dense_dim` dimensions are kept whole. Matrices of a batch must have as many elements
    as each other.
    """
    return _from_dense(self, sparse_csr, dense_dim)


@method
def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Any:
    """The nonzero elements of a matrix, column by column (see `to_sparse_csr`)."""
    return _from_dense(self, sparse_csc, dense_dim)


@method
def to_sparse_bsr(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Any:
    """The blocks of a matrix that have a nonzero element, row by row (see `to_sparse_csr`)."""
    return _from_dense(self, sparse_bsr, dense_dim, blocksize)


@method
def to_sparse_bsc(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Any:
    """The blocks of a matrix that have a nonzero element, column by column."""
    return _from_dense(self, sparse_bsc, dense_dim, blocksize)


for _name in INDEX_NAMES[True]:
    only_sparse(_name, "row compressed")
for _name in INDEX_NAMES[False]:
    only_sparse(_name, "column compressed")
