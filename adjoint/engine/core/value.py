"""The type every tensor has, known below the layer that defines it."""

from __future__ import annotations

from typing import Any


class TensorBase:
    """Base of `adjoint.Tensor`; lets lower layers tell tensors from other operands."""

    __slots__ = ()

    # What lower layers read of one; its slots are `Tensor`'s, which says what they are.
    _array: Any
    _base: tuple[Any, Any] | None
    _node: Any
    _nr: int
    _requires_grad: bool
    _storage: Any
