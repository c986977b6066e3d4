"""Copying a batch to page-locked memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adjoint.data.collate import like_mapping, like_sequence
from adjoint.engine.tensor.tensor import Tensor


def pin(data: Any) -> Any:
    """The same structure with its tensors in page-locked memory.

    Objects with a `pin_memory` method are asked to do it themselves.
    """
    if isinstance(data, Tensor):
        return data.pin_memory()
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        return like_mapping(data, {key: pin(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin(item) for item in data))
    if isinstance(data, tuple):
        return [pin(item) for item in data]  # as PyTorch has it
    if isinstance(data, Sequence):
        return like_sequence(data, [pin(item) for item in data])
    return data
