"""Backends of `compile` that take a graph module: `backend(module, example_inputs)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.graph.execution import Executable, Task
from adjoint.engine.graph.record.sources import State
from adjoint.engine.graph.sizes.extents import Extent, ExtentFloat
from adjoint.engine.tensor.watching import show
from adjoint.fx.captured import CannotWrite, GraphWriter
from adjoint.fx.graph import Graph
from adjoint.fx.graph_module import GraphModule
from adjoint.nn.modules.module import Module

Backend = Callable[..., Callable[..., Any]]


class _Fixed(GraphWriter):
    """Writes a graph whose numbers and sizes are all known."""

    def _argument(self, x: Any) -> Any:
        if isinstance(x, (HostScalar, Extent, ExtentFloat)):
            raise CannotWrite(
                "compile: this backend takes graphs whose sizes and numbers are fixed; compile "
                "with dynamic=False, or pass numbers as tensors"
            )
        return super()._argument(x)


def graph_module(task: Task) -> GraphModule:
    """A task's graph as a module: its inputs are arguments, its outputs a tuple."""
    graph = Graph()
    writer = _Fixed(graph, {}, _no_state)
    for place, value in enumerate(task.graph.inputs):
        writer.values[value] = graph.placeholder(f"arg{place}")
    for operation in task.graph:
        writer._operation(operation)
    graph.output(tuple(writer.values[value] for value in task.graph.outputs))
    return GraphModule(Module(), graph)


def _no_state(storage: Any) -> Any:
    raise RuntimeError("compile: a graph's inputs are all arguments")  # by construction


class Delegated:
    """Runs a task by what a backend made of its graph."""

    def __init__(self, task: Task, backend: Backend, options: dict[str, Any]) -> None:
        self.task = task
        for source in task.sources:
            if isinstance(source, State):  # the function is given its memory
                show(source.own_storage)
        function = backend(graph_module(task), self._operands(task.examples), **options)
        if not callable(function):
            raise TypeError(
                f"compile: the backend {getattr(backend, '__name__', backend)!r} must return a "
                f"function, received {type(function).__name__}"
            )
        self.run = function

    def _operands(self, arrays: Sequence[Any]) -> list[Any]:
        """Arrays as tensors; the host's numbers as they are."""
        pairs = zip(self.task.graph.inputs, arrays, strict=True)
        return [x if value.host else HOOKS.array.wrap(x) for value, x in pairs]

    def __call__(self, inputs: list[Any], targets: list[Any]) -> list[Any]:
        with CONTEXT.having(capture=None, grad_enabled=False, autocast=None):
            results = self._checked(self.run(*self._operands(inputs)))
            # Copies, all before the first write: a result may show memory of an input.
            arrays = [result.detach().clone()._array for result in results]
        for (_, place), target in zip(self.task.writes, targets, strict=True):
            HOOKS.array.copy_into(target, arrays[place])
        return arrays

    def _checked(self, results: Any) -> list[Any]:
        """The results, which must look as the graph says."""
        outputs = self.task.graph.outputs
        many = list(results) if isinstance(results, (tuple, list)) else [results]
        if len(many) != len(outputs) or not all(is_tensor(item) for item in many):
            raise RuntimeError(
                f"compile: the backend's function must return {len(outputs)} tensors, as the graph "
                f"does, received {len(many)} values"
            )
        for result, value in zip(many, outputs, strict=True):
            looks, wanted = result._spec, value.spec
            if (looks.shape, looks.dtype) != (wanted.shape, wanted.dtype):
                raise RuntimeError(
                    f"compile: the backend's function returned {tuple(looks.shape)} {looks.dtype} "
                    f"where the graph gives {tuple(wanted.shape)} {wanted.dtype}"
                )
        return many


def delegate(backend: Backend, options: dict[str, Any]) -> Callable[[Task], Executable]:
    """The executor factory of a backend that takes a graph module and example inputs."""
    return lambda task: Delegated(task, backend, options)
