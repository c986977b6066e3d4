"""The way from a record to SciPy's special functions, and to CuPy's copies of them on CUDA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.engine.backends.array.devices import beside_cupy
from adjoint.engine.backends.array.kernels.elementwise.kernels import pair
from adjoint.engine.backends.array.table import lowers
from adjoint.engine.core.operations.record import Record

Array = Any


def special(xp: Any) -> Any:
    """The library of special functions that belongs to an array library."""
    if xp is np:
        import scipy.special

        return scipy.special
    if hasattr(xp, "special"):  # a device from outside
        return xp.special
    return beside_cupy(xp, "cupyx.scipy.special")


def function(xp: Any, name: str) -> Callable[..., Any]:
    """A special function for arrays of `xp`; through the host where CuPy has none of that name."""
    function = getattr(special(xp), name, None)
    if function is not None:
        return function
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
