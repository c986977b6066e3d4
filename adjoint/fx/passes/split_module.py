"""A traced module in parts, each a module of its own."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from adjoint.fx.graph import Graph
from adjoint.fx.graph_module import GraphModule
from adjoint.fx.node import Node, map_arg
from adjoint.nn.modules.module import Module


class Partition:
    """One part: its nodes, what it takes and what others need of it."""

    def __init__(self, name: Any) -> None:
        self.name = f"submod_{name}"
        self.nodes: list[Node] = []
        self.inputs: dict[Node, None] = {}
        self.outputs: dict[Node, None] = {}
        self.needs: set[Any] = set()  # the parts that must run before


def split_module(
    m: GraphModule,
    root_m: Module,
    split_callback: Callable[[Node], Any],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool = False,
    **_: Any,
) -> GraphModule:
    """A module that calls submodules, one for each value that `split_callback` gives to nodes.

    Args:
        m: the traced module.
        root_m: the module it was traced from.
        split_callback: the part that a node belongs to.
        qualname_map: filled with the old name of each submodule, by its new one.
        keep_original_order: accepted as PyTorch has it: parts run in the order of their needs.
    """
    parts, home = _assigned(m, split_callback)
    outer = Graph()
    values: dict[Node, Any] = {}
    for node in m.graph.nodes:
        if node.op == "placeholder" or (node.op == "get_attr" and node not in home):
            values[node] = outer.node_copy(node)
    modules: dict[str, Any] = {}
    for name in _ordered(parts):
        part = parts[name]
        inner, taken = Graph(), dict[Node, Any]()
        for node in part.inputs:
            taken[node] = inner.placeholder(node.name)
        for node in part.nodes:
            taken[node] = inner.node_copy(node, taken.__getitem__)
        results = [taken[node] for node in part.outputs]
        inner.output(results[0] if len(results) == 1 else tuple(results))
        modules[part.name] = GraphModule(m, inner, part.name)
        if qualname_map is not None:
            for node in part.nodes:
                if node.op in ("call_module", "get_attr"):
                    qualname_map[f"{part.name}.{node.target}"] = node.target
        called = outer.call_module(part.name, tuple(values[node] for node in part.inputs))
        _give_out(outer, called, part, values)
    for node in m.graph.nodes:
        if node.op == "output":
            outer.output(map_arg(node.args[0], values.__getitem__))
    read = {
        node.target: _attribute(m, node.target) for node in outer.nodes if node.op == "get_attr"
    }
    split = GraphModule({**modules, **read}, outer)
    split.training = m.training
    return split


def _attribute(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _assigned(
    m: GraphModule, split_callback: Callable[[Node], Any]
) -> tuple[dict[Any, Partition], dict[Node, Any]]:
    parts: dict[Any, Partition] = {}
    home: dict[Node, Any] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        name = split_callback(node)
        home[node] = name
        part = parts.setdefault(name, Partition(name))
        part.nodes.append(node)
        for used in node.all_input_nodes:
            if home.get(used, _OUTSIDE) != name:
                part.inputs.setdefault(used)
            if used in home and home[used] != name:
                parts[home[used]].outputs.setdefault(used)
                part.needs.add(home[used])
    for node in m.graph.nodes:
        if node.op == "output":
            for used in node.all_input_nodes:
                if used in home:
                    parts[home[used]].outputs.setdefault(used)
    return parts, home


_OUTSIDE = object()


def _ordered(parts: dict[Any, Partition]) -> list[Any]:
    done: list[Any] = []
    left = dict(parts)
    while left:
        ready = [name for name, part in left.items() if part.needs <= set(done)]
        if not ready:
            raise RuntimeError("cycle exists between partitions!")
        done.append(ready[0])
        del left[ready[0]]
    return done


def _give_out(outer: Graph, called: Node, part: Partition, values: dict[Node, Any]) -> None:
    if len(part.outputs) == 1:
        values[next(iter(part.outputs))] = called
        return
    for place, node in enumerate(part.outputs):
        values[node] = outer.call_function(operator.getitem, (called, place))
