"""Memory over time: how much there was, and at the peak what, from which line and module."""

from __future__ import annotations

import gzip
import html
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from adjoint.engine.core.origins import below_root
from adjoint.profiler.memory import Allocation
from adjoint.profiler.table import duration, quantity

# PyTorch's numbers in files: actions, and the last of its categories.
CREATED, DESTROYED = 2, 4
UNSORTED = 7
WIDTH, HEIGHT = 960, 260  # of the picture
STYLE = (
    ":root{color-scheme:light dark}body{font:14px system-ui;margin:2em}td{padding:.2em 1em .2em 0}"
    "th{text-align:left}svg polygon{fill:#4477aa;fill-opacity:.8}svg line{stroke:#8886}"
    "svg text{font-size:11px;fill:currentColor}.beside{display:flex;gap:3em;flex-wrap:wrap;"
    "align-items:flex-start}"
)


class MemoryTimeline:
    """What a profile's memory was, moment by moment.

    Counted are results of operations and temporary values of compiled programs; not what was there
    before.

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
            f"  {quantity(a.nbytes, 'B'):>9}  {a.what}  {a.place}" for a in self.at_peak()[:10]
        ]
        lines.append("by module:")
        lines += [f"  {quantity(n, 'B'):>9}  {m}" for m, n in list(self.by_module().items())[:10]]
        return "\n".join(lines)

    def export(self, path: str) -> None:
        """Write it, as the name's ending says.

        `.html` is a picture; `.raw.json.gz` every change, `[nanoseconds, action, bytes, category]`;
        other names `[times, sizes]` in JSON, gzipped for `.gz`. These are PyTorch's forms. It sorts
        memory by category as well; here all is in the category of what has none.
        """
        if path.endswith(".html"):
            Path(path).write_text(self._page(), encoding="utf-8")
            return
        text = json.dumps(self._changes() if path.endswith("raw.json.gz") else self._sizes())
        data = text.encode()
        Path(path).write_bytes(gzip.compress(data) if path.endswith(".gz") else data)

    def _sizes(self) -> list[Any]:
        times = [int(at) for at in self.times]
        return [times, [[0] * (UNSORTED + 1) + [size] for size in self.sizes]]

    def _changes(self) -> list[list[int]]:
        changes = []
        for a in self.allocations:
            changes.append([int(1000 * a.began), CREATED, a.nbytes, UNSORTED])
            if a.ended is not None:
                changes.append([int(1000 * a.ended), DESTROYED, -a.nbytes, UNSORTED])
        return sorted(changes)

    def _page(self) -> str:
        """A picture of memory over time, and what held it at the peak."""
        start, end = (self.times[0], self.times[-1]) if self.times else (0.0, 1.0)
        span = max(end - start, 1e-9)
        points = []
        last = float(HEIGHT)
        for at, size in zip(self.times, self.sizes, strict=True):
            x = WIDTH * (at - start) / span
            y = HEIGHT * (1 - size / max(self.peak, 1))
            points += [f"{x:.1f},{last:.1f}", f"{x:.1f},{y:.1f}"]
            last = y
        area = " ".join([f"0,{HEIGHT}", *points, f"{WIDTH},{last:.1f}", f"{WIDTH},{HEIGHT}"])
        scales = "".join(
            f"<line x1='0' x2='{WIDTH}' y1='{HEIGHT * (1 - k / 4)}' y2='{HEIGHT * (1 - k / 4)}'/>"
            f"<text x='-8' y='{HEIGHT * (1 - k / 4) + 4}' text-anchor='end'>"
            f"{quantity(self.peak * k / 4, 'B')}</text>"
            f"<text x='{WIDTH * k / 4}' y='{HEIGHT + 18}' text-anchor='middle'>"
            f"{duration(span * k / 4)}</text>"
            for k in range(5)
        )
        held = "".join(
            f"<tr><td>{quantity(a.nbytes, 'B')}</td><td>{html.escape(a.what)}</td>"
            f"<td>{html.escape(a.place)}</td></tr>"
            for a in self.at_peak()[:30]
        )
        modules = "".join(
            f"<tr><td>{quantity(n, 'B')}</td><td>{html.escape(module)}</td></tr>"
            for module, n in list(self.by_module().items())[:30]
        )
        return (
            "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Memory</title>"
            f"<style>{STYLE}</style></head><body><h1>Memory: peak {quantity(self.peak, 'B')}</h1>"
            f"<svg viewBox='-80 -8 {WIDTH + 110} {HEIGHT + 32}' width='100%'>{scales}"
            f"<polygon points='{area}'/></svg>"
            f"<h2>At the peak</h2><div class='beside'><table>{held}</table>"
            f"<table><tr><th colspan='2'>by module</th></tr>{modules}</table></div></body></html>"
        )
