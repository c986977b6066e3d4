"""Kernels along one dimension: elements put at indices, and weighted sums of a few elements.

A *line* is all elements that differ along that dimension alone; arrays are in row-major order.
"""

from __future__ import annotations

from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.faults import store_fault
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.registers.operations import combine
from adjoint.engine.backends.registers.vector import V, mad

LANES = 8
PUT = "put"

# -- elements put or added at indices -----------------------------------------------------------

(
    S_TO, S_VALUES, S_INDEX, S_LINES, S_INNER, S_COUNT, S_SIZE, S_STATUS, S_FAULT, S_WORDS,
) = range(10)  # fmt: skip


def scatter_text(name: str, kind: str, how: str, cleared: bool) -> Text:
    """Each line's values put at indices into a line of SIZE, in order, or combined with it.

    `how` is PUT or the name of a reduction.

    `cleared` lines are zeros to begin with; others are there already. INNER is the number of
    elements from one of a line to the next.
    """
    w = CodeWriter()
    word = w.words(S_WORDS)
    target, values, index = (w.pointer(word[k]) for k in (S_TO, S_VALUES, S_INDEX))
    inner, count, size = word[S_INNER], word[S_COUNT], word[S_SIZE]
    low, high = w.share(word[S_LINES])

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
                status = w.pointer(word[S_STATUS])
                store_fault(w.code, status, word[S_FAULT].ref, at=where)

            w.either(good, put, report)

        w.loop(0, count, element)

    w.loop(low, high, line)
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

(R_FROM, R_TO, R_OUTER, R_INNER, R_SOURCE, R_SIZE, R_PIECES, R_TABLE) = range(8)


def resample_text(name: str, kind: str, across: bool) -> Text:
    """Each element of a line a weighted sum of a few of another line's.

    After the words named above comes, for each element of the result, where its terms begin among
    the pairs that follow (and at the end their number), then the pairs: a place, and a weight as
    the bits of a double. Vectors run along what lies inside the lines, or (`across`) over several
    lines of neighbouring elements.
    """
    w = CodeWriter()
    word = w.words(R_TABLE)
    source, target = w.pointer(word[R_FROM]), w.pointer(word[R_TO])
    size, inner = word[R_SIZE], word[R_INNER]
    rows = w.at("%args", "i64", w.whole(R_TABLE))
    pairs = w.at(rows, "i64", size + 1)
    low, high = w.share(word[R_PIECES])

    def total(at: V, step: V, first: V, last: V, lanes: int) -> V:
        """The sum of terms; lanes are one element, or one line, apart."""

        def term(t: V, sum_: V) -> list[V]:
            place = at + w.load(pairs, "i64", t * 2) * step
            weight = w.load(pairs, "f64", t * 2 + 1).convert(kind)
            if across and lanes > 1:
                x = w.gather(source, kind, [place + word[R_SOURCE] * k for k in range(lanes)])
            else:
                x = w.load(source, kind, place, lanes)
            return [mad(x, w.code.splat(weight, lanes), sum_)]

        return w.loop(first, last, term, [w.code.const(0, kind, lanes)])[0]

    def bounds(o: V) -> tuple[V, V]:
        return w.load(rows, "i64", o), w.load(rows, "i64", o + 1)

    def along(p: V) -> None:
        line, o = w.split(p, size)
        first, last = bounds(o)
        of, to = line * word[R_SOURCE] * inner, p * inner
        whole = inner.quotient(w.whole(LANES)) * LANES

        def some(i: V, lanes: int) -> None:
            w.store(total(of + i, inner, first, last, lanes), target, to + i)

        w.loop(0, whole, lambda i: some(i, LANES), step=LANES)
        w.loop(whole, inner, lambda i: some(i, 1))

    def lines(p: V) -> None:
        begin = p * LANES
        left = word[R_OUTER] - begin

        def some(line: V, lanes: int) -> None:
            def element(o: V) -> None:
                first, last = bounds(o)
                x = total(line * word[R_SOURCE], w.whole(1), first, last, lanes)
                for k in range(lanes):
                    lane = w.lane(x, k) if lanes > 1 else x
                    w.store(lane, target, (line + k) * size + o)

            w.loop(0, size, element)

        w.either(
            left >= LANES,
            lambda: some(begin, LANES),
            lambda: w.loop(begin, word[R_OUTER], lambda n: some(n, 1)),
        )

    w.loop(low, high, lines if across else along)
    return w.finish(name)
