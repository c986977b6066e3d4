"""Positions in the order of random words (`ops.random.random.RANDOM_ORDER`).

Words are spread evenly, so that their highest bits say about where each belongs. A word whose
lowest bits are its position is an item by itself; items are counted by as many of their highest
bits as leave one or none for most numbers, put where these begin, and what is still out of order is
set right by insertion. Where there are many, a first launch divides them into parts that stay in
a core's own memory.

That words are even is a matter of speed: any words come into the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.registers.vector import V, select
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.core.dtype import int64
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.ops.random.random import position_bits

WORD = 64
LANES = 16
TOGETHER = 14  # bits of a position, up to which items are not divided first
PART, PARTS = 11, 11  # bits of a position within a part; of the number of a part, at most
PIECES = 32  # in which parts are dealt out, each with counts of its own


@dataclass(slots=True)
class RandomOrderWords(LaunchWords):
    """What all kernels are told."""

    out: Any
    source: Any  # the random words
    items: Any  # divided into parts
    starts: Any  # of the parts, and where the last ends
    counts: Any
    length: Any
    places: Any  # bits of a position
    parts: Any
    first: Any  # where the bits of a part's number begin
    numbers: Any  # that items of a part are counted by
    second: Any  # where the bits of these begin
    pieces: Any


class OrderKernel:
    """Writes a kernel of `RandomOrderWords`."""

    def __init__(self) -> None:
        self.w = w = CodeWriter()
        self.word = word = RandomOrderWords.read_by(w)
        self.out, self.source, self.items, self.starts = (
            w.pointer(x) for x in (word.out, word.source, word.items, word.starts)
        )
        bits = w.code.const(1, "u64") << word.places.bitcast("u64")
        self.position = bits - 1  # the bits of one

    def drawn(self, i: V) -> V:
        """A random word."""
        return self.w.load(self.source, "u64", i)

    def item(self, i: V) -> V:
        """One with its position in place of the lowest bits."""
        return (self.drawn(i) & ~self.position) | i.bitcast("u64")

    def clear(self, counts: str, count: V) -> None:
        """Nothing counted; `count` is a multiple of the lanes."""
        none = self.w.code.const(0, "u32", LANES)
        self.w.loop(0, count, lambda i: self.w.store(none, counts, i), step=LANES)

    def count(self, counts: str, number: V) -> None:
        """One more of a number."""
        w = self.w
        w.store(w.load(counts, "u32", number) + 1, counts, number)

    def begin(self, counts: str, count: V, start: V) -> None:
        """Counts become where items with a number begin."""
        w = self.w

        def turn(i: V, before: V) -> list[V]:
            here = w.load(counts, "u32", i)
            w.store(before, counts, i)
            return [before + here]

        w.loop(0, count, turn, [start.convert("u32")])

    def put(self, item: V, counts: str, number: V, to: str) -> None:
        """An item where the next of its number belongs."""
        w = self.w
        place = w.load(counts, "u32", number)
        w.store(place + 1, counts, number)
        w.store(item, to, place.convert("i64"))


class PartingKernel(OrderKernel):
    """Divides all items into parts; one worker does."""

    def text(self, name: str) -> Text:
        self.w.pieces(self.w.whole(1), lambda _: self.divide())
        return self.w.finish(name)

    def divide(self) -> None:
        w, word = self.w, self.word
        counts = w.pointer(word.counts)
        self.clear(counts, word.parts)

        def number(item: V) -> V:
            return (item >> word.first.bitcast("u64")).bitcast("i64")

        w.loop(0, word.length, lambda i: self.count(counts, number(self.drawn(i))))
        self.begin(counts, word.parts, w.whole(0))
        w.loop(0, word.parts, lambda k: w.store(w.load(counts, "u32", k), self.starts, k))
        w.store(word.length.convert("u32"), self.starts, word.parts)

        def turn(i: V) -> None:
            item = self.item(i)
            self.put(item, counts, number(item), self.items)

        w.loop(0, word.length, turn)


class OrderingKernel(OrderKernel):
    """Puts the items of each part in order, and their positions into the result."""

    def __init__(self, divided: bool) -> None:
        super().__init__()
        self.divided = divided  # else all of the words are one part

    def text(self, name: str) -> Text:
        w, word = self.w, self.word

        def piece(p: V) -> None:
            counts = w.pointer(word.counts + p * word.numbers * 4)
            if not self.divided:
                self.part(counts, w.whole(0), word.length)
                return
            low = (word.parts * p).quotient(word.pieces)
            high = (word.parts * (p + 1)).quotient(word.pieces)
            w.loop(low, high, lambda k: self.part(counts, self.start(k), self.start(k + 1)))

        w.pieces(word.pieces, piece)
        return w.finish(name)

    def start(self, part: V) -> V:
        return self.w.load(self.starts, "u32", part).convert("i64")

    def part(self, counts: str, low: V, high: V) -> None:
        """The items from one place to another."""
        w, word = self.w, self.word
        self.clear(counts, word.numbers)

        def item(i: V) -> V:
            return w.load(self.items, "u64", i) if self.divided else self.item(i)

        def number(item: V) -> V:
            return (item >> word.second.bitcast("u64")).bitcast("i64") & (word.numbers - 1)

        counted = item if self.divided else self.drawn
        w.loop(low, high, lambda i: self.count(counts, number(counted(i))))
        self.begin(counts, word.numbers, low)

        def put(i: V) -> None:
            here = item(i)
            self.put(here, counts, number(here), self.out)

        w.loop(low, high, put)
        w.loop(low + 1, high, lambda i: self.insert(i, low))
        self.show(low, high)

    def insert(self, i: V, low: V) -> None:
        """Put an item among those of its part before it, which are in order."""
        w, out = self.w, self.out
        item = w.load(out, "u64", i)

        def shift(at: V, before: V) -> list[V]:
            w.store(before, out, at)
            # What is before the part is another's; nothing is less than zero.
            inside = at - 1 > low
            following = w.load(out, "u64", select(inside, at - 2, low))
            return [at - 1, select(inside, following, 0)]

        start = [i, w.load(out, "u64", i - 1)]
        at, _ = w.repeat(start, lambda at, before: before > item, shift)
        w.store(item, out, at)

    def show(self, low: V, high: V) -> None:
        """Positions in place of items."""
        w = self.w
        bits = w.code.splat(self.position, LANES)
        middle = high - ((high - low) & (LANES - 1))

        def several(i: V) -> None:
            w.store(w.load(self.out, "u64", i, LANES) & bits, self.out, i)

        w.loop(low, middle, several, step=LANES)
        w.loop(
            middle,
            high,
            lambda i: w.store(w.load(self.out, "u64", i) & self.position, self.out, i),
        )


# -- the template ---------------------------------------------------------------------------------


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """A vector of words on the CPU, of a known length."""
    (x,) = inputs
    return (
        isinstance(x, Value)
        and len(x.spec.shape) == 1
        and not is_extent(x.spec.shape[0])
        and 0 < x.spec.shape[0] < 1 << 31
        and x.spec.device.type == "cpu"
    )


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Words are read one after another."""
    return set() if layout(inputs[0]).contiguous else {0}


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch, or one that divides and one that puts parts in order."""
    (length,) = node.inputs[0].spec.shape
    source, out = operands[0], results[0]
    places = position_bits(length)
    of_part = min(max(places - PART, 4), PARTS) if places > TOGETHER else 0
    of_number = max(places - of_part, 4)
    parts, numbers = 1 << of_part, 1 << of_number
    pieces = min(parts, PIECES)
    counts = PlannedBuffer(ARENA, int64, max(pieces * numbers, parts) // 2, name="counts")
    items = PlannedBuffer(ARENA, int64, length if of_part else 1, name="items")
    starts = PlannedBuffer(ARENA, int64, parts // 2 + 1, name="starts")
    words = RandomOrderWords(
        out=Address(out.buffer, out.offset * 8), source=Address(source.buffer, source.offset * 8),
        items=Address(items), starts=Address(starts), counts=Address(counts), length=length,
        places=places, parts=parts, first=(WORD - of_part) % WORD, numbers=numbers,
        second=WORD - of_part - of_number, pieces=pieces,
    ).listed()  # fmt: skip
    label = sized(node.record.name, length)
    scratch = (whole(counts), whole(items), whole(starts))
    ordering = Launch(
        function="random_order_parts" if of_part else "random_order",
        text=lambda name: OrderingKernel(bool(of_part)).text(name),
        words=words,
        reads=(*scratch[1:], *(() if of_part else (whole(source.buffer),))),
        writes=(whole(out.buffer), scratch[0]),
        pieces=pieces,
        cost=12 * length,
        label=label,
    )
    if not of_part:
        ordering.reads, ordering.writes = (
            (whole(source.buffer),),
            (whole(out.buffer), *scratch),
        )
        return [ordering]
    dividing = Launch(
        function="random_order_divided",
        text=lambda name: PartingKernel().text(name),
        words=words,
        reads=(whole(source.buffer),),
        writes=scratch,
        pieces=1,
        cost=6 * length,
        label=label,
    )
    return [dividing, ordering]


TEMPLATES = {"random_order": Template(accepts, packed, steps)}
KEPT_WHOLE = ("random_order",)
