"""The kernel of distances between pairs of rows: each pair is gone along as it lies in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.registers.vector import V, mad, nan_max

LANES = 8


@dataclass(slots=True)
class PairWords(LaunchWords):
    """Rows of one length; the result has those after each row, row by row."""

    rows: Any
    out: Any
    count: Any  # of rows
    length: Any
    pieces: Any


@dataclass(frozen=True, slots=True)
class RowPairs:
    """What decides the text."""

    kind: str
    p: float  # 1, 2 or infinite

    @property
    def function(self) -> str:
        """The name of the kernel."""
        return f"pairs_{self.kind}_{self.p:g}"

    def text(self, name: str) -> Text:
        """The kernel. A piece is a row near the beginning and one as near the end: as many pairs
        for each."""
        w = CodeWriter()
        word = PairWords.read_by(w)
        rows, out = w.pointer(word.rows), w.pointer(word.out)

        def row(i: V) -> None:
            # Before those of row i there are i (2 count - i - 1) / 2 others.
            start = (i * (word.count * 2 - i - 1)) >> 1
            own = w.at(rows, self.kind, i * word.length)

            def pair(j: V) -> None:
                other = w.at(rows, self.kind, j * word.length)
                w.store(self.distance(w, own, other, word.length), out, start + j - i - 1)

            w.loop(i + 1, word.count, pair)

        def piece(q: V) -> None:
            mirrored = word.count - 2 - q
            row(q)
            w.when(mirrored > q, lambda: row(mirrored))

        w.pieces(word.pieces, piece)
        return w.finish(name)

    def distance(self, w: CodeWriter, a: str, b: str, length: V) -> V:
        """Of two rows."""

        def some(lanes: int, k: V, total: V) -> list[V]:
            gap = w.load(a, self.kind, k, lanes) - w.load(b, self.kind, k, lanes)
            if self.p == 2:
                return [mad(gap, gap, total)]
            return [total + abs(gap) if self.p == 1 else nan_max(total, abs(gap))]

        most = length - length.modulo(LANES)
        zero = w.code.const(0.0, self.kind, LANES)
        (wide,) = w.loop(0, most, lambda k, t: some(LANES, k, t), [zero], step=LANES)
        total = w.total(wide) if self.p in (1, 2) else self.largest(w, wide)
        (total,) = w.loop(most, length, lambda k, t: some(1, k, t), [total])
        return total.sqrt() if self.p == 2 else total

    def largest(self, w: CodeWriter, x: V) -> V:
        """The largest of a vector's lanes."""
        found = w.lane(x, 0)
        for lane in range(1, x.lanes):
            found = nan_max(found, w.lane(x, lane))
        return found
