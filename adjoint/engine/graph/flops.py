"""How many floating-point operations an operation takes, from the shapes alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from adjoint.engine.core.operations.record import Record, Shape
from adjoint.engine.core.spec import Spec


def flops(record: Record, shapes: Sequence[Shape], outs: Sequence[Shape]) -> int:
    """Multiplications and additions of an operation on operands of these shapes.

    What its record says of them; else one for an element of elementwise operations and reductions,
    and none of what only moves elements.

    >>> from adjoint.engine.core.operations.record import REGISTRY
    >>> flops(REGISTRY["matmul"], [(2, 3), (3, 4)], [(2, 4)])
    48
    """
    if not outs:
        return 0
    if record.flops is not None:
        try:
            count = record.flops(shapes, outs[0])
            return count if isinstance(count, int) else int(count)  # of sizes or not
        except IndexError:  # other operands than it knows: of vectors, say
            return 0
    if record.family == "elementwise":
        return prod(outs[0])
    if record.reduces or record.running:
        return prod(shapes[0]) if shapes else 0
    return 0


def shape_of(x: Any) -> Shape | None:
    """The shape of a tensor, a spec or a value of a graph; None of anything else."""
    spec = getattr(x, "spec", x)
    if isinstance(spec, Spec):
        return spec.shape
    own = getattr(x, "_spec", None)
    return own.shape if isinstance(own, Spec) else None


def flops_of(record: Record, operands: Sequence[Any], outs: Sequence[Any]) -> int:
    """`flops` of tensors or values."""
    shapes = [shape for x in operands if (shape := shape_of(x)) is not None]
    results = [shape for x in outs if (shape := shape_of(x)) is not None]
    return flops(record, shapes, results)
