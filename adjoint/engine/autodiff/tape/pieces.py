"""Cotangents of slices, kept apart until all of them are there.

The rule of a slice puts its cotangent into zeros of the operand's shape. Where a tensor was split,
each part would fill all of it again, and all but one of the sums would add zeros. Pieces that lie
side by side are joined instead, in eager mode; recordings keep the rule of slices, and a pass joins
what it makes of a split (`graph/passes/unsplit.py`).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from numpy import empty, ndarray, zeros

from adjoint.engine.autodiff.tape.node import BackwardNode
from adjoint.engine.core.operations.small_calls import FEW_ON_TAPE
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.ops.shape.join import CAT
from adjoint.engine.ops.shape.views import SLICE
from adjoint.engine.tensor.tensor import Tensor, wrap

START = attrgetter("start")


@dataclass(slots=True, eq=False)
class SliceCotangent:
    """The cotangent of one slice, from `start` to `stop` of the dimension that it cuts."""

    start: int
    stop: int
    node: BackwardNode
    grad: Tensor


@dataclass(slots=True, eq=False)
class Pieces:
    """Cotangents of slices of one tensor along one dimension, in order, none of which overlap."""

    dim: int
    size: int  # of the tensor, there
    has_dim: bool  # whether the slices have that dimension
    parts: list[SliceCotangent]

    def take(self, other: Any) -> bool:
        """Add that of another slice; False where it cannot be beside these."""
        if other.__class__ is not Pieces or len(other.parts) > 1:
            return False
        new, known = other.parts[0], self.parts[0].grad
        if (self.dim, self.has_dim) != (other.dim, other.has_dim):
            return False
        one, other_one = known._array, new.grad._array
        if one.dtype != other_one.dtype or one.__class__ is not other_one.__class__:
            return False
        if one.__class__ is not ndarray and known.device != new.grad.device:
            return False
        if new.stop <= self.parts[0].start:  # mostly: later parts were computed with later
            self.parts.insert(0, new)
            return True
        at = bisect_left(self.parts, new.start, key=START)
        if at < len(self.parts) and self.parts[at].start < new.stop:
            return False
        if at and self.parts[at - 1].stop > new.start:
            return False
        self.parts.insert(at, new)
        return True

    def joined(self) -> Tensor:
        """All of them in the tensor's shape, zeros where none of them is."""
        if not LISTENERS and all(map(is_little, self.parts)):
            return self.put_side_by_side()
        dim, rows, at = self.dim, [], 0
        for part in self.parts:
            grad = part.grad if self.has_dim else part.grad.unsqueeze(dim)
            if part.start > at:
                rows.append(zeros_beside(grad, dim, part.start - at))
            rows.append(grad)
            at = part.stop
        if at < self.size:
            rows.append(zeros_beside(rows[-1], dim, self.size - at))
        joined: Tensor = CAT(*rows, dim=dim)
        return joined

    def put_side_by_side(self) -> Tensor:
        """The same of little ones, of which each is copied to its place at once."""
        first = self.parts[0]
        covered = sum([part.stop - part.start for part in self.parts])
        make = empty if covered == self.size else zeros
        array = make(first.node.specs[0].shape, first.grad._array.dtype)  # type: ignore[attr-defined]
        before = (slice(None),) * self.dim
        for part in self.parts:
            at = slice(part.start, part.stop) if self.has_dim else part.start
            array[(*before, at)] = part.grad._array
        return wrap(array)


def is_little(part: SliceCotangent) -> bool:
    """Whether a cotangent is an array of so few elements that a copy of it is quickly made."""
    array = part.grad._array
    return array.__class__ is ndarray and array.size <= FEW_ON_TAPE


def zeros_beside(like: Tensor, dim: int, count: int) -> Tensor:
    """Zeros as wide as a tensor but for one dimension."""
    shape = list(like.shape)
    shape[dim] = count
    zeros: Tensor = like.new_zeros(shape)
    return zeros


def piece_of(node: BackwardNode, grad: Any) -> Pieces | None:
    """The cotangent of a slice that cuts one dimension into neighbours; None: of all else.

    The node is one that fills zeros.
    """
    if node.plan.record is not SLICE or grad.__class__ is not Tensor:  # type: ignore[attr-defined]
        return None
    if node.edges[0] is None or grad.is_sparse:
        return None
    shape = node.specs[0].shape  # type: ignore[attr-defined]
    index = node.params["index"]  # type: ignore[attr-defined]
    if len(index) != len(shape):
        return None
    dim = -1
    for k, n in enumerate(shape):
        if index[k] != (0, n, 1):
            if dim >= 0:
                return None
            dim = k
    if dim < 0:
        return None
    entry = index[dim]
    if entry.__class__ is int:
        return Pieces(dim, shape[dim], False, [SliceCotangent(entry, entry + 1, node, grad)])
    if entry.__class__ is not tuple or entry[2] != 1 or entry[0] == entry[1]:
        return None
    return Pieces(dim, shape[dim], True, [SliceCotangent(entry[0], entry[1], node, grad)])
