"""PyTorch's notation of an operation: which arguments it writes to, what it returns."""

from __future__ import annotations

import re
from typing import NamedTuple


class Notation(NamedTuple):
    """What the notation of an operation says of it."""

    written: tuple[str, ...]  # the names of arguments that it writes to
    results: tuple[str, ...]  # the kinds of what it returns


_WRITTEN = re.compile(r"Tensor(?:\(\w+!\)|!)\S*\s+(\w+)")  # `Tensor(a!) out`, `Tensor! out`


def read_notation(text: str) -> Notation:
    """What a notation says.

    >>> read_notation("(Tensor x, Tensor(a!) out, int? axis=None) -> ()")
    Notation(written=('out',), results=())
    >>> read_notation("both(Tensor x, float[2] by) -> (Tensor, Tensor? rest)").results
    ('Tensor', 'Tensor?')
    """
    arguments, arrow, returned = text.rpartition("->")
    if not arrow:
        raise ValueError(f"a notation of an operation must have '->', received {text!r}")
    inner = returned.strip()
    inner = inner[1:-1] if inner.startswith("(") else inner
    results = tuple(part.split()[0] for part in inner.split(",") if part.strip())
    return Notation(tuple(_WRITTEN.findall(arguments)), results)
