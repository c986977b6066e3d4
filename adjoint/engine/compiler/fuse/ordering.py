"""Ordering: units in a sequence that respects what they wait for."""

from __future__ import annotations

import heapq

from adjoint.engine.compiler.fuse.fuse import Fusion, Unit
from adjoint.engine.graph.ir import DataflowGraph


def ordered(fusion: Fusion, graph: DataflowGraph) -> list[Unit]:
    """Units in an order that respects their dependences and stays near the recorded one."""
    rank = {node: k for k, node in enumerate(graph.nodes)}
    units = [u for u in fusion.units if u.nodes]
    waits: dict[int, set[int]] = {}
    followers: dict[int, list[Unit]] = {}
    for unit in units:
        before = {p.index for node in unit.nodes for p in fusion.producers(node)} - {unit.index}
        waits[unit.index] = before
        for b in before:
            followers.setdefault(b, []).append(unit)
    ready = [(rank[u.nodes[-1]], u.index, u) for u in units if not waits[u.index]]
    heapq.heapify(ready)
    result: list[Unit] = []
    while ready:
        _, _, unit = heapq.heappop(ready)
        result.append(unit)
        for follower in followers.get(unit.index, ()):
            waits[follower.index].discard(unit.index)
            if not waits[follower.index]:
                heapq.heappush(ready, (rank[follower.nodes[-1]], follower.index, follower))
    assert len(result) == len(units), "units wait for each other"
    return result
