"""Graphs whose sizes are extents: the same at given sizes, and how graphs differ."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from adjoint.engine.core.identity.number_key import number_key
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.record.sources import CallArgument, GradOf, Host, Source, State
from adjoint.engine.graph.sizes.extents import Extent, ExtentFloat, Sizes, SizeScope, evaluate


def resized(x: Any, sizes: Sizes) -> Any:
    """What holds extents (a graph, numbers, sources) with sizes in their place."""
    return Rebuild(sizes, set())(x)


def graph_at(graph: DataflowGraph, sizes: Sizes) -> DataflowGraph:
    """A graph with sizes in the place of extents."""
    return Rebuild(sizes, set()).graph(graph)


def again(graph: DataflowGraph, sizes: Sizes, scope: SizeScope) -> DataflowGraph:
    """A graph with the same extents at other sizes and in another scope (`SizeScope.again`)."""
    return _Again(sizes, scope).graph(graph)


def moved(x: Any, sizes: Sizes, scope: SizeScope) -> Any:
    """The same of what else holds extents."""
    return _Again(sizes, scope)(x)


class Later(DataflowGraph):
    """A graph that is made when somebody looks at it."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], DataflowGraph]) -> None:
        self.make = make

    def __getattr__(self, name: str) -> Any:
        if name not in DataflowGraph.__slots__:
            raise AttributeError(name)
        value = self.make()
        for slot in DataflowGraph.__slots__:
            setattr(self, slot, getattr(value, slot))
        return getattr(value, name)


class Rebuild:
    """Copies whatever holds an extent, with the extent's value at the sizes in its place."""

    def __init__(self, sizes: Sizes, static: set[int]) -> None:
        self.sizes = sizes
        self.static = static
        self.memo: dict[int, Any] = {}  # graphs, values and sources are shared
        self.alive: list[Any] = []
        self.lazy = True

    def __call__(self, x: Any) -> Any:
        if id(x) in self.static:
            return x
        rebuilt = self._rebuilt(x)
        if rebuilt is x:
            self.static.add(id(x))
        return rebuilt

    def _rebuilt(self, x: Any) -> Any:
        if isinstance(x, (Extent, ExtentFloat)):
            return self.number(x)
        if isinstance(x, (tuple, list)):
            return self._sequence(x)
        if isinstance(x, dict):
            rebuilt = {k: self(v) for k, v in x.items()}
            return x if all(rebuilt[k] is x[k] for k in x) else rebuilt
        if id(x) in self.memo:
            return self.memo[id(x)]
        rebuilt = self._object(x)
        self.memo[id(x)] = rebuilt
        self.alive.append(x)
        return rebuilt

    def number(self, x: Extent | ExtentFloat) -> Any:
        return x.at(self.sizes) if isinstance(x, ExtentFloat) else evaluate(x.poly, self.sizes)

    def _sequence(self, x: Any) -> Any:
        rebuilt = [self(v) for v in x]
        if all(a is b for a, b in zip(rebuilt, x, strict=True)):
            return x
        if hasattr(x, "_fields"):
            return type(x)(*rebuilt)
        return rebuilt if type(x) is list else type(x)(rebuilt)

    def _object(self, x: Any) -> Any:
        if isinstance(x, DataflowGraph):
            return self.later(x) if self.lazy else self.graph(x)
        if isinstance(x, HostScalar):
            return self._host(x)
        if isinstance(x, Host):
            scalar = self(x.scalar)
            return x if scalar is x.scalar else Host(scalar)
        if isinstance(x, slice):
            return slice(self(x.start), self(x.stop), self(x.step))
        if dataclasses.is_dataclass(x) and not isinstance(x, (type, Record)):
            rebuilt = {f.name: self(getattr(x, f.name)) for f in dataclasses.fields(x)}
            same = all(rebuilt[name] is getattr(x, name) for name in rebuilt)
            return x if same else dataclasses.replace(x, **rebuilt)
        return x

    def _host(self, x: HostScalar) -> HostScalar:
        if x.parts is None:
            return x
        fn, args = x.parts
        rebuilt = self(args)
        return x if rebuilt is args else HostScalar.computed(fn, *rebuilt)

    def later(self, graph: DataflowGraph) -> DataflowGraph:
        """A graph of the program's: most are never looked at."""
        sizes, static = self.sizes, self.static
        return Later(lambda: Rebuild(sizes, static).graph(graph))

    def graph(self, graph: DataflowGraph) -> DataflowGraph:
        """A graph with those inside it."""
        self.lazy = False
        rebuilt = DataflowGraph()
        for value in graph.inputs:
            self.memo[id(value)] = rebuilt.add_input(self(value.spec), host=value.host)
        for node in graph:
            inputs = tuple([self(x) for x in node.inputs])
            specs = tuple([self(o.spec) for o in node.outputs])
            params = self(node.params)
            rebuilt.where = node.where
            outs = rebuilt.add_node(node.record, inputs, params, specs, self(node.subgraph))
            for old, new in zip(node.outputs, outs, strict=True):
                self.memo[id(old)] = new
        rebuilt.outputs = [self(v) for v in graph.outputs]
        self.alive.append(graph)
        return rebuilt


