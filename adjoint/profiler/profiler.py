"""`profile`: which operations a stretch of a program spends its time in."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
import uuid
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from adjoint.engine.backends.array.gpu.cuda import is_available
from adjoint.profiler.averages import OUTSIDE, OUTSIDE_ON_DEVICE, Average, Averages, averages
from adjoint.profiler.export import EventList, write_chrome_trace, write_stacks
from adjoint.profiler.memory import Allocation, of_programs
from adjoint.profiler.memory_timeline import MemoryTimeline
from adjoint.profiler.recorder import RECORDERS, EventRecorder, Handle, Wanted, now
from adjoint.profiler.roofline import measured
from adjoint.profiler.settings import ProfilerAction as ProfilerAction
from adjoint.profiler.settings import ProfilerActivity as ProfilerActivity
from adjoint.profiler.settings import activities_of, always
from adjoint.profiler.settings import always as _default_schedule_fn  # noqa: F401
from adjoint.profiler.settings import schedule as schedule
from adjoint.profiler.settings import supported_activities as supported_activities

RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def tensorboard_trace_handler(
    dir_name: str,
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[profile], None]:
    """An `on_trace_ready` that writes each trace into a folder.

    Args:
        dir_name: the folder, made if it is not there.
        worker_name: what files are called; by default the machine's name and the process's number.
        use_gzip: whether files are gzipped.
        use_python_export: accepted as PyTorch has it: traces are always written by Python.
    """

    def save(profiled: profile) -> None:
        folder = Path(dir_name)
        folder.mkdir(parents=True, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{int(now() * 1000)}.pt.trace.json{'.gz' if use_gzip else ''}"
        profiled.export_chrome_trace(str(folder / name))

    return save


class profile:
    """Times the operations of a `with` block: eager ones, and the kernels of compiled functions.

    A kernel's row knows the operations that were fused into it, the modules and lines they come
    from, the bytes it moves and its floating-point operations. The stages of the compiler are in
    the same timeline. Nothing is in the way of programs that are not profiled.

    Args:
        activities: what to time; `ProfilerActivity.CUDA` adds the GPU's own time, by its events.
        schedule: which steps to record, from `schedule`; all unless given.
        on_trace_ready: called with this object at the end of each recorded cycle.
        record_shapes: keep the operands' shapes.
        profile_memory: keep what results take and when it is given back (`memory_timeline`).
        with_stack: keep the lines of the program that led to each operation.
        with_flops: count floating-point operations; the table then has each row's share of what
            this machine was measured to do.
        with_modules: keep the module at work.
        experimental_config: PyTorch's finer settings, an `_ExperimentalConfig`.
        execution_trace_observer: has `start()`, `stop()` and `cleanup()`, which are called when
            recording begins, when it ends, and at the end of the block.
        acc_events: keep the events of all cycles.
        use_cuda: PyTorch's older way to ask for `ProfilerActivity.CUDA`.
        custom_trace_id_callback: gives each cycle's trace an id of the program's.
        post_processing_timeout_s: accepted as PyTorch has it: events are made in one go.

    Example:
        >>> import adjoint as ad
        >>> with profile() as seen:
        ...     with record_function("twice"):
        ...         y = ad.ones(3) * 2
        >>> [
        ...     (each.key, each.count)
        ...     for each in seen.key_averages()
        ...     if each.key in ("twice", "aten::mul")
        ... ]
        [('aten::mul', 1), ('twice', 1)]
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity | dict[ProfilerActivity, list[str]]] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = activities_of(activities)
        if use_cuda is not None:
            warnings.warn(
                "`use_cuda` is deprecated, use `activities` argument instead",
                FutureWarning,
                stacklevel=2,
            )
            self.activities -= {ProfilerActivity.CUDA}
            self.activities |= {ProfilerActivity.CUDA} if use_cuda else set()
        self.schedule = schedule or always
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.with_modules = with_modules
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.experimental_config = experimental_config
        self.execution_trace_observer = execution_trace_observer
        self.post_processing_timeout_s = post_processing_timeout_s
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._recorder: EventRecorder | None = None
        self._step: Handle | None = None
        self._seen: list[EventRecorder] = []  # finished ones
        self._metadata: dict[str, Any] = {}
        self._left_off: set[ProfilerActivity] = set()
        self._trace_id: str | None = None
        self._began = False

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.cleanup()

    def start(self) -> None:
        """Begin, as the schedule says for the first step."""
        self._began = True
        self._act()

    def stop(self) -> None:
        """End; what was recorded is handed over."""
        recorded = self._recorder is not None
        self._end_recording()
        if recorded and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """The next step of the program begins."""
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        if self._recorder is not None and self._step is not None:
            self._recorder.close(self._step)
        if before is ProfilerAction.RECORD_AND_SAVE:
            self.stop()
        self._act()

    def _act(self) -> None:
        record = self.current_action in RECORDING
        if record and self._recorder is None:
            if not self.acc_events:
                self._seen = []
            self._trace_id = None
            self._begin_recording()
        elif not record:
            self._end_recording()
        elif self._recorder is not None and self.record_steps:
            self._begin_step(self._recorder)

    def _begin_recording(self) -> None:
        if ProfilerActivity.CPU in self._left_off:
            return
        self._recorder = EventRecorder(self._wanted())
        self._recorder.start()
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.start()
        if self.record_steps:
            self._begin_step(self._recorder)

    def _begin_step(self, recorder: EventRecorder) -> None:
        self._step = recorder.open(f"ProfilerStep#{self.step_num}", "user_annotation")

    def _wanted(self) -> Wanted:
        return Wanted(
            shapes=self.record_shapes,
            memory=self.profile_memory,
            stack=self.with_stack,
            flops=self.with_flops,
            modules=self.with_modules,
            device=ProfilerActivity.CUDA in self.activities - self._left_off and is_available(),
        )

    def _end_recording(self) -> None:
        if self._recorder is not None:
            self._recorder.stop()
            if self.execution_trace_observer is not None:
                self.execution_trace_observer.stop()
            self._seen.append(self._recorder)
            self._recorder = self._step = None

    def events(self) -> EventList:
        """What was seen, in the order it ended; kernels of compiled programs after all else."""
        if getattr(self.experimental_config, "trace_only", False):
            raise RuntimeError(
                "events() is not available when trace_only=True in ExperimentalConfig. Use "
                "export_chrome_trace() instead."
            )
        return self._all_events()

    def _all_events(self) -> EventList:
        if not self._began:
            raise AssertionError("Profiler must be initialized before its events are asked for")
        return EventList(event for recorder in self._seen for event in recorder.everything())

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> Averages:
        """Times by name (and by shapes, and by the innermost lines that led there).

        What the program did outside of all events is a row too, so that the times of all rows
        together are those of the block; and so is what a GPU did then, or did not do.

        Args:
            group_by_input_shape: count operands of other shapes apart (`record_shapes=True`).
            group_by_stack_n: count so many innermost lines apart (`with_stack=True`).
            group_by_overload_name: accepted as PyTorch has it: operations have no overloads here.
        """
        events = self.events()
        rows = averages(events, group_by_input_shape, group_by_stack_n)
        outside = sum(recorder.outside() for recorder in self._seen)
        if outside > 0:
            rows.append(
                Average(OUTSIDE, count=1, cpu_time_total=outside, self_cpu_time_total=outside)
            )
        rows += [r.freed_outside for r in self._seen if r.freed_outside.count]
        on_device = sum(recorder.total_on_device for recorder in self._seen)
        if on_device > rows.self_device_time_total:
            rest = on_device - rows.self_device_time_total
            rows.append(
                Average(
                    OUTSIDE_ON_DEVICE, count=1, device_time_total=rest, self_device_time_total=rest
                )
            )
        if self.with_flops:
            for row in rows:
                # An eager operation that a GPU worked for is measured by what a GPU can do.
                on_gpu = row.self_device_time_total > 0
                kind = row.device.partition(":")[0] or ("cuda" if on_gpu else "cpu")
                taken = row.cpu_time_total if kind == "cpu" else row.device_time_total
                if kind in ("cpu", "cuda") and (row.flops or row.moved):
                    row.roofline = measured(kind).share(row.flops, row.moved, taken / 1e6)
        return rows

    def memory_timeline(self, device: str | None = None) -> MemoryTimeline:
        """Memory over time, what held it at the peak, and for which modules.

        Args:
            device: whose memory; unless given, the first GPU's if anything was put there, else the
                CPU's.
        """
        if not self.profile_memory:
            raise ValueError("memory_timeline: the profile was made without profile_memory=True")
        allocations: list[Allocation] = []
        for recorder in self._seen:
            if recorder.allocations is not None:
                allocations += recorder.allocations.seen
                allocations += of_programs(recorder.ran_programs)
        devices = sorted({a.device for a in allocations} - {"cpu"})
        wanted = device or (devices[0] if devices else "cpu")
        wanted = "cuda:0" if wanted == "cuda" else wanted
        return MemoryTimeline([a for a in allocations if a.device == wanted])

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Write memory over time, as the name's ending says.

        Args:
            path: `.html` for a picture; `.json` or `.json.gz` for `[times, sizes]`, sizes by
                PyTorch's categories, all in the last one here; `.raw.json.gz` for every change.
            device: whose memory, as for `memory_timeline`.
        """
        self.memory_timeline(device).export(str(path))

    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None:
        """Write a file that trace viewers read (Perfetto); gzipped where the name says so.

        Args:
            path: the file.
            use_python_export: accepted as PyTorch has it: traces are always written by Python.
        """
        metadata = {**self._metadata, "trace_id": self.get_trace_id()}
        write_chrome_trace(path, self._all_events(), metadata)

    def get_trace_id(self) -> str | None:
        """The id of the latest cycle's trace; None before the first."""
        if self._trace_id is None and (self._seen or self._recorder):
            self._trace_id = (self.custom_trace_id_callback or _any_id)()
        return self._trace_id

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Have the traces of cycles to come named by a function."""
        self.custom_trace_id_callback = callback

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the stacks and the time in each, for flame graphs; needs `with_stack=True`."""
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        write_stacks(path, self.events(), metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Put a text into the trace file."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Put a value, given as JSON, into the trace file."""
        self._metadata[key] = json.loads(value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """`add_metadata_json` before the profile begins."""
        self.add_metadata_json(key, value)

    def toggle_collection_dynamic(
        self, enable: bool, activities: Iterable[ProfilerActivity]
    ) -> None:
        """Go on recording, or leave it off for a while.

        Args:
            enable: whether to record.
            activities: what. Without the CPU's nothing is recorded: a GPU's times are those of
                operations that the CPU asked for.
        """
        recording = self._recorder is not None or bool(self._left_off)
        if enable:
            self._left_off -= set(activities)
        else:
            self._left_off |= set(activities)
        if recording and self.current_action in RECORDING:
            self._end_recording()
            self._begin_recording()


def _any_id() -> str:
    return uuid.uuid4().hex.upper()


class record_function(contextlib.ContextDecorator):
    """A named range of the program in a profile; as a `with` block or a decorator."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._events: list[tuple[EventRecorder, Handle]] = []

    def __enter__(self) -> record_function:
        if not isinstance(self.name, str):
            raise RuntimeError(
                f"record_function: name must be a text, received {type(self.name).__name__}"
            )
        self._events = [
            (recorder, recorder.open(self.name, "user_annotation")) for recorder in RECORDERS
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for recorder, event in self._events:
            recorder.close(event)

    def __call__(self, func: Any) -> Any:
        @functools.wraps(func)
        def ranged(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return func(*args, **kwargs)

        return ranged


def kineto_available() -> bool:
    """Whether PyTorch's tracing library is there: no."""
    return False
