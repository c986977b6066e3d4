"""The largest parts of a graph that a backend can run, each as one module."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from adjoint.fx.graph import Graph
from adjoint.fx.graph_module import GraphModule
from adjoint.fx.node import Node
from adjoint.fx.passes.operator_support import OperatorSupportBase


class Partition:
    """Some nodes of a graph.

    Args:
        id: its number.
        nodes: the nodes, in the order of the graph.
    """

    def __init__(self, id: int | None = None, nodes: Iterable[Node] = ()) -> None:
        self.id = id
        self.nodes: dict[Node, None] = dict.fromkeys(nodes)

    def add_node(self, node: Node) -> None:
        """Take a node in."""
        self.nodes[node] = None

    def remove_node(self, node: Node) -> None:
        """Leave a node out."""
        del self.nodes[node]

    def size(self) -> int:
        """How many nodes it has."""
        return len(self.nodes)

    def __repr__(self) -> str:
        return str(list(self.nodes))


class CapabilityBasedPartitioner:
    """Divides a graph into parts that a backend supports, and the rest.

    Two parts become one unless something outside would then wait for it and it for that.

    Args:
        graph_module: the module whose graph is divided.
        operator_support: says which nodes are supported.
        allows_single_node_partition: whether a part may have one node that computes.
        non_compute_ops: names of functions that do not compute; a part of these alone is none.
        allowed_single_node_partition_ops: names of functions that may be a part by themselves.

    Example:
        >>> import adjoint as ad
        >>> from adjoint.fx import symbolic_trace
        >>> from adjoint.fx.passes.operator_support import create_op_support
        >>> traced = symbolic_trace(lambda x: ad.sin(ad.relu(x) + 1))
        >>> told = create_op_support(lambda modules, node: node.name in ("relu", "add"))
        >>> CapabilityBasedPartitioner(traced, told).propose_partitions()
        [[relu, add]]
    """

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        skip_horizontal_fusion: bool = False,
    ) -> None:
        self.graph_module = graph_module
        self.operator_support = operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = tuple(non_compute_ops or ())
        self.allowed_single_node_partition_ops = tuple(allowed_single_node_partition_ops or ())
        self.skip_horizontal_fusion = skip_horizontal_fusion

    def _is_node_supported(self, node: Node) -> bool:
        modules = dict(self.graph_module.named_modules())
        return self.operator_support.is_node_supported(modules, node)

    def propose_partitions(self) -> list[Partition]:
        """The parts, in the order of their first nodes."""
        nodes = list(self.graph_module.graph.nodes)
        modules = dict(self.graph_module.named_modules())
        calls = [n for n in nodes if n.op in ("call_function", "call_method", "call_module")]
        home: dict[Node, Partition] = {}
        for node in calls:
            if self.operator_support.is_node_supported(modules, node):
                home[node] = Partition(None, [node])
        parts = list(home.values())
        for node in list(home):
            for other in self._candidates(node, parts, home):
                mine = home[node]
                if other is not mine and not _waits_for_itself(nodes, {*mine.nodes, *other.nodes}):
                    merged = Partition(
                        None, [n for n in calls if n in mine.nodes or n in other.nodes]
                    )
                    home.update(dict.fromkeys(merged.nodes, merged))
                    parts = [p for p in parts if p is not mine and p is not other] + [merged]
        order = {node: place for place, node in enumerate(nodes)}
        parts = [part for part in parts if self._counts(part)]
        parts.sort(key=lambda part: min(order[node] for node in part.nodes))
        for number, part in enumerate(parts):
            part.id = number
        return parts

    def _candidates(
        self, node: Node, parts: list[Partition], home: dict[Node, Partition]
    ) -> list[Partition]:
        """Parts that a node's may be joined with: those it reads from, then all others."""
        near = [home[source] for source in node.all_input_nodes if source in home]
        return near if self.skip_horizontal_fusion else [*near, *parts]

    def _counts(self, part: Partition) -> bool:
        """Whether a part is worth running by itself."""
        names = [_name(node) for node in part.nodes if node.op == "call_function"]
        others = [node for node in part.nodes if node.op != "call_function"]
        computing = [n for n in names if n not in (*self.non_compute_ops, "_operator.getitem")]
        count = len(computing) + len(others)
        if count > 1 or any(n in self.allowed_single_node_partition_ops for n in computing):
            return True
        return count == 1 and self.allows_single_node_partition

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """The module with each part as a module of its own, called `prefix` and a number."""
        for number, part in enumerate(partitions):
            _fuse(self.graph_module, list(part.nodes), f"{prefix}{number}")
        self.graph_module.delete_all_unused_submodules()
        self.graph_module.recompile()
        return self.graph_module

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Propose parts and make them modules."""
        return self.fuse_partitions(self.propose_partitions(), prefix)


def _name(node: Node) -> str:
    return f"{getattr(node.target, '__module__', '')}.{getattr(node.target, '__name__', '')}"


def _waits_for_itself(nodes: list[Node], inside: set[Node]) -> bool:
    """Whether nodes outside a set would wait for it and it for them."""
    after: set[Node] = set()  # outside, and made of something inside
    for node in nodes:
        sources = node.all_input_nodes
        if node in inside:
            if any(source in after for source in sources):
                return True
        elif any(source in inside or source in after for source in sources):
            after.add(node)
    return False


def _fuse(module: GraphModule, inside: list[Node], name: str) -> None:
    """Put a call of a new module in place of some nodes, where all they read is known."""
    graph, members = module.graph, set(inside)
    inner, taken = Graph(), dict[Node, Any]()
    given = dict.fromkeys(
        source for node in inside for source in node.all_input_nodes if source not in members
    )
    for node in given:
        taken[node] = inner.placeholder(node.name)
    for node in inside:
        taken[node] = inner.node_copy(node, taken.__getitem__)
    results = [node for node in inside if any(user not in members for user in node.users)]
    outputs = [taken[node] for node in results]
    inner.output(outputs[0] if len(outputs) == 1 else tuple(outputs))
    module.add_submodule(name, GraphModule(module, inner, name))
    _wait_for(graph, inside, set(given))
    with graph.inserting_after(inside[-1]):
        call = graph.call_module(name, tuple(given))
    place = call
    for number, node in enumerate(results):
        value = call
        if len(results) > 1:
            with graph.inserting_after(place):
                value = place = graph.call_function(operator.getitem, (call, number))
        node.replace_all_uses_with(value, lambda user: user is not call and user not in members)
    for node in reversed(inside):
        graph.erase_node(node)


def _wait_for(graph: Graph, inside: list[Node], given: set[Node]) -> None:
    """Move what is made of the nodes behind the last of them, so that one call can stand there."""
    members, after = set(inside), set[Node]()
    last, passed = inside[-1], False
    moved: list[Node] = []
    for node in list(graph.nodes):
        if passed:
            break
        if node not in members and any(n in members or n in after for n in node.all_input_nodes):
            after.add(node)
            moved.append(node)
        passed = node is last
    place = last
    for node in moved:
        place.append(node)
        place = node
