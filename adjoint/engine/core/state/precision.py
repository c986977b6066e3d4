"""How precisely float32 matrix products are computed, where hardware offers a choice."""

from __future__ import annotations

_LEVELS = ("highest", "high", "medium")
_level = "highest"


def set_float32_matmul_precision(precision: str) -> None:
    """Allow float32 products to be computed from fewer bits.

    "highest" is float32 throughout; "high" and "medium" permit TF32 and bfloat16 inside. A
    permission, not a promise: products on the CPU stay float32.

    >>> import adjoint as ad
    >>> ad.set_float32_matmul_precision("high")
    >>> ad.get_float32_matmul_precision()
    'high'
    >>> ad.set_float32_matmul_precision("highest")
    """
    global _level
    if precision not in _LEVELS:
        raise RuntimeError(
            f"set_float32_matmul_precision: unknown precision {precision!r}. Use one of "
            f"{', '.join(_LEVELS)}."
        )
    _level = precision


def get_float32_matmul_precision() -> str:
    """How precisely float32 matrix products are computed."""
    return _level
