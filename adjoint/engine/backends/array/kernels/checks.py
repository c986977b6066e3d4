"""The kernel of conditions on values."""

from __future__ import annotations

from typing import Any

from adjoint.engine.backends.array.table import lowers
from adjoint.engine.ops.common import checks

Array = Any


@lowers(checks.REQUIRE)
def require(
    xp: Any, x: Array, condition: Array, message: str, error: str = "RuntimeError"
) -> Array:
    if not bool(condition.all()):
        wrong = x[~condition] if x.shape == condition.shape and x.dtype.kind in "iu" else None
        raise checks.failure(message, error, None if wrong is None else int(wrong[0]))
    return x.copy()
