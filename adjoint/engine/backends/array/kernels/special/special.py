"""Kernels of special functions: SciPy's on the CPU, CuPy's port of them on CUDA."""

from __future__ import annotations

from typing import Any

from adjoint.engine.backends.array.kernels.special.scipy_functions import by_name, function
from adjoint.engine.backends.array.table import lowers
from adjoint.engine.core.operations.record import Record
from adjoint.engine.ops.special import bessel, normal
from adjoint.engine.ops.special import zeta as gamma

Array = Any

# Our record -> the function's name in scipy.special and cupyx.scipy.special.
SCIPY: dict[Record, str] = {
    bessel.BESSEL_J0: "j0",
    bessel.BESSEL_J1: "j1",
    bessel.BESSEL_Y0: "y0",
    bessel.BESSEL_Y1: "y1",
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


for _record, _name in SCIPY.items():
    by_name(_record, _name)


@lowers(bessel.SPHERICAL_BESSEL_J0)
def spherical_bessel_j0(xp: Any, x: Array) -> Array:
    quotient = xp.sin(x) / xp.where(x == 0, 1, x)
    return xp.where(x == 0, 1, xp.where(xp.isinf(x), 0, quotient)).astype(x.dtype)


@lowers(bessel.AIRY_AI)
def airy_ai(xp: Any, x: Array) -> Array:
    return function(xp, "airy")(x)[0]


@lowers(bessel.AIRY_AI_PRIME)
def airy_ai_prime(xp: Any, x: Array) -> Array:
    return function(xp, "airy")(x)[1]
