"""What a profile is asked for: which devices, which steps, and PyTorch's finer settings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from adjoint.engine.backends.array.gpu.cuda import is_available


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
        raise AssertionError(
            f"Invalid profiler schedule arguments: received wait={wait}, warmup={warmup}, "
            f"active={active}, repeat={repeat}, skip_first={skip_first}; active must be 1 or more, "
            "the others 0 or more."
        )
    if warmup == 0:
        warnings.warn(
            "Profiler won't be using warmup, this can skew profiler results", stacklevel=2
        )

    def plan(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
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


def always(step: int) -> ProfilerAction:
    """Record every step, as one cycle."""
    return ProfilerAction.RECORD


def supported_activities() -> set[ProfilerActivity]:
    """What can be timed."""
    return {ProfilerActivity.CPU} | ({ProfilerActivity.CUDA} if is_available() else set())


def activities_of(given: Iterable[Any] | None) -> set[ProfilerActivity]:
    """What is to be timed: all that can be, unless something is given.

    PyTorch also takes dictionaries that name kinds of events of a device; there are no such kinds
    here: nothing is left out but where none is named.
    """
    if given is None:
        return supported_activities()
    activities: set[ProfilerActivity] = set()
    for item in given:
        if not isinstance(item, (ProfilerActivity, dict)):
            raise TypeError(f"Expected ProfilerActivity or dict, got {type(item)}")
        kinds = item if isinstance(item, dict) else {item: ["all"]}
        for activity, names in kinds.items():
            if activity in activities:
                raise ValueError(f"Activity {activity} specified more than once")
            if names:
                activities.add(activity)
    if not activities:
        raise AssertionError("No valid profiler activities found")
    return activities


@dataclass(frozen=True, slots=True)
class _ExperimentalConfig:
    """PyTorch's finer settings, under its names; what cannot be done is refused.

    Most of them choose between ways of PyTorch's own library to record, and choose nothing here.

    Args:
        profiler_metrics: counters of a GPU's hardware: refused, if any are named.
        profiler_measure_per_kernel: what these counters are read for.
        verbose: what PyTorch writes stacks and modules for; `with_stack` does here.
        performance_events: counters of the CPU's hardware: refused, if any are named.
        enable_cuda_sync_events: chooses nothing here.
        adjust_profiler_step: chooses nothing here.
        disable_external_correlation: chooses nothing here.
        profile_all_threads: every thread is recorded in any case.
        capture_overload_names: operations have no overloads here.
        record_python_gc_info: chooses nothing here.
        expose_kineto_event_metadata: chooses nothing here.
        custom_profiler_config: chooses nothing here.
        adjust_timestamps: chooses nothing here.
        trace_only: events are for `export_chrome_trace` alone.

    Example:
        >>> _ExperimentalConfig(verbose=True).verbose
        True
    """

    profiler_metrics: Sequence[str] = ()
    profiler_measure_per_kernel: bool = False
    verbose: bool = False
    performance_events: Sequence[str] = ()
    enable_cuda_sync_events: bool = False
    adjust_profiler_step: bool = False
    disable_external_correlation: bool = False
    profile_all_threads: bool = False
    capture_overload_names: bool = False
    record_python_gc_info: bool = False
    expose_kineto_event_metadata: bool = False
    custom_profiler_config: str = ""
    adjust_timestamps: bool = False
    trace_only: bool = False

    def __post_init__(self) -> None:
        counters = [*self.profiler_metrics, *self.performance_events]
        if counters:
            raise NotImplementedError(
                f"_ExperimentalConfig: no counters of the hardware are read, received {counters}. "
                "with_flops=True tells operations, bytes and the share of the machine's peak."
            )
