"""The graph: typed SSA. A node applies a record to values and literals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from numbers import Number
from typing import Any, TypeAlias

from adjoint.engine.core.identity.number_key import number_key
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.origins import Where
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.graph.sizes.extents import ExtentFloat

# A composite's: a graph, what makes one when it is asked for, or none.
Composition: TypeAlias = "DataflowGraph | Callable[[], DataflowGraph] | None"


class Value:
    """One SSA value: what it looks like and who made it (None: an input)."""

    __slots__ = ("host", "name", "node", "spec")

    def __init__(self, name: str, spec: Spec, node: Node | None = None, host: bool = False) -> None:
        self.name = name
        self.spec = spec
        self.node = node
        self.host = host  # a number the host supplies at each call

    def __repr__(self) -> str:
        return f"%{self.name}: {'host ' if self.host else ''}{self.spec}"


class Node:
    """An application of a record. Inputs are values or Python numbers."""

    __slots__ = ("composition", "inputs", "outputs", "params", "record", "where")

    def __init__(
        self,
        record: Record,
        inputs: tuple[Any, ...],
        params: dict[str, Any],
        composition: Composition = None,
        where: Where | None = None,
    ) -> None:
        self.record = record
        self.inputs = inputs
        self.params = params
        self.outputs: tuple[Value, ...] = ()
        self.composition = composition
        self.where = where  # the user's line that asked for it, where that is known

    def __repr__(self) -> str:
        return f"{', '.join(v.name for v in self.outputs)} = {self.record.name}(...)"

    @property
    def subgraph(self) -> DataflowGraph | None:
        """A composite's composition."""
        graph = self.composition
        return graph() if callable(graph) else graph


class DataflowGraph:
    """Inputs, nodes in an order that respects their uses, and outputs."""

    __slots__ = ("_count", "derived", "inputs", "nodes", "outputs", "where")

    def __init__(self) -> None:
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.outputs: list[Value] = []
        self.derived: dict[Any, Any] = {}  # derivatives made of it: graph.flow
        self.where: Where | None = None  # that of the nodes to be added
        self._count = 0

    def copy(self) -> DataflowGraph:
        """A graph of the same nodes, to add more to."""
        graph = DataflowGraph()
        graph.inputs, graph.nodes, graph.outputs = [*self.inputs], [*self.nodes], [*self.outputs]
        graph._count = self._count
        return graph

    def add_input(self, spec: Spec, *, host: bool = False) -> Value:
        """A new input."""
        value = Value(f"{'h' if host else 'x'}{self._count}", spec, host=host)
        self._count += 1
        self.inputs.append(value)
        return value

    def add_node(
        self,
        record: Record,
        inputs: tuple[Any, ...],
        params: dict[str, Any],
        specs: tuple[Spec, ...],
        composition: Composition = None,
    ) -> tuple[Value, ...]:
        """A new node; returns its outputs."""
        node = Node(record, inputs, params, composition, self.where)
        named = enumerate(specs, self._count)
        node.outputs = outputs = tuple([Value(f"v{k}", spec, node) for k, spec in named])
        self._count += len(outputs)
        self.nodes.append(node)
        return outputs

    def add_again(
        self, nodes: Sequence[Node], specs: Sequence[tuple[Spec, ...]], new: dict[Any, Any]
    ) -> None:
        """Nodes like these on other values: `new` has those of their inputs and gets the outputs'.

        Inputs it does not have stay themselves.
        """
        get, where, count, mine = new.get, self.where, self._count, self.nodes
        for like, looks in zip(nodes, specs, strict=True):
            inputs = tuple(map(get, like.inputs, like.inputs))
            node = Node(like.record, inputs, like.params, like.composition, where)
            outputs = []
            for old, spec in zip(like.outputs, looks, strict=True):
                new[old] = value = Value(f"v{count}", spec, node)
                outputs.append(value)
                count += 1
            node.outputs = tuple(outputs)
            mine.append(node)
        self._count = count

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)


def subgraphs(node: Node) -> dict[str, DataflowGraph]:
    """The graphs among a node's parameters, by name: branches, bodies of loops."""
    return {name: value for name, value in node.params.items() if isinstance(value, DataflowGraph)}


def extract(
    graph: DataflowGraph, inputs: Sequence[Value], outputs: Sequence[Value]
) -> DataflowGraph:
    """A copy of what of `graph` computes `outputs`, with inputs in a new order.

    An output that is an input is passed on. Every value the outputs need must be computed from
    `inputs`.
    """
    needed: set[Value] = set(outputs)
    for node in reversed(graph.nodes):
        if any(v in needed for v in node.outputs):
            needed.update(x for x in node.inputs if isinstance(x, Value))
    extracted = DataflowGraph()
    new: dict[Value, Value] = {v: extracted.add_input(v.spec, host=v.host) for v in inputs}
    for node in graph.nodes:
        if any(v in needed for v in node.outputs):
            operands = tuple(new[x] if isinstance(x, Value) else x for x in node.inputs)
            specs = tuple(v.spec for v in node.outputs)
            extracted.where = node.where
            outs = extracted.add_node(node.record, operands, node.params, specs, node.subgraph)
            new.update(zip(node.outputs, outs, strict=True))
    extracted.outputs = [new[v] for v in outputs]
    return extracted


def frozen(x: Any) -> Any:
    """A literal or parameter as a key: equal keys mean the same in a node.

    Types count, because 1, 1.0 and True promote differently; so does the sign of a zero.
    """
    kind = type(x)
    if kind is int:
        return x  # equals only ints among keys, since other numbers are wrapped
    if kind is tuple or kind is list:
        for v in x:
            if v.__class__ is not int:
                return (kind, *[frozen(v) for v in x])
        return tuple(x) if kind is list else x
    if kind is dict:
        return (kind, *[(number_key(k), frozen(v)) for k, v in x.items()])
    if kind is str or kind is HostScalar or x is None:  # the host's has no hash
        return x
    if kind is ExtentFloat:  # of another value at other sizes
        return (kind, id(x))
    return number_key(x) if isinstance(x, (Number, frozenset)) else x
