"""Which inner modules are units of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from adjoint.nn.modules.container import ModuleDict, ModuleList
from adjoint.nn.modules.module import Module

LARGE = int(1e8)


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every module."""
    return True


def size_based_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, min_num_params: int = LARGE, **_: Any
) -> bool:
    """Modules with at least so many parameters that are in no unit yet."""
    return nonwrapped_numel >= min_num_params and not isinstance(module, (ModuleList, ModuleDict))


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int,
    transformer_layer_cls: Iterable[type[Module]],
) -> bool:  # fmt: skip
    """Modules of the given classes."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


class ModuleWrapPolicy:
    """Modules of the given classes: `ModuleWrapPolicy({Block})`."""

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._classes = tuple(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, self._classes)


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Modules a function says."""
    return recurse or lambda_fn(module)


class CustomPolicy:
    """Modules a function says; it may answer with options for them instead of True."""

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._function = lambda_fn

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> Any:
        return recurse or self._function(module)


class _Wrapping:
    """What `wrap` wraps with, innermost last."""

    stack: list[tuple[Callable[..., Any], dict[str, Any]]] = []


@contextmanager
def enable_wrap(*, wrapper_cls: Callable[..., Any], **wrapper_kwargs: Any) -> Iterator[None]:
    """Have `wrap` wrap modules inside a `with` block."""
    _Wrapping.stack.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _Wrapping.stack.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Any:
    """The module wrapped, inside `enable_wrap`; as it is elsewhere."""
    if not _Wrapping.stack:
        return module
    wrapper, options = _Wrapping.stack[-1]
    return wrapper(module, **{**options, **wrap_overrides})
