"""Which inner modules are units of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
