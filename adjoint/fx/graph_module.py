"""A module whose `forward` is written from a graph."""

from __future__ import annotations

import copy
import itertools
import linecache
from pathlib import Path
from typing import Any, NamedTuple

from adjoint.engine.tensor.tensor import Tensor
from adjoint.fx.graph import CodeGen, Graph, PythonCode
from adjoint.fx.node import Node, map_arg
from adjoint.nn.modules.module import Module

_numbers = itertools.count()


def copy_attribute(source: Any, target: Module, path: str) -> None:
    """Give a module what another has under a path, with modules in between."""
    *parents, last = path.split(".")
    for name in parents:
        source = getattr(source, name)
        if not hasattr(target, name):
            target.add_module(name, Module())
        target = getattr(target, name)
    value = getattr(source, last)
    if isinstance(value, Tensor) and last in getattr(source, "_buffers", {}):
        target.register_buffer(last, value, last not in source._non_persistent_buffers_set)
    else:
        setattr(target, last, value)


def _put(target: Module, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for name in parents:
        if not hasattr(target, name):
            target.add_module(name, Module())
        target = getattr(target, name)
    setattr(target, last, value)


class GraphModule(Module):
    """A module made from a graph; after changing the graph call `recompile`.

    Args:
        root: the module (or dict of names) that has what the graph calls and reads.
        graph: the program.
        class_name: what the module's class is called.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # Each has a class of its own, because `forward` lies on the class. Libraries find such
        # classes by this name, which stays in `__qualname__`.
        class GraphModuleImpl(cls):  # type: ignore[valid-type,misc]
            pass

        return object.__new__(GraphModuleImpl)

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        super().__init__()
        type(self).__name__ = class_name
        self.training = bool(getattr(root, "training", True))
        wanted = [n.target for n in graph.nodes if n.op in ("call_module", "get_attr")]
        if isinstance(root, dict):
            for path in sorted(dict.fromkeys(wanted), key=lambda p: p.count(".")):
                if path not in root:
                    raise RuntimeError(f"GraphModule: the root has no {path!r}")
                _put(self, path, root[path])
        else:
            for path in dict.fromkeys(wanted):
                copy_attribute(root, self, path)
        self.meta: dict[str, Any] = dict(getattr(root, "meta", {}))
        self.graph = graph

    @property
    def graph(self) -> Graph:
        """The program."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        self._graph = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The source of `forward`."""
        return self._code

    def recompile(self) -> PythonCode:
        """Write `forward` anew from the graph."""
        written = self._graph.python_code("self")
        self._code = written.src
        file = f"<adjoint.fx {next(_numbers)}>"
        # So that tracebacks show the generated lines.
        linecache.cache[file] = (len(written.src), None, written.src.splitlines(True), file)
        space = dict(written.globals)
        exec(compile(written.src, file, "exec"), space)
        type(self).forward = space["forward"]  # type: ignore[method-assign]
        return written

    def print_readable(self, print_output: bool = True, *_: Any, **__: Any) -> str:
        """The class as Python would write it."""
        body = "".join(f"    {line}\n" for line in self._code.strip().splitlines())
        text = f"class {type(self).__name__}(torch.nn.Module):\n{body}"
        if print_output:
            print(text)
        return text

    def add_submodule(self, target: str, m: Module) -> bool:
        """Add a module under a path; whether there was place."""
        *parents, last = target.split(".")
        place: Any = self
        for name in parents:
            if not hasattr(place, name):
                place.add_module(name, Module())
            place = getattr(place, name)
            if not isinstance(place, Module):
                return False
        place.add_module(last, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Take the module at a path away; whether there was one."""
        *parents, last = target.split(".")
        place: Any = self
        for name in parents:
            place = getattr(place, name, None)
        if place is None or last not in place._modules:
            return False
        del place._modules[last]
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take away the modules that the graph does not call."""
        used = {
            ".".join(parts[:end])
            for node in self._graph.nodes
            if node.op in ("call_module", "get_attr")
            for parts in [node.target.split(".")]
            for end in range(1, len(parts) + 1)
        }
        called = {n.target for n in self._graph.nodes if n.op == "call_module"}
        for name, _ in list(self.named_modules()):
            inside = any(name.startswith(f"{path}.") for path in called)
            if name and name not in used and not inside:
                self.delete_submodule(name)

    def to_folder(self, folder: str | Path, module_name: str = "FxModule") -> None:
        """Refused: pickle the module, or save its state dict and the source of `code`."""
        raise NotImplementedError("GraphModule.to_folder: pickle the module instead")

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        plain = Module()
        plain.__dict__.update(
            {k: copy.deepcopy(v, memo) for k, v in self.__dict__.items() if k != "_graph"}
        )
        copied = GraphModule(plain, copy.deepcopy(self._graph), type(self).__name__)
        copied.training = self.training
        memo[id(self)] = copied
        return copied

    def __reduce__(self) -> Any:
        state = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code")}
        codegen = self._graph._codegen
        own = () if type(codegen) is CodeGen else (codegen,)
        return _rebuild, (state, written(self._graph), type(self).__name__, *own)

    def __str__(self) -> str:
        more = "# To see more debug info, please use `graph_module.print_readable()`"
        return f"{super().__str__()}\n{self._code}\n{more}"


class NodeReference(NamedTuple):
    """Stands for a node, by its place, in the arguments of another that are written."""

    place: int


def written(graph: Graph) -> list[tuple[Any, ...]]:
    """A graph as plain values; functions are pickled by their names."""
    places = {node: place for place, node in enumerate(graph.nodes)}

    def refer(argument: Any) -> Any:
        return map_arg(argument, lambda node: NodeReference(places[node]))

    return [
        (node.op, node.name, node.target, refer(node.args), refer(node.kwargs))
        for node in graph.nodes
    ]


def _rebuild(
    state: dict[str, Any],
    rows: list[tuple[Any, ...]],
    name: str,
    codegen: CodeGen | None = None,
) -> GraphModule:
    graph, nodes = Graph(), list[Node]()
    graph._codegen = codegen or CodeGen()

    def with_nodes(argument: Any) -> Any:
        if isinstance(argument, NodeReference):
            return nodes[argument.place]
        if isinstance(argument, (tuple, list)):
            inner = [with_nodes(item) for item in argument]
            return type(argument)(*inner) if hasattr(argument, "_fields") else type(argument)(inner)
        if isinstance(argument, dict):
            return {key: with_nodes(item) for key, item in argument.items()}
        if isinstance(argument, slice):
            return slice(
                with_nodes(argument.start), with_nodes(argument.stop), with_nodes(argument.step)
            )
        return argument

    for op, node_name, target, args, kwargs in rows:
        nodes.append(graph.create_node(op, target, with_nodes(args), with_nodes(kwargs), node_name))
    root = Module()
    root.__dict__.update(state)
    return GraphModule(root, graph, name)
