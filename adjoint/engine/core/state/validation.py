"""Validation of compiled programs: whether it is asked for, and its error."""

from __future__ import annotations

import os


class ValidationError(RuntimeError):
    """A compiled kernel differs from the reference interpreter: `compile(fn, validate=True)`.

    The message names the kernel, the operations fused in it with the lines that asked for them, and
    the first element that differs.
    """


def validating() -> bool:
    """Whether the first call of every program is to be checked: `ADJOINT_VALIDATE=1`."""
    return os.environ.get("ADJOINT_VALIDATE", "0") not in ("", "0")
