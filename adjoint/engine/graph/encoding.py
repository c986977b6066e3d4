"""Graphs as plain data: what JSON can hold, and nothing that would run when read.

Numbers, strings, booleans, None and lists stand for themselves; everything else is an object with
one key that says what it is: {"tuple": [...]}, {"dtype": "float32"}, {"op": "slice"}, ...
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from adjoint.engine.core.budget import Budget
from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType, named
from adjoint.engine.core.operations.record import HOOKS, REGISTRY, Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import DataflowGraph, Node, Value

Plain = Any  # what json.dumps takes
RANK = 64  # NumPy's bound


class Unreadable(ValueError):
    """Data that is no graph, or none that this version knows; says what the file is."""


# -- writing -------------------------------------------------------------------------------------


def encode(x: Any) -> Plain:
    """A parameter or literal as plain data."""
    match x:
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
    return [list(spec.shape), spec.dtype.name, str(spec.device)]


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
        self.kinds: dict[str, Callable[[Any], Any]] = {
            "float": float,
            "complex": lambda x: complex(self.decode(x[0]), self.decode(x[1])),
            "dtype": named,
            "device": self.device,
            "op": record_named,
            "graph": self.graph,
            "spec": self.spec,
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
        shape, dtype, device = x
        if len(shape) > RANK or not all(type(n) is int and 0 <= n < 1 << 62 for n in shape):
            raise Unreadable(f"is damaged: {str(shape)[:200]} is no shape")
        return Spec(tuple(shape), named(dtype), self.device(device))

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
