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

LANES = 8  # of first attempts
CHUNK = 256  # elements whose first attempts are made before those that are left
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
    # The first attempt of several elements at a time (Note [first attempts]).
    attempt: Callable[[ElementWriter], tuple[V, V]] | None = None

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
        """First attempts, then the elements that are left; so many at a time."""
        w = self.w
        left = w.reserve("i64", CHUNK + LANES)

        def chunk(start: V) -> None:
            stop = w.least(start + CHUNK, high)
            middle = stop - (stop - start).modulo(LANES)
            none = w.whole(0)
            (count,) = w.loop(
                start, middle, lambda i, count: [self.attempted(i, left, count)], [none], step=LANES
            )

            def add(i: V, count: V) -> list[V]:
                w.store(i, left, count)
                return [count + 1]

            (count,) = w.loop(middle, stop, add, [count])
            w.loop(0, count, lambda k: self.some(w.load(left, "i64", k), 1))

        w.loop(low, high, chunk, step=CHUNK)

    def attempted(self, i: V, left: str, count: V) -> V:
        """Attempts from a place on; those that fail are noted as left, now so many."""
        w, form = self.w, self.form
        assert form.attempt is not None
        self.read(i, LANES)
        value, done = form.attempt(self)
        w.store(value.convert(form.result), w.pointer(self.word.out), i)
        failed = (~done).convert("i64")
        for lane in range(LANES):
            w.store(i + lane, left, count)
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
