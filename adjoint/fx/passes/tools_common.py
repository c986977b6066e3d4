"""Tools that passes share: the order of nodes."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import pairwise

from adjoint.fx.graph_module import GraphModule
from adjoint.fx.node import Node


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """Put nodes after those they use, and otherwise leave their order; the module is changed.

    Raises:
        RuntimeError: if nodes use each other in a circle.
    """
    places = {node: place for place, node in enumerate(gm.graph.nodes)}
    nodes = list(places)
    missing = {node: len(node.all_input_nodes) for node in nodes}
    ready = [places[node] for node in nodes if not missing[node]]  # a heap: they are in order
    ordered = list[Node]()
    while ready:
        ordered.append(nodes[heappop(ready)])
        for user in ordered[-1].users:
            missing[user] -= 1
            if not missing[user]:
                heappush(ready, places[user])
    if len(ordered) < len(nodes):
        left = [node for node in nodes if missing[node]]
        raise RuntimeError(f"the nodes {left} use each other in a circle")
    for before, node in pairwise(ordered):
        before.append(node)
    return gm


legalize_graph = stable_topological_sort  # the older name, which promised any such order
