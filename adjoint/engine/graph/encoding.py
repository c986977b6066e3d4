"""Graphs as plain data: what JSON can hold, and nothing that would run when read.

Numbers, strings, booleans, None and lists stand for themselves; everything else is an object with
one key that says what it is: {"tuple": [...]}, {"dtype": "float32"}, {"op": "slice"}, ...
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any

from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType, named
from adjoint.engine.core.files.budget import Budget
from adjoint.engine.core.operations.record import HOOKS, REGISTRY, Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.sizes.extents import SIGNS, Extent, ExtentFloat, Poly, SizeScope, extent
from adjoint.engine.graph.sizes.unknown_sizes import UnknownSizes

Plain = Any  # what json.dumps takes
RANK = 64  # NumPy's bound
COMPARISONS = {fn.__name__: fn for fn in SIGNS}
OF_SIZES = {name: getattr(operator, name) for name in "add sub mul truediv pow".split()}


class Unreadable(ValueError):
    """Data that is no graph, or none that this version knows; says what the file is."""


# -- writing -------------------------------------------------------------------------------------


def encode(x: Any) -> Plain:
    """A parameter or literal as plain data."""
    match x:
        case Extent():
            return {"size": encode_poly(x.poly)}
        case ExtentFloat():
            fn, a, b = x.parts
            return {"of sizes": [fn.__name__, encode(a), encode(b)]}
        case None | bool() | int() | str():
            return x
        case float():
            return x if math.isfinite(x) else {"float": str(x)}
        case complex():
            return {"complex": [encode(x.real), encode(x.imag)]}
        case DType():
            return {"dtype": x.name}
        case Device():
            return {"device": str(x)}
        case Record():
            return {"op": x.name}
        case Value():
            return {"value": x.name}
        case DataflowGraph():
            return {"graph": encode_graph(x)}
        case Spec():
            return {"spec": encode_spec(x)}
        case tuple():
            return {"tuple": [encode(v) for v in x]}
        case list():
            return [encode(v) for v in x]
        case dict():
            return {"dict": [[encode(k), encode(v)] for k, v in x.items()]}
    raise TypeError(f"Graph.save: cannot write a parameter of type {type(x).__name__}: {x!r}")


def encode_spec(spec: Spec) -> Plain:
    """Shape, dtype and device."""
    return [[encode(n) for n in spec.shape], spec.dtype.name, str(spec.device)]


def encode_poly(poly: Poly) -> Plain:
    """A polynomial in unknown sizes, term by term."""
    return [[list(mono), c] for mono, c in poly.items()]


def encode_graph(graph: DataflowGraph) -> Plain:
    """Inputs, nodes and outputs."""
    return {
        "inputs": [[v.name, encode_spec(v.spec), v.host] for v in graph.inputs],
        "nodes": [_encode_node(node) for node in graph.nodes],
        "outputs": [v.name for v in graph.outputs],
    }


def _encode_node(node: Node) -> Plain:
    data = {
        "op": node.record.name,
        "inputs": [encode(x) for x in node.inputs],
        "params": {k: encode(v) for k, v in node.params.items()},
        "outputs": [[v.name, encode_spec(v.spec)] for v in node.outputs],
    }
    if node.subgraph is not None:
        data["subgraph"] = encode_graph(node.subgraph)
    return data


def encode_sizes(sizes: UnknownSizes) -> Plain:
    """The unknown sizes of a graph, and at which of them its nodes hold."""
    if not sizes:
        return None
    derived = sizes.scope.derived.values()
    guards = sizes.scope.guards.values()
    return {
        "labels": sizes.labels,
        "sample": sizes.sample,
        "low": sizes.low,
        "high": sizes.high,
        "not one": [sorted(symbols) for symbols in sizes.not_one],
        "quotients": [[name, *map(encode_poly, args)] for name, _, args in derived],
        "decisions": [
            [encode_poly(p), compare.__name__, bool(is_so)] for p, compare, is_so in guards
        ],
    }


# -- reading -------------------------------------------------------------------------------------


class Decoder:
    """Reads plain data.

    Args:
        budget: of the file it comes from.
        place: says where what was on a device is to be.
    """

    def __init__(
        self, budget: Budget, place: Callable[[Device], Device] = lambda device: device
    ) -> None:
        self.budget = budget
        self.place = place
        self.sizes: dict[str, int] = {}  # samples of unknown sizes, and of what is computed of them
        self.scope = SizeScope()
        self.kinds: dict[str, Callable[[Any], Any]] = {
            "float": float,
            "complex": lambda x: complex(self.decode(x[0]), self.decode(x[1])),
            "dtype": named,
            "device": self.device,
            "op": record_named,
            "graph": self.graph,
            "spec": self.spec,
            "size": self.size,
            "of sizes": self.of_sizes,
            "tuple": lambda x: tuple([self.decode(v) for v in x]),
            "dict": lambda x: {self._key(k): self.decode(v) for k, v in x},
        }

    def decode(self, x: Plain, values: dict[str, Value] | None = None) -> Any:
        """What `encode` wrote; references to values are looked up among `values`."""
        if isinstance(x, list):
            return [self.decode(v) for v in x]
        if not isinstance(x, dict):
            return x
        if len(x) != 1:
            raise Unreadable(f"is damaged: expected an object of one key, received {len(x)}")
        ((kind, content),) = x.items()
        if kind == "value" and values is not None:
            return self.lookup(values, content)
        if kind not in self.kinds:
            raise Unreadable(f"is damaged: there is no kind of data called {kind[:80]!r}")
        return self.kinds[kind](content)

    def _key(self, x: Plain) -> Any:
        key = self.decode(x)
        self.budget.check_key(key)
        return key

    def lookup(self, values: dict[str, Value], name: Any) -> Value:
        """A value that has been defined."""
        if not isinstance(name, str) or name not in values:
            raise Unreadable(f"is damaged: a value {str(name)[:80]!r} is used before it is defined")
        return values[name]

    def device(self, x: Any) -> Device:
        """A device, moved where it is to be."""
        return self.place(Device(x))

    def spec(self, x: Any) -> Spec:
        """Shape, dtype and device."""
        given, dtype, device = x
        shape = [self.decode(n) if isinstance(n, dict) else n for n in given[: RANK + 1]]
        if len(shape) > RANK or not all(map(_is_size, shape)):
            raise Unreadable(f"is damaged: {str(given)[:200]} is no shape")
        return Spec(tuple(shape), named(dtype), self.device(device))

    def unknown_sizes(self, data: Any, sizes: UnknownSizes) -> None:
        """Read what `encode_sizes` wrote."""
        if data is None:
            return
        for symbol, label in data["labels"].items():
            bounds = [data[part][symbol] for part in ("low", "sample", "high")]
            if not re.fullmatch(r"s\d+", symbol) or not str(label).isidentifier():
                raise Unreadable(f"is damaged: {str(symbol)[:80]!r} cannot be the name of a size")
            if not all(type(n) is int and 2 <= n < 1 << 63 for n in bounds):
                raise Unreadable(f"is damaged: {str(bounds)[:80]} are no bounds of a size")
            sizes.labels[symbol] = str(label)
            sizes.low[symbol], sizes.sample[symbol], sizes.high[symbol] = bounds
        self.sizes, self.scope = dict(sizes.sample), sizes.scope
        sizes.not_one |= {frozenset(map(str, symbols)) for symbols in data["not one"]}
        for name, a, b in data["quotients"]:
            quotient = self.scope.symbol(operator.floordiv, (self.poly(a), self.poly(b)))
            if quotient != {(name,): 1}:
                raise Unreadable(f"is damaged: {str(name)[:80]!r} cannot be the name of a quotient")
            self.sizes = self.scope.complete(sizes.sample)
        for difference, name, outcome in data["decisions"]:
            if name not in COMPARISONS:
                raise Unreadable(f"is damaged: sizes are not compared by {str(name)[:80]!r}")
            self.scope.decide(self.poly(difference), COMPARISONS[name], bool(outcome))
        if not self.scope.allow(sizes.sample):
            raise Unreadable("is damaged: what it decides by sizes does not hold")

    def poly(self, x: Any) -> Poly:
        """A polynomial in the unknown sizes there are."""
        terms: Poly = {}
        for mono, c in x:
            known = (
                isinstance(mono, list) and len(mono) <= RANK and all(s in self.sizes for s in mono)
            )
            if not known or type(c) is not int or not 0 < abs(c) < 1 << 62:
                raise Unreadable(f"is damaged: {str(x)[:200]} is no size")
            terms[tuple(mono)] = c
        return terms

    def size(self, x: Any) -> int:
        """A size that depends on unknown ones."""
        return extent(self.poly(x), self.sizes, self.scope)

    def of_sizes(self, x: Any) -> Any:
        """A number computed of unknown sizes."""
        name, a, b = x
        if name not in OF_SIZES:
            raise Unreadable(f"is damaged: no number is {str(name)[:80]!r} of sizes")
        number = OF_SIZES[name](self.decode(a), self.decode(b))
        if not isinstance(number, ExtentFloat):
            raise Unreadable(f"is damaged: {str(x)[:200]} is no number of sizes")
        return number

    def graph(self, data: Any) -> DataflowGraph:
        """A graph; its names are checked, because `to_text` writes them into source."""
        graph = DataflowGraph()
        values: dict[str, Value] = {}
        for name, spec, host in data["inputs"]:
            value = Value(new_name(name, values), self.spec(spec), host=bool(host))
            graph.inputs.append(value)
            values[name] = value
        for node in data["nodes"]:
            graph.nodes.append(self._node(node, values))
        graph.outputs = [self.lookup(values, name) for name in data["outputs"]]
        numbers = [int(m[1]) for name in values if (m := re.fullmatch(r"[vxh](\d+)", name))]
        graph._count = max(numbers, default=-1) + 1
        return graph

    def _node(self, data: Any, values: dict[str, Value]) -> Node:
        record = record_named(data["op"])
        inputs = tuple([self.decode(x, values) for x in data["inputs"]])
        params = {str(k): self.decode(v) for k, v in data["params"].items()}
        inner = data.get("subgraph")
        node = Node(record, inputs, params, None if inner is None else self.graph(inner))
        for name, spec in data["outputs"]:
            value = Value(new_name(name, values), self.spec(spec), node)
            node.outputs += (value,)
            values[name] = value
        return node


def _is_size(n: Any) -> bool:
    return type(n) in (int, Extent) and 0 <= int(n) < 1 << 62


def new_name(name: Any, values: dict[str, Value]) -> str:
    """A value's name, provided that it can be one and is not taken."""
    if not isinstance(name, str) or not name.isidentifier() or name in values:
        raise Unreadable(f"is damaged: {str(name)[:80]!r} cannot be the name of a value")
    return name


def record_named(name: Any) -> Record:
    """The record of an operation."""
    if not isinstance(name, str):
        raise Unreadable(f"is damaged: an operation is called {str(name)[:80]}")
    if name not in REGISTRY:
        HOOKS.load_rest()
    if name not in REGISTRY:
        raise Unreadable(f"has an operation this version does not know, {name[:80]!r}")
    return REGISTRY[name]
