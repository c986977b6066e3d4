"""Kernels of special functions: SciPy's on the CPU, CuPy's port of them on CUDA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.backends.array.table import lowers
from adjoint.core.record import Record
from adjoint.ops.special import bessel, gamma, normal

Array = Any

# Our record -> the function's name in scipy.special and cupyx.scipy.special.
SCIPY: dict[Record, str] = {
    bessel.BESSEL_J0: "j0",
    bessel.BESSEL_J1: "j1",
    bessel.BESSEL_Y0: "y0",
    bessel.BESSEL_Y1: "y1",
    bessel.I1: "i1",
    bessel.I0E: "i0e",
    bessel.I1E: "i1e",
    bessel.BESSEL_K0: "k0",
    bessel.BESSEL_K1: "k1",
    bessel.BESSEL_K0E: "k0e",
    bessel.BESSEL_K1E: "k1e",
    normal.NDTR: "ndtr",
    normal.NDTRI: "ndtri",
    normal.LOG_NDTR: "log_ndtr",
    normal.ERFCX: "erfcx",
    normal.ENTR: "entr",
    normal.XLOG1PY: "xlog1py",
    gamma.ZETA: "zeta",
}


def scipy_function(xp: Any, name: str) -> Callable[..., Array]:
    """scipy.special's function for arrays of `xp`; through the host where CuPy has none."""
    import scipy.special

    if xp is np:
        return getattr(scipy.special, name)
    import cupyx.scipy.special

    found = getattr(cupyx.scipy.special, name, None)
    if found is not None:
        return found
    on_host = getattr(scipy.special, name)

    def through_host(*arrays: Array) -> Any:
        result = on_host(*(xp.asnumpy(a) if hasattr(a, "get") else a for a in arrays))
        return tuple(map(xp.asarray, result)) if isinstance(result, tuple) else xp.asarray(result)

    return through_host


def _register(record: Record, name: str) -> None:
    @lowers(record)
    def kernel(xp: Any, *arrays: Array) -> Array:
        return scipy_function(xp, name)(*arrays)


for _record, _name in SCIPY.items():
    _register(_record, _name)


@lowers(bessel.SPHERICAL_BESSEL_J0)
def spherical_bessel_j0(xp: Any, x: Array) -> Array:
    quotient = xp.sin(x) / xp.where(x == 0, 1, x)
    return xp.where(x == 0, 1, xp.where(xp.isinf(x), 0, quotient)).astype(x.dtype)


@lowers(bessel.AIRY_AI)
def airy_ai(xp: Any, x: Array) -> Array:
    return scipy_function(xp, "airy")(x)[0]


@lowers(bessel.AIRY_AI_PRIME)
def airy_ai_prime(xp: Any, x: Array) -> Array:
    return scipy_function(xp, "airy")(x)[1]
