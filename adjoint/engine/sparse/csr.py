"""CsrTensor: a matrix whose elements are kept row by row."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.dtype import int32, int64
from adjoint.engine.core.layout import Layout, sparse_csr
from adjoint.engine.core.spec import Size
from adjoint.engine.ops.index.index import INDEX_PUT
from adjoint.engine.ops.shape.join import stack
from adjoint.engine.sparse.coo import CooTensor, make, refuse_capture
from adjoint.engine.sparse.tensor import CONVERSIONS, SparseTensor, bare, refusal
from adjoint.engine.tensor.tensor import Tensor

Shape = tuple[int, ...]


class CsrTensor(SparseTensor):
    """A tensor of layout `sparse_csr`: row i keeps elements `_starts[i]` to `_starts[i + 1]`."""

    __slots__ = ("_columns", "_starts")
    _columns: Tensor  # (nnz,)
    _starts: Tensor  # (rows + 1,)

    @property
    def layout(self) -> Layout:
        """`sparse_csr`."""
        return sparse_csr

    @property
    def is_sparse_csr(self) -> bool:
        """True: the layout is `sparse_csr`."""
        return True

    def with_elements(self, elements: Tensor) -> CsrTensor:
        return make_csr(self._starts, self._columns, elements, tuple(self.shape))

    def tensors(self) -> tuple[Tensor, ...]:
        return (self._starts, self._columns, self._elements)

    def rest(self) -> tuple[Any, ...]:
        return (tuple(self.shape),)

    @staticmethod
    def assemble(*parts: Any) -> CsrTensor:
        return make_csr(*parts)

    def shown(self) -> dict[str, Tensor]:
        """What is printed, by name."""
        return {
            "crow_indices": self._starts,
            "col_indices": self._columns,
            "values": self._elements,
        }

    def moved(self, device: Any) -> CsrTensor:
        elements = self._elements.to(device)
        if elements is self._elements:
            return self
        parts = self._starts.to(device), self._columns.to(device)
        return make_csr(*parts, elements, tuple(self.shape))

    def sparse_dim(self) -> int:
        return 2

    def crow_indices(self) -> Tensor:
        """Where each row begins among the elements; one more says where the last ends."""
        return self._starts

    def col_indices(self) -> Tensor:
        """The column of each element."""
        return self._columns

    def values(self) -> Tensor:
        """The elements kept."""
        return self._elements

    def coalesce(self) -> CsrTensor:
        """The tensor itself: no position is repeated."""
        return self

    def rows(self) -> Tensor:
        """The row of each element."""
        return _rows(self._starts, self._nnz())

    def to_sparse(self, *args: Any, **kwargs: Any) -> Any:
        """The tensor with coordinates; itself if asked for its own layout."""
        layout = kwargs.get("layout", args[0] if args else None)
        if layout is sparse_csr:
            return self
        coordinates = stack([self.rows(), self._columns.to(int64)])
        return make(coordinates, self._elements, tuple(self.shape), coalesced=True)

    def to_sparse_coo(self) -> CooTensor:
        """The tensor with coordinates."""
        tensor: CooTensor = self.to_sparse()
        return tensor

    def to_sparse_csr(self, dense_dim: int | None = None) -> CsrTensor:
        """The tensor itself."""
        return self

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
        return self.to_sparse_coo().to_dense(dtype)


def make_csr(starts: Tensor, columns: Tensor, elements: Tensor, size: Shape) -> CsrTensor:
    """A tensor of parts that are known to fit."""
    tensor: CsrTensor = bare(CsrTensor, elements, Size(size))
    tensor._starts = starts
    tensor._columns = columns
    return tensor


def from_coo(sparse: CooTensor) -> CsrTensor:
    """A matrix row by row."""
    if sparse.sparse_dim() != 2 or sparse.dense_dim():
        raise refusal("to_sparse_csr of anything but a matrix", sparse)
    if not sparse.is_coalesced():
        refuse_capture("to_sparse_csr")
    sparse = sparse.coalesce()
    rows, columns = sparse._coordinates.unbind(0)
    starts = _starts(rows, sparse.shape[0])
    return make_csr(starts, columns, sparse._elements, tuple(sparse.shape))


CONVERSIONS[sparse_csr] = from_coo


def _rows(starts: Tensor, count: int) -> Tensor:
    """The row of each of so many elements, from where rows start."""
    # One more at the place of every row's start; the running count is the row.
    starts = starts[1:-1].to(int64)
    marks = starts.new_zeros((count + 1,))
    ones = starts.new_ones(starts.shape)
    return INDEX_PUT(marks, ones, starts, dims=(0,), accumulate=True)[:count].cumsum(0)


def _starts(rows: Tensor, count: int) -> Tensor:
    """Where each of so many rows starts, from the row of each element, in order."""
    counts = rows.new_zeros((count + 1,))
    ones = rows.new_ones(rows.shape)
    return INDEX_PUT(counts, ones, rows + 1, dims=(0,), accumulate=True).cumsum(0)


def _convert_indices_from_coo_to_csr(
    input: Tensor, size: int, *, out_int32: bool = False
) -> Tensor:
    """Where `size` rows start, from the row of each element, in order.

    >>> import adjoint as ad
    >>> _convert_indices_from_coo_to_csr(ad.tensor([0, 0, 2]), 4)
    tensor([0, 2, 2, 3, 3])
    """
    return _starts(input.to(int64), size).to(int32 if out_int32 else int64)


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor,
    col_indices: Tensor,
    *,
    out_int32: bool = False,
    transpose: bool = False,
) -> Tensor:
    """Rows and columns of elements, from where rows start; columns first if transposed.

    >>> import adjoint as ad
    >>> _convert_indices_from_csr_to_coo(ad.tensor([0, 2, 3]), ad.tensor([1, 0, 2]))
    tensor([[0, 0, 1],
            [1, 0, 2]])
    """
    pair = [_rows(crow_indices, col_indices.shape[0]), col_indices.to(int64)]
    return stack(pair[::-1] if transpose else pair).to(int32 if out_int32 else int64)
