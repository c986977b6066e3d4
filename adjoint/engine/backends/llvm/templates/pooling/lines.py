"""Kernels along one dimension: elements put at indices, and weighted sums of a few elements.

A *line* is all elements that differ along that dimension alone; arrays are in row-major order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.faults import store_fault
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.registers.operations import combine
from adjoint.engine.backends.registers.vector import V, mad, select

LANES = 8
TOGETHER = 4  # vectors of weighted sums
PUT = "put"

# -- elements put or added at indices -----------------------------------------------------------


@dataclass(slots=True)
class ScatterWords(LaunchWords):
    """Each line's values put at indices into a line of `size`."""

    target: Any
    values: Any
    index: Any
    lines: Any
    inner: Any  # elements from one of a line to the next
    count: Any  # of values in a line
    size: Any
    status: Any
    fault: Any  # what it means that an index is out of bounds


def scatter_text(name: str, kind: str, how: str, cleared: bool) -> Text:
    """Each line's values put at indices into another line, in order, or combined with it.

    `how` is PUT or the name of a reduction.

    `cleared` lines are zeros to begin with; others are there already.
    """
    w = CodeWriter()
    word = ScatterWords.read_by(w)
    target, values, index = map(w.pointer, (word.target, word.values, word.index))
    inner, count, size = word.inner, word.count, word.size

    def line(n: V) -> None:
        outer, column = w.split(n, inner)
        to = outer * size * inner + column
        if cleared:
            clear(w, kind, target, to, size, inner)
        of = outer * count * inner + column

        def element(j: V) -> None:
            at = of + j * inner
            where = w.load(index, "i64", at)
            good = where.bitcast("u64") < size.bitcast("u64")

            def put() -> None:
                x = w.load(values, kind, at)
                place = to + where * inner
                if how != PUT:
                    x = combine(how, w.load(target, kind, place), x)
                w.store(x, target, place)

            def report() -> None:
                status = w.pointer(word.status)
                store_fault(w.code, status, word.fault.ref, at=where)

            w.either(good, put, report)

        w.loop(0, count, element)

    w.pieces(word.lines, line)
    return w.finish(name)


def clear(w: CodeWriter, kind: str, target: str, to: V, size: V, inner: V) -> None:
    """Zeros along a line."""
    near = inner.eq(1)
    whole = size.quotient(w.whole(LANES)) * LANES
    start = w.whole(0)

    def vectors() -> None:
        zero = w.code.const(0, kind, LANES)
        w.loop(0, whole, lambda i: w.store(zero, target, to + i), step=LANES)

    w.when(near, vectors)
    rest = w.code.value(
        w.code.let(f"select i1 {near.ref}, i64 {whole.ref}, i64 {start.ref}"), "i64", 1
    )
    w.loop(rest, size, lambda i: w.store(w.code.const(0, kind), target, to + i * inner))


# -- weighted sums ------------------------------------------------------------------------------


@dataclass(slots=True)
class ResampleWords(LaunchWords):
    """Lines of weighted sums; the table of terms follows."""

    source: Any
    target: Any
    outer: Any
    inner: Any
    source_size: Any  # of a line
    size: Any  # of a line of the result
    pieces: Any


