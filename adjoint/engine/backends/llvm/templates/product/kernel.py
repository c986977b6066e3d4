"""The kernel of matrix products: tiles of C = A B over rows of A and panels of columns of B.

Note [products]
    A piece of work is some rows and some columns of one member of a batch. It goes through the
    depth in blocks, so that a panel of B's columns stays in the nearest cache while all rows of the
    piece are multiplied with it. Rows of A are read where they lie if they are contiguous, or if
    the elements of one depth are and there are few; if not, the piece first copies them. Panels are
    read where they lie (in B itself, or in panels that an earlier launch has packed for all pieces)
    up to the column `ready`, and packed by the piece beyond it. Sizes, strides and these choices
    are words: the code is one for all products of a dtype. Sums over blocks are added in the
    result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.product.ending import Ending, EndingWriter
from adjoint.engine.backends.llvm.templates.product.packing import move
from adjoint.engine.backends.llvm.templates.product.tiles import Tile, multiply
from adjoint.engine.backends.registers.vector import V, select, width

PANEL_BYTES = 32 * 1024  # of a panel, at most
STRIP_BYTES = 64 * 1024  # of panels that are packed together, at most
COPY_BYTES = 72 * 1024  # of the rows of A that a piece copies, at most
SIDE_BYTES = 32 * 1024  # the same where they lie side by side: all are read for every tile
GROUP = 16  # rows that are copied together; pieces have multiples of it
AREA = 256  # elements of a group's rows across a tile, at most
SKEW = 16  # elements between rows that are copied: they shall lie in different sets of a cache


@dataclass(slots=True)
class ProductWords(LaunchWords):
    """C = A B in tiles: addresses, sizes and strides, and how it is cut."""

    a: Any
    b: Any
    c: Any
    m: Any
    n: Any
    k: Any
    a_row: Any
    a_k: Any
    b_k: Any
    b_column: Any
    b_panel: Any
    c_row: Any
    ready: Any  # columns of B that are read where they lie
    copies: Any  # whether rows of A are copied
    across: Any  # side by side
    rows: Any  # of a piece, at most
    row_parts: Any
    columns: Any  # of a piece
    column_parts: Any
    strip: Any  # columns packed together
    block: Any  # of the depth
    pieces: Any
    inner: Any  # members of the inner batch; how far members are apart
    outer_a: Any
    outer_b: Any
    outer_c: Any
    inner_a: Any
    inner_b: Any
    inner_c: Any


def panel_depth(kind: str, tile: Tile) -> int:
    """The depth of a panel that a piece packs, at most."""
    return PANEL_BYTES // (tile.columns * width(kind) // 8)


def strip_columns(columns: int, item: int, depth: int) -> int:
    """Columns that a piece packs together: panels of so many, elements of so many bytes."""
    return max(STRIP_BYTES // (columns * item * max(depth, 1)), 1) * columns


def copied(kind: str, across: bool = False) -> int:
    """Elements of A that a piece copies at a time, at most."""
    return (SIDE_BYTES if across else COPY_BYTES) // (width(kind) // 8)


def group_of(tile: Tile) -> int:
    """Rows that pieces have multiples of: whole tiles, fewer where tiles are wide."""
    return -(-min(GROUP, AREA // tile.columns) // tile.rows) * tile.rows


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of A as a block reads them."""

    start: str
    row: V  # from a row to the next; where they are panels, within one
    k: V  # from an element of a row to the next
    panel: V  # from as many rows as a tile has to the next


@dataclass(frozen=True, slots=True)
class Meeting:
    """All rows of a piece and one panel of columns, in one block of the depth."""

    a: Rows
    panel: str
    along: V  # from the columns of one depth to those of the next
    jump: V  # from this panel to the next
    c: str
    rows: V  # of the piece
    column: V  # the panel's first
    end: V  # where columns end
    k: V  # where the block begins
    depth: V  # of the block


