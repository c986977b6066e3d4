"""`profile`: which operations a stretch of a program spends its time in."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Any

from adjoint.engine.backends.array.gpu.cuda import is_available
from adjoint.profiler.events import OUTSIDE, OUTSIDE_ON_DEVICE, Average, Averages, averages
from adjoint.profiler.export import EventList, write_chrome_trace, write_stacks
from adjoint.profiler.memory import Allocation, MemoryTimeline
from adjoint.profiler.recorder import RECORDERS, EventRecorder, Handle, Wanted, now
from adjoint.profiler.roofline import measured


class ProfilerActivity(Enum):
    """What to time: the CPU, and what a GPU does meanwhile."""

    CPU = 0
    XPU = 1
    CUDA = 3
    MTIA = 4
    HPU = 5
    PrivateUse1 = 6


class ProfilerAction(Enum):
    """What a schedule asks for in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Which steps to record: cycles of `wait`, `warmup` and `active` steps.

    Args:
        wait: steps of a cycle that are left alone.
        warmup: steps that run but are not kept.
        active: steps that are recorded; at the end of the last the trace is handed over.
        repeat: how many cycles; 0 for as many as there are.
        skip_first: steps before the first cycle.
        skip_first_wait: if not 0, the first cycle does not wait.

    Example:
        >>> plan = schedule(wait=1, warmup=1, active=1)
        >>> [plan(step).name for step in range(4)]
        ['NONE', 'WARMUP', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, active, repeat, skip_first) < 0 or active == 0:
        raise AssertionError("Invalid profiler schedule arguments")

    def plan(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        if repeat > 0 and step // length >= repeat:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return plan


def _always(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """An `on_trace_ready` that writes each trace into a folder."""

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
        experimental_config: accepted as PyTorch has it; there is nothing to configure.
        execution_trace_observer: refused unless None: there are no execution traces.
        acc_events: keep the events of all cycles.
        use_cuda: PyTorch's older way to ask for `ProfilerActivity.CUDA`.
        custom_trace_id_callback: gives the trace file an id of the program's.

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
        activities: Iterable[ProfilerActivity] | None = None,
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
    ) -> None:
        if execution_trace_observer is not None:
            raise NotImplementedError(
                "profile: there are no execution traces; use export_chrome_trace."
            )
        self.activities = set(activities or supported_activities())
        if use_cuda:
            self.activities.add(ProfilerActivity.CUDA)
        self.schedule = schedule or _always
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.with_modules = with_modules
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._recorder: EventRecorder | None = None
        self._step: Handle | None = None
        self._seen: list[EventRecorder] = []  # finished ones
        self._metadata: dict[str, Any] = {}

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin, as the schedule says for the first step."""
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
        record = self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if record and self._recorder is None:
            if not self.acc_events:
                self._seen = []
            self._recorder = EventRecorder(self._wanted())
            self._recorder.start()
        elif not record:
            self._end_recording()
        if self._recorder is not None and self.record_steps:
            self._step = self._recorder.open(f"ProfilerStep#{self.step_num}", "user_annotation")

    def _wanted(self) -> Wanted:
        return Wanted(
            shapes=self.record_shapes,
            memory=self.profile_memory,
            stack=self.with_stack,
            flops=self.with_flops,
            modules=self.with_modules,
            device=ProfilerActivity.CUDA in self.activities and is_available(),
        )

    def _end_recording(self) -> None:
        if self._recorder is not None:
            self._recorder.stop()
            self._seen.append(self._recorder)
            self._recorder = self._step = None

    def events(self) -> EventList:
        """What was seen, in the order it ended; kernels of compiled programs after all else."""
        return EventList(event for recorder in self._seen for event in recorder.everything())

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **_: Any
    ) -> Averages:
        """Times by name (and by shapes, and by the innermost lines that led there).

        What the program did outside of all events is a row too, so that the times of all rows
        together are those of the block; and so is what a GPU did then, or did not do.
        """
        events = self.events()
        rows = averages(events, group_by_input_shape, group_by_stack_n)
        outside = sum(recorder.outside() for recorder in self._seen)
        if outside > 0:
            rows.append(
                Average(OUTSIDE, count=1, cpu_time_total=outside, self_cpu_time_total=outside)
            )
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

    def memory_timeline(self) -> MemoryTimeline:
        """Memory over time, what held it at the peak, and for which modules."""
        if not self.profile_memory:
            raise RuntimeError("memory_timeline: the profile was made without profile_memory=True")
        allocations: list[Allocation] = []
        for recorder in self._seen:
            if recorder.allocations is not None:
                allocations += recorder.allocations.seen
        return MemoryTimeline(allocations)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Write memory over time: `.html` as a picture, else as JSON, `[times, sizes]`."""
        self.memory_timeline().export(str(path))

    def export_chrome_trace(self, path: str) -> None:
        """Write a file that trace viewers read (Perfetto); gzipped where the name says so."""
        metadata = dict(self._metadata)
        if self.custom_trace_id_callback is not None:
            metadata["trace_id"] = self.custom_trace_id_callback()
        write_chrome_trace(path, self.events(), metadata)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the stacks and the time in each, for flame graphs; needs `with_stack=True`."""
        if not self.with_stack:
            raise RuntimeError("export_stacks: the profile was made without with_stack=True")
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

    def toggle_collection_dynamic(self, enable: bool, activities: Any = None) -> None:
        """Go on, or leave off, recording."""
        if enable:
            self._act()
        else:
            self._end_recording()


class record_function(contextlib.ContextDecorator):
    """A named range of the program in a profile; as a `with` block or a decorator."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._events: list[tuple[EventRecorder, Handle]] = []

    def __enter__(self) -> record_function:
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


def supported_activities() -> set[ProfilerActivity]:
    """What can be timed."""
    return {ProfilerActivity.CPU} | ({ProfilerActivity.CUDA} if is_available() else set())


def kineto_available() -> bool:
    """Whether PyTorch's tracing library is there: no."""
    return False
