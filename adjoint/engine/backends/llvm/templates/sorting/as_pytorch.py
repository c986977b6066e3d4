"""Kernels that leave equal elements in PyTorch's order: the steps of `order.ties`.

They permute a line's items in place as the C++ standard library and PyTorch's own selection do.
Only keys are compared here, never places.
"""

from __future__ import annotations

from collections.abc import Callable

from adjoint.engine.backends.array.kernels.order.ties import SHORT
from adjoint.engine.backends.llvm.templates.sorting.items import Item, Items
from adjoint.engine.backends.llvm.templates.sorting.kernel import LineKernel
from adjoint.engine.backends.registers.vector import V, select


class PermutingKernel(LineKernel):
    """Writes a kernel whose lines are permuted step by step."""

    arrays = 3  # items, and the parts that are left to sort: two numbers each

    def line(self, begin: V, to: V) -> None:
        w = self.w
        self.array, self.parts = w.pointer(self.places[0]), w.pointer(self.places[1])
        self.fill(begin, self.array)
        self.permute()
        self.write(self.array, to)

    def permute(self) -> None:
        raise NotImplementedError

    def at(self, i: V) -> Item:
        return self.items.load(self.w, self.array, i)

    def key_at(self, i: V) -> V:
        return self.key_of(self.at(i))

    def key_of(self, item: Item) -> V:
        return self.items.shifted(item, self.w.whole(0))

    def swap(self, i: V, j: V) -> None:
        here, there = self.at(i), self.at(j)
        self.items.store(self.w, there, self.array, i)
        self.items.store(self.w, here, self.array, j)

    def insertion_between(self, first: V, last: V) -> None:
        """`ties.insertion_sort`."""
        w, items = self.w, self.items

        def turn(i: V) -> None:
            item = self.at(i)
            key = self.key_of(item)

            def shift(j: V, ahead: V) -> list[V]:
                before = self.at(j - 1)
                smaller = key < self.key_of(before)
                w.when(smaller, lambda: items.store(w, before, self.array, j))
                there = select(smaller, j - 1, j)
                return [there, (smaller & (there > first)).convert("i64")]

            j, _ = w.repeat([i, (i > first).convert("i64")], lambda j, ahead: ahead.ne(0), shift)
            items.store(w, item, self.array, j)

        w.loop(first + 1, last, turn)

    def partition(self, first: V, last: V) -> V:
        """`ties._partition`: where the second part starts."""
        w = self.w
        a, b, c = first + 1, first + ((last - first) >> 1), last - 1
        x, y, z = map(self.key_at, (a, b, c))
        rising = select(y < z, b, select(x < z, c, a))
        falling = select(x < z, a, select(y < z, c, b))
        self.swap(first, select(x < y, rising, falling))
        pivot = self.key_at(first)

        def meet(low: V, high: V, going: V) -> list[V]:
            (low,) = w.repeat([low], lambda i: self.key_at(i) < pivot, lambda i: [i + 1])
            (high,) = w.repeat([high - 1], lambda i: pivot < self.key_at(i), lambda i: [i - 1])
            apart = low < high
            w.when(apart, lambda: self.swap(low, high))
            return [select(apart, low + 1, low), high, apart.convert("i64")]

        cut, _, _ = w.repeat([a, last, w.whole(1)], lambda low, high, going: going.ne(0), meet)
        return cut

    def sort(self, last: V) -> None:
        """`ties.sort` of the items before `last`."""
        w = self.w

        def push(depth: V, first: V, end: V) -> V:
            w.store(first, self.parts, depth * 2)
            w.store(end, self.parts, depth * 2 + 1)
            return depth + 1

        def part(depth: V) -> list[V]:
            top = (depth - 1) * 2
            first, end = w.load(self.parts, "i64", top), w.load(self.parts, "i64", top + 1)

            def halve(end: V, depth: V) -> list[V]:
                cut = self.partition(first, end)
                return [cut, push(depth, cut, end)]

            return w.repeat([end, depth - 1], lambda end, depth: end - first > SHORT, halve)[1:]

        start = push(w.whole(0), w.whole(0), last)
        w.repeat([start], lambda depth: depth > 0, part)
        self.insertion_between(w.whole(0), last)


class OrderedKernel(PermutingKernel):
    """`ties.ordered`: all of a line."""

    def permute(self) -> None:
        self.sort(self.length)


class TopKernel(PermutingKernel):
    """`ties.select_top`: the best of a line, in order if that is asked for."""

    def __init__(self, items: Items, in_order: bool) -> None:
        super().__init__(items)
        self.in_order = in_order

    def permute(self) -> None:
        w, last = self.w, self.word.count - 1

        def halve(first: V, end: V) -> list[V]:
            cut = self.partition(first, end)
            return [select(cut <= last, cut, first), select(cut <= last, end, cut)]

        bounds = [w.whole(0), self.length]
        first, end = w.repeat(bounds, lambda first, end: end - first > 3, halve)
        self.insertion_between(first, end)
        if self.in_order:
            self.sort(last)


class KthKernel(PermutingKernel):
    """`ties.quick_select`: the element that would be the k-th comes first."""

    def permute(self) -> None:
        w, which = self.w, self.word.which
        bounds = [w.whole(0), self.length - 1]
        left, right = w.repeat(bounds, lambda left, right: right > left + 1, self.narrow)
        w.when((right - left).eq(1), lambda: self.settle(left, right))
        self.swap(w.whole(0), which)

    def greater(self, i: V, j: V) -> V:
        return self.key_at(j) < self.key_at(i)

    def settle(self, i: V, j: V) -> None:
        """Swap two items if the first is greater."""
        self.w.when(self.greater(i, j), lambda: self.swap(i, j))

    def narrow(self, left: V, right: V) -> list[V]:
        w, which = self.w, self.word.which
        self.swap(left + ((right - left) >> 1), left + 1)
        for i, j in ((left + 1, right), (left, right), (left + 1, left)):
            self.settle(i, j)

        def meet(low: V, high: V, going: V) -> list[V]:
            low = self.walk(low + 1, 1, lambda i: self.greater(left, i))
            high = self.walk(high - 1, -1, lambda i: self.greater(i, left))
            apart = high >= low
            w.when(apart, lambda: self.swap(low, high))
            return [low, high, apart.convert("i64")]

        bounds = [left + 1, right, w.whole(1)]
        low, high, _ = w.repeat(bounds, lambda low, high, going: going.ne(0), meet)
        self.swap(left, high)
        return [select(high <= which, low, left), select(high >= which, high - 1, right)]

    def walk(self, start: V, step: int, test: Callable[[V], V]) -> V:
        return self.w.repeat([start], test, lambda i: [i + step])[0]
