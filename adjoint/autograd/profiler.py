"""PyTorch's older path to the profiler."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from adjoint.cuda import nvtx
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.profiler.averages import Averages
from adjoint.profiler.events import DeviceType as DeviceType
from adjoint.profiler.profiler import kineto_available as kineto_available
from adjoint.profiler.profiler import profile as _profile
from adjoint.profiler.profiler import record_function as record_function
from adjoint.profiler.recorder import RECORDERS, Doors
from adjoint.profiler.settings import ProfilerActivity as ProfilerActivity
from adjoint.profiler.settings import _ExperimentalConfig as _ExperimentalConfig

__all__ = ["emit_itt", "emit_nvtx", "profile", "record_function"]


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
        use_cuda: time the GPU too, where there is one; `use_device="cuda"` is the newer name.
        use_device: "cuda" to time the GPU too.
        record_shapes: keep the operands' shapes.
        with_flops: count floating-point operations.
        profile_memory: keep what results take.
        with_stack: keep the lines that led to each operation.
        with_modules: keep the module at work.
        use_kineto: accepted as PyTorch has it: there is one way to record.
        use_cpu: accepted as PyTorch has it: operations are what is timed.
        experimental_config: PyTorch's finer settings.
        acc_events: keep the events of all blocks that the object is used for.
        custom_trace_id_callback: gives the trace an id of the program's.
        post_processing_timeout_s: accepted as PyTorch has it: events are made in one go.

    Example:
        >>> import adjoint as ad
        >>> with profile(use_device="cpu") as seen:
        ...     y = ad.ones(3) * 2
        >>> "aten::mul" in str(seen)
        True
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        if use_cuda:
            warnings.warn(
                "The attribute `use_cuda` will be deprecated soon, please use "
                "``use_device = 'cuda'`` instead.",
                FutureWarning,
                stacklevel=2,
            )
        gpu = use_cuda or use_device == "cuda"
        super().__init__(
            activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if gpu else [])],
            record_shapes=record_shapes,
            with_flops=with_flops,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_modules=with_modules,
            experimental_config=experimental_config,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
        )
        self.enabled = enabled

    def __enter__(self) -> profile:
        if self._recorder is not None:
            raise RuntimeError("Profiler context manager is not reentrant")
        super().__enter__()
        return self

    def __str__(self) -> str:
        return self.table() if self._seen else f"<unfinished {__name__}.profile>"

    __repr__ = __str__

    def start(self) -> None:
        """Begin."""
        self._began = True
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

    def __init__(self, shapes: bool) -> None:
        self.shapes = shapes
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
            name = f"aten::{record.name}"
            if self.shapes:
                name += f", sizes = {[list(getattr(x, 'shape', ())) for x in operands]}"
            self.open(name, "cpu_op")
            try:
                return run(record, operands, params)
            finally:
                self.close(None)

        return perform

    def open(self, name: str, kind: str, node: int = -1) -> None:
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
    """In the block, operations and compiled calls are NVTX ranges (needs CuPy and a GPU).

    Args:
        enabled: False makes it do nothing.
        record_shapes: whether the names of ranges have the shapes of operands.
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes, self.entered = enabled, record_shapes, False
        self._marker = Marker(record_shapes)

    def __enter__(self) -> emit_nvtx:
        if self.entered:
            raise RuntimeError("NVTX annotation context manager is not reentrant")
        if self.enabled:
            nvtx.mark("emit_nvtx")  # says what is missing, before anything changed
            self.entered = True
            self._marker.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.enabled:
            self._marker.stop()


class emit_itt:
    """PyTorch's ranges for Intel's VTune, which has no part here: refused unless disabled.

    Args:
        enabled: False makes it do nothing.
        record_shapes: accepted as PyTorch has it.
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        if enabled:
            raise NotImplementedError(
                "emit_itt: there are no ranges for VTune; use profile, or emit_nvtx for Nsight."
            )

    def __enter__(self) -> emit_itt:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was begun."""
