"""Convolutions with few output channels in a group (depthwise ones): sums without panels.

With one output channel a packed column would be used once. So positions lie along the lanes, taps
are read where they lie, and a piece of work takes the same positions (Note [walks]) of several
groups, so that their table is made once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords, several
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.convolution.walks import RANK, PositionWalk
from adjoint.engine.backends.llvm.templates.product.tiles import outer_tile
from adjoint.engine.backends.registers.vector import V, mad, select

CHUNK = 256  # positions in a piece
WIDE = 4  # registers at a time where positions are neighbours
COLUMNS = 6  # taps at a time of a gradient by the weights


@dataclass(slots=True)
class NarrowWords(LaunchWords):
    """For each k its offset in the weights and in the input follow."""

    source: Any
    other: Any  # the weights, or the gradient
    target: Any
    m: Any
    k: Any
    positions: Any
    part: Any  # positions of a piece
    pieces: Any
    groups: Any
    group_block: Any  # groups of a piece
    group_parts: Any
    group_source: Any  # from one group to the next
    group_other: Any
    row_other: Any
    group_target: Any
    row_target: Any
    sizes: Sequence[Any] = field(metadata=several(RANK))  # of the positions' coordinates
    # In the input: example, coordinates.
    source_steps: Sequence[Any] = field(metadata=several(RANK + 1))
    other_steps: Sequence[Any] = field(metadata=several(RANK + 1))  # in the result or gradient


class Narrow:
    """What both kernels share: tables of a chunk of positions."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.w = w = CodeWriter()
        self.lanes = outer_tile(kind).lanes
        self.word = word = NarrowWords.read_by(w)
        self.source, self.other, self.target = map(
            w.pointer, (word.source, word.other, word.target)
        )
        self.taps = w.at("%args", "i64", w.whole(NarrowWords.word_count()))
        self.places, self.outs = w.reserve("i64", CHUNK), w.reserve("i64", CHUNK)
        self.near, self.near_outs = w.reserve("i64", CHUNK), w.reserve("i64", CHUNK)
        self.walk = PositionWalk(w, word.sizes, (word.source_steps, word.other_steps))

    def tables(self, first: V, count: V, end: V) -> V:
        """Where positions are, and which vectors are neighbours; the number of vectors."""
        w = self.w
        vectors = (count + (self.lanes - 1)).quotient(w.whole(self.lanes))
        self.walk.fill((self.places, self.outs), first, vectors * self.lanes, end)
        self.walk.flag(self.places, self.near, vectors, self.lanes, count)
        self.walk.flag(self.outs, self.near_outs, vectors, self.lanes, count)
        return vectors

    def groups(self, part: V) -> tuple[V, V]:
        """The groups of a piece."""
        first = part * self.word.group_block
        return first, self.w.least(first + self.word.group_block, self.word.groups)

    def channels(self, part: V, body: Callable[[str, str, str], None]) -> None:
        """Do body(source, weights, target) for each output channel of a piece's groups."""
        w, word = self.w, self.word

        def group(g: V) -> None:
            source = w.at(self.source, self.kind, g * word.group_source)

            def row(m: V) -> None:
                to = g * word.group_target + m * word.row_target
                target = w.at(self.target, self.kind, to)
                of = g * word.group_other + m * word.row_other
                body(source, w.at(self.other, self.kind, of), target)

            w.loop(0, word.m, row)

        w.loop(*self.groups(part), group)

    def read(self, base: str, table: str, v: V, at: V, near: bool) -> V:
        """A vector of positions, from `at` in an array."""
        w, j = self.w, v * self.lanes
        if near:
            return w.load(base, self.kind, w.load(table, "i64", j) + at, self.lanes)
        places = [w.load(table, "i64", j + lane) + at for lane in range(self.lanes)]
        return w.gather(base, self.kind, places)


