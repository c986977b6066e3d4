"""Images of few channels, padded with channels of zeros.

Tensor cores multiply eight halves at a time. A convolution of images with fewer channels, say of
colours, is made one of eight: cuDNN would pad the image by itself, at each call and slowly, where
here it is part of the conversion to halves, done once for the convolution and its gradient.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.backends.array.libraries.convolutions import DATA, FORWARD, PARTS, WEIGHT
from adjoint.engine.core.operations.record import REGISTRY
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder, rebuild

WIDTH = 8  # channels


def padded(graph: DataflowGraph) -> DataflowGraph:
    """The graph with convolutions of few channels as those of eight."""
    if not any(map(is_narrow, graph.nodes)):
        return graph
    return rebuild(graph, Padding().visit)


def is_narrow(node: Node) -> bool:
    """Whether a node is a convolution of halves and fewer than eight channels."""
    if node.record.name not in (FORWARD, DATA, WEIGHT) or node.params["groups"] != 1:
        return False
    values = (*node.inputs, node.outputs[0])
    if not all(isinstance(v, Value) and not v.host for v in values):
        return False
    image = values[PARTS[node.record.name][0]].spec
    return image.dtype.is_half and 0 < image.shape[1] < WIDTH and 0 not in image.shape


class Padding:
    """Rewrites convolutions; an operand is padded once."""

    def __init__(self) -> None:
        self.made: dict[Value, Value] = {}

    def visit(
        self, builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]
    ) -> tuple[Value, ...] | None:
        if not is_narrow(node):
            return None
        name, out = node.record.name, node.outputs[0].spec
        # Channels are the second dimension of images and of weights; maps have others.
        whole = {FORWARD: (0, 1), DATA: (1,), WEIGHT: (0,)}[name]
        given = tuple(self.wide(builder, x) if i in whole else x for i, x in enumerate(inputs))
        shape = out.shape if name == FORWARD else (out.shape[0], WIDTH, *out.shape[2:])
        (made,) = builder.graph.add_node(
            node.record, given, node.params, (Spec(shape, out.dtype, out.device),)
        )
        if shape == out.shape:
            return (made,)
        first = tuple((0, n, 1) for n in out.shape)
        return (builder.emit(REGISTRY["slice"], made, index=first),)

    def wide(self, builder: GraphBuilder, x: Value) -> Value:
        """An image or weights with channels of zeros."""
        if x not in self.made:
            spec = x.spec
            shape = (spec.shape[0], WIDTH - spec.shape[1], *spec.shape[2:])
            zeros = builder.emit(
                REGISTRY["full"], 0, shape=shape, dtype=spec.dtype, device=spec.device, strides=None
            )
            self.made[x] = builder.emit(REGISTRY["cat"], x, zeros, dim=1)
        return self.made[x]
