"""Counts: the floating-point operations of a program's launches, for `explain` as text and page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from adjoint.engine.compiler.memory.footprint import AtSizes
from adjoint.engine.compiler.schedule.steps import Launch
from adjoint.engine.graph.flops import flops
from adjoint.engine.graph.ir import Node, Value

Shares = Mapping[tuple[int, Node], int]


def shares_of_flops(launches: Iterable[Launch], at_sizes: AtSizes) -> Shares:
    """The floating-point operations of each template's node, by launch and node.

    Of a template's launches the one that costs most does them, or several that cost the same; the
    others (packing, ordering) move elements only.
    """
    of_node: dict[Node, list[Launch]] = {}
    for entry in launches:
        if entry.form is None:
            for node in nodes_of(entry):
                of_node.setdefault(node, []).append(entry)
    shares: dict[tuple[int, Node], int] = {}
    for node, entries in of_node.items():
        costs = [at_sizes(entry.cost) for entry in entries]
        works = [e for e, cost in zip(entries, costs, strict=True) if cost == max(costs)]
        share, rest = divmod(node_flops(node, at_sizes), len(works))
        shares |= {(id(e), node): share + (rest if k == 0 else 0) for k, e in enumerate(works)}
    return shares


def launch_flops(entry: Launch, shares: Shares, at_sizes: AtSizes) -> int:
    """The floating-point operations of a launch; of a template's node, its share."""
    return sum(
        shares.get((id(entry), node), 0) if entry.form is None else node_flops(node, at_sizes)
        for node in nodes_of(entry)
    )


def nodes_of(entry: Launch) -> list[Node]:
    """What a launch does or has a part in, each once."""
    return list(dict.fromkeys(node for work in entry.works for node in work.nodes))


def node_flops(node: Node, at_sizes: AtSizes) -> int:
    """The floating-point operations of a node at the sizes of a program."""
    shapes = [tuple(map(at_sizes, x.spec.shape)) for x in node.inputs if isinstance(x, Value)]
    outs = [tuple(map(at_sizes, v.spec.shape)) for v in node.outputs]
    return flops(node.record, shapes, outs)
