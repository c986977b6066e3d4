"""The kernel of one row times a large matrix, whose rows it goes along.

Note [rows of a large matrix]
    One row reads each element of the matrix once, so memory decides. A tile of columns in registers
    reads a few lines of every row, each in another page: of a matrix with more pages than the
    processor keeps addresses of, it looks up one for every few lines. So a strip of columns that is
    as wide as there is work for several workers is gone through row after row, some rows at a time,
    and its sums wait in the result. Each is made of the same numbers in order of the depth.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import LINE, CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.product.tiles import outer_tile
from adjoint.engine.backends.registers.vector import V, mad, width

TOGETHER = 4  # rows whose products are added to a sum before it is written
LONG = 4  # vectors at a time


@dataclass(slots=True)
class RowWords(LaunchWords):
    """One row X times a large matrix Y."""

    x: Any
    y: Any
    c: Any
    n: Any
    k: Any
    x_step: Any
    y_row: Any
    strip: Any  # columns of a piece
    parts: Any
    pieces: Any
    inner: Any  # members of the inner batch; how far members are apart
    outer_x: Any
    outer_y: Any
    outer_c: Any
    inner_x: Any
    inner_y: Any
    inner_c: Any


def member_at(w: CodeWriter, word: Any, member: V, item: int) -> tuple[str, str, str]:
    """Where the operands x and y and the result c of one member of a batch begin."""
    outer, inner = w.split(member, word.inner)
    x, y, c = (
        w.pointer(base + (outer * along + inner * within) * item)
        for base, along, within in (
            (word.x, word.outer_x, word.inner_x),
            (word.y, word.outer_y, word.inner_y),
            (word.c, word.outer_c, word.inner_c),
        )
    )
    return x, y, c


class AlongRows:
    """Writes the kernel: C[j] = sum over k of X[k] Y[k, j]."""

    def __init__(self, kind: str) -> None:
        self.kind, self.item = kind, width(kind) // 8
        self.lanes = outer_tile(kind).lanes
        self.w = w = CodeWriter(as_written=True)
        self.word = RowWords.read_by(w)

    def text(self, name: str) -> Text:
        self.w.pieces(self.word.pieces, self.piece)
        return self.w.finish(name)

    def piece(self, p: V) -> None:
        """A strip of columns of one member of the batch."""
        w, word, kind = self.w, self.word, self.kind
        member, part = w.split(p, word.parts)
        x, y, c = member_at(w, word, member, self.item)
        first = part * word.strip
        stop = w.least(first + word.strip, word.n)
        wide = self.lanes * LONG
        middle = stop - (stop - first).modulo(wide)

        def clear(lanes: int, j: V) -> None:
            w.store(w.code.const(0, kind, lanes), c, j)

        w.loop(
            first,
            stop - (stop - first).modulo(self.lanes),
            partial(clear, self.lanes),
            step=self.lanes,
        )
        w.loop(stop - (stop - first).modulo(self.lanes), stop, partial(clear, 1))

        def rows(count: int, k: V) -> None:
            factors = [w.load(x, kind, (k + i) * word.x_step) for i in range(count)]
            starts = [w.at(y, kind, (k + i) * word.y_row) for i in range(count)]

            def across(lanes: int, vectors: int, j: V) -> None:
                spread = [w.code.splat(f, lanes) if lanes > 1 else f for f in factors]
                if lanes > 1:  # strips end before the processor has begun to fetch ahead
                    for start in starts:
                        ahead = w.at(start, kind, j + word.y_row * count)
                        for line in range(0, vectors * lanes * self.item, LINE):
                            w.prefetch(ahead, line)
                for v in range(vectors):
                    at = j + v * lanes
                    total = w.load(c, kind, at, lanes)
                    for start, factor in zip(starts, spread, strict=True):
                        total = mad(w.load(start, kind, at, lanes), factor, total)
                    w.store(total, c, at)

            w.loop(first, middle, partial(across, self.lanes, LONG), step=wide)
            w.loop(middle, stop, partial(across, 1, 1))

        whole = word.k - word.k.modulo(TOGETHER)
        w.loop(0, whole, partial(rows, TOGETHER), step=TOGETHER)
        w.loop(whole, word.k, partial(rows, 1))


def along_rows_text(name: str, kind: str) -> Text:
    """The kernel of Note [rows of a large matrix]."""
    return AlongRows(kind).text(name)
