"""Sums over iterations taken out of a loop.

The gradient of a weight is a sum over all iterations, most often of products. Adding each product
to the total inside the loop writes the whole weight again and again; one product over all rows,
after the loop, does the same work at the speed of a large matrix product. Biases likewise are
summed over rows that are there anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import prod
from typing import Any

from adjoint.engine.autodiff.levels.vmap_level import VmapLevel
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.ops.products.matmul import MATMUL
from adjoint.engine.ops.reduce.reduction import SUM
from adjoint.engine.ops.shape.convert import CAST


@dataclass(slots=True)
class Outside:
    """A sum over iterations, from the rows of values inside the loop."""

    rows: tuple[Value, ...]
    views: tuple[list[Node], ...]  # of each, what the sum is of
    finish: Callable[..., Any]

    def total(self, length: int, rows: list[Any]) -> Any:
        """The sum, given the rows of every iteration."""
        level = VmapLevel(1, length, "same")
        shown = []
        for row, nodes in zip(rows, self.views, strict=True):
            for node in nodes:
                row = level.window(row, node.record, node.params)
            shown.append(row)
        return self.finish(*shown)


def taken_out(
    value: Value, varying: Callable[[Value], bool], there: Collection[Value]
) -> Outside | None:
    """How the sum of a value over iterations is found outside; None where it had better not be.

    `there` are values whose rows exist in any case. Others are worth making if they are no larger
    than the sum that would be carried.
    """
    node = value.node
    if node is None or not all(isinstance(x, Value) for x in node.inputs):
        return None
    if node.record is CAST:  # autocast's: the sum is rounded once instead of each of its terms
        inner = taken_out(node.inputs[0], varying, there)
        dtype = value.spec.dtype
        return inner and Outside(inner.rows, inner.views, lambda *xs: inner.finish(*xs).to(dtype))
    bases, views = zip(*(_base(x) for x in node.inputs), strict=True)
    extra = sum(prod(b.spec.shape) for b in set(bases) if b not in there)
    if not all(map(varying, bases)) or extra > prod(value.spec.shape):
        return None
    if node.record is MATMUL and all(x.spec.ndim == 2 for x in node.inputs):
        return Outside(bases, views, _product)
    if node.record is SUM:
        dims = (0, *(d + 1 for d in node.params["dims"]))
        shape = value.spec.shape
        return Outside(bases, views, lambda x: x.sum(dims).reshape(shape))
    return None


def _base(value: Value) -> tuple[Value, list[Node]]:
    """The value a chain of views begins with, and the views."""
    nodes: list[Node] = []
    while value.node is not None and value.node.record.is_view:
        nodes.append(value.node)
        value = value.node.inputs[0]
    return value, nodes[::-1]


def _product(x: Any, y: Any) -> Any:
    """The sum over t of x[t] @ y[t], as one product."""
    t, m, k = x.shape
    return x.permute(1, 0, 2).reshape(m, t * k) @ y.reshape(t * k, y.shape[2])
