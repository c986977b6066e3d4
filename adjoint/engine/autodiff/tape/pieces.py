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

from adjoint.engine.autodiff.tape.node import BackwardNode
from adjoint.engine.ops.shape.join import CAT
from adjoint.engine.ops.shape.views import SLICE
from adjoint.engine.tensor.tensor import Tensor

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
        if known.dtype is not new.grad.dtype or known.device != new.grad.device:
            return False
        at = bisect_left(self.parts, new.start, key=START)
        if at < len(self.parts) and self.parts[at].start < new.stop:
            return False
        if at and self.parts[at - 1].stop > new.start:
            return False
        self.parts.insert(at, new)
        return True

    def joined(self) -> Tensor:
        """All of them in the tensor's shape, zeros where none of them is."""
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


def zeros_beside(like: Tensor, dim: int, count: int) -> Tensor:
    """Zeros as wide as a tensor but for one dimension."""
    shape = list(like.shape)
    shape[dim] = count
    zeros: Tensor = like.new_zeros(shape)
    return zeros


def piece_of(node: BackwardNode, grad: Any) -> Pieces | None:
    """The cotangent of a slice that cuts one dimension into neighbours; None: of all else."""
    plan = getattr(node, "plan", None)
    if plan is None or plan.record is not SLICE or grad.__class__ is not Tensor:
        return None
    if node.edges[0] is None or grad.is_sparse:
        return None
    shape = node.specs[0].shape  # type: ignore[attr-defined]
    index = node.params["index"]  # type: ignore[attr-defined]
    if len(index) != len(shape):
        return None
    cut = [dim for dim, n in enumerate(shape) if not _is_whole(index[dim], n)]
    if len(cut) != 1:
        return None
    dim = cut[0]
    entry = index[dim]
    if entry.__class__ is int:
        return Pieces(dim, shape[dim], False, [SliceCotangent(entry, entry + 1, node, grad)])
    if entry.__class__ is not tuple or entry[2] != 1 or entry[0] == entry[1]:
        return None
    return Pieces(dim, shape[dim], True, [SliceCotangent(entry[0], entry[1], node, grad)])


def _is_whole(entry: Any, n: Any) -> bool:
    """Whether a slice takes all of a dimension."""
    return bool(entry == (0, n, 1))
