"""MATLAB's files, within a budget: scipy reads them once it is known how much they inflate to."""

from __future__ import annotations

import struct
import zlib
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.engine.core.availability.libraries import need
from adjoint.engine.core.errors import FileError
from adjoint.engine.core.files.budget import Budget, FileRefusal

HEADER, COMPRESSED = 128, 15  # bytes before the first element; the kind of a deflated one
STEP = 1 << 20  # bytes that are inflated at a time


def _check_inflation(data: bytes, budget: Budget) -> None:
    """Spend what deflated elements become: scipy inflates long pieces of them at once."""
    order = {b"IM": "<", b"MI": ">"}.get(data[126:128])
    place = HEADER
    while order is not None and place + 8 <= len(data):
        kind, length = struct.unpack_from(f"{order}II", data, place)
        if kind == COMPRESSED:
            stream, rest = zlib.decompressobj(), data[place + 8 : place + 8 + length]
            while rest and not stream.eof:
                budget.spend(len(stream.decompress(rest, STEP)), "what it inflates to")
                rest = stream.unconsumed_tail
        place += 8 + length


def read_matrices(path: Path, names: list[str], who: str) -> dict[str, Any]:
    """Some of the arrays in a file, by name."""
    library = need("scipy.io", who)
    data = path.read_bytes()
    budget = Budget(len(data), f"{who}: {path}")
    try:
        _check_inflation(data, budget)
        for name, shape, kind in library.whosmat(str(path)):
            if name in names:
                budget.spend(prod(shape) * np.dtype(kind).itemsize, f"the array {name}")
        matrices: dict[str, Any] = library.loadmat(str(path), variable_names=names)
        return {name: matrices[name] for name in names}
    except FileRefusal:
        raise
    except Exception as error:  # its readers raise whatever they like
        raise FileError(
            f"{budget.what}: damaged, or without {' and '.join(names)} ({type(error).__name__}: "
            f"{str(error)[:200]})"
        ) from error
