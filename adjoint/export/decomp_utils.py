"""Tables of what operations are made of, as PyTorch's exports are given them: empty here.

Graphs are of Adjoint's records, which nothing is below; `run_decompositions` gives them back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class CustomDecompTable(dict[Any, Callable[..., Any]]):
    """A table that programs add to and take from."""

    def copy(self) -> CustomDecompTable:
        """Another table with the same entries."""
        return CustomDecompTable(self)


def default_decompositions() -> CustomDecompTable:
    """What operations are decomposed into unless a program says: nothing is.

    >>> len(default_decompositions())
    0
    """
    return CustomDecompTable()
