"""Compressed tensors: matrices kept line by line, by rows or by columns, singly or in blocks.

Note [compressed layouts]
    A line is a row (CSR, BSR) or a column (CSC, BSC) of elements or of blocks. `_starts` says where
    each line begins among the elements, `_places` where in its line each of them is. So a transpose
    changes no index: the rows of the one layout are the columns of the other.

    Before the matrix there may be batch dimensions: every part has them, and each matrix of a batch
    keeps as many elements as the others. After it there may be dense dimensions, which each element
    has. So elements are (*batch, nnz, *block, *dense).
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, ClassVar

from adjoint.engine.core.dtype import int32, int64
from adjoint.engine.core.layout import Layout, sparse_bsc, sparse_bsr, sparse_csc, sparse_csr
from adjoint.engine.core.spec import Size
from adjoint.engine.ops.index.index import INDEX, INDEX_PUT
from adjoint.engine.ops.shape.join import stack
from adjoint.engine.sparse.coo import CooTensor, coordinates_of, make, positions, refuse_capture
from adjoint.engine.sparse.runs import counts_of
from adjoint.engine.sparse.tensor import CONVERSIONS, SparseTensor, bare, refusal
from adjoint.engine.tensor.tensor import Tensor

Shape = tuple[int, ...]


class CompressedTensor(SparseTensor):
    """Matrices of which line i keeps elements `_starts[i]` to `_starts[i + 1]`."""

    __slots__ = ("_places", "_starts")
    _places: Tensor  # (*batch, nnz)
    _starts: Tensor  # (*batch, lines + 1)

    named: ClassVar[Layout]
    by_rows: ClassVar[bool]
    in_blocks: ClassVar[bool] = False  # elements are blocks of (height, width)

    @property
    def layout(self) -> Layout:
        """How elements are kept."""
        return self.named

    def with_elements(self, elements: Tensor) -> Any:
        return make_compressed(type(self), self._starts, self._places, elements, tuple(self.shape))

    def tensors(self) -> tuple[Tensor, ...]:
        return (self._starts, self._places, self._elements)

    def rest(self) -> tuple[Any, ...]:
        return (tuple(self.shape),)

    @classmethod
    def assemble(cls, *parts: Any) -> Any:
        return make_compressed(cls, *parts)

    def shown(self) -> dict[str, Tensor]:
        """What is printed, by name."""
        starts, places = INDEX_NAMES[self.by_rows]
        return {starts: self._starts, places: self._places, "values": self._elements}

    def moved(self, device: Any) -> Any:
        elements = self._elements.to(device)
        if elements is self._elements:
            return self
        parts = self._starts.to(device), self._places.to(device)
        return make_compressed(type(self), *parts, elements, tuple(self.shape))

    def _nnz(self) -> int:
        """How many elements, or blocks of them, each matrix keeps."""
        return int(self._places.shape[-1])

    def batch_dim(self) -> int:
        """How many of the first dimensions are of a batch."""
        return self._starts.ndim - 1

    def sparse_dim(self) -> int:
        return 2

    def dense_dim(self) -> int:
        return self._elements.ndim - self._places.ndim - (2 if self.in_blocks else 0)

    def values(self) -> Tensor:
        """The elements kept."""
        return self._elements

    def coalesce(self) -> Any:
        """The tensor itself: no position is repeated."""
        return self

    def blocksize(self) -> tuple[int, int]:
        """Height and width of what is kept together: 1 and 1 but in layouts of blocks."""
        if not self.in_blocks:
            return (1, 1)
        batch = self.batch_dim()
        height, width = self._elements.shape[batch + 1 : batch + 3]
        return (int(height), int(width))

    def at(self) -> tuple[Tensor, ...]:
        batch = self.batch_dim()
        lines, places = lines_of(self._starts, self._nnz()), self._places.to(int64)
        pair = (lines, places) if self.by_rows else (places, lines)
        if self.in_blocks:
            rows, columns = (
                index.unsqueeze(-1) * side + index.new_arange(side)
                for index, side in zip(pair, self.blocksize(), strict=True)
            )
            pair = (rows.unsqueeze(-1), columns.unsqueeze(-2))  # (*batch, nnz, height, width)
        around = pair[0].ndim - batch
        which = (
            places.new_arange(n).reshape((n, *(1,) * (batch - 1 - d + around)))
            for d, n in enumerate(self.shape[:batch])
        )
        return (*which, *pair)

    def spread(self) -> CooTensor:
        inner = self.dense_dim()
        shape = tuple(self._elements.shape)
        outer, dense = shape[: len(shape) - inner], shape[len(shape) - inner :]
        pair = stack([index.expand(outer).reshape((-1,)) for index in self.at()])
        in_order = self.by_rows and not self.in_blocks
        elements = self._elements.reshape((prod(outer), *dense))
        return make(pair, elements, tuple(self.shape), coalesced=in_order)

    def in_order(self) -> CooTensor:
        sparse = self.spread()
        return sparse if sparse._coalesced else _sorted(sparse)

    def to_sparse_coo(self) -> CooTensor:
        """The tensor with coordinates; of a matrix kept by columns in that order, as PyTorch's."""
        return self.in_order() if self.by_rows else self.spread()

    def in_layout(self, sparse: CooTensor) -> Any:
        blocksize = self.blocksize() if self.in_blocks else None
        return compressed(type(self), sparse, blocksize, self.batch_dim())

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
        return self.spread().to_dense(dtype)

    def transposed(self) -> Any:
        """Rows as columns, without a copy of the indices."""
        batch, size = self.batch_dim(), tuple(self.shape)
        elements = self._elements
        if self.in_blocks:
            elements = elements.transpose(batch + 1, batch + 2)
        size = (*size[:batch], size[batch + 1], size[batch], *size[batch + 2 :])
        return make_compressed(TWINS[type(self)], self._starts, self._places, elements, size)


