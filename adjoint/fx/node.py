"""Nodes of a program as data: what is called, with what, and who uses the result."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from adjoint.fx.immutable_collections import immutable_dict, immutable_list
from adjoint.fx.operator_schemas import normalize_function, normalize_module
from adjoint.ops import OpOverload

if TYPE_CHECKING:
    from adjoint.fx.graph import Graph

# What a node may be called with, for annotations.
Argument = Any
IMPURE = {"setitem", "_assert", "print"}  # names of functions that are called for what they do
_impure_functions: set[Callable[..., Any]] = set()
KINDS = ("placeholder", "get_attr", "call_function", "call_module", "call_method", "output")


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Have calls of a function stay in graphs though nobody uses what it returns.

    >>> has_side_effect(print) is print
    True
    """
    _impure_functions.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Apply a function to the leaves of tuples, lists, dicts and slices, as a node keeps them."""
    if isinstance(a, tuple):
        mapped = tuple(map_aggregate(item, fn) for item in a)
        return type(a)(*mapped) if hasattr(a, "_fields") else mapped
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(item, fn)) for key, item in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(bound, fn) for bound in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """Apply a function to the nodes of an argument, leaving the rest."""
    return map_aggregate(a, lambda leaf: fn(leaf) if isinstance(leaf, Node) else leaf)


class Node:
    """One step of a graph. `op` is one of six kinds; `target` says what is called or read."""

    def __init__(
        self,
        graph: Any,
        name: str,
        op: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        return_type: Any = None,
    ) -> None:
        if op not in KINDS:
            raise ValueError(f"Node: op must be one of {KINDS}, received {op!r}")
        self.graph: Graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.type = return_type
        self.meta: dict[str, Any] = {}
        self.users: dict[Node, None] = {}
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._erased = False
        self._update(args, kwargs)

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments; nodes stand for their results."""
        return self._args

    @args.setter
    def args(self, value: tuple[Any, ...]) -> None:
        self._update(tuple(value), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """Keyword arguments."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, value: dict[str, Any]) -> None:
        self._update(self._args, dict(value))

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes whose results it takes, in order."""
        return list(self._input_nodes)

    def _update(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for used in self._input_nodes:
            used.users.pop(self, None)
        self._input_nodes = found = dict[Node, None]()

        def noted(node: Node) -> Node:
            found.setdefault(node)
            return node

        self._args, self._kwargs = map_arg((args, immutable_dict(kwargs)), noted)
        for used in self._input_nodes:
            used.users.setdefault(self)

    def update_arg(self, idx: int, arg: Any) -> None:
        """Replace one positional argument."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Add a positional argument before one."""
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Replace one keyword argument."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Take the result of another node instead of one."""
        args, kwargs = map_arg(
            (self.args, self.kwargs), lambda node: new_input if node is old_input else node
        )
        self._update(args, kwargs)

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Have all users of this node (that `delete_user_cb` accepts) use another."""
        if propagate_meta:
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    @property
    def next(self) -> Node:
        """The node after it."""
        return self.graph._neighbour(self, 1)

    @property
    def prev(self) -> Node:
        """The node before it."""
        return self.graph._neighbour(self, -1)

    def append(self, x: Node) -> None:
        """Put another node after this one."""
        self.graph._move(x, self, after=True)

    def prepend(self, x: Node) -> None:
        """Put another node before this one."""
        self.graph._move(x, self, after=False)

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it must stay though nobody uses its result."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_method":
            return str(self.target).endswith("_") and not str(self.target).endswith("__")
        if self.op == "call_function":
            name = getattr(self.target, "__name__", "")
            writes = name.endswith("_") and not name.endswith("__")
            return writes or name in IMPURE or self.target in _impure_functions
        if self.op == "call_module" and self.graph.owning_module is not None:
            module = self.graph.owning_module.get_submodule(self.target)
            return bool(getattr(module, "_is_impure", False))
        return False

    def normalized_arguments(
        self,
        root: Any,
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """Its arguments with defaults, by name; None where what it calls has no signature."""
        if self.op == "call_function":
            return normalize_function(
                self.target,
                self.args,
                self.kwargs,
                arg_types,
                kwarg_types,
                normalize_to_only_use_kwargs,
            )
        if self.op == "call_module":
            return normalize_module(
                root, self.target, self.args, self.kwargs, normalize_to_only_use_kwargs
            )
        return None

    def format_node(self, *_: Any, **__: Any) -> str:
        """One line that says it."""
        target = self.target if isinstance(self.target, str) else qualified_name(self.target)
        if self.op == "output":
            return f"return {self.args[0]}"
        line = f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target={target}]"
        if self.op == "placeholder":
            return f"{line}(default={_shown(self.args[0])})" if self.args else line
        if self.op == "get_attr":
            return line
        named = ", ".join(f"{name}: {_shown(value)}" for name, value in self.kwargs.items())
        return f"{line}(args = {_shown(self.args)}, kwargs = {{{named}}})"

    def __repr__(self) -> str:
        return self.name


def _shown(argument: Any) -> str:
    marked = map_arg(argument, lambda node: _Marked(f"%{node.name}"))
    return repr(marked)


class _Marked(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def module_of(func: Callable[..., Any]) -> str:
    """The module whose attribute a function is, by its public path."""
    return qualified_name(func).rpartition(".")[0]


def qualified_name(func: Callable[..., Any]) -> str:
    """A function's name as a program would write it: `torch.add`, `operator.add`, `len`."""
    name = getattr(func, "__name__", type(func).__name__)
    if getattr(builtins, name, None) is func:
        return name
    if isinstance(func, OpOverload):
        return f"torch.ops.{func._name.replace('::', '.')}"
    module = str(getattr(func, "__module__", "") or "")
    if module == "_operator":
        return f"operator.{name}"
    if module.split(".", maxsplit=1)[0] == "adjoint":
        from adjoint.overrides import resolve_name

        resolved = resolve_name(func)
        if resolved is not None and "." in resolved:
            return resolved
    return f"{module}.{name}" if module else name


def is_module(value: Any) -> bool:
    """Whether a value is a Python module."""
    return isinstance(value, ModuleType)
