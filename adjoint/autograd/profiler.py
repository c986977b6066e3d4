"""PyTorch's older path to the profiler."""

from __future__ import annotations

from typing import Any

from adjoint.profiler.events import Averages
from adjoint.profiler.profiler import profile as _profile
from adjoint.profiler.profiler import record_function as record_function

__all__ = ["emit_nvtx", "profile", "record_function"]


class profile(_profile):
    """Times the operations of a `with` block.

    Args:
        enabled: False makes it do nothing.
        use_cuda: accepted as PyTorch has it.
        record_shapes: keep the operands' shapes.
        kwargs: accepted as PyTorch has them.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        record_shapes: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(record_shapes=record_shapes)
        self.enabled = enabled

    def start(self) -> None:
        """Begin."""
        if self.enabled:
            super().start()

    @property
    def function_events(self) -> list[Any]:
        """What was seen."""
        return self.events()

    def table(self, *args: Any, **kwargs: Any) -> str:
        """Times by name, as text."""
        return self.key_averages().table(*args, **kwargs)

    def total_average(self) -> Any:
        """All in one."""
        return self.key_averages().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all."""
        return self.key_averages().self_cpu_time_total


EventList = Averages


class emit_nvtx:
    """Refused: there are no NVTX marks."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        if enabled:
            raise NotImplementedError("emit_nvtx: Adjoint makes no NVTX marks; use profile")

    def __enter__(self) -> emit_nvtx:
        return self

    def __exit__(self, *_: object) -> None:
        return None
