"""Boxes in layers: where to draw the nodes of a graph so that arrows point downwards.

The usual four steps: a layer for each box (the longest way to it), points on the arrows that pass
through layers in between, an order within each layer that makes few crossings (each box near the
middle of its neighbours), and positions that pull neighbours together without overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean

GAP, RISE = 18.0, 34.0  # between boxes of a layer; between layers
SWEEPS = 8


@dataclass(slots=True, eq=False)
class Box:
    """Something to place: its size is given, its place is found. Edges bend at boxes of no size."""

    width: float
    height: float
    x: float = 0.0  # of the middle
    y: float = 0.0  # of the top
    layer: int = 0
    above: list[Box] = field(default_factory=list)
    below: list[Box] = field(default_factory=list)


@dataclass(slots=True)
class Placed:
    """A layout: the size of the whole, and the points each edge passes through."""

    width: float
    height: float
    routes: list[list[tuple[float, float]]]


def place(boxes: list[Box], edges: Sequence[tuple[int, int]]) -> Placed:
    """Place the boxes, whose layers are assigned; each edge leads from a box to a later one."""
    chains = [_bend(boxes[a], boxes[b]) for a, b in edges]
    layers: list[list[Box]] = [[] for _ in range(1 + max((b.layer for b in boxes), default=0))]
    for box in dict.fromkeys([*boxes, *(bend for chain in chains for bend in chain)]):
        layers[box.layer].append(box)
    for sweep in range(SWEEPS):
        _order(layers, down=sweep % 2 == 0)
    for sweep in range(SWEEPS):
        _align(layers, down=sweep % 2 == 0)
    height = _stack(layers)
    left = min((b.x - b.width / 2 for layer in layers for b in layer), default=0.0)
    for layer in layers:
        for box in layer:
            box.x -= left
    width = max((b.x + b.width / 2 for layer in layers for b in layer), default=0.0)
    return Placed(width, height, [_route(chain) for chain in chains])


def assign_layers(boxes: list[Box], edges: Sequence[tuple[int, int]]) -> None:
    """The longest way from the top; then each box as near to its first use as that leaves it."""
    uses: list[list[int]] = [[] for _ in boxes]
    for a, b in edges:
        uses[a].append(b)
    for box in boxes:
        box.layer = 0
    for box, below in zip(boxes, uses, strict=True):
        for j in below:
            boxes[j].layer = max(boxes[j].layer, box.layer + 1)
    for box, below in zip(reversed(boxes), reversed(uses), strict=True):
        if below:
            box.layer = min(boxes[j].layer for j in below) - 1


def _bend(top: Box, bottom: Box) -> list[Box]:
    """The boxes an edge passes: its ends, and one of no size per layer between."""
    chain = [top, *[Box(0.0, 0.0, layer=i) for i in range(top.layer + 1, bottom.layer)], bottom]
    for a, b in pairwise(chain):
        a.below.append(b)
        b.above.append(a)
    return chain


def _order(layers: list[list[Box]], *, down: bool) -> None:
    """Sort each layer by the middle of its neighbours in the layer before."""
    sequence = layers if down else layers[::-1]
    for before, layer in pairwise(sequence):
        rank = {id(box): i for i, box in enumerate(before)}
        own = {id(box): i for i, box in enumerate(layer)}

        def middle(box: Box, rank: dict[int, int] = rank, own: dict[int, int] = own) -> float:
            near = [rank[id(b)] for b in (box.above if down else box.below) if id(b) in rank]
            return fmean(near) if near else own[id(box)]

        layer.sort(key=middle)


def _align(layers: list[list[Box]], *, down: bool) -> None:
    """Pull each box towards its neighbours, keeping order and gaps."""
    for layer in layers if down else layers[::-1]:
        wanted = []
        for box in layer:
            near = [b.x for b in (box.above if down else box.below)]
            wanted.append(fmean(near) if near else box.x)
        right: list[float] = []  # as far left as it goes without pushing left
        for box, x in zip(layer, wanted, strict=True):
            least = right[-1] + _apart(layer[len(right) - 1], box) if right else x
            right.append(max(x, least))
        left: list[float] = []
        for box, x in zip(reversed(layer), reversed(wanted), strict=True):
            most = left[-1] - _apart(box, layer[len(layer) - len(left)]) if left else x
            left.append(min(x, most))
        # Both keep every gap, so their mean does.
        for box, a, b in zip(layer, right, reversed(left), strict=True):
            box.x = (a + b) / 2


def _apart(a: Box, b: Box) -> float:
    return (a.width + b.width) / 2 + GAP


def _stack(layers: list[list[Box]]) -> float:
    """Give each layer its height; returns the sum."""
    y = 0.0
    for layer in layers:
        height = max((box.height for box in layer), default=0.0)
        for box in layer:
            box.y = y + (height - box.height) / 2
        y += height + RISE
    return max(y - RISE, 0.0)


def _route(chain: list[Box]) -> list[tuple[float, float]]:
    first, *bends, last = chain
    points = [(first.x, first.y + first.height)]
    points += [(bend.x, bend.y) for bend in bends]
    return [*points, (last.x, last.y)]
