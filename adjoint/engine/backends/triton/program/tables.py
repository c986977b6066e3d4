"""Tables that kernels read, in a GPU's memory (Note [tables])."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.engine.backends.triton.templates.windows.resampling import table_bytes


def tables(machine: Any, symbols: list[tuple[int, str]]) -> list[tuple[int, Any]]:
    """Words that are addresses of tables, and the tables, which whoever has the words must hold."""
    return [(at, table(machine, name)) for at, name in symbols]


@lru_cache(maxsize=512)
def table(machine: Any, name: str) -> Any:
    """A table by its name, copied to the device once."""
    data = table_bytes(name)
    words = np.frombuffer(data + bytes(-len(data) % 8), np.int64)
    there, staged = machine.empty(len(words), np.int64), machine.pinned(len(words))
    staged[:] = words
    machine.uploader(there, staged)()
    mark = machine.mark(None)
    if mark is not None:
        mark.synchronize()  # other streams read it too
    return there
