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

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

from adjoint.engine.graph.extents import typical
from adjoint.engine.graph.ir import Graph, Node, Value
from adjoint.engine.graph.passes.dce import dce
from adjoint.engine.graph.passes.lifetimes import REDUCTIONS, Lifetimes, nbytes
from adjoint.engine.graph.passes.mincut import NEVER, Network
from adjoint.engine.graph.passes.rewrite import Builder

STRATEGIES = ("memory", "speed", "balanced")
DEFAULT = "balanced"
NEAR = 3  # a reader at most so many heavy nodes on does not count as late
ROUNDS = 3  # peaks that are looked at
SMALLEST = 1 << 12  # bytes: smaller values are not worth a node
# What keeping a byte is worth in additions: little more than the memory traffic it takes, or a lot.
BYTE = {"speed": 4, "balanced": 4, "memory": 64}
# Work per element; what is not here counts as one addition.
ADDITION, FUNCTION, DRAW = 1, 16, 16
FUNCTIONS = frozenset(
    "exp exp2 expm1 log log2 log10 log1p tanh erf erfc sigmoid pow sin cos tan rsqrt sqrt div "
    "atan asin acos sinh cosh logaddexp".split()
)
SIMPLE = {"cast", "clone", "full", "arange", "triu", "tril", "random"}
FREE = {"full", "arange", "cast", "eq", "ne", "lt", "le", "gt", "ge", "logical_not"}
FAILS = {"floor_divide", "trunc_divide", "remainder", "fmod"}  # of integers, by zero


@dataclass(slots=True)
class Recomputed:
    """What the pass did: the new graph, and the names of the values that are computed again."""

    graph: Graph
    strategy: str = DEFAULT
    names: set[str] = field(default_factory=set)

    @property
    def records(self) -> Counter[str]:
        """How often each operation is repeated."""
        return Counter(
            node.record.name
            for node in self.graph
            if node.outputs[0].name in self.names and not node.record.is_view
        )


def rematerialise(graph: Graph, strategy: str = DEFAULT) -> Recomputed:
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
        cut = Cut(lives, border + 1, strategy)
        again, sooner = cut.decide()
        if not any(nbytes(v) >= SMALLEST for v in again | sooner):
            break
        done = repeat(done, cut, again, sooner)
    if strategy == "memory":
        from adjoint.engine.graph.passes.segments import shorten

        done = shorten(done)
    return done


def work(node: Node) -> int:
    """What computing a node again costs."""
    name = node.record.name
    per = FUNCTION if name in FUNCTIONS else ADDITION
    if name == "random" or name in ("bernoulli", "normal", "poisson", "binomial"):
        per = DRAW
    return per * typical(prod(node.outputs[0].spec.shape))


def repeatable(node: Node, strategy: str) -> bool:
    """Whether a strategy computes a node again."""
    record = node.record
    if record.name in FAILS or len(node.outputs) != 1:
        return False
    if record.is_view or record.family == "elementwise" or record.name in SIMPLE:
        return True
    return strategy == "memory" and record.name in REDUCTIONS


def is_free(node: Node) -> bool:
    """Whether a node costs nothing where its result is used: constants, casts, comparisons."""
    return node.record.is_view or node.record.name in FREE


class Cut:
    """What to keep across a graph's peak.

    The first half is what comes before the peak, and what comes later but could be computed there:
    an activation's derivative, which may be cheaper to keep than what it follows from. That a node
    of the second half is computed late costs nothing.
    """

    def __init__(self, lives: Lifetimes, peak: int, strategy: str) -> None:
        self.strategy = strategy
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
        return list(wanted)

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
            early = self.lives.at[v] < self.peak
            never = early and self.strategy == "speed" and not is_free(node)
            if never or not repeatable(node, self.strategy):
                network.arc(0, before, NEVER)
                continue
            if early and not node.record.is_view:
                network.arc(0, before, work(node))
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
        return 0 if value in self.handed else BYTE[self.strategy] * nbytes(value)

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


def rewritten(
    done: Recomputed,
    lives: Lifetimes,
    again: set[Value],
    late: Callable[[Value, int], bool],
    places: dict[int, list[Node]],
) -> Recomputed:
    """The graph in which readers that are `late` read copies, and the nodes in `places` moved."""
    graph = lives.graph
    result = Recomputed(graph, done.strategy, set(done.names))
    copier = _Copier(Builder(graph), again, result)
    builder = copier.builder
    moved = {v for nodes in places.values() for node in nodes for v in node.outputs}
    for k, node in enumerate(graph.nodes):
        if node.outputs[0] not in moved:
            inputs = builder.translate(node.inputs)
            for i, x in enumerate(node.inputs):
                if x.__class__ is Value and x in again and late(x, k):
                    inputs = (*inputs[:i], copier.copy(x), *inputs[i + 1 :])
            if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
                inputs = node.inputs
            builder.keep(node, inputs)
        for later in places.get(k, ()):
            builder.keep(later, builder.translate(later.inputs))
    result.graph = dce(builder.finish(graph))
    return result


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


class _Copier:
    """Makes copies of nodes where they are wanted."""

    def __init__(self, builder: Builder, again: set[Value], result: Recomputed) -> None:
        self.builder, self.again, self.result = builder, again, result
        self.copies: dict[Value, Value] = {}

    def copy(self, value: Value) -> Value:
        """The copy of a value, made now if there is none."""
        if value not in self.again:
            became: Value = self.builder.became.get(value, value)
            return became
        found = self.copies.get(value)
        if found is not None:
            return found
        stack = [value]  # chains may be long
        while stack:
            v = stack[-1]
            node = v.node
            assert node is not None
            waiting = [
                x
                for x in node.inputs
                if x.__class__ is Value and x in self.again and x not in self.copies
            ]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if v not in self.copies:
                self.copies[v] = self.emit(v, node)
        return self.copies[value]

    def emit(self, value: Value, node: Node) -> Value:
        became = self.builder.became
        inputs: tuple[Any, ...] = tuple(
            self.copies.get(x, became.get(x, x)) if x.__class__ is Value else x for x in node.inputs
        )
        if node.record.is_view and inputs[0] is became.get(node.inputs[0], node.inputs[0]):
            kept: Value = became.get(value, value)
            return kept  # a view of what is kept
        self.builder.graph.where = node.where
        (copy,) = self.builder.graph.add_node(
            node.record, inputs, node.params, (value.spec,), node.subgraph
        )
        self.result.names.add(copy.name)
        return copy
