"""`len` of a tensor while sizes are symbols.

Python turns what `__len__` returns into a plain int, and `loss.sum() / len(x)` would divide by the
size of the present call for good. While a function is recorded for dynamic sizes (one trace at a
time, Note [extents]), `len` is a function that returns the size itself; for anything but tensors
it is what it always was.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from adjoint.engine.core.operations.record import is_tensor

_len = builtins.len


def _length(x: Any, /) -> int:
    if is_tensor(x) and x.shape:
        return x.shape[0]
    return _len(x)


@contextmanager
def lengths_as_sizes() -> Iterator[None]:
    """Have `len(tensor)` be `tensor.shape[0]`, symbol or not."""
    builtins.len = _length
    try:
        yield
    finally:
        builtins.len = _len
