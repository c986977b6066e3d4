"""Files of a profile: traces for Perfetto and chrome://tracing, stacks for flame graphs."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from adjoint.profiler.averages import Average, Averages, averages
from adjoint.profiler.events import TimedEvent


def trace_entry(event: TimedEvent) -> dict[str, Any]:
    """An event as trace viewers want it. Names and numbers only: no data of tensors."""
    args: dict[str, Any] = {}
    if event.shapes:
        args["Input Dims"] = [list(s) for s in event.shapes]
    if event.operations:
        args["operations"] = "+".join(event.operations)
    if event.modules:
        args["modules"] = list(event.modules)
    if event.places:
        args["lines"] = list(event.lines)
    counts = {"flops": event.flops, "bytes": event.moved, "memory": event.cpu_memory_usage}
    counts["device memory"] = event.device_memory_usage
    args |= {key: value for key, value in counts.items() if value}
    if event.count > 1:
        args["turns"] = event.count
    if event.stack:
        args["stack"] = list(event.stack)
    return {
        "ph": "X",
        "cat": event.kind,
        "name": event.name,
        "pid": os.getpid(),
        "tid": event.device or event.thread,
        "ts": round(event.start, 3),
        "dur": round(event.end - event.start, 3),
        "args": args,
    }


def thread_entry(thread: tuple[int, str]) -> dict[str, Any]:
    """What tells a trace viewer the name of a thread."""
    number, name = thread
    about = {"name": "thread_name", "pid": os.getpid(), "tid": number}
    return {"ph": "M", **about, "args": {"name": name}}


def write_chrome_trace(
    path: str | Path, events: Iterable[TimedEvent], metadata: dict[str, Any]
) -> None:
    """Write events as a file that trace viewers read; gzipped where the name says so."""
    events = list(events)
    names = {event.thread: event.thread_name for event in events if event.thread_name}
    content = {
        "schemaVersion": 1,
        "traceEvents": [*map(trace_entry, events), *map(thread_entry, names.items())],
        "displayTimeUnit": "ms",
        **metadata,
    }
    data = json.dumps(content, separators=(",", ":")).encode()
    Path(path).write_bytes(gzip.compress(data) if str(path).endswith(".gz") else data)


def write_stacks(path: str | Path, events: Iterable[TimedEvent], metric: str) -> None:
    """Write stacks with the time spent in them, as flame graph tools read them."""
    metrics = {
        "self_cpu_time_total": "self_cpu_time_total",
        "self_cuda_time_total": "self_device_time_total",
    }
    if metric not in metrics:
        known = ", ".join(metrics)
        raise ValueError(f"export_stacks: metric must be one of {known}, received {metric!r}")
    times: Counter[str] = Counter()
    for event in events:
        lines = [*reversed(event.stack)]
        if not lines and event.places:
            lines = [f"{w.file}({w.line}): {w.module or 'program'}" for w in event.places[:1]]
        if lines:
            folded = ";".join(line.replace(";", ",").replace(" ", "_") for line in lines)
            times[f"{folded};{event.name}"] += round(getattr(event, metrics[metric]))
    text = "".join(f"{stack} {time}\n" for stack, time in times.items() if time > 0)
    Path(path).write_text(text, encoding="utf-8")


class EventList(list[TimedEvent]):
    """Events in the order they ended, as profiles give them."""

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, **_: Any
    ) -> Averages:
        """Times by name (and by shapes, and by the innermost lines that led there)."""
        return averages(self, group_by_input_shapes, group_by_stack_n)

    def total_average(self) -> Average:
        """All in one."""
        return self.key_averages().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all."""
        return sum(event.self_cpu_time_total for event in self)

    def table(self, *args: Any, **kwargs: Any) -> str:
        """Times by name, as text."""
        return self.key_averages().table(*args, **kwargs)

    def export_chrome_trace(self, path: str) -> None:
        """Write a file that trace viewers read."""
        write_chrome_trace(path, self, {})

    def export_stacks(self, path: str, metric: str) -> None:
        """Write the stacks and the time in each, for flame graphs."""
        write_stacks(path, self, metric)
