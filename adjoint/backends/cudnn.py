"""`backends.cudnn`: the switches programs set. Results are deterministic whatever they say."""

from __future__ import annotations

from adjoint.engine.core.switches import SwitchOverride, route


def is_available() -> bool:
    """Whether operations run through cuDNN; they do not."""
    return False


def version() -> int | None:
    """cuDNN's version where it is used: None."""
    return None


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> SwitchOverride:
    """Set the switches inside a `with` block."""
    values = {
        "enabled": enabled,
        "benchmark": benchmark,
        "benchmark_limit": benchmark_limit,
        "deterministic": deterministic,
        "allow_tf32": allow_tf32,
        "fp32_precision": fp32_precision,
    }
    return SwitchOverride({f"backends.cudnn.{name}": value for name, value in values.items()})


route(__name__)
