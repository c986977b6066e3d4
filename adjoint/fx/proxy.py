"""Proxies: values that write down what is done with them."""

from __future__ import annotations

import dis
import inspect
import operator
from collections.abc import Iterator
from typing import Any

from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.layout import Layout, MemoryFormat
from adjoint.engine.core.operations.overrides import OVERRIDES
from adjoint.engine.core.operations.public import METHODS
from adjoint.engine.tensor.tensor import Tensor
from adjoint.fx.graph import Graph
from adjoint.fx.node import Node, map_aggregate

CONSTANTS = (str, int, float, bool, complex, bytes, DType, Device, Layout, MemoryFormat)


class TraceError(ValueError):
    """A program asked a proxy for a value, which only a run of the program would have."""


class TracerBase:
    """What turns calls into nodes of a graph."""

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False

    def create_node(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Put a node into the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """What stands for a node's result while tracing."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Any = None,
    ) -> Proxy:
        """Put a node for a call into the graph, and stand for its result."""
        node = self.create_node(
            kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr
        )
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Any:
        """A value as it stands in a node's arguments."""
        if isinstance(a, (tuple, list, dict, slice)):
            return map_aggregate(a, self.create_arg)
        if isinstance(a, range):
            return range(*(self.create_arg(bound) for bound in (a.start, a.stop, a.step)))
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, (Node, *CONSTANTS)) or a is None or a is ... or callable(a):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: Proxy) -> bool:
        """A condition was asked for."""
        raise TraceError(
            "symbolically traced variables cannot be used as inputs to control flow"
            f" ({obj.node.format_node()})"
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """The elements were asked for: how many, if the program unpacks them, is not known."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a "
            "loop or as a *args or **kwargs function argument."
        )

    def keys(self, obj: Proxy) -> Any:
        """The keys were asked for, to be passed on as keyword arguments."""
        return Attribute(obj, "keys")()


def _unpacked() -> int | None:
    """How many names `a, b = value` has, where that is what iterates; else None.

    A traced value has no length, but the instruction that unpacks it says how many are wanted.
    """
    frame = inspect.currentframe()
    caller = frame and frame.f_back and frame.f_back.f_back  # of __iter__, of the unpacking code
    if caller is None:
        return None
    for instruction in dis.get_instructions(caller.f_code):
        if instruction.offset == caller.f_lasti and instruction.opname == "UNPACK_SEQUENCE":
            return int(instruction.argval)
    return None


class Proxy:
    """Stands for a value of a program being traced; what is done with it becomes nodes."""

    def __init__(self, node: Node, tracer: Any = None) -> None:
        self.node = node
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Attribute(self, name)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        count = _unpacked()
        return (
            self.tracer.iter(self)
            if count is None
            else (operator.getitem(self, i) for i in range(count))
        )

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __index__(self) -> int:
        raise TraceError("a traced value cannot be an index of a Python sequence")

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call torch.fx.wrap('len') at module scope"
        )

    def keys(self) -> Any:
        """The keys, to be passed on as keyword arguments."""
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """A function of ours was given a proxy: write it down."""
        proxies: list[Proxy] = []
        map_aggregate(
            (args, kwargs or {}), lambda a: proxies.append(a) if isinstance(a, Proxy) else a
        )
        tracer = proxies[0].tracer
        name: str = func.__name__
        if func in (METHODS.get(name), vars(Tensor).get(name), getattr(Tensor, name, None)):
            return tracer.create_proxy("call_method", name, args, kwargs or {})
        return tracer.create_proxy("call_function", func, args, kwargs or {})


class Attribute(Proxy):
    """An attribute of a proxy: a method if it is called, else a value that is read."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads it, made when it is needed."""
        if self._node is None:
            proxy = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self._node = proxy.node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class GraphAppendingTracer(TracerBase):
    """Writes to the end of a graph that exists."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        OVERRIDES.enlist()  # such proxies meet functions outside any trace, which enters them


def _operator(name: str, target: Any, reflected: bool) -> Any:
    def method(self: Proxy, *args: Any) -> Any:
        given = (args[0], self) if reflected else (self, *args)
        return self.tracer.create_proxy("call_function", target, given, {})

    method.__name__ = name
    return method


_BINARY = "add sub mul truediv floordiv mod pow matmul lshift rshift and or xor".split()
for _name in _BINARY:
    _target = getattr(operator, f"{_name}_" if _name in ("and", "or") else _name)
    setattr(Proxy, f"__{_name}__", _operator(f"__{_name}__", _target, False))
    setattr(Proxy, f"__r{_name}__", _operator(f"__r{_name}__", _target, True))
for _name in "eq ne lt le gt ge getitem neg pos invert abs".split():
    setattr(Proxy, f"__{_name}__", _operator(f"__{_name}__", getattr(operator, _name), False))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]
