"""The kernel of conditions on values."""

from __future__ import annotations

from typing import Any

from adjoint.backends.array.table import lowers
from adjoint.ops import checks

Array = Any


@lowers(checks.REQUIRE)
def require(xp: Any, x: Array, condition: Array, message: str) -> Array:
    if not bool(condition.all()):
        raise RuntimeError(message)
    return x.copy()
