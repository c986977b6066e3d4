"""The kernel of functions that are computed one element after another, each in its own time.

Note [elements by themselves]
    Loops of fused operations do the same for all elements of a vector. A draw that may be rejected
    or a recurrence up to a degree of its own takes as many turns as it takes: these functions are
    computed in float64, one element at a time, and elements are dealt out among the workers.
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

Function = Callable[["ElementWriter"], V]


@dataclass(slots=True)
class ElementWords(LaunchWords):
    """What every kernel is told; of each operand where it is and how far to the next follow."""

    out: Any
    count: Any
    status: Any = 0
    fault: Any = 0


@dataclass(frozen=True, slots=True)
class ElementForm:
    """What decides the text of a kernel."""

    name: str
    kinds: tuple[str, ...]  # of the operands in memory
    result: str
    write: Function

    @property
    def function(self) -> str:
        """The name of the kernel."""
        return "_".join(["element", self.name, *self.kinds, self.result])

    def text(self, name: str) -> Text:
        """The kernel."""
        return ElementWriter(self).text(name)


class ElementWriter:
    """Writes the kernel of a form; `operands` are those of the element at hand."""

    def __init__(self, form: ElementForm) -> None:
        self.form, self.w = form, CodeWriter()
        self.word = ElementWords.read_by(self.w)
        first = ElementWords.word_count()
        places = [self.w.word(first + 2 * k) for k in range(len(form.kinds))]
        self.starts = [self.w.pointer(place) for place in places]
        self.steps = [self.w.word(first + 2 * k + 1) for k in range(len(form.kinds))]
        self.operands: list[V] = []

    def text(self, name: str) -> Text:
        w, form = self.w, self.form
        out = w.pointer(self.word.out)

        def element(i: V) -> None:
            self.operands = [
                w.load(start, kind, i * step)
                for start, kind, step in zip(self.starts, form.kinds, self.steps, strict=True)
            ]
            w.store(form.write(self).convert(form.result), out, i)

        w.pieces(self.word.count, element)
        return w.finish(name)

    def real(self, k: int) -> V:
        """An operand in float64."""
        return self.operands[k].convert("f64")

    def refuse_unless(self, fit: V) -> None:
        """Tell of the fault unless a condition holds."""
        status = self.w.pointer(self.word.status)
        self.w.when(~fit, lambda: store_fault(self.w.code, status, self.word.fault.ref))

    def number(self, value: float) -> V:
        """A number in float64."""
        return self.w.code.const(value, "f64")
