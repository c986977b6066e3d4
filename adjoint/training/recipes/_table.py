"""A table as people keep them: what its columns hold, and its rows as numbers."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.data.readers import read_csv
from adjoint.training.recipes import _common

SEPARATORS = ",;\t|"
KINDS = 50  # a column of text with more kinds than this is no choice among a few
COMMA = re.compile(r"[-+]?\d+(\.\d{3})*,\d+")
ABSENT = frozenset(("", "na", "n/a", "nan", "null", "none", "-", "?"))  # where a number should be
GROUPS = {
    ".": re.compile(r"[-+]?[1-9]\d{0,2}((,\d{3})+\.\d*|(,\d{3}){2,})"),  # 1,250 may be 1.25
    ",": re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?"),
}
GROUPED = {".": re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?"), ",": GROUPS[","]}


@dataclass(frozen=True, slots=True)
class Column:
    """What a column holds: `number`, `date`, or `choice`, one of the texts in `kinds`.

    Numbers are `grouped` if thousands are set apart, as in 1.250,50, and `percent` if each has that
    sign, as 12 %, which is read as 12. With `gaps`, cells may be
    absent: a further number of the row says whether one is.
    """

    name: str
    holds: str
    kinds: tuple[str, ...] = ()
    grouped: bool = False
    gaps: bool = False
    percent: bool = False

    @property
    def width(self) -> int:
        """How many numbers a cell becomes."""
        return (len(self.kinds) if self.holds == "choice" else 1) + self.gaps

    def number(self, cell: str, decimal: str) -> float | None:
        """A cell as a number, a kind by its place; None for a cell that does not belong here."""
        if self.holds == "choice":
            return float(self.kinds.index(cell)) if cell in self.kinds else None
        if self.holds == "date":
            return day(cell)
        if self.percent:  # 0.5 beside 12 % may be either
            cell, sign, rest = cell.strip().partition("%")
            if not sign or rest:
                return None
        return number(cell, decimal, self.grouped)

    def absent(self, cell: str) -> bool:
        """Whether a cell says that there is nothing; a kind of text may be called `None`."""
        return not cell.strip() or (self.holds != "choice" and cell.strip().lower() in ABSENT)


def number(cell: str, decimal: str = ".", grouped: bool = False) -> float | None:
    """The finite number that a cell holds."""
    if grouped:
        if GROUPED[decimal].fullmatch(cell.strip()):
            cell = cell.replace("," if decimal == "." else ".", "")
        elif ("," if decimal == "." else ".") in cell:
            return None
    if decimal != ".":
        cell = cell.replace(decimal, ".")
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _german(time: str) -> Callable[[str], datetime]:
    return lambda text: datetime.strptime(text, f"%d.%m.%Y{time}")


DAYS = (datetime.fromisoformat, *map(_german, ("", " %H:%M", " %H:%M:%S")))


def day(cell: str) -> float | None:
    """The day that a cell names, 2024-12-31 or 31.12.2024, with or without a time."""
    for read in DAYS:
        try:
            moment = read(cell.strip())
        except ValueError:
            continue
        return (
            moment.toordinal() + (moment.hour * 3600 + moment.minute * 60 + moment.second) / 86400
        )
    return None


def read(path: str, encoding: str) -> tuple[list[str], list[list[str]]]:
    """Names and rows of a table, whichever of the usual separators it has."""
    if not Path(path).is_file():
        raise _common.no_file(path)
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
    for candidate in (
        Column(name, "number", grouped=_grouped(there, decimal)),
        Column(name, "number", percent=True),
        Column(name, "date"),
    ):
        if sum(candidate.number(cell, decimal) is not None for cell in there) > len(there) / 2:
            if candidate.grouped:
                cell = next(cell for cell in there if GROUPS[decimal].fullmatch(cell.strip()))
                value = candidate.number(cell, decimal)
                print(f"{name}: {cell!r} is read as {value:.15g}, its thousands set apart")
            return candidate
    commas = [cell for cell in there if COMMA.fullmatch(cell.strip())]
    if len(commas) > len(there) / 2:
        raise ValueError(
            f"{path}: the column {name!r} has numbers with a comma, such as {commas[0]!r}. "
            "Pass --decimal , if it stands for the point; else take it out."
        )
    return Column(name, "choice", tuple(sorted(set(there))))


def _grouped(cells: Sequence[str], decimal: str) -> bool:
    """Whether thousands are set apart: some cells can be read only so, and no other speaks against.

    `--decimal ,` says that a point is none, so 1.250 is such a cell, unless 98.5 is there too.
    """
    mark = "," if decimal == "." else "."
    marked = [cell.strip() for cell in cells if mark in cell]
    sure = sum(GROUPS[decimal].fullmatch(cell) is not None for cell in marked)
    return sure > 0 and all(
        GROUPED[decimal].fullmatch(cell) for cell in marked if number(cell, decimal) is not None
    )


def gaps(
    columns: Sequence[Column],
    places: Sequence[int],
    row: Sequence[str],
    decimal: str,
    filled: bool = False,
) -> list[tuple[Column, str]]:
    """The columns of a row whose cell does not belong there, and the cells.

    Those that are absent do not count if they are to be `filled`.
    """
    return [
        (column, row[place])
        for column, place in zip(columns, places, strict=True)
        if column.number(row[place], decimal) is None and not (filled and column.absent(row[place]))
    ]


def usable(columns: Sequence[Column], rows: int) -> list[Column]:
    """The columns that say something of other rows; the others are named."""
    labels = [c.name for c in columns if c.holds == "choice" and len(c.kinds) == rows]
    long = [c.name for c in columns if len(c.kinds) > KINDS and c.name not in labels]
    if labels:
        print(f"left out, since every row has another: {', '.join(labels)}")
    if long:
        print(f"left out, since they hold more than {KINDS} kinds of text: {', '.join(long)}")
    return [c for c in columns if c.name not in labels and c.name not in long]


def counts_rows(cells: Sequence[str]) -> bool:
    """Whether cells are whole numbers, each one more than that of the row before.

    >>> counts_rows(["7", "8", "9"]), counts_rows(["7", "9", "8"]), counts_rows(["1.5", "2.5"])
    (True, False, False)
    """
    if len(cells) < 3 or not all(cell.strip().isdecimal() for cell in cells):
        return False
    numbers = [int(cell) for cell in cells]
    return numbers == [*range(numbers[0], numbers[0] + len(numbers))]


def features(
    columns: Sequence[Column], places: Sequence[int], rows: Sequence[Sequence[str]], decimal: str
) -> Any:
    """Rows as numbers; a choice among kinds is a 1 in the place of the kind and 0 elsewhere.

    A number that is absent is nan, and no kind has a 1 where there is none.
    """
    parts = []
    for column, place in zip(columns, places, strict=True):
        numbers = np.array([column.number(row[place], decimal) for row in rows], dtype=np.float64)
        if column.holds == "choice":
            parts.append((numbers[:, None] == np.arange(len(column.kinds))).astype(np.float64))
        else:
            parts.append(numbers[:, None])
        if column.gaps:
            parts.append(np.isnan(numbers)[:, None].astype(np.float64))
    return np.concatenate(parts, axis=1)


def scale(numbers: Any) -> tuple[Any, Any]:
    """Mean and spread of each column, by what is there; a column of one value is only shifted."""
    there = np.isfinite(numbers)
    count = np.maximum(there.sum(axis=0), 1)
    mean = np.where(there, numbers, 0).sum(axis=0) / count
    spread = np.sqrt((np.where(there, numbers - mean, 0) ** 2).sum(axis=0) / count)
    return mean, np.where(spread > 1e-12 * np.abs(mean), spread, 1.0)


def scaled(numbers: Any, mean: Any, spread: Any) -> Any:
    """Rows for the network; what is absent is the mean."""
    return np.nan_to_num((numbers - np.asarray(mean)) / np.asarray(spread), nan=0.0)


def columns_as_data(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Columns as a file keeps them."""
    return [asdict(column) | {"kinds": list(column.kinds)} for column in columns]


def restored(columns: Sequence[dict[str, Any]]) -> list[Column]:
    """Columns out of a file."""
    return [Column(**fields | {"kinds": tuple(fields["kinds"])}) for fields in columns]
