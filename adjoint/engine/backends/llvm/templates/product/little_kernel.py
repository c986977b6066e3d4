"""The kernel of many little products: all of a member of the batch in registers.

Note [little products]
    A product of three rows and columns has no tiles: to pack panels for it, or to go along its
    depth by vectors, takes longer than its 27 multiplications. So sizes are written into the text:
    the rows of B are vectors of as many lanes as there are columns, and each row of C is their sum
    by the elements of a row of A. Sums go along the depth in its order, as in tiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.product.row_kernel import member_at
from adjoint.engine.backends.registers.vector import V, mad, width

MOST = 8  # rows, columns and depth


@dataclass(slots=True)
class LittleWords(LaunchWords):
    """A batch in two ranges; of x and y the steps from row to row and from column to column."""

    x: Any
    y: Any
    c: Any
    x_row: Any
    x_column: Any
    y_row: Any
    y_column: Any
    c_row: Any
    members: Any
    inner: Any
    outer_x: Any
    outer_y: Any
    outer_c: Any
    inner_x: Any
    inner_y: Any
    inner_c: Any


@dataclass(frozen=True, slots=True)
class Little:
    """What decides the text."""

    kind: str
    m: int
    n: int
    k: int
    rows_lie: bool  # those of y: their columns are neighbours

    @property
    def function(self) -> str:
        """The name of the kernel."""
        lies = "rows" if self.rows_lie else "anyhow"
        return f"little_{self.kind}_{self.m}x{self.n}x{self.k}_{lies}"

    def text(self, name: str) -> Text:
        """The kernel: members of the batch are dealt out among the workers."""
        w = CodeWriter(as_written=True)
        word = LittleWords.read_by(w)
        item = width(self.kind) // 8

        def member(number: V) -> None:
            x, y, c = member_at(w, word, number, item)
            rows = [self.row(w, word, y, i) for i in range(self.k)]
            for r in range(self.m):
                total: V | None = None
                for i in range(self.k):
                    at = word.x_row * r + word.x_column * i
                    factor = w.code.splat(w.load(x, self.kind, at), self.n)
                    total = factor * rows[i] if total is None else mad(factor, rows[i], total)
                assert total is not None
                w.store(total, c, word.c_row * r)

        w.pieces(word.members, member)
        return w.finish(name)

    def row(self, w: CodeWriter, word: LittleWords, y: str, i: int) -> V:
        """A row of y, as many lanes as it has columns."""
        start = word.y_row * i
        if self.rows_lie or self.n == 1:
            return w.load(y, self.kind, start, self.n)
        return w.gather(y, self.kind, [start + word.y_column * j for j in range(self.n)])
