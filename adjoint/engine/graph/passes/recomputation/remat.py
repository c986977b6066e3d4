"""Rematerialisation: values that are read again much later are computed again, not kept.

Note [what is kept]
    A step's memory is greatest between its forward and its backward half, and what is alive there
    is what the second half needs of the first. Which values to keep is a least cut: every value of
    the first half is an arc as wide as its bytes, computing it again an arc as wide as the work
    that would take (never, for what a strategy does not repeat), and the cut separates what exists
    from what is needed. It takes a value that many others follow from (an activation's operand)
    instead of those others (the activation and its derivative) when that is less. Products are then
    considered by `segments`.

    `speed` repeats only what is free; `balanced` elementwise chains that cost little more than the
    memory traffic of keeping their results; `memory` all elementwise nodes and reductions, then
    products where that lowers the peak.

    Values are computed again right before their first late reader. A graph's nodes are pure, random
    draws included, so results are the same to the last bit.
"""

from __future__ import annotations

from math import prod

from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.recomputation.lifetimes import Lifetimes, is_light, nbytes
from adjoint.engine.graph.passes.recomputation.mincut import NEVER, Network
from adjoint.engine.graph.passes.recomputation.recompute import (
    CPU,
    NEAR,
    SMALLEST,
    Costs,
    Recomputed,
    is_free,
    repeatable,
    rewritten,
    work,
)
from adjoint.engine.graph.passes.recomputation.segments import shorten
from adjoint.engine.graph.remat_strategies import DEFAULT
from adjoint.engine.graph.sizes.extents import typical

ROUNDS = 3  # peaks that are looked at
DEAR = 16  # how much more a byte is worth where memory is what matters


def rematerialise(graph: DataflowGraph, strategy: str = DEFAULT, costs: Costs = CPU) -> Recomputed:
    """The graph in which late readers of what is cheap to compute have it computed again."""
    done = Recomputed(graph, strategy)
    seen: set[str] = set()
    for _ in range(ROUNDS):
        lives = Lifetimes(done.graph)
        if not lives.at:
            break
        # The halves meet where most is alive that was read before and will be read again.
        border = lives.peak(NEAR)[1]
        name = done.graph.nodes[border].outputs[0].name
        if name in seen:
            break  # decided on already
        seen.add(name)
        cut = Cut(lives, border + 1, strategy, costs)
        again, sooner = cut.decide()
        if not any(nbytes(v) >= SMALLEST for v in again | sooner):
            break
        done = repeat(done, cut, again, sooner)
    if strategy == "memory":
        done = shorten(done)
    return done


