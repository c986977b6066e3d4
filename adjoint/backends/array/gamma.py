"""Kernels of the gamma function's family."""

from __future__ import annotations

import math
from typing import Any

from adjoint.backends.array.elementwise import pair
from adjoint.backends.array.scipy_functions import by_name, special
from adjoint.backends.array.table import lowers
from adjoint.ops import gamma

Array = Any


by_name(gamma.I0, "i0")
by_name(gamma.I1, "i1")


@lowers(gamma.LGAMMA)
def lgamma(xp: Any, x: Array) -> Array:
    return special(xp).gammaln(xp.where(x == -math.inf, -x, x))


@lowers(gamma.POLYGAMMA)
def polygamma(xp: Any, x: Array, n: int) -> Array:
    if n == 0:
        value = special(xp).psi(x)
        zero = xp.copysign(xp.asarray(math.inf, x.dtype), -x)
        return xp.where(x == 0, zero, value)
    scale = math.factorial(n) * (1 if n % 2 else -1)
    value = scale * special(xp).zeta(xp.asarray(n + 1.0, x.dtype), x)
    if n > 1:
        return value
    # PyTorch reflects, and so has a large number where the pole at a negative integer is.
    pole = (x <= 0) & (x == xp.floor(x))
    return xp.where(pole, (math.pi / xp.sin(math.pi * x)) ** 2, value)


@lowers(gamma.IGAMMA)
def igamma(xp: Any, x: Any, y: Any) -> Array:
    return special(xp).gammainc(*pair(xp, x, y))


@lowers(gamma.IGAMMAC)
def igammac(xp: Any, x: Any, y: Any) -> Array:
    return special(xp).gammaincc(*pair(xp, x, y))
