"""Tensors as text, under PyTorch's names."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from adjoint.engine.tensor.reading.printing import OPTIONS as PRINT_OPTS
from adjoint.engine.tensor.reading.printing import body_of, with_suffixes
from adjoint.engine.tensor.reading.printing import set_printoptions as set_printoptions

__all__ = ["PRINT_OPTS", "printoptions", "set_printoptions"]


def get_printoptions() -> dict[str, Any]:
    """How tensors print at present."""
    return {f.name: getattr(PRINT_OPTS, f.name) for f in dataclasses.fields(PRINT_OPTS)}


@contextlib.contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """A `with` block in which tensors print otherwise.

    >>> import adjoint as ad
    >>> with printoptions(precision=1):
    ...     print(ad.tensor([0.123]))
    tensor([0.1])
    """
    before = get_printoptions()
    try:
        set_printoptions(**{"sci_mode": before["sci_mode"], **kwargs})
        yield
    finally:
        for name, value in before.items():
            setattr(PRINT_OPTS, name, value)


def _str_intern(inp: Any, *, tensor_contents: str | None = None) -> str:
    """A tensor as text."""
    if tensor_contents is not None:
        raise NotImplementedError("_str_intern: contents of one's own are not taken")
    return repr(inp)


def _tensor_str(self: Any, indent: int) -> str:
    """The elements as text."""
    return body_of(self, indent)


def _add_suffixes(
    tensor_str: str, suffixes: list[str], indent: int, force_newline: bool = False
) -> str:
    """The elements with what is said after them."""
    return with_suffixes(tensor_str, suffixes, indent, apart=force_newline)
