"""The kernel of few rows times a matrix that lies in rows, on wide registers.

Note [few rows]
    To pack a matrix for few rows takes as long as to multiply them. So up to two tiles of rows meet
    it where it lies, four if a cache holds it: tiles are of one height, that is no row too many or
    few of them, and as wide as registers allow, and rows of B are asked for shortly before they are
    needed: those of many rows may share a set of the nearest cache. Columns beyond whole tiles are
    made a vector at a time, by masks. Elements of A are read where they lie, one is as near as
    another.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from adjoint.engine.backends.llvm.ir.writer import LINE
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.product.ending import Ending
from adjoint.engine.backends.llvm.templates.product.kernel import Meeting, ProductWords, Rows
from adjoint.engine.backends.llvm.templates.product.panels_kernel import PanelsKernel
from adjoint.engine.backends.llvm.templates.product.tiles import Tile
from adjoint.engine.backends.registers.vector import V, mad, select

AHEAD = 5  # rows of B that are asked for before they are needed


class FewKernel(PanelsKernel):
    """Writes the kernel of Note [few rows]."""

    words = ProductWords

    def rows_at(self, a: V, rows: V, depth: V) -> Rows:
        """Rows of A where they lie."""
        w, word = self.w, self.word
        return Rows(w.pointer(a), word.a_row, word.a_k, word.a_row * self.tile.rows)

    def panels_at(self, b: V, start: V, end: V, depth: V) -> tuple[str, V, V]:
        """Columns of B where they lie."""
        w = self.w
        columns = w.at(w.pointer(b), self.kind, start)
        return columns, self.word.b_k, w.whole(self.tile.columns)

    def panel(self, at: Meeting) -> None:
        """All rows times a tile's columns, or those that are left, a vector at a time."""
        w = self.w

        def tiles(at: Meeting, vectors: int) -> None:
            tile = replace(self.tile, vectors=vectors)
            w.loop(0, at.rows, partial(self.some, at, tile), step=tile.rows)

        def vector(column: V) -> None:
            panel = w.at(at.panel, self.kind, column - at.column)
            tiles(replace(at, panel=panel, column=column), 1)

        w.either(
            at.end - at.column >= self.tile.columns,
            lambda: tiles(at, self.tile.vectors),
            lambda: w.loop(at.column, at.end, vector, step=self.tile.lanes),
        )

    def sums(self, at: Meeting, tile: Tile, i: V) -> list[V]:
        """The sums of a tile."""
        w, kind, lanes, whole = self.w, self.kind, tile.lanes, tile == self.tile
        rows = [w.at(w.at(at.a.start, kind, i * at.a.row), kind, r * at.a.row)
                for r in self.steps(at, tile, i)]  # fmt: skip
        mask = w.lanes_below(at.end - at.column, lanes)
        ahead = select(at.depth > AHEAD, at.along * AHEAD, w.whole(0))

        def turn(k: V, *before: V) -> list[V]:
            here = w.at(at.panel, kind, k * at.along)
            if whole:
                later = w.at(here, kind, ahead)
                for start in range(0, tile.columns * self.item, LINE):
                    w.prefetch(later, start)
                columns = [
                    w.load(here, kind, w.whole(v * lanes), lanes) for v in range(tile.vectors)
                ]
            else:
                columns = [w.load_some(mask, kind, here, w.whole(0))]
            places, apart = iter(before), k * at.a.k
            spread = [w.code.splat(w.load(row, kind, apart), lanes) for row in rows]
            return [mad(y, x, next(places)) for x in spread for y in columns]

        zero = [w.code.const(0, kind, lanes)] * (tile.rows * tile.vectors)
        return w.loop(0, at.depth, turn, zero)

    def steps(self, at: Meeting, tile: Tile, i: V) -> list[V]:
        """How many rows those of a tile are behind its first: the last may be taken again."""
        return self.within(at, tile, i)


def few_text(name: str, kind: str, tile: Tile, ending: Ending | None = None) -> Text:
    """The kernel of Note [few rows]; the words of an epilogue follow its own."""
    return FewKernel(kind, tile, ending).text(name)
