"""Declaring functions of real arguments: integers promote to float, complex is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core.dtype import DType
from adjoint.core.families import elementwise
from adjoint.core.promotion import promote, specs_of
from adjoint.core.record import Record

Partial = Callable[..., Any] | float | None


def real_elementwise(name: str, *partials: Partial) -> Record:
    """An elementwise operation on real numbers, computed in floating point."""

    def infer_dtype(*operands: Any, **_: Any) -> DType:
        if not specs_of(operands):
            raise TypeError(f"{name}: at least one argument must be a Tensor, received {operands}")
        result = promote("float", operands)[1]
        if result.is_complex:
            raise NotImplementedError(
                f'"{name}" not implemented for {result.name!r}: the function is defined here for '
                "real arguments. Pass .real, or .abs()."
            )
        return result

    return elementwise(name, *partials, promotion="float", infer_dtype=infer_dtype)


def over(numerator: Any, x: Any, at_zero: float) -> Any:
    """numerator / x, with its limit where x is zero (and no division there, to any order)."""
    zero = x == 0
    return (numerator / x.masked_fill(zero, 1)).masked_fill(zero, at_zero)
