"""A call of a model recorded for export: sizes that may change stay open."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.core.errors import ShapeIndexError
from adjoint.engine.core.tree import flatten, unflatten
from adjoint.engine.graph.ir import DataflowGraph as Nodes
from adjoint.engine.graph.ir import Value
from adjoint.engine.graph.sizes.extents import Extent, SizeScope
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module
from adjoint.onnx.types import OnnxError, array_of

Dims = dict[int, dict[int, str]]  # tensor among the arguments -> dimension -> name


@dataclass(frozen=True)
class CallForOnnx:
    """A recorded call: its nodes, what is fed, what it holds, what it gives."""

    nodes: Nodes
    inputs: list[tuple[str, Value]]
    state: list[tuple[str, Value, Any]]
    results: list[Value]
    symbols: dict[str, tuple[str, int]]  # of the recording -> input and dimension
    labels: dict[str, str]  # of the recording -> the user's name
    scope: SizeScope


@dataclass(frozen=True)
class ExampleArguments:
    """The arguments of a call taken apart: tensors, each with a name, and the rest."""

    leaves: list[Any]
    structure: Any
    tensors: list[int]  # which leaves
    names: list[str]

    def rebuilt(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call's arguments with other tensors."""
        leaves = list(self.leaves)
        for place, tensor in zip(self.tensors, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = unflatten(self.structure, leaves)
        return args, kwargs

    @property
    def examples(self) -> list[Tensor]:
        return [self.leaves[k] for k in self.tensors]


def arguments(
    model: Any, args: Any, kwargs: Mapping[str, Any] | None, input_names: Sequence[str] | None
) -> ExampleArguments:
    """Take a call's arguments apart and name its tensors."""
    args = (args,) if isinstance(args, Tensor) else tuple(args)
    if args and isinstance(args[-1], dict) and kwargs is None and isinstance(model, Module):
        args, kwargs = args[:-1], args[-1]
    leaves, structure = flatten((args, dict(kwargs or {})))
    tensors = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    named = list(input_names or [])
    if len(named) > len(tensors):
        raise ValueError(
            f"onnx.export: input_names has {len(named)} names; the call has {len(tensors)} tensors."
        )
    usual = _usual_names(model, args, dict(kwargs or {}))
    for k in range(len(named), len(tensors)):
        name = usual[k] if len(usual) == len(tensors) else f"input_{k}"
        while name in named:
            name += "_"
        named.append(name)
    return ExampleArguments(leaves, structure, tensors, named)


def _usual_names(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Names of the parameters that the tensors are given for, where each is one tensor."""
    try:
        bound = inspect.signature(getattr(model, "forward", model)).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return []
    names = []
    for name, value in bound.arguments.items():
        several = value if isinstance(value, tuple) else (value,)
        tensors = [v for v in several if isinstance(v, Tensor)]
        names += (
            [name]
            if len(tensors) == 1 and not isinstance(value, tuple)
            else [f"{name}_{k}" for k in range(len(tensors))]
        )
    return names


def dynamic_dims(dynamic: Any, given: ExampleArguments) -> Dims:
    """Which dimensions may change, from any of the ways to say so."""
    if not dynamic:
        return {}
    if isinstance(dynamic, Mapping):
        stray = [name for name in dynamic if name not in given.names]
        outputs = [name for name in stray if not isinstance(name, str)]
        if outputs:
            raise ValueError(
                f"onnx.export: dynamic dimensions of {outputs}, which are no names of inputs: "
                f"{given.names}."
            )
        entries = [
            (given.names.index(name), dims) for name, dims in dynamic.items() if name in given.names
        ]
        if stray and not entries:
            raise ValueError(
                f"onnx.export: dynamic dimensions of {stray}; the inputs are {given.names}."
            )
    else:
        entries = list(enumerate(dynamic))
    open_dims: Dims = {}
    for position, dims in entries:
        if not dims:
            continue
        if position >= len(given.tensors):
            raise ValueError(
                f"onnx.export: dynamic dimensions of input {position}; there are "
                f"{len(given.tensors)}."
            )
        rank = given.examples[position].ndim
        pairs = (
            dims.items()
            if isinstance(dims, Mapping)
            else ((d, None) for d in dims)
            if all(isinstance(d, int) for d in dims)
            else enumerate(dims)
        )
        for dim, label in pairs:
            if isinstance(dims, Mapping) and label is None:
                continue  # PyTorch's way to say that it is fixed
            if not -rank <= dim < rank:
                raise ShapeIndexError(
                    f"onnx.export: dimension {dim} of input {given.names[position]!r}, which "
                    f"has {rank}."
                )
            text = label if isinstance(label, str) else getattr(label, "__name__", None)
            open_dims.setdefault(position, {})[dim % rank] = (
                text or f"{given.names[position]}_dim_{dim % rank}"
            )
    return open_dims


@contextlib.contextmanager
def evaluating(model: Any, training: bool) -> Iterator[None]:
    """The model in the mode that it is exported in, and back."""
    modes = {m: m.training for m in model.modules()} if isinstance(model, Module) else {}
    try:
        if modes and not training:
            model.eval()
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def record(
    model: Any, given: ExampleArguments, dims: Dims, step: int, output_names: Sequence[str] | None
) -> CallForOnnx:
    """Record the call; open sizes are the example's, or further off by `step`."""
    scope = SizeScope()
    sizes: dict[str, Extent] = {}
    symbols: dict[str, tuple[str, int]] = {}
    labels: dict[str, str] = {}
    for position, entries in dims.items():
        for dim, label in entries.items():
            if label not in sizes:
                size = int(given.examples[position].shape[dim])
                own = f"d{len(sizes)}"
                sizes[label] = Extent.symbol(
                    own, (size if size > 1 else 3) + step * (len(sizes) + 1), scope
                )
                symbols[own], labels[own] = (given.names[position], dim), label
    graph = ad.Graph()
    graph.trace.located = True
    named = [*model.named_parameters(), *model.named_buffers()] if isinstance(model, Module) else []
    with ad.no_grad(), graph:
        for name, tensor in named:
            if not tensor._chain and name not in given.names:
                graph.variable(tensor, name, requires_grad=False)
        fed = []
        for position, (name, example) in enumerate(zip(given.names, given.examples, strict=True)):
            shape = tuple(
                sizes[dims[position][k]] if k in dims.get(position, {}) else int(n)
                for k, n in enumerate(example.shape)
            )
            fed.append(graph.placeholder(shape, example.dtype, name))
        args, kwargs = given.rebuilt(fed)
        leaves = flatten(model(*args, **kwargs))[0]
        if not leaves or not all(isinstance(leaf, Tensor) for leaf in leaves):
            raise OnnxError(
                "onnx.export: a model returns tensors; received "
                f"{[type(v).__name__ for v in leaves]}."
            )
        results = [graph.trace.value_of(leaf) for leaf in leaves]
    inputs = [(name, graph.names[name]) for name in given.names]
    return CallForOnnx(graph.body, inputs, _state(graph, inputs), results, symbols, labels, scope)


def _state(graph: Any, inputs: list[tuple[str, Value]]) -> list[tuple[str, Value, Any]]:
    """What the recording read besides its inputs: parameters, buffers, constants."""
    fed = {value for _, value in inputs}
    names = {value: name for name, value in graph.names.items()}
    constants = []
    for value, source in zip(graph.body.inputs, graph.trace.sources, strict=True):
        if value in fed:
            continue
        tensor = source.given(())
        array = np.asarray(tensor if not isinstance(tensor, Tensor) else array_of(tensor))
        constants.append(
            (
                names.get(value, f"constant_{value.name}"),
                value,
                array.reshape([int(n) for n in value.spec.shape]),
            )
        )
    return constants
