"""Sparse tensors as PyTorch prints them."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.tensor.reading.printing import body_of, with_suffixes

PREFIX = "tensor("


def to_string(tensor: Any) -> str:
    """Positions, elements, size, how many there are, and the layout."""
    indent = len(PREFIX)
    lines = [
        f"{name}={_part(part.detach(), indent + len(name) + 1)}"
        for name, part in tensor.shown().items()
    ]
    text = PREFIX + (",\n" + " " * indent).join(lines)
    return with_suffixes(text, _suffixes(tensor), indent, apart=tensor.is_sparse) + ")"


def _part(part: Any, indent: int) -> str:
    """One part, with its device and dtype left to the whole."""
    text = PREFIX + body_of(part, indent + len(PREFIX))
    return text + (")" if part.numel() else f", size={tuple(part.shape)})")


def _suffixes(tensor: Any) -> list[str]:
    remarks = [f"size={tuple(tensor.shape)}", f"nnz={tensor._nnz()}"]
    default = dt.get_default_dtype()
    if tensor.device.type != "cpu":
        remarks.insert(0, f"device='{tensor.device}'")
    if tensor.dtype not in (default, dt.int64, dt.bool_, default.to_complex()):
        remarks.append(f"dtype={tensor.dtype}")
    remarks.append(f"layout={tensor.layout}")
    if tensor.grad_fn is not None:
        remarks.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        remarks.append("requires_grad=True")
    return remarks