class _ByRows(CompressedTensor):
    __slots__ = ()
    by_rows = True

    def crow_indices(self) -> Tensor:
        """Where each row begins among the elements; one more says where the last ends."""
        return self._starts

    def col_indices(self) -> Tensor:
        """The column of each element."""
        return self._places


class _ByColumns(CompressedTensor):
    __slots__ = ()
    by_rows = False

    def ccol_indices(self) -> Tensor:
        """Where each column begins among the elements; one more says where the last ends."""
        return self._starts

    def row_indices(self) -> Tensor:
        """The row of each element."""
        return self._places


class CsrTensor(_ByRows):
    """A tensor of layout `sparse_csr`: elements row by row."""

    __slots__ = ()
    named = sparse_csr

    @property
    def is_sparse_csr(self) -> bool:
        """True: the layout is `sparse_csr`."""
        return True


class CscTensor(_ByColumns):
    """A tensor of layout `sparse_csc`: elements column by column."""

    __slots__ = ()
    named = sparse_csc


class BsrTensor(_ByRows):
    """A tensor of layout `sparse_bsr`: blocks of elements, one row of blocks after the other."""

    __slots__ = ()
    named = sparse_bsr
    in_blocks = True


class BscTensor(_ByColumns):
    """A tensor of layout `sparse_bsc`: blocks of elements, one column of blocks after the other."""

    __slots__ = ()
    named = sparse_bsc
    in_blocks = True


KINDS: dict[Layout, type[CompressedTensor]] = {
    cls.named: cls for cls in (CsrTensor, CscTensor, BsrTensor, BscTensor)
}
TWINS: dict[type[CompressedTensor], type[CompressedTensor]] = {
    CsrTensor: CscTensor, CscTensor: CsrTensor, BsrTensor: BscTensor, BscTensor: BsrTensor,
}  # fmt: skip
# What PyTorch calls the two tensors of indices, by whether lines are rows.
INDEX_NAMES = {True: ("crow_indices", "col_indices"), False: ("ccol_indices", "row_indices")}


def make_compressed(
    cls: type[Any], starts: Tensor, places: Tensor, elements: Tensor, size: Shape
) -> Any:
    """A tensor of parts that are known to fit."""
    tensor = bare(cls, elements, Size(size))
    tensor._starts = starts
    tensor._places = places
    return tensor


# -- from coordinates -----------------------------------------------------------------------------


def compressed(
    cls: type[CompressedTensor], sparse: CooTensor, blocksize: Any = None, batch: int = 0
) -> Any:
    """Matrices in one of the layouts of lines; the first `batch` dimensions are of a batch."""
    name = f"to_{cls.named.name}"
    if sparse.sparse_dim() != batch + 2:
        raise refusal(f"{name} of coordinates of {sparse.sparse_dim()} dimensions", sparse)
    if not sparse.is_coalesced():
        refuse_capture(name)
    sparse = sparse.coalesce()
    if cls.in_blocks:
        return _in_blocks(name, sparse, cls, blocksize, batch)
    if blocksize is not None:
        raise RuntimeError(f"{name}: takes no blocksize, received {blocksize}")
    line, place = (batch, batch + 1) if cls.by_rows else (batch + 1, batch)
    if not cls.by_rows:
        sparse = _sorted(sparse, (*range(batch), line, place))
    at = sparse._coordinates
    parts = at[:batch], at[line], at[place], sparse._elements
    return _by_lines(cls, name, sparse, parts, sparse.shape[line])


