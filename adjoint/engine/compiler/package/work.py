"""Works: which nodes a step does and what it leaves in memory, so that it can be checked.

Note [works]
    A kernel does one work, a template's node is one work of all its steps, and kernels that are
    launched together bring theirs along. A body's launches are listed once per turn of a loop, with
    other memory in the place of the body's inputs and results: that is a *substitution*, and where
    bodies lie within bodies there are several, the innermost first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from adjoint.engine.compiler.lower.indexed import ASKED
from adjoint.engine.compiler.memory.places import Place, PlannedBuffer
from adjoint.engine.graph.ir import Node, Value


class Views(Protocol):
    """What a work asks of a fusion."""

    fills: set[Value]

    def rooted(self, value: Value, /) -> tuple[Value, list[Node]]:
        """The value that a chain of views looks at, and the chain."""
        ...


@dataclass(eq=False, slots=True)
class PlannedWork:
    """Nodes, and where their results are left."""

    nodes: list[Node]
    stores: list[tuple[Value, Place]]
    views: Views
    place_of: Callable[[Value], Place]

    def results(self) -> set[Value]:
        """The values that the nodes make."""
        return {value for node in self.nodes for value in node.outputs}

    def inner(self, x: Value, values: set[Value]) -> bool:
        """Whether a value is known without memory: made here, or from its coordinates."""
        base, _ = self.views.rooted(x)
        return base in values or base in self.views.fills

    def loads(self) -> dict[Value, Place]:
        """The values that are read from memory, and where they lie."""
        values = self.results()
        operands = [x for node in self.nodes for x in node.inputs if isinstance(x, Value)]
        return {
            x: self.place_of(x) for x in operands if not x.host and not self.inner(x, values)
        }  # fmt: skip

    def schedule(self) -> Iterator[Node]:
        """The nodes in order, with the views and constants between them that need no memory."""
        values, listed = self.results(), set()

        def visit(node: Node) -> Iterator[Node]:
            if node in listed:
                return
            listed.add(node)
            for x in node.inputs:
                if isinstance(x, Value) and not x.host and x.node and self.inner(x, values):
                    yield from visit(x.node)
            yield node

        for node in self.nodes:
            yield from visit(node)


def parameters(node: Node) -> dict[str, Any]:
    """What a node's record is called with: without what the compiler noted there."""
    return {name: value for name, value in node.params.items() if name != ASKED}


@dataclass(eq=False, slots=True)
class Substitution:
    """What stands for a body's buffers and for the host's numbers that it is given."""

    moved: dict[PlannedBuffer, Place]
    numbers: dict[Value, Any]


def settled(place: Place, substitutions: Sequence[Substitution]) -> Place:
    """Where a place of a body lies in the program."""
    for substitution in substitutions:
        there = substitution.moved.get(place.buffer)
        if there is not None:
            place = Place(there.buffer, place.shape, place.strides, there.offset + place.offset)
    return place
