"""Templates of what puts values side by side or into one another: cat, stack, view_scatter.

Each is copies into windows of the result. A value that nothing else reads is not copied at all:
the unit that makes it writes it where it belongs (see `Placing.make_in_place`).
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.memory.places import Place, lies, look, virtual
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.graph.ir import Node, Value


def known(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Whether all are of one dtype that kernels can copy."""
    out = node.outputs[0]
    return setting.knows(out) and all(
        isinstance(x, Value) and x.spec.dtype is out.spec.dtype for x in inputs
    )


def nothing_packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands may lie anyhow."""
    return set()


def anywhere(place: Place) -> bool:
    """Copies go to any place."""
    return True


def cat_parts(node: Node, out: Place) -> list[Place]:
    """The window of each operand of a concatenation."""
    dim = node.params["dim"]
    windows, at = [], 0
    for x in node.inputs:
        size = x.spec.shape[dim]
        windows.append(
            Place(out.buffer, x.spec.shape, out.strides, out.offset + at * out.strides[dim])
        )
        at += size
    return windows


def stack_parts(node: Node, out: Place) -> list[Place]:
    """The window of each operand of a stack."""
    dim = node.params["dim"]
    strides = out.strides[:dim] + out.strides[dim + 1 :]
    return [
        Place(out.buffer, x.spec.shape, strides, out.offset + k * out.strides[dim])
        for k, x in enumerate(node.inputs)
    ]


def copies(setting: Setting, node: Node, operands: list[Place], results: list[Place]) -> list[Any]:
    """Copies of the operands that are not where they belong already."""
    template = setting.template(node.record.name)
    assert template.parts is not None
    windows = template.parts(node, results[0])
    return [
        copy_step(setting.target, source, window, node.record.name, x.spec.dtype)
        for x, source, window in zip(node.inputs, operands, windows, strict=True)
        if not is_same(source, window)
    ]


def is_same(source: Place, window: Place) -> bool:
    """Whether two places of one shape are the same elements."""
    return (source.buffer, source.offset) == (window.buffer, window.offset) and lies(
        source, window.strides
    )


def window_of(node: Node, out: Place) -> Place | None:
    """What a chain of views shows of a place."""
    place: Place | None = out
    for record, params in node.params["chain"]:
        place = look(place, record, params) if place is not None else None
    return place


def scatters(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Whether strides can show what the chain of views shows."""
    return known(setting, node, inputs) and window_of(node, virtual(node.outputs[0])) is not None


def scatter_steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Any]:
    """The whole copied, then the part."""
    window = window_of(node, results[0])
    assert window is not None
    target, name = setting.target, node.record.name
    steps = [copy_step(target, operands[1], window, name)]
    if operands[0] != results[0]:
        steps.insert(0, copy_step(target, operands[0], results[0], name))
    return steps


TEMPLATES = {
    "cat": Template(known, nothing_packed, copies, cat_parts, ordered=True, writes_part=anywhere),
    "stack": Template(
        known, nothing_packed, copies, stack_parts, ordered=True, writes_part=anywhere
    ),
    "view_scatter": Template(scatters, nothing_packed, scatter_steps),
}
