"""The kernel that finds where values go in sequences, by halves.

Note [searches]
    A value goes behind an element unless that is larger (or, on the left, equal): so behind a NaN,
    and a NaN goes behind everything. Of a sequence that is in order and has no NaN the places are
    anybody's; of others they are those that PyTorch's halving comes to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.registers.vector import V, select


@dataclass(slots=True)
class SearchWords(LaunchWords):
    """Sequences of one length, and values of which so many in a row go into the same one."""

    sequence: Any
    values: Any
    out: Any
    length: Any
    count: Any  # of all values
    row: Any


@dataclass(frozen=True, slots=True)
class Search:
    """What decides the text."""

    kind: str
    right: bool  # after those that are equal
    one: bool  # sequence for all values

    @property
    def function(self) -> str:
        """The name of the kernel."""
        side = "right" if self.right else "left"
        return f"search_{side}_{'one' if self.one else 'rows'}_{self.kind}"

    def text(self, name: str) -> Text:
        """The kernel."""
        w = CodeWriter()
        word = SearchWords.read_by(w)
        low, high = w.share(word.count)
        values, out = w.pointer(word.values), w.pointer(word.out)

        def one(i: V) -> None:
            start = word.sequence
            if not self.one:
                start = start + i.quotient(word.row) * word.length * self.nbytes
            sequence, value = w.pointer(start), w.load(values, self.kind, i)

            def halve(first: V, last: V) -> list[V]:
                middle = (first + last) >> 1
                later = self.later(w.load(sequence, self.kind, middle), value)
                return [select(later, middle + 1, first), select(later, last, middle)]

            found, _ = w.repeat([w.whole(0), word.length], lambda a, b: a < b, halve)
            w.store(found, out, i)

        w.loop(low, high, one)
        return w.finish(name)

    @property
    def nbytes(self) -> int:
        """Of an element."""
        return int(self.kind[1:]) // 8

    def later(self, probe: V, value: V) -> V:
        """Whether a value goes behind an element: Note [searches]."""
        return ~(probe > value) if self.right else ~(probe >= value)
