"""Addresses that programs know by name: inner loops of universal functions, routines of LAPACK.

A loop of NumPy's and SciPy's is "module:function:dtypes:part", a routine of LAPACK or BLAS
"module:function", and what says on how many threads either runs is one of THREADS. Programs are
kept on disk with the names, and get the addresses when they are loaded; of the modules here alone,
whatever a file says.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

import numpy as np

from adjoint.engine.backends import threads
from adjoint.engine.backends.llvm.runtime import routines
from adjoint.engine.backends.llvm.runtime.library import UnknownSymbol
from adjoint.engine.backends.llvm.runtime.ufuncs import InnerLoop, inner_loop_of

MATRICES, SPECIAL, OWN_SPECIAL = (
    "numpy.linalg._umath_linalg", "scipy.special", "scipy.special._ufuncs",
)  # fmt: skip
MODULES = frozenset({MATRICES, SPECIAL, OWN_SPECIAL})


THREADS = {"threads of numpy": "numpy", "threads of scipy": "scipy"}  # name -> library
NUMPY_THREADS, SCIPY_THREADS = THREADS


@cache
def loop_of(module: str, function: str, kinds: str) -> InnerLoop | None:
    """A universal function's inner loop for some dtypes ("d->dd"); None where there is none."""
    if module not in MODULES:
        return None
    try:
        ufunc = getattr(import_module(module), function)
    except (ImportError, AttributeError):  # NumPy's and SciPy's own affair: one may be gone
        return None
    return inner_loop_of(ufunc, kinds) if isinstance(ufunc, np.ufunc) else None


def names_of(module: str, function: str, kinds: str) -> tuple[str, str]:
    """What a loop's address and that of its data are called."""
    stem = f"{module}:{function}:{kinds}"
    return f"{stem}:address", f"{stem}:data"


def address_of(name: str) -> int:
    """What a name stands for in this process.

    >>> address_of(names_of(SPECIAL, "i0", "d->d")[0]) > 0
    True
    """
    if name in THREADS:
        return threads.setter_of(THREADS[name])
    module, function, kinds, part = (*name.split(":"), "", "", "", "")[:4]
    if module in routines.MODULES:
        routine = routines.routine_of(module, function)
        if routine is None:
            raise UnknownSymbol(f"{function} of {module} is not there")
        return routine
    loop = loop_of(module, function, kinds)
    if loop is None or part not in InnerLoop._fields:
        raise UnknownSymbol(f"{function} of {module} for {kinds} is not there")
    address: int = getattr(loop, part)
    return address
