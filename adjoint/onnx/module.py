"""An ONNX model as a module: its weights are parameters; it records and compiles like others."""

from __future__ import annotations

import functools
import heapq
import math
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.engine.core.availability.libraries import need
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter
from adjoint.onnx import operators as operators  # fills the table
from adjoint.onnx.evaluation import Environment, Scope, run_nodes
from adjoint.onnx.operators.shapes import bounded
from adjoint.onnx.reading import (
    OnnxError,
    Reading,
    array,
    check_functions,
    opsets,
)
from adjoint.onnx.types import Value, value_of


class OnnxModule(Module):
    """A model read from an ONNX file.

    Floating-point initialisers are parameters, under names that Python allows; those that a batch
    normalisation takes as statistics are buffers; single numbers and whole ones are constants.
    Inputs are given in the graph's order or by name; a single output comes by itself, several as
    a tuple.
    """

    def __init__(self, model: Any, folder: Path | None = None) -> None:
        super().__init__()
        graph = model.graph
        rest = without(model, "graph")
        rest.graph.CopyFrom(without(graph, "initializer", "sparse_initializer"))
        # Plain bytes: what can be pickled and copied, and what a recording knows not to change.
        self._source = rest.SerializeToString()
        self._folder = None if folder is None else str(folder)
        plan(self._source, self._folder)  # says now what is wrong with it
        self._constants: dict[str, Value] = {}
        self._weights: dict[str, str] = {}  # the graph's name -> the parameter's
        self._taken: dict[str, int] = {}  # how often a parameter's name was taken
        statistics = running_statistics(graph)
        reading = Reading(model.ByteSize(), folder)
        for tensor in graph.initializer:
            self._add(tensor.name, value_of(array(tensor, reading)), tensor.name in statistics)
        for sparse in graph.sparse_initializer:
            self._add(sparse.values.name, dense(sparse, reading))
        given = {*self._constants, *self._weights}
        self.input_names = tuple(i.name for i in graph.input if i.name not in given)
        self.optional_names = frozenset(i.name for i in graph.input if i.name in given)
        self.output_names = tuple(o.name for o in graph.output)

    def _add(self, name: str, value: Value, fixed: bool = False) -> None:
        if name in self._constants or name in self._weights:
            raise OnnxError(f"onnx.load: two initializers have the same name, {name!r}.")
        if not isinstance(value, Tensor) or not value.is_floating_point() or value.ndim == 0:
            self._constants[name] = value
            return
        own = re.sub(r"\W", "_", name) or "weight"
        own = f"w_{own}" if own[0].isdigit() or hasattr(self, own) else own
        if own in self._parameters or own in self._buffers:
            taken = self._taken.get(own, 0) + 1
            while (named := f"{own}_{taken}") in self._parameters or named in self._buffers:
                taken += 1
            self._taken[own] = taken
            own = named
        if fixed:
            self.register_buffer(own, value)
        else:
            self.register_parameter(own, Parameter(value))
        self._weights[name] = own

    def forward(self, *inputs: Value, **named: Value) -> Any:
        """The outputs of the graph."""
        results = self.evaluate(
            dict(zip(self.input_names, inputs, strict=False)) | named, len(inputs)
        )
        return results[0] if len(results) == 1 else tuple(results)

    def evaluate(self, given: dict[str, Value], positional: int = 0) -> list[Value]:
        """The outputs for inputs by name."""
        missing = [name for name in self.input_names if name not in given]
        stray = given.keys() - {*self.input_names, *self.optional_names}
        if missing or stray or positional > len(self.input_names):
            raise TypeError(
                f"onnx: the model takes {list(self.input_names)}; missing {missing}, unknown "
                f"{sorted(stray)}, "
                f"{positional} given by position."
            )
        environment = Environment()
        for name, value in self._constants.items():
            environment.put(name, value, True)
        for name, own in self._weights.items():
            table = self._buffers if own in self._buffers else self._parameters
            environment.put(name, table[own], False)
        for name, value in given.items():
            environment.put(name, value if value is None else value_of(value), False)
        nodes, scope = plan(self._source, self._folder)
        run_nodes(nodes, environment, scope)
        return [environment.find(name)[0] for name in self.output_names]

    def extra_repr(self) -> str:
        count = len(plan(self._source, self._folder)[0])
        return f"{', '.join(self.input_names)} -> {', '.join(self.output_names)}, {count} nodes"


