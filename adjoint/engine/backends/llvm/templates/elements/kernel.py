"""The kernel of functions that are computed one element after another, each in its own time.

Note [elements by themselves]
    Loops of fused operations do the same for all elements of a vector. A draw that may be rejected
    or a recurrence up to a degree of its own takes as many turns as it takes: these functions are
    computed in float64, one element or a few at a time, and elements are dealt out among workers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.faults import store_fault
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.registers.vector import V

LANES = 8  # of attempts
CHUNK = 1024  # elements whose first attempts are made before those that are left
PASSES = 4  # of further attempts
# Values and where they are those of the draw, of operands at hand; of the first attempt, or in
# whole of one that a number says (Note [attempts in lanes]).
Attempts = Callable[["ElementWriter", V | None], tuple[V, V]]
Function = Callable[["ElementWriter"], V]


@dataclass(slots=True)
class ElementWords(LaunchWords):
    """What every kernel is told; where the operands are follows."""

    out: Any
    count: Any
    status: Any = 0
    fault: Any = 0
    number: Any = 0  # the bits of a parameter


@dataclass(frozen=True, slots=True)
class ElementForm:
    """What decides the text of a kernel."""

    name: str
    kinds: tuple[str, ...]  # of the operands in memory
    single: tuple[bool, ...]  # whether one element of an operand serves all
    result: str
    write: Function
    lanes: int = 1
    attempt: Attempts | None = None  # of several elements at a time

    @property
    def function(self) -> str:
        """The name of the kernel."""
        operands = zip(self.kinds, self.single, strict=True)
        read = [f"{kind}s" if one else kind for kind, one in operands]
        return "_".join(["element", self.name, *read, self.result])

    def text(self, name: str) -> Text:
        """The kernel."""
        return ElementWriter(self).text(name)


class ElementWriter:
    """Writes the kernel of a form; `operands` are those of the elements at hand."""

    def __init__(self, form: ElementForm) -> None:
        self.form, self.w = form, CodeWriter()
        self.word = ElementWords.read_by(self.w)
        first = ElementWords.word_count()
        words = [self.w.word(first + k) for k in range(len(form.kinds))]
        self.starts = [self.w.pointer(word) for word in words]
        self.operands: list[V] = []

    def text(self, name: str) -> Text:
        w, lanes = self.w, self.form.lanes
        low, high = w.share(self.word.count)
        if self.form.attempt is not None:
            self.chunks(low, high)
            return w.finish(name)
        middle = high - (high - low).modulo(lanes)
        w.loop(low, middle, lambda i: self.some(i, lanes), step=lanes)
        if lanes > 1:
            w.loop(middle, high, lambda i: self.some(i, 1))
        return w.finish(name)

    def chunks(self, low: V, high: V) -> None:
        """First attempts, then further ones of elements that are left; so many at a time."""
        w = self.w
        left = w.reserve("i64", CHUNK + LANES)

        def alone(k: V) -> None:
            self.some(w.load(left, "i64", k), 1)

        def further(retry: V, count: V) -> list[V]:
            middle = count - count.modulo(LANES)
            w.loop(middle, count, alone)  # of which no attempt may be left out
            (kept,) = w.loop(
                0,
                middle,
                lambda k, kept: [self.again(k, retry, left, kept)],
                [w.whole(0)],
                step=LANES,
            )
            return [retry + 1, kept]

        def chunk(start: V) -> None:
            stop = w.least(start + CHUNK, high)
            middle = stop - (stop - start).modulo(LANES)
            none = w.whole(0)
            (count,) = w.loop(
                start, middle, lambda i, count: [self.attempted(i, left, count)], [none], step=LANES
            )

            w.loop(middle, stop, lambda i: self.some(i, 1))
            _, count = w.repeat(
                [none, count], lambda retry, n: (n >= LANES) & (retry < PASSES), further
            )
            w.loop(0, count, alone)

        w.loop(low, high, chunk, step=CHUNK)

    def attempted(self, i: V, left: str, count: V) -> V:
        """Attempts from a place on; those that fail are noted as left, now so many."""
        w, form = self.w, self.form
        assert form.attempt is not None
        self.read(i, LANES)
        value, done = form.attempt(self, None)
        w.store(value.convert(form.result), w.pointer(self.word.out), i)
        return self.noted([i + lane for lane in range(LANES)], done, left, count)

    def again(self, k: V, retry: V, left: str, kept: V) -> V:
        """Another attempt of elements that are left, from the k-th of them on."""
        w, form = self.w, self.form
        assert form.attempt is not None
        places = [w.load(left, "i64", k + lane) for lane in range(LANES)]
        self.operands = [
            w.code.splat(w.load(start, kind, w.whole(0)), LANES)
            if one
            else w.gather(start, kind, places)
            for start, kind, one in zip(self.starts, form.kinds, form.single, strict=True)
        ]
        value, done = form.attempt(self, retry)
        value = value.convert(form.result)
        for lane, place in enumerate(places):
            w.store(w.lane(value, lane), w.pointer(self.word.out), place)
        return self.noted(places, done, left, kept)

    def noted(self, places: list[V], done: V, left: str, count: V) -> V:
        """Note places of attempts that failed; how many are left then."""
        w, failed = self.w, (~done).convert("i64")
        for lane, place in enumerate(places):
            w.store(place, left, count)
            count = count + w.lane(failed, lane)
        return count

    def some(self, i: V, lanes: int) -> None:
        """So many elements from a place on."""
        w, form = self.w, self.form
        self.read(i, lanes)
        w.store(form.write(self).convert(form.result), w.pointer(self.word.out), i)

    def read(self, i: V, lanes: int) -> None:
        """The operands of so many elements."""
        w, form = self.w, self.form
        self.operands = [
            w.code.splat(w.load(start, kind, w.whole(0)), lanes)
            if one
            else w.load(start, kind, i, lanes)
            for start, kind, one in zip(self.starts, form.kinds, form.single, strict=True)
        ]

    def real(self, k: int) -> V:
        """An operand in float64."""
        return self.operands[k].convert("f64")

    def parameter(self, like: V) -> V:
        """The parameter, beside others of so many lanes."""
        return self.w.code.splat(self.word.number.bitcast("f64"), like.lanes)

    def refuse_unless(self, fit: V) -> None:
        """Tell of the fault unless a condition holds."""
        status = self.w.pointer(self.word.status)
        self.w.when(~fit, lambda: store_fault(self.w.code, status, self.word.fault.ref))

    def number(self, value: float) -> V:
        """A number in float64."""
        return self.w.code.const(value, "f64")
