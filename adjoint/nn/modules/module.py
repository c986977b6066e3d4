"""Module: the base of every layer and model."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from inspect import signature
from types import FunctionType
from typing import TYPE_CHECKING, Any

from adjoint.engine.autodiff.tape.hooks import Handle
from adjoint.engine.core import html
from adjoint.engine.core.annotations import give
from adjoint.engine.core.origins import MODULE_CALLS
from adjoint.engine.core.state.loading import brought
from adjoint.engine.core.state.structure_version import STRUCTURE_VERSION, TrackedDict, tracked
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.base.conversion import Conversion
from adjoint.nn.modules.base.hooks import GLOBAL, HookHandle, call_with_hooks
from adjoint.nn.modules.base.hooks import (
    register_module_backward_hook as register_module_backward_hook,
)
from adjoint.nn.modules.base.hooks import (
    register_module_buffer_registration_hook as register_module_buffer_registration_hook,
)
from adjoint.nn.modules.base.hooks import (
    register_module_forward_hook as register_module_forward_hook,
)
from adjoint.nn.modules.base.hooks import (
    register_module_forward_pre_hook as register_module_forward_pre_hook,
)
from adjoint.nn.modules.base.hooks import (
    register_module_full_backward_hook as register_module_full_backward_hook,
)
from adjoint.nn.modules.base.hooks import (
    register_module_full_backward_pre_hook as register_module_full_backward_pre_hook,
)
from adjoint.nn.modules.base.hooks import (
    register_module_module_registration_hook as register_module_module_registration_hook,
)
from adjoint.nn.modules.base.hooks import (
    register_module_parameter_registration_hook as register_module_parameter_registration_hook,
)
from adjoint.nn.modules.base.naming import NAMED, name_layer
from adjoint.nn.modules.base.state import StateDict
from adjoint.nn.modules.base.state import _IncompatibleKeys as _IncompatibleKeys
from adjoint.nn.modules.base.traversal import Traversal
from adjoint.nn.parameter import Buffer, Parameter

if TYPE_CHECKING:
    from adjoint.engine.graph.session.graph import Graph
else:
    Graph = Any  # it comes with what records one

# Under PyTorch's names, for libraries that register parameters themselves.
_global_buffer_registration_hooks = GLOBAL.register_buffer
_global_module_registration_hooks = GLOBAL.register_module
_global_parameter_registration_hooks = GLOBAL.register_parameter
_global_forward_hooks = GLOBAL.forward
_global_forward_pre_hooks = GLOBAL.forward_pre
_global_backward_hooks = GLOBAL.backward
_global_backward_pre_hooks = GLOBAL.backward_pre
SUPER = ". Begin __init__ with super().__init__()."
_EXTRA_STATE_KEY_SUFFIX = "_extra_state"
TABLES = (
    "_parameters",
    "_buffers",
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
    "_modules",
)
MEMBERS = ("_parameters", "_buffers", "_modules")


class Module(Traversal, Conversion, StateDict):
    """The base class of layers and models.

    A subclass calls `super().__init__()`, assigns parameters, buffers and other modules to
    attributes, and defines `forward`.

    Example:
        >>> import adjoint as ad
        >>> class Scale(ad.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = ad.nn.Parameter(ad.tensor(2.0))
        ...
        ...     def forward(self, x):
        ...         return self.factor * x
        >>> Scale()(ad.ones(2)).tolist()
        [2.0, 2.0]
    """

    dump_patches: bool = False
    _compiled_call_impl: Any = None  # what `compile()` made of the call
    call_super_init: bool = False  # whether `__init__` goes on to the next class with arguments
    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]
    _is_full_backward_hook: bool | None
    _backward_pre_hooks: TrackedDict
    _backward_hooks: TrackedDict
    _forward_hooks: TrackedDict
    _forward_hooks_with_kwargs: TrackedDict
    _forward_hooks_always_called: TrackedDict
    _forward_pre_hooks: TrackedDict
    _forward_pre_hooks_with_kwargs: TrackedDict

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Operations among a class's attributes stay functions, as PyTorch's built-in ones do.

        Example:
            >>> import adjoint as ad
            >>> class Bend(ad.nn.Module):
            ...     act = ad.tanh
            ...
            ...     def forward(self, x):
            ...         return self.act(x)
            >>> Bend()(ad.zeros(2)).tolist()
            [0.0, 0.0]
        """
        super().__init_subclass__(**kwargs)
        for name, value in list(vars(cls).items()):
            if type(value) is not FunctionType:
                continue
            if (value.__module__ or "").startswith("adjoint.engine.ops."):  # None: run by `exec`
                setattr(cls, name, staticmethod(value))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            name = type(self).__name__
            if kwargs:
                raise TypeError(
                    f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
                )
            if args:
                raise TypeError(
                    f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given"
                )
        state = self.__dict__
        state["training"] = True
        state["_non_persistent_buffers_set"] = set()
        state["_is_full_backward_hook"] = None
        for table in TABLES:
            state[table] = TrackedDict()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What calling the module computes; every subclass defines it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
            + (
                ". It only holds modules: call them yourself, or use Sequential."
                if hasattr(type(self), "__iter__")
                else ""
            )
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` and the hooks around it."""
        try:
            if (
                self._compiled_call_impl is not None
                or self._forward_hooks
                or self._forward_pre_hooks
                or self._backward_hooks
                or self._backward_pre_hooks
                or GLOBAL.forward  # `any_call`, without its call
                or GLOBAL.forward_pre
                or GLOBAL.backward
                or GLOBAL.backward_pre
            ):
                return (self._compiled_call_impl or self._call_impl)(*args, **kwargs)
            return self.forward(*args, **kwargs)
        except NAMED as error:
            name_layer(error, self, args, kwargs)
            raise

    def _name_in(self, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Name this layer in what a compiled call of it raised, if it was the layer that did."""
        frames = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
        if isinstance(error, NAMED) and Module._call_impl.__code__ in frames:
            name_layer(error, self, args, kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """The call as it is without `compile()`; programs that wrap modules know it by name."""
        if (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or GLOBAL.any_call
        ):
            return call_with_hooks(self, args, kwargs)
        return self.forward(*args, **kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile this module's calls, in place: `adjoint.compile` of its `__call__`.

        >>> import adjoint as ad
        >>> layer = ad.nn.Linear(2, 1)
        >>> layer.compile()
        >>> layer(ad.ones(3, 2)).shape
        adjoint.Size([3, 1])
        """
        from adjoint.engine.compiler.api import compile  # loads what few programs need

        object.__setattr__(self, "_compiled_call_impl", compile(self._call_impl, *args, **kwargs))

    # -- registration -------------------------------------------------------------------------

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Keep a tensor that is no parameter as part of the module.

        Args:
            name: the attribute it is found under.
            tensor: the buffer; None reserves the name.
            persistent: whether it is part of the state dict.
        """
        self._check_name("buffer", name, self.__dict__.get("_buffers"))
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type_name(tensor)}' object to buffer '{name}' (torch Tensor or "
                "None required)"
            )
        for hook in GLOBAL.register_buffer.values():
            replaced = hook(self, name, tensor)
            tensor = tensor if replaced is None else replaced
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name; None reserves the name."""
        self._check_name("parameter", name, self.__dict__.get("_parameters"))
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type_name(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, compute "
                "the value in the forward() method."
            )
        for hook in GLOBAL.register_parameter.values():
            replaced = hook(self, name, param)
            param = param if replaced is None else replaced
        self._parameters[name] = param

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under a name; None reserves the name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(no_module(module))
        self._check_name("module", name, self.__dict__.get("_modules"))
        self._put_module(name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    def _put_module(self, name: str, module: Module | None) -> None:
        for hook in GLOBAL.register_module.values():
            replaced = hook(self, name, module)
            module = module if replaced is None else replaced
        self._modules[name] = module

    def _check_name(self, kind: str, name: Any, table: dict[str, Any] | None) -> None:
        """Refuse a name that cannot be registered."""
        if table is None:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call{SUPER}")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type_name(name)}")
        if hasattr(self, name) and name not in table:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            received = f", got: {name}" if kind == "module" else ""
            raise KeyError(f'{kind} name can\'t contain "."{received}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')

    # -- attributes ---------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        state = self.__dict__
        for table in MEMBERS:
            if table in state and name in state[table]:
                return state[table][name]
        for cls in type(self).__mro__:
            if isinstance(attribute := cls.__dict__.get(name), property):
                return attribute.__get__(
                    self
                )  # it raised AttributeError: now its own message is seen
        message = f"'{type(self).__name__}' object has no attribute '{name}'"
        raise AttributeError(message, name=name, obj=self)  # Python adds "Did you mean"

    def __setattr__(self, name: str, value: Any) -> None:
        STRUCTURE_VERSION.count += 1
        state = self.__dict__
        parameters = state.get("_parameters")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError(
                    f"cannot assign parameters before Module.__init__() call{SUPER}"
                )
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
        elif parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type_name(value)}' as parameter '{name}' "
                    "(torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if "_modules" not in state:
                raise AttributeError(f"cannot assign module before Module.__init__() call{SUPER}")
            self._forget(name, "_modules")
            self._put_module(name, value)
        elif name in state.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type_name(value)}' as child module '{name}' "
                    "(torch.nn.Module or None expected)"
                )
            self._put_module(name, value)
        elif isinstance(value, Buffer) or name in state.get("_buffers", ()):
            self._set_buffer(name, value)
        elif name in TABLES:
            object.__setattr__(self, name, TrackedDict(value))
        else:
            object.__setattr__(self, name, value)

    def _set_buffer(self, name: str, value: Any) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(
                f"cannot assign '{type_name(value)}' as buffer '{name}' (torch.nn.Buffer, "
                "torch.Tensor or None expected)"
            )
        if isinstance(value, Buffer):
            persistent = bool(value.persistent)  # type: ignore[attr-defined]
            self._forget(name, "_buffers")
        else:
            persistent = name not in self._non_persistent_buffers_set
        self.register_buffer(name, value, persistent)

    def _forget(self, name: str, owner: str) -> None:
        """Remove an attribute from where it was, unless that is the table `owner`."""
        state = self.__dict__
        state.pop(name, None)
        for table in MEMBERS:
            if table != owner and table in state:
                state[table].pop(name, None)
        if owner != "_buffers":
            state["_non_persistent_buffers_set"].discard(name)

    def __delattr__(self, name: str) -> None:
        STRUCTURE_VERSION.count += 1
        for table in MEMBERS:
            if name in self.__dict__.get(table, ()):
                del self.__dict__[table][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> Iterable[str]:
        names = {*super().__dir__(), *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[:1].isdigit())

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles get: all but what was compiled."""
        left_out = ("_compiled_call_impl", "__compiled__")
        return {k: v for k, v in self.__dict__.items() if k not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        STRUCTURE_VERSION.count += 1
        self.__dict__.update(state)
        for table in TABLES:  # absent from what an older version pickled; plain dicts in files
            members = self.__dict__.setdefault(table, TrackedDict())
            if type(members) is not TrackedDict:
                self.__dict__[table] = tracked(members)
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    def _replicate_for_data_parallel(self) -> Any:
        """A shallow copy without parameters, its tables its own, for `nn.parallel.replicate`."""
        replica = type(self).__new__(type(self))
        state = Module.__getstate__(self)
        own = {table: TrackedDict(state[table]) for table in ("_buffers", "_modules")}
        # Modules may override this to share or to drop what they keep: all else is shared.
        replica.__dict__.update(state, **own, _parameters=TrackedDict(), _is_replica=True)
        return replica

    # -- hooks --------------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> Handle:
        """Call `hook(module, args)` before `forward`; it may return other arguments.

        Args:
            hook: the function; with `with_kwargs` it gets `(module, args, kwargs)` and returns
                None or a pair.
            prepend: whether to put it before the hooks there are.
            with_kwargs: whether it gets keyword arguments too.
        """
        return HookHandle(
            self._forward_pre_hooks,
            hook,
            (with_kwargs, self._forward_pre_hooks_with_kwargs),
            prepend=prepend,
        )

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> Handle:
        """Call `hook(module, args, output)` after `forward`; it may return another output.

        Args:
            hook: the function; with `with_kwargs` it gets `(module, args, kwargs, output)`.
            prepend: whether to put it before the hooks there are.
            with_kwargs: whether it gets keyword arguments too.
            always_call: whether it runs even if `forward` raises.

        Example:
            >>> import adjoint as ad
            >>> layer = ad.nn.Identity()
            >>> handle = layer.register_forward_hook(lambda module, args, out: out + 1)
            >>> layer(ad.zeros(1))
            tensor([1.])
        """
        return HookHandle(
            self._forward_hooks,
            hook,
            (with_kwargs, self._forward_hooks_with_kwargs),
            (always_call, self._forward_hooks_always_called),
            prepend=prepend,
        )

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> Handle:
        """Call `hook(module, grad_output)` when the gradient reaches the module's outputs."""
        return HookHandle(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> Handle:
        """Call `hook(module, grad_input, grad_output)` when the inputs' gradients are known."""
        self._need_backward_kind(full=True)
        return HookHandle(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> Handle:
        """The older form of `register_full_backward_hook`: it sees the last operation only."""
        self._need_backward_kind(full=False)
        return HookHandle(self._backward_hooks, hook)

    def _need_backward_kind(self, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single "
                "Module. Please use only one of them."
            )
        self._is_full_backward_hook = full

    # -- printing -----------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def to_graph(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph of a call with these arguments, in the mode the module is in.

        Tensors among the arguments become placeholders of their shape, dtype and device, named
        after `forward`'s parameters, with unknown sizes where `mark_dynamic` says so; parameters
        and buffers become variables of their own names, shared with the module. What the call
        writes (running statistics) is the update "effects".

        Example:
            >>> import adjoint as ad
            >>> graph = ad.nn.Linear(3, 2).to_graph(ad.ones(4, 3))
            >>> graph
            <Graph (input: float32[4, 3]), 2 variables, 1 nodes>
            >>> graph(ad.zeros(4, 3)).shape
            adjoint.Size([4, 2])
        """
        recording = brought("adjoint.engine.capture.recording")
        graph: Graph = recording.record_call(
            self,
            args,
            kwargs,
            signature=signature(self.forward),
            variables=[*self.named_parameters(), *self.named_buffers()],
            owners=self.modules(),
        )
        return graph

    def extra_repr(self) -> str:
        """What stands between the parentheses when the module is printed."""
        return ""

    def _repr_html_(self) -> str:
        """What a notebook shows: modules that open with a click, with their parameters."""
        return self._html("", opened=True)

    def _html(self, name: str, *, opened: bool = False) -> str:
        count = sum(p.numel() for p in self.parameters() if not p.is_meta)
        title = f"{name + ': ' if name else ''}{self._get_name()}({self.extra_repr()})"
        title += f"  {count:,} parameters" if count else ""
        own = [html.line(f"{n}  {p._spec}") for n, p in self.named_parameters(recurse=False)]
        below = [m._html(n) for n, m in self.named_children()]
        return html.folded(title, "".join(own + below), opened=opened)

    def __repr__(self) -> str:
        extra = self.extra_repr()
        own = extra.split("\n") if extra else []
        below = [
            f"({name}): " + _addindent(repr(module), 2) for name, module in self._modules.items()
        ]
        if len(own) == 1 and not below:
            return f"{self._get_name()}({own[0]})"
        lines = "".join(f"\n  {line}" for line in own + below)
        return f"{self._get_name()}({lines}\n)" if lines else f"{self._get_name()}()"


give(Module, Traversal.__module__, Conversion.__module__, StateDict.__module__)


def _addindent(s_: str, numSpaces: int) -> str:
    """Text whose lines, but the first, start further right; programs that print layers call it."""
    return s_.replace("\n", "\n" + numSpaces * " ")


def no_module(value: Any) -> str:
    """What is said of a value that is no module."""
    if isinstance(value, type) and issubclass(value, Module):
        name = value.__name__
        return f"{name} is a class, not a Module subclass's object: make one, {name}(...)"
    remedy = (
        ". Pass each by itself: Sequential(*layers)" if isinstance(value, (list, tuple)) else ""
    )
    return f"{type_name(value)} is not a Module subclass{remedy}"


def type_name(value: Any) -> str:
    """A value's type as error messages show it."""
    if isinstance(value, Tensor):
        return str(value.type()) if type(value) is Tensor else type(value).__qualname__
    kind = type(value)
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


# Errors, recordings and profiles look for it among frames.
for _code in (Module.__call__.__code__, Module._call_impl.__code__):
    MODULE_CALLS[id(_code)] = _code
