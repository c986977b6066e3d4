"""`backends.cudnn`: the switches of convolutions on a GPU.

`enabled` and `deterministic` are what they are in PyTorch; `benchmark` has eager mode time plans,
as compiled programs always do. Convolutions of float32 stay float32 unless `fp32_precision` is
"tf32", or `set_float32_matmul_precision` allows it and `allow_tf32` does not forbid it.
"""

from __future__ import annotations

from adjoint.engine.backends.array.libraries import cudnn as _library
from adjoint.engine.core.state.switches import SwitchOverride, route


def is_available() -> bool:
    """Whether convolutions can run through cuDNN: there is a GPU, and it is installed."""
    return version() is not None


def version() -> int | None:
    """cuDNN's version, as 91900; None where it is not used."""
    return _library.version()


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
