"""NumPy's floating-point warnings, off while a kernel runs: IEEE results are the contract.

`numpy.errstate` costs 1.9 us a use; setting the context variable behind it costs 0.3. Where a
NumPy release no longer has that variable, errstate itself is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

try:
    from numpy._core import umath as _umath

    _VARIABLE: Any = _umath._extobj_contextvar
    _QUIET: Any = _umath._make_extobj(all="ignore")
except (ImportError, AttributeError):  # a later NumPy
    _VARIABLE = None

if _VARIABLE is not None:
    _set, _reset = _VARIABLE.set, _VARIABLE.reset

    def quietly(kernel: Callable[..., Any], arrays: Any, params: dict[str, Any]) -> Any:
        """kernel(*arrays, **params) without floating-point warnings."""
        token = _set(_QUIET)
        try:
            return kernel(*arrays, **params)
        finally:
            _reset(token)
else:

    def quietly(kernel: Callable[..., Any], arrays: Any, params: dict[str, Any]) -> Any:
        """kernel(*arrays, **params) without floating-point warnings."""
        with np.errstate(all="ignore"):
            return kernel(*arrays, **params)