class _Again(Rebuild):
    """Copies whatever holds an extent, with the extent at other sizes in its place."""

    def __init__(self, sizes: Sizes, scope: SizeScope) -> None:
        super().__init__(sizes, set())
        self.scope = scope

    def number(self, x: Extent | ExtentFloat) -> Any:
        return x.moved(self.sizes, self.scope)


def plain_size(size: Any) -> Any:
    """A size, or what was computed of some, as a plain number."""
    return float(size) if isinstance(size, float) else int(size)


def is_of_sizes(value: Any) -> bool:
    """Whether a number is a size, or computed of one."""
    if type(value) is HostScalar:
        return value.parts is not None and any(map(is_of_sizes, value.parts[1]))
    return isinstance(value, (Extent, ExtentFloat))


def first_difference(a: Any, b: Any, path: str) -> str | None:
    """Where two descriptions are not the same, in words; None where nowhere."""
    if a is b:
        return None
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        for x, y in zip(a, b, strict=True):
            if x is y or (x.__class__ is int is y.__class__ and x == y):  # most
                continue
            difference = first_difference(x, y, x if isinstance(x, str) and x else path)
            if difference is not None:
                return difference
        return None
    if isinstance(a, tuple) and isinstance(b, tuple):
        return f"{path} has {len(a)} parts here, {len(b)} at another size"
    if type(a) is type(b) and (a == b or (a != a and b != b)):
        return None
    return f"{path}: {_short(a)} here, {_short(b)} at another size"


def _short(x: Any) -> str:
    text = repr(x)
    return text if len(text) < 50 else f"{text[:47]}..."


@functools.cache
def _compared(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass that count."""
    return tuple([f.name for f in dataclasses.fields(kind) if f.compare])


class Describe:
    """Nested tuples that are equal where programs are alike."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}  # of values, in order of definition

    def __call__(self, x: Any) -> Any:
        kind = type(x)
        if kind is int or kind is str or x is None:  # most
            return x
        if kind is Value:
            return ("value", self.numbers.setdefault(id(x), len(self.numbers)))
        if kind is Spec:
            return (tuple(x.shape), x.dtype, x.device)
        if kind is bool or kind is float:
            return number_key(x)
        if kind is tuple or kind is list:
            return tuple([self(v) for v in x])
        return self.other(x)

    def other(self, x: Any) -> Any:
        """What is met less often."""
        if isinstance(x, (tuple, list)):
            return tuple([self(v) for v in x])
        if isinstance(x, dict):
            return tuple([(str(k), self(v)) for k, v in x.items()])
        if isinstance(x, DataflowGraph):
            return self._graph(x)
        if isinstance(x, HostScalar):
            return x.key if x.parts is None else (x.parts[0].__name__, self(x.parts[1]))
        if isinstance(x, Source):
            return self._source(x)
        if isinstance(x, slice):
            return ("slice", self(x.start), self(x.stop), self(x.step))
        if isinstance(x, Record):
            return x.name
        if is_tensor(x):
            return id(x)
        if dataclasses.is_dataclass(x) and not isinstance(x, type):
            return tuple([(name, self(getattr(x, name))) for name in _compared(type(x))])
        if callable(x) and hasattr(x, "__name__"):
            return x.__name__
        if isinstance(x, float):
            return number_key(float(x))  # of sizes or not
        return number_key(x) if isinstance(x, (bool, complex)) else x

    def _graph(self, graph: DataflowGraph) -> Any:
        inputs = tuple([(self(v), self(v.spec), v.host) for v in graph.inputs])
        nodes = self.nodes(graph.nodes)
        return (inputs, nodes, tuple([self(v) for v in graph.outputs]))

    def nodes(self, nodes: list[Node]) -> Any:
        """Nodes in their order."""
        return tuple(
            [
                (
                    node.record.name,
                    self(node.inputs),
                    self(node.params),
                    tuple([(self(o), self(o.spec)) for o in node.outputs]),
                    # By itself: whether nodes share a composition's graph makes no difference.
                    Describe()(node.subgraph),
                )
                for node in nodes
            ]
        )

    def _source(self, x: Source) -> Any:
        if isinstance(x, CallArgument):
            return ("argument", x.position, x.whole)
        if isinstance(x, State):
            array = x.own_storage.buffer
            if x.made:  # by each recording
                return ("constant", tuple(array.shape), str(array.dtype), array.tobytes())
            return ("state", id(array))
        if isinstance(x, GradOf):
            return ("grad", x.position, id(x.tensor))
        if isinstance(x, Host):
            return self(x.scalar)
        return ("source", type(x).__name__)
