"""Lines of a tensor: what is read of them and written to them, one in each lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.templates.spectra.stages import Pair
from adjoint.engine.backends.registers.vector import V

if TYPE_CHECKING:
    from adjoint.engine.backends.llvm.templates.spectra.kernel import Spectrum, SpectrumWords

Taker = Callable[[V, Pair], None]
Maker = Callable[[V], Pair]


class Lines:
    """As many lines as there are lanes, from the first on.

    Where the elements of a line are neighbours, a vector holds several of one line; as many vectors
    as lanes are transposed. Where the lines are neighbours, a vector holds an element of each.
    """

    def __init__(
        self, w: CodeWriter, what: Spectrum, word: SpectrumWords, first: V, lanes: int
    ) -> None:
        self.w, self.kind, self.word, self.first, self.lanes = w, what.kind, word, first, lanes
        self.near, self.in_one = what.near, what.in_one and not what.near
        self.after = word.after
        self.source, self.target = w.pointer(word.source), w.pointer(word.out)

    def turned(self) -> None:
        """From here on lines are neighbours: they are written as the columns of a sheet."""
        self.near, self.in_one, self.after = True, False, self.word.across

    def bases(self, count: V) -> list[V]:
        """Where the lines begin; of those that are neighbours, the first one."""
        starts = []
        for lane in range(1 if self.near else self.lanes):
            before, after = self.w.split(self.first + lane, self.after)
            starts.append(before * count * self.after + after)
        return starts

    # -- reading --------------------------------------------------------------------------------

    def each(self, take: Taker, *, reals: bool) -> None:
        """`take` an index and a number, all of those that there are to read."""
        bases, count = self.bases(self.word.read), self.word.read
        after = self.after
        if reals:
            zero = self.w.code.const(0, self.kind, self.lanes)
            one = lambda k: take(k, (self.reals([b + k * after for b in bases]), zero))
            self.w.loop(0, count, one)
        else:
            single = lambda k: take(k, self.pair([(b + k * after) * 2 for b in bases]))
            self.by_vectors(count, bases, single, lambda starts, k: self.square(starts, k, take), 2)

    def each_two(self, take: Taker) -> None:
        """The same of reals, two neighbours as a number."""
        bases, half, after = self.bases(self.word.read), self.word.padded, self.after

        def one(k: V) -> None:
            x, y = (self.reals([b + (k * 2 + part) * after for b in bases]) for part in (0, 1))
            take(k, (x, y))

        self.by_vectors(half, bases, one, lambda starts, k: self.square(starts, k, take), 1)

    def by_vectors(
        self,
        count: V,
        bases: list[V],
        single: Callable[[V], Any],
        several: Callable[[list[V], V], None],
        pitch: int,
    ) -> None:
        """A loop over numbers, as many at once as a vector has, where a line's are neighbours."""
        w, step = self.w, self.lanes // 2
        if not self.in_one or step < 1:
            w.loop(0, count, single)
            return
        starts = [b * pitch for b in bases]
        whole = count - count.modulo(step) if step > 1 else count
        w.loop(0, whole, lambda k: several(starts, k), step=step)
        if step > 1:
            w.loop(whole, count, single)

    def square(self, starts: list[V], k: V, take: Taker) -> None:
        """As many numbers of each line as a vector holds."""
        rows = [self.w.load(self.source, self.kind, s + k * 2, self.lanes) for s in starts]
        columns = self.w.transposed(rows)
        for j in range(self.lanes // 2):
            take(k + j, (columns[2 * j], columns[2 * j + 1]))

    def reals(self, at: list[V]) -> V:
        """Single elements, a lane each."""
        if self.near:
            return self.w.load(self.source, self.kind, at[0], self.lanes)
        return self.w.gather(self.source, self.kind, at)

    def pair(self, at: list[V]) -> Pair:
        """Numbers that begin at elements, a lane each."""
        w, lanes = self.w, self.lanes
        if self.near and lanes > 1:
            first, second = (w.load(self.source, self.kind, at[0] + k, lanes) for k in (0, lanes))
            x, y = (w.pick(first, second, range(k, 2 * lanes, 2)) for k in (0, 1))
        else:
            x, y = (w.gather(self.source, self.kind, [n + k for n in at]) for k in (0, 1))
        return x, y

    # -- writing --------------------------------------------------------------------------------

    def fill(self, make: Maker, *, reals: bool) -> None:
        """Write what is made for each index; of reals, the first part."""
        bases, count = self.bases(self.word.written), self.word.written
        after = self.after
        if reals:
            one = lambda k: self.put_reals(make(k)[0], [b + k * after for b in bases])
            self.w.loop(0, count, one)
        else:
            single = lambda k: self.put_pair(make(k), [(b + k * after) * 2 for b in bases])
            self.by_vectors(count, bases, single, lambda starts, k: self.rows(starts, k, make), 2)

    def fill_two(self, make: Maker) -> None:
        """The same of numbers whose parts are neighbours among reals."""
        bases, half, after = self.bases(self.word.written), self.word.padded, self.after

        def one(k: V) -> None:
            for part, value in enumerate(make(k)):
                self.put_reals(value, [b + (k * 2 + part) * after for b in bases])

        self.by_vectors(half, bases, one, lambda starts, k: self.rows(starts, k, make), 1)

    def rows(self, starts: list[V], k: V, make: Maker) -> None:
        """As many numbers of each line as a vector holds."""
        columns = [part for j in range(self.lanes // 2) for part in make(k + j)]
        for start, row in zip(starts, self.w.transposed(columns), strict=True):
            self.w.store(row, self.target, start + k * 2)

    def put_reals(self, value: V, at: list[V]) -> None:
        """Single elements, of each lane one."""
        if self.near or self.lanes == 1:
            self.w.store(value, self.target, at[0])
            return
        for lane, place in enumerate(at):
            self.w.store(self.w.lane(value, lane), self.target, place)

    def put_pair(self, value: Pair, at: list[V]) -> None:
        """Numbers that begin at elements, of each lane one."""
        w, lanes = self.w, self.lanes
        if self.near and lanes > 1:
            turns = [lane // 2 + lanes * (lane % 2) for lane in range(2 * lanes)]
            for k in (0, lanes):
                w.store(w.pick(value[0], value[1], turns[k : k + lanes]), self.target, at[0] + k)
            return
        for part, vector in enumerate(value):
            for lane, place in enumerate(at):
                one = vector if lanes == 1 else w.lane(vector, lane)
                w.store(one, self.target, place + part)
