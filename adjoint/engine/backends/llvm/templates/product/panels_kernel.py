"""The kernel of matrix products on wide registers: tall tiles, and rows of A in panels too.

Note [tall tiles]
    With 32 registers of 512 bits, tiles of twelve rows and two vectors keep both multipliers busy:
    14 loads for 24 products of vectors, where tiles of eight rows and two have 10 for 16 and wait
    for instructions. Lower tiles, and such of one vector, do what sizes leave over.

    Twelve rows that are a power of two apart share sets of the nearest cache, which then keeps none
    of them. So where enough columns use them, rows of A are copied into panels of twelve, whose
    elements of one depth are neighbours; else they are read where they lie. The text is one.

    A piece goes through all panels of B, which come from a far cache, once for few rows. So while
    its first two tiles are made of one panel the next is asked for, every second line by each;
    where B is read where it lies, rows that come soon, by the first. Other tiles ask for the rows
    of A that the next one reads. Of the result, all that a tile adds to is
    read before any of it is written: rows that are a multiple of 4096 bytes apart look alike to the
    processor, which would let each read wait for the write before it. Results are written by masks,
    whole ones too, and a lower tile that has no four rows makes its last one again: so a tile ends
    in one way. What is added to a product (a bias) is what its first block adds to, as later ones
    add to the result.

Note [turns of tall tiles]
    The processor takes four instructions a cycle, and a turn has 24 products for twelve cycles, so
    that what else there is counts: 14 loads, one line that is asked for, and steps. All rows are
    reached from two addresses, by multiples of one, three and five strides that loads can add by
    themselves. LLVM would make all addresses of one, by ten additions in each turn: that they
    are sums is hidden from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from adjoint.engine.backends.llvm.ir.masked import masked_load, masked_store
from adjoint.engine.backends.llvm.ir.writer import LINE
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.product.ending import Ending
from adjoint.engine.backends.llvm.templates.product.kernel import (
    Meeting,
    ProductKernel,
    ProductWords,
    Rows,
)
from adjoint.engine.backends.llvm.templates.product.packing import move
from adjoint.engine.backends.llvm.templates.product.tiles import TALL, Tile
from adjoint.engine.backends.registers.vector import V, mad, select, width

# Rows of a tile by the two addresses they are reached from: a stride, or three or five of them, so
# many times.
BEHIND = (
    (0, ((1, 0), (1, 1), (1, 2), (3, 1), (1, 4), (5, 1), (3, 2), (1, 8), (5, 2))),
    (7, ((1, 0), (1, 2), (1, 4))),
)
LOWER = 4  # rows of lower tiles
AHEAD = 16  # rows of B that are asked for before they are needed, where they lie
COPY_BYTES = 192 * 1024  # of the rows of A that a piece copies, at most


def copied(kind: str) -> int:
    """Elements of A that a piece copies at a time, at most."""
    return COPY_BYTES // (width(kind) // 8)


@dataclass(slots=True)
class PanelWords(ProductWords):
    """The same; and, within rows that a piece does not copy, where they lie."""

    a_step: Any  # from a row to the next: in panels they are neighbours
    a_panel: Any  # from twelve rows to the next
    pace: Any  # bytes from what a turn asks for of the next twelve rows to what the next turn does
    begin: Any  # what sums begin with: a matrix or, with no steps from row to row, a row; or 0
    begin_row: Any


class PanelsKernel(ProductKernel):
    """Writes the kernel of Note [tall tiles]."""

    words: type[ProductWords] = PanelWords

    def copied(self) -> int:
        """Elements of A that are copied at a time, at most."""
        return copied(self.kind)

    def rows_at(self, a: V, rows: V, depth: V) -> Rows:
        """A block's rows of A, which are copied into panels if the words say so."""
        w, word, high = self.w, self.word, self.tile.rows
        assert isinstance(word, PanelWords)
        copies, to = word.copies.ne(0), w.address(self.copy)
        jump, step = word.block * high, w.whole(high)
        padded = (rows + (high - 1)).quotient(high) * high
        given = (a, to, word.a_row, word.a_k, step, jump, rows, padded, depth)
        w.when(copies, lambda: move(w, self.kind, high, *given))
        return Rows(
            start=w.pointer(select(copies, to, a)),
            row=select(copies, w.whole(1), word.a_step),
            k=select(copies, step, word.a_k),
            panel=select(copies, jump, word.a_panel),
        )

    def panel(self, at: Meeting) -> None:
        """All rows of the piece times one panel of columns, or the first half of one."""
        w, high = self.w, self.tile.rows
        whole = at.rows - at.rows.modulo(high)

        def tiles(rows: int, vectors: int, start: V | int, stop: V) -> None:
            tile = replace(self.tile, rows=rows, vectors=vectors)
            w.loop(start, stop, partial(self.some, at, tile), step=rows)

        w.either(
            at.end - at.column > self.tile.lanes,
            lambda: tiles(high, self.tile.vectors, 0, whole),
            lambda: tiles(high, 1, 0, whole),
        )
        # Fewer vectors would not make them sooner: each sum waits for the one before.
        tiles(LOWER, self.tile.vectors, whole, at.rows)

    def some(self, at: Meeting, tile: Tile, i: V) -> None:
        """A tile from row `i` on."""
        sums = self.sums(at, tile, i)
        if self.ending is None:
            self.put_tile(tile, sums, at, i)
            return
        self.w.either(
            at.k + self.word.block >= self.word.k,
            lambda: self.put_ending(tile, sums, at, i),
            lambda: self.put_tile(tile, sums, at, i),
        )

    # -- sums -----------------------------------------------------------------------------------

    def sums(self, at: Meeting, tile: Tile, i: V) -> list[V]:
        """The sums of a tile (Note [turns of tall tiles])."""
        w, kind = self.w, self.kind
        behind = self.places(at, tile, i)
        step, along = at.a.k * self.item, at.along * self.item
        asked = [] if tile.rows == LOWER else [self.asked(at, i)]
        moving = 1 + len(behind) + len(asked)

        def turn(_: V, *before: V) -> list[V]:
            here, *others = map(w.unknown, before[:moving])
            bases, asking = others[: len(behind)], others[len(behind) :]
            columns = [
                w.load(w.pointer(here), kind, w.whole(v * tile.lanes), tile.lanes)
                for v in range(tile.vectors)
            ]
            places = iter(before[moving:])
            after: list[V] = []
            for base, (_, rows) in zip(bases, behind, strict=True):
                for apart, times in rows:
                    found = w.behind(w.pointer(base), apart * times)
                    spread = w.code.splat(w.load(found, kind, w.whole(0)), tile.lanes)
                    after += [mad(y, spread, next(places)) for y in columns]
            for place in asking:
                w.prefetch(w.pointer(place), 0, near=2)
            later = (place + pace for place, (_, pace) in zip(asking, asked, strict=True))
            return [here + along, *(base + step for base in bases), *later, *after]

        zero = [w.code.const(0, kind, tile.lanes)] * (tile.rows * tile.vectors)
        starts = [base for base, _ in (*behind, *asked)]
        first = [w.address(at.panel), *starts, *zero]
        found = w.loop(0, at.depth, turn, first)[moving:]
        if tile.rows == LOWER:
            return found
        numbers = [first + odd * times for first, rows in BEHIND for odd, times in rows]
        wide = tile.vectors
        by_row = {r: found[n * wide : (n + 1) * wide] for n, r in enumerate(numbers)}
        return [x for r in range(tile.rows) for x in by_row[r]]

    def places(self, at: Meeting, tile: Tile, i: V) -> list[tuple[V, list[tuple[V, int]]]]:
        """Where a tile's rows begin: some addresses, and how far rows are behind each.

        That is so many times a number of bytes.
        """
        w, kind, row, high = self.w, self.kind, at.a.row, self.tile.rows
        assert high == TALL  # what BEHIND reaches
        panel = i.quotient(high)
        start = w.address(w.at(at.a.start, kind, panel * at.a.panel + (i - panel * high) * row))
        row = row * self.item
        if tile.rows == LOWER:
            none = w.whole(0)
            return [(start + r * row, [(none, 0)]) for r in self.steps(at, tile, i)]
        apart = {1: row, 3: row * 3, 5: row * 5}
        return [
            (start + row * r, [(apart[odd], times) for odd, times in rows]) for r, rows in BEHIND
        ]

    def steps(self, at: Meeting, tile: Tile, i: V) -> list[V]:
        """How many rows those of a tile are behind its first."""
        if tile.rows == LOWER:
            return self.within(at, tile, i)
        return [self.w.whole(r) for r in range(tile.rows)]

    def within(self, at: Meeting, tile: Tile, i: V) -> list[V]:
        """The same where there may be fewer rows: the last is then taken again."""
        left = at.rows - 1 - i
        return [self.w.least(left, r) for r in range(tile.rows)]

    def asked(self, at: Meeting, i: V) -> tuple[V, V]:
        """What a tile's turns ask for, one line each: where it begins, and bytes to the next.

        What does not exist would be looked up in vain each time, which takes long. Where there is
        nothing to ask for, it is what the turn reads.
        """
        w, word, high, columns = self.w, self.word, self.tile.rows, self.tile.columns
        assert isinstance(word, PanelWords)
        here, along = w.address(at.panel), at.along * self.item
        number = i.quotient(high)
        in_place = at.jump.eq(columns)  # no panel: columns are B's own
        shared = at.jump.eq(word.b_panel)
        follows = at.column + columns < select(shared, word.n, at.end)
        line = number * LINE  # the first tile asks for even ones, then odd ones
        of_b = select(in_place, number.eq(0), follows & (line <= LINE))
        of_a = (word.pace > 0) & (i + high < at.rows) & ~of_b
        b_place = select(in_place, along * AHEAD, at.jump * self.item + line)
        a_place = w.address(w.at(at.a.start, self.kind, (number + 1) * at.a.panel))
        start = select(of_a, a_place, here + select(of_b, b_place, w.whole(0)))
        return start, select(of_a, word.pace, along)

    # -- results --------------------------------------------------------------------------------

    def put_tile(self, tile: Tile, sums: list[V], at: Meeting, i: V) -> None:
        """A tile into the result: in its place for the first block, added to it for later ones."""
        w, lanes, c_row, later = self.w, tile.lanes, self.word.c_row, at.k > 0
        masks = [w.lanes_below(at.end - at.column - v * lanes, lanes) for v in range(tile.vectors)]
        first = w.at(at.c, self.kind, i * c_row + at.column)

        def places(start: str, row: V) -> list[tuple[V, str]]:
            rows = [w.at(start, self.kind, r * row) for r in self.steps(at, tile, i)]
            return [
                (mask, w.at(row, self.kind, w.whole(v * lanes)))
                for row in rows
                for v, mask in enumerate(masks)
            ]

        def put(after: list[V]) -> None:
            for x, (mask, place) in zip(after, places(first, c_row), strict=True):
                masked_store(mask, x, place, self.item)

        def added() -> None:
            # All is read before any is written: Note [tall tiles].
            found = places(*self.before(at, i, later, first))
            put([
                x + masked_load(mask, place, self.item, self.kind)
                for x, (mask, place) in zip(sums, found, strict=True)
            ])  # fmt: skip

        w.either(self.adds(later), added, lambda: put(sums))

    def adds(self, later: V) -> V:
        """Whether a tile is added to something: the result of earlier blocks, or what is given."""
        word = self.word
        return later | word.begin.ne(0) if isinstance(word, PanelWords) else later

    def before(self, at: Meeting, i: V, later: V, result: str) -> tuple[str, V]:
        """Where that lies from a tile's first row on, and how far rows are apart."""
        w, word = self.w, self.word
        if not isinstance(word, PanelWords):
            return result, word.c_row
        place = (self.first_row + i) * word.begin_row + at.column
        given = word.begin + place * self.item
        start = w.pointer(select(later, w.address(result), given))
        return start, select(later, word.c_row, word.begin_row)

    def put_ending(self, tile: Tile, sums: list[V], at: Meeting, i: V) -> None:
        """A tile whose sums are whole, and what they lead to, row by row."""
        w = self.w
        for n, x in enumerate(sums):
            r, v = divmod(n, tile.vectors)
            w.store(x, self.result, w.whole(r * self.tile.columns + v * tile.lanes))
        self.end(tile, at.c, (i, at.rows), (at.column, at.end), at.k)


def panels_text(name: str, kind: str, tile: Tile, ending: Ending | None = None) -> Text:
    """The kernel of Note [tall tiles]; the words of an epilogue follow its own."""
    return PanelsKernel(kind, tile, ending).text(name)
