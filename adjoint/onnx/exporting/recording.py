"""A call of a model recorded for export: sizes that may change stay open."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import flatten, unflatten
from adjoint.engine.graph.ir import DataflowGraph as Nodes
from adjoint.engine.graph.ir import Value
from adjoint.engine.graph.sizes.extents import Extent, SizeScope, computed, evaluate
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module
from adjoint.onnx.types import OnnxError, array_of

# What an open size counts as in a recording: of the example's, and how many came before it.
Hint = Callable[[int, int], int]
Dims = dict[int, dict[int, str]]  # tensor among the arguments -> dimension -> name
USUAL_COUNT = 7  # what a size counts as that values decide


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
    counts: list[str]  # sizes that values decide, as how many elements a mask picks
    sample: dict[str, int]  # what each symbol counted as in the recording


class ValueSizes:
    """The sizes of a recording that values decide."""

    def __init__(self, scope: SizeScope, count: int) -> None:
        self.scope, self.count = scope, count
        self.names: list[str] = []

    def next(self) -> Extent:
        """A size of its own."""
        self.names.append(f"u{len(self.names)}")
        return Extent.symbol(self.names[-1], self.count, self.scope)

    def bound(self, x: int, size: int) -> int | None:
        """The bound of a slice, where no number may decide which of the two it is."""
        names = {name for mono in size.poly for name in mono} if isinstance(size, Extent) else set()
        if isinstance(x, Extent) or not names.intersection(self.names):
            return None
        return computed(min, size, x) if x >= 0 else computed(max, size + x, 0)


@dataclass(frozen=True)
class ExampleArguments:
    """The arguments of a call taken apart: tensors, each with a name, and the rest."""

    leaves: list[Any]
    structure: Any
    tensors: list[int]  # which leaves
    names: list[str]
    parameters: list[tuple[str, Any]]  # what each parameter of the model's is given

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
    if args and kwargs is None and isinstance(model, Module) and _names_parameters(model, args[-1]):
        args, kwargs = args[:-1], args[-1]
    parameters = _parameters(model, args, dict(kwargs or {}))
    named_first = {name: value for name, value in parameters if name in (kwargs or {})}
    leaves, structure = flatten((args, named_first | dict(kwargs or {})))
    tensors = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    named = list(input_names or [])
    if len(named) > len(tensors):
        raise ValueError(
            f"onnx.export: input_names has {len(named)} names; the call has {len(tensors)} tensors."
        )
    usual = [own for name, value in parameters for own in _usual_names(name, value)]
    for k in range(len(named), len(tensors)):
        name = usual[k] if len(usual) == len(tensors) else f"input_{k}"
        while name in named:
            name += "_"
        named.append(name)
    return ExampleArguments(leaves, structure, tensors, named, parameters)


def _names_parameters(model: Module, last: Any) -> bool:
    """Whether a dict that comes last holds arguments by name, as the first exporter had it."""
    return isinstance(last, dict) and set(last) <= set(inspect.signature(model.forward).parameters)


def _parameters(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """What each parameter is given, in order; none where the model's are not known."""
    try:
        bound = inspect.signature(getattr(model, "forward", model)).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return []
    named: list[tuple[str, Any]] = []
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            named += value.items()
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            named += [(f"{name}_{place}", item) for place, item in enumerate(value)]
        else:
            named.append((name, value))
    return named


def _usual_names(name: str, value: Any) -> Iterator[str]:
    """Names for the tensors of what a parameter is given: its own, and where in it they are."""
    if isinstance(value, Tensor):
        yield name
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _usual_names(f"{name}_{key}", item)
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            yield from _usual_names(f"{name}_{place}", item)
    else:
        tensors = [leaf for leaf in flatten(value)[0] if isinstance(leaf, Tensor)]
        yield from (f"{name}_{place}" for place in range(len(tensors)))


