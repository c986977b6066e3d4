"""A call recorded as a `Graph`: its tensors become placeholders, its effects an update."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from adjoint.engine.capture.dynamic.marks import MARKS
from adjoint.engine.capture.python.observation import observe
from adjoint.engine.capture.tensors.following import TensorEngine
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.tree import flatten, unflatten
from adjoint.engine.graph.session.graph import Graph
from adjoint.engine.graph.session.watching import DescribeRecording
from adjoint.engine.graph.sizes.extents import Extent, Sizes, SizeScope
from adjoint.engine.graph.sizes.resizing import Rebuild, first_difference
from adjoint.engine.tensor.tensor import Tensor


def argument_names(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[str]:
    """A name per leaf of the arguments: the parameter's, numbered where it has several."""
    bound = signature.bind(*args, **kwargs).arguments
    for name, given in bound.items():
        kind = signature.parameters[name].kind
        entries = given.items() if kind is inspect.Parameter.VAR_KEYWORD else [(name, given)]
        for label, value in entries:
            count = len(flatten(value)[0])
            yield from [label] if count == 1 else [f"{label}_{i}" for i in range(count)]


def record_call(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    signature: inspect.Signature,
    variables: Iterable[tuple[str, Tensor]] = (),
    owners: Iterable[Any] = (),
) -> Graph:
    """The graph of `fn(*args, **kwargs)`.

    Tensors among the arguments become placeholders of their shape and dtype, with an unknown size
    where `mark_dynamic` says so; other arguments stay what they are. What the call writes in place
    outside is the update "effects", which calling the graph carries out too.
    """
    call = _RecordableCall(fn, args, kwargs, signature, tuple(variables))
    names: dict[tuple[int, int], str] = {
        (i, d): f"{name}_{d}"
        for i, (name, x) in enumerate(zip(call.names, call.leaves, strict=True))
        if is_tensor(x)
        for d in sorted(getattr(x, "__dict__", {}).get(MARKS, ()))
    }
    graph = call(names, {})
    if names:
        same = {name: graph.sizes.scope.equals(name) for name in graph.sizes.labels}
        first = {name: graph.sizes.labels[other] for name, other in same.items()}
        if any(graph.sizes.labels[name] != label for name, label in first.items()):
            symbols = {label: symbol for symbol, label in graph.sizes.labels.items()}
            names = {at: first[symbols[label]] for at, label in names.items()}
            graph = call(names, {})
        _check(call, graph, names)
    return graph


class _RecordableCall:
    """A call that can be recorded, at other sizes too."""

    def __init__(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        signature: inspect.Signature,
        variables: tuple[tuple[str, Tensor], ...],
    ) -> None:
        self.fn = fn
        self.variables = variables
        self.names = list(argument_names(signature, args, kwargs))
        self.bound = signature.bind(*args, **kwargs)
        self.leaves, self.structure = flatten(dict(self.bound.arguments))

    def __call__(self, names: dict[tuple[int, int], str], sizes: dict[str, int]) -> Graph:
        """Record it; dimensions that have names are unknown, or of the sizes given for those."""
        graph = Graph()
        with graph:
            for name, tensor in self.variables:
                if not tensor._chain:
                    graph.variable(tensor, name, requires_grad=tensor.requires_grad)
            fed = []
            for i, (name, x) in enumerate(zip(self.names, self.leaves, strict=True)):
                if is_tensor(x):
                    shape = tuple(
                        [
                            _size(graph, names.get((i, d)), n, sizes)
                            for d, n in enumerate(x._spec.shape)
                        ]
                    )
                    x = _placeholder(graph, x, shape, name)
                fed.append(x)
            self.bound.arguments.update(unflatten(self.structure, fed))
            with graph.update("effects") as effects:
                engine = TensorEngine(graph.trace)
                observed = observe(self.fn, self.bound.args, self.bound.kwargs, engine=engine)
                observed.roll_back()
                if observed.error is not None:
                    raise observed.error
                graph.set_results(observed.result)
        if effects.writes:
            graph.effects = ["effects"]
        else:
            del graph.updates["effects"]
        return graph


def _size(graph: Graph, name: str | None, n: int, sizes: dict[str, int]) -> int:
    if name is None:
        return n
    return sizes[name] if sizes else graph.sizes.symbol(name, sample=n if n > 1 else None)


def _check(call: _RecordableCall, graph: Graph, names: dict[tuple[int, int], str]) -> None:
    """Refuse a graph that is not what the call records at other sizes."""
    labels, scope = graph.sizes.labels, graph.sizes.scope

    def differs(sizes: Sizes, symbols: SizeScope | None) -> str | None:
        given = {
            labels[s]: n if symbols is None else Extent.symbol(s, n, symbols)
            for s, n in sizes.items()
        }
        try:
            other = call(names, given)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        known = scope.complete(sizes)
        return first_difference(_described(graph, known), _described(other, known), "the graph")

    graph.sizes.check(differs, "the call")


def _described(graph: Graph, sizes: Sizes) -> Any:
    """What two recordings of a call must have in common at some sizes."""
    trace, at = graph.trace, Rebuild(sizes, set())
    body = at.graph(graph.body)
    describe = DescribeRecording(trace, body.inputs, at)
    text = describe(body)
    values = [at(graph.names[n]) for n in flatten(graph.results)[0] if isinstance(n, str)]
    writes = [(s, at(v)) for update in graph.updates.values() for s, v in update.writes]
    draws = [at(n) for n in trace.draws.values()]
    return text, str(graph.results), describe(values), describe(writes), describe(draws)


def _placeholder(graph: Graph, x: Tensor, shape: tuple[int, ...], name: str) -> Tensor:
    while name in graph or name in graph.sizes.labels.values():
        name = f"{name}_"
    options: dict[str, Any] = {"device": x.device, "requires_grad": x.requires_grad}
    return graph.placeholder(shape, x.dtype, name, **options)
