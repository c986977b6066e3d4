"""The order of two products that read one operand: the one whose result is read next comes last.

Backward of a linear layer multiplies its cotangent twice, for what is before it and for its weight.
The kernel after them reads the first of these results, a part of which is still in the cache unless
the other product comes between.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.backends.triton.choices import is_plain_view
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder

BETWEEN = 8  # nodes that two products may be apart


def order_products(graph: DataflowGraph) -> DataflowGraph:
    """The graph with such products in that order."""
    nodes, readers = list(graph.nodes), readers_of(graph)
    moved = False
    for at in range(len(nodes)):
        later = second_product(nodes, at) if nodes[at].record.name == "matmul" else None
        if later is not None and is_read_first(nodes[at], nodes[later], readers):
            nodes.insert(later, nodes.pop(at))
            moved = True
    if not moved:
        return graph
    builder = GraphBuilder(graph)
    for node in nodes:
        builder.graph.where = node.where
        builder.keep(node, builder.translate(node.inputs))
    return builder.finish(graph)


def readers_of(graph: DataflowGraph) -> dict[Value, list[tuple[int, Node]]]:
    """By value: the nodes that read it, and their numbers in the graph."""
    readers: dict[Value, list[tuple[int, Node]]] = {}
    for at, node in enumerate(graph.nodes):
        for x in node.inputs:
            if isinstance(x, Value):
                readers.setdefault(x, []).append((at, node))
    return readers


def second_product(nodes: list[Node], at: int) -> int | None:
    """Where the product is that follows one, reads an operand of it, and can come before it."""
    first, waiting = nodes[at], set(nodes[at].outputs)
    bases = {base(x) for x in first.inputs}
    for k in range(at + 1, min(at + 2 + BETWEEN, len(nodes))):
        node = nodes[k]
        if waiting.intersection(x for x in node.inputs if isinstance(x, Value)):
            return None  # it would have to come after what it reads
        if node.record.name == "matmul":
            return k if bases.intersection(map(base, node.inputs)) else None
    return None


def is_read_first(first: Node, second: Node, readers: dict[Value, list[tuple[int, Node]]]) -> bool:
    """Whether the first product's result is read before the second's."""
    one, other = (first_read(node.outputs[0], readers) for node in (first, second))
    return one is not None and (other is None or one < other)


def first_read(x: Value, readers: dict[Value, list[tuple[int, Node]]]) -> int | None:
    """The number of the node that first reads a value, be it through views or conversions."""
    found = [
        first_read(node.outputs[0], readers) if is_passed(node) else at
        for at, node in readers.get(x, [])
    ]
    return min((at for at in found if at is not None), default=None)


def is_passed(node: Node) -> bool:
    """Whether a node is a view or a conversion."""
    return is_plain_view(node) or node.record.name == "cast"


def base(x: Any) -> Any:
    """What a value is a view or a conversion of."""
    while isinstance(x, Value) and x.node is not None and is_passed(x.node):
        x = x.node.inputs[0]
    return x
