"""The kernel of convolutions' gradients by the weights.

Note [filters]
    dw[m, k] = sum over p of g[m, at[p]] x[place[p] + tap[k]]

    with positions p (Note [walks]) along the lanes, so that rows of both operands are copied into
    panels as they lie. A piece of work is a part of the positions, of the output channels and of
    the taps; parts of the positions have results of their own, which `sum_parts` adds in order.
    Parts depend on shapes alone, so results do not depend on the number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords, several
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.convolution.walks import RANK, PositionWalk
from adjoint.engine.backends.llvm.templates.product.tiles import inner_tile
from adjoint.engine.backends.registers.vector import V, mad, select

ROWS = 64  # output channels whose panels are packed together, at most
BYTES = 2048  # of positions packed at a time


@dataclass(slots=True)
class FilterWords(LaunchWords):
    """The gradient by filters; offsets of the taps in the input follow."""

    source: Any
    gradient: Any
    target: Any
    m: Any
    k: Any
    tap_count: Any
    positions: Any
    part: Any  # positions of a piece
    block: Any  # that are packed together
    pieces: Any
    rows: Any  # of a piece
    row_parts: Any
    columns: Any  # of a piece
    column_parts: Any
    groups: Any
    group_source: Any  # from one group to the next
    group_gradient: Any
    channel_source: Any  # from one channel to the next
    channel_gradient: Any
    sizes: Sequence[Any] = field(metadata=several(RANK))  # of the positions' coordinates
    # In the input: example, coordinates.
    source_steps: Sequence[Any] = field(metadata=several(RANK + 1))
    gradient_steps: Sequence[Any] = field(metadata=several(RANK + 1))


def block_size(kind: str) -> int:
    """Positions packed at a time, at most."""
    return BYTES // (4 if kind == "f32" else 8)


def filter_piece(w: CodeWriter, word: Any, number: V) -> tuple[V, V, V, V]:
    """Which part of the positions, group, part of the output channels and of the columns it is."""
    rest, column_part = w.split(number, word.column_parts)
    rest, row_part = w.split(rest, word.row_parts)
    part, group = w.split(rest, word.groups)
    return part, group, row_part, column_part


def in_blocks(w: CodeWriter, first: V, stop: V, size: V, body: Callable[[V], None]) -> None:
    """Do `body(number)` for each block of `size` from `first` on, the last perhaps smaller."""
    blocks = (stop - first + (size - 1)).quotient(size)
    w.loop(0, blocks, body)


class FiltersKernel:
    """Writes the kernel of Note [filters]."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.tile = inner_tile(kind)
        self.w = w = CodeWriter()
        self.word = word = FilterWords.read_by(w)
        self.source, self.gradient, self.target = map(
            w.pointer, (word.source, word.gradient, word.target)
        )
        self.taps = w.at("%args", "i64", w.whole(FilterWords.word_count()))
        self.size = block_size(kind)
        tile = self.tile
        self.rows = w.reserve(kind, -(-ROWS // tile.rows) * tile.rows * self.size)
        self.columns = w.reserve(kind, tile.vectors * self.size)
        self.result = w.reserve(kind, tile.rows * tile.vectors * tile.lanes)
        self.offsets = w.reserve("i64", max(tile.rows, tile.vectors))
        self.places, self.outs = w.reserve("i64", self.size), w.reserve("i64", self.size)
        vectors = self.size // tile.lanes
        self.near, self.near_outs = w.reserve("i64", vectors), w.reserve("i64", vectors)
        self.walk = PositionWalk(w, word.sizes, (word.source_steps, word.gradient_steps))

    def text(self, name: str) -> Text:
        self.w.pieces(self.word.pieces, self.piece)
        return self.w.finish(name)

    def piece(self, p: V) -> None:
        """A part of the positions, output channels and taps of one group."""
        w, word, kind = self.w, self.word, self.kind
        part, group, row_part, column_part = filter_piece(w, word, p)
        row = row_part * word.rows
        rows = w.least(word.m - row, word.rows)
        first_column = column_part * word.columns
        last_column = w.least(first_column + word.columns, word.k)
        source = w.at(self.source, kind, group * word.group_source)
        start = group * word.group_gradient + row * word.channel_gradient
        gradient = w.at(self.gradient, kind, start)
        # Results lie [part][group][row][column].
        to = ((part * word.groups + group) * word.m + row) * word.k
        target = w.at(self.target, kind, to)
        first = part * word.part
        stop = w.least(first + word.part, word.positions)

        def block(number: V) -> None:
            begin = first + number * word.block
            vectors, count = self.tables(begin, w.least(begin + word.block, stop))
            self.pack_rows(gradient, rows, vectors, count)

            def columns(c: V) -> None:
                self.pack_columns(source, c, vectors, count)

                def tile_rows(r: V) -> None:
                    self.multiply(r * self.size, vectors)
                    here = w.least(rows - r, self.tile.rows)
                    self.put(target, r, here, c, last_column, number > 0)

                w.loop(0, rows, tile_rows, step=self.tile.rows)

            w.loop(first_column, last_column, columns, step=self.tile.vectors)

        in_blocks(w, first, stop, word.block, block)

    def tables(self, begin: V, end: V) -> tuple[V, V]:
        """Where a block's positions are; its vectors, the last perhaps not full, and positions."""
        w, lanes = self.w, self.tile.lanes
        count = end - begin
        vectors = (count + (lanes - 1)).quotient(w.whole(lanes))
        # The walk goes to the end of the last vector; there it repeats the last position.
        self.walk.fill((self.places, self.outs), begin, vectors * lanes, end)
        self.walk.flag(self.places, self.near, vectors, lanes, count)
        self.walk.flag(self.outs, self.near_outs, vectors, lanes, count)
        return vectors, count

    def pack_rows(self, gradient: str, rows: V, vectors: V, count: V) -> None:
        """Output channels into panels, those beyond the last like the last."""
        w, tile = self.w, self.tile

        def panel(r: V) -> None:
            channel = self.word.channel_gradient
            offsets = [w.least(r + i, rows - 1) * channel for i in range(tile.rows)]
            to = w.at(self.rows, self.kind, r * self.size)
            self.pack(gradient, offsets, (self.outs, self.near_outs), to, vectors, count)

        w.loop(0, rows, panel, step=tile.rows)

    def pack_columns(self, source: str, c: V, vectors: V, count: V) -> None:
        """Some columns (channel, tap) into a panel."""
        w = self.w
        offsets = []
        for j in range(self.tile.vectors):
            k = w.least(c + j, self.word.k - 1)
            channel, tap = w.split(k, self.word.tap_count)
            offset = channel * self.word.channel_source + w.load(self.taps, "i64", tap)
            offsets.append(offset)
        self.pack(source, offsets, (self.places, self.near), self.columns, vectors, count)

    def pack(
        self,
        base: str,
        offsets: list[V],
        tables: tuple[str, str],
        target: str,
        vectors: V,
        count: V,
    ) -> None:
        """A panel [vector][offset][lane] of positions; zeros beyond the last."""
        w, kind, lanes = self.w, self.kind, self.tile.lanes
        table, flags = tables
        for i, offset in enumerate(offsets):
            w.store(offset, self.offsets, w.whole(i))

        def vector(v: V) -> None:
            j = v * lanes
            to = j * len(offsets)

            def near() -> None:
                place = w.load(table, "i64", j)
                for i, offset in enumerate(offsets):
                    x = w.load(base, kind, place + offset, lanes)
                    w.store(x, target, to + i * lanes)

            def far(i: V) -> None:
                offset = w.load(self.offsets, "i64", i)
                places = [w.load(table, "i64", j + lane) + offset for lane in range(lanes)]
                x = w.gather(base, kind, places)
                numbers = w.code.splat(j, lanes) + w.code.iota("i64", lanes)
                inside = numbers < w.code.splat(count, lanes)
                w.store(select(inside, x, 0), target, to + i * lanes)

            w.either(
                w.load(flags, "i64", v).ne(0),
                near,
                lambda: w.loop(0, w.whole(len(offsets)), far),
            )

        w.loop(0, vectors, vector)

    def multiply(self, rows: V, vectors: V) -> None:
        """The microkernel: a panel of rows times the panel of columns."""
        w, tile, kind = self.w, self.tile, self.kind
        mine = w.at(self.rows, kind, rows)
        zero = [w.code.const(0, kind, tile.lanes)] * (tile.rows * tile.vectors)

        def turn(v: V, *sums: V) -> list[V]:
            xs = [
                w.load(self.columns, kind, (v * tile.vectors + j) * tile.lanes, tile.lanes)
                for j in range(tile.vectors)
            ]
            out: list[V] = []
            for r in range(tile.rows):
                a = w.load(mine, kind, (v * tile.rows + r) * tile.lanes, tile.lanes)
                out += [mad(x, a, sums[r * tile.vectors + j]) for j, x in enumerate(xs)]
            return out

        for n, total in enumerate(w.loop(0, vectors, turn, zero)):
            w.store(total, self.result, w.whole(n * tile.lanes))

    def put(self, target: str, r: V, rows: V, c: V, columns: V, later: V) -> None:
        """Sums over the lanes into the result."""
        w, tile, kind = self.w, self.tile, self.kind

        def one(to: V, products: V) -> None:
            x, old = w.total(products), w.load(target, kind, to)
            w.store(select(later, x + old, x), target, to)

        def row(i: V) -> None:
            to = (r + i) * self.word.k + c
            of = i * (tile.vectors * tile.lanes)

            def read(j: V) -> V:
                return w.load(self.result, kind, of + j * tile.lanes, tile.lanes)

            def whole() -> None:
                few = tile.vectors % tile.lanes
                for start in range(0, tile.vectors - few, tile.lanes):
                    some = [read(w.whole(start + j)) for j in range(tile.lanes)]
                    x, old = w.totals(some), w.load(target, kind, to + start, tile.lanes)
                    chosen = select(w.code.splat(later, tile.lanes), x + old, x)
                    w.store(chosen, target, to + start)
                for j in range(tile.vectors - few, tile.vectors):
                    one(to + j, read(w.whole(j)))

            def edge() -> None:
                w.loop(0, columns - c, lambda j: one(to + j, read(j)))

            w.either(c + tile.vectors <= columns, whole, edge)

        w.loop(0, rows, row)


def filters_text(name: str, kind: str) -> Text:
    """The kernel of Note [filters]."""
    return FiltersKernel(kind).text(name)
