"""Operands and results of products as kernels see them: matrices, and batches of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from adjoint.engine.backends.llvm.templates.convolution.windowed import address
from adjoint.engine.compiler.memory.places import Dims, Place
from adjoint.engine.compiler.schedule.steps import Address


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix, or a batch of them in two ranges, as a kernel reads it."""

    base: Address
    shape: tuple[int, int]
    row: int  # elements from a row to the next; 1 if there is one
    column: int
    outer: int  # from a member of the batch to the next
    inner: int

    @property
    def turned(self) -> Matrix:
        """Its transpose."""
        return replace(self, shape=self.shape[::-1], row=self.column, column=self.row)

    @property
    def rows_lie(self) -> bool:
        """Whether rows are contiguous."""
        return self.column == 1


def matrix(place: Place, dims: Dims, which: int) -> Matrix:
    """A place as a matrix, the batch's ranges given."""
    (_, outer), (_, inner) = dims
    (rows, columns), strides = place.shape[-2:], place.strides[-2:]
    row, column = (1 if n == 1 else s for n, s in zip((rows, columns), strides, strict=True))
    start = address(place, place.offset)
    return Matrix(start, (rows, columns), row, column, outer[which], inner[which])
