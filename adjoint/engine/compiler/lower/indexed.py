"""Operations that find operands by index: which dimensions they pick, what can go wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.ops.common.checks import ERRORS, NUMBER
from adjoint.engine.ops.index.index import out_of_bounds

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """An error that a kernel can report."""

    kind: type[Exception]
    message: str | Callable[[int], str]  # of a size, where it tells of one
    size: int = 0

    def described(self, at_sizes: Callable[[Any], Any]) -> tuple[str, str]:
        """The exception's name and message, at the sizes of a program."""
        message = self.message
        text = message if isinstance(message, str) else message(at_sizes(self.size))
        return self.kind.__name__, text


ASKED = "asked"  # parameter of a node whose dimensions were moved: where they were


def bounds_fault(node: Node, which: int) -> Fault:
    """What an index out of bounds means: the eager operation's error."""
    params, shape = node.params, node.inputs[0].spec.shape
    if "dims" in params:  # `asked`: before they were moved
        dim, size = params.get(ASKED, params["dims"])[which], shape[params["dims"][which]]
    else:
        dim, size = params["dim"], shape[params["dim"]]

    def error(size: int) -> Exception:
        return out_of_bounds(node.record.name, NUMBER, dim, size, **_manner(params))

    return Fault(type(error(size)), lambda size: str(error(size)), size)


def _manner(params: dict[str, Any]) -> dict[str, Any]:
    """What of an operation's parameters its error depends on."""
    return {k: params[k] for k in ("accumulate", "wrap", "classes_of") if k in params}


def fault_of(node: Node) -> Fault:
    """What it means that an elementwise operation failed."""
    name = node.record.name
    if name == "scatter":
        return bounds_fault(node, 0)
    if name == "require":
        return Fault(ERRORS[node.params.get("error", "RuntimeError")], node.params["message"])
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
