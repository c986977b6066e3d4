"""What a profile has seen: events, and their sums by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from threading import get_ident
from typing import Any

from adjoint.engine.core.origins import Where, below_root
from adjoint.profiler.table import TextColumn, duration, quantity, text_table

OUTSIDE = "(Python outside operations)"
OUTSIDE_ON_DEVICE = "(GPU idle or outside operations)"


@dataclass(init=False, eq=False)
class TimedEvent:
    """One operation, kernel, stage of the compiler or named range; times in microseconds.

    It is made in the middle of what is timed: what it does not differ in stays the class's.
    """

    name: str
    start: float
    end: float = 0.0
    kind: str = "cpu_op"  # "user_annotation", "compile", "compiled", "kernel"
    depth: int = 0
    inside: float = 0.0  # of the time, what events within it took
    shapes: tuple[Any, ...] = ()
    thread: int = 0
    thread_name: str = ""
    count: int = 1  # turns of a loop that one event stands for
    flops: int = 0  # with those of events within it
    inside_flops: int = 0
    moved: int = 0  # bytes that it reads and writes
    memory: int = 0  # bytes of the results it made
    inside_memory: int = 0
    stack: tuple[str, ...] = ()  # innermost first: "file.py(12): function"
    places: tuple[Where, ...] = ()
    operations: tuple[str, ...] = ()  # that a fused kernel does
    device_time: float = 0.0
    inside_device: float = 0.0
    marks: Any = None  # of a GPU, the first and the last, until they are read
    waited: float = 0.0  # of the time on the device, what it was held up for, to be timed
    device: str = ""  # a GPU's name: its kernel, which takes no time of the CPU's
    outer: Any = None  # the event that it is within

    def __init__(
        self,
        name: str,
        start: float,
        end: float = 0.0,
        kind: str = "cpu_op",
        depth: int = 0,
        thread: int | None = None,
    ) -> None:
        self.name, self.start, self.end, self.kind, self.depth = name, start, end, kind, depth
        self.thread = get_ident() if thread is None else thread

    @property
    def key(self) -> str:
        """What it is counted under."""
        return self.name

    @property
    def user(self) -> bool:
        """Whether it is a named range of the program's."""
        return self.kind == "user_annotation"

    @property
    def cpu_time_total(self) -> float:
        """Microseconds of the CPU's from beginning to end."""
        return 0.0 if self.device else self.end - self.start

    @property
    def self_cpu_time_total(self) -> float:
        """Of these, those not spent in events within it."""
        return self.cpu_time_total - self.inside

    def count_inside(self, flops: int) -> None:
        """Operations of a kernel in it, which were not counted yet; negative: they were."""
        event: TimedEvent | None = self
        while event is not None:
            event.flops += flops
            if event is not self or flops > 0:
                event.inside_flops += flops
            event = event.outer

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules it works for, as their model names them."""
        return tuple(dict.fromkeys(below_root(w.module) for w in self.places if w.module))


@dataclass(slots=True)
class Average:
    """All events of one name (and shapes, or stack, where these were kept)."""

    key: str
    input_shapes: tuple[Any, ...] = ()
    stack: tuple[str, ...] = ()
    count: int = 0
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0
    is_user_annotation: bool = False
    device_time_total: float = 0.0
    self_device_time_total: float = 0.0
    cpu_memory_usage: int = 0
    self_cpu_memory_usage: int = 0
    flops: int = 0
    self_flops: int = 0
    moved: int = 0
    kind: str = "cpu_op"
    operations: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    roofline: float | None = None  # share of what the machine could do in the time
    device: str = ""  # a GPU's name, where these are its kernels

    @property
    def cpu_time(self) -> float:
        """Microseconds of one, on average."""
        return self.cpu_time_total / max(self.count, 1)

    @property
    def device_time(self) -> float:
        """The same on the device."""
        return self.device_time_total / max(self.count, 1)

    cuda_time_total = property(lambda self: self.device_time_total)
    self_cuda_time_total = property(lambda self: self.self_device_time_total)

    def add(self, event: TimedEvent) -> None:
        """Count one more."""
        self.count += event.count
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total
        self.device_time_total += event.device_time
        self.self_device_time_total += event.device_time - event.inside_device
        self.cpu_memory_usage += event.memory
        self.self_cpu_memory_usage += event.memory - event.inside_memory
        self.flops += event.flops
        self.self_flops += event.flops - event.inside_flops
        self.moved += event.moved
        self.operations = self.operations or event.operations
        if event.places:
            self.modules = tuple(dict.fromkeys((*self.modules, *event.modules)))
            lines = [f"{w.file}:{w.line}" for w in event.places]
            self.lines = tuple(dict.fromkeys((*self.lines, *lines)))


def averages(events: Iterable[TimedEvent], by_shape: bool = False, by_stack: int = 0) -> Averages:
    """Events counted by name, and by shapes and innermost lines where that is asked for."""
    by_name: dict[Any, Average] = {}
    for event in events:
        shapes = event.shapes if by_shape else ()
        stack = event.stack[:by_stack]
        place = by_name.setdefault(
            (event.name, shapes, stack),
            Average(
                event.name,
                shapes,
                stack,
                is_user_annotation=event.user,
                kind=event.kind,
                device=event.device,
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
            total.count += row.count
            total.cpu_time_total += row.cpu_time_total
            total.self_cpu_time_total += row.self_cpu_time_total
            total.flops += row.self_flops
            total.self_flops += row.self_flops
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
            top_level_events_only: only named ranges, compiled calls and what runs outside them.
            time_unit: "s", "ms" or "us"; by default whatever each time is best read in.
        """
        rows = list(self)
        if sort_by is not None:
            attribute = sort_by.replace("cuda", "device")
            if rows and not hasattr(rows[0], attribute):
                raise AttributeError(
                    f"table: cannot sort by {sort_by!r}. Try 'self_cpu_time_total', "
                    "'cpu_time_total', 'count', 'flops' or 'self_cpu_memory_usage'."
                )
            rows.sort(key=lambda row: -getattr(row, attribute))
        if top_level_events_only:
            rows = [row for row in rows if row.kind in ("user_annotation", "compiled")]
        if row_limit >= 0:
            rows = rows[:row_limit]
        total = self.self_cpu_time_total or 1.0
        widths = (max_name_column_width, max_shapes_column_width, max_src_column_width)
        columns = _columns(rows, total, time_unit, *widths)
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
    rows: list[Average], total: float, unit: str | None, names: int, shapes: int, sources: int
) -> list[TextColumn]:
    """The columns of a table: those that some row has something to say in."""

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
        columns.append(TextColumn("Self CUDA", lambda r: duration(r.self_device_time_total, unit)))
        columns.append(TextColumn("CUDA total", lambda r: duration(r.device_time_total, unit)))
    if wanted("cpu_memory_usage"):
        columns.append(TextColumn("CPU Mem", lambda r: quantity(r.cpu_memory_usage, "B")))
        columns.append(TextColumn("Self CPU Mem", lambda r: quantity(r.self_cpu_memory_usage, "B")))
    columns.append(TextColumn("# of Calls", lambda r: str(r.count)))
    if wanted("flops"):
        columns.append(TextColumn("FLOPs", lambda r: quantity(r.flops, "") if r.flops else "--"))
    if any(row.roofline is not None for row in rows):
        columns.append(TextColumn("Roofline", lambda r: _percent(r.roofline)))
    if wanted("moved"):
        columns.append(TextColumn("Moved", lambda r: quantity(r.moved, "B") if r.moved else "--"))
    if wanted("input_shapes"):
        columns.append(TextColumn("Input Shapes", lambda r: cut(_shapes(r), shapes), left=True))
    if wanted("modules"):
        columns.append(TextColumn("Modules", lambda r: cut(_some(r.modules), 40), left=True))
    if wanted("stack"):
        columns.append(TextColumn("Source", lambda r: cut(_some(r.stack[:1]), sources), left=True))
    elif wanted("lines"):
        columns.append(TextColumn("Source", lambda r: cut(_some(_short(r)), sources), left=True))
    return columns


def cut(text: str, width: int) -> str:
    """A text's beginning."""
    return text if len(text) <= width else text[: max(width - 3, 1)] + "..."


def _percent(share: float | None) -> str:
    return "--" if share is None else f"{100 * share:.0f}%"


def _shapes(row: Average) -> str:
    return str([list(s) for s in row.input_shapes])


def _some(names: tuple[str, ...]) -> str:
    return "" if not names else names[0] + (f" +{len(names) - 1}" if len(names) > 1 else "")


def _short(row: Average) -> tuple[str, ...]:
    return tuple(line.replace("\\", "/").rsplit("/", 1)[-1] for line in row.lines)
