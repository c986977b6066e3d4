"""Events counted by name: the rows of a profile's table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from adjoint.profiler.events import DeviceType, EventSums, TimedEvent
from adjoint.profiler.table import TextColumn, duration, quantity, text_table

OUTSIDE = "(Python outside operations)"
OUTSIDE_ON_DEVICE = "(GPU idle or outside operations)"
FREED = "[memory]"  # PyTorch's name for what is given back outside of all events


@dataclass(slots=True, repr=False)
class Average(EventSums):
    """All events of one name (and shapes, or stack, where these were kept)."""

    key: str
    shapes: tuple[Any, ...] = ()
    stack: tuple[str, ...] = ()
    count: int = 0
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0
    is_user_annotation: bool = False
    device_time_total: float = 0.0
    self_device_time_total: float = 0.0
    cpu_memory_usage: int = 0
    self_cpu_memory_usage: int = 0
    device_memory_usage: int = 0
    self_device_memory_usage: int = 0
    flops: int = 0
    self_flops: int = 0
    moved: int = 0
    kind: str = "cpu_op"
    operations: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    roofline: float | None = None  # share of what the machine could do in the time
    device: str = ""  # a GPU's name, where these are its kernels
    cpu_parent: TimedEvent | None = None  # what the first of them is directly within

    def __repr__(self) -> str:
        return (
            f"<{self.__class__.__name__} key={self.key!r} count={self.count} "
            f"self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str} "
            f"self_cuda_time={self.self_device_time_total_str} cuda_time={self.device_time_str}>"
        )

    @property
    def input_shapes(self) -> list[list[int]]:
        """The operands' shapes, where events were counted by them."""
        return [list(shape) for shape in self.shapes]

    @property
    def device_type(self) -> DeviceType:
        """Where they took place."""
        return DeviceType.CUDA if self.device else DeviceType.CPU

    def add(self, event: TimedEvent | Average) -> None:
        """Count one more, or as many as another row has."""
        self.count += event.count
        for name in SUMMED:
            setattr(self, name, getattr(self, name) + getattr(event, name))
        self.operations = self.operations or event.operations
        if event.modules:
            self.modules = tuple(dict.fromkeys((*self.modules, *event.modules)))
        if event.lines:
            self.lines = tuple(dict.fromkeys((*self.lines, *event.lines)))


SUMMED = (
    "cpu_time_total", "self_cpu_time_total", "device_time_total", "self_device_time_total",
    "cpu_memory_usage", "self_cpu_memory_usage", "device_memory_usage",
    "self_device_memory_usage", "flops", "self_flops", "moved",
)  # fmt: skip


def averages(events: Iterable[TimedEvent], by_shape: bool = False, by_stack: int = 0) -> Averages:
    """Events counted by name, and by shapes and innermost lines where that is asked for."""
    by_name: dict[Any, Average] = {}
    for event in events:
        shapes = event.shapes if by_shape else ()
        stack = event.stack[:by_stack]
        place = by_name.setdefault(
            (event.name, event.kind, event.device, shapes, stack),
            Average(
                event.name,
                shapes,
                stack,
                is_user_annotation=event.is_user_annotation,
                kind=event.kind,
                device=event.device,
                cpu_parent=event.cpu_parent,
            ),
        )
        place.add(event)
    return Averages(by_name.values())


class Averages(list[Average]):
    """What `key_averages` gives: a list that prints itself as a table."""

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all."""
        return sum(row.self_cpu_time_total for row in self)

    @property
    def self_device_time_total(self) -> float:
        """The same on the GPU."""
        return sum(row.self_device_time_total for row in self)

    self_cuda_time_total = self_device_time_total

    def total_average(self) -> Average:
        """All in one."""
        total = Average("Total")
        for row in self:
            total.add(row)
        total.flops = total.self_flops  # what is within another row is counted once
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
            max_src_column_width: longer lines of the program are cut.
            max_name_column_width: longer names are cut.
            max_shapes_column_width: longer shapes are cut.
            header: a line above.
            top_level_events_only: only what is within no other event.
            time_unit: "s", "ms" or "us"; by default whatever each time is best read in.
        """
        rows = list(self)
        if sort_by is not None:
            attribute = sort_by.replace("cuda", "device")
            if rows and not hasattr(rows[0], attribute):
                raise AttributeError(
                    f"table: cannot sort by {sort_by!r}. Try 'self_cpu_time_total', "
                    "'cpu_time_total', 'self_cuda_time_total', 'count', 'flops' or "
                    "'self_cpu_memory_usage'."
                )
            rows.sort(key=lambda row: -getattr(row, attribute))
        if top_level_events_only:
            rows = [row for row in rows if row.cpu_parent is None]
        if row_limit >= 0:
            rows = rows[:row_limit]
        totals = (self.self_cpu_time_total or 1.0, self.self_device_time_total or 1.0)
        widths = (max_name_column_width, max_shapes_column_width, max_src_column_width)
        columns = _columns(rows, totals, time_unit, *widths)
        lines = [] if header is None else [header]
        lines.append(text_table(columns, rows))
        lines.append(f"Self CPU time total: {duration(self.self_cpu_time_total, time_unit)}")
        device = self.self_device_time_total
        if device:
            lines.append(f"Self CUDA time total: {duration(device, time_unit)}")
        return "\n".join([*lines, ""])

    def __str__(self) -> str:
        return self.table()


