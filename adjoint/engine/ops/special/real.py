"""What the special functions share: they take real arguments, in floating point."""

from __future__ import annotations

from functools import partial
from typing import Any

from adjoint.engine.core.operations.families import elementwise

real_elementwise = partial(elementwise, promotion="float", accepts="f")


def over(numerator: Any, x: Any, at_zero: float) -> Any:
    """numerator / x, with its limit where x is zero (and no division there, to any order)."""
    zero = x == 0
    return (numerator / x.masked_fill(zero, 1)).masked_fill(zero, at_zero)
