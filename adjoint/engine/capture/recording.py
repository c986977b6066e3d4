"""A call recorded as a `Graph`: its tensors become placeholders, its effects an update."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from adjoint.engine.capture.following import TensorEngine
from adjoint.engine.capture.python import observe
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.tree import flatten, unflatten
from adjoint.engine.graph.session.graph import Graph
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

    Tensors among the arguments become placeholders of their shape and dtype, other arguments stay
    what they are. What the call writes in place outside is the update "effects", which calling the
    graph carries out too.
    """
    graph = Graph()
    names = list(argument_names(signature, args, kwargs))
    bound = signature.bind(*args, **kwargs)
    leaves, structure = flatten(dict(bound.arguments))
    with graph:
        for name, tensor in variables:
            if not tensor._chain:
                graph.variable(tensor, name, requires_grad=tensor.requires_grad)
        fed = [
            _placeholder(graph, x, name) if is_tensor(x) else x
            for name, x in zip(names, leaves, strict=True)
        ]
        bound.arguments.update(unflatten(structure, fed))
        with graph.update("effects") as effects:
            found = observe(fn, bound.args, bound.kwargs, engine=TensorEngine(graph.trace))
            found.roll_back()
            if found.error is not None:
                raise found.error
            graph.set_results(found.result)
    if effects.writes:
        graph.effects = ["effects"]
    else:
        del graph.updates["effects"]
    return graph


def _placeholder(graph: Graph, x: Tensor, name: str) -> Tensor:
    while name in graph:
        name = f"{name}_"
    spec = x._spec
    options: dict[str, Any] = {"device": spec.device, "requires_grad": x.requires_grad}
    return graph.placeholder(spec.shape, spec.dtype, name, **options)
