"""Noting what each node gives by running the graph on tensors without elements."""

from __future__ import annotations

from typing import Any

from adjoint._subclasses import FakeTensorMode
from adjoint.engine.tensor.tensor import Tensor
from adjoint.fx.interpreter import Interpreter
from adjoint.fx.node import Node, map_aggregate


class FakeTensorProp(Interpreter):
    """Runs a graph in a `FakeTensorMode` and puts each node's result into its `meta["val"]`.

    Args:
        module: the module whose graph it is.
        mode: the mode to run in; a new one unless given.
    """

    def __init__(self, module: Any, mode: FakeTensorMode | None = None) -> None:
        super().__init__(module)
        self._mode = FakeTensorMode() if mode is None else mode

    def run_node(self, n: Node) -> Any:
        """Run one node and note what came out."""
        result = super().run_node(n)
        if any(isinstance(leaf, Tensor) for leaf in _leaves(result)):
            n.meta["val"] = result
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on what has the shapes of these arguments."""
        made = [self._mode.from_tensor(a) if isinstance(a, Tensor) else a for a in args]
        return self.propagate_dont_convert_inputs(*made)

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """Run the graph on arguments that are fake already."""
        with self._mode:
            return self.run(*args)


def _leaves(value: Any) -> list[Any]:
    found: list[Any] = []
    map_aggregate(value, found.append)
    return found
