"""The kernel that pads with a constant: rows are copied to their places, what is around is filled.

Elements are moved as whole numbers of their size. Dimensions are merged where they are gone through
as one, so that rows are as long as can be.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords, several
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.registers.vector import V, convert, width

BYTES = 32  # that are moved at once
OUTER = 4  # dimensions around rows, at most


@dataclass(slots=True)
class PadWords(LaunchWords):
    """Of each dimension around rows, innermost first: the result's size, where what is kept of the
    source begins in it, how much that is, and how far apart elements lie in the source."""

    source: Any
    out: Any
    value: Any  # the bits of the constant
    rows: Any  # of the result
    before: Any  # elements of a row that are filled
    kept: Any
    after: Any
    sizes: Any = field(metadata=several(OUTER))
    starts: Any = field(metadata=several(OUTER))
    counts: Any = field(metadata=several(OUTER))
    steps: Any = field(metadata=several(OUTER))


@dataclass(frozen=True, slots=True)
class Padding:
    """What decides the text."""

    kind: str  # whole numbers of the elements' size
    outer: int  # dimensions around rows

    @property
    def function(self) -> str:
        """The name of the kernel."""
        return f"pad_{self.kind}_{self.outer}"

    def text(self, name: str) -> Text:
        """The kernel: rows of the result are dealt out among the workers."""
        w = CodeWriter()
        word = PadWords.read_by(w)
        source, out = w.pointer(word.source), w.pointer(word.out)
        value = convert(word.value, self.kind)
        length = word.before + word.kept + word.after

        def row(number: V) -> None:
            to = w.at(out, self.kind, number * length)
            rest, at, inside = number, w.whole(0), None
            for d in range(self.outer):
                rest, place = w.split(rest, word.sizes[d])
                place = place - word.starts[d]
                within = (place >= 0) & (place < word.counts[d])
                inside = within if inside is None else inside & within
                at = at + place * word.steps[d]

            def padded() -> None:
                self.fill(w, to, word.before, value)
                self.copy(w, w.at(source, self.kind, at), w.at(to, self.kind, word.before), word)
                end = w.at(to, self.kind, word.before + word.kept)
                self.fill(w, end, word.after, value)

            if inside is None:
                padded()
            else:
                w.either(inside, padded, lambda: self.fill(w, to, length, value))

        w.pieces(word.rows, row)
        return w.finish(name)

    @property
    def lanes(self) -> int:
        """Elements that are moved at once."""
        return BYTES * 8 // width(self.kind)

    def fill(self, w: CodeWriter, to: str, count: V, value: V) -> None:
        """So many elements that are the constant."""
        many = w.code.splat(value, self.lanes)
        most = count - count.modulo(self.lanes)
        w.loop(0, most, lambda i: w.store(many, to, i), step=self.lanes)
        w.loop(most, count, lambda i: w.store(value, to, i))

    def copy(self, w: CodeWriter, start: str, to: str, word: PadWords) -> None:
        """What is kept of a row; its last elements with some that are copied already."""
        count, lanes = word.kept, self.lanes

        def move(i: V, lanes: int) -> None:
            w.store(w.load(start, self.kind, i, lanes), to, i)

        def short() -> None:
            w.loop(0, count, lambda i: move(i, 1))

        def long() -> None:
            last = count - lanes
            w.loop(0, last, lambda i: move(i, lanes), step=lanes)
            move(last, lanes)

        w.either(count >= lanes, long, short)
