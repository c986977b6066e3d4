"""PyTorch's promise that an interface stays; a mark without effect."""

from __future__ import annotations

from typing import TypeVar

Marked = TypeVar("Marked")


class compatibility:  # PyTorch's name
    """A decorator that returns what it is given."""

    def __init__(self, is_backward_compatible: bool) -> None:
        self.is_backward_compatible = is_backward_compatible

    def __call__(self, function: Marked) -> Marked:
        """The function itself."""
        return function
