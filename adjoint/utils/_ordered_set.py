"""A set that keeps the order in which elements came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet
from typing import Any, TypeVar

Element = TypeVar("Element")


class OrderedSet(MutableSet[Element]):
    """A set that keeps the order in which elements came.

    Example:
        >>> OrderedSet([3, 1, 3, 2])
        OrderedSet([3, 1, 2])
        >>> list(OrderedSet("ab") | OrderedSet("cb"))
        ['a', 'b', 'c']
    """

    __slots__ = ("_kept",)

    def __init__(self, iterable: Iterable[Element] = ()) -> None:
        self._kept: dict[Element, None] = dict.fromkeys(iterable)

    def __contains__(self, element: object) -> bool:
        return element in self._kept

    def __iter__(self) -> Iterator[Element]:
        return iter(self._kept)

    def __reversed__(self) -> Iterator[Element]:
        return reversed(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self._kept)})"

    def add(self, value: Element) -> None:
        """Add an element at the end, unless it is there."""
        self._kept[value] = None

    def discard(self, value: Element) -> None:
        """Take an element out, if it is there."""
        self._kept.pop(value, None)

    def copy(self) -> OrderedSet[Element]:
        """The same elements in a set of their own."""
        return OrderedSet(self._kept)

    def update(self, *others: Iterable[Element]) -> None:
        """Add the elements of others."""
        for other in others:
            self._kept.update(dict.fromkeys(other))

    def union(self, *others: Iterable[Element]) -> OrderedSet[Element]:
        """The elements of all."""
        out = self.copy()
        out.update(*others)
        return out

    def intersection(self, *others: Iterable[Any]) -> OrderedSet[Element]:
        """The elements that all have."""
        sets = [set(other) for other in others]
        return OrderedSet(x for x in self if all(x in other for other in sets))

    def difference(self, *others: Iterable[Any]) -> OrderedSet[Element]:
        """The elements that no other has."""
        gone = {x for other in others for x in other}
        return OrderedSet(x for x in self if x not in gone)

    def issubset(self, other: Iterable[Any]) -> bool:
        """Whether the other has every element."""
        theirs = set(other)
        return all(x in theirs for x in self)

    def issuperset(self, other: Iterable[Any]) -> bool:
        """Whether it has every element of the other."""
        return all(x in self for x in other)
