"""Which strides a result will have, for tensors whose elements are not there yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.core.layout import (
    broadcast_strides,
    elementwise_strides,
    format_strides,
    merged_order,
    ordered_strides,
    preserve_format,
)
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.result_layouts import RULES, Place, picked_places
from adjoint.engine.core.spec import contiguous_strides, is_larger, same_shape

Shape = tuple[int, ...]
_INTEGERS = frozenset({int})


class _Unordered(Exception):
    """Two symbols of which now the one and now the other is larger."""


def result_strides(
    record: Record, operands: tuple[Any, ...], params: dict[str, Any], shape: Shape
) -> Shape | None:
    """The strides eager execution would give a result; None means row-major."""
    wanted: Shape | str | None = params.get("strides", "same")
    if not isinstance(wanted, str):
        return wanted
    if not record.keeps_layout:
        return None
    if record.keeps_layout in RULES:
        seen = [(tuple(x._array.shape), tuple(x.stride())) for x in operands if is_tensor(x)]
        return RULES[record.keeps_layout](seen, shape, params.get("dim"))
    if record.keeps_layout == "first":
        operands = operands[:1]
    places = [
        (tuple(x._array.shape), tuple(x.stride())) if is_tensor(x) else ((), ()) for x in operands
    ]
    if record.keeps_layout == "picked":
        if not params.get("wrap", True):
            return None
        places = picked_places(places, shape, params["dims"])
    places = [place for place in places if len(place[0]) <= len(shape)]  # others are reduced
    numbers = [n for its, steps in places for n in (*its, *steps)]
    if _INTEGERS.issuperset(map(type, (*shape, *numbers))):
        strides = elementwise_strides(shape, places)
        return None if strides == contiguous_strides(shape) else strides
    return _strides_of_symbols(record, places, shape)


def _strides_of_symbols(record: Record, places: list[Place], shape: Shape) -> Shape | None:
    """The same where sizes are symbols.

    Where operands lie differently and no rule tells which of two symbols is larger, it is
    row-major, which a check at other sizes finds out where it is not so.
    """
    alike = {steps for its, steps in places if same_shape(its, shape)}
    several = [place for place in places if len(place[0]) > 1]
    if len(alike) == 1 and all(same_shape(its, shape) for its, _ in several):
        (strides,) = alike
        return format_strides(record.name, shape, strides, preserve_format) or strides
    given = [broadcast_strides(*place, shape) for place in several]
    try:
        order = merged_order(shape, given, _surely_inside)
    except _Unordered:
        return None
    return None if order == sorted(order) else ordered_strides(shape, order)


def _surely_inside(inner: int, outer: int, shape: Shape, given: Sequence[Shape]) -> bool | None:
    """Whether one dimension lies inside another, for all that symbols stand for."""

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
