"""The template of padding with a constant: an element of the result is one of the source, or it.

Elements are moved as whole numbers of as many bits, so that any constant is what it was.
"""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.backends.array.dtypes import bits_in
from adjoint.engine.backends.registers.operations import KIND
from adjoint.engine.backends.triton.launch_words import is_aligned
from adjoint.engine.backends.triton.templates.windows.pooling import (
    BLOCK,
    Walk,
    launch,
    nothing_packed,
    own_places,
)
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Launch
from adjoint.engine.compiler.target import Setting, Template
from adjoint.engine.core.spec import is_known
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.ops.shape.pad import CONSTANT_PAD

FEW = 1 << 18  # elements of a result that small blocks make
SMALL_BLOCK = 256


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """What is on the device, in known sizes."""
    (x,) = inputs
    if not isinstance(x, Value) or x.host or x.spec.device.type != setting.target.device:
        return False
    shapes = (*x.spec.shape, *node.outputs[0].spec.shape)
    return x.spec.dtype.name in KIND and all(is_known(n) and n > 0 for n in shapes)


def source_of(places: list[Place], widths: Any, aligned: list[bool], block: int) -> str:
    """The kernel's text."""
    x, out = places
    kind = f"tl.int{8 * x.buffer.dtype.itemsize}"
    walk = Walk(out, places, aligned, block, kind)
    coordinates, inside = [], ["valid"]
    for d, (n, (before, after)) in enumerate(zip(x.shape, widths, strict=True)):
        coordinates.append(f"(c{d} - {before})" if before else f"c{d}")
        if before > 0:
            inside.append(f"(c{d} >= {before})")
        if after > 0:
            inside.append(f"(c{d} < {n + before})")
    walk.add(
        f"inside = {' & '.join(inside)}",
        f"v = tl.load(p0 + ({walk.at(x, coordinates)}), mask=inside, other=0)",
        f"v = tl.where(inside, v, tl.load(w + {len(places)}).to({kind}))",
        "tl.store(p1 + e, v, mask=valid)",
    )
    return walk.source()


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch."""
    outs, copies = own_places(setting, results)
    places = [*operands, *outs]
    aligned = [is_aligned(setting.target, p) for p in places]
    block = SMALL_BLOCK if prod(outs[0].shape) < FEW else BLOCK
    source = source_of(places, node.params["widths"], aligned, block)
    step = launch(source, CONSTANT_PAD.name, operands, outs, 1, block)
    step.words.append(bits_in(operands[0].buffer.dtype, node.params["value"]))
    return [step, *copies]


TEMPLATES = {CONSTANT_PAD.name: Template(accepts, nothing_packed, steps, ordered=True)}
