"""A product that is to be cut into launches: operands as matrices, how it begins and ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from adjoint.engine.backends.llvm.templates.convolution.windowed import kind_of
from adjoint.engine.backends.llvm.templates.product.ending import Ending
from adjoint.engine.backends.llvm.templates.product.operands import Matrix, matrix
from adjoint.engine.backends.llvm.templates.product.tiles import outer_tile
from adjoint.engine.compiler.loops.epilogues import MatrixReference
from adjoint.engine.compiler.memory.places import Dims, Place, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import Address, Label, Launch, sized

Lasts = Callable[[PlannedBuffer], bool]


@dataclass(slots=True)
class TiledProduct:
    """C = A B, and the launches that make it."""

    kind: str
    a: Matrix
    b: Matrix
    c: Matrix
    ranges: tuple[int, int]  # of the batch
    label: Label
    launches: list[Launch]
    # Whether an operand is the same in all turns of a loop: it is then ordered once for all.
    lasts: Lasts
    ending: Ending | None = None
    beginning: MatrixReference | None = None  # what sums begin with (Note [tall tiles])
    a_at_once: bool = False  # whether A is put in panels by one launch, not by the pieces

    @property
    def batch(self) -> int:
        return self.ranges[0] * self.ranges[1]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """m, n, k."""
        return *self.c.shape, self.a.shape[1]

    @property
    def begins(self) -> tuple[Any, int]:
        """Where what sums begin with lies, if there is such, and how far its rows are apart."""
        ref = self.beginning
        if ref is None:
            return 0, 0
        return Address(ref.buffer, ref.offset * ref.dtype.itemsize), ref.row

    @property
    def turned(self) -> TiledProduct:
        """C^T = B^T A^T."""
        return replace(self, a=self.b.turned, b=self.a.turned, c=self.c.turned)


def never(buffer: PlannedBuffer) -> bool:
    """Outside of loops nothing is read in many turns."""
    return False


def described(a: Place, b: Place, c: Place, dims: Dims, lasts: Lasts) -> TiledProduct:
    """A product whose batch has two ranges, without launches yet."""
    ranges = dims[0][0], dims[1][0]
    batch = ranges[0] * ranges[1]
    sizes = (*c.shape[-2:], a.shape[-1])
    label = sized("matmul", *((batch, *sizes) if batch > 1 else sizes))
    x, y, z = (matrix(place, dims, i) for i, place in enumerate((a, b, c)))
    return TiledProduct(kind_of(c), x, y, z, ranges, label, [], lasts)


def width_of(p: TiledProduct) -> int:
    """Columns of a tile."""
    return outer_tile(p.kind).columns
