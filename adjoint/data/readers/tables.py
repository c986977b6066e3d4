"""Comma-separated tables."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.data.dataset import Dataset
from adjoint.engine.backends.array.interop import tensor
from adjoint.engine.core.dtype import DType, float32
from adjoint.engine.core.errors import FileError, did_you_mean
from adjoint.engine.core.files.budget import Budget
from adjoint.engine.tensor.tensor import Tensor

SEPARATORS = ",;\t|"
EXACT = 2**53  # whole numbers up to here are floats, all of them
SHORT = 6  # characters; such cells take far more memory than room in a file


def read_csv(
    path: str | os.PathLike[str],
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8-sig",
) -> tuple[list[str], list[list[str]]]:
    """The column names and the rows of a table, as text.

    Args:
        path: the file.
        delimiter: what stands between columns; unless given, whichever of comma, semicolon, tab and
            | divides the first row most.
        header: whether the first row has the names; unless given, it does if no cell of it is a
            number.
        encoding: of the file.
    """
    budget = Budget(os.path.getsize(path), f"read_csv: {os.fspath(path)}")
    try:
        delimiter = delimiter or separator_of(path, encoding)
        with open(path, newline="", encoding=encoding) as file:
            rows = list(_rows(csv.reader(file, delimiter=delimiter), budget))
    except (csv.Error, UnicodeDecodeError, ValueError) as error:
        raise FileError(f"{budget.what}: damaged, or no table of text: {error}") from error
    if not rows:
        raise FileError(f"read_csv: {os.fspath(path)} has no rows")
    if header is None:
        header = not any(_is_number(cell) for cell in rows[0])
    names = rows.pop(0) if header else [str(i) for i in range(len(rows[0]))]
    for number, row in enumerate(rows, 2 if header else 1):
        if len(row) != len(names):
            marks = [mark for mark in SEPARATORS if len(names) == 1 and mark in names[0]]
            remedy = (
                f". Pass delimiter={marks[0]!r} if that stands between columns"
                if marks
                else f". Mend that row; a cell with {delimiter!r} in it needs quotes around it"
            )
            raise FileError(
                f"read_csv: {os.fspath(path)}, row {number}: {len(row)} columns, expected "
                f"{len(names)}{remedy}"
            )
    return names, rows


def separator_of(path: str | os.PathLike[str], encoding: str) -> str:
    """What divides the first row of a table into most columns."""
    with open(path, newline="", encoding=encoding) as file:
        first = next((line for line in file if line.strip()), "")
    return max(SEPARATORS, key=lambda mark: len(next(csv.reader([first], delimiter=mark), [])))


def _rows(table: Any, budget: Budget) -> Iterator[list[str]]:
    """The rows with something in them; short cells that occur again are one string."""
    known: dict[str, str] = {}
    for row in table:
        if not row:
            continue
        cost = 72 + 9 * len(row)
        for i, cell in enumerate(row):
            if len(cell) > SHORT or len(known) > 1 << 16:
                cost += 56 + len(cell) * (1 if cell.isascii() else 4)
            else:
                row[i] = known.setdefault(cell, cell)
            if "\0" in cell:
                raise ValueError(f"a byte 0 in row {table.line_num}")
        budget.spend(cost, "its cells")
        yield row


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # which Python's own numbers may have, and no table's


def _whole(cell: str) -> int:
    """A whole number, exactly."""
    try:
        return int(cell)
    except ValueError:
        return int(float(cell))


class CSVDataset(Dataset[Any]):
    """Rows of a table: features as one tensor, and the target column if there is one.

    A column that is not numeric is numbered by its sorted values, kept in `categories`. One of
    numbers with gaps or other text among them is refused: fill them in, or leave it out with
    `columns`. A second file needs the `categories` of the first, so that its texts have the same
    numbers.

    Args:
        path: the file.
        target: the name or position of the target column, or None.
        columns: names of the feature columns; all others than the target unless given.
        dtype: of the features, and of a numeric target that is not whole.
        delimiter: what stands between columns; see `read_csv`.
        header: see `read_csv`.
        categories: by column, the texts that its numbers stand for, as another dataset has them.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        target: str | int | None = None,
        columns: Sequence[str] | None = None,
        dtype: DType = float32,
        delimiter: str | None = None,
        header: bool | None = None,
        categories: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.names, rows = read_csv(path, delimiter=delimiter, header=header)
        if isinstance(target, int):
            target = self.names[target]
        chosen = [n for n in self.names if n != target] if columns is None else list(columns)
        unknown = [n for n in (*chosen, *([target] if target else [])) if n not in self.names]
        if unknown:
            close = did_you_mean(unknown[0], self.names)
            raise KeyError(
                f"CSVDataset: {os.fspath(path)} has no column {unknown[0]!r}{close or '.'} It has "
                f"{self.names}"
            )
        self._known = categories or {}
        self.path = os.fspath(path)
        twice = [n for n in (*chosen, target) if n is not None and self.names.count(n) > 1]
        if twice:
            raise FileError(
                f"CSVDataset: {self.path}: more than one column is called {twice[0]!r}. Rename "
                "one, or leave them out with columns=[...]"
            )
        self.columns = chosen
        self.categories: dict[str, list[str]] = {}
        place = {name: i for i, name in enumerate(self.names)}
        features = np.empty((len(rows), len(chosen)))
        for i, name in enumerate(chosen):
            features[:, i] = self._numbers(name, [row[place[name]] for row in rows])
        self.features: Tensor = tensor(features, dtype=dtype)
        self.targets: Tensor | None = None
        if target is not None:
            cells = [row[place[target]] for row in rows]
            numbers = np.array(self._numbers(target, cells))
            whole = bool((np.isfinite(numbers) & (numbers == np.floor(numbers))).all())
            whole = whole and bool((np.abs(numbers) < 2**62).all())
            if whole and bool((np.abs(numbers) > EXACT).any()):  # as no float has them
                self.targets = tensor(np.array([_whole(cell) for cell in cells], np.int64))
            else:
                self.targets = tensor(
                    numbers.astype(np.int64) if whole else numbers, dtype=None if whole else dtype
                )

    def _numbers(self, name: str, cells: list[str]) -> list[float]:
        if name in self._known:
            known = self.categories[name] = list(self._known[name])
            place = {value: i for i, value in enumerate(known)}
            other = [cell for cell in cells if cell not in place]
            if other:
                raise FileError(
                    f"CSVDataset: {self.path}: {other[0]!r} in the column {name!r} is not among "
                    f"the categories given: {', '.join(known)}"
                )
            return [place[cell] for cell in cells]
        if all(_is_number(cell) for cell in cells):
            return [float(cell) for cell in cells]
        other = [cell for cell in cells if not _is_number(cell)]
        if len(other) < len(cells) / 2:
            raise FileError(
                f"CSVDataset: {self.path}: the column {name!r} has numbers and {len(other)} cells "
                f"that are none, such as {other[0]!r}. Fill them in, or leave it out with "
                "columns=[...]"
            )
        known = self.categories[name] = sorted(set(cells))
        place = {value: i for i, value in enumerate(known)}
        return [place[cell] for cell in cells]

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: Any) -> Any:
        if self.targets is None:
            return self.features[index]
        return self.features[index], self.targets[index]
