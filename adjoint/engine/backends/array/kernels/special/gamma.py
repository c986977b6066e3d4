"""Kernels of the gamma function's family."""

from __future__ import annotations

import math
from typing import Any

from adjoint.engine.backends.array.kernels.special.scipy_functions import by_name, function
from adjoint.engine.backends.array.table import lowers
from adjoint.engine.ops.special import gamma_family as gamma

Array = Any
TINY = 1e-300  # below it the gamma function is 1 / x

by_name(gamma.I0, "i0")
by_name(gamma.I1, "i1")
by_name(gamma.IGAMMA, "gammainc")
by_name(gamma.IGAMMAC, "gammaincc")


@lowers(gamma.LGAMMA)
def lgamma(xp: Any, x: Array) -> Array:
    value = function(xp, "gammaln")(xp.where(x == -math.inf, -x, x))
    if x.dtype != xp.float64:
        return value
    tiny = (x != 0) & (xp.abs(x) < TINY)  # SciPy is infinite at what is subnormal
    return xp.where(tiny, -xp.log(xp.abs(xp.where(tiny, x, 1.0))), value)


@lowers(gamma.POLYGAMMA)
def polygamma(xp: Any, x: Array, n: int) -> Array:
    if n == 0:
        value = function(xp, "psi")(x)
        zero = xp.copysign(xp.asarray(math.inf, x.dtype), -x)
        pole = (x < 0) & (x == xp.floor(x))  # where CuPy's is infinite, and SciPy's is not
        return xp.where(x == 0, zero, xp.where(pole, xp.asarray(math.nan, x.dtype), value))
    scale = math.factorial(n) * (1 if n % 2 else -1)
    value = scale * function(xp, "zeta")(xp.asarray(n + 1.0, x.dtype), x)
    if n > 1:
        return value
    # PyTorch reflects, and so has a large number where the pole at a negative integer is.
    pole = (x <= 0) & (x == xp.floor(x))
    return xp.where(pole, (math.pi / xp.sin(math.pi * x)) ** 2, value)
