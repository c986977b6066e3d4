"""Which nodes a backend can run, for passes that divide graphs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from adjoint.fx.node import Node
from adjoint.nn.modules.module import Module

Modules = Mapping[str, Module]
IsNodeSupported = Callable[[Modules, Node], bool]


class OperatorSupportBase(ABC):
    """Says of each node whether it is supported."""

    @abstractmethod
    def is_node_supported(self, submodules: Modules, node: Node) -> bool:
        """Whether a node is supported."""


class OperatorSupport(OperatorSupportBase):
    """Supports what a table names.

    Args:
        support_dict: names of functions, methods or classes of modules; the values are PyTorch's
            dtypes of arguments, None for any.
    """

    _support_dict: Mapping[str, Any] = {}

    def __init__(self, support_dict: Mapping[str, Any] | None = None) -> None:
        self._support_dict = support_dict or self._support_dict

    def is_node_supported(self, submodules: Modules, node: Node) -> bool:
        """Whether what a node calls is in the table."""
        if node.op not in ("call_function", "call_method", "call_module"):
            return True
        name = _called(submodules, node)
        if name in self._support_dict and self._support_dict[name] is not None:
            raise NotImplementedError(
                f"OperatorSupport: dtypes of arguments are not looked at; give None for {name!r}"
            )
        return name in self._support_dict


def _called(submodules: Modules, node: Node) -> str:
    """What a node calls, as PyTorch writes it: `torch.relu`, `_operator.add`, `torch.nn.ReLU`."""
    if node.op == "call_module":
        kind = type(submodules[node.target])
        return f"{kind.__module__}.{kind.__qualname__}"
    if node.op == "call_method":
        return str(node.target)
    return f"{getattr(node.target, '__module__', '')}.{node.target.__name__}"


class FunctionSupport(OperatorSupportBase):
    """Supports what a function says."""

    def __init__(self, is_node_supported: IsNodeSupported) -> None:
        self._says = is_node_supported

    def is_node_supported(self, submodules: Modules, node: Node) -> bool:
        """Whether the function says so."""
        return self._says(submodules, node)


def create_op_support(is_node_supported: IsNodeSupported) -> OperatorSupportBase:
    """Support as a function says."""
    return FunctionSupport(is_node_supported)


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Supports what all of them do."""
    return FunctionSupport(
        lambda modules, node: all(
            support.is_node_supported(modules, node) for support in op_support
        )
    )


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Supports what one of them does."""
    return FunctionSupport(
        lambda modules, node: any(
            support.is_node_supported(modules, node) for support in op_support
        )
    )
