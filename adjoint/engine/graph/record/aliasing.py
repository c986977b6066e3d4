"""Tensors whose eager counterparts share memory in ways a recording cannot show."""

from __future__ import annotations

from typing import NamedTuple

from adjoint.engine.core.errors import CaptureError
from adjoint.engine.graph.ir import Value
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import Tensor


class Picked:
    """A result of `x[i]` with an index that is not known yet: a copy that stands for a view."""

    __slots__ = ("dim", "index", "out", "seen", "source")

    def __init__(self, out: Tensor, source: Tensor, index: Tensor, dim: int, seen: Value) -> None:
        self.out = out
        self.source = source
        self.index = index
        self.dim = dim
        self.seen = seen  # the value of the source it was taken from


class Rebound(NamedTuple):
    """A tensor from outside that came to show what another does: its "data", or its "window"."""

    tensor: Tensor
    shown: Tensor
    how: str


class Realias(CaptureError):
    """Two tensors turned out to share a storage; trace again with the storage as a whole."""

    def __init__(self, storage: Storage) -> None:
        super().__init__("storage shared in an unexpected way")
        self.storage = storage


class Rebinds(CaptureError):
    """A tensor from outside comes to show other memory; trace again with it as an argument."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__("a tensor from outside is given other memory")
        self.tensor = tensor
