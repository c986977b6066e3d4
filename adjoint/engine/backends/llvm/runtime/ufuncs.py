"""NumPy's own inner loops: what its universal functions call for elements of one dtype.

Which function computes which dtypes is part of NumPy's C interface (`PyUFuncObject`), the same in
all its releases of late. It is tried before it is relied upon: one that adds adds here too.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from adjoint.engine.backends.llvm.runtime.peeking import COUNTED, HEAD

_WORD = ctypes.sizeof(ctypes.c_void_p)
# After the head of every object: four ints, then the functions, their data and how many.
_FUNCTIONS, _DATA, _COUNT = HEAD + 16, HEAD + 16 + _WORD, HEAD + 16 + 2 * _WORD


class InnerLoop(NamedTuple):
    """void f(char **arguments, intp *sizes, intp *steps, void *data)."""

    address: int
    data: int


def inner_loop_of(ufunc: np.ufunc, kinds: str) -> InnerLoop | None:
    """What computes `kinds` ("ff->f"), the first of those that do; None where there is none."""
    if not is_laid_out() or kinds not in ufunc.types:
        return None
    return _read(ufunc, ufunc.types.index(kinds))


def _read(ufunc: np.ufunc, k: int) -> InnerLoop | None:
    where = id(ufunc)
    if ctypes.c_int.from_address(where + _COUNT).value != len(ufunc.types):
        return None
    functions = ctypes.c_void_p.from_address(where + _FUNCTIONS).value
    data = ctypes.c_void_p.from_address(where + _DATA).value
    if not functions:
        return None
    function = ctypes.c_void_p.from_address(functions + k * _WORD).value
    own = ctypes.c_void_p.from_address(data + k * _WORD).value if data else None
    return InnerLoop(function, own or 0) if function else None


@cache
def is_laid_out() -> bool:
    """Whether universal functions are laid out as expected: the heads say so, and one adds."""
    for ufunc in (np.add, np.exp, np.matmul, np.equal):
        heads = (ctypes.c_int * 3).from_address(id(ufunc) + HEAD)
        if not COUNTED or [*heads] != [ufunc.nin, ufunc.nout, ufunc.nargs]:
            return False
        if ctypes.c_int.from_address(id(ufunc) + _COUNT).value != len(ufunc.types):
            return False
    loop = _read(np.add, np.add.types.index("ff->f"))
    return loop is not None and _adds(loop)


def _adds(loop: InnerLoop) -> bool:
    x, y, out = (np.array(v, np.float32) for v in ([1, 2, 3], [4, 5, 6], [0, 0, 0]))
    addresses: Any = (ctypes.c_void_p * 3)(*[a.ctypes.data for a in (x, y, out)])
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(loop.address)
    sizes, steps = (ctypes.c_ssize_t * 1)(3), (ctypes.c_ssize_t * 3)(4, 4, 4)
    call(ctypes.addressof(addresses), ctypes.addressof(sizes), ctypes.addressof(steps), loop.data)
    return bool((out == x + y).all())