@contextlib.contextmanager
def evaluating(model: Any, training: bool | None) -> Iterator[None]:
    """The model in the mode that it is exported in, and back."""
    modes = {m: m.training for m in model.modules()} if isinstance(model, Module) else {}
    try:
        if modes and training is False:
            model.eval()
        elif modes and training:
            model.train()
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def record(
    model: Any, given: ExampleArguments, dims: Dims, hint: Hint, count: int = USUAL_COUNT
) -> CallForOnnx:
    """Record the call; what an open size counts as meanwhile, `hint` says.

    `count` is what sizes count as that values decide; the same for all, since many are equal.
    """
    scope = SizeScope()
    decided = ValueSizes(scope, count)
    sizes: dict[str, Extent] = {}
    symbols: dict[str, tuple[str, int]] = {}
    labels: dict[str, str] = {}
    for position, entries in dims.items():
        for dim, label in entries.items():
            if label not in sizes:
                size = int(given.examples[position].shape[dim])
                own = f"d{len(sizes)}"
                sizes[label] = Extent.symbol(own, hint(size, len(sizes)), scope)
                symbols[own], labels[own] = (given.names[position], dim), label
    graph = ad.Graph()
    graph.trace.located = True
    named = [*model.named_parameters(), *model.named_buffers()] if isinstance(model, Module) else []
    with ad.no_grad(), graph:
        for name, tensor in named:
            if not tensor._chain and name not in given.names:
                graph.variable(tensor, name)
        fed = []
        for position, (name, example) in enumerate(zip(given.names, given.examples, strict=True)):
            shape = tuple(
                sizes[dims[position][k]] if k in dims.get(position, {}) else int(n)
                for k, n in enumerate(example.shape)
            )
            fed.append(graph.placeholder(shape, example.dtype, name))
        args, kwargs = given.rebuilt(fed)
        with CONTEXT.having(value_sizes=decided):
            leaves = flatten(model(*args, **kwargs))[0]
        if not leaves or not all(isinstance(leaf, Tensor) for leaf in leaves):
            raise OnnxError(
                "onnx.export: a model returns tensors; received "
                f"{[type(v).__name__ for v in leaves]}."
            )
        results = [graph.trace.value_of(leaf) for leaf in leaves]
    inputs = [(name, graph.names[name]) for name in given.names]
    state = _state(graph, inputs)
    sample = {own: int(sizes[label]) for own, label in labels.items()}
    sample |= dict.fromkeys(decided.names, count)
    return CallForOnnx(
        graph.body, inputs, state, results, symbols, labels, scope, decided.names, sample
    )


def deciding_nodes(call: CallForOnnx) -> dict[str, tuple[Any, int, int]]:
    """For each size that values decide the node, the result and the dimension that it is of."""
    deciding: dict[str, tuple[Any, int, int]] = {}
    for node in call.nodes.nodes if call.counts else ():
        for output, value in enumerate(node.outputs):
            for dim, size in enumerate(value.spec.shape):
                poly = size.poly if isinstance(size, Extent) else {}
                for symbol in call.counts:
                    if poly == {(symbol,): 1}:
                        deciding.setdefault(symbol, (node, output, dim))
    return deciding


def difference(call: CallForOnnx, other: CallForOnnx, few: int | None = None) -> str | None:
    """Where two recordings of a model first do something else, None if nowhere.

    `few`, the count of the other one, asks only which lines of the model follow each other, and
    what shape each leaves at that count: operations may take a shorter way to the same.
    """
    if few is not None:
        pairs = zip_longest(*(_lines(of, few) for of in (call, other)))
        return next(((b or a)[0] for a, b in pairs if a != b), None)
    for node, again in zip_longest(call.nodes.nodes, other.nodes.nodes):
        if node is None or again is None or _text(node) != _text(again):
            shown = again or node
            where = "" if shown.where is None else f" at {shown.where[0]}:{shown.where[1]}"
            return f"{shown.record.name}{where}"
    constants = [
        [array.tobytes() for name, _, array in of.state if name.startswith("constant_")]
        for of in (call, other)
    ]
    return None if constants[0] == constants[1] else "a number becomes a constant"


def _lines(call: CallForOnnx, count: int) -> list[tuple[str, Any]]:
    """The lines of a model in the order in which a recording has them, with what each leaves."""
    known = call.scope.complete(call.sample | dict.fromkeys(call.counts, count))

    def at_sample(shapes: list[Any]) -> list[list[int]]:
        return [
            [evaluate(n.poly, known) if isinstance(n, Extent) else int(n) for n in shape]
            for shape in shapes
        ]

    nodes = groupby(call.nodes.nodes, lambda node: node.where and tuple(node.where[:2]))
    last = [(where, list(group)[-1]) for where, group in nodes]
    lines = [
        ("an operation" if where is None else f"{where[0]}:{where[1]}", at_sample(_shapes(node)))
        for where, node in last
    ]
    return [*lines, ("what is returned", at_sample([v.spec.shape for v in call.results]))]


def _shapes(node: Any) -> list[Any]:
    return [v.spec.shape for v in node.outputs]


def _text(node: Any) -> str:
    """What a node does, sizes by how they are made."""
    numbers = [x for x in node.inputs if not isinstance(x, Value)]
    return f"{node.record.name} {_said((numbers, node.params, _shapes(node)))}"


def _said(part: Any) -> Any:
    """A parameter as it is compared: graphs inside by their nodes, floats of sizes not at all."""
    if isinstance(part, Extent):
        return sorted(part.poly.items())
    if isinstance(part, Mapping):
        return {key: _said(item) for key, item in part.items()}
    if isinstance(part, (list, tuple)):
        return [_said(item) for item in part]
    if isinstance(part, Nodes):
        return [_text(node) for node in part.nodes]
    plain = part is None or type(part) in (bool, int, float, complex, str)
    return repr(part) if plain else type(part).__name__


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
