"""How precisely float32 matrix products are computed, where hardware offers a choice."""

from __future__ import annotations

from adjoint.engine.core.state import switches

LEVELS = ("highest", "high", "medium")
_NAME = "set_float32_matmul_precision"


def set_float32_matmul_precision(precision: str) -> None:
    """Allow float32 products on CUDA devices to be computed from fewer bits.

    "highest" is float32 throughout; "high" and "medium" permit TF32 on GPUs. Products on the CPU
    stay float32; where there is no CUDA device, the call says once that it has no effect.

    >>> import adjoint as ad
    >>> ad.set_float32_matmul_precision("highest")
    >>> ad.get_float32_matmul_precision()
    'highest'
    """
    if precision not in LEVELS:
        raise RuntimeError(
            f"set_float32_matmul_precision: unknown precision {precision!r}. Use one of "
            f"{', '.join(LEVELS)}."
        )
    switches.put(_NAME, precision)


def get_float32_matmul_precision() -> str:
    """How precisely float32 matrix products are computed."""
    return str(switches.get(_NAME))
