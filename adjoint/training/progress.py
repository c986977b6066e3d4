"""Progress of an epoch: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

BAR = 24


def duration(seconds: float) -> str:
    """Minutes and seconds, with hours where needed.

    >>> duration(75), duration(3700)
    ('1:15', '1:01:40')
    """
    total = round(seconds)
    hours, rest = divmod(total, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{left:02d}" if hours else f"{minutes}:{left:02d}"


def compact(number: float) -> str:
    """A count in at most five characters.

    >>> compact(950), compact(12_340), compact(2_500_000)
    ('950', '12.3k', '2.5M')
    """
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return f"{number:.0f}"


class Progress:
    """Shows how far a loop is, how fast, and when it will be done.

    Args:
        total: number of batches, or None if unknown.
        title: what comes first on the line.
        stream: where to write; standard error by default.
        every: seconds between plain lines where the stream is no terminal.
    """

    def __init__(
        self,
        total: int | None,
        title: str = "",
        stream: TextIO | None = None,
        every: float = 10.0,
        done: int = 0,
    ) -> None:
        self.total, self.title, self.stream = total, title, stream or sys.stderr
        self.terminal = self.stream.isatty()
        self.every = 0.1 if self.terminal else every
        self.first, self.done, self.samples = done, done, 0
        self.start = self.shown = time.perf_counter()

    def update(self, samples: int, values: dict[str, float]) -> None:
        """One batch of so many samples is done."""
        self.done += 1
        self.samples += samples
        now = time.perf_counter()
        if now - self.shown >= self.every:
            self.shown = now
            self._write(self.line(values), last=False)

    def close(self, values: dict[str, float]) -> None:
        """The epoch is over: its line stays."""
        self._write(self.line(values, finished=True), last=True)

    def line(self, values: dict[str, float], finished: bool = False) -> str:
        """The text of the moment."""
        spent = max(time.perf_counter() - self.start, 1e-9)
        parts = [self.title] if self.title else []
        if self.total:
            parts.append(f"{self.done}/{self.total}")
            if self.terminal and not finished:
                full = BAR * min(self.done, self.total) // self.total
                parts.append("[" + "=" * full + " " * (BAR - full) + "]")
        else:
            parts.append(f"{self.done} batches")
        parts.append(f"{compact(self.samples / spent)} samples/s")
        done = self.done - self.first
        if finished:
            parts.append(f"in {duration(spent)}")
        elif self.total and done:
            parts.append(f"ETA {duration(spent / done * max(self.total - self.done, 0))}")
        parts += [f"{name} {value:.4g}" for name, value in values.items()]
        return "  ".join(parts)

    def _write(self, text: str, last: bool) -> None:
        if self.terminal:
            self.stream.write("\r" + text + "\x1b[K" + ("\n" if last else ""))
        else:
            self.stream.write(text + "\n")
        self.stream.flush()
