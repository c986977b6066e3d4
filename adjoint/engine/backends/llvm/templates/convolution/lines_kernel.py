"""Sums over windows along whole lines of the result, for groups of few output channels.

Note [lines]
    Where a line of the result is at least a vector long, positions need no table: a line is so many
    runs of vectors, of which the last overlaps the one before where they do not fill it. Runs of
    several lines are summed at once, by taps whose weight is read once for all of them. Each
    element has the sum that the kernel of positions would give it. Elements of a line that are no
    neighbours, as those of one phase (Note [phases]), are stored one by one.

    Every second element of the input is two loads that end with the last one, and a choice of
    lanes: nothing beyond the input is read. Where some lanes of a vector can be read and written by
    themselves, lines that are shorter than one are done so too.
"""

from __future__ import annotations

from adjoint.engine.backends.llvm.ir.masked import scatter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.convolution.narrow_kernel import CHUNK, Narrow
from adjoint.engine.backends.llvm.templates.convolution.walks import PositionWalk
from adjoint.engine.backends.llvm.templates.product import tiles
from adjoint.engine.backends.registers.vector import V, mad, width

ACROSS = 4  # vectors of one line that are summed at once, where there are lines enough
TALL = (1, 2, 3, 4, 6, 8, 12, 16)  # lines, likewise: a kernel for each number would be many
STEPS = (1, 2)  # of a position in the input
PIECE = 512  # positions of a piece, about


def vectors_together() -> int:
    """Vectors that are summed at once: half of the registers hold their sums."""
    return tiles.registers()[1] // 2


def vectors_across(kind: str, wide: int, count: int) -> int:
    """Vectors of a run: not more than a line has, and as many as leave the fewest to do twice.

    Where there are few lines, runs are longer.
    """
    lanes = tiles.outer_tile(kind).lanes
    most = min(max(ACROSS, vectors_together() // max(count, 1)), max(wide // lanes, 1))
    return min(range(most, 0, -1), key=lambda across: -(-wide // (across * lanes)) * across)


def lines_together(across: int, count: int) -> int:
    """Lines that are summed at once, of so many: as many as leave the fewest to do twice."""
    most = vectors_together() // across
    return min(
        (tall for tall in TALL if tall <= most), key=lambda tall: (-(-count // tall) * tall, -tall)
    )


def lines_of_piece(wide: int, tall: int) -> int:
    """Lines of a piece: a multiple of those that are summed at once."""
    return min(-(-PIECE // wide // tall), CHUNK // tall) * tall


class LineSums(Narrow):
    """Writes the kernel of Note [lines]; `positions` and `part` of its words count lines.

    Without weights they are all 1.
    """

    def __init__(
        self, kind: str, weighted: bool, size: tuple[int, int], step: int, near: bool, short: bool
    ) -> None:
        super().__init__(kind)
        self.weighted, self.step, self.near_results, self.short = weighted, step, near, short
        self.tall, self.across = size
        word = self.word
        steps = word.source_steps[:-1], word.other_steps[:-1]
        self.walk = PositionWalk(self.w, word.sizes[:-1], steps)

    def text(self, name: str) -> Text:
        w, word = self.w, self.word

        def piece(p: V) -> None:
            chunk, part = w.split(p, word.group_parts)
            first = chunk * word.part
            count = w.least(word.positions - first, word.part)
            self.walk.fill((self.places, self.outs), first, count, word.positions)
            self.channels(part, lambda x, by, to: self.plane(x, by, to, count))

        w.pieces(word.pieces, piece)
        return w.finish(name)

    def plane(self, source: str, weights: str, target: str, count: V) -> None:
        """The lines of a piece, of one output channel."""
        w, word, lanes = self.w, self.word, self.lanes
        wide = word.sizes[-1]

        def lines(line: V) -> None:
            # The last are done with some before them, which gives these the same sums again.
            numbers = [w.least(line + n, count - 1) for n in range(self.tall)]
            begins, ends = (
                [w.load(table, "i64", number) for number in numbers]
                for table in (self.places, self.outs)
            )

            def run(x: V) -> None:
                at = w.whole(0) if self.short else w.least(x, wide - self.across * lanes)
                places = [w.at(source, self.kind, begin + at * self.step) for begin in begins]
                for place in places:  # planes are short: the next is asked for while this is read
                    w.prefetch(w.at(place, self.kind, word.group_source), 0)
                sums = iter(self.sums(places, weights))
                for end in ends:
                    for n in range(self.across):
                        self.put(next(sums), target, end, at + n * lanes)

            w.loop(0, wide, run, step=self.across * lanes)

        w.loop(0, count, lines, step=self.tall)

    def put(self, sums: V, target: str, end: V, at: V) -> None:
        """A vector of a line, from its element `at` on."""
        w, step = self.w, self.word.other_steps[-1]
        if self.short:
            some = w.lanes_below(self.word.sizes[-1], self.lanes)
            if self.near_results:
                w.store_some(some, sums, target, end)
                return
            line = w.at(target, self.kind, end)
            places = w.code.iota("i64", self.lanes) * w.code.splat(step, self.lanes)
            scatter(some, sums, line, places * (width(self.kind) // 8))
            return
        if self.near_results:
            w.store(sums, target, end + at)
            return
        for lane in range(self.lanes):
            w.store(w.lane(sums, lane), target, end + (at + lane) * step)

    def sums(self, places: list[str], weights: str) -> list[V]:
        """The sums over all taps of the runs at some places."""
        w, lanes = self.w, self.lanes

        def term(k: V, *sums: V) -> list[V]:
            tap = w.load(self.taps, "i64", k * 2 + 1) * (width(self.kind) // 8)
            read = [x for place in places for x in self.run_at(w.behind(place, tap))]
            if not self.weighted:
                return [x + total for x, total in zip(read, sums, strict=True)]
            one = w.load(weights, self.kind, w.load(self.taps, "i64", k * 2))
            weight = w.code.splat(one, lanes)
            return [mad(x, weight, total) for x, total in zip(read, sums, strict=True)]

        zero = w.code.const(0, self.kind, lanes)
        return w.loop(0, self.word.k, term, [zero] * (len(places) * self.across))

    def run_at(self, place: str) -> list[V]:
        """Vectors of the input, of elements that are `step` apart."""
        w, lanes = self.w, self.lanes

        def load(start: int) -> V:
            if not self.short:
                return w.load(place, self.kind, w.whole(start), lanes)
            last = (self.word.sizes[-1] - 1) * self.step
            some = w.lanes_below(last + (1 - start), lanes)
            return w.load_some(some, self.kind, place, w.whole(start))

        starts = [n * lanes * self.step for n in range(self.across)]
        if self.step == 1:
            return [load(start) for start in starts]
        chosen = [n if n < lanes else n + 1 for n in range(0, 2 * lanes, 2)]
        return [w.pick(load(start), load(start + lanes - 1), chosen) for start in starts]


def line_sums_text(
    name: str,
    kind: str,
    weighted: bool,
    size: tuple[int, int],
    step: int,
    near: bool,
    short: bool = False,
) -> Text:
    """The kernel of Note [lines]; so many lines and vectors of each are summed at once."""
    return LineSums(kind, weighted, size, step, near, short).text(name)
