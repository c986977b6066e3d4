"""The kernel of matrix products: tiles of C = A B over rows of A and panels of columns of B.

Note [products]
    A piece of work is some rows and some columns of one member of a batch. It goes through the
    depth in blocks, so that a panel of B's columns stays in the nearest cache while all rows of the
    piece are multiplied with it. Rows of A are read where they lie if they are contiguous, or if
    the elements of one depth are and there are few; if not, the piece first copies them. Panels are
    read where they lie (in B itself, or in panels that an earlier launch has packed for all pieces)
    up to the column READY, and packed by the piece beyond it. Sizes, strides and these choices are
    words: the code is one for all products of a dtype. Sums over blocks are added in the result.
"""

from __future__ import annotations

from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.product.ending import EndingWriter
from adjoint.engine.backends.llvm.templates.product.packing import move
from adjoint.engine.backends.llvm.templates.product.tiles import Tile, multiply
from adjoint.engine.backends.registers.vector import V, select, width
from adjoint.engine.compiler.loops.epilogues import Epilogue

(
    A, B, C, M, N, K, A_ROW, A_K, B_K, B_COLUMN, B_PANEL, C_ROW, READY, COPIES, ACROSS,
    ROWS, ROW_PARTS, COLUMNS, COLUMN_PARTS, STRIP, BLOCK, PIECES,
    INNER, OUTER_A, OUTER_B, OUTER_C, INNER_A, INNER_B, INNER_C,
    WORDS,
) = range(30)  # fmt: skip

Ending = tuple[Epilogue, bool]  # and whether the product itself is written too
PANEL_BYTES = 32 * 1024  # of a panel, at most
STRIP_BYTES = 64 * 1024  # of panels that are packed together, at most
COPY_BYTES = 72 * 1024  # of the rows of A that a piece copies, at most
SIDE_BYTES = 32 * 1024  # the same where they lie side by side: all are read for every tile
SKEW = 16  # elements between rows that are copied: they shall lie in different sets of a cache


def panel_depth(kind: str, tile: Tile) -> int:
    """The depth of a panel that a piece packs, at most."""
    return PANEL_BYTES // (tile.columns * width(kind) // 8)


