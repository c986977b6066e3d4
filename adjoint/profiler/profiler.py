"""`profile`: which operations a stretch of a program spends its time in."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Any

from adjoint.profiler.events import Averages, Event, averages, write_chrome_trace
from adjoint.profiler.recorder import RECORDERS, Recorder, now


class ProfilerActivity(Enum):
    """What to time. Operations are timed on the CPU; a GPU's own time is not known."""

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
    """Times the operations of a `with` block.

    Args:
        activities: what to time; a `ProfilerActivity.CUDA` has the CPU's times.
        schedule: which steps to record, from `schedule`; all unless given.
        on_trace_ready: called with this object at the end of each recorded cycle.
        record_shapes: keep the operands' shapes.
        profile_memory: accepted as PyTorch has it; memory is not counted.
        with_stack: accepted as PyTorch has it; stacks are not kept.
        with_flops: accepted as PyTorch has it; operations are not counted.
        with_modules: accepted as PyTorch has it.
        experimental_config: accepted as PyTorch has it.
        execution_trace_observer: accepted as PyTorch has it.
        acc_events: keep the events of all cycles.
        use_cuda: accepted as PyTorch has it.
        custom_trace_id_callback: accepted as PyTorch has it.

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
        custom_trace_id_callback: Any = None,
    ) -> None:
        self.activities = set(activities or (ProfilerActivity.CPU,))
        self.schedule = schedule or _always
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.with_modules = with_modules
        self.acc_events = acc_events
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._recorder: Recorder | None = None
        self._step: Event | None = None
        self._events: list[Event] = []
        self._metadata: dict[str, str] = {}

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
                self._events = []
            self._recorder = Recorder(self.record_shapes)
            self._recorder.start()
        elif not record:
            self._end_recording()
        if self._recorder is not None and self.record_steps:
            self._step = self._recorder.open(f"ProfilerStep#{self.step_num}", user=True)

    def _end_recording(self) -> None:
        if self._recorder is not None:
            self._recorder.stop()
            self._events += self._recorder.events
            self._recorder = self._step = None

    def events(self) -> list[Event]:
        """What was seen, in the order it ended."""
        return list(self._events)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **_: Any
    ) -> Averages:
        """Times by name (and shapes)."""
        return averages(self._events, group_by_input_shape)

    def export_chrome_trace(self, path: str) -> None:
        """Write a file that trace viewers read; gzipped where the name says so."""
        if str(path).endswith(".gz"):
            import gzip

            plain = Path(str(path)[:-3])
            write_chrome_trace(plain, self._events, self._metadata)
            with gzip.open(path, "wb") as file:
                file.write(plain.read_bytes())
            plain.unlink()
            return
        write_chrome_trace(path, self._events, self._metadata)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Refused: stacks are not kept."""
        raise NotImplementedError("profile.export_stacks: stacks are not kept")

    def add_metadata(self, key: str, value: str) -> None:
        """Put a value into the trace file."""
        self._metadata[key] = value

    add_metadata_json = add_metadata

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
        self._events: list[tuple[Recorder, Event]] = []

    def __enter__(self) -> record_function:
        self._events = [(each, each.open(self.name, user=True)) for each in RECORDERS]
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
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """Whether PyTorch's tracing library is there: no."""
    return False
