"""Graphs of nodes, and the Python that they stand for."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from adjoint.fx.codegen import BodyTransformer as TransformCodeFunc
from adjoint.fx.codegen import CodeGen as CodeGen
from adjoint.fx.codegen import PythonCode as PythonCode
from adjoint.fx.codegen import UniqueNames, restored_later, snake, write_code
from adjoint.fx.node import Node, map_arg


class _InsertPoint:
    """Where new nodes go: at once, and until the end of the `with` block if there is one."""

    def __init__(self, graph: Graph, place: int) -> None:
        self.graph, self.before = graph, graph._insert
        graph._insert = place

    def __enter__(self) -> None:
        """Nothing: nodes go there already."""

    def __exit__(self, *error: object) -> None:
        self.graph._insert = self.before


class Graph:
    """A program: nodes in the order they run.

    Example:
        >>> import operator
        >>> graph = Graph()
        >>> x = graph.placeholder("x")
        >>> node = graph.output(graph.call_function(operator.add, (x, 1)))
        >>> print(graph)
        graph():
            %x : [num_users=1] = placeholder[target=x]
            %add : [num_users=1] = call_function[target=operator.add](args = (%x, 1), kwargs = {})
            return add
    """

    def __init__(
        self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None
    ) -> None:
        self._nodes: list[Node] = []
        self._names = UniqueNames()
        self._insert: int | None = None  # None: at the end
        self.owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()

    @property
    def nodes(self) -> _NodeList:
        """The nodes in order; they may be erased while one walks over them."""
        return _NodeList(self)

    # -- making nodes -------------------------------------------------------------------------

    def create_node(
        self,
        op: str,
        target: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Make a node and put it where insertion stands."""
        candidate = name if name is not None else self._candidate(op, target)
        node = Node(
            self, self._names.make(candidate), op, target, args or (), kwargs or {}, type_expr
        )
        if self._insert is None:
            self._nodes.append(node)
        else:
            self._nodes.insert(self._insert, node)
            self._insert += 1
        return node

    def _candidate(self, op: str, target: Any) -> str:
        if isinstance(target, str):
            stem = target.replace(".", "_").replace("*", "")
            return stem.strip("_") if op == "call_method" else stem
        stem = snake(getattr(target, "__name__", type(target).__name__))
        return stem[2:-2] if stem.startswith("__") and stem.endswith("__") else stem

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """An argument of the program; `*args` and `**kwargs` may be named so."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """A parameter, buffer or constant of the owning module."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A call of a submodule of the owning module."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """What the program returns."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """A copy of another graph's node, its arguments mapped by `arg_transform`."""
        args, kwargs = map_arg((node.args, node.kwargs), arg_transform)
        copied = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copied.meta = dict(node.meta)
        return copied

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Any], return_output_node: bool = False
    ) -> Any:
        """Copy another graph's nodes; what its output node returned, in terms of the copies."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    def __deepcopy__(self, memo: Any = None) -> Graph:
        copied = Graph(tracer_cls=self._tracer_cls)
        copied._codegen = copy.deepcopy(self._codegen, memo)
        mapped: dict[Node, Any] = {}
        result = copied.graph_copy(self, mapped, return_output_node=True)
        if isinstance(result, tuple) and result and isinstance(result[-1], Node):
            copied.output(result[0], result[1].type).meta = dict(result[1].meta)
        return copied

    # -- changing it --------------------------------------------------------------------------

    def erase_node(self, to_erase: Node) -> None:
        """Take out a node that nobody uses."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {to_erase.users}!"
            )
        if to_erase._erased:
            return
        place = self._nodes.index(to_erase)
        del self._nodes[place]
        if self._insert is not None and place < self._insert:
            self._insert -= 1
        to_erase._update((), {})
        to_erase._erased = True

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go before one (or at the beginning), from now on or for a `with` block."""
        return _InsertPoint(self, 0 if n is None else self._nodes.index(n))

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go after one (or at the end), from now on or for a `with` block."""
        return _InsertPoint(self, len(self._nodes) if n is None else self._nodes.index(n) + 1)

    def _neighbour(self, node: Node, by: int) -> Node:
        place = self._nodes.index(node) + by
        if not 0 <= place < len(self._nodes):
            raise IndexError(f"{node} is at the end of its graph")
        return self._nodes[place]

    def _move(self, node: Node, place: Node, *, after: bool) -> None:
        if node.graph is not self:
            raise RuntimeError("Attempting to move a Node into a different Graph")
        if node is not place:
            self._nodes.remove(node)
            self._nodes.insert(self._nodes.index(place) + after, node)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Take out the nodes whose results nobody uses; whether there were any."""
        impure = is_impure_node or Node.is_impure
        changed = False
        for node in reversed(list(self._nodes)):
            if not node.users and not impure(node):
                self.erase_node(node)
                changed = True
        return changed

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind (and target)."""
        return [n for n in self._nodes if n.op == op and target in (None, n.target)]

    def output_node(self) -> Node:
        """The node that returns."""
        return self.find_nodes(op="output")[0]

    def lint(self) -> None:
        """Refuse a graph whose nodes use what is not there yet, or of another graph."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self._nodes:
            for used in node.all_input_nodes:
                if used.graph is not self:
                    raise RuntimeError(f"Argument '{used}' of Node '{node}' is of another Graph")
                if used not in seen:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' was used before it has been defined!"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            if self.owning_module is not None and node.op in ("call_module", "get_attr"):
                _attribute(self.owning_module, node.target)
            seen.add(node)
            names.add(node.name)

    # -- the program as text ------------------------------------------------------------------

    def python_code(self, root_module: str = "self", **_: Any) -> PythonCode:
        """The source of `forward`."""
        return write_code(self, root_module)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Have another write the source of `forward`; call the module's `recompile` after it."""
        self._codegen = codegen

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> AbstractContextManager[None]:
        """Change the lines of `forward` when it is written, for good or for a `with` block.

        Args:
            make_transformer: given what changes them now (or None), what shall change them: a
                function from a list of lines to a list of lines, each with its end.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)
        return restored_later(self._codegen, before)

    def process_inputs(self, *args: Any) -> Any:
        """Arguments as the nodes take them."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """What the output node gave, as the module returns it."""
        return self._codegen.process_outputs(out)

    def print_tabular(self) -> None:
        """Print one line per node: kind, name, target, arguments."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(n.op, n.name, str(n.target), str(n.args), str(n.kwargs)) for n in self._nodes]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        for row in rows:
            print("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())

    def __str__(self) -> str:
        return "graph():" + "".join(f"\n    {node.format_node()}" for node in self._nodes)


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        if not hasattr(module, name):
            raise RuntimeError(f"the owning module has no {path!r}")
        module = getattr(module, name)
    return module


class _NodeList:
    """A graph's nodes, walked over as they were when the walk began, less those erased."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __iter__(self) -> Iterator[Node]:
        return (node for node in list(self._graph._nodes) if not node._erased)

    def __reversed__(self) -> Iterator[Node]:
        return (node for node in list(reversed(self._graph._nodes)) if not node._erased)

    def __len__(self) -> int:
        return len(self._graph._nodes)
