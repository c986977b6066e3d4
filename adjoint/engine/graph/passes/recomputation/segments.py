"""Segments: products computed again where that lowers the peak.

As long as it helps, the values alive at the peak that save most memory per work are computed again
for their readers after it, from what is alive then anyway. Values that look alike (those of the
layers of a deep network) are decided on together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.graph.flops import flops
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.passes.recomputation.lifetimes import Lifetimes, nbytes
from adjoint.engine.graph.passes.recomputation.recompute import (
    NEAR,
    SMALLEST,
    Recomputed,
    repeatable,
    rewritten,
    work,
)
from adjoint.engine.graph.sizes.extents import typical

ATTEMPTS = 24
LONGEST = 200  # nodes in a segment


@dataclass(slots=True)
class RecomputedSegment:
    """How a value would be computed again."""

    value: Value
    nodes: set[Value]  # computed again, the value among them
    work: int
    saved: int  # bytes at the peak


def shorten(done: Recomputed) -> Recomputed:
    """The graph with products computed again as long as its peak falls."""
    lives = Lifetimes(done.graph)
    peak, where = lives.peak()
    refused: set[Any] = set()
    for _ in range(ATTEMPTS):
        groups = candidates(lives, where)
        kinds = [k for k in groups if k not in refused]
        if not kinds:
            break
        best = max(kinds, key=lambda k: sum(s.saved / s.work for s in groups[k]) / len(groups[k]))
        tried = apply(done, lives, where, groups[best])
        after = Lifetimes(tried.graph)
        size, place = after.peak()
        if size < peak:
            done, lives, peak, where = tried, after, size, place
            refused.clear()
        else:
            refused.add(best)
    return done


def candidates(lives: Lifetimes, where: int) -> dict[Any, list[RecomputedSegment]]:
    """What could be computed again for readers after a position, alike ones together."""
    groups: dict[Any, list[RecomputedSegment]] = {}
    epoch = lives.epoch
    readers = late_readers(lives, where)
    for v in lives.stored:
        maker = lives.at[v]
        if maker >= where or v not in readers or nbytes(v) < SMALLEST:
            continue
        if epoch[readers[v]] - epoch[maker] <= NEAR:
            continue
        segment = segment_of(lives, v, readers[v])
        if segment is not None and segment.saved > 0:
            assert v.node is not None
            groups.setdefault((v.node.record.name, v.spec, len(segment.nodes)), []).append(segment)
    return groups


def late_readers(lives: Lifetimes, where: int) -> dict[Value, int]:
    """The first reader of each value after a position."""
    first_readers: dict[Value, int] = {}
    nodes = lives.graph.nodes
    for k in range(where, len(nodes)):
        if not nodes[k].record.is_view:
            for x in nodes[k].inputs:
                if x.__class__ is Value:
                    first_readers.setdefault(lives.base_of(x), k)
    return first_readers


def segment_of(lives: Lifetimes, value: Value, reader: int) -> RecomputedSegment | None:
    """How a value would be computed again for a reader, if it can be."""
    nodes: set[Value] = set()
    total, extended = 0, 0
    stack = [value]
    while stack:
        v = stack.pop()
        if v in nodes or v.node is None:
            continue
        if v is not value and lives.last.get(lives.base_of(v), -1) >= reader:
            base = lives.base_of(v)
            if base in lives.stored or base.node is None:
                continue  # it is there anyway
        if v is not value and lives.base_of(v).node is None:
            continue
        if not (repeatable(v.node, "memory") or v.node.record.family == "bilinear"):
            extended += nbytes(v)
            continue
        nodes.add(v)
        total += effort(v.node)
        if len(nodes) > LONGEST:
            return None
        stack += [x for x in v.node.inputs if x.__class__ is Value]
    return RecomputedSegment(value, nodes, max(total, 1), nbytes(value) - extended)


def effort(node: Node) -> int:
    """The work of a node, products included."""
    if node.record.is_view:
        return 0
    if node.record.family == "bilinear":
        shapes = [list(map(typical, v.spec.shape)) for v in (*node.inputs, node.outputs[0])]
        return flops(node.record, shapes[:-1], shapes[-1:]) // 2
    return work(node)


def apply(
    done: Recomputed, lives: Lifetimes, where: int, segments: list[RecomputedSegment]
) -> Recomputed:
    """The graph in which the segments' values are computed again for readers after a position."""
    targets = {s.value for s in segments}
    again = {v for s in segments for v in s.nodes}
    epoch, base_of = lives.epoch, lives.base_of
    # Views of a target are read instead of it.
    again |= {v for v, base in lives.base.items() if base in targets}

    def late(x: Value, k: int) -> bool:
        base = base_of(x)
        return base in targets and k >= where and epoch[k] - epoch[lives.at[base]] > NEAR

    return rewritten(done, lives, again, late, {})
