"""Tensors as text, under PyTorch's names."""

from __future__ import annotations

from typing import Any

from adjoint.engine.tensor.reading.printing import OPTIONS as PRINT_OPTS
from adjoint.engine.tensor.reading.printing import body_of, with_suffixes
from adjoint.engine.tensor.reading.printing import set_printoptions as set_printoptions

__all__ = ["PRINT_OPTS", "set_printoptions"]


def _tensor_str(self: Any, indent: int) -> str:
    """The elements as text."""
    return body_of(self, indent)


def _add_suffixes(
    tensor_str: str, suffixes: list[str], indent: int, force_newline: bool = False
) -> str:
    """The elements with what is said after them."""
    return with_suffixes(tensor_str, suffixes, indent, apart=force_newline)
