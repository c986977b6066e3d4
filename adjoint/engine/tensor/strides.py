"""Which strides a result will have, for tensors whose elements are not there yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adjoint.engine.core.layout import format_strides, ordered_strides, preserve_format
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.result_layouts import RULES
from adjoint.engine.core.spec import contiguous_strides, is_larger, same_shape

Shape = tuple[int, ...]
_INTEGERS = frozenset({int})


class _Unordered(Exception):
    """Two symbols of which now the one and now the other is larger."""


def result_strides(
    record: Record, operands: tuple[Any, ...], params: dict[str, Any], shape: Shape
) -> Shape | None:
    """The strides eager execution would give a result; None means row-major.

    Where operands lie differently, the first that has an order decides (`merged_strides`).
    """
    wanted: Shape | str | None = params.get("strides", "same")
    if not isinstance(wanted, str):
        return wanted
    if not record.keeps_layout:
        return None
    if record.keeps_layout in RULES:
        places = [(tuple(x._array.shape), tuple(x.stride())) for x in operands if is_tensor(x)]
        return RULES[record.keeps_layout](places, shape, params.get("dim"))
    if record.keeps_layout == "first":
        operands = operands[:1]
    alike: set[Shape] = set()
    given: list[Shape] = []
    spread = False  # whether one of several dimensions has another shape
    for x in operands:
        if is_tensor(x):
            steps = tuple(x.stride())
            if same_shape(x._array.shape, shape):
                alike.add(steps)
            else:
                spread = spread or x.ndim > 1
            if x.ndim > 1:
                given.append(broadcast_strides(x._array.shape, steps, len(shape)))
    if len(alike) != 1 or spread:
        return merged_strides(shape, given)
    (strides,) = alike
    assert strides is not None
    return format_strides(record.name, shape, strides, preserve_format) or strides


def broadcast_strides(shape: Shape, strides: Shape, rank: int) -> Shape:
    """The strides of an operand as one of this rank: 0 where it has but one element."""
    steps = zip(shape, strides, strict=True)
    own = tuple([step if type(size) is not int or size != 1 else 0 for size, step in steps])
    return (0,) * (rank - len(own)) + own


def merged_strides(shape: Shape, operands: Iterable[Shape]) -> Shape | None:
    """The strides PyTorch gives the result of operands with these strides; None: row-major.

    Which of two dimensions lies inside the other, the first operand says that has a stride along
    both; one that repeats itself along one of them says nothing. Symbols that no rule tells apart
    leave it row-major, which a check at other sizes finds out where it is not so.

    >>> merged_strides((2, 3), [(1, 2), (0, 1)]), merged_strides((2, 3), [(3, 1), (1, 2)])
    ((1, 2), None)
    """
    given = list(operands)
    plain = _INTEGERS.issuperset(map(type, (*shape, *[step for steps in given for step in steps])))
    order = list(range(len(shape)))[::-1]  # innermost first
    inside = _lies_inside if plain else _surely_inside
    try:
        for i in range(1, len(order)):
            at = i
            for j in reversed(range(i)):
                turned = inside(order[at], order[j], shape, given)
                if turned:
                    order[j], order[at] = order[at], order[j]
                    at = j
                elif turned is False:
                    break
    except _Unordered:
        return None
    order.reverse()
    if not plain:
        return None if order == sorted(order) else ordered_strides(shape, order)
    strides = ordered_strides(shape, order)
    return None if strides == contiguous_strides(shape) else strides


def _lies_inside(inner: int, outer: int, shape: Shape, given: Iterable[Shape]) -> bool | None:
    """Whether one dimension lies inside another in memory; None where no operand says."""
    for steps in given:
        one, other = steps[outer], steps[inner]
        if not one or not other:
            continue
        if one != other:
            return one > other
        if shape[outer] > shape[inner]:
            return True
    return None


def _surely_inside(inner: int, outer: int, shape: Shape, given: Iterable[Shape]) -> bool | None:
    """The same of strides and sizes some of which are symbols, for all that these stand for."""

    def larger(a: int, b: int) -> bool:
        outcome = is_larger(a, b)
        if outcome is None:
            raise _Unordered
        return outcome

    for steps in given:
        one, other = steps[outer], steps[inner]
        if not larger(one, 0) or not larger(other, 0):
            continue
        if larger(one, other):
            return True
        if larger(other, one):
            return False
        if larger(shape[outer], shape[inner]):
            return True
    return None


def lane_strides(value: Any, shape: Shape) -> Shape | None:
    """The strides of one lane of a batched value, or of the value itself; None: row-major."""
    if value.is_contiguous():
        return None
    strides = tuple(value.stride())
    if len(strides) == len(shape):
        return strides
    return format_strides("vmap", shape, strides[1:], preserve_format)
