"""Noting each node's shape and dtype by running the graph."""

from __future__ import annotations

from typing import Any, NamedTuple

from adjoint.engine.core.dtype import DType
from adjoint.engine.core.spec import Size
from adjoint.engine.tensor.tensor import Tensor
from adjoint.fx.interpreter import Interpreter
from adjoint.fx.node import Node, map_aggregate


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its elements."""

    shape: Size
    dtype: DType
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


class ShapeProp(Interpreter):
    """Runs a graph and puts `tensor_meta` and `type` into each node's `meta`."""

    def run_node(self, n: Node) -> Any:
        """Run one node and note what came out."""
        result = super().run_node(n)
        has_tensors = False

        def describe(value: Any) -> Any:
            nonlocal has_tensors
            if not isinstance(value, Tensor):
                return value
            has_tensors = True
            return TensorMetadata(
                value.shape, value.dtype, value.requires_grad, value.stride(), None, False, {}
            )

        described = map_aggregate(result, describe)
        if has_tensors:
            n.meta["tensor_meta"] = described
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on arguments."""
        return self.run(*args)
