"""The type every tensor has, known below the layer that defines it."""

from __future__ import annotations


class TensorBase:
    """Base of `adjoint.Tensor`; lets lower layers tell tensors from other operands."""

    __slots__ = ()
