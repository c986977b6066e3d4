"""Tracing below functions: PyTorch's `make_fx`, from a recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from adjoint.engine.capture.capture import Captured
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.tree import flatten, unflatten
from adjoint.engine.graph.execution import Executable, Task
from adjoint.engine.graph.record.sources import State
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import Tensor
from adjoint.fx.captured import CannotWrite, GraphWriter, fresh, write_
from adjoint.fx.graph import Graph
from adjoint.fx.graph_module import GraphModule
from adjoint.fx.node import Node
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter

MODES = ("real", "fake", "symbolic")


def make_fx(
    f: Callable[..., Any],
    decomposition_table: Mapping[Any, Any] | None = None,
    tracing_mode: str = "real",
    *_: Any,
    **__: Any,
) -> Callable[..., GraphModule]:
    """A function that writes down what `f` does with its arguments, operation by operation.

    Tensors that `f` reaches by itself become attributes of the module; all that is no tensor is
    fixed. Sizes are those of the arguments in every `tracing_mode`.

    Example:
        >>> import adjoint as ad
        >>> net = make_fx(lambda x: x.sin() + 1)(ad.zeros(2))
        >>> [node.name for node in net.graph.nodes]
        ['arg0', 'sin', 'add', 'output']
        >>> net(ad.ones(2))
        tensor([1.8415, 1.8415])
    """
    if tracing_mode not in MODES:
        raise ValueError(f"make_fx: tracing_mode is one of {MODES}, received {tracing_mode!r}.")
    if decomposition_table:
        raise NotImplementedError(
            "make_fx: decomposition_table is not taken; operations are Adjoint's records."
        )

    def traced(*args: Any) -> GraphModule:
        leaves, structure = flatten(args)
        places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]

        def function(*tensors: Any) -> Any:
            given = list(leaves)
            for k, tensor in zip(places, tensors, strict=True):
                given[k] = tensor
            results, result = flatten(f(*unflatten(structure, given)))
            return unflatten(result, fresh(results))

        captured = Captured(function, _never_run)
        program = captured.recorded(tuple(leaves[k] for k in places), {})
        program.take_back()
        graph, root = Graph(), dict[str, Any]()
        names = {k: graph.placeholder(f"arg{k}") for k in range(len(leaves))}
        arguments = {n: names[k] for n, k in enumerate(places)}
        own = {id(p._storage): p for p in f.parameters()} if isinstance(f, Module) else {}
        writer = GraphWriter(
            graph, arguments, lambda storage: _attribute(graph, root, storage, own)
        )
        try:
            written = writer.write(program)
        except CannotWrite as error:
            raise RuntimeError(f"make_fx: the function cannot be traced: {error}.") from None
        for source, node in written.writes:
            place = writer._input(source)
            if isinstance(source, State):
                graph.call_function(write_, (place, node))
            else:
                graph.call_method("copy_", (place, node))
        graph.output(unflatten(program.results.structure, written.results))
        graph.eliminate_dead_code()
        return GraphModule(root, graph)

    return traced


def _attribute(
    graph: Graph, root: dict[str, Any], storage: Storage, own: Mapping[int, Tensor]
) -> Node:
    """The node for a tensor that the function reached by itself: its parameter, or its memory."""
    tensor = own.get(id(storage))
    if tensor is None or tensor.shape != storage.buffer.shape:
        tensor = HOOKS.array.wrap(storage.buffer)
        tensor._storage = storage
    name = f"_{'param' if isinstance(tensor, Parameter) else 'tensor'}_constant{len(root)}"
    root[name] = tensor
    return graph.get_attr(name)


def _never_run(task: Task) -> Executable:
    def run(inputs: list[Any], targets: list[Any]) -> list[Any]:
        raise AssertionError("a program recorded to be written down was run")

    return run


class ProxyTorchDispatchMode:
    """The mode that PyTorch traces in; a recording has none, so there are no instances."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError("ProxyTorchDispatchMode: use make_fx, which records")


def get_proxy_mode() -> None:
    """The trace under way: none."""
