"""Operations that find operands by index: which dimensions they pick, what can go wrong."""

from __future__ import annotations

from dataclasses import dataclass

from adjoint.compiler.places import Place
from adjoint.graph.ir import Node, Value

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """An error that a kernel can report."""

    kind: type[Exception]
    message: str


def bounds_fault(node: Node, which: int) -> Fault:
    """What an index out of bounds means."""
    name, params = node.record.name, node.params
    dim = params["dims"][which] if name == "index" else params["dim"]
    size = node.inputs[0].spec.shape[dim]
    kind = RuntimeError if name in ("gather", "scatter") else IndexError
    return Fault(kind, f"{name}: index is out of bounds for dimension {dim} with size {size}")


def fault_of(node: Node) -> Fault:
    """What it means that an elementwise operation failed."""
    name = node.record.name
    if name == "scatter":
        return bounds_fault(node, 0)
    if name == "bernoulli":
        return Fault(RuntimeError, "bernoulli: expected all probabilities p to satisfy 0 <= p <= 1")
    return Fault(RuntimeError, f"{name}: ZeroDivisionError: integer division or modulo by zero")


def pick_place(node: Node, place: Place) -> tuple[Shape, tuple[tuple[int, int], ...]]:
    """Strides by dimension of the result, and (stride, size) of each picked dimension."""
    if node.record.name == "gather":
        dim = node.params["dim"]
        strides = tuple(0 if d == dim else s for d, s in enumerate(place.strides))
        return strides, ((place.strides[dim], place.shape[dim]),)
    dims = node.params["dims"]
    block = len(node.inputs[1].spec.shape)
    strides = place.strides[: dims[0]] + (0,) * block + place.strides[dims[-1] + 1 :]
    return strides, tuple((place.strides[d], place.shape[d]) for d in dims)


def trailing(node: Node, x: Value) -> int:
    """Dimensions of the result after those an operand is lined up with."""
    if node.record.name == "index" and x is not node.inputs[0]:
        return len(node.inputs[0].spec.shape) - node.params["dims"][-1] - 1
    return 0


def aligned(node: Node, x: Value, place: Place) -> Place:
    """An operand's place with the dimensions it lacks at the end."""
    more = trailing(node, x)
    if not more:
        return place
    return Place(place.buffer, place.shape + (1,) * more, place.strides + (0,) * more, place.offset)
