"""Symbolic tracing: a module or function run on proxies, its calls written down."""

from __future__ import annotations

import builtins
import inspect
import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any

from adjoint.checks import _assert
from adjoint.engine.core.operations.overrides import OVERRIDES
from adjoint.engine.core.ownership import module_of
from adjoint.engine.tensor.tensor import Tensor
from adjoint.fx.graph import Graph
from adjoint.fx.graph_module import GraphModule
from adjoint.fx.proxy import Proxy, TracerBase
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter

# Functions to keep as one call: (the globals they are looked up in, their name).
_WRAPPED: dict[tuple[int, str], dict[str, Any]] = {}


class PHBase:
    """A mark for an argument that is to be traced."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


def wrap(fn_or_name: str | Callable[..., Any]) -> Any:
    """Have calls of a function of the calling module kept as one node. Used at module level.

    Example:
        >>> wrap("len")
        'len'
    """
    if not isinstance(fn_or_name, str) and not callable(fn_or_name):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe()
    caller = None if frame is None else frame.f_back
    if caller is None or caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _WRAPPED[id(caller.f_globals), name] = caller.f_globals
    return fn_or_name


class Tracer(TracerBase):
    """Traces modules; override `is_leaf_module` to say which are kept as one call."""

    def __init__(
        self,
        autowrap_modules: tuple[Any, ...] = (),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self.root: Any = None
        self.param_shapes_constant = param_shapes_constant
        self._autowrap_functions = autowrap_functions
        self._autowrap_search = list(autowrap_modules)
        self._autowrap_function_ids = {id(function) for function in autowrap_functions}
        self.submodule_paths: dict[Module, str] = {}
        self._constants: dict[int, str] = {}
        self.module_stack: dict[str, Any] = {}

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a module is one call: those of `nn` are, but for Sequential."""
        ours = module_of(type(m)).startswith(("adjoint.nn", "torch.nn"))
        return ours and type(m).__name__ != "Sequential"

    def path_of_module(self, mod: Module) -> str:
        """The name by which the root has a module."""
        if mod not in self.submodule_paths:
            raise NameError("module is not installed as a submodule")
        return self.submodule_paths[mod]

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A module was called: a node for a leaf, else what it does."""
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """An attribute of a module was read: parameters are read by a node."""
        if isinstance(attr_val, Parameter):
            return self._read(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        if self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            return self._read(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        return attr_val

    def _read(self, value: Tensor, named: Any, cache: dict[str, Any]) -> Any:
        for name, member in named:
            if member is value:
                if name not in cache:
                    cache[name] = self.create_proxy("get_attr", name, (), {})
                return cache[name]
        return value

    def create_arg(self, a: Any) -> Any:
        """A value as it stands in a node's arguments: tensors are attributes of the root."""
        if isinstance(a, Tensor):
            return self.create_node("get_attr", self._name_of(a), (), {})
        if isinstance(a, Module) and a in self.submodule_paths:
            return self.create_node("get_attr", self.submodule_paths[a], (), {})
        return super().create_arg(a)

    def _name_of(self, value: Tensor) -> str:
        for named in (self.root.named_parameters(), self.root.named_buffers()):
            for name, member in named:
                if member is value:
                    return str(name)
        if id(value) not in self._constants:
            number = sum(name.startswith("_tensor_constant") for name in vars(self.root))
            self._constants[id(value)] = name = f"_tensor_constant{number}"
            setattr(self.root, name, value)
        return self._constants[id(value)]

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Callable[..., Any], list[Any]]:
        """The function to run, and a proxy for each argument that is not given."""
        parameters = list(inspect.signature(root_fn).parameters.values())
        args: list[Any] = []
        if is_module:
            args.append(self.root)
            parameters = parameters[1:]
        if isinstance(concrete_args, tuple):
            concrete_args = dict(zip((p.name for p in parameters), concrete_args, strict=False))
        keywords: dict[str, Any] = {}
        for parameter in parameters:
            value = self._argument(parameter, concrete_args or {})
            if parameter.kind is parameter.KEYWORD_ONLY:
                keywords[parameter.name] = value
            elif parameter.kind is parameter.VAR_POSITIONAL:
                args.extend(value if isinstance(value, (tuple, list)) else (value,))
            elif parameter.kind is not parameter.VAR_KEYWORD:
                args.append(value)
        if keywords:
            plain = root_fn
            return (lambda *given: plain(*given, **keywords)), args
        return root_fn, args

    def _argument(self, parameter: inspect.Parameter, concrete: dict[str, Any]) -> Any:
        if parameter.name in concrete and not isinstance(concrete[parameter.name], PHBase):
            return self._fixed(parameter.name, concrete[parameter.name])
        stars: dict[Any, str] = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
        name = stars.get(parameter.kind, "") + parameter.name
        if name.startswith("*"):
            return self.create_proxy("placeholder", name, (), {})
        default = () if parameter.default is parameter.empty else (parameter.default,)
        hint = None if parameter.annotation is parameter.empty else parameter.annotation
        return self.create_proxy(
            "placeholder", name, default, {}, name=parameter.name, type_expr=hint
        )

    def _fixed(self, name: str, value: Any) -> Any:
        """An argument that the trace was made for; the graph checks that it is given again."""
        given = self.create_proxy("placeholder", f"{name}_1", (), {})
        message = f"{name} has been specialized to have value {value!r} but got another value"
        if type(value) in (bool, int, float, str, type(None)):
            same = self.create_proxy("call_function", operator.eq, (given, value), {})
            self.create_proxy("call_function", _assert, (same, message), {})
        return value

    def trace(
        self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
    ) -> Graph:
        """The graph of what a module or function does."""
        if isinstance(root, Module):
            self.root, function = root, type(root).forward
            self.submodule_paths = {
                mod: name for name, mod in root.named_modules(remove_duplicate=False)
            }
        else:
            self.root, function = Module(), root
        self.graph = Graph(tracer_cls=type(self))
        self._constants = {
            id(value): name for name, value in vars(self.root).items() if isinstance(value, Tensor)
        }
        if not isinstance(function, FunctionType):
            function = _as_function(function)
        run, args = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
        with ExitStack() as stack:
            stack.enter_context(_modules_traced(self))
            stack.enter_context(_functions_kept(self, function))
            result = self.create_arg(run(*args))
            self.create_node("output", "output", (result,), {})
        return self.graph


