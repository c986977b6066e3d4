"""How well classes are told apart, one by one, and answers as a table."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

NAMED = 10  # classes that the end names one by one
FEW = 20  # samples to test on; a share of fewer says little


def confusion(actual: Sequence[int], guesses: Sequence[int], classes: int) -> Any:
    """How often each class was taken for each: a row for each true class.

    >>> confusion([0, 0, 1], [0, 1, 1], 2).tolist()
    [[1, 1], [0, 1]]
    """
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (np.asarray(actual), np.asarray(guesses)), 1)
    return counts


def recognized(counts: Any, names: Sequence[str], remedy: str) -> str:
    """How many of each class were taken for it, and whether that is worth anything.

    Of many classes only those are named that do worst.

    >>> print(recognized(np.array([[8, 1], [1, 0]]), ["no", "yes"], "It needs more rows."))
    <BLANKLINE>
      recognized  no: 8 of 9, yes: 0 of 1
      That is no better than always saying 'no'. It needs more rows.
    """
    usual, right = counts.sum(1), np.diagonal(counts)
    there = [k for k in range(len(names)) if usual[k] or len(names) <= NAMED]
    title = "recognized"
    if len(names) > NAMED:
        there = sorted(there, key=lambda k: right[k] / usual[k])[:NAMED]
        title = "recognized least"
    each = ", ".join(f"{names[k]}: {int(right[k])} of {int(usual[k])}" for k in there)
    said = f"\n  {title}  {each}"
    if right.sum() <= usual.max():
        said += f"\n  That is no better than always saying {names[int(usual.argmax())]!r}. {remedy}"
    return said


def unseen(count: int, one: str, many: str) -> str:
    """What the result was found on, and whether that is enough to believe it.

    >>> unseen(1, "row", "rows"), unseen(40, "row", "rows")
    ('1 row it has not seen, too few to tell much', '40 rows it has not seen')
    """
    few = "" if count >= FEW else ", too few to tell much"
    return f"{count} {one if count == 1 else many} it has not seen{few}"


def answered(
    inputs: Sequence[str],
    found: Callable[[str], tuple[list[str], list[list[str]], list[dict[str, Any]]]],
    target: str,
    *,
    likely: bool,
    rows: bool,
) -> None:
    """Print answers as a table.

    Args:
        inputs: files, all of one kind.
        found: a file's columns, rows and answers.
        target: what is predicted.
        likely: whether answers say how sure they are.
        rows: whether each answer stands behind its row.
    """
    writer = csv.writer(sys.stdout, lineterminator="\n")
    title: list[str] = []
    for path in inputs:
        names, cells, answers = found(path)
        if not rows:
            names, cells = [], [[] for _ in answers]
        said = [f"predicted {target}" if target in names else target]
        said += ["probability"] if likely else []
        if title and title != [*names, *said]:
            raise ValueError(
                f"{path}: its columns are not those of {inputs[0]}: ask for each alone"
            )
        if not title:
            title = [*names, *said]
            writer.writerow(title)
        for row, answer in zip(cells, answers, strict=True):
            value = answer[target] if likely else f"{answer[target]:.6g}"
            writer.writerow([*row, value, *([f"{answer['probability']:.3f}"] if likely else [])])