class ProductKernel:
    """Writes the kernel of Note [products]."""

    words: type[ProductWords] = ProductWords

    def __init__(self, kind: str, tile: Tile, ending: Ending | None = None) -> None:
        self.kind, self.tile = kind, tile
        self.item = width(kind) // 8
        self.w = w = CodeWriter(as_written=True)
        self.word = self.words.read_by(w)
        self.strip = w.reserve(kind, STRIP_BYTES // self.item)
        # Rows side by side are read in whole vectors, the last perhaps beyond them.
        self.copy = w.reserve(kind, self.copied() + tile.rows)
        self.result = w.reserve(kind, tile.rows * tile.columns)
        self.writes_product = ending is None or ending.writes_product
        self.ending = (
            None if ending is None else EndingWriter(w, ending.epilogue, self.words.word_count())
        )
        self.first_row = w.whole(0)  # of the piece, rows of all members counted on

    def copied(self) -> int:
        """Elements of A that are copied at a time, at most."""
        return copied(self.kind)

    def text(self, name: str) -> Text:
        self.w.pieces(self.word.pieces, self.piece)
        return self.w.finish(name)

    def piece(self, p: V) -> None:
        """Some rows and columns of one member of the batch."""
        w, word = self.w, self.word
        rest, column_part = w.split(p, word.column_parts)
        member, row_part = w.split(rest, word.row_parts)
        outer, inner = w.split(member, word.inner)

        def begin(base: V, by_outer: V, by_inner: V, offset: V | int) -> V:
            elements = outer * by_outer + inner * by_inner + offset
            return base + elements * self.item

        group = group_of(self.tile)
        groups = (word.m + (group - 1)).quotient(group)
        # As many for each piece as can be: at most word.rows.
        row, end = ((groups * n).quotient(word.row_parts) * group for n in (row_part, row_part + 1))
        self.first_row = member * word.m + row
        rows = w.least(word.m, end) - row
        first = column_part * word.columns
        stop = w.least(first + word.columns, word.n)
        a = begin(word.a, word.outer_a, word.inner_a, row * word.a_row)
        b = begin(word.b, word.outer_b, word.inner_b, 0)
        c = w.pointer(begin(word.c, word.outer_c, word.inner_c, row * word.c_row))

        def block(number: V) -> None:
            k = number * word.block
            depth = w.least(word.k - k, word.block)
            mine = self.rows_at(a + k * word.a_k * self.item, rows, depth)

            def strip(start: V) -> None:
                end = w.least(start + word.strip, stop)
                panels, along, jump = self.panels_at(
                    b + k * word.b_k * self.item, start, end, depth
                )

                def columns(j: V) -> None:
                    number = (j - start).quotient(self.tile.columns)
                    panel = w.at(panels, self.kind, number * jump)
                    self.panel(Meeting(mine, panel, along, jump, c, rows, j, end, k, depth))

                w.loop(start, end, columns, step=self.tile.columns)

            w.loop_by(first, stop, word.strip, strip)

        blocks = (word.k + word.block - 1).quotient(word.block)
        w.loop(0, w.most(blocks, 1), block)

    def panel(self, at: Meeting) -> None:
        """All rows of the piece times one panel of columns."""
        w, a = self.w, at.a

        def some_rows(i: V) -> None:
            mine = [
                w.at(a.start, self.kind, w.least(i + r, at.rows - 1) * a.row)
                for r in range(self.tile.rows)
            ]
            sums = multiply(w, self.kind, self.tile, mine, at.panel, at.along, at.depth, a.k)
            self.put(sums, at.c, (i, at.rows), (at.column, at.end), at.k)

        w.loop(0, at.rows, some_rows, step=self.tile.rows)

    def rows_at(self, a: V, rows: V, depth: V) -> Rows:
        """A block's rows of A, which are copied if the words say so."""
        w, word = self.w, self.word
        copies, across = word.copies.ne(0), word.across.ne(0)
        to, one = w.address(self.copy), w.whole(1)
        long = word.block + SKEW
        along_p = select(across, word.a_row, word.a_k)
        along_q = select(across, word.a_k, word.a_row)
        step = select(across, word.rows, long)
        p_count, q_count = select(across, rows, depth), select(across, depth, rows)
        wide = w.whole(self.tile.columns)
        given = (a, to, along_p, along_q, step, wide, p_count, p_count, q_count)
        w.when(copies, lambda: move(w, self.kind, self.tile.columns, *given))
        row = select(copies, select(across, one, long), word.a_row)
        return Rows(
            start=w.pointer(select(copies, to, a)),
            row=row,
            k=select(copies, select(across, word.rows, one), word.a_k),
            panel=row * self.tile.rows,
        )

    def panels_at(self, b: V, start: V, end: V, depth: V) -> tuple[str, V, V]:
        """Panels of a block: where they begin, from one depth to the next, from one to the next."""
        w, word, columns = self.w, self.word, self.tile.columns
        to, jump = w.address(self.strip), word.block * columns
        step = w.whole(columns)
        source = b + start * word.b_column * self.item
        padded = (end - start + (columns - 1)).quotient(columns) * columns
        ready = start + padded <= word.ready  # whole panels: nothing beyond is read
        along = (word.b_column, word.b_k)
        given = (source, to, *along, step, jump, end - start, padded, depth)
        w.when(~ready, lambda: move(w, self.kind, columns, *given))
        there = b + start.quotient(columns) * word.b_panel * self.item
        return (
            w.pointer(select(ready, there, to)),
            select(ready, word.b_k, step),
            select(ready, word.b_panel, jump),
        )

    def put(self, sums: list[V], c: str, i: tuple[V, V], j: tuple[V, V], k: V) -> None:
        """The tile into the result: in its place for the first k, added to it for later ones."""
        if self.ending is None:
            self.put_sums(sums, c, i, j, k)
            return
        w, tile = self.w, self.tile
        last = k + self.word.block >= self.word.k
        whole = (i[0] + tile.rows <= i[1]) & (j[0] + tile.columns <= j[1])
        w.when(~last, lambda: self.put_sums(sums, c, i, j, k))
        w.when(last & whole, lambda: self.end_whole(sums, c, i, j, k))
        w.when(last & ~whole, lambda: self.put_last(sums, c, i, j, k))

    def put_sums(self, sums: list[V], c: str, i: tuple[V, V], j: tuple[V, V], k: V) -> None:
        """The tile itself."""
        w, tile = self.w, self.tile
        whole = (i[0] + tile.rows <= i[1]) & (j[0] + tile.columns <= j[1])
        at = i[0] * self.word.c_row + j[0]
        w.either(
            whole,
            lambda: self.put_whole(sums, c, at, k),
            lambda: self.put_part(sums, c, at, i[1] - i[0], j[1] - j[0], k),
        )

    def put_whole(self, sums: list[V], c: str, at: V, k: V) -> None:
        """A whole tile."""
        w, tile = self.w, self.tile
        rows = [w.at(c, self.kind, at + r * self.word.c_row) for r in range(tile.rows)]
        places = [(row, w.whole(v * tile.lanes)) for row in rows for v in range(tile.vectors)]

        def put(later: bool) -> None:  # from both sides: a choice of sums would copy registers
            for x, (row, v) in zip(sums, places, strict=True):
                w.store(x + w.load(row, self.kind, v, tile.lanes) if later else x, row, v)

        w.either(k > 0, lambda: put(True), lambda: put(False))

    def end_whole(self, sums: list[V], c: str, i: tuple[V, V], j: tuple[V, V], k: V) -> None:
        """A whole tile whose sums are whole, from registers."""
        w, tile, ending = self.w, self.tile, self.ending
        assert ending is not None
        at = i[0] * self.word.c_row + j[0]
        rows = [w.at(c, self.kind, at + r * self.word.c_row) for r in range(tile.rows)]
        places = [(row, w.whole(v * tile.lanes)) for row in rows for v in range(tile.vectors)]

        def added() -> list[V]:
            return [
                x + w.load(row, self.kind, v, tile.lanes)
                for x, (row, v) in zip(sums, places, strict=True)
            ]

        totals = w.choose(k > 0, added, lambda: sums)
        first = self.first_row + i[0]

        if self.writes_product:
            for x, (to, v) in zip(totals, places, strict=True):
                w.store(x, to, v)
        for n, x in enumerate(totals):
            column = j[0] + (n % tile.vectors) * tile.lanes
            ending.write(x, first + n // tile.vectors, column)

    def put_last(self, sums: list[V], c: str, i: tuple[V, V], j: tuple[V, V], k: V) -> None:
        """A tile whose sums are whole: what its elements lead to, a vector at a time."""
        for n, total in enumerate(sums):
            self.w.store(total, self.result, self.w.whole(n * self.tile.lanes))
        self.end(self.tile, c, i, j, k)

    def end(self, tile: Tile, c: str, i: tuple[V, V], j: tuple[V, V], k: V) -> None:
        """What the elements of a tile lead to, whose rows lie aside as those of the kernel's do."""
        w, later, ending = self.w, k > 0, self.ending
        assert ending is not None
        columns = w.least(j[1] - j[0], tile.columns)
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

    def put_part(self, sums: list[V], c: str, at: V, rows: V, columns: V, k: V) -> None:
        """A tile at an edge: whole vectors while there are, then single elements."""
        w, tile, later = self.w, self.tile, k > 0
        for n, total in enumerate(sums):
            w.store(total, self.result, w.whole(n * tile.lanes))
        columns = w.least(columns, tile.columns)
        whole = columns - columns.modulo(tile.lanes)

        def row(r: V) -> None:
            def write(j: V, lanes: int) -> None:
                to = at + r * self.word.c_row + j
                x = w.load(self.result, self.kind, r * tile.columns + j, lanes)
                old = w.load(c, self.kind, to, lanes)
                w.store(select(w.code.splat(later, lanes), x + old, x), c, to)

            w.loop(0, whole, lambda j: write(j, tile.lanes), step=tile.lanes)
            w.loop(whole, columns, lambda j: write(j, 1))

        w.loop(0, w.least(rows, tile.rows), row)


def product_text(name: str, kind: str, tile: Tile, ending: Ending | None = None) -> Text:
    """The kernel of Note [products]; the words of an epilogue follow its own."""
    return ProductKernel(kind, tile, ending).text(name)


# -- an operand in another order, for all pieces ------------------------------------------------


@dataclass(slots=True)
class OrderWords(LaunchWords):
    """A matrix in another order: its dimensions are p and q."""

    source: Any
    target: Any
    along_p: Any
    along_q: Any
    step: Any
    jump: Any
    pad: Any  # zeros follow up to a multiple of it
    wide: Any  # of a panel
    p: Any
    q: Any
    part_p: Any  # of the p elements that a part has: all, or all of q
    part_q: Any
    parts: Any
    size: Any  # how far parts are apart in the result
    member: Any  # and members
    pieces: Any
    inner: Any
    outer_source: Any
    inner_source: Any


def order_text(name: str, kind: str, wide: int | None) -> Text:
    """Members of a batch in parts: panels of columns, or groups of rows (Note [products]).

    `wide`: of panels; None where a word tells.
    """
    w = CodeWriter(as_written=True)
    word = OrderWords.read_by(w)
    item = width(kind) // 8

    def piece(number: V) -> None:
        member, part = w.split(number, word.parts)
        outer, inner = w.split(member, word.inner)
        begin = outer * word.outer_source + inner * word.inner_source
        starts, counts = [], []
        for size, length in ((word.p, word.part_p), (word.q, word.part_q)):
            starts.append(select(size > length, part * length, w.whole(0)))
            counts.append(w.least(size - starts[-1], length))
        begin = begin + starts[0] * word.along_p + starts[1] * word.along_q
        source = word.source + begin * item
        to = word.target + (member * word.member + part * word.size) * item
        padded = (counts[0] + word.pad - 1).quotient(word.pad) * word.pad
        along = word.along_p, word.along_q
        given = (source, to, *along, word.step, word.jump, counts[0], padded, counts[1])
        move(w, kind, word.wide if wide is None else wide, *given)

    w.pieces(word.pieces, piece)
    return w.finish(name)