def _as_function(callee: Any) -> Any:
    method = getattr(callee, "__func__", None)
    return callee if method is None else lambda *args, **kwargs: callee(*args, **kwargs)


@contextmanager
def _modules_traced(tracer: Tracer) -> Iterator[None]:
    """Calls of modules and reads of their attributes go to the tracer."""
    call, read = Module.__call__, Module.__getattr__
    cache: dict[str, Any] = {}

    def traced_call(self: Module, *args: Any, **kwargs: Any) -> Any:
        def forward(*args: Any, **kwargs: Any) -> Any:
            return call(self, *args, **kwargs)

        return tracer.call_module(self, forward, args, kwargs)

    def traced_read(self: Module, name: str) -> Any:
        return tracer.getattr(name, read(self, name), cache)

    Module.__call__, Module.__getattr__ = traced_call, traced_read  # type: ignore[method-assign]
    OVERRIDES.enter(1)
    try:
        yield
    finally:
        Module.__call__, Module.__getattr__ = call, read  # type: ignore[method-assign]
        OVERRIDES.enter(-1)


@contextmanager
def _functions_kept(tracer: Tracer, function: Any) -> Iterator[None]:
    """Functions that `wrap` named write a node of themselves when given a proxy."""
    undo: list[tuple[dict[str, Any], str, Any, bool]] = []
    places = [(space, name) for (_, name), space in _WRAPPED.items()]
    own = getattr(function, "__globals__", {})
    places += [
        (own, name) for name, value in own.items() if value in _listed(tracer._autowrap_functions)
    ]
    for space, name in places:
        there = name in space
        original = space[name] if there else getattr(builtins, name)
        undo.append((space, name, original, there))
        space[name] = _recorded_with_proxies(original)
    try:
        yield
    finally:
        for space, name, original, there in reversed(undo):
            if there:
                space[name] = original
            else:
                del space[name]


def _listed(functions: tuple[Any, ...]) -> Any:
    class SameFunctions:
        def __contains__(self, value: Any) -> bool:
            return any(value is function for function in functions)

    return SameFunctions()


def _recorded_with_proxies(original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            for item in value if type(value) in (list, tuple) else (value,):
                if isinstance(item, Proxy):
                    return item.tracer.create_proxy("call_function", original, args, kwargs)
        return original(*args, **kwargs)

    return call


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """A module that does what a module or function does, as a graph that can be changed.

    Example:
        >>> import adjoint as ad
        >>> traced = symbolic_trace(lambda x: ad.relu(x) + 1)
        >>> [node.op for node in traced.graph.nodes]
        ['placeholder', 'call_function', 'call_function', 'output']
        >>> traced(ad.tensor([-1.0, 2.0]))
        tensor([1., 3.])
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", "Traced")
    return GraphModule(tracer.root, graph, name)


def is_fx_tracing() -> bool:
    """Whether a symbolic trace is under way."""
    return sys.modules[__name__].__dict__["Module"].__call__.__name__ == "traced_call"
