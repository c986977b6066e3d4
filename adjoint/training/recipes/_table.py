"""A table as people keep them: what its columns hold, and its rows as numbers."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.data.readers import read_csv
from adjoint.engine.core.errors import FileError
from adjoint.training.recipes import _cells, _common
from adjoint.training.recipes._cells import ABSENT, is_grouped, without_mark

KINDS = 50  # a column of text with more kinds than this is no choice among a few
SEVERAL = 2  # words on average, from which on cells are texts
COMMA = re.compile(r"[-+]?\d+(\.\d{3})*,\d+")
BEGINNINGS = {  # of files that are no table of text
    b"PK\x03\x04": "a workbook or an archive. Save the sheet as CSV, and give that.",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook. Save the sheet as CSV, and give that.",
    b"\x1f\x8b": "compressed. Unpack it first.",
}


@dataclass(frozen=True, slots=True)
class Column:
    """What a column holds: `number`, `date`, or `choice`, one of the texts in `kinds`.

    Numbers are `grouped` if thousands are set apart, as in 1.250,50, and have a `mark` if something
    stands beside each, as in 12 %, which is read as 12. Days as 12/31/2024 are `slashed`, here by
    "month/day". With `gaps`, cells may be absent: a further number of the row says whether one is.
    Texts that differ in case or spaces alone are one kind, unless they are to be `exact`.
    """

    name: str
    holds: str
    kinds: tuple[str, ...] = ()
    grouped: bool = False
    gaps: bool = False
    mark: str = ""
    slashed: str = ""
    exact: bool = False

    @property
    def width(self) -> int:
        """How many numbers a cell becomes."""
        return (len(self.kinds) if self.holds == "choice" else 1) + self.gaps

    def number(self, cell: str, decimal: str) -> float | None:
        """A cell as a number, a kind by its place; None for a cell that does not belong here."""
        if self.holds == "choice":
            return places_of(self.kinds, self.exact).get(cell if self.exact else alike(cell))
        if self.holds == "date":
            return _cells.day(cell, self.slashed)
        bare = without_mark(cell, self.mark) if self.mark else cell
        if bare is None and self.mark != "%":  # 0.5 beside 12 % may be either
            bare = cell
        return None if bare is None else _cells.number(bare, decimal, self.grouped)

    def absent(self, cell: str) -> bool:
        """Whether a cell says that there is nothing; a kind of text may be called `None`."""
        return not cell.strip() or (self.holds != "choice" and cell.strip().lower() in ABSENT)


def alike(cell: str) -> str:
    """What texts have in common that differ in case or spaces alone.

    >>> alike(" New  York"), alike("NEW YORK")
    ('new york', 'new york')
    """
    return " ".join(cell.split()).casefold()


@cache
def places_of(kinds: tuple[str, ...], exact: bool) -> dict[str, float]:
    """The number of each kind, the first of those that are alike."""
    places: dict[str, float] = {}
    for k, kind in enumerate(kinds):
        places.setdefault(kind if exact else alike(kind), float(k))
    return places


def kinds_of(name: str, cells: Sequence[str], exact: bool) -> tuple[str, ...]:
    """The texts of a column, sorted; those that are alike are one, as most cells have it."""
    counts = Counter(cells)
    if exact:
        return tuple(sorted(counts))
    together: dict[str, list[str]] = {}
    for kind, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        together.setdefault(alike(kind), []).append(kind)
    several = [kinds for kinds in together.values() if len(kinds) > 1]
    if several:
        shown = ", ".join(map(repr, several[0][:4]))
        more = f", and {len(several) - 1} more such" if len(several) > 1 else ""
        print(
            f"{name}: {shown} differ in case or spaces alone, so they are one kind{more} "
            "(--exact keeps them apart)"
        )
    return tuple(sorted(kinds[0].strip() for kinds in together.values()))


def read(path: str, encoding: str) -> tuple[list[str], list[list[str]]]:
    """Names and rows of a table, whichever of the usual separators it has."""
    if not Path(path).is_file():
        raise _common.no_file(path)
    with open(path, "rb") as binary:
        begins = binary.read(4)
    for beginning, what in BEGINNINGS.items():
        if begins.startswith(beginning):
            raise ValueError(f"{path}: {what}")
    try:
        names, rows = read_csv(path, encoding=encoding)
    except LookupError:
        raise ValueError(f"--encoding: there is no encoding {encoding!r}") from None
    except (UnicodeDecodeError, RuntimeError) as error:
        if isinstance(error, UnicodeDecodeError) or isinstance(error.__cause__, UnicodeDecodeError):
            raise _common.not_text(path, encoding) from error
        raise FileError(str(error).removeprefix("read_csv: ")) from error
    names = [name.strip() for name in names]  # as cells are: `a, b` has a column b
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{path}: more than one column is called {twice[0]!r}. Rename one.")
    return names, rows


def encoding_of(path: str, usual: str) -> str:
    """UTF-8 if a file is that; else what the table was in that was learned from."""
    if Path(path).is_file():
        for encoding in ("utf-8-sig", usual):
            try:
                Path(path).read_text(encoding=encoding)
            except UnicodeError:
                continue
            return encoding
        raise ValueError(f"{path}: not text in UTF-8. Save it so.")
    return usual


def column(
    path: str,
    name: str,
    cells: Sequence[str],
    decimal: str,
    said: bool = False,
    *,
    exact: bool = False,
    days: str = "",
) -> Column:
    """What a column holds, by its cells; a few that do not fit are gaps.

    Args:
        path: of the table, for what is said of it.
        name: the column's.
        cells: from top to bottom.
        decimal: the point of numbers.
        said: whether the user chose that, so that another mark is none.
        exact: whether texts that differ in case or spaces alone are several.
        days: how days with slashes are to be read, if the user said so.
    """
    there = [cell for cell in cells if cell.strip()]
    if not there:
        raise ValueError(f"{path}: the column {name!r} is empty. Take it out.")
    mark = _cells.mark_of(there)
    bare = [cell for cell in (without_mark(c, mark) for c in there) if cell] if mark else there
    marked = Column(name, "number", grouped=is_grouped(bare, decimal, said), mark=mark)
    plain = Column(name, "number", grouped=is_grouped(there, decimal, said))
    dates = Column(name, "date", slashed=days)
    if not days and not any(dates.number(cell, decimal) is not None for cell in there):
        dates = replace(dates, slashed=slashed(path, name, there))
    for candidate in (plain, *([marked] if mark else []), dates):
        if sum(candidate.number(cell, decimal) is not None for cell in there) > len(there) / 2:
            tell_of(candidate, there, decimal)
            return candidate
    commas = [cell for cell in bare if COMMA.fullmatch(cell.strip())]
    if len(commas) > len(there) / 2:
        raise ValueError(
            f"{path}: the column {name!r} has numbers with a comma, such as {commas[0]!r}. "
            "Pass --decimal , if it stands for the point, or --decimal . if it sets thousands "
            f"apart; --without {shlex.quote(name)} leaves the column out."
        )
    return Column(name, "choice", kinds_of(name, there, exact), exact=exact)


def tell_of(column: Column, cells: Sequence[str], decimal: str) -> None:
    """Say how cells are read that might be read otherwise."""
    mark = "," if decimal == "." else "."
    telling = [cell for cell in cells if not column.grouped or mark in cell]
    cell, value = next((c, v) for c in telling if (v := column.number(c, decimal)) is not None)
    if column.grouped:
        print(f"{column.name}: {cell!r} is read as {value:.15g}, its thousands set apart")
    elif column.mark not in ("", "%"):
        print(f"{column.name}: {cell!r} is read as {value:.15g}")
    elif column.slashed:
        print(f"{column.name}: {cell!r} is read as {date.fromordinal(int(value))}")


def slashed(path: str, name: str, cells: Sequence[str]) -> str:
    """How days with slashes are to be read, 12/31/2024 or 31/12/2024: as most cells can be."""
    fit = {order: sum(_cells.day(c, order) is not None for c in cells) for order in _cells.SLASHED}
    if max(fit.values()) <= len(cells) / 2:
        return ""
    if len(set(fit.values())) == 1:
        raise ValueError(
            f"{path}: the column {name!r} has days such as {cells[0]!r}, of which the first or the "
            "second number may be the month, and no row tells. Pass --days day/month or --days "
            f"month/day, or --without {shlex.quote(name)}."
        )
    return max(fit, key=lambda order: fit[order])


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


def texts(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], names: Sequence[str]
) -> list[str]:
    """The columns that hold texts of several words, such as reviews."""

    def words(column: Column) -> int:
        return sum(len(row[names.index(column.name)].split()) for row in rows)

    return [c.name for c in columns if c.holds == "choice" and words(c) > SEVERAL * len(rows)]


def learning_from(text: str, path: str, target: str) -> str:
    """What to do with a column of texts."""
    command = ["adjoint", "train", "sentences", path, "--text", text, "--target", target]
    return f"{text!r} holds texts, from which `{shlex.join(command)}` learns."


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
    try:
        return [Column(**fields | {"kinds": tuple(fields["kinds"])}) for fields in columns]
    except TypeError:
        raise ValueError("the model is of another version of Adjoint. Train it again.") from None
