"""What a profile has seen: events, their averages, a table and a trace file."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Event:
    """One operation or named range; times in microseconds."""

    name: str
    start: float
    end: float = 0.0
    depth: int = 0
    inside: float = 0.0  # of the time, what events within it took
    shapes: tuple[Any, ...] = ()
    thread: int = field(default_factory=threading.get_ident)
    user: bool = False  # a named range of the program's

    @property
    def key(self) -> str:
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """Microseconds from beginning to end."""
        return self.end - self.start

    @property
    def self_cpu_time_total(self) -> float:
        """Of these, those not spent in events within it."""
        return self.cpu_time_total - self.inside


@dataclass(slots=True)
class Average:
    """All events of one name (and shapes, where these were kept)."""

    key: str
    input_shapes: tuple[Any, ...] = ()
    count: int = 0
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0
    is_user_annotation: bool = False

    # No event is timed on a device.
    device_time_total: float = 0.0
    self_device_time_total: float = 0.0
    cpu_memory_usage: int = 0
    self_cpu_memory_usage: int = 0
    flops: int = 0

    @property
    def cpu_time(self) -> float:
        """Microseconds of one, on average."""
        return self.cpu_time_total / self.count

    def add(self, event: Event) -> None:
        """Count one more."""
        self.count += 1
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total


def averages(events: Iterable[Event], by_shape: bool = False) -> Averages:
    """Events counted by name."""
    found: dict[Any, Average] = {}
    for event in events:
        shapes = event.shapes if by_shape else ()
        place = found.setdefault(
            (event.name, shapes),
            Average(event.name, shapes, is_user_annotation=event.user),
        )
        place.add(event)
    return Averages(found.values())


def duration(microseconds: float) -> str:
    """A time with its unit, as a reader wants it."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{microseconds / size:.3f}{unit}"
    return f"{microseconds:.3f}us"


class Averages(list[Average]):
    """What `key_averages` gives: a list that prints itself as a table."""

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all."""
        return sum(each.self_cpu_time_total for each in self)

    def total_average(self) -> Average:
        """All in one."""
        total = Average("Total")
        for each in self:
            total.count += each.count
            total.cpu_time_total += each.cpu_time_total
            total.self_cpu_time_total += each.self_cpu_time_total
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """One line per name.

        Args:
            sort_by: a time or count by which to sort, greatest first.
            row_limit: how many lines; -1 for all.
            max_src_column_width: accepted as PyTorch has it.
            max_name_column_width: longer names are cut.
            max_shapes_column_width: longer shapes are cut.
            header: a line above.
            top_level_events_only: accepted as PyTorch has it.
            time_unit: accepted as PyTorch has it.
        """
        rows = list(self)
        if sort_by is not None:
            attribute = sort_by.replace("cuda", "device")
            if rows and not hasattr(rows[0], attribute):
                raise AttributeError(f"table: cannot sort by {sort_by!r}")
            rows.sort(key=lambda each: -getattr(each, attribute))
        if row_limit >= 0:
            rows = rows[:row_limit]
        total = self.self_cpu_time_total or 1.0
        titles = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg",
                  "# of Calls"]  # fmt: skip
        cells = [
            [
                each.key[:max_name_column_width],
                f"{100 * each.self_cpu_time_total / total:.2f}%",
                duration(each.self_cpu_time_total),
                f"{100 * each.cpu_time_total / total:.2f}%",
                duration(each.cpu_time_total),
                duration(each.cpu_time),
                str(each.count),
            ]
            for each in rows
        ]
        if any(each.input_shapes for each in rows):
            titles.append("Input Shapes")
            for line, each in zip(cells, rows, strict=True):
                line.append(str([list(s) for s in each.input_shapes])[:max_shapes_column_width])
        widths = [max(len(line[i]) for line in [titles, *cells]) for i in range(len(titles))]
        rule = "  ".join("-" * width for width in widths)
        lines = [] if header is None else [header]
        lines += [rule, _row(titles, widths), rule, *(_row(line, widths) for line in cells), rule]
        return "\n".join([*lines, f"Self CPU time total: {duration(self.self_cpu_time_total)}", ""])

    def __str__(self) -> str:
        return self.table()


def _row(cells: list[str], widths: list[int]) -> str:
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


def write_chrome_trace(path: str | Path, events: Iterable[Event], metadata: dict[str, str]) -> None:
    """Write events as a file that trace viewers read."""
    entries = [
        {
            "ph": "X",
            "cat": "user_annotation" if event.user else "cpu_op",
            "name": event.name,
            "pid": os.getpid(),
            "tid": event.thread,
            "ts": event.start,
            "dur": event.cpu_time_total,
            "args": {"Input Dims": [list(s) for s in event.shapes]} if event.shapes else {},
        }
        for event in events
    ]
    content = {"schemaVersion": 1, "traceEvents": entries, "displayTimeUnit": "ms", **metadata}
    Path(path).write_text(json.dumps(content), encoding="utf-8")