class Sums(Narrow):
    """out[m, p] = sum over k of w[m, k] x[place[p] + tap[k]]; `other` is the weights.

    Without weights they are all 1.
    """

    def __init__(self, kind: str, weighted: bool) -> None:
        super().__init__(kind)
        self.weighted = weighted

    def text(self, name: str) -> Text:
        w, word = self.w, self.word

        def piece(p: V) -> None:
            chunk, part = w.split(p, word.group_parts)
            first = chunk * CHUNK
            count = w.least(word.positions - first, CHUNK)
            vectors = self.tables(first, count, word.positions)
            self.flag_runs(vectors)

            self.channels(part, lambda x, by, to: self.row(x, by, to, vectors, count))

        w.pieces(word.pieces, piece)
        return w.finish(name)

    def flag_runs(self, vectors: V) -> None:
        """Which runs of WIDE vectors are all neighbours, in the input and in the result."""
        w = self.w
        self.runs = w.reserve("i64", CHUNK)

        def run(r: V) -> None:
            v = r * WIDE
            good = v + WIDE <= vectors
            for k in range(WIDE):
                at = w.least(v + k, vectors - 1)
                for flags in (self.near, self.near_outs):
                    good = good & w.load(flags, "i64", at).ne(0)
            w.store(good.convert("i64"), self.runs, r)

        w.loop(0, (vectors + (WIDE - 1)).quotient(w.whole(WIDE)), run)

    def row(self, source: str, weights: str, target: str, vectors: V, count: V) -> None:
        """One output channel at the positions of a piece."""
        w = self.w

        def run(r: V) -> None:
            v = r * WIDE

            def wide() -> None:
                some = [v + k for k in range(WIDE)]
                starts = [w.load(self.outs, "i64", n * self.lanes) for n in some]
                for x, to in zip(self.totals(source, weights, some, True), starts, strict=True):
                    w.store(x, target, to)

            def each() -> None:
                stop = w.least(v + WIDE, vectors)
                w.loop(v, stop, lambda n: self.vector(source, weights, target, n, count))

            w.either(w.load(self.runs, "i64", r).ne(0), wide, each)

        w.loop(0, (vectors + (WIDE - 1)).quotient(w.whole(WIDE)), run)

    def vector(self, source: str, weights: str, target: str, v: V, count: V) -> None:
        """One vector of positions, wherever they are."""
        w, lanes = self.w, self.lanes

        (x,) = w.choose(
            w.load(self.near, "i64", v).ne(0),
            lambda: self.totals(source, weights, [v], True),
            lambda: self.totals(source, weights, [v], False),
        )

        def put() -> None:
            for lane in range(lanes):
                inside = v * lanes + lane < count
                at = w.load(self.outs, "i64", v * lanes + lane)
                one = w.lane(x, lane)
                w.when(inside, lambda one=one, at=at: w.store(one, target, at))  # type: ignore[misc]

        w.either(
            w.load(self.near_outs, "i64", v).ne(0),
            lambda: w.store(x, target, w.load(self.outs, "i64", v * lanes)),
            put,
        )

    def totals(self, source: str, weights: str, vectors: list[V], near: bool) -> list[V]:
        """The sums over k at some vectors of positions."""
        w, lanes = self.w, self.lanes
        count = 1 if near else lanes
        places = [
            [w.load(self.places, "i64", v * lanes + lane) for lane in range(count)] for v in vectors
        ]

        def read(at: list[V], tap: V) -> V:
            if near:
                return w.load(source, self.kind, at[0] + tap, lanes)
            return w.gather(source, self.kind, [p + tap for p in at])

        def term(k: V, *sums: V) -> list[V]:
            tap = w.load(self.taps, "i64", k * 2 + 1)
            if not self.weighted:
                return [read(at, tap) + x for at, x in zip(places, sums, strict=True)]
            one = w.load(weights, self.kind, w.load(self.taps, "i64", k * 2))
            weight = w.code.splat(one, lanes)
            return [mad(read(at, tap), weight, x) for at, x in zip(places, sums, strict=True)]

        zero = w.code.const(0, self.kind, lanes)
        return w.loop(0, self.word.k, term, [zero] * len(vectors))


class NarrowFilters(Narrow):
    """dw[m, k] = sum over p of g[m, at[p]] x[place[p] + tap[k]]; results [part][group][m][k].

    `other` is the gradient.
    """

    def text(self, name: str) -> Text:
        w, word = self.w, self.word

        def piece(p: V) -> None:
            part, groups = w.split(p, word.group_parts)
            begin = part * word.part
            end = w.least(begin + word.part, word.positions)

            def chunk(first: V) -> None:
                count = w.least(end - first, CHUNK)
                vectors = self.tables(first, count, end)

                def group(g: V) -> None:
                    source = w.at(self.source, self.kind, g * word.group_source)

                    def row(m: V) -> None:
                        of = g * word.group_other + m * word.row_other
                        gradient = w.at(self.other, self.kind, of)
                        to = ((part * word.groups + g) * word.m + m) * word.k
                        target = w.at(self.target, self.kind, to)
                        self.row(source, gradient, target, vectors, count, first > begin)

                    w.loop(0, word.m, row)

                w.loop(*self.groups(groups), group)

            w.loop(begin, end, chunk, step=CHUNK)

        w.pieces(word.pieces, piece)
        return w.finish(name)

    def row(self, source: str, gradient: str, target: str, vectors: V, count: V, later: V) -> None:
        """The taps of one output channel, over the positions of a chunk."""
        w, lanes, kind = self.w, self.lanes, self.kind

        def columns(k: V) -> None:
            last = self.word.k - 1
            taps = [w.load(self.taps, "i64", w.least(k + j, last) * 2 + 1) for j in range(COLUMNS)]

            def vector(v: V, *sums: V) -> list[V]:
                both = w.load(self.near, "i64", v) & w.load(self.near_outs, "i64", v)
                numbers = w.code.splat(v * lanes, lanes) + w.code.iota("i64", lanes)
                inside = numbers < w.code.splat(count, lanes)
                return w.choose(
                    both.ne(0),
                    lambda: self.add(gradient, source, taps, v, list(sums), None),
                    lambda: self.add(gradient, source, taps, v, list(sums), inside),
                )

            zero = [w.code.const(0, kind, lanes)] * COLUMNS
            for j, sums in enumerate(w.loop(0, vectors, vector, zero)):
                self.put(sums, target, k + j, later)

        w.loop(0, self.word.k, columns, step=COLUMNS)

    def put(self, sums: V, target: str, k: V, later: V) -> None:
        """The sum over the lanes into the result."""
        w = self.w

        def store() -> None:
            x, old = w.total(sums), w.load(target, self.kind, k)
            w.store(select(later, x + old, x), target, k)

        w.when(k < self.word.k, store)

    def add(
        self, gradient: str, source: str, taps: list[V], v: V, sums: list[V], inside: V | None
    ) -> list[V]:
        """The sums of all columns with one more vector of positions."""

        def read(base: str, table: str, at: V) -> V:
            x = self.read(base, table, v, at, near=inside is None)
            return x if inside is None else select(inside, x, 0)

        g = read(gradient, self.outs, self.w.whole(0))
        return [
            mad(read(source, self.places, tap), g, sum_)
            for tap, sum_ in zip(taps, sums, strict=True)
        ]


def sums_text(name: str, kind: str, weighted: bool = True) -> Text:
    """The kernel of convolutions with few output channels in a group."""
    return Sums(kind, weighted).text(name)


def filters_text(name: str, kind: str) -> Text:
    """The kernel of their gradients by the weights."""
    return NarrowFilters(kind).text(name)
