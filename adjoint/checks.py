"""PyTorch's checks (`torch._check` and the like) and symbolic types (`SymInt`).

A captured program's sizes are plain integers here, so the symbolic types have no instances.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from adjoint.engine.core.errors import AcceleratorError, OutOfMemoryError
from adjoint.engine.tensor.tensor import Tensor
from adjoint.overrides import handle_torch_function, has_torch_function

__all__ = ["AcceleratorError", "OutOfMemoryError", "SymBool", "SymFloat", "SymInt"]


class SymInt:
    """An integer of a program being captured; there are none, sizes are plain."""


class SymFloat:
    """A float of a program being captured; there are none."""


class SymBool:
    """A condition of a program being captured; there are none."""


def _assert(condition: Any, message: str) -> Any:
    """Raise AssertionError unless a condition holds; a traced one is checked when it is known."""
    if type(condition) not in (bool, Tensor) and has_torch_function((condition,)):
        return handle_torch_function(_assert, (condition,), condition, message)
    if not bool(condition):
        raise AssertionError(message)
    return None


def _assert_async(condition: Any, message: str = "") -> None:
    """Raise unless a tensor of one element is not zero; PyTorch may do so later."""
    if not bool(condition):
        raise RuntimeError(message or "Expected Tensor with single nonzero value, but got zero")


def _check_with(
    error: type[Exception], condition: Any, message: Callable[[], str] | None = None
) -> None:
    """Raise an error of one's own unless a condition holds."""
    if not isinstance(condition, bool):
        raise TypeError(f"cond must be a bool, but got {type(condition)}")
    if not condition:
        text = "Expected cond to be True, but got False."
        raise error(text if message is None else str(message()))


def _check(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise RuntimeError unless a condition holds."""
    _check_with(RuntimeError, cond, message)


def _check_value(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise ValueError unless a condition holds."""
    _check_with(ValueError, cond, message)


def _check_index(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise IndexError unless a condition holds."""
    _check_with(IndexError, cond, message)


def _check_type(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise TypeError unless a condition holds."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise NotImplementedError unless a condition holds."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all(cond: Tensor, message: Callable[[], str] | None = None) -> None:
    """Raise RuntimeError unless a condition holds everywhere."""
    _check_with(RuntimeError, bool(cond.all()), message)


def _check_tensor_all_with(
    error_type: type[Exception], cond: Tensor, message: Callable[[], str] | None = None
) -> None:
    """Raise an error of one's own unless a condition holds everywhere."""
    _check_with(error_type, bool(cond.all()), message)


def _check_is_size(i: int, message: Callable[[], str] | None = None, *, max: Any = None) -> None:
    """Raise RuntimeError for a negative size."""
    _check_with(RuntimeError, bool(i >= 0), message)


def sym_int(a: Any) -> int:
    """A number as an integer."""
    return int(a)


def sym_float(a: Any) -> float:
    """A number as a float."""
    return float(a)


def sym_sqrt(a: Any) -> float:
    """The square root."""
    return math.sqrt(a)


def sym_constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Raise RuntimeError for a number outside a range, whose ends belong to it."""
    value = int(size)
    if (min is not None and value < min) or (max is not None and value > max):
        raise RuntimeError(f"Invalid value range for {value} between [{min}, {max}].")


def sym_constrain_range_for_size(
    size: Any, *, min: int | None = None, max: int | None = None
) -> None:
    """The same of a size: it is not negative, and its largest value is more than 2."""
    if max is not None and max <= 2:
        raise RuntimeError(
            f"Max value to constrain_range_for_size must be greater than 2. got: {max}"
        )
    sym_constrain_range(size, min=0 if min is None else min, max=max)


def sym_max(a: Any, b: Any) -> Any:
    """The greater."""
    return max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The lesser."""
    return min(a, b)


def sym_not(a: Any) -> bool:
    """The opposite."""
    return not a


def sym_sum(args: Any) -> Any:
    """The sum."""
    return sum(args)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """The second where the first holds, else the third."""
    return t if b else f


def _has_compatible_shallow_copy_type(input: Any, from_: Any) -> bool:
    """Whether one tensor may take over the memory of another: of one class and layout."""
    return type(input) is type(from_) and bool(input.layout is from_.layout)
