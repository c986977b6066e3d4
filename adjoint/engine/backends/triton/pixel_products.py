"""Convolutions of single pixels, of halves, as matrix products where images are few or small.

Where channels lie innermost such a convolution is the product of pixels by channels and a filter.
cuDNN's kernels for it cut pixels into tiles of 64 and more and sum up in one program; cuBLASLt has
smaller tiles and sums in parts, which a single image needs. With more pixels they are even.
"""

from __future__ import annotations

from math import prod

from adjoint.engine.backends.array.libraries.convolutions import FORWARD
from adjoint.engine.backends.triton.templates.convolution import channels_last
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder
from adjoint.engine.ops.products.matmul import MATMUL
from adjoint.engine.ops.shape.views import PERMUTE, RESHAPE

FEW = 1 << 13  # pixels


def pixel_products(graph: DataflowGraph) -> DataflowGraph:
    """The graph with such convolutions as products."""
    if not any(map(is_of_pixels, graph.nodes)):
        return graph
    builder = GraphBuilder(graph)
    for node in graph.nodes:
        builder.graph.where = node.where
        inputs = builder.translate(node.inputs)
        if is_of_pixels(node):
            builder.replace(node, (product(builder, node, *inputs),))
        else:
            builder.keep(node, inputs)
    return builder.finish(graph)


def is_of_pixels(node: Node) -> bool:
    """Whether a node is a convolution whose windows are a pixel each, and all of them."""
    if node.record.name != FORWARD or not node.outputs[0].spec.dtype.is_half:
        return False
    maps, params = node.outputs[0].spec.shape, node.params
    if any(type(n) is not int for n in maps):
        return False
    pixels = prod(maps) // max(1, maps[1])
    return (
        0 < pixels <= FEW
        and all(isinstance(x, Value) and not x.host for x in node.inputs)
        and set(node.inputs[1].spec.shape[2:]) == {1}
        and set(params["stride"]) == {1}
        and params["groups"] == 1
        and not any(map(any, params["padding"]))
    )


def product(builder: GraphBuilder, node: Node, image: Value, weights: Value) -> Value:
    """The product, whose result is shown as maps are."""
    maps = node.outputs[0].spec.shape
    rank, channels = len(maps), weights.spec.shape[1]
    inner = channels_last(rank)
    rows = builder.emit(
        RESHAPE,
        builder.emit(PERMUTE, image, dims=inner),
        shape=(prod(maps) // maps[1], channels),
    )
    filters = builder.emit(
        PERMUTE, builder.emit(RESHAPE, weights, shape=(maps[1], channels)), dims=(1, 0)
    )
    made = builder.emit(MATMUL, rows, filters)
    shown = builder.emit(RESHAPE, made, shape=tuple(maps[d] for d in inner))
    return builder.emit(PERMUTE, shown, dims=(0, rank - 1, *range(1, rank - 1)))
