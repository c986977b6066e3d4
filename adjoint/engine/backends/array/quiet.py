"""NumPy's floating-point warnings, off while a kernel runs: IEEE results are the contract.

`numpy.errstate` costs 1.9 us a use; setting the context variable behind it costs 0.3. Where a
NumPy release no longer has that variable, errstate itself is used.

Note [interrupts]
    Python looks for a Ctrl-C when a call has returned. One that came between setting the variable
    and storing the token would leave NumPy silent for good. So it is set by a subscription,
    `token = silence[QUIET]`, after which Python does not look before the token is stored.
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

    class Silence:
        """Sets the variable when subscribed (Note [interrupts]); gives what `restore` takes."""

        __slots__ = ()
        __getitem__: Any = _VARIABLE.set

    restore = _VARIABLE.reset
    QUIET = _QUIET
else:
    QUIET = None

    class Silence:  # type: ignore[no-redef]
        """Enters NumPy's own context when subscribed; gives what `restore` takes."""

        __slots__ = ()

        def __getitem__(self, _: Any) -> Any:
            state = np.errstate(all="ignore")
            state.__enter__()
            return state

    def restore(state: Any) -> None:
        """Leave it."""
        state.__exit__()


silence = Silence()


def quietly(kernel: Callable[..., Any], arrays: Any, params: dict[str, Any]) -> Any:
    """kernel(*arrays, **params) without floating-point warnings.

    The executor's fast path does the same inline: token = silence[QUIET] ... restore(token).
    """
    token = silence[QUIET]
    try:
        return kernel(*arrays, **params)
    finally:
        restore(token)
