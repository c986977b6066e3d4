"""Kernels of the gamma and error functions: SciPy's on the CPU, CuPy's copies of them on CUDA."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.backends.array.elementwise import pair
from adjoint.backends.array.table import lowers
from adjoint.core.record import Record
from adjoint.ops import gamma

Array = Any


def special(xp: Any) -> Any:
    """The library of special functions that belongs to an array library."""
    if xp is np:
        import scipy.special

        return scipy.special
    import cupyx.scipy.special

    return cupyx.scipy.special


def function(xp: Any, name: str) -> Callable[..., Any]:
    """A special function for arrays of `xp`; through the host where CuPy has none of that name."""
    found = getattr(special(xp), name, None)
    if found is not None:
        return found
    on_host = getattr(special(np), name)

    def through_host(*arrays: Array) -> Any:
        result = on_host(*(xp.asnumpy(a) if hasattr(a, "get") else a for a in arrays))
        return tuple(map(xp.asarray, result)) if isinstance(result, tuple) else xp.asarray(result)

    return through_host


def by_name(record: Record, name: str) -> None:
    """A kernel that is a function of the library."""

    @lowers(record)
    def kernel(xp: Any, *arrays: Array) -> Array:
        if len(arrays) == 2:
            arrays = pair(xp, *arrays)
        return function(xp, name)(*arrays)


by_name(gamma.ERF, "erf")
by_name(gamma.ERFC, "erfc")
by_name(gamma.ERFINV, "erfinv")
by_name(gamma.LGAMMA, "gammaln")
by_name(gamma.I0, "i0")


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
