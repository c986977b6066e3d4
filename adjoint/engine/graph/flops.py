"""How many floating-point operations an operation takes, from the shapes alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec

Shape = Sequence[int]


def _matmul(shapes: list[Shape], out: Shape) -> int:
    return 2 * prod(out) * shapes[0][-1]


def _linear(shapes: list[Shape], out: Shape) -> int:
    return 2 * prod(out) * shapes[1][-1] + (prod(out) if len(shapes) > 2 else 0)


def _addmm(shapes: list[Shape], out: Shape) -> int:
    return 2 * prod(out) * shapes[1][-1] + prod(out)


def _convolution(shapes: list[Shape], out: Shape) -> int:
    return 2 * prod(out) * prod(shapes[1][1:])


def _transposed(shapes: list[Shape], out: Shape) -> int:
    return 2 * prod(shapes[0]) * prod(shapes[1][1:])


def _weight(shapes: list[Shape], out: Shape) -> int:
    """The filters' gradient: a product per filter element, channel and place of the result's."""
    places = min(shapes[:2], key=lambda shape: prod(shape[2:]))
    return 2 * prod(out) * places[0] * prod(places[2:])


def _attention(shapes: list[Shape], out: Shape) -> int:
    q, k, v = shapes[:3]
    return 2 * prod(q[:-1]) * k[-2] * (q[-1] + v[-1])


def _attention_backward(shapes: list[Shape], out: Shape) -> int:
    return 5 * _attention(shapes, out) // 2  # five products of the forward's two, one made again


COUNTED = {
    "matmul": _matmul,
    "addmm": _addmm,
    "autocast_addmm": _addmm,
    "linear": _linear,
    "autocast_linear": _linear,
    "convolution": _convolution,
    "convolution_transpose": _transposed,
    "convolution_weight": _weight,
    "scaled_dot_product_attention": _attention,
    "scaled_dot_product_attention_backward": _attention_backward,
}


def flops(record: Record, shapes: Sequence[Shape], outs: Sequence[Shape]) -> int:
    """Multiplications and additions of an operation on operands of these shapes.

    Products are counted exactly, elementwise operations and reductions as one for an element; what
    only moves elements takes none.

    >>> from adjoint.engine.core.operations.record import REGISTRY
    >>> flops(REGISTRY["matmul"], [(2, 3), (3, 4)], [(2, 4)])
    48
    """
    if not outs:
        return 0
    count = COUNTED.get(record.name)
    if count is not None:
        try:
            return int(count(list(shapes), outs[0]))
        except IndexError:  # operands the table does not know: of vectors, say
            return 0
    if record.family == "elementwise":
        return prod(outs[0])
    if record.reduces or record.running or record.name in COMPOSED_REDUCTIONS:
        return prod(shapes[0]) if shapes else 0
    return 0


COMPOSED_REDUCTIONS = frozenset({"mean", "logsumexp"})


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
