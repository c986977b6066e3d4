"""What the special functions share: they take real arguments, in floating point."""

from __future__ import annotations

from functools import partial
from typing import Any

from adjoint.engine.core.numeric_limits import finfo
from adjoint.engine.core.operations.families import elementwise

real_elementwise = partial(elementwise, promotion="float", accepts="f")


def over(numerator: Any, x: Any, at_zero: float) -> Any:
    """numerator / x, with its limit where x is zero (and no division there, to any order).

    And where x is as good as zero: a numerator that is a part of it would be subnormal.
    """
    zero = x.abs() < 4 * finfo(x.dtype).tiny
    return (numerator / x.masked_fill(zero, 1)).masked_fill(zero, at_zero)
