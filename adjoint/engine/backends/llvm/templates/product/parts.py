"""Results in parts, each summed over a part of a depth or of positions, and their sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.registers.vector import V
from adjoint.engine.compiler.schedule.steps import Address, Launch, whole

CHUNK = 1024  # results in a piece
LANES = 8


@dataclass(slots=True)
class PartWords(LaunchWords):
    """Parts of results, one after another."""

    source: Any
    target: Any
    count: Any  # of results
    parts: Any
    pieces: Any


def sums_text(name: str, kind: str) -> Text:
    """Results of several parts, added in their order."""
    w = CodeWriter(as_written=True)
    word = PartWords.read_by(w)
    source, target = w.pointer(word.source), w.pointer(word.target)
    low, high = w.share(word.pieces)
    start = low * CHUNK
    stop = w.least(high * CHUNK, word.count)
    whole = start + w.most(stop - start, 0).quotient(w.whole(LANES)) * LANES

    def some(i: V, lanes: int) -> None:
        def part(p: V, sum_: V) -> list[V]:
            return [sum_ + w.load(source, kind, p * word.count + i, lanes)]

        first = w.load(source, kind, i, lanes)
        w.store(w.loop(1, word.parts, part, [first])[0], target, i)

    w.loop(start, whole, lambda i: some(i, LANES), step=LANES)
    w.loop(whole, stop, lambda i: some(i, 1))
    return w.finish(name)


def sum_parts(kind: str, parts: Address, out: Address, size: int, count: int) -> Launch:
    """The launch that adds up so many parts, each of `size` elements."""
    pieces = -(-size // CHUNK)
    return Launch(
        function=f"sum_parts_{kind}",
        text=lambda name: sums_text(name, kind),
        words=PartWords(source=parts, target=out, count=size, parts=count, pieces=pieces).listed(),
        reads=(whole(parts.buffer),),
        writes=(whole(out.buffer),),
        pieces=pieces,
        cost=size * count,
        label="sum of parts",
    )
