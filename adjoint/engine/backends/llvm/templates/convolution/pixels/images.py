"""Which images have their channels innermost (Note [images in pixels]).

Note [images in pixels]
    Between convolutions by kept weights, images lie pixel by pixel: convolutions, poolings and
    what is done with elements then work on whole vectors of channels, and nothing is turned from
    one layer to the next. As results lie as their users see them, and inputs as they are given,
    this pays where one such convolution follows another. Shapes are what is chosen, as values of
    one shape meet each other in sums; one that a template reads or writes in rows stays in rows.
"""

from __future__ import annotations

from adjoint.engine.backends.llvm.templates.convolution.channels_kernel import vectors_of
from adjoint.engine.backends.llvm.templates.convolution.pixels.sums import LEAST, fills_strips
from adjoint.engine.backends.llvm.templates.product.tiles import has_wide_registers, outer_tile
from adjoint.engine.compiler.target import Setting
from adjoint.engine.graph.ir import DataflowGraph, Node, Value

Shapes = frozenset[tuple[int, ...]]

POOL = "max_pool"  # whose template reads and writes such images


def images_in_pixels(graph: DataflowGraph, setting: Setting) -> Shapes:
    """Shapes of images that are to lie pixel by pixel; none where no convolution reads one."""
    if not setting.lasting or not has_wide_registers():
        return frozenset()
    kept = {x for i, x in enumerate(graph.inputs) if i in setting.lasting}
    suited = [node for node in graph.nodes if is_suited(node, kept)]
    made = [*suited, *(node for node in graph.nodes if node.record.name == POOL)]
    chosen = set(made)
    others = (node for node in graph.nodes if node not in chosen)
    rows = {shape for node in others for shape in in_rows(node, setting)}
    shapes: set[tuple[int, ...]] = set()
    for node in made:
        if node.record.name != POOL or node.inputs[0].spec.shape in shapes:
            shapes |= {node.outputs[0].spec.shape} - rows
    reads = any(node.inputs[0].spec.shape in shapes for node in suited)
    return frozenset(shapes) if reads else frozenset()


def is_suited(node: Node, kept: set[Value]) -> bool:
    """Whether a node is a convolution by kept weights whose output channels fill vectors."""
    if node.record.name != "convolution" or node.inputs[1] not in kept:
        return False
    (x, weights), out = node.inputs, node.outputs[0]
    numbers = (*x.spec.shape, *weights.spec.shape, *out.spec.shape)
    if len(out.spec.shape) not in (3, 4) or out.spec.dtype.name != "float32":
        return False
    if any(type(n) is not int or n == 0 for n in numbers):
        return False
    groups, lanes = node.params["groups"], outer_tile("f32").lanes
    channels = weights.spec.shape[1]
    if channels == 1 and groups == x.spec.shape[1] == out.spec.shape[1]:
        return vectors_of("f32", groups) > 0
    return (channels >= LEAST or groups == 1) and fills_strips(out.spec.shape[1] // groups, lanes)


def in_rows(node: Node, setting: Setting) -> set[tuple[int, ...]]:
    """Shapes of what a node's template reads and writes in rows."""
    name = node.record.name
    if name not in setting.target.templates:
        return set()
    values = [x for x in (*node.inputs, *node.outputs) if isinstance(x, Value)]
    return {x.spec.shape for x in values}