def resample_text(name: str, kind: str, across: bool) -> Text:
    """Each element of a line a weighted sum of a few of another line's.

    After the words comes, for each element of the result, where its terms begin among
    the pairs that follow (and at the end their number), then the pairs: a place, and a weight as
    the bits of a double. Vectors run along what lies inside the lines, or (`across`) over several
    lines of neighbouring elements.
    """
    w = CodeWriter()
    word = ResampleWords.read_by(w)
    source, target = w.pointer(word.source), w.pointer(word.target)
    size, inner = word.size, word.inner
    rows = w.at("%args", "i64", w.whole(ResampleWords.word_count()))
    pairs = w.at(rows, "i64", size + 1)
    low, high = w.share(word.pieces)

    def totals(at: V, step: V, first: V, last: V, lanes: int, vectors: int = 1) -> list[V]:
        """Sums of terms; lanes are one element, or one line, apart, and vectors one another."""

        def term(t: V, *sums: V) -> list[V]:
            place = at + w.load(pairs, "i64", t * 2) * step
            weight = w.code.splat(w.load(pairs, "f64", t * 2 + 1).convert(kind), lanes)
            if across and lanes > 1:
                lines = [place + word.source_size * k for k in range(lanes)]
                loaded = [w.gather(source, kind, lines)]
            else:
                loaded = [w.load(source, kind, place + v * lanes, lanes) for v in range(vectors)]
            return [mad(x, weight, sum_) for x, sum_ in zip(loaded, sums, strict=True)]

        # From -0.0 on a sum of -0.0 is that too; a sum of nothing is 0.0.
        start = select(first.eq(last), w.code.const(0, kind), w.code.const(-0.0, kind))
        return w.loop(first, last, term, [w.code.splat(start, lanes)] * vectors)

    def bounds(o: V) -> tuple[V, V]:
        return w.load(rows, "i64", o), w.load(rows, "i64", o + 1)

    def along(p: V) -> None:
        line, o = w.split(p, size)
        first, last = bounds(o)
        of, to = line * word.source_size * inner, p * inner

        def some(i: V, lanes: int, vectors: int = 1) -> None:
            sums = totals(of + i, inner, first, last, lanes, vectors)
            for v, x in enumerate(sums):
                w.store(x, target, to + i + v * lanes)

        # Terms are few: what is done for each of them is done once for several vectors.
        several = LANES * TOGETHER
        wide = inner.quotient(w.whole(several)) * several
        whole = inner.quotient(w.whole(LANES)) * LANES
        w.loop(0, wide, lambda i: some(i, LANES, TOGETHER), step=several)
        w.loop(wide, whole, lambda i: some(i, LANES), step=LANES)
        w.loop(whole, inner, lambda i: some(i, 1))

    def lines(p: V) -> None:
        begin = p * LANES
        left = word.outer - begin

        def some(line: V, lanes: int) -> None:
            def element(o: V) -> None:
                first, last = bounds(o)
                (x,) = totals(line * word.source_size, w.whole(1), first, last, lanes)
                for k in range(lanes):
                    lane = w.lane(x, k) if lanes > 1 else x
                    w.store(lane, target, (line + k) * size + o)

            w.loop(0, size, element)

        w.either(
            left >= LANES,
            lambda: some(begin, LANES),
            lambda: w.loop(begin, word.outer, lambda n: some(n, 1)),
        )

    w.loop(low, high, lines if across else along)
    return w.finish(name)


# -- elements copied ------------------------------------------------------------------------------


@dataclass(slots=True)
class CopyWords(LaunchWords):
    """Lines made of elements of other lines, which they are: `count` numbers of lines follow."""

    source: Any
    target: Any
    source_size: Any  # of a line
    size: Any  # of a line of the result
    source_count: Any  # of lines, in each of several images
    count: Any  # of lines of the result
    runs: Any
    pieces: Any  # lines of the result


RUN = 5  # words of a run: where to, where from, step there, how many, whether they are added


def copy_text(name: str, kind: str, in_runs: bool) -> Text:
    """Each line the elements of another line (padding with what is inside, nearest pixels).

    After the numbers of lines come runs, `RUN` words of each, or for each element its place. Runs
    that are added come after those that are put where they are added to. A line that is the same
    as the one before it is a copy of that.
    """
    w = CodeWriter()
    word = CopyWords.read_by(w)
    source, target = w.pointer(word.source), w.pointer(word.target)
    numbers = w.at("%args", "i64", w.whole(CopyWords.word_count()))
    table = w.at(numbers, "i64", word.count)
    low, high = w.share(word.pieces)
    size = word.size

    def vectors(count: V, of: str, at: V, to: V) -> None:
        def put(i: V, lanes: int) -> None:
            w.store(w.load(of, kind, at + i, lanes), target, to + i)

        whole = count.quotient(w.whole(LANES)) * LANES
        w.loop(0, whole, lambda i: put(i, LANES), step=LANES)
        w.loop(whole, count, lambda i: put(i, 1))

    def run(r: V, at: V, to: V) -> None:
        shift, place, step, count, adds = [w.load(table, "i64", r * RUN + k) for k in range(RUN)]
        at, to = at + place, to + shift

        def put_singly() -> None:
            w.loop(0, count, lambda i: w.store(w.load(source, kind, at + i * step), target, to + i))

        def add(i: V) -> None:
            x = w.load(source, kind, at + i * step)
            w.store(w.load(target, kind, to + i) + x, target, to + i)

        w.either(
            adds.eq(1),
            lambda: w.loop(0, count, add),
            lambda: w.either(step.eq(1), lambda: vectors(count, source, at, to), put_singly),
        )

    def line(n: V) -> None:
        image, o = w.split(n, word.count)
        mine = w.load(numbers, "i64", o)
        at, to = (image * word.source_count + mine) * word.source_size, n * size
        again = (n > low) & (o > 0) & mine.eq(w.load(numbers, "i64", o - (o > 0).convert("i64")))

        def anew() -> None:
            if in_runs:
                w.loop(0, word.runs, lambda r: run(r, at, to))
                return

            def element(i: V) -> None:
                w.store(w.load(source, kind, at + w.load(table, "i64", i)), target, to + i)

            w.loop(0, size, element)

        w.either(again, lambda: vectors(size, target, to - size, to), anew)

    w.loop(low, high, line)
    return w.finish(name)
