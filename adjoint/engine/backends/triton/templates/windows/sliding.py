"""The templates of windows laid out, and added up where they overlap: unfold, fold, frames.

Laid out, an element of a window is read where it lies. Added up, an element of the source goes
through the windows that show it: so nobody adds to what another program writes, and the order of
sums is always the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from adjoint.engine.backends.registers.operations import KIND
from adjoint.engine.backends.triton.code import memory_type
from adjoint.engine.backends.triton.launch_words import is_aligned
from adjoint.engine.backends.triton.templates.windows.pooling import (
    BLOCK,
    FLOATS,
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
from adjoint.engine.ops.image.fold import FOLD_WINDOWS, UNFOLD_WINDOWS
from adjoint.engine.ops.shape.frames import FRAME, OVERLAP_ADD

MOST = 1 << 12  # windows that show an element
FEW = 1 << 18  # elements of a result that small blocks make
SMALL_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Slide:
    """Windows along a dimension: where they lie in the source, and in what holds them."""

    dim: int  # of the source
    tap: int  # the dimension that goes through a window
    count: int  # the one that goes from window to window
    taps: int
    windows: int
    size: int  # of the source
    step: int
    before: int  # how far before the source the first one begins
    dilation: int

    @property
    def tries(self) -> int:
        """How many places of windows an element of the source may be at."""
        return self.taps if self.dilation > 1 else -(-self.taps // self.step)


def slides_of(node: Node) -> tuple[list[Slide], int]:
    """The windows of a node, and how many dimensions are before them."""
    params, lays_out = node.params, node.record in (FRAME, UNFOLD_WINDOWS)
    (x,), out = node.inputs, node.outputs[0]
    source, held = (x, out) if lays_out else (out, x)
    shape, windows = source.spec.shape, held.spec.shape
    if node.record in (FRAME, OVERLAP_ADD):
        d = len(shape) - 1
        return [Slide(d, d + 1, d, windows[-1], windows[-2], shape[d], params["hop"], 0, 1)], d
    rank = len(params["kernel"])
    return [
        Slide(
            2 + k, 2 + k, 2 + rank + k, windows[2 + k], windows[2 + rank + k], shape[2 + k],
            params["stride"][k], params["padding"][k][0], params["dilation"][k],
        )
        for k in range(rank)
    ], 2  # fmt: skip


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """What is on the device, in known sizes; of sums floats, in windows that are not too many."""
    (x,) = inputs
    if not isinstance(x, Value) or x.host or x.spec.device.type != setting.target.device:
        return False
    shapes = (*x.spec.shape, *node.outputs[0].spec.shape)
    if x.spec.dtype.name not in KIND or not all(is_known(n) and n > 0 for n in shapes):
        return False
    if node.record in (FRAME, UNFOLD_WINDOWS):
        return True
    slides, _ = slides_of(node)
    return x.spec.dtype.name in FLOATS and prod(slide.tries for slide in slides) <= MOST


def laid_out(walk: Walk, x: Place, slides: list[Slide], lead: int) -> str:
    """Lines that read an element of a window; the name of what they read."""
    coordinates, inside = [f"c{d}" for d in range(lead)], ["valid"]
    for k, s in enumerate(slides):
        walk.add(f"q{k} = c{s.count} * {s.step} + c{s.tap} * {s.dilation} - {s.before}")
        first, end = -s.before, (s.windows - 1) * s.step + (s.taps - 1) * s.dilation - s.before
        if first < 0:
            inside.append(f"(q{k} >= 0)")
        if end >= s.size:
            inside.append(f"(q{k} < {s.size})")
        coordinates.append(f"q{k}")
    place = walk.at(x, coordinates)
    walk.add(f"v = tl.load(p0 + ({place}), mask={' & '.join(inside)}, other=0)")
    return "v"


def added_up(walk: Walk, x: Place, slides: list[Slide], lead: int) -> str:
    """Lines that add what windows have at an element of the source; the name of the sum."""
    wide = "tl.float64" if x.buffer.dtype.name == "float64" else "tl.float32"
    walk.add(f"total = tl.full(({walk.block},), 0.0, {wide})")
    coordinates: list[str] = [f"c{d}" for d in range(len(x.shape))]
    mask, deep = "valid", ""
    for k, s in enumerate(slides):
        lines = [f"for t{k} in range({s.tries}):"]
        at = f"c{s.dim} + {s.before}"
        if s.dilation > 1:
            lines += [
                f"    r{k} = {at} - t{k} * {s.dilation}",
                f"    n{k} = r{k} // {s.step}",
                f"    a{k} = t{k} + r{k} * 0",
                f"    h{k} = {mask} & (r{k} >= 0) & (r{k} % {s.step} == 0) & (n{k} < {s.windows})",
            ]
        else:
            lines += [
                f"    n{k} = ({at}) // {s.step} - t{k}",
                f"    a{k} = {at} - n{k} * {s.step}",
                f"    h{k} = {mask} & (n{k} >= 0) & (n{k} < {s.windows}) & (a{k} < {s.taps})",
            ]
        walk.add(*[deep + line for line in lines])
        coordinates[s.tap], coordinates[s.count] = f"a{k}", f"n{k}"
        mask, deep = f"h{k}", f"{deep}    "
    place = walk.at(x, coordinates)
    walk.add(f"{deep}total += tl.load(p0 + ({place}), mask={mask}, other=0).to({wide})")
    return "total"


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch."""
    outs, copies = own_places(setting, results)
    (x,), (out,) = operands, outs
    slides, lead = slides_of(node)
    block = SMALL_BLOCK if prod(out.shape) < FEW else BLOCK
    walk = Walk(out, [x, out], [is_aligned(setting.target, p) for p in (x, out)], block)
    lays_out = node.record in (FRAME, UNFOLD_WINDOWS)
    write: Callable[..., str] = laid_out if lays_out else added_up
    found = write(walk, x, slides, lead)
    walk.add(f"tl.store(p1 + e, {found}.to({memory_type(out.buffer.dtype.name)}), mask=valid)")
    count = 1 if lays_out else prod(slide.tries for slide in slides)
    return [launch(walk.source(), node.record.name, operands, outs, count, block), *copies]


TEMPLATES = dict.fromkeys(
    [r.name for r in (FRAME, OVERLAP_ADD, UNFOLD_WINDOWS, FOLD_WINDOWS)],
    Template(accepts, nothing_packed, steps, ordered=True),
)
