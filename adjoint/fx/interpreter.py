"""Running a graph node by node, and rewriting it so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adjoint.engine.core.operations.overrides import OVERRIDES
from adjoint.fx.graph import Graph
from adjoint.fx.graph_module import GraphModule
from adjoint.fx.node import Node, map_aggregate, map_arg
from adjoint.fx.proxy import Proxy
from adjoint.fx.tracer import Tracer
from adjoint.nn.modules.module import Module


class Interpreter:
    """Runs a graph node by node; a method for each kind of node may be overridden.

    Args:
        module: the module whose graph it runs.
        garbage_collect_values: drop values after their last use.
        graph: the graph, if not the module's own.
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = graph if graph is not None else module.graph
        self.garbage_collect_values = garbage_collect_values
        self.env: dict[Node, Any] = {}
        self.args_iter: Iterator[Any] = iter(())
        self.extra_traceback = True

    def run(
        self,
        *args: Any,
        initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """Run the graph on arguments."""
        self.env = dict(initial_env or {})
        self.args_iter = iter(self.graph.process_inputs(*args) if enable_io_processing else args)
        last: dict[Node, list[Node]] = {}
        if self.garbage_collect_values:
            seen: set[Node] = set()
            for node in reversed(self.graph.nodes):
                for used in node.all_input_nodes:
                    if used not in seen:
                        seen.add(used)
                        last.setdefault(node, []).append(used)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                error.add_note(f"While executing {node.format_node()}")
                raise
            if node.op == "output":
                out = self.env[node]
                return self.graph.process_outputs(out) if enable_io_processing else out
            for spent in last.get(node, []):
                del self.env[spent]
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Run the graph on a list of arguments, which is emptied."""
        args = tuple(args_list)
        args_list.clear()
        return self.run(*args)

    def run_node(self, n: Node) -> Any:
        """Run one node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The next argument."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function."""
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method."""
        owner, *rest = args
        return getattr(owner, target)(*rest, **kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a submodule."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What is returned."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """What the module has under a path."""
        member: Any = self.module
        for name in target.split("."):
            if not hasattr(member, name):
                raise RuntimeError(f"Node referenced nonexistent target {target}")
            member = getattr(member, name)
        return member

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """A node's arguments, with values for nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Values for the nodes of an argument."""

        def value(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(f"Node {n} referenced nonexistent value {node}!")
            return self.env[node]

        return map_arg(args, value)


class Transformer(Interpreter):
    """Rewrites a graph: a method for each kind of node says what takes its place."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.tracer = Tracer()
        self.tracer.graph = self.new_graph
        self.tracer.root = module

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An argument of the new program."""
        return Proxy(self.new_graph.placeholder(target, None, *args), self.tracer)

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An attribute read by the new program."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A module called by the new program."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function called by the new program."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A method called by the new program."""
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The rewritten module."""
        OVERRIDES.enter(1)  # methods may hand proxies to functions of tensors
        try:
            result = super().run(enable_io_processing=False)
        finally:
            OVERRIDES.enter(-1)
        if result is not None:
            self.new_graph.output(
                map_aggregate(result, lambda a: a.node if isinstance(a, Proxy) else a)
            )
        return GraphModule(self.module, self.new_graph)
