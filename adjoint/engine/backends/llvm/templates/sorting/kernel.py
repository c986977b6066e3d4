"""The kernels that put lines in order: by insertion, by digits, or only the best of each.

A line is sorted by insertion where it is short, else by the digits of its keys, lowest first: one
reading counts all digits, then each digit that differs moves the items once. Both keep equal
elements in order. Integers are counted from the least of their line, so that small ones have few
digits that differ. Lines are seen as (before, length, after) and dealt out in pieces, each with
scratch memory of its own.

The words: the result, the operand, scratch; length, after, lines, pieces, how many of each line
are wanted, which one, bytes of a piece's scratch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.sorting.items import Item, Items
from adjoint.engine.backends.registers.elementwise import stored_kind
from adjoint.engine.backends.registers.vector import V, select

SHORT, SELECTED = 64, 24  # elements up to which insertion is quicker: sorting, finding one
HELD = 4  # times as many as are wanted, gathered before they are put in order
DIGIT = 256
LANES = 16
GUARD = 2  # words before items: a key that is less than all others


def scratch_bytes(items: Items, length: int, arrays: int) -> int:
    """Scratch memory of a piece: digits' counts, then arrays of items with their guards."""
    counts = items.bits // 8 * DIGIT * 4
    return counts + arrays * 8 * (GUARD + items.words * length)


@dataclass(slots=True)
class SortingWords(LaunchWords):
    """Lines of `length` elements, `after` apart."""

    out: Any
    source: Any
    scratch: Any
    length: Any
    after: Any
    lines: Any
    pieces: Any
    count: Any  # of each line that are written
    which: Any  # of them is asked for
    piece: Any  # bytes of scratch for each piece


