"""How long values live in a graph run in order: an estimate, made before anything is fused.

Elementwise nodes and reductions between two heavier ones (products, convolutions, whatever is a
step of its own) are taken to become one kernel, so that only what is read across such a border
needs memory. Inputs and what the program hands out need none that could be saved.
"""

from __future__ import annotations

from itertools import accumulate
from math import prod

from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.sizes.extents import typical
from adjoint.engine.ops.index.gather import SCATTER


def is_light(node: Node) -> bool:
    """Whether a node may become part of a kernel with others."""
    record = node.record
    if record.family == "elementwise" or record.pointwise or record.reduces:
        return True
    # Kernels read elsewhere on the way; to write one place of each line is to compare, everywhere.
    return record.indexed == "read" or record is SCATTER


def nbytes(value: Value) -> int:
    """The memory a value takes; of dynamic sizes, typical ones."""
    spec = value.spec
    return typical(prod(spec.shape)) * spec.dtype.itemsize


class Lifetimes:
    """When the values of a graph are made and read."""

    def __init__(self, graph: DataflowGraph) -> None:
        self.graph = graph
        self.at: dict[Value, int] = {}  # position of the node that makes it
        self.epoch: list[int] = []  # by position: how many heavier nodes come before
        self.base: dict[Value, Value] = {}  # of views
        self.first: dict[Value, int] = {}  # position of the first reader, views seen through
        self.last: dict[Value, int] = {}  # of the last
        self.stored: set[Value] = set()
        self._scan()
        self.stored -= {self.base_of(v) for v in graph.outputs}

    def base_of(self, value: Value) -> Value:
        return self.base.get(value, value)

    def _scan(self) -> None:
        epoch = 0
        at, base, epochs, stored = self.at, self.base, self.epoch, self.stored
        first, last = self.first, self.last
        for k, node in enumerate(self.graph.nodes):
            epochs.append(epoch)
            if node.record.is_view:
                source = node.inputs[0]
                base[node.outputs[0]] = base.get(source, source)
                at[node.outputs[0]] = k
                continue
            light = is_light(node)
            for x in node.inputs:
                if x.__class__ is Value:
                    x = base.get(x, x)
                    maker = at.get(x)
                    if maker is not None:
                        last[x] = k
                        first.setdefault(x, k)
                        if not light or epochs[maker] != epoch:
                            stored.add(x)
            for v in node.outputs:
                at[v] = k
                if not light:
                    stored.add(v)
            if not light:
                epoch += 1

    def stored_before(self, position: int) -> set[Value]:
        """Values that lie in memory because of their readers before a node."""
        stored: set[Value] = set()
        for k, node in enumerate(self.graph.nodes[:position]):
            if node.record.is_view:
                continue
            for x in map(self.base_of, (x for x in node.inputs if x.__class__ is Value)):
                maker = self.at.get(x)
                if maker is not None and (not is_light(node) or self.epoch[maker] != self.epoch[k]):
                    stored.add(x)
        return stored

    def sizes(self, near: int | None = None) -> list[int]:
        """Bytes alive at each node.

        With `near`, only of values that are read within so many heavy nodes and again after more.
        """
        change = [0] * (len(self.graph.nodes) + 1)
        epoch = self.epoch
        for v in self.stored:
            maker = self.at[v]
            last = self.last.get(v, maker)
            if near is not None:
                limit = epoch[maker] + near
                if epoch[last] <= limit or epoch[self.first[v]] > limit:
                    continue
            size = nbytes(v)
            change[maker] += size
            change[last + 1] -= size
        return list(accumulate(change[:-1]))

    def peak(self, near: int | None = None) -> tuple[int, int]:
        """The largest number of bytes alive at once, and at which node first."""
        sizes = self.sizes(near)
        if not sizes:
            return 0, 0
        most = max(sizes)
        return most, sizes.index(most)
