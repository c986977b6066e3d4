"""Loops and branches without the results nobody uses, and without what only those needed.

A scan that could be differentiated keeps what its backward would need; where backward is never run,
those rows are computed and stored for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from adjoint.engine.graph.flow.cond import COND
from adjoint.engine.graph.flow.scan_record import SCAN
from adjoint.engine.graph.flow.while_loop import WHILE_LOOP
from adjoint.engine.graph.ir import DataflowGraph, Node, Value, extract
from adjoint.engine.graph.passes.rewrite import GraphBuilder


class Pruned(NamedTuple):
    """What is left of a node."""

    outputs: list[int]
    inputs: list[int]
    params: dict[str, Any]


def _uses(graph: DataflowGraph, outputs: Sequence[Value]) -> set[Value]:
    """The inputs that some outputs depend on."""
    needed: set[Any] = set(outputs)
    for node in reversed(graph.nodes):
        if any(v in needed for v in node.outputs):
            needed.update(x for x in node.inputs if isinstance(x, Value))
    return needed.intersection(graph.inputs)


def _scan(node: Node, used: list[int]) -> Pruned | None:
    params = node.params
    body, carries, first = params["body"], params["carries"], params["carries"] + params["xs"]
    live = set(used)
    while True:  # a carry is needed if anything needed depends on it
        needs = _uses(body, [body.outputs[i] for i in sorted(live)])
        more = {i for i in range(carries) if body.inputs[i] in needs} - live
        if not more:
            break
        live |= more
    outputs = sorted(live)
    inputs = [i for i, v in enumerate(body.inputs) if v in needs or (i < carries and i in live)]
    if len(outputs) == len(body.outputs) and len(inputs) == len(body.inputs):
        return None
    left = {
        **params,
        "body": extract(body, [body.inputs[i] for i in inputs], [body.outputs[i] for i in outputs]),
        "carries": sum(i < carries for i in inputs),
        "xs": sum(carries <= i < first for i in inputs),
        "advance": tuple(params["advance"][i - first] for i in inputs if i >= first),
    }
    return Pruned(outputs, inputs, left)


def _cond(node: Node, used: list[int]) -> Pruned | None:
    graphs = {name: node.params[name] for name in ("true", "false")}
    needed = [_uses(g, [g.outputs[i] for i in used]) for g in graphs.values()]
    count = len(node.inputs) - 1
    inputs = [
        i
        for i in range(count)
        if any(g.inputs[i] in n for g, n in zip(graphs.values(), needed, strict=True))
    ]
    if len(used) == len(node.outputs) and len(inputs) == count:
        return None
    left = {
        name: extract(g, [g.inputs[i] for i in inputs], [g.outputs[i] for i in used])
        for name, g in graphs.items()
    }
    return Pruned(used, [0, *(i + 1 for i in inputs)], left)


def _while(node: Node, used: list[int]) -> Pruned | None:
    test, body, carries = (node.params[name] for name in ("test", "body", "carries"))
    asked = _uses(test, test.outputs)
    live = set(used) | {i for i in range(carries) if test.inputs[i] in asked}
    while True:  # a carry is needed if a needed one depends on it
        needs = _uses(body, [body.outputs[i] for i in sorted(live)])
        more = {i for i in range(carries) if body.inputs[i] in needs} - live
        if not more:
            break
        live |= more
    inputs = [
        i
        for i, (t, b) in enumerate(zip(test.inputs, body.inputs, strict=True))
        if i in live or (i >= carries and (t in asked or b in needs))
    ]
    if len(inputs) == len(node.inputs):
        return None
    outputs = sorted(live)
    left = {
        "test": extract(test, [test.inputs[i] for i in inputs], test.outputs),
        "body": extract(body, [body.inputs[i] for i in inputs], [body.outputs[i] for i in outputs]),
        "carries": len(outputs),
    }
    return Pruned(outputs, inputs, left)


_RULES: dict[Any, Callable[[Node, list[int]], Pruned | None]] = {
    SCAN: _scan, COND: _cond, WHILE_LOOP: _while,
}  # fmt: skip


def prune(graph: DataflowGraph) -> DataflowGraph:
    """The graph with every loop and branch cut down to what is used of it."""
    if not any(node.record in _RULES for node in graph.nodes):
        return graph
    used: set[Any] = set(graph.outputs)
    plans: dict[Node, Pruned] = {}
    for node in reversed(graph.nodes):
        rule = _RULES.get(node.record)
        mine = [i for i, v in enumerate(node.outputs) if v in used]
        plan = rule(node, mine) if rule is not None and mine else None
        if plan is None:
            used.update(node.inputs)
        else:
            plans[node] = plan
            used.update(node.inputs[i] for i in plan.inputs)
    builder = GraphBuilder(graph)
    for node in graph.nodes:
        inputs = builder.translate(node.inputs)
        cut = plans.get(node)
        if cut is None:
            builder.keep(node, inputs)
            continue
        specs = tuple(node.outputs[i].spec for i in cut.outputs)
        operands = tuple(inputs[i] for i in cut.inputs)
        values = builder.graph.add_node(node.record, operands, cut.params, specs)
        builder.became.update(zip([node.outputs[i] for i in cut.outputs], values, strict=True))
    return builder.finish(graph)
