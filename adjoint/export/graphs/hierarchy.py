"""unflatten: an exported program as modules within modules, PyTorch's `torch.export.unflatten`."""

from __future__ import annotations

import operator
from typing import Any

from adjoint.engine.core.tree import unflatten as build
from adjoint.engine.tensor.tensor import Tensor
from adjoint.export.graphs.exported_program import ExportedProgram, check_call, unlifted
from adjoint.fx.graph import Graph
from adjoint.fx.graph_module import GraphModule
from adjoint.fx.node import Node, map_arg
from adjoint.nn.modules.module import Module


class UnflattenedModule(Module):
    """A program whose parts lie in modules named as those of the model that it was exported from.

    A module that the model calls several times is there once for each call, as `name`, `name@1`,
    and so on, with the same parameters.
    """

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__()
        self._program = program
        tensors = {**program.constants, **program.state_dict}
        body = _Splitter(unlifted(program), tensors).split()
        # Its modules and tensors are this module's: one that is swapped here is swapped there.
        self._modules, self._parameters = body._modules, body._parameters
        self._buffers = body._buffers
        self._body = [body]  # in a list, so that it is no module of this one

    @property
    def graph(self) -> Graph:
        """What the outermost module does."""
        return self._body[0].graph

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call it as the exported module was called."""
        leaves = check_call(self._program, args, kwargs)
        return build(self._program.call_spec.out_spec, self._body[0](*leaves))


def unflatten(module: ExportedProgram, flat_args_adapter: Any = None) -> UnflattenedModule:
    """Modules within modules of an exported program, to be changed or swapped one by one.

    Modules are found by the lines of the program, so code without a file stays in one piece.

    Example:
        >>> import adjoint as ad
        >>> net = ad.nn.Sequential(ad.nn.Linear(3, 4), ad.nn.Linear(4, 2))
        >>> parts = ad.export.unflatten(ad.export.export(net, (ad.zeros(5, 3),)))
        >>> x = ad.randn(5, 3)
        >>> bool(ad.allclose(parts(x), net(x)))
        True
    """
    if flat_args_adapter is not None:
        raise NotImplementedError("export.unflatten: flat_args_adapter is not taken.")
    return UnflattenedModule(module)


def _path(node: Node) -> tuple[str, ...]:
    """The module that a node is of, part by part."""
    stack = list(node.meta.get("nn_module_stack", {"": None}))
    return tuple(stack[-1].split(".")) if stack and stack[-1] else ()


class _Splitter:
    """Gathers the nodes of each module's calls into a graph of its own."""

    def __init__(self, graph: Graph, tensors: dict[str, Tensor]) -> None:
        self.graph = graph
        self.tensors = tensors

    def split(self) -> GraphModule:
        """The outermost module."""
        nodes = list(self.graph.nodes)
        inputs = [n for n in nodes if n.op == "placeholder"]
        inner = [n for n in nodes if n.op not in ("placeholder", "get_attr", "output")]
        return self.module((), inner, inputs, nodes[-1].args[0])

    def module(
        self, path: tuple[str, ...], nodes: list[Node], inputs: list[Node], results: Any
    ) -> GraphModule:
        """A module of these nodes, which takes and gives these values."""
        level = _Level(self, path)
        for node in inputs:
            level.known[node] = level.graph.placeholder(node.name)
        at = 0
        while at < len(nodes):
            end = at + 1
            child = _child(path, nodes[at])
            if child is None:
                level.copy(nodes[at])
            else:
                while end < len(nodes) and _child(path, nodes[end]) == child:
                    end += 1
                level.call(child, nodes[at:end], nodes[end:], results)
            at = end
        level.graph.output(map_arg(results, level.value))
        return level.made()


class _Level:
    """One module under way."""

    def __init__(self, splitter: _Splitter, path: tuple[str, ...]) -> None:
        self.splitter = splitter
        self.path = path
        self.graph = Graph()
        self.known: dict[Node, Any] = {}
        self.tensors: dict[str, Any] = {}
        self.calls: dict[str, int] = {}

    def value(self, node: Node) -> Any:
        """What stands for a node of the whole graph here; state is read where it is needed."""
        if node not in self.known:
            name = str(node.target).removeprefix("".join(f"{part}." for part in self.path))
            self.tensors[name] = self.splitter.tensors[str(node.target)]
            self.known[node] = self.graph.get_attr(name)
        return self.known[node]

    def copy(self, node: Node) -> None:
        """An operation of this module's own."""
        self.known[node] = self.graph.node_copy(node, self.value)

    def call(self, child: str, nodes: list[Node], later: list[Node], results: Any) -> None:
        """A call of a module below, which is made of its nodes."""
        path = (*self.path, child)
        inside = set(nodes)
        inputs = [
            used
            for used in dict.fromkeys(u for node in nodes for u in node.all_input_nodes)
            if used not in inside and not _owns(path, used)
        ]
        wanted = {used for node in later for used in node.all_input_nodes}
        map_arg(results, wanted.add)
        outputs = [node for node in nodes if node in wanted]
        count = self.calls[child] = self.calls.get(child, -1) + 1
        name = child if count == 0 else f"{child}@{count}"
        self.tensors[name] = self.splitter.module(path, nodes, inputs, tuple(outputs))
        called = self.graph.call_module(name, tuple(map(self.value, inputs)))
        for k, node in enumerate(outputs):
            self.known[node] = self.graph.call_function(operator.getitem, (called, k))

    def made(self) -> GraphModule:
        """The module."""
        module = GraphModule(self.tensors, self.graph, "InterpreterModule")
        for name, value in list(vars(module).items()):
            if isinstance(value, Tensor):  # a buffer: parameters lie elsewhere
                del module.__dict__[name]
                module.register_buffer(name, value)
        return module


def _child(path: tuple[str, ...], node: Node) -> str | None:
    """Which module below a path a node is of; None where it is of none."""
    own = _path(node)
    return own[len(path)] if len(own) > len(path) and own[: len(path)] == path else None


def _owns(path: tuple[str, ...], node: Node) -> bool:
    """Whether a node reads state that lies in the module at a path."""
    return node.op == "get_attr" and str(node.target).startswith("".join(f"{p}." for p in path))
