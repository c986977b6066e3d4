"""Convolutions whose windows lie side by side, as products of matrices.

Note [patches]
    Where a filter moves by as much as it covers (the patches of a vision transformer, the layers
    that halve images), each element of an image is in one window. A copy of the image, window by
    window, is then the rows of one product with all filters, and of one with the gradient, whose
    pixels are rows of channels, for that by the weights. Programs mostly have the machine code of
    products already. What is copied to that end is met by each channel of the other operand: so
    filters must be large, unless nothing but the images need be copied. Where registers are not
    wide, an implicit product is as quick.
"""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.backends.llvm.templates.convolution.windowed import KINDS
from adjoint.engine.backends.llvm.templates.product.tiles import has_wide_registers
from adjoint.engine.compiler.memory.places import Place, is_strided, show, virtual
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder, rebuild
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.ops.products.matmul import MATMUL
from adjoint.engine.ops.shape.views import PERMUTE, RESHAPE

Values = tuple[Value, ...]
Sizes = tuple[int, ...]
LARGE = 512  # elements of a filter from which on results may be turned after the product, and
MIDDLING = 256  # from which on gradients may be before


def substituted(graph: DataflowGraph) -> DataflowGraph:
    """The graph with products for such convolutions."""
    wanted = has_wide_registers() and any(patches_of(node) for node in graph.nodes)
    return rebuild(graph, visit) if wanted else graph


def patches_of(node: Node) -> Sizes:
    """The sizes of a window, where windows lie side by side and fill the images; else none."""
    if node.record.name not in RULES or not all(isinstance(x, Value) for x in node.inputs):
        return ()
    params, specs = node.params, [v.spec for v in (*node.inputs, *node.outputs)]
    if any(is_extent(n) or n == 0 for spec in specs for n in spec.shape):
        return ()
    images, filters, maps = (spec.shape for spec in specs)
    if node.record.name == "convolution_weight":
        filters, maps = maps, filters
    window = tuple(filters[2:])
    alone = params["groups"] == 1 and all(spec.dtype.name in KINDS for spec in specs)
    apart = tuple(params["stride"]) == window and set(params["dilation"]) == {1}
    whole = tuple(n * k for n, k in zip(maps[2:], window, strict=True)) == tuple(images[2:])
    filled = whole and all(tuple(pair) == (0, 0) for pair in params["padding"])
    filled = filled and prod(window) > 1
    return window if alone and apart and filled and is_worth_it(node) else ()


def visit(builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]) -> Values | None:
    """What stands for a node's result; None where it stays."""
    window = patches_of(node)
    return RULES[node.record.name](builder, node, inputs, window) if window else None


def forward(builder: GraphBuilder, node: Node, inputs: tuple[Any, ...], window: Sizes) -> Values:
    """Rows of windows times filters, whose results are rows of channels."""
    x, weights = inputs
    count, channels, *places = node.outputs[0].spec.shape
    filters = builder.emit(RESHAPE, weights, shape=(channels, prod(weights.spec.shape[1:])))
    turned = builder.emit(PERMUTE, filters, dims=(1, 0))
    product = builder.emit(MATMUL, rows_of_windows(builder, x, window), turned)
    pixels = builder.emit(RESHAPE, product, shape=(count, *places, channels))
    last = len(places) + 1
    return (builder.emit(PERMUTE, pixels, dims=(0, last, *range(1, last))),)


def by_weight(builder: GraphBuilder, node: Node, inputs: tuple[Any, ...], window: Sizes) -> Values:
    """Columns of the gradient's channels times rows of windows."""
    x, gradient = inputs
    _, channels, *places = gradient.spec.shape
    last = len(places) + 1
    pixels = builder.emit(PERMUTE, gradient, dims=(0, *range(2, last + 1), 1))
    rows = builder.emit(RESHAPE, pixels, shape=(prod(pixels.spec.shape[:-1]), channels))
    turned = builder.emit(PERMUTE, rows, dims=(1, 0))
    product = builder.emit(MATMUL, turned, rows_of_windows(builder, x, window))
    return (builder.emit(RESHAPE, product, shape=node.outputs[0].spec.shape),)


def rows_of_windows(builder: GraphBuilder, x: Value, window: Sizes) -> Value:
    """Images (N, C, o k...) as (N o..., C k...)."""
    count, channels, *sizes = x.spec.shape
    places = [n // k for n, k in zip(sizes, window, strict=True)]
    cut = [n for pair in zip(places, window, strict=True) for n in pair]
    apart = builder.emit(RESHAPE, x, shape=(count, channels, *cut))
    rank = len(window)
    where, within = range(2, 2 + 2 * rank, 2), range(3, 3 + 2 * rank, 2)
    together = builder.emit(PERMUTE, apart, dims=(0, *where, 1, *within))
    shape = (count * prod(places), channels * prod(window))
    return builder.emit(RESHAPE, together, shape=shape)


def is_worth_it(node: Node) -> bool:
    """Whether a product takes less than what is copied for it (Note [patches])."""
    if node.record.name == "convolution":
        return prod(node.inputs[1].spec.shape[1:]) >= LARGE
    _, gradient = node.inputs
    few = prod(node.outputs[0].spec.shape[1:]) < MIDDLING
    return not few or place_of(gradient).strides[1] == 1


def place_of(x: Value) -> Place:
    """How a value lies, as far as views tell."""
    node = x.node
    seen = show(place_of(node.inputs[0]), node) if node and is_strided(node.record) else None
    return seen or virtual(x)


RULES = {"convolution": forward, "convolution_weight": by_weight}