def running_statistics(graph: Any) -> set[str]:
    """The names that batch normalisations take as mean and variance."""
    names: set[str] = set()
    for node in graph.node:
        if node.op_type == "BatchNormalization":
            names.update(node.input[3:5])
    return names


@functools.lru_cache(maxsize=64)
def plan(source: bytes, folder: str | None) -> tuple[list[Any], Scope]:
    """The nodes of a model in the order that they run in, and what they can refer to."""
    model = need("onnx", "adjoint.onnx").ModelProto.FromString(source)  # its texts were checked
    functions = {(("" if f.domain == "ai.onnx" else f.domain), f.name): f for f in model.functions}
    where = None if folder is None else Path(folder)
    check_functions(model.graph, functions)
    return ordered(model.graph), Scope(opsets(model.opset_import), functions, where)


def ordered(graph: Any) -> list[Any]:
    """The nodes of a graph, each after those that make its inputs; a circle is refused."""
    outputs = {name for node in graph.node for name in node.output if name}
    if sum(1 for node in graph.node for name in node.output if name) != len(outputs):
        raise OnnxError("onnx.load: a value is made by two nodes.")
    given = {i.name for i in graph.input}
    if len(given) != len(graph.input):
        raise OnnxError("onnx.load: two inputs have the same name.")
    given |= {t.name for t in graph.initializer}
    given |= {s.values.name for s in graph.sparse_initializer}
    nodes, users = list(graph.node), defaultdict(list)
    missing: list[int] = []  # of each node, how many of its inputs are not made yet
    for i, node in enumerate(nodes):
        needed = {name for name in node.input if name in outputs and name not in given}
        missing.append(len(needed))
        for name in needed:
            users[name].append(i)
    ready = [i for i, count in enumerate(missing) if not count]  # a heap: the file's order
    placed = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        placed.append(node)
        for user in (u for name in node.output for u in users.pop(name, ())):
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, user)
    if len(placed) < len(nodes):
        circle = [n.name or n.op_type for n, count in zip(nodes, missing, strict=True) if count]
        raise OnnxError(f"onnx.load: nodes need one another in a circle: {circle[:5]}.")
    return placed


def dense(sparse: Any, reading: Reading) -> Value:
    """A sparse initialiser as a tensor with its zeros."""
    values, places = array(sparse.values, reading), array(sparse.indices, reading)
    who, name = "sparse initialiser", sparse.values.name
    shape = bounded(list(sparse.dims), who)
    if places.ndim == 2:
        fits = places.shape == (values.size, len(shape))
    else:
        fits = places.shape == (values.size,)
    if not fits or places.dtype != np.int64 or values.ndim != 1:
        raise OnnxError(
            f"onnx.load: {who} {name!r}: values {values.shape} at {places.dtype} {places.shape} "
            f"are none of a tensor of {tuple(shape)}."
        )
    ends = np.array(shape if places.ndim == 2 else [math.prod(shape)])
    if ((places < 0) | (places >= ends)).any():
        raise OnnxError(f"onnx.load: {who} {name!r}: a place outside of {tuple(shape)}.")
    reading.spend(math.prod(shape) * values.dtype.itemsize, f"{who} {name!r}")
    filled = np.zeros(shape, values.dtype)
    if places.ndim == 2:
        filled[tuple(places.T)] = values
    else:
        filled.reshape(-1)[places] = values
    return value_of(filled)


def without(message: Any, *names: str) -> Any:
    """A message without some of its fields, which may be large; it shares nothing."""
    rest = type(message)()
    for field, value in message.ListFields():
        if field.name in names:
            continue
        if isinstance(value, (str, bytes, int, float)):
            setattr(rest, field.name, value)
        else:
            getattr(rest, field.name).MergeFrom(value)
    return rest
