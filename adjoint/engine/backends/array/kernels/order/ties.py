"""Which of equal elements comes first in selections from short rows.

Nobody promises an order among equals, but programs see one: PyTorch's selections permute the row,
and gradients follow the index. Where all rows together have few elements the same steps are taken
here, in Python; else the first of equals comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Less = Callable[[Any, Any], bool]
SHORT = 16  # rows up to here are ordered by insertion, which keeps equals in order
SMALL = 1024  # elements in all rows together, up to which Python is quick enough


def in_sort(size: int, n: int, stable: bool) -> bool:
    """Whether rows of n elements, so many in all, are sorted as PyTorch does."""
    return not stable and n > SHORT and size <= SMALL


def in_topk(size: int, n: int, k: int) -> bool:
    """The same of the best k of each row."""
    return k > 0 and n <= 64 * k and size <= SMALL


def in_kthvalue(size: int) -> bool:
    """The same of the k-th element of each row."""
    return size <= SMALL


def ascending(x: Any, y: Any) -> bool:
    """x before y, NaN last."""
    return x < y or (y != y and x == x)


def descending(x: Any, y: Any) -> bool:
    """x before y, NaN first."""
    return x > y or (x != x and y == y)


def quick_select(row: list[Any], k: int) -> int:
    """Where the k-th smallest is (from 0), by Hoare's selection with a median of three."""
    at = list(range(len(row)))

    def greater(i: int, j: int) -> bool:
        return ascending(row[at[j]], row[at[i]])

    def swap(i: int, j: int) -> None:
        at[i], at[j] = at[j], at[i]

    left, right = 0, len(row) - 1
    while right > left + 1:
        swap(left + (right - left) // 2, left + 1)
        for i, j in ((left + 1, right), (left, right), (left + 1, left)):
            if greater(i, j):
                swap(i, j)
        low, high = left + 1, right
        while True:
            low += 1
            while greater(left, low):
                low += 1
            high -= 1
            while greater(high, left):
                high -= 1
            if high < low:
                break
            swap(low, high)
        swap(left, high)
        if high <= k:
            left = low
        if high >= k:
            right = high - 1
    if right == left + 1 and greater(left, right):
        swap(left, right)
    return at[k]


def insertion_sort(row: list[Any], at: list[int], first: int, last: int, less: Less) -> None:
    """Order at[first:last], equal elements as they stand."""
    for i in range(first + 1, last):
        item, j = at[i], i
        while j > first and less(row[item], row[at[j - 1]]):
            at[j] = at[j - 1]
            j -= 1
        at[j] = item


def _median_to_first(row: list[Any], at: list[int], first: int, last: int, less: Less) -> None:
    a, b, c = first + 1, first + (last - first) // 2, last - 1
    x, y, z = row[at[a]], row[at[b]], row[at[c]]
    if less(x, y):
        middle = b if less(y, z) else c if less(x, z) else a
    else:
        middle = a if less(x, z) else c if less(y, z) else b
    at[first], at[middle] = at[middle], at[first]


def _partition(row: list[Any], at: list[int], first: int, last: int, less: Less) -> int:
    """Split at[first:last] by a median of three; where the second part starts."""
    _median_to_first(row, at, first, last, less)
    pivot = row[at[first]]
    low, high = first + 1, last
    while True:
        while less(row[at[low]], pivot):
            low += 1
        high -= 1
        while less(pivot, row[at[high]]):
            high -= 1
        if low >= high:
            return low
        at[low], at[high] = at[high], at[low]
        low += 1


def sort(row: list[Any], at: list[int], last: int, less: Less) -> None:
    """Order at[:last] as the C++ standard library does: split down to SHORT, then insert."""
    parts = [(0, last)]
    while parts:
        first, end = parts.pop()
        while end - first > SHORT:
            cut = _partition(row, at, first, end, less)
            parts.append((cut, end))
            end = cut
    insertion_sort(row, at, 0, last, less)


def nth_element(row: list[Any], at: list[int], nth: int, less: Less) -> None:
    """Permute positions until the nth is in its place, as the C++ standard library does."""
    first, last = 0, len(at)
    while last - first > 3:
        cut = _partition(row, at, first, last, less)
        if cut <= nth:
            first = cut
        else:
            last = cut
    insertion_sort(row, at, first, last, less)


def select_top(row: list[Any], k: int, largest: bool, in_order: bool) -> list[int]:
    """Positions of the k best elements."""
    less = descending if largest else ascending
    at = list(range(len(row)))
    nth_element(row, at, k - 1, less)
    if in_order:
        sort(row, at, k - 1, less)
    return at[:k]


def ordered(row: list[Any], largest: bool) -> list[int]:
    """Positions of all elements in order."""
    at = list(range(len(row)))
    sort(row, at, len(row), descending if largest else ascending)
    return at
