"""Whole parts of quotients of sizes, as programs write them: `int(n / 4)`, `ceil(1.25 * n / 6)`.

A float that is rounded at most once, at its last step, has the whole part of the fraction it stands
for: a fraction p/q that is no whole number is at least 1/q away from the next one, which is more
than rounding changes while p is below 2**53. So the whole part is a quotient of whole numbers, a
size like others. Of what is rounded before (`n / 6 * 1.25`) no such thing is known.
"""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import Any

from adjoint.engine.core.spec import is_larger
from adjoint.engine.graph.sizes.extents import Extent, ExtentFloat

_MOST = 1 << 16  # of factors: sizes below 2**37 are then exact when multiplied


def whole_part(x: ExtentFloat, round_up: bool = False) -> int | None:
    """The largest whole number up to x, or the least from x on; None where that is not known.

    >>> from adjoint.engine.graph.sizes.extents import SizeScope
    >>> n = Extent.symbol("n", 10, SizeScope())
    >>> whole_part(n * 4 / 4.0).poly, int(whole_part(n * 1.25 / 6, round_up=True))
    ({('n',): 1}, 3)
    """
    found = _fraction_of(x)
    if found is None:
        return None
    size, factor, _ = found
    above, below = size * factor.numerator, factor.denominator
    if not is_larger(size, -1):
        return None
    return -(-above // below) if round_up else above // below


def _fraction_of(x: Any) -> tuple[Extent, Fraction, bool] | None:
    """A size and what it is multiplied by, and whether that leaves it exact; None: else."""
    if isinstance(x, Extent):
        return x, Fraction(1), True
    if not isinstance(x, ExtentFloat):
        return None
    fn, a, b = x.parts
    if fn is operator.mul and not isinstance(a, (Extent, ExtentFloat)):
        a, b = b, a
    if fn not in (operator.mul, operator.truediv) or isinstance(b, (Extent, ExtentFloat)):
        return None
    found = _fraction_of(a)
    if found is None or not found[2] or not math.isfinite(b) or b <= 0:
        return None
    by = Fraction(b)
    factor = found[1] * by if fn is operator.mul else found[1] / by
    if factor.numerator > _MOST or factor.denominator > _MOST:
        return None
    halved = by.numerator & (by.numerator - 1) == 0  # a divisor that is a power of two
    return found[0], factor, fn is operator.mul or halved
