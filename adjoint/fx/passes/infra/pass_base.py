"""Passes over traced modules."""

from __future__ import annotations

from typing import Any, NamedTuple

from adjoint.fx.graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """What a pass gives: the module, and whether it was changed."""

    graph_module: GraphModule
    modified: bool


class PassBase:
    """A pass: `requires`, then `call`, then `ensures`."""

    def __call__(self, graph_module: GraphModule) -> Any:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    def call(self, graph_module: GraphModule) -> Any:
        """Do it; a pass of one's own says what."""
        raise NotImplementedError(f"{type(self).__name__} must define call")

    def requires(self, graph_module: GraphModule) -> None:
        """Check what must hold before."""

    def ensures(self, graph_module: GraphModule) -> None:
        """Check what must hold after."""
