"""Checking a graph: every value defined once and before use, every spec what its record infers."""

from __future__ import annotations

import os
from typing import Any

from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import DataflowGraph, Node, Value, subgraphs


class GraphError(RuntimeError):
    """A graph that breaks its own rules: a defect of a pass or of the recorder."""


def as_operand(x: Any) -> Any:
    """What `infer` sees of a node's input; a host number stands as one of its dtype's kind."""
    if not isinstance(x, Value):
        return x
    if x.host:
        return {0: True, 1: 1, 2: 1.0, 3: 1j}[x.spec.dtype.category]
    return x.spec


def verifying() -> bool:
    """Whether graphs are verified wherever they are made (ADJOINT_VERIFY=1)."""
    return os.environ.get("ADJOINT_VERIFY", "0") not in ("", "0")


def verify(graph: DataflowGraph, known: set[Node] | None = None) -> DataflowGraph:
    """Raise GraphError naming the offending node; return the graph otherwise.

    Of nodes in `known`, which were verified before, only where they stand is looked at; it gets
    the others.
    """
    defined: set[Value] = set(graph.inputs)
    names = {v.name for v in graph.inputs}
    if len(names) != len(graph.inputs):
        raise GraphError("two inputs share a name")
    for node in graph:
        for x in node.inputs:
            if isinstance(x, Value) and x not in defined:
                raise GraphError(f"{node!r}: uses {x!r} before it is defined")
        for out in node.outputs:
            if out.name in names:
                raise GraphError(f"{node!r}: defines {out.name} a second time")
            names.add(out.name)
            defined.add(out)
        if known is None or node not in known:
            verify_node(node)
            if known is not None:
                known.add(node)
    for out in graph.outputs:
        if out not in defined:
            raise GraphError(f"output {out!r} is not defined")
    return graph


def verify_node(node: Node) -> None:
    """Raise GraphError unless a node's outputs are what its record infers, its graphs right."""
    for inner in subgraphs(node).values():
        verify(inner)
    if node.record.compose is None:
        inferred = node.record.infer(*map(as_operand, node.inputs), **node.params)
        specs = (inferred,) if isinstance(inferred, Spec) else tuple(inferred)
        if specs != tuple(o.spec for o in node.outputs):
            raise GraphError(f"{node!r}: has {[o.spec for o in node.outputs]}, infers {specs}")
    elif node.subgraph is not None:
        verify_composition(node)


def verify_composition(node: Node) -> None:
    """Raise GraphError unless a composite's subgraph fits the node."""
    inner = verify(node.subgraph)  # type: ignore[arg-type]
    given = [x.spec for x in node.inputs if isinstance(x, Value)]
    if given != [v.spec for v in inner.inputs]:
        raise GraphError(f"{node!r}: given {given}, composed of {[v.spec for v in inner.inputs]}")
    specs = [v.spec for v in inner.outputs]
    if specs != [v.spec for v in node.outputs]:
        raise GraphError(f"{node!r}: has {[v.spec for v in node.outputs]}, composes {specs}")
