"""Routines of LAPACK and BLAS that SciPy offers to C, by their addresses.

`scipy.linalg.cython_lapack` and `cython_blas` have a capsule for each routine, whose name is its
type: "void (char *, int *, ...)", all arguments by reference. One is tried before any is used.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib import import_module

import numpy as np

from adjoint.engine.backends import threads

LAPACK, BLAS = "scipy.linalg.cython_lapack", "scipy.linalg.cython_blas"
MODULES = frozenset({LAPACK, BLAS})


@cache
def routine_of(module: str, function: str) -> int | None:
    """Where a routine begins; None where it is not, or its whole numbers are not of 32 bits."""
    if module not in MODULES or not factors():
        return None
    return _address(module, function)


def _address(module: str, function: str) -> int | None:
    try:
        capsule = import_module(module).__pyx_capi__[function]
    except (ImportError, AttributeError, KeyError):  # SciPy's own affair: one may be gone
        return None
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    name = api.PyCapsule_GetName(capsule)
    kinds = [kind.strip() for kind in name.decode().removeprefix("void (").rstrip(")").split(",")]
    if not name.startswith(b"void (") or "int *" not in kinds or not all("*" in k for k in kinds):
        return None
    address = api.PyCapsule_GetPointer(capsule, name)
    threads.put_workers_first()  # by which the library that came with it has one thread
    return int(address) if address else None


@cache
def factors() -> bool:
    """Whether such a routine does what it should: Cholesky's factor of a matrix is right."""
    address = _address(LAPACK, "dpotrf")
    if address is None:
        return False
    matrix = np.array([[4.0, 2.0], [2.0, 5.0]])
    side, size, info = ctypes.c_char(b"U"), ctypes.c_int64(2), ctypes.c_int64(0)
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(address)(
        ctypes.addressof(side), ctypes.addressof(size), matrix.ctypes.data,
        ctypes.addressof(size), ctypes.addressof(info),
    )  # fmt: skip
    right = np.array_equal(matrix, [[2.0, 2.0], [1.0, 2.0]])
    return right and info.value == 0
