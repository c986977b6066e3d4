"""Comma-separated tables."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from typing import Any

from adjoint.data.dataset import Dataset
from adjoint.engine.backends.array.interop import tensor
from adjoint.engine.core.dtype import DType, float32
from adjoint.engine.tensor.tensor import Tensor


def read_csv(
    path: str | os.PathLike[str], *, delimiter: str = ",", header: bool | None = None
) -> tuple[list[str], list[list[str]]]:
    """The column names and the rows of a table, as text.

    Args:
        path: the file.
        delimiter: what stands between columns.
        header: whether the first row has the names; unless given, it does if no cell of it is a
            number.
    """
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = [row for row in csv.reader(file, delimiter=delimiter) if row]
    if not rows:
        raise RuntimeError(f"read_csv: {os.fspath(path)} has no rows")
    if header is None:
        header = not any(_is_number(cell) for cell in rows[0])
    names = rows.pop(0) if header else [str(i) for i in range(len(rows[0]))]
    for number, row in enumerate(rows, 2 if header else 1):
        if len(row) != len(names):
            raise RuntimeError(
                f"read_csv: {os.fspath(path)}, row {number}: {len(row)} columns, expected "
                f"{len(names)}"
            )
    return names, rows


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


class CSVDataset(Dataset[Any]):
    """Rows of a table: features as one tensor, and the target column if there is one.

    A column that is not numeric is numbered by its sorted values, kept in `categories`.

    Args:
        path: the file.
        target: the name or position of the target column, or None.
        columns: names of the feature columns; all others than the target unless given.
        dtype: of the features, and of a numeric target that is not whole.
        delimiter: what stands between columns.
        header: see `read_csv`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        target: str | int | None = None,
        columns: Sequence[str] | None = None,
        dtype: DType = float32,
        delimiter: str = ",",
        header: bool | None = None,
    ) -> None:
        self.names, rows = read_csv(path, delimiter=delimiter, header=header)
        if isinstance(target, int):
            target = self.names[target]
        chosen = [n for n in self.names if n != target] if columns is None else list(columns)
        unknown = [n for n in (*chosen, *([target] if target else [])) if n not in self.names]
        if unknown:
            raise KeyError(
                f"CSVDataset: {os.fspath(path)} has no column {unknown}; it has {self.names}"
            )
        self.columns = chosen
        self.categories: dict[str, list[str]] = {}
        table = {n: [row[self.names.index(n)] for row in rows] for n in self.names}
        features = [self._numbers(n, table[n]) for n in chosen]
        self.features: Tensor = tensor(
            [list(row) for row in zip(*features, strict=True)], dtype=dtype
        )
        self.targets: Tensor | None = None
        if target is not None:
            numbers = self._numbers(target, table[target])
            whole = all(float(n).is_integer() for n in numbers)
            self.targets = (
                tensor([int(n) for n in numbers]) if whole else tensor(numbers, dtype=dtype)
            )

    def _numbers(self, name: str, cells: list[str]) -> list[float]:
        if all(_is_number(cell) for cell in cells):
            return [float(cell) for cell in cells]
        known = self.categories[name] = sorted(set(cells))
        place = {value: i for i, value in enumerate(known)}
        return [place[cell] for cell in cells]

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: Any) -> Any:
        if self.targets is None:
            return self.features[index]
        return self.features[index], self.targets[index]
