"""Tensors to and from other libraries, without copies."""

from typing import Any

from adjoint.engine.backends.array.interop import from_dlpack as from_dlpack
from adjoint.engine.tensor.tensor import Tensor


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule on a tensor's memory."""
    return tensor.__dlpack__()
