"""Timing small pieces of code, under PyTorch's names."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from adjoint.engine.backends.threads import get_num_threads, set_num_threads

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (0.0, "ns"))


def select_unit(seconds: float) -> tuple[str, float]:
    """The unit a time is best shown in, and its length in seconds."""
    for length, name in _UNITS:
        if seconds >= length:
            return name, length or 1e-9
    return "ns", 1e-9


@dataclass
class Measurement:
    """How long a piece of code took, in several runs."""

    number_per_run: int
    raw_times: list[float]
    stmt: str = "stmt"
    setup: str = "pass"
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    num_threads: int = 1
    metadata: dict[Any, Any] = field(default_factory=dict)

    @property
    def times(self) -> list[float]:
        """Seconds for one execution, by run."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self) -> float:
        """Their mean."""
        return statistics.mean(self.times)

    @property
    def median(self) -> float:
        """Their median."""
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """The range of the middle half."""
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def title(self) -> str:
        """What was timed."""
        name = self.label or self.stmt.strip().splitlines()[0]
        return f"{name}: {self.sub_label}" if self.sub_label else name

    def __repr__(self) -> str:
        unit, length = select_unit(self.median)
        runs = len(self.raw_times)
        what = "Mean" if runs == 1 else "Median"
        lines = [f"<{type(self).__name__} object>", self.title]
        lines.append(f"  {what}: {self.median / length:.2f} {unit}")
        if runs > 1:
            lines.append(f"  IQR:    {self.iqr / length:.2f} {unit}")
        several = "s" if runs > 1 else ""
        lines.append(
            f"  {runs} measurement{several}, {self.number_per_run} runs per measurement, "
            f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        )
        return "\n".join(lines)


@contextmanager
def _threads(count: int) -> Any:
    before = get_num_threads()
    set_num_threads(count)
    try:
        yield
    finally:
        set_num_threads(before)


class Timer:
    """Times a statement, after one execution that is not counted.

    Args:
        stmt: the code.
        setup: code that runs before.
        global_setup: accepted as PyTorch has it; it is for C++.
        timer: gives the time in seconds.
        globals: names the code uses.
        label: what is timed.
        sub_label: which variant of it.
        description: which column of a comparison it belongs to.
        num_threads: how many threads it may use.

    Example:
        >>> Timer("x + 1", globals={"x": 1}).timeit(100).mean < 1
        True
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timeit.default_timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "python",
    ) -> None:
        if str(language).lower() not in ("python", "py"):
            raise NotImplementedError(f"Timer: only Python code is timed, received {language!r}")
        self._inner = timeit.Timer(stmt, setup, timer, globals)
        self._about = {
            "stmt": stmt, "setup": setup, "label": label, "sub_label": sub_label,
            "description": description, "num_threads": num_threads,
        }  # fmt: skip
        self._count = num_threads

    def _measured(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, **self._about)  # type: ignore[arg-type]

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Time so many executions at once."""
        with _threads(self._count):
            self._inner.timeit(max(number // 100, 2))
            return self._measured(number, [self._inner.timeit(number)])

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """Time blocks of executions, each long enough to be measured, for a while."""
        with _threads(self._count):
            number = 1
            while (taken := self._inner.timeit(number)) < min(1e-3, min_run_time / 100):
                number *= 10
            times: list[float] = []
            while not times or sum(times) < min_run_time:
                taken = self._inner.timeit(number)
                times.append(taken)
                if callback is not None:
                    callback(number, taken)
            return self._measured(number, times)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Any = None,
    ) -> Measurement:
        """Time blocks until they vary little."""
        measured = self.blocked_autorange(callback, min_run_time)
        while sum(measured.raw_times) < max_run_time:
            if len(measured.times) > 3 and measured.iqr < threshold * measured.median:
                break
            more = self.blocked_autorange(callback, min_run_time)
            if more.number_per_run == measured.number_per_run:
                measured.raw_times += more.raw_times
        return measured


class Compare:
    """A table of measurements: variants down, descriptions across."""

    def __init__(self, results: Sequence[Measurement]) -> None:
        self._results = list(results)

    def extend_results(self, results: Sequence[Measurement]) -> None:
        """Add measurements."""
        self._results += results

    def trim_significant_figures(self) -> None:
        """Accepted as PyTorch has it."""

    def colorize(self, rowwise: bool = False) -> None:
        """Accepted as PyTorch has it."""

    def __str__(self) -> str:
        unit, length = select_unit(min(m.median for m in self._results))
        columns = list(dict.fromkeys(m.description or "time" for m in self._results))
        rows = list(dict.fromkeys(m.title for m in self._results))
        cells = {
            (m.title, m.description or "time"): f"{m.median / length:.1f}" for m in self._results
        }
        first = max(len(r) for r in rows)
        widths = [max(len(c), *(len(cells.get((r, c), "")) for r in rows)) for c in columns]
        heads = (c.rjust(w) for c, w in zip(columns, widths, strict=True))
        lines = [f"{'':{first}} | " + " | ".join(heads)]
        for r in rows:
            shown = (cells.get((r, c), "").rjust(w) for c, w in zip(columns, widths, strict=True))
            lines.append(f"{r.ljust(first)} | " + " | ".join(shown))
        return "\n".join([*lines, f"Times are in {unit}."])

    def print(self) -> None:
        """Print the table."""
        print(self)
