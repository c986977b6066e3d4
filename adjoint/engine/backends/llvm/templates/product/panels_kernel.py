"""The kernel of matrix products on wide registers: tall tiles, and rows of A in panels too.

Note [tall tiles]
    With 32 registers of 512 bits, tiles of twelve rows and two vectors keep both multipliers busy:
    14 loads for 24 products of vectors, where tiles of eight rows and two have 10 for 16 and wait
    for instructions. Lower tiles, of one vector too, do what sizes leave over.

    Twelve rows that are a power of two apart share sets of the nearest cache, which then keeps none
    of them. So where enough columns use them, rows of A are copied into panels of twelve: those of
    one depth are neighbours, and all loads of a turn lie behind two registers. Else they are read
    where they lie. Which of the two is decided by the plan, and each has a text of its own.

    A piece goes through all panels of B, which come from a far cache, once for few rows. So while
    tiles are made of one panel the next is asked for, a line in each turn. Of the result, all that
    a tile adds to is read before any of it is written: rows that are a multiple of 4096 bytes apart
    look alike to the processor, which would let each read wait for the write before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from adjoint.engine.backends.llvm.ir.writer import LINE
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.product.ending import Ending
from adjoint.engine.backends.llvm.templates.product.kernel import ProductKernel, ProductWords
from adjoint.engine.backends.llvm.templates.product.packing import move
from adjoint.engine.backends.llvm.templates.product.tiles import Tile
from adjoint.engine.backends.registers.vector import V, mad, select, width

TOGETHER = 2  # depths in a turn of the loop over panels
REACH = 3  # rows behind one register: its own, one and two strides on
LOWER = 4  # rows of lower tiles
ASKED = 48  # depth from which on lines of the result are asked for before sums are made


COPY_BYTES = 192 * 1024  # of the rows of A that a piece copies, at most


def copied(kind: str) -> int:
    """Elements of A that a piece copies at a time, at most."""
    return COPY_BYTES // (width(kind) // 8)


@dataclass(slots=True)
class PanelWords(ProductWords):
    """The same; and how far twelve rows of A are from the next where they are panels."""

    a_panel: Any


class PanelsKernel(ProductKernel):
    """Writes the kernel of Note [tall tiles]; `side`: whether rows of one depth are neighbours."""

    words = PanelWords

    def __init__(self, kind: str, tile: Tile, side: bool, ending: Ending | None = None) -> None:
        super().__init__(kind, tile, ending)
        self.side = side

    def copied(self) -> int:
        """Elements of A that are copied at a time, at most."""
        return copied(self.kind)

    def rows_at(self, a: V, rows: V, depth: V) -> tuple[str, V, V]:
        """Where a block's rows begin, how far they (or panels) are apart, and their elements."""
        w, word, high = self.w, self.word, self.tile.rows
        assert isinstance(word, PanelWords)
        if not self.side:
            return w.pointer(a), word.a_row, w.whole(1)
        copies, to = word.copies.ne(0), w.address(self.copy)
        jump, step = word.block * high, w.whole(high)
        padded = (rows + (high - 1)).quotient(high) * high
        given = (a, to, word.a_row, word.a_k, step, jump, rows, padded, depth)
        w.when(copies, lambda: move(w, self.kind, high, *given))
        return (
            w.pointer(select(copies, to, a)),
            select(copies, jump, word.a_panel),
            select(copies, step, word.a_k),
        )

    def panel(
        self,
        a: tuple[str, V, V],
        b: tuple[str, V, V],
        c: str,
        sizes: tuple[V, V, V],
        depth: tuple[V, V],
    ) -> None:
        """All rows of the piece times one panel of columns, or the first half of one."""
        w, (rows, j, end), high = self.w, sizes, self.tile.rows
        whole = rows - rows.modulo(high)

        def across(vectors: int) -> None:
            def some(count: int, i: V) -> None:
                tile = replace(self.tile, rows=count, vectors=vectors)
                if tile == self.tile:
                    self.ask_for(c, i, j, depth[1])
                sums = self.sums(tile, a, b, i, rows, depth[1])
                self.put_tile(tile, sums, c, (i, rows), (j, end), depth[0])

            w.loop(0, whole, partial(some, high), step=high)
            w.loop(whole, rows, partial(some, LOWER), step=LOWER)

        w.either(end - j > self.tile.lanes, lambda: across(self.tile.vectors), lambda: across(1))

    # -- sums -----------------------------------------------------------------------------------

    def sums(
        self, tile: Tile, a: tuple[str, V, V], b: tuple[str, V, V], i: V, rows: V, depth: V
    ) -> list[V]:
        """The sums of a tile from row `i` on."""
        w, kind, (source, step, apart), (panel, along, _) = self.w, self.kind, a, b
        if tile.rows == LOWER:  # perhaps beyond the last, which is then taken again
            each = [
                w.at(source, kind, self.place(w.least(i + r, rows - 1), step)) for r in range(LOWER)
            ]
            behind: list[tuple[str, V | None]] = [(one, None) for one in each]
        elif self.side:
            first = w.at(source, kind, self.place(i, step))
            behind = [(first, w.whole(r)) for r in range(tile.rows)]
        else:
            bases = [w.at(source, kind, (i + r) * step) for r in range(0, tile.rows, REACH)]
            strides = [None, step, step * 2]
            behind = [(bases[r // REACH], strides[r % REACH]) for r in range(tile.rows)]

        def one(k: V, *before: V) -> list[V]:
            here = w.at(panel, kind, k * along)
            columns = [
                w.load(here, kind, w.whole(v * tile.lanes), tile.lanes) for v in range(tile.vectors)
            ]
            places = iter(before)
            after: list[V] = []
            found: dict[str, str] = {}
            for base, offset in behind:
                if base not in found:
                    found[base] = w.at(base, kind, k * apart)
                x = w.load(found[base], kind, w.whole(0) if offset is None else offset)
                spread = w.code.splat(x, tile.lanes)
                after += [mad(y, spread, next(places)) for y in columns]
            return after

        share = LINE // TOGETHER // self.item  # of the next panel, a line each turn
        later = w.at(panel, kind, b[2] + i.quotient(self.tile.rows) * depth * share)

        def several(k: V, *before: V) -> list[V]:
            w.prefetch(w.at(later, kind, k * share), 0, near=2)
            for turn in range(TOGETHER):
                before = tuple(one(k + turn, *before))
            return list(before)

        sums: Sequence[V] = [w.code.const(0, kind, tile.lanes)] * (tile.rows * tile.vectors)
        start: V | int = 0
        if self.side and tile == self.tile:
            start = depth - depth.modulo(TOGETHER)
            sums = w.loop(0, start, several, sums, step=TOGETHER)
        return w.loop(start, depth, one, sums)

    def place(self, row: V, step: V) -> V:
        """How far a row of the piece is from its first, in elements."""
        if not self.side:
            return row * step
        panel = row.quotient(self.tile.rows)
        return panel * step + (row - panel * self.tile.rows)

    def ask_for(self, c: str, i: V, j: V, depth: V) -> None:
        """Have the lines of the result brought while sums are made."""
        w, tile = self.w, self.tile
        size = tile.vectors * tile.lanes * self.item

        def ask() -> None:
            for r in range(tile.rows):
                row = w.at(c, self.kind, (i + r) * self.word.c_row + j)
                for start in range(0, size, LINE):
                    w.prefetch(row, start)

        w.when(depth > ASKED, ask)

    # -- results --------------------------------------------------------------------------------

    def put_tile(
        self, tile: Tile, sums: list[V], c: str, i: tuple[V, V], j: tuple[V, V], k: V
    ) -> None:
        """A tile into the result: in its place for the first k, added to it for later ones."""
        w, word = self.w, self.word
        wide = tile.vectors * tile.lanes
        whole = (i[0] + tile.rows <= i[1]) & (j[0] + wide <= j[1])
        at = i[0] * word.c_row + j[0]
        rows = [w.at(c, self.kind, at + r * word.c_row) for r in range(tile.rows)]
        places = [(row, w.whole(v * tile.lanes)) for row in rows for v in range(tile.vectors)]

        def put(later: bool) -> None:
            # All is read before any is written: Note [tall tiles].
            after = [
                x + w.load(row, self.kind, v, tile.lanes) if later else x
                for x, (row, v) in zip(sums, places, strict=True)
            ]
            for x, (row, v) in zip(after, places, strict=True):
                w.store(x, row, v)

        def aside(then: Any) -> None:
            for n, x in enumerate(sums):
                r, v = divmod(n, tile.vectors)
                w.store(x, self.result, w.whole(r * self.tile.columns + v * tile.lanes))
            then(tile, c, i, j, k)

        def plain() -> None:
            w.either(
                whole,
                lambda: w.either(k > 0, lambda: put(True), lambda: put(False)),
                lambda: aside(self.put_masked),
            )

        if self.ending is None:
            plain()
        else:
            w.either(k + word.block >= word.k, lambda: aside(self.end), plain)

    def put_masked(self, tile: Tile, c: str, i: tuple[V, V], j: tuple[V, V], k: V) -> None:
        """A tile at an edge: as many rows and lanes as there are."""
        w, later, lanes = self.w, k > 0, tile.lanes
        masks = [w.lanes_below(j[1] - j[0] - v * lanes, lanes) for v in range(tile.vectors)]

        def row(r: V) -> None:
            to = w.at(c, self.kind, (i[0] + r) * self.word.c_row + j[0])
            for v, mask in enumerate(masks):
                at = w.whole(v * lanes)
                x = w.load(self.result, self.kind, r * self.tile.columns + at, lanes)
                old = w.load_some(mask & w.code.splat(later, lanes), self.kind, to, at)
                w.store_some(mask, select(w.code.splat(later, lanes), x + old, x), to, at)

        w.loop(0, w.least(i[1] - i[0], tile.rows), row)

    def end(self, tile: Tile, c: str, i: tuple[V, V], j: tuple[V, V], k: V) -> None:
        """A tile whose sums are whole: what its elements lead to, row by row."""
        w, later, ending = self.w, k > 0, self.ending
        assert ending is not None
        wide = tile.vectors * tile.lanes
        columns = w.least(j[1] - j[0], wide)
        whole = columns - columns.modulo(tile.lanes)

        def row(r: V) -> None:
            def write(v: V, lanes: int) -> None:
                x = w.load(self.result, self.kind, r * self.tile.columns + v, lanes)
                to = (i[0] + r) * self.word.c_row + j[0] + v
                (x,) = w.choose(later, lambda: [x + w.load(c, self.kind, to, lanes)], lambda: [x])
                if self.writes_product:
                    w.store(x, c, to)
                ending.write(x, self.first_row + i[0] + r, j[0] + v)

            w.loop(0, whole, lambda v: write(v, tile.lanes), step=tile.lanes)
            w.loop(whole, columns, lambda v: write(v, 1))

        w.loop(0, w.least(i[1] - i[0], tile.rows), row)


def panels_text(name: str, kind: str, tile: Tile, side: bool, ending: Ending | None = None) -> Text:
    """The kernel of Note [tall tiles]; the words of an epilogue follow its own."""
    return PanelsKernel(kind, tile, side, ending).text(name)