def strip_columns(columns: int, item: int, depth: int) -> int:
    """Columns that a piece packs together: panels of so many, elements of so many bytes."""
    return max(STRIP_BYTES // (columns * item * max(depth, 1)), 1) * columns


def copied(kind: str, across: bool = False) -> int:
    """Elements of A that a piece copies at a time, at most."""
    return (SIDE_BYTES if across else COPY_BYTES) // (width(kind) // 8)


class ProductKernel:
    """Writes the kernel of Note [products]."""

    def __init__(self, kind: str, tile: Tile, ending: Ending | None = None) -> None:
        self.kind, self.tile = kind, tile
        self.item = width(kind) // 8
        self.w = w = CodeWriter()
        self.word = w.words(WORDS)
        self.strip = w.reserve(kind, STRIP_BYTES // self.item)
        # Rows side by side are read in whole vectors, the last perhaps beyond them.
        self.copy = w.reserve(kind, copied(kind) + tile.rows)
        self.result = w.reserve(kind, tile.rows * tile.columns)
        self.writes_product = ending is None or ending[1]
        self.ending = None if ending is None else EndingWriter(w, ending[0], WORDS)
        self.first_row = w.whole(0)  # of the piece, rows of all members counted on

    def text(self, name: str) -> Text:
        low, high = self.w.share(self.word[PIECES])
        self.w.loop(low, high, self.piece)
        return self.w.finish(name)

    def piece(self, p: V) -> None:
        """Some rows and columns of one member of the batch."""
        w, word = self.w, self.word
        rest, column_part = w.split(p, word[COLUMN_PARTS])
        member, row_part = w.split(rest, word[ROW_PARTS])
        outer, inner = w.split(member, word[INNER])

        def begin(base: int, by_outer: int, by_inner: int, offset: V | int) -> V:
            elements = outer * word[by_outer] + inner * word[by_inner] + offset
            return word[base] + elements * self.item

        row = row_part * word[ROWS]
        self.first_row = member * word[M] + row
        rows = w.least(word[M] - row, word[ROWS])
        first = column_part * word[COLUMNS]
        stop = w.least(first + word[COLUMNS], word[N])
        a = begin(A, OUTER_A, INNER_A, row * word[A_ROW])
        b = begin(B, OUTER_B, INNER_B, 0)
        c = w.pointer(begin(C, OUTER_C, INNER_C, row * word[C_ROW]))

        def block(number: V) -> None:
            k = number * word[BLOCK]
            depth = w.least(word[K] - k, word[BLOCK])
            source, step, apart = self.rows_at(a + k * word[A_K] * self.item, rows, depth)

            def strip(start: V) -> None:
                end = w.least(start + word[STRIP], stop)
                panels, columns_apart, jump = self.panels_at(
                    b + k * word[B_K] * self.item, start, end, depth
                )

                def columns(j: V) -> None:
                    number = (j - start).quotient(self.tile.columns)
                    panel = w.at(panels, self.kind, number * jump)

                    def some_rows(i: V) -> None:
                        mine = [
                            w.at(source, self.kind, w.least(i + r, rows - 1) * step)
                            for r in range(self.tile.rows)
                        ]
                        sums = multiply(
                            w, self.kind, self.tile, mine, panel, columns_apart, depth, apart
                        )
                        self.put(sums, c, (i, rows), (j, end), k)

                    w.loop(0, rows, some_rows, step=self.tile.rows)

                w.loop(start, end, columns, step=self.tile.columns)

            w.loop_by(first, stop, word[STRIP], strip)

        blocks = (word[K] + word[BLOCK] - 1).quotient(word[BLOCK])
        w.loop(0, w.most(blocks, 1), block)

    def rows_at(self, a: V, rows: V, depth: V) -> tuple[str, V, V]:
        """Where a block's rows begin, how far they are apart, and how far their elements are."""
        w, word = self.w, self.word
        copies, across = word[COPIES].ne(0), word[ACROSS].ne(0)
        to, one = w.address(self.copy), w.whole(1)
        long = word[BLOCK] + SKEW
        along_p = select(across, word[A_ROW], word[A_K])
        along_q = select(across, word[A_K], word[A_ROW])
        step = select(across, word[ROWS], long)
        p_count, q_count = select(across, rows, depth), select(across, depth, rows)
        wide = w.whole(self.tile.columns)
        given = (a, to, along_p, along_q, step, wide, p_count, p_count, q_count)
        w.when(copies, lambda: move(w, self.kind, self.tile.columns, *given))
        return (
            w.pointer(select(copies, to, a)),
            select(copies, select(across, one, long), word[A_ROW]),
            select(copies, select(across, word[ROWS], one), word[A_K]),
        )

    def panels_at(self, b: V, start: V, end: V, depth: V) -> tuple[str, V, V]:
        """Panels of a block: where they begin, from one depth to the next, from one to the next."""
        w, word, columns = self.w, self.word, self.tile.columns
        to, jump = w.address(self.strip), word[BLOCK] * columns
        step = w.whole(columns)
        source = b + start * word[B_COLUMN] * self.item
        padded = (end - start + (columns - 1)).quotient(columns) * columns
        ready = start + padded <= word[READY]  # whole panels: nothing beyond is read
        along = (word[B_COLUMN], word[B_K])
        given = (source, to, *along, step, jump, end - start, padded, depth)
        w.when(~ready, lambda: move(w, self.kind, columns, *given))
        there = b + start.quotient(columns) * word[B_PANEL] * self.item
        return (
            w.pointer(select(ready, there, to)),
            select(ready, word[B_K], step),
            select(ready, word[B_PANEL], jump),
        )

    def put(self, sums: list[V], c: str, i: tuple[V, V], j: tuple[V, V], k: V) -> None:
        """The tile into the result: in its place for the first k, added to it for later ones."""
        if self.ending is None:
            self.put_sums(sums, c, i, j, k)
            return
        w, tile = self.w, self.tile
        last = k + self.word[BLOCK] >= self.word[K]
        whole = (i[0] + tile.rows <= i[1]) & (j[0] + tile.columns <= j[1])
        w.when(~last, lambda: self.put_sums(sums, c, i, j, k))
        w.when(last & whole, lambda: self.end_whole(sums, c, i, j, k))
        w.when(last & ~whole, lambda: self.put_last(sums, c, i, j, k))

    def put_sums(self, sums: list[V], c: str, i: tuple[V, V], j: tuple[V, V], k: V) -> None:
        """The tile itself."""
        w, tile = self.w, self.tile
        whole = (i[0] + tile.rows <= i[1]) & (j[0] + tile.columns <= j[1])
        at = i[0] * self.word[C_ROW] + j[0]
        w.either(
            whole,
            lambda: self.put_whole(sums, c, at, k),
            lambda: self.put_part(sums, c, at, i[1] - i[0], j[1] - j[0], k),
        )

    def put_whole(self, sums: list[V], c: str, at: V, k: V) -> None:
        """A whole tile."""
        w, tile = self.w, self.tile
        rows = [w.at(c, self.kind, at + r * self.word[C_ROW]) for r in range(tile.rows)]
        places = [(row, w.whole(v * tile.lanes)) for row in rows for v in range(tile.vectors)]

        def added() -> list[V]:
            return [
                x + w.load(row, self.kind, v, tile.lanes)
                for x, (row, v) in zip(sums, places, strict=True)
            ]

        for x, (row, v) in zip(w.choose(k > 0, added, lambda: sums), places, strict=True):
            w.store(x, row, v)

    def end_whole(self, sums: list[V], c: str, i: tuple[V, V], j: tuple[V, V], k: V) -> None:
        """A whole tile whose sums are whole, from registers."""
        w, tile, ending = self.w, self.tile, self.ending
        assert ending is not None
        at = i[0] * self.word[C_ROW] + j[0]
        rows = [w.at(c, self.kind, at + r * self.word[C_ROW]) for r in range(tile.rows)]
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
        w, tile, later, ending = self.w, self.tile, k > 0, self.ending
        assert ending is not None
        for n, total in enumerate(sums):
            w.store(total, self.result, w.whole(n * tile.lanes))
        columns = w.least(j[1] - j[0], tile.columns)
        whole = columns - columns.modulo(tile.lanes)

        def row(r: V) -> None:
            def write(v: V, lanes: int) -> None:
                x = w.load(self.result, self.kind, r * tile.columns + v, lanes)
                to = (i[0] + r) * self.word[C_ROW] + j[0] + v

                def added() -> list[V]:
                    return [x + w.load(c, self.kind, to, lanes)]

                (x,) = w.choose(later, added, lambda: [x])
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
                to = at + r * self.word[C_ROW] + j
                x = w.load(self.result, self.kind, r * tile.columns + j, lanes)
                old = w.load(c, self.kind, to, lanes)
                w.store(select(w.code.splat(later, lanes), x + old, x), c, to)

            w.loop(0, whole, lambda j: write(j, tile.lanes), step=tile.lanes)
            w.loop(whole, columns, lambda j: write(j, 1))

        w.loop(0, w.least(rows, tile.rows), row)


def product_text(name: str, kind: str, tile: Tile, ending: Ending | None = None) -> Text:
    """The kernel of Note [products]; its words are named above, those of an epilogue follow."""
    return ProductKernel(kind, tile, ending).text(name)


# -- an operand in another order, for all pieces ------------------------------------------------

(
    O_FROM, O_TO, O_ALONG_P, O_ALONG_Q, O_STEP, O_JUMP, O_PAD, O_P, O_Q, O_PART_P, O_PART_Q,
    O_PARTS, O_SIZE, O_MEMBER, O_PIECES, O_INNER, O_OUTER_FROM, O_INNER_FROM,
    O_WORDS,
) = range(19)  # fmt: skip


def order_text(name: str, kind: str, tile: Tile) -> Text:
    """Members of a batch in parts: panels of columns, or groups of rows (Note [products]).

    A part has O_PART_P of the O_P elements of one dimension and O_PART_Q of the other, all that
    there are of one of the two. O_SIZE is how far parts are apart in the result, O_MEMBER members;
    of p there are zeros up to a multiple of O_PAD.
    """
    w = CodeWriter()
    word = w.words(O_WORDS)
    item = width(kind) // 8
    low, high = w.share(word[O_PIECES])

    def piece(number: V) -> None:
        member, part = w.split(number, word[O_PARTS])
        outer, inner = w.split(member, word[O_INNER])
        begin = outer * word[O_OUTER_FROM] + inner * word[O_INNER_FROM]
        starts, counts = [], []
        for size, length in ((O_P, O_PART_P), (O_Q, O_PART_Q)):
            starts.append(select(word[size] > word[length], part * word[length], w.whole(0)))
            counts.append(w.least(word[size] - starts[-1], word[length]))
        begin = begin + starts[0] * word[O_ALONG_P] + starts[1] * word[O_ALONG_Q]
        source = word[O_FROM] + begin * item
        to = word[O_TO] + (member * word[O_MEMBER] + part * word[O_SIZE]) * item
        padded = (counts[0] + word[O_PAD] - 1).quotient(word[O_PAD]) * word[O_PAD]
        along = word[O_ALONG_P], word[O_ALONG_Q]
        given = (source, to, *along, word[O_STEP], word[O_JUMP], counts[0], padded, counts[1])
        move(w, kind, tile.columns, *given)

    w.loop(low, high, piece)
    return w.finish(name)