def _columns(
    rows: list[Average],
    totals: tuple[float, float],
    unit: str | None,
    names: int,
    shapes: int,
    sources: int,
) -> list[TextColumn]:
    """The columns of a table: those that some row has something to say in."""
    total, on_device = totals

    def wanted(attribute: str) -> bool:
        return any(getattr(row, attribute) for row in rows)

    columns = [
        TextColumn("Name", lambda r: cut(r.key, names), left=True),
        TextColumn("Self CPU %", lambda r: f"{100 * r.self_cpu_time_total / total:.2f}%"),
        TextColumn("Self CPU", lambda r: duration(r.self_cpu_time_total, unit)),
        TextColumn("CPU total %", lambda r: f"{100 * r.cpu_time_total / total:.2f}%"),
        TextColumn("CPU total", lambda r: duration(r.cpu_time_total, unit)),
        TextColumn("CPU time avg", lambda r: duration(r.cpu_time, unit)),
    ]
    if wanted("device_time_total"):
        columns += [
            TextColumn("Self CUDA", lambda r: duration(r.self_device_time_total, unit)),
            TextColumn(
                "Self CUDA %", lambda r: f"{100 * r.self_device_time_total / on_device:.2f}%"
            ),
            TextColumn("CUDA total", lambda r: duration(r.device_time_total, unit)),
            TextColumn("CUDA time avg", lambda r: duration(r.device_time, unit)),
        ]
    for title, attribute in (("CPU Mem", "cpu_memory_usage"), ("CUDA Mem", "device_memory_usage")):
        if wanted(attribute) or wanted(f"self_{attribute}"):
            columns += [_memory(title, attribute), _memory(f"Self {title}", f"self_{attribute}")]
    columns.append(TextColumn("# of Calls", lambda r: str(r.count)))
    if wanted("flops"):
        columns.append(TextColumn("FLOPs", lambda r: quantity(r.flops, "") if r.flops else "--"))
    if any(row.roofline is not None for row in rows):
        columns.append(TextColumn("Roofline", lambda r: _percent(r.roofline)))
    if wanted("moved"):
        columns.append(TextColumn("Moved", lambda r: quantity(r.moved, "B") if r.moved else "--"))
    if wanted("shapes"):
        columns.append(TextColumn("Input Shapes", lambda r: cut(_shapes(r), shapes), left=True))
    if wanted("modules"):
        columns.append(TextColumn("Modules", lambda r: cut(_some(r.modules), 40), left=True))
    if wanted("stack"):
        columns.append(TextColumn("Source", lambda r: cut(_some(r.stack[:1]), sources), left=True))
    elif wanted("lines"):
        columns.append(TextColumn("Source", lambda r: cut(_some(_short(r)), sources), left=True))
    return columns


def _memory(title: str, attribute: str) -> TextColumn:
    return TextColumn(title, lambda r: quantity(getattr(r, attribute), "B"))


def cut(text: str, width: int) -> str:
    """A text's beginning."""
    return text if len(text) <= width else text[: max(width - 3, 1)] + "..."


def _percent(share: float | None) -> str:
    return "--" if share is None else f"{100 * share:.0f}%"


def _shapes(row: Average) -> str:
    return str(row.input_shapes)


def _some(names: tuple[str, ...]) -> str:
    return "" if not names else names[0] + (f" +{len(names) - 1}" if len(names) > 1 else "")


def _short(row: Average) -> tuple[str, ...]:
    return tuple(line.replace("\\", "/").rsplit("/", 1)[-1] for line in row.lines)
