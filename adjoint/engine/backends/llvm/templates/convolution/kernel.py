"""The kernels of convolutions: implicit matrix products over packed panels.

Note [implicit product]
    out[m, p] = sum over k of w[m, k] x[place[p] + tap[k]]

    for output channels m, positions p (Note [walks]) and k = (channel, tap). Weights are copied
    once into rows of one output channel each; a piece of work packs the columns of some positions
    into panels of `columns` of them, as much of k at a time as stays in the cache, and multiplies
    all panels by the microkernel of Note [tiles]. Taps are offsets (in bytes) in a table, so
    strides, dilations and the phases of transposed convolutions are all the same to the kernel.
    Sizes are words: the code is one for all convolutions of a dtype.
"""

from __future__ import annotations

from collections.abc import Callable

from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.convolution.walks import RANK, PositionWalk
from adjoint.engine.backends.llvm.templates.product.tiles import multiply, outer_tile
from adjoint.engine.backends.registers.vector import V, select, width

PANELS = 3  # of columns in a piece
AHEAD = 128  # bytes of a row of the input asked for before they are needed
DEPTH = 256  # of k packed at a time


def piece_columns(kind: str) -> int:
    """Positions in a piece of work."""
    return outer_tile(kind).columns * PANELS


# -- weights into rows ------------------------------------------------------------------------

(
    W_FROM, W_TO, W_TABLE, W_M, W_C, W_T, W_GROUPS, W_STEP_M, W_STEP_C, W_STEP_GROUP,
    W_CHANNEL, W_TAPS,
) = range(12)  # fmt: skip