def _by_lines(
    cls: type[CompressedTensor], name: str, sparse: CooTensor, parts: Any, lines: int
) -> Any:
    """Elements in order, of which batch, line and place are known, as a tensor of lines."""
    outer, line, place, elements = parts
    batch, size = int(outer.shape[0]), tuple(sparse.shape)
    if not batch:
        starts = _starts(line, lines)
        return make_compressed(cls, starts, place, elements, size)
    refuse_capture(name)
    outer_size = size[:batch]
    matrices = prod(outer_size)
    if not matrices:
        raise RuntimeError(f"{name}: Expected product of batch dimensions to be non-zero.")
    which = positions(outer, outer_size)
    counts = counts_of(which, matrices)
    each = int(counts[0])
    if not bool((counts == each).all()):
        raise RuntimeError(f"{name}: Expect the same number of specified elements per batch.")
    starts = which.new_zeros((matrices, lines + 1))
    ones = which.new_ones(which.shape)
    starts = INDEX_PUT(starts, ones, which, line + 1, dims=(0, 1), accumulate=True).cumsum(1)
    starts, place = starts.reshape((*outer_size, lines + 1)), place.reshape((*outer_size, each))
    elements = elements.reshape((*outer_size, each, *elements.shape[1:]))
    return make_compressed(cls, starts, place, elements, size)


def _in_blocks(name: str, sparse: CooTensor, cls: type[Any], blocksize: Any, batch: int) -> Any:
    """Blocks of which some element is kept."""
    refuse_capture(name)
    size = tuple(sparse.shape)
    height, width = check_blocks(name, size[batch : batch + 2], blocksize)
    rows, columns = sparse._coordinates[batch:].unbind(0)
    line, place = (rows // height, columns // width)
    lines, places = size[batch] // height, size[batch + 1] // width
    if not cls.by_rows:
        line, place, lines, places = place, line, places, lines
    numbered = stack([*sparse._coordinates[:batch].unbind(0), line, place])
    extents = (*size[:batch], lines, places)
    different, number = positions(numbered, extents).unique(return_inverse=True)
    inner = tuple(sparse._elements.shape[1:])
    blocks = sparse._elements.new_zeros((different.shape[0], height, width, *inner))
    at = (number, rows % height, columns % width)
    elements = INDEX_PUT(blocks, sparse._elements, *at, dims=(0, 1, 2), accumulate=True)
    found = coordinates_of(different, extents)
    return _by_lines(cls, name, sparse, (found[:batch], found[-2], found[-1], elements), lines)


def check_blocks(name: str, size: Shape, blocksize: Any) -> tuple[int, int]:
    """Height and width of blocks that divide a matrix, or a refusal."""
    if blocksize is None or len(blocksize) != 2 or min(blocksize) < 1:
        raise RuntimeError(
            f"{name}: blocksize must be two positive numbers, received {blocksize!r}"
        )
    height, width = (int(n) for n in blocksize)
    if size[0] % height or size[1] % width:
        raise RuntimeError(
            f"{name}: a matrix of size {list(size)} is not divisible into blocks of "
            f"{height} by {width}"
        )
    return height, width


def _sorted(sparse: CooTensor, order: Shape | None = None) -> CooTensor:
    """The same elements by rows, or by dimensions in another order; no position is repeated."""
    size, rank = tuple(sparse.shape), sparse.sparse_dim()
    order = tuple(range(rank)) if order is None else order
    keys = positions(sparse._coordinates[list(order)], tuple(size[d] for d in order))
    by = keys.argsort(stable=True)
    coordinates = INDEX(sparse._coordinates, by, dims=(1,))
    elements = INDEX(sparse._elements, by, dims=(0,))
    return make(coordinates, elements, size, coalesced=order == tuple(range(rank)))


for _layout, _cls in KINDS.items():
    CONVERSIONS[_layout] = partial(compressed, _cls)


def lines_of(starts: Tensor, count: int) -> Tensor:
    """The line of each of so many elements, from where lines start: (*batch, count)."""
    # One more at the place of every line's start; the running count is the line.
    starts = starts[..., 1:-1].to(int64)
    ones = starts.new_ones(starts.shape)
    if starts.ndim == 1:
        marks = starts.new_zeros((count + 1,))
        return INDEX_PUT(marks, ones, starts, dims=(0,), accumulate=True)[:count].cumsum(0)
    marks = starts.new_zeros((*starts.shape[:-1], count + 1))
    return marks.scatter_add(-1, starts, ones)[..., :count].cumsum(-1)


def _starts(lines: Tensor, count: int) -> Tensor:
    """Where each of so many lines starts, from the line of each element, in order."""
    counts = lines.new_zeros((count + 1,))
    ones = lines.new_ones(lines.shape)
    return INDEX_PUT(counts, ones, lines + 1, dims=(0,), accumulate=True).cumsum(0)


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
    pair = [lines_of(crow_indices, col_indices.shape[0]), col_indices.to(int64)]
    return stack(pair[::-1] if transpose else pair).to(int32 if out_int32 else int64)
