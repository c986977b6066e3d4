"""Tensors whose eager counterparts share memory in ways a recording cannot show."""

from __future__ import annotations

from typing import Any, NamedTuple

from adjoint.engine.core.errors import CaptureError
from adjoint.engine.graph.ir import Value
from adjoint.engine.tensor.storage import Storage, Window
from adjoint.engine.tensor.tensor import Tensor

_NO_SYMBOLS = frozenset({int, float, bool, str, type(None)})
_INTEGERS = frozenset({int})


def has_symbols(x: Any) -> bool:
    """Whether a size in x is a symbol, which equals a number without being one."""
    if type(x) in _NO_SYMBOLS:
        return False
    if isinstance(x, (tuple, list)):
        return any(map(has_symbols, x))
    if isinstance(x, dict):
        return any(map(has_symbols, x.values()))
    return isinstance(x, (int, float))


def row_major(tensor: Tensor) -> bool:
    """Whether a tensor is certainly row-major; sizes that are symbols are not asked about."""
    array = tensor._array
    if type(array) is Window and not _INTEGERS.issuperset(
        map(type, (*array.shape, *array.strides))
    ):
        return all(record.name == "reshape" for record, _ in tensor._chain)
    return tensor.is_contiguous()


class Picked:
    """A result of `x[i]` with an index that is not known yet: a copy that stands for a view."""

    __slots__ = ("dim", "index", "out", "seen", "source")

    def __init__(self, out: Tensor, source: Tensor, index: Tensor, dim: int, seen: Value) -> None:
        self.out = out
        self.source = source
        self.index = index
        self.dim = dim
        self.seen = seen  # the value of the source it was taken from


class Pair:
    """A tensor and a reshape of it of which it is in doubt whether eager code copies.

    Which strides a result has eagerly is certain only where all operands are row-major: else the
    two may share memory or not, and neither is read once the other was written to.
    """

    __slots__ = ("copy", "source", "written")

    def __init__(self, source: Tensor, copy: Tensor) -> None:
        self.source = source
        self.copy = copy
        self.written: set[str] = set()

    def side(self, tensor: Tensor) -> str | None:
        """Of which of the two a tensor shows elements."""
        storage, copy = tensor._storage, self.copy
        if storage is copy._storage:
            chain = copy._chain if storage is self.source._storage else ()
            if len(tensor._chain) >= len(chain) and all(
                a is b for a, b in zip(tensor._chain, chain, strict=False)
            ):
                return "made"
        return "source" if storage is self.source._storage else None


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
