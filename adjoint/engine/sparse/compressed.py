"""Compressed tensors: matrices kept line by line, by rows or by columns, singly or in blocks.

Note [compressed layouts]
    A line is a row (CSR, BSR) or a column (CSC, BSC) of elements or of blocks. `_starts` says where
    each line begins among the elements, `_places` where in its line each of them is. So a transpose
    changes no index: the rows of the one layout are the columns of the other.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from adjoint.engine.core.dtype import int32, int64
from adjoint.engine.core.layout import Layout, sparse_bsc, sparse_bsr, sparse_csc, sparse_csr
from adjoint.engine.core.spec import Size
from adjoint.engine.ops.index.index import INDEX, INDEX_PUT
from adjoint.engine.ops.shape.join import stack
from adjoint.engine.sparse.coo import CooTensor, make, positions, refuse_capture
from adjoint.engine.sparse.tensor import CONVERSIONS, SparseTensor, bare, refusal
from adjoint.engine.tensor.tensor import Tensor

Shape = tuple[int, ...]


class CompressedTensor(SparseTensor):
    """A matrix of which line i keeps elements `_starts[i]` to `_starts[i + 1]`."""

    __slots__ = ("_places", "_starts")
    _places: Tensor  # (nnz,)
    _starts: Tensor  # (lines + 1,)

    named: ClassVar[Layout]
    by_rows: ClassVar[bool]
    in_blocks: ClassVar[bool] = False  # elements are (nnz, height, width) rather than (nnz,)

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

    def sparse_dim(self) -> int:
        return 2

    def dense_dim(self) -> int:
        return 0

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
        height, width = self._elements.shape[1:]
        return (int(height), int(width))

    def at(self) -> tuple[Tensor, ...]:
        lines, places = lines_of(self._starts, self._nnz()), self._places.to(int64)
        pair = (lines, places) if self.by_rows else (places, lines)
        if not self.in_blocks:
            return pair
        rows, columns = (
            index.reshape((-1, 1)) * side + index.new_arange(side)
            for index, side in zip(pair, self.blocksize(), strict=True)
        )
        return rows.unsqueeze(2), columns.unsqueeze(1)  # (nnz, height, 1), (nnz, 1, width)

    def spread(self) -> CooTensor:
        shape = tuple(self._elements.shape)
        pair = stack([index.expand(shape).reshape((-1,)) for index in self.at()])
        in_order = self.by_rows and not self.in_blocks
        return make(pair, self._elements.reshape((-1,)), tuple(self.shape), coalesced=in_order)

    def in_order(self) -> CooTensor:
        sparse = self.spread()
        return sparse if sparse._coalesced else _sorted(sparse, tuple(self.shape))

    def to_sparse_coo(self) -> CooTensor:
        """The tensor with coordinates; of a matrix kept by columns in that order, as PyTorch's."""
        return self.in_order() if self.by_rows else self.spread()

    def in_layout(self, sparse: CooTensor) -> Any:
        return compressed(type(self), sparse, self.blocksize() if self.in_blocks else None)

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
        return self.spread().to_dense(dtype)

    def transposed(self) -> Any:
        """Rows as columns, without a copy of the indices."""
        elements = self._elements.transpose(1, 2) if self.in_blocks else self._elements
        size, twin = (self.shape[1], self.shape[0]), TWINS[type(self)]
        return make_compressed(twin, self._starts, self._places, elements, size)


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


def compressed(cls: type[CompressedTensor], sparse: CooTensor, blocksize: Any = None) -> Any:
    """A matrix in one of the layouts of lines."""
    name = f"to_{cls.named.name}"
    if sparse.sparse_dim() != 2 or sparse.dense_dim():
        raise refusal(f"{name} of anything but a matrix", sparse)
    if not sparse.is_coalesced():
        refuse_capture(name)
    sparse = sparse.coalesce()
    if cls.in_blocks:
        return _in_blocks(name, sparse, cls, blocksize)
    if blocksize is not None:
        raise RuntimeError(f"{name}: takes no blocksize, received {blocksize}")
    if not cls.by_rows:
        sparse = _sorted(sparse, tuple(sparse.shape), (1, 0))
    line = 0 if cls.by_rows else 1
    starts = _starts(sparse._coordinates[line], sparse.shape[line])
    places = sparse._coordinates[1 - line]
    return make_compressed(cls, starts, places, sparse._elements, tuple(sparse.shape))


def _in_blocks(name: str, sparse: CooTensor, cls: type[Any], blocksize: Any) -> Any:
    """Blocks of which some element is kept."""
    refuse_capture(name)
    height, width = check_blocks(name, tuple(sparse.shape), blocksize)
    rows, columns = sparse._coordinates.unbind(0)
    line, place = (rows // height, columns // width)
    lines, places = sparse.shape[0] // height, sparse.shape[1] // width
    if not cls.by_rows:
        line, place, lines, places = place, line, places, lines
    different, number = (line * places + place).unique(return_inverse=True)
    blocks = sparse._elements.new_zeros((different.shape[0], height, width))
    at = (number, rows % height, columns % width)
    elements = INDEX_PUT(blocks, sparse._elements, *at, dims=(0, 1, 2), accumulate=True)
    across = max(places, 1)
    starts = _starts(different // across, lines)
    return make_compressed(cls, starts, different % across, elements, tuple(sparse.shape))


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


def _sorted(sparse: CooTensor, size: Shape, order: tuple[int, int] = (0, 1)) -> CooTensor:
    """The same elements by rows, or with the other order by columns; no position is repeated."""
    keys = positions(sparse._coordinates[list(order)], tuple(size[d] for d in order))
    by = keys.argsort(stable=True)
    coordinates = INDEX(sparse._coordinates, by, dims=(1,))
    elements = INDEX(sparse._elements, by, dims=(0,))
    return make(coordinates, elements, size, coalesced=order == (0, 1))


for _layout, _cls in KINDS.items():
    CONVERSIONS[_layout] = partial(compressed, _cls)


def lines_of(starts: Tensor, count: int) -> Tensor:
    """The line of each of so many elements, from where lines start."""
    # One more at the place of every line's start; the running count is the line.
    starts = starts[1:-1].to(int64)
    marks = starts.new_zeros((count + 1,))
    ones = starts.new_ones(starts.shape)
    return INDEX_PUT(marks, ones, starts, dims=(0,), accumulate=True)[:count].cumsum(0)


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
