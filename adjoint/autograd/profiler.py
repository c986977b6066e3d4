"""PyTorch's older path to the profiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.cuda import nvtx
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.profiler.events import Averages
from adjoint.profiler.profiler import kineto_available as kineto_available
from adjoint.profiler.profiler import profile as _profile
from adjoint.profiler.profiler import record_function as record_function
from adjoint.profiler.recorder import RECORDERS, Doors

__all__ = ["emit_nvtx", "profile", "record_function"]


def _profiler_enabled() -> bool:
    """Whether a profile is being recorded."""
    return bool(RECORDERS)


def _disable_profiler() -> None:
    """Refuses where a profile is being recorded: what began it ends it."""
    if RECORDERS:
        raise RuntimeError("a profile is being recorded: leave its block, or call its stop()")


class profile(_profile):
    """Times the operations of a `with` block.

    Args:
        enabled: False makes it do nothing.
        use_cuda: time the GPU too, where there is one.
        record_shapes: keep the operands' shapes.
        with_flops: count floating-point operations.
        profile_memory: keep what results take.
        with_stack: keep the lines that led to each operation.
        with_modules: keep the module at work.
        kwargs: accepted as PyTorch has them.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            record_shapes=record_shapes,
            with_flops=with_flops,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_modules=with_modules,
            use_cuda=use_cuda,
        )
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


class Marker:
    """Puts NVTX ranges around operations, for Nsight; keeps nothing."""

    def __init__(self) -> None:
        self._doors = Doors(self.around, lambda compute: compute)

    def start(self) -> None:
        """Begin."""
        LISTENERS.append(self)
        self._doors.open()

    def stop(self) -> None:
        """End."""
        self._doors.close()
        LISTENERS.remove(self)

    def around(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """A door whose operations are ranges."""

        def perform(record: Any, operands: Any, params: Any) -> Any:
            if CONTEXT.capture is not None:
                return run(record, operands, params)
            self.open(f"aten::{record.name}", "cpu_op")
            try:
                return run(record, operands, params)
            finally:
                self.close(None)

        return perform

    def open(self, name: str, kind: str) -> None:
        """A range begins."""
        nvtx.range_push(name)

    def close(self, event: Any) -> None:
        """It ends."""
        nvtx.range_pop()

    def made(self, event: Any, results: Any) -> None:
        """Nsight does not ask."""

    def computed(self, flops: int) -> None:
        """Nor for this."""

    def ran(self, run: Any) -> None:
        """Kernels are Nsight's to see."""

    def later(self) -> Callable[[Any], None]:
        """So they are once they are timed."""
        return self.ran


class emit_nvtx:
    """In the block, operations and compiled calls are NVTX ranges (needs CuPy and a GPU)."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self._marker = Marker() if enabled else None

    def __enter__(self) -> emit_nvtx:
        if self._marker is not None:
            nvtx.mark("emit_nvtx")  # says what is missing, before anything changed
            self._marker.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._marker is not None:
            self._marker.stop()