def weights_text(name: str, kind: str) -> Text:
    """Rows [group][m][k] of weights; the table of taps.

    After the words named above come, for each tap, its offset in the weights and in the input.
    """
    w = CodeWriter()
    word = w.words(W_TAPS)
    source, target, table = (w.pointer(word[k]) for k in (W_FROM, W_TO, W_TABLE))
    taps = w.at("%args", "i64", w.whole(W_TAPS))
    depth = word[W_C] * word[W_T]
    low, high = w.share(word[W_M] * word[W_GROUPS])

    def row(number: V) -> None:
        group, m = w.split(number, word[W_M])
        base = group * word[W_STEP_GROUP] + m * word[W_STEP_M]

        def channel(c: V) -> None:
            here = base + c * word[W_STEP_C]
            to = w.at(target, kind, number * depth + c * word[W_T])

            def tap(t: V) -> None:
                w.store(w.load(source, kind, here + w.load(taps, "i64", t * 2)), to, t)

            w.loop(0, word[W_T], tap)

        w.loop(0, word[W_C], channel)

    w.loop(low, high, row)

    def offsets() -> None:
        def channel(c: V) -> None:
            def tap(t: V) -> None:
                offset = c * word[W_CHANNEL] + w.load(taps, "i64", t * 2 + 1)
                w.store(offset * (width(kind) // 8), table, c * word[W_T] + t)

            w.loop(0, word[W_T], tap)

        w.loop(0, word[W_C], channel)

    w.when(w.code.value("%worker", "i64", 1).eq(0), offsets)
    return w.finish(name)


# -- zeros around the input ---------------------------------------------------------------------

(P_FROM, P_TO, P_CHANNELS, P_PLANES) = range(4)
P_SIZES = 4  # the padded sizes, then the source's, then where the source begins: RANK each
P_STRIDES = P_SIZES + 3 * RANK  # of the source: example, channel, coordinates
P_WORDS = P_STRIDES + 2 + RANK
PAD_LANES = 8


def pad_text(name: str, kind: str) -> Text:
    """The input with zeros around it, in row-major order; parts may also be cut off."""
    w = CodeWriter()
    word = w.words(P_WORDS)
    source, target = w.pointer(word[P_FROM]), w.pointer(word[P_TO])
    sizes, given, starts = (word[P_SIZES + RANK * i : P_SIZES + RANK * (i + 1)] for i in range(3))
    steps = word[P_STRIDES:]
    left = w.most(starts[2], 0)
    right = w.least(starts[2] + given[2], sizes[2])
    low, high = w.share(word[P_PLANES] * sizes[0])
    zero = {n: w.code.const(0, kind, n) for n in (1, PAD_LANES)}

    def run(start: V, stop: V, move: Callable[[V, int], None]) -> None:
        """Vectors while there are, then single elements."""
        whole = start + (stop - start).quotient(w.whole(PAD_LANES)) * PAD_LANES
        w.loop(start, w.most(whole, start), lambda x: move(x, PAD_LANES), step=PAD_LANES)
        w.loop(w.most(whole, start), stop, lambda x: move(x, 1))

    def plane(p: V) -> None:
        which, z = w.split(p, sizes[0])
        example, channel = w.split(which, word[P_CHANNELS])
        z_in = z - starts[0]
        base = example * steps[0] + channel * steps[1] + z_in * steps[2] - starts[2] * steps[4]
        deep = (z_in >= 0) & (z_in < given[0])

        def row(y: V) -> None:
            to = (p * sizes[1] + y) * sizes[2]
            y_in = y - starts[1]
            inside = deep & (y_in >= 0) & (y_in < given[1])
            at = base + y_in * steps[3]
            near = inside & steps[4].eq(1)

            def zeros(x: V, lanes: int) -> None:
                w.store(zero[lanes], target, to + x)

            def copy(x: V, lanes: int) -> None:
                w.store(w.load(source, kind, at + x, lanes), target, to + x)

            def single(x: V) -> None:
                w.store(w.load(source, kind, at + x * steps[4]), target, to + x)

            start = select(inside, left, sizes[2])
            run(w.whole(0), start, zeros)
            w.when(near, lambda: run(left, right, copy))
            w.when(inside & steps[4].ne(1), lambda: w.loop(left, right, single))
            w.when(inside, lambda: run(right, sizes[2], zeros))

        w.loop(0, sizes[1], row)

    w.loop(low, high, plane)
    return w.finish(name)


# -- the product --------------------------------------------------------------------------------

(
    C_FROM, C_WEIGHTS, C_TABLE, C_TO, C_M, C_K, C_POSITIONS, C_PIECES, C_ROWS, C_ROW_PARTS,
    C_COLUMN_PARTS, C_GROUP_FROM, C_GROUP_TO, C_CHANNEL_TO, C_BLOCK,
) = range(15)  # fmt: skip
C_SIZES = 15  # of the positions' coordinates
C_STEPS = C_SIZES + RANK  # in the input: example, coordinates; then in the result
C_WORDS = C_STEPS + 2 * (RANK + 1)


class ImplicitProductKernel:
    """Writes the kernel of Note [implicit product]."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.tile = outer_tile(kind)
        self.w = w = CodeWriter()
        self.word = w.words(C_WORDS)
        self.source, self.weights, self.taps, self.target = (
            w.pointer(self.word[k]) for k in (C_FROM, C_WEIGHTS, C_TABLE, C_TO)
        )
        width_ = piece_columns(kind)
        self.packed = w.reserve(kind, DEPTH * width_)
        self.result = w.reserve(kind, self.tile.rows * self.tile.columns)
        self.places, self.outs = w.reserve("i64", width_), w.reserve("i64", width_)
        vectors = width_ // self.tile.lanes
        self.near, self.near_outs = w.reserve("i64", vectors), w.reserve("i64", vectors)
        steps = self.word[C_STEPS:]
        self.walk = PositionWalk(
            w,
            self.word[C_SIZES : C_SIZES + RANK],
            (steps[: RANK + 1], steps[RANK + 1 :]),
        )

    def text(self, name: str) -> Text:
        low, high = self.w.share(self.word[C_PIECES])
        self.w.loop(low, high, self.piece)
        return self.w.finish(name)

    def piece(self, p: V) -> None:
        """Some positions, some output channels, one group."""
        w, word, tile = self.w, self.word, self.tile
        size = piece_columns(self.kind)
        group_part, part = w.split(p, word[C_COLUMN_PARTS])
        group, row_part = w.split(group_part, word[C_ROW_PARTS])
        first = part * size
        count = w.least(word[C_POSITIONS] - first, size)
        panels = (count + (tile.columns - 1)).quotient(w.whole(tile.columns))
        self.walk.fill((self.places, self.outs), first, panels * tile.columns, word[C_POSITIONS])
        vectors = panels * tile.vectors
        self.walk.flag(self.places, self.near, vectors, tile.lanes, vectors * tile.lanes)
        self.walk.flag(self.outs, self.near_outs, vectors, tile.lanes, count)
        source = w.at(self.source, self.kind, group * word[C_GROUP_FROM])
        target = w.at(self.target, self.kind, group * word[C_GROUP_TO])
        row = row_part * word[C_ROWS]
        stop = w.least(row + word[C_ROWS], word[C_M])
        weights = w.at(self.weights, self.kind, group * word[C_M] * word[C_K])

        def block(number: V) -> None:
            k = number * word[C_BLOCK]
            depth = w.least(word[C_K] - k, word[C_BLOCK])
            self.pack(source, panels, k, depth)

            def rows(m: V) -> None:
                mine = [
                    w.at(weights, self.kind, w.least(m + r, stop - 1) * word[C_K] + k)
                    for r in range(tile.rows)
                ]

                def columns(panel: V) -> None:
                    packed = w.at(self.packed, self.kind, panel * (DEPTH * tile.columns))
                    apart = w.whole(tile.columns)
                    sums = multiply(w, self.kind, tile, mine, packed, apart, depth)
                    self.put(sums, target, m, w.least(stop - m, tile.rows), panel, count, k)

                w.loop(0, panels, columns)

            w.loop(row, stop, rows, step=tile.rows)

        blocks = (word[C_K] + word[C_BLOCK] - 1).quotient(word[C_BLOCK])
        w.loop(0, w.most(blocks, 1), block)

    def pack(self, source: str, panels: V, k: V, depth: V) -> None:
        """The columns of a piece, for `depth` values of k: panels [k][columns]."""
        w, tile = self.w, self.tile

        def panel(p: V) -> None:
            first = p * tile.vectors
            to = w.at(self.packed, self.kind, p * (DEPTH * tile.columns))
            near = w.load(self.near, "i64", first)
            for v in range(1, tile.vectors):
                near = near & w.load(self.near, "i64", first + v)

            def vector(v: V) -> None:
                here = w.at(to, self.kind, v * tile.lanes)
                w.either(
                    w.load(self.near, "i64", first + v).ne(0),
                    lambda: self.pack_near(source, [first + v], here, k, depth),
                    lambda: self.pack_far(source, first + v, here, k, depth),
                )

            some = [first + v for v in range(tile.vectors)]
            w.either(
                near.ne(0),
                lambda: self.pack_near(source, some, to, k, depth),
                lambda: w.loop(0, w.whole(tile.vectors), vector),
            )

        w.loop(0, panels, panel)

    def pack_near(self, source: str, vectors: list[V], to: str, k: V, depth: V) -> None:
        """Vectors of a panel that are each of neighbours."""
        w, tile, kind = self.w, self.tile, self.kind
        places = [w.at(source, kind, w.load(self.places, "i64", v * tile.lanes)) for v in vectors]

        def turn(i: V) -> None:
            tap = w.load(self.taps, "i64", k + i)
            # There are too many rows of channels for the processor to see what comes next.
            w.prefetch(w.behind(places[0], tap), AHEAD)
            for n, place in enumerate(places):
                x = w.load(w.behind(place, tap), kind, w.whole(0), tile.lanes)
                w.store(x, to, i * tile.columns + n * tile.lanes)

        w.loop(0, depth, turn)

    def pack_far(self, source: str, vector: V, to: str, k: V, depth: V) -> None:
        """One vector of a panel, of elements from anywhere."""
        w, kind, lanes = self.w, self.kind, self.tile.lanes
        places = [
            w.at(source, kind, w.load(self.places, "i64", vector * lanes + lane))
            for lane in range(lanes)
        ]

        def turn(i: V) -> None:
            tap = w.load(self.taps, "i64", k + i)
            x = w.join([w.load(w.behind(p, tap), kind, w.whole(0)) for p in places])
            w.store(x, to, i * self.tile.columns)

        w.loop(0, depth, turn)

    def put(self, sums: list[V], target: str, m: V, rows: V, panel: V, count: V, k: V) -> None:
        """The tile into the result: in its place for the first k, added to it for later ones."""
        w, tile = self.w, self.tile
        whole = rows.eq(tile.rows)
        for v in range(tile.vectors):
            flag = w.load(self.near_outs, "i64", panel * tile.vectors + v)
            whole = whole & flag.ne(0)
        first = panel * tile.columns
        w.when(whole & k.eq(0), lambda: self.put_whole(sums, target, m, first, added=False))
        w.when(whole & k.ne(0), lambda: self.put_whole(sums, target, m, first, added=True))
        w.when(~whole, lambda: self.put_edge(sums, target, m, rows, panel, count, k))

    def put_whole(self, sums: list[V], target: str, m: V, j: V, added: bool) -> None:
        """A whole tile, its vectors each in one piece."""
        w, tile = self.w, self.tile
        starts = [w.load(self.outs, "i64", j + v * tile.lanes) for v in range(tile.vectors)]
        row = m * self.word[C_CHANNEL_TO]
        for r in range(tile.rows):
            for v, start in enumerate(starts):
                x, at = sums[r * tile.vectors + v], row + start
                old = w.load(target, self.kind, at, tile.lanes) if added else None
                w.store(x if old is None else x + old, target, at)
            row = row + self.word[C_CHANNEL_TO]

    def put_edge(self, sums: list[V], target: str, m: V, rows: V, panel: V, count: V, k: V) -> None:
        """A tile at an edge, or whose positions are scattered."""
        w, tile, kind = self.w, self.tile, self.kind
        later = k > 0
        for n, total in enumerate(sums):
            w.store(total, self.result, w.whole(n * tile.lanes))

        def vector(v: V) -> None:
            j = panel * tile.columns + v * tile.lanes

            def write(lane: V, lanes: int) -> None:
                at = w.load(self.outs, "i64", j + lane) + m * self.word[C_CHANNEL_TO]

                def row(r: V) -> None:
                    to = at + r * self.word[C_CHANNEL_TO]
                    place = r * tile.columns + v * tile.lanes + lane
                    x = w.load(self.result, kind, place, lanes)
                    old = w.load(target, kind, to, lanes)
                    w.store(select(later, x + old, x), target, to)

                w.loop(0, rows, row)

            w.either(
                w.load(self.near_outs, "i64", panel * tile.vectors + v).ne(0),
                lambda: write(w.whole(0), tile.lanes),
                lambda: w.loop(0, w.least(count - j, tile.lanes), lambda lane: write(lane, 1)),
            )

        w.loop(0, w.whole(tile.vectors), vector)


def product_text(name: str, kind: str) -> Text:
    """The kernel of Note [implicit product]; its words are named above."""
    return ImplicitProductKernel(kind).text(name)
