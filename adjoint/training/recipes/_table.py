"""A table as people keep them: what its columns hold, and its rows as numbers."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.data.readers import read_csv
from adjoint.training.recipes import _common

SEPARATORS = ",;\t|"
KINDS = 50  # a column of text with more kinds than this is no choice among a few
COMMA = re.compile(r"[-+]?\d+,\d+")


@dataclass(frozen=True, slots=True)
class Column:
    """What a column holds: `number`, `date`, or `choice`, one of the texts in `kinds`."""

    name: str
    holds: str
    kinds: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """How many numbers a cell becomes."""
        return len(self.kinds) if self.holds == "choice" else 1

    def number(self, cell: str, decimal: str) -> float | None:
        """A cell as a number, a kind by its place; None for a cell that does not belong here."""
        if self.holds == "choice":
            return float(self.kinds.index(cell)) if cell in self.kinds else None
        return (day if self.holds == "date" else number)(cell, decimal)


def number(cell: str, decimal: str = ".") -> float | None:
    """The finite number that a cell holds."""
    if decimal != ".":
        cell = cell.replace(decimal, ".")
    try:
        found = float(cell)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def day(cell: str, _decimal: str = ".") -> float | None:
    """The day that a cell names, as 2024-12-31 (with or without a time) or 31.12.2024."""
    for read in (datetime.fromisoformat, lambda text: datetime.strptime(text, "%d.%m.%Y")):
        try:
            found = read(cell.strip())
        except ValueError:
            continue
        return found.toordinal() + (found.hour * 3600 + found.minute * 60 + found.second) / 86400
    return None


def read(path: str, encoding: str) -> tuple[list[str], list[list[str]]]:
    """Names and rows of a table, whichever of the usual separators it has."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path!r}")
    try:
        with open(path, newline="", encoding=encoding) as file:
            first = next((line for line in file if line.strip()), "")
        separator = max(SEPARATORS, key=lambda mark: len(next(csv.reader([first], delimiter=mark))))
        names, rows = read_csv(path, delimiter=separator, encoding=encoding)
    except LookupError:
        raise ValueError(f"--encoding: there is no encoding {encoding!r}") from None
    except (UnicodeDecodeError, RuntimeError) as error:
        if isinstance(error, UnicodeDecodeError) or isinstance(error.__cause__, UnicodeDecodeError):
            raise _common.not_text(path, encoding) from error
        raise
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{path}: more than one column is called {twice[0]!r}. Rename one.")
    return names, rows


def column(path: str, name: str, cells: Sequence[str], decimal: str) -> Column:
    """What a column holds, by its cells; a few that do not fit are gaps."""
    there = [cell for cell in cells if cell.strip()]
    if not there:
        raise ValueError(f"{path}: the column {name!r} is empty. Take it out.")
    for holds, parse in (("number", number), ("date", day)):
        if sum(parse(cell, decimal) is not None for cell in there) > len(there) / 2:
            return Column(name, holds)
    commas = [cell for cell in there if COMMA.fullmatch(cell.strip())]
    if len(commas) > len(there) / 2:
        raise ValueError(
            f"{path}: the column {name!r} has numbers with a comma, such as {commas[0]!r}. "
            "Pass --decimal , if it stands for the point; else take it out."
        )
    return Column(name, "choice", tuple(sorted(set(there))))


def gap(columns: Sequence[Column], places: Sequence[int], row: Sequence[str], decimal: str) -> Any:
    """The first column of a row whose cell does not belong there, and the cell."""
    for each, place in zip(columns, places, strict=True):
        if each.number(row[place], decimal) is None:
            return each, row[place]
    return None


def usable(columns: Sequence[Column], rows: int) -> list[Column]:
    """The columns that say something of other rows; the others are named."""
    labels = [c.name for c in columns if c.holds == "choice" and len(c.kinds) == rows]
    long = [c.name for c in columns if len(c.kinds) > KINDS and c.name not in labels]
    if labels:
        print(f"left out, since every row has another: {', '.join(labels)}")
    if long:
        print(f"left out, since they hold more than {KINDS} kinds of text: {', '.join(long)}")
    return [c for c in columns if c.name not in labels and c.name not in long]


def features(
    columns: Sequence[Column], places: Sequence[int], rows: Sequence[Sequence[str]], decimal: str
) -> Any:
    """Rows as numbers; a choice among kinds is a 1 in the place of the kind and 0 elsewhere."""
    parts = []
    for each, place in zip(columns, places, strict=True):
        numbers = np.array([each.number(row[place], decimal) for row in rows], dtype=np.float64)
        if each.holds == "choice":
            parts.append((numbers[:, None] == np.arange(len(each.kinds))).astype(np.float64))
        else:
            parts.append(numbers[:, None])
    return np.concatenate(parts, axis=1)


def kept(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Columns as a file keeps them."""
    return [asdict(each) | {"kinds": list(each.kinds)} for each in columns]


def restored(columns: Sequence[dict[str, Any]]) -> list[Column]:
    """Columns out of a file."""
    return [Column(c["name"], c["holds"], tuple(c["kinds"])) for c in columns]