class Cut:
    """What to keep across a graph's peak.

    The first half is what comes before the peak, and what comes later but could be computed there:
    an activation's derivative, which may be cheaper to keep than what it follows from. That a node
    of the second half is computed late costs nothing.
    """

    def __init__(self, lives: Lifetimes, peak: int, strategy: str, costs: Costs) -> None:
        self.strategy, self.costs = strategy, costs
        dear = strategy == "memory"
        self.byte = costs.byte * (DEAR if dear else 1)
        self.lying = lives.stored_before(peak) if costs.lying < costs.byte and not dear else set()
        self.read: set[Value] = set()  # by products, late
        self.sources: dict[Value, frozenset[Value]] = {}  # what is read to compute a value again
        self.lives, self.peak = lives, peak
        self.network = Network()
        self.ends: dict[Value, tuple[int, int]] = {}  # vertices before and after a value
        self.handed = set(lives.graph.outputs)
        self.soonest: dict[Value, int] = {}  # where a value of the first half can be made
        wanted = self.first_half()
        for value in wanted:
            self.network.arc(self.add(value), 1, NEVER)

    def first_half(self) -> list[Value]:
        """Find the values of the first half; returns those that others read much later."""
        lives, soonest, peak = self.lives, self.soonest, self.peak
        wanted: dict[Value, None] = {}
        for k, node in enumerate(lives.graph.nodes):
            if k < peak:
                for v in node.outputs:
                    soonest[v] = k
                continue
            operands = [x for x in node.inputs if x.__class__ is Value]
            places = [soonest.get(x) if x.node is not None else 0 for x in operands]
            if None not in places and repeatable(node, self.strategy):
                soonest[node.outputs[0]] = max((p for p in places if p is not None), default=0)
                continue
            for x in operands:
                if x in soonest and self.late(x, k):
                    wanted[x] = None
                    if not is_light(node):
                        self.read.add(lives.base_of(x))
        return list(wanted)

    def stays(self, value: Value, node: Node) -> bool:
        """Whether a value is not computed again, whatever keeping it costs."""
        early = self.lives.at[value] < self.peak
        if not repeatable(node, self.strategy):
            return True
        if early and value in self.read and not self.costs.remade and self.strategy != "memory":
            return True
        return early and self.strategy == "speed" and not is_free(node)

    def effort(self, value: Value, node: Node) -> int:
        """What computing a value again costs, what its operands cost apart."""
        effort = work(node, self.costs)
        if self.costs.meeting:
            size = typical(prod(value.spec.shape))
            sources = [self.sources_of(x, size) for x in node.inputs if x.__class__ is Value]
            if sources and len(frozenset().union(*sources)) > max(map(len, sources)):
                effort += self.costs.meeting * size
        return effort

    def sources_of(self, value: Value, size: int) -> frozenset[Value]:
        """The values of about a size or more that one follows from and that are not repeated."""
        known = self.sources
        stack = [value]
        while stack:  # chains may be long
            v = stack[-1]
            node = v.node
            if node is None or (not node.record.is_view and self.stays(v, node)):
                known[v] = frozenset((v,))
            if v in known:
                stack.pop()
                continue
            assert node is not None
            operands = [x for x in node.inputs if x.__class__ is Value]
            waiting = [x for x in operands if x not in known]
            if waiting:
                stack += waiting
                continue
            known[v] = frozenset().union(*(known[x] for x in operands))
        return frozenset(v for v in known[value] if 2 * typical(prod(v.spec.shape)) >= size)

    def late(self, value: Value, position: int) -> bool:
        """Whether a reader comes long after a value of the first half could be made."""
        epoch = self.lives.epoch
        return position >= self.peak and epoch[position] - epoch[self.soonest[value]] > NEAR

    def add(self, value: Value) -> int:
        """Put a value and what it follows from into the network; returns the vertex after it."""
        network, ends = self.network, self.ends
        if value in ends:
            return ends[value][1]
        stack = [value]
        ends[value] = (network.vertex(), network.vertex())
        while stack:
            v = stack.pop()
            before, after = ends[v]
            node = v.node
            assert node is not None
            network.arc(before, after, self.width(v, node))
            if self.stays(v, node):
                network.arc(0, before, NEVER)
                continue
            if self.lives.at[v] < self.peak and not node.record.is_view:
                network.arc(0, before, self.effort(v, node))
            for x in node.inputs:
                if x.__class__ is not Value or x.node is None:
                    continue
                if x not in ends:
                    ends[x] = (network.vertex(), network.vertex())
                    stack.append(x)
                network.arc(ends[x][1], before, NEVER)
        return ends[value][1]

    def width(self, value: Value, node: Node) -> int:
        """What keeping a value costs; a view is kept by keeping what it shows."""
        if node.record.is_view:
            return NEVER
        if value in self.handed:
            return 0
        return (self.costs.lying if value in self.lying else self.byte) * nbytes(value)

    def decide(self) -> tuple[set[Value], set[Value]]:
        """Values to compute again (or only late), and late ones to compute early and keep."""
        if not self.ends:
            return set(), set()
        side = self.network.source_side()
        again = {v for v, (before, _) in self.ends.items() if before not in side}
        sooner = {
            v
            for v, (before, after) in self.ends.items()
            if before in side and after not in side and self.lives.at[v] >= self.peak
        }
        return again, sooner


def repeat(done: Recomputed, cut: Cut, again: set[Value], sooner: set[Value]) -> Recomputed:
    """The graph in which late readers of the given values read copies, made for them then."""
    early = {v for v in again if cut.lives.at[v] < cut.peak}
    return rewritten(
        done, cut.lives, early, lambda x, k: x in early and cut.late(x, k), hoisted(cut, sooner)
    )


def hoisted(cut: Cut, sooner: set[Value]) -> dict[int, list[Node]]:
    """Late nodes to be put after the node of the first half at a position."""
    wanted: set[Value] = set()
    stack = list(sooner)
    while stack:
        v = stack.pop()
        if v in wanted or cut.lives.at[v] < cut.peak:
            continue
        wanted.add(v)
        assert v.node is not None
        stack += [x for x in v.node.inputs if x.__class__ is Value and x.node is not None]
    places: dict[int, list[Node]] = {}
    for v in sorted(wanted, key=cut.lives.at.__getitem__):
        assert v.node is not None
        places.setdefault(cut.soonest[v], []).append(v.node)
    return places
