"""Taking functions over: PyTorch's `torch.overrides`.

Example:
    >>> import adjoint as ad
    >>> class Named:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return f"{func.__name__} of a Named"
    >>> ad.add(Named(), 1)
    'add of a Named'
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from adjoint.engine.core.operations import overrides as _overrides
from adjoint.engine.core.operations.overrides import (
    THREAD,
    disabled_torch_function,
    dispatch,
    having,
    overriding,
)
from adjoint.engine.core.operations.public import INPLACE, METHODS, PUBLIC
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.tensor.overriding import (
    ASKED,
    NOT_ASKED,
    NOT_CONVERTED,
    OPERATORS,
    SPECIAL,
    enter_mode,
)
from adjoint.engine.tensor.tensor import Tensor

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]
_disabled_torch_function_impl = disabled_torch_function


class TorchFunctionMode:
    """Takes over every function called inside its `with` block, on any tensors.

    Example:
        >>> import adjoint as ad
        >>> class Counting(TorchFunctionMode):
        ...     seen = 0
        ...
        ...     def __torch_function__(self, func, types, args=(), kwargs=None):
        ...         self.seen += 1
        ...         return func(*args, **(kwargs or {}))
        >>> with Counting() as mode:
        ...     y = ad.ones(2).add(1) * 2
        >>> mode.seen
        3
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """What to do with a call; a mode of one's own says."""
        raise NotImplementedError(f"{type(self).__name__} must define __torch_function__")

    def __enter__(self) -> Any:
        THREAD.modes = (*THREAD.modes, self)
        enter_mode(1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        THREAD.modes = THREAD.modes[:-1]
        enter_mode(-1)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """An instance, to be entered."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that runs each function as it is."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run it."""
        return func(*args, **(kwargs or {}))


def DisableTorchFunctionSubclass() -> Any:
    """A `with` block in which values take nothing over; modes still do."""
    return having(subclasses=False)


def DisableTorchFunction() -> Any:
    """A `with` block in which nothing is taken over."""
    return having(functions=False)


def enable_reentrant_dispatch() -> Any:
    """A `with` block in which a handler's calls are taken over again."""
    return having(subclasses=True)


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a mode or one of some values takes functions over."""
    if THREAD.functions and THREAD.modes:
        return True
    return THREAD.functions and THREAD.subclasses and bool(overriding(tuple(relevant_args), {}))


def has_torch_function_unary(value: Any) -> bool:
    """The same of one value."""
    return has_torch_function((value,))


def has_torch_function_variadic(*values: Any) -> bool:
    """The same of values given one by one."""
    return has_torch_function(values)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Have the one who takes a function over answer; an error if nobody does."""
    relevant = tuple(relevant_args)
    asked = overriding(relevant, {})
    if not THREAD.modes and asked:
        types = tuple(type(value) for value in asked)
        for value in asked:
            result = value.__torch_function__(public_api, types, args, kwargs)
            if result is not NotImplemented:
                return result
    else:
        result = dispatch(public_api, args, kwargs)
        if result is not _overrides.PASS:
            return result
    raise TypeError(
        f"no implementation found for {public_api.__name__!r} on types that implement "
        f"__torch_function__: {[type(value).__name__ for value in asked]}"
    )


def wrap_torch_function(dispatcher: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function of one's own so that the values `dispatcher` names may take it over."""

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether a value is a tensor or takes functions over."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Functions whose results keep their class."""
    return {getattr(Tensor, name).__get__ for name in sorted(NOT_CONVERTED)}


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Public functions that values cannot take over: they ask what a value is, or make tensors."""
    names = {*_overrides.QUESTIONS, *_overrides.COPYING, *_MAKING}
    return {PUBLIC["", name].fn for name in sorted(names) if ("", name) in PUBLIC}


# Functions whose arguments are no tensors: modes alone are asked.
_MAKING = """
    arange bartlett_window blackman_window empty empty_strided eye from_file from_numpy frombuffer
    full hamming_window hann_window kaiser_window linspace logspace normal ones rand randint randn
    randperm scalar_tensor tril_indices triu_indices vander zeros
""".split()


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """What can be taken over, by the class, property or module that it is found in.

    >>> import adjoint as ad
    >>> ad.Tensor.add in get_overridable_functions()[ad.Tensor]
    True
    """
    HOOKS.load_rest()
    functions: dict[Any, list[Callable[..., Any]]] = {Tensor: []}
    ignored = get_ignored_functions()
    for name in _members():
        member = getattr(Tensor, name)
        if isinstance(member, property):
            functions[member] = [member.__get__]
        else:
            functions[Tensor].append(member)
    for (space, _), entry in PUBLIC.items():
        if entry.fn not in ignored:
            functions.setdefault(_module_of(space), []).append(entry.fn)
    return functions


def _members() -> list[str]:
    """The names of Tensor's methods, operators and properties that can be taken over."""
    inplace = [f"{name}_" for name in INPLACE]
    named = {*METHODS, *inplace, *OPERATORS, *SPECIAL, *ASKED, "__len__"} - NOT_ASKED
    return sorted(name for name in named if hasattr(Tensor, name))


def _module_of(space: str) -> Any:
    """The module of a space of names, or what PyTorch calls it where there is none."""
    name = ".".join(part for part in (_overrides.__name__.partition(".")[0], space) if part)
    try:
        return importlib.import_module(name)
    except ImportError:
        return space


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For each function that can be taken over, one of the same arguments that gives -1."""
    overrides: dict[Callable[..., Any], Callable[..., Any]] = {}
    for functions in get_overridable_functions().values():
        for function in functions:
            overrides[function] = _standing_for(function)
    return overrides


def _standing_for(function: Callable[..., Any]) -> Callable[..., Any]:
    def dummy(*args: Any, **kwargs: Any) -> int:
        return -1

    with contextlib.suppress(TypeError, ValueError):  # C's functions state no arguments
        dummy.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return dummy


def _get_current_function_mode() -> Any:
    """The innermost mode, or None."""
    return THREAD.modes[-1] if THREAD.modes else None


def _get_current_function_mode_stack() -> list[Any]:
    """The modes entered, innermost last."""
    return list(THREAD.modes)


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function is one of Tensor's methods, or reads one of its properties."""
    if getattr(func, "__name__", "") == "__get__":
        return True
    return any(func is getattr(Tensor, name) for name in _members())


def resolve_name(f: Any) -> str | None:
    """What a function is called in full.

    >>> import adjoint as ad
    >>> resolve_name(ad.Tensor.shape.__get__), resolve_name(ad.Tensor.add)
    ('torch.Tensor.shape.__get__', 'torch.Tensor.add')
    """
    if not callable(f):
        return None
    for (space, name), entry in PUBLIC.items():
        if entry.fn is f:
            return ".".join(part for part in ("torch", space, name) if part)
    read = getattr(f, "__self__", None)
    if isinstance(read, property):
        return f"torch.Tensor.{read.__name__}.{f.__name__}"  # type: ignore[attr-defined]
    own = getattr(f, "__name__", "")
    plain = getattr(f, "__torch_function_of__", f)
    for name in (own, *_members()):
        there = getattr(Tensor, name, None)
        if there is f or (
            there is not None and getattr(there, "__torch_function_of__", 0) is plain
        ):
            return f"torch.Tensor.{name}"
    return getattr(f, "__qualname__", None)
