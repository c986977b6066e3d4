"""The profiler's table as text: its columns, and durations and quantities for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}  # in microseconds


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of a table: its title and what it says of a row."""

    title: str
    cell: Callable[[Any], str]
    left: bool = False


def duration(microseconds: float, unit: str | None = None) -> str:
    """A time with its unit, as a reader wants it.

    >>> duration(1234.5), duration(1234.5, "us")
    ('1.234ms', '1234.500us')
    """
    if unit is None:
        unit = next((u for u, size in UNITS.items() if microseconds >= size), "us")
    if unit not in UNITS:
        raise ValueError(f"table: time_unit must be one of {', '.join(UNITS)}, received {unit!r}")
    return f"{microseconds / UNITS[unit]:.3f}{unit}"


def quantity(n: float, unit: str) -> str:
    """A number of bytes or operations with a prefix.

    >>> quantity(2_500_000, "B"), quantity(-3, "B")
    ('2.5 MB', '-3 B')
    """
    for prefix in ("", "k", "M", "G"):
        if abs(n) < 1000:
            return f"{n:.3g} {prefix}{unit}".rstrip()
        n /= 1000
    return f"{n:.3g} T{unit}"


def text_table(columns: Sequence[TextColumn], rows: Sequence[Any]) -> str:
    """Rows under titles, between rules."""
    lines = [[c.title for c in columns], *([c.cell(row) for c in columns] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    rule = "  ".join("-" * width for width in widths)

    def written(line: list[str]) -> str:
        pairs = zip(line, widths, columns, strict=True)
        return "  ".join(x.ljust(w) if c.left else x.rjust(w) for x, w, c in pairs).rstrip()

    return "\n".join([rule, written(lines[0]), rule, *map(written, lines[1:]), rule])
