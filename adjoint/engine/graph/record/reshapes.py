"""Reshapes of which a recording cannot say whether they are views or copies eagerly."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from adjoint.engine.core.errors import CaptureError, users_line
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.spec import contiguous_strides
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import Tensor

_INTEGERS = frozenset({int})


def row_major(tensor: Tensor) -> bool:
    """Whether a tensor is certainly row-major; of views, sizes that are symbols are not asked."""
    array = tensor._array
    if type(array) is Window and not _INTEGERS.issuperset(
        map(type, (*array.shape, *array.strides))
    ):
        if not tensor._chain:
            return array.strides == contiguous_strides(array.shape)
        return all(record.name == "reshape" for record, _ in tensor._chain)
    return tensor.is_contiguous()


class ReshapedPair:
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


class Reshapes:
    """The pairs of one recording, and the results whose layout in memory is in doubt."""

    def __init__(self) -> None:
        self.doubtful: set[int] = set()  # storages, by identity, whose eager strides are in doubt
        self.pairs: list[ReshapedPair] = []

    def doubts(self, tensor: Tensor) -> bool:
        """Whether it is in doubt which strides a tensor has eagerly."""
        return tensor._storage.identity in self.doubtful

    def doubt(self, operands: tuple[Any, ...], outs: tuple[Tensor, ...]) -> None:
        """Note results of operands that are not row-major, or may not be."""
        for x in operands:
            if is_tensor(x) and (x._storage.identity in self.doubtful or not row_major(x)):
                self.doubtful.update([out._storage.identity for out in outs])
                return

    def pair(self, source: Tensor, copy: Tensor) -> None:
        """Note that `copy` shows what `source` does, as a view or a copy."""
        if copy is not source and self.doubts(source):
            self.pairs.append(ReshapedPair(source, copy))

    @contextlib.contextmanager
    def unpaired(self) -> Iterator[None]:
        """A block in which it does not matter whether a reshape is a view or a copy."""
        pairs, self.pairs = self.pairs, []
        try:
            yield
        finally:
            self.pairs = pairs

    def check(self, tensor: Tensor) -> None:
        """Refuse to read one of a pair whose other one was written to."""
        for pair in self.pairs:
            if pair.written and (side := pair.side(tensor)) and pair.written - {side}:
                raise CaptureError(
                    f"compile: {users_line()}: a tensor and a reshape of it are both used after "
                    "one was written to in place, and whether the reshape is a view or a copy "
                    "depends on strides that are not known here. Take a clone() before the write, "
                    "or use the form of the write without '_'."
                )

    def written(self, target: Tensor) -> None:
        """A write to one of a pair; of another reshape of the same, too: they may share memory."""
        for pair in self.pairs:
            side = pair.side(target)
            if side is None:
                continue
            pair.written.add(side)
            if side == "made":
                for other in self.pairs:
                    if other is not pair and other.source._storage is pair.source._storage:
                        other.written.add(other.side(target) or "source")
