"""Kernels of the error functions."""

from __future__ import annotations

from adjoint.engine.backends.array.kernels.special.scipy_functions import by_name
from adjoint.engine.ops.elementwise import error_functions

by_name(error_functions.ERF, "erf")
by_name(error_functions.ERFC, "erfc")
by_name(error_functions.ERFINV, "erfinv")