class LineKernel:
    """Writes a kernel that goes through lines."""

    arrays = 1  # of items

    def __init__(self, items: Items) -> None:
        self.items = items
        self.w = w = CodeWriter()
        self.word = SortingWords.read_by(w)
        self.length, self.after = self.word.length, self.word.after
        self.out, self.source = w.pointer(self.word.out), w.pointer(self.word.source)

    def text(self, name: str) -> Text:
        w, word = self.w, self.word

        def piece(p: V) -> None:
            start = word.scratch + p * word.piece
            self.counts = w.pointer(start)
            size = (self.length * self.items.words + GUARD) * 8
            begin = start + (self.items.bits // 8 * DIGIT * 4 + GUARD * 8)
            self.places = [begin + size * k if k else begin for k in range(self.arrays)]
            for place in self.places:
                for k in range(1, GUARD + 1):
                    w.store(w.code.const(0, "u64"), w.pointer(place), w.whole(-k))
            first = (word.lines * p).quotient(word.pieces)
            last = (word.lines * (p + 1)).quotient(word.pieces)
            w.loop(first, last, self.one)

        w.pieces(word.pieces, piece)
        return w.finish(name)

    def one(self, number: V) -> None:
        """One line: where it begins in the operand and in the result."""
        w = self.w
        before, column = w.split(number, self.after)
        begin = before * self.length * self.after + column
        self.line(begin, before * self.word.count * self.after + column)

    def line(self, begin: V, to: V) -> None:
        raise NotImplementedError

    # -- parts of all of them -------------------------------------------------------------------

    def key(self, begin: V, i: V) -> V:
        """The key of a line's i-th element."""
        return self.items.load_key(self.w, self.source, begin + i * self.after)

    def write(self, array: str, to: V) -> None:
        """The places of the first items are a line's results."""
        w, items = self.w, self.items

        def turn(i: V) -> None:
            w.store(items.place(items.load(w, array, i)), self.out, to + i * self.after)

        w.loop(0, self.word.count, turn)

    def fill(
        self,
        begin: V,
        array: str,
        also: Callable[[Item], None] | None = None,
        least: V | None = None,
    ) -> V:
        """All of a line as items, keys counted from the least; how many of them are NaN."""
        w, items = self.w, self.items

        def turn(i: V, missing: V) -> list[V]:
            key = self.key(begin, i)
            if least is not None:
                key = key - least
            item = items.item(key, i)
            items.store(w, item, array, i)
            if also is not None:
                also(item)
            return [missing + items.nan(key).convert("i64")]

        return w.loop(0, self.length, turn, [w.whole(0)])[0]

    def extent(self, begin: V) -> tuple[V, V]:
        """The least and the greatest key of a line of integers."""
        w = self.w

        def turn(i: V, low: V, high: V) -> list[V]:
            key = self.key(begin, i)
            return [select(key < low, key, low), select(key > high, key, high)]

        first = self.key(begin, w.whole(0))
        low, high = w.loop(1, self.length, turn, [first, first])
        return low, high

    def insert(self, item: Item, array: str, end: V) -> None:
        """Put an item among those before `end`, which are in order; the guard ends the search."""
        w, items = self.w, self.items
        last = end - 1

        def ahead(at: V, *before: V) -> V:
            return before[0] > item[0]

        def shift(at: V, *before: V) -> list[V]:
            items.store(w, before, array, at + 1)
            return [at - 1, *items.load(w, array, at - 1)]

        at, *_ = w.repeat([last, *items.load(w, array, last)], ahead, shift)
        items.store(w, item, array, at + 1)

    def insertion(self, array: str, count: V) -> None:
        """Put so many items in order."""
        w, items = self.w, self.items
        w.loop(1, count, lambda i: self.insert(items.load(w, array, i), array, i))

    def clear(self, digits: int) -> None:
        """Nothing counted."""
        w = self.w
        none = w.code.const(0, "u32", LANES)
        w.loop(0, w.whole(digits * DIGIT), lambda i: w.store(none, self.counts, i), step=LANES)

    def count(self, item: Item, shift: V, table: int = 0) -> None:
        """Count one digit of an item."""
        w = self.w
        at = self.items.digit(item, shift) + table * DIGIT
        w.store(w.load(self.counts, "u32", at) + 1, self.counts, at)


class SortKernel(LineKernel):
    """All of a line in order, of which the first are written."""

    arrays = 2

    def line(self, begin: V, to: V) -> None:
        w, items = self.w, self.items
        first, second = self.places

        def short() -> list[V]:
            array = w.pointer(first)
            self.fill(begin, array)
            self.insertion(array, self.length)
            return [first]

        def long() -> list[V]:
            self.clear(self.digits)
            least = None if items.dtype.is_inexact or self.digits == 1 else self.extent(begin)[0]
            self.fill(begin, w.pointer(first), self.count_all, least)
            return [self.by_digits(first, second, self.length)]

        (sorted_items,) = w.choose(self.length <= SHORT, short, long)
        self.write(w.pointer(sorted_items), to)

    @property
    def digits(self) -> int:
        """Of a key."""
        return self.items.bits // 8

    def count_all(self, item: Item) -> None:
        """Count every digit of an item."""
        for digit in range(self.digits):
            self.count(item, self.w.whole(8 * digit), digit)

    def by_digits(self, first: V, second: V, many: V) -> V:
        """Put so many items in order, whose digits are counted; in which of two arrays they are."""

        def move(digit: V, source: V, target: V) -> list[V]:
            return self.by_digit(digit, source, target, many)

        return self.w.loop(0, self.w.whole(self.digits), move, [first, second])[0]

    def by_digit(self, digit: V, source: V, target: V, many: V) -> list[V]:
        """Move items from one array to the other, unless all have the same digit."""
        w, items = self.w, self.items
        array = w.pointer(source)
        counts = w.at(self.counts, "u32", digit * DIGIT)
        shift = digit * 8
        same = w.load(counts, "u32", items.digit(items.load(w, array, w.whole(0)), shift))

        def move() -> list[V]:
            self.starts(counts)
            to = w.pointer(target)

            def turn(i: V) -> None:
                item = items.load(w, array, i)
                at = items.digit(item, shift)
                place = w.load(counts, "u32", at)
                w.store(place + 1, counts, at)
                items.store(w, item, to, place.convert("i64"))

            w.loop(0, many, turn)
            return [target, source]

        return w.choose(same.convert("i64").eq(many), lambda: [source, target], move)

    def starts(self, counts: str) -> None:
        """Counts of digits become where items with them begin."""
        w = self.w

        def turn(i: V, before: V) -> list[V]:
            here = w.load(counts, "u32", i)
            w.store(before, counts, i)
            return [before + here]

        w.loop(0, w.whole(DIGIT), turn, [w.code.const(0, "u32")])


class BestKernel(LineKernel):
    """The first few of each line's order: those that are better than the last of them go in."""

    def line(self, begin: V, to: V) -> None:
        w, items, count = self.w, self.items, self.word.count
        array = w.pointer(self.places[0])
        items.store(w, items.item(self.key(begin, w.whole(0)), w.whole(0)), array, w.whole(0))
        w.loop(1, count, lambda i: self.insert(items.item(self.key(begin, i), i), array, i))
        together = self.after.eq(1)
        whole = select(together, (self.length - count) & -LANES, w.whole(0)) + count
        w.loop(count, whole, lambda i: self.several(begin, i, array), step=LANES)
        w.loop(whole, self.length, lambda i: self.offer(begin, i, array))
        self.write(array, to)

    def worst(self, array: str) -> V:
        """The key of the last of those that are held."""
        last = self.items.load(self.w, array, self.word.count - 1)
        kind = f"u{self.items.bits}"
        return self.items.shifted(last, self.w.whole(0)).convert(kind)

    def several(self, begin: V, i: V, array: str) -> None:
        """Neighbours, most of which are usually not good enough."""
        w, items = self.w, self.items
        keys = items.load_key(w, self.source, begin + i, LANES)
        w.when(
            least_of(w, keys) < self.worst(array),
            lambda: w.loop(i, i + LANES, lambda j: self.offer(begin, j, array)),
        )

    def offer(self, begin: V, i: V, array: str) -> None:
        """One element, which goes in if it is better than the last."""
        w, items = self.w, self.items
        key = self.key(begin, i)
        end = self.word.count - 1
        w.when(key < self.worst(array), lambda: self.insert(items.item(key, i), array, end))


class GatherKernel(SortKernel):
    """The first of each line's order, where many are wanted of many more.

    Elements that are better than the last of those held are gathered until there are `HELD` times
    as many as are wanted; then these are put in order, and the first of them are held.
    """

    def line(self, begin: V, to: V) -> None:
        w = self.w
        first = w.pointer(self.places[0])

        def turn(i: V, held: V, bound: V) -> list[V]:
            i, held = self.gather(begin, first, i, held, bound)
            return [i, *self.settle(first, held)]

        anything = w.code.const(-1, f"u{self.items.bits}")
        carried = [w.whole(0), w.whole(0), anything]
        w.repeat(carried, lambda i, held, bound: i < self.length, turn)
        self.write(first, to)

    def gather(self, begin: V, array: str, i: V, held: V, bound: V) -> list[V]:
        """Put elements with no greater key than `bound` after those held, while there is room."""
        w, items = self.w, self.items
        room, together = self.word.count * HELD, self.after.eq(1)

        def one(i: V, held: V) -> list[V]:
            key = self.key(begin, i)
            items.store(w, items.item(key, i), array, held)
            return [i + 1, held + (key <= bound).convert("i64")]

        def several(i: V, held: V) -> list[V]:
            keys = items.load_key(w, self.source, begin + i, LANES)

            def each() -> list[V]:
                return w.loop(i, i + LANES, lambda j, held: one(j, held)[1:], [held])

            return [i + LANES, *w.choose(least_of(w, keys) <= bound, each, lambda: [held])]

        def has_several(i: V, held: V) -> V:
            return together & (i + LANES <= self.length) & (held + LANES <= room)

        i, held = w.repeat([i, held], has_several, several)
        alone = (i + LANES > self.length) | together.eq(0)
        return w.repeat([i, held], lambda i, held: alone & (i < self.length) & (held < room), one)

    def settle(self, array: str, held: V) -> list[V]:
        """Put what is held in order: how many are held from now on, and the bound of others."""
        w, items, count = self.w, self.items, self.word.count
        self.clear(self.digits)
        w.loop(0, held, lambda i: self.count_all(items.load(w, array, i)))
        first, second = self.places
        best = w.pointer(self.by_digits(first, second, held))
        w.loop(0, count, lambda i: items.store(w, items.load(w, best, i), array, i))
        worst = items.shifted(items.load(w, array, count - 1), w.whole(0))
        # What is no better comes later, so it is no better. Where nothing can be better everything
        # is gathered, and left out when it is put in order.
        return [count, worst.convert(f"u{items.bits}") - 1]


def least_of(w: CodeWriter, keys: V) -> V:
    """The least of some neighbours' keys."""
    element = keys.type.split()[-1].rstrip(">")
    name = f"@llvm.vector.reduce.umin.v{LANES}{element}"
    w.code.declarations.add(f"declare {element} {name}({keys.type})")
    return w.code.value(w.code.let(f"call {element} {name}({keys.type} {keys.ref})"), keys.kind, 1)


class SelectKernel(LineKernel):
    """One element of each line's order: by digits, highest first, of those that are left."""

    def __init__(self, items: Items, median: str, values: bool) -> None:
        super().__init__(items)
        self.median = median  # "kth": the one asked for; "first": NaN before all; "omit": none
        self.values = values  # the element itself, not its place

    def line(self, begin: V, to: V) -> None:
        w, items = self.w, self.items
        array = w.pointer(self.places[0])

        def short() -> list[V]:
            missing = self.fill(begin, array)
            self.insertion(array, self.length)
            return [self.wanted(missing)]

        def long() -> list[V]:
            least, highest = self.highest(begin)
            self.clear(1)
            missing = self.fill(begin, array, lambda item: self.count(item, highest), least)
            carried = [highest, self.length, self.wanted(missing)]
            _, _, which = w.repeat(
                carried,
                lambda shift, left, which: (shift >= 0) & (left > 1),
                lambda shift, left, which: self.narrow(array, shift, left, which),
            )
            return [which]

        (which,) = w.choose(self.length <= SELECTED, short, long)
        place = items.place(items.load(w, array, which))
        if self.values:
            kind = stored_kind(items.dtype)
            w.store(w.load(self.source, kind, begin + place * self.after), self.out, to)
        else:
            w.store(place, self.out, to)

    def highest(self, begin: V) -> tuple[V | None, V]:
        """What keys are counted from, and where the highest digit that differs begins."""
        w, bits = self.w, self.items.bits
        if self.items.dtype.is_inexact:
            return None, w.whole(bits - 8)
        low, high = self.extent(begin)
        name, kind = f"@llvm.ctlz.i{bits}", f"i{bits}"
        w.code.declarations.add(f"declare {kind} {name}({kind}, i1)")
        span = (high - low) | 1
        zeros = w.code.let(f"call {kind} {name}({kind} {span.ref}, i1 true)")
        return low, (bits - 1 - w.code.value(zeros, f"u{bits}", 1).convert("i64")) & -8

    def wanted(self, missing: V) -> V:
        """Which one of the order it is."""
        w = self.w
        if self.median == "kth":
            return self.word.which
        if self.median == "omit":
            return w.most(self.length - missing - 1, 0) >> 1
        return select(missing > 0, self.length - missing, (self.length - 1) >> 1)

    def narrow(self, array: str, shift: V, left: V, which: V) -> list[V]:
        """Keep those of the items left that have the same digit as the one wanted."""
        w, items = self.w, self.items
        digit, before, here = w.repeat(
            [w.whole(0), w.whole(0), self.counted(w.whole(0))],
            lambda digit, before, here: before + here <= which,
            lambda digit, before, here: [digit + 1, before + here, self.counted(digit + 1)],
        )
        self.clear(1)
        following = w.most(shift - 8, 0)

        def turn(i: V, count: V) -> list[V]:
            item = items.load(w, array, i)
            items.store(w, item, array, count)
            return [count + items.digit(item, shift).eq(digit).convert("i64")]

        w.loop(0, left, turn, [w.whole(0)])
        w.loop(0, here, lambda i: self.count(items.load(w, array, i), following))
        return [shift - 8, here, which - before]

    def counted(self, digit: V) -> V:
        return self.w.load(self.counts, "u32", digit).convert("i64")
