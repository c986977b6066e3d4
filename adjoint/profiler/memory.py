"""Memory over time: what operations made, which line made it, and when it went."""

from __future__ import annotations

import html
import json
import time
import weakref
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adjoint.engine.core.origins import Where, below_root
from adjoint.profiler.table import quantity


@dataclass(slots=True)
class Allocation:
    """A result's memory."""

    nbytes: int
    operation: str
    where: Where | None
    shape: tuple[int, ...]
    dtype: str
    began: float  # microseconds
    ended: float | None = None

    @property
    def place(self) -> str:
        """The module and line that made it."""
        if self.where is None:
            return self.operation
        line = f"{Path(self.where.file).name}:{self.where.line}"
        module = below_root(self.where.module) if self.where.module else ""
        return f"{self.operation}, {module + ', ' if module else ''}{line}"


class Allocations:
    """Notes memory as results get and lose it; a buffer is counted once, whoever holds it."""

    def __init__(self) -> None:
        self.seen: list[Allocation] = []
        self._watched: dict[int, Any] = {}  # by the buffer's identity, with what tells of its end
        self._on = True

    def made(self, tensor: Any, operation: str, where: Where | None) -> int:
        """Note a result; how many bytes it took."""
        array = getattr(tensor, "_array", None)
        base = getattr(array, "base", None)
        while base is not None and hasattr(base, "nbytes") and hasattr(base, "base"):
            array, base = base, base.base
        if array is None or not hasattr(array, "nbytes") or id(array) in self._watched:
            return 0
        entry = Allocation(
            int(array.nbytes), operation, where, tuple(tensor.shape), tensor.dtype.name,
            time.perf_counter_ns() / 1000,
        )  # fmt: skip
        key = id(array)
        try:
            self._watched[key] = weakref.ref(array, lambda _: self._gone(key, entry))
        except TypeError:  # an array that cannot be watched: it stays
            self._watched[key] = None
        self.seen.append(entry)
        return entry.nbytes

    def _gone(self, key: int, entry: Allocation) -> None:
        self._watched.pop(key, None)
        if self._on:
            entry.ended = time.perf_counter_ns() / 1000

    def end(self) -> None:
        """Note no more."""
        self._on = False
        self._watched = {}


class MemoryTimeline:
    """What a profile's memory was, moment by moment.

    Example:
        >>> import adjoint as ad
        >>> with ad.profiler.profile(profile_memory=True) as seen:
        ...     y = ad.ones(1000) * 2
        >>> seen.memory_timeline().peak
        8000
    """

    def __init__(self, allocations: list[Allocation]) -> None:
        self.allocations = allocations
        changes = [(a.began, a.nbytes) for a in allocations]
        changes += [(a.ended, -a.nbytes) for a in allocations if a.ended is not None]
        changes.sort()
        self.times: list[float] = []
        self.sizes: list[int] = []
        total = 0
        for at, change in changes:
            total += change
            self.times.append(at)
            self.sizes.append(total)
        self.peak = max(self.sizes, default=0)
        self.peak_time = self.times[self.sizes.index(self.peak)] if self.sizes else 0.0

    def at_peak(self) -> list[Allocation]:
        """What was there at the peak, the largest first."""
        at = self.peak_time
        alive = [a for a in self.allocations if a.began <= at and (a.ended is None or a.ended > at)]
        return sorted(alive, key=lambda a: -a.nbytes)

    def by_module(self) -> dict[str, int]:
        """Bytes at the peak by the module that made them."""
        by_module: dict[str, int] = defaultdict(int)
        for a in self.at_peak():
            module = a.where.module if a.where is not None else ""
            by_module[below_root(module) if module else "(no module)"] += a.nbytes
        return dict(sorted(by_module.items(), key=lambda pair: -pair[1]))

    def __str__(self) -> str:
        lines = [f"peak {quantity(self.peak, 'B')} of results of operations; at the peak:"]
        lines += [
            f"  {quantity(a.nbytes, 'B'):>9}  {a.dtype}{list(a.shape)}  {a.place}"
            for a in self.at_peak()[:10]
        ]
        lines.append("by module:")
        lines += [f"  {quantity(n, 'B'):>9}  {m}" for m, n in list(self.by_module().items())[:10]]
        return "\n".join(lines)

    def export(self, path: str) -> None:
        """Write it: `.html` as a picture, else as JSON, `[times, sizes]`."""
        if path.endswith(".html"):
            Path(path).write_text(self._page(), encoding="utf-8")
            return
        Path(path).write_text(json.dumps([self.times, self.sizes]), encoding="utf-8")

    def _page(self) -> str:
        """A picture of memory over time, and what held it."""
        width, height = 960, 260
        start, end = (self.times[0], self.times[-1]) if self.times else (0.0, 1.0)
        span = max(end - start, 1e-9)
        points = []
        last = float(height)
        for at, size in zip(self.times, self.sizes, strict=True):
            x = width * (at - start) / span
            y = height * (1 - size / max(self.peak, 1))
            points += [f"{x:.1f},{last:.1f}", f"{x:.1f},{y:.1f}"]
            last = y
        area = " ".join([f"0,{height}", *points, f"{width},{last:.1f}", f"{width},{height}"])
        rows = "".join(
            f"<tr><td>{quantity(a.nbytes, 'B')}</td><td>{html.escape(a.dtype)}"
            f"{html.escape(str(list(a.shape)))}</td><td>{html.escape(a.place)}</td></tr>"
            for a in self.at_peak()[:30]
        )
        return (
            "<!doctype html><meta charset='utf-8'><title>memory</title><style>:root{color-scheme:"
            "light dark}body{font:14px system-ui;margin:2em}td{padding:.2em 1em .2em 0}</style>"
            f"<h1>Memory: peak {quantity(self.peak, 'B')}</h1>"
            f"<svg viewBox='0 0 {width} {height}' width='100%'><polygon fill='#4477aa' "
            f"points='{area}'/></svg><p>{span / 1000:.1f} ms</p>"
            f"<h2>At the peak</h2><table>{rows}</table>"
        )
