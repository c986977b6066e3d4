"""Every operation that takes a number of Python's beside a tensor, for any library of that API."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

Operation = Callable[[Any, Any, Any], Any]  # of the library, a tensor and a number
DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()
NUMBERS: list[Any] = [
    255, 256, -1, -129, 127, 300, 2**31, -(2**31) - 1, 2**32, 2**63 - 1, 2**63, -(2**63),
    -(2**63) - 1, 2**64 - 1, 2**64, 10**30, 1.5, 300.0, 1e10, 1e20, 1e39, 1e308, math.inf, math.nan,
]  # fmt: skip


def _assigned(key: Callable[[Any], Any]) -> Operation:
    def assign(library: Any, x: Any, number: Any) -> Any:
        x[key(library)] = number
        return x

    return assign


def _mask(library: Any) -> Any:
    return library.tensor([True, False, True])


def _function(name: str) -> Operation:
    return lambda library, x, number: getattr(library, name)(x, number)


def _method(name: str) -> Operation:
    return lambda library, x, number: getattr(x, name)(number)


def _reflected(name: str) -> Operation:
    operate = getattr(operator, name)
    return lambda library, x, number: operate(number, x)


_FUNCTIONS = "add mul div floor_divide fmod pow eq ne lt le gt ge float_power".split()
_METHODS = "add_ mul_ fill_ clamp_min clamp_max clamp_min_ eq_ bitwise_and_".split()
_RIGHT = "add sub mul and_ or_ xor".split()
OPERATIONS: dict[str, Operation] = {
    **{name: _function(name) for name in _FUNCTIONS},
    **{f"x.{name}": _method(name) for name in _METHODS},
    **{f"n {name} x": _reflected(name) for name in _RIGHT},
    "clamp": lambda library, x, number: library.clamp(x, number, number),
    "where x n": lambda library, x, number: library.where(_mask(library), x, number),
    "where n x": lambda library, x, number: library.where(_mask(library), number, x),
    "masked_fill": lambda library, x, number: x.masked_fill(_mask(library), number),
    "x[0] =": _assigned(lambda library: 0),
    "x[:] =": _assigned(lambda library: slice(None)),
    "x[mask] =": _assigned(_mask),
    "x[picked] =": _assigned(lambda library: library.tensor([0, 2])),
    "index_fill": lambda library, x, number: x.index_fill(0, library.tensor([1]), number),
    "scatter": lambda library, x, number: x.scatter(0, library.tensor([1]), number),
    "full_like": lambda library, x, number: library.full_like(x, number),
    "full": lambda library, x, number: library.full((2,), number, dtype=x.dtype),
    "new_full": lambda library, x, number: x.new_full((2,), number),
    "tensor": lambda library, x, number: library.tensor([number], dtype=x.dtype),
    "searchsorted": lambda library, x, number: library.searchsorted(x.sort()[0], number),
}


def operand(library: Any, dtype: str) -> Any:
    """A tensor whose elements every dtype has."""
    return library.tensor([1, 0, 1], dtype=getattr(library, dtype))


def outcome(library: Any, operation: str, dtype: str, number: Any) -> Any:
    """What an operation gives, as dtype and elements, or the exception it raises."""
    try:
        found = OPERATIONS[operation](library, operand(library, dtype), number)
    except Exception as error:
        return error
    return str(found.dtype).rpartition(".")[2], repr(found.tolist())
