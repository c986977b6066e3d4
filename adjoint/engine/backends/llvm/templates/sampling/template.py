"""The templates of sampling at the points of a grid, and of its gradients."""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.backends.llvm.templates.sampling.kernel import (
    BLOCK,
    SIZES,
    SampleWords,
    Sampling,
)
from adjoint.engine.backends.llvm.templates.sampling.taps import Sampler
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import is_extent

KINDS = {"float32": "f32", "float64": "f64"}
PIECES = 16  # parts of channels, at least, of all images, where there are as many


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Images and grids of one floating dtype on the CPU, in known sizes."""
    for x in inputs:
        if not isinstance(x, Value) or x.host or x.spec.device.type != "cpu":
            return False
        if any(map(is_extent, x.spec.shape)) or 0 in x.spec.shape:
            return False
    dtypes = {x.spec.dtype.name for x in inputs}
    few = prod(inputs[-2].spec.shape[2:]) < 2**31  # pixels, which words of 32 bits count
    return few and len(dtypes) == 1 and dtypes <= KINDS.keys()


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands are read in row-major order."""
    return {i for i, x in enumerate(inputs) if not layout(x).contiguous}


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """A launch of samples, or one of each gradient that is wanted."""
    if len(operands) == 2:
        return [launch(node, "samples", operands, None, results[0])]
    g, *rest = operands
    wanted = [
        what for what, is_so in zip(("image", "grid"), node.params["wanted"], strict=True) if is_so
    ]
    return [launch(node, what, rest, g, out) for what, out in zip(wanted, results, strict=True)]


def address(place: Place) -> Address:
    """Where a place begins."""
    return Address(place.buffer, place.offset * place.buffer.dtype.itemsize)


def launch(node: Node, what: str, operands: list[Place], g: Place | None, out: Place) -> Launch:
    """One launch; points are dealt out among the workers, or channels."""
    x, grid = operands
    (batch, channels, *sizes), rank, params = x.shape, grid.shape[-1], node.params
    points = prod(grid.shape[1:-1])
    sampler = Sampler(
        KINDS[x.buffer.dtype.name], rank, params["interpolation"], params["padding"],
        bool(params["align"]),
    )  # fmt: skip
    parts, part = -(-points // BLOCK), 0
    if what == "image":
        part = -(-channels // min(channels, -(-PIECES // batch)))
        parts = -(-channels // part)
    words = SampleWords(
        x=address(x), grid=address(grid), g=0 if g is None else address(g), out=address(out),
        channels=channels, points=points, pixels=prod(sizes), parts=parts, part=part,
        pieces=batch * parts, sizes=[*reversed(sizes), *[1] * (SIZES - rank)],
    )  # fmt: skip
    return Launch(
        function=f"{what}_{sampler.name}",
        text=lambda name: Sampling(sampler, what).text(name),
        words=words.listed(),
        reads=tuple(whole(place.buffer) for place in (*operands, g) if place is not None),
        writes=(whole(out.buffer),),
        pieces=batch * parts,
        cost=batch * points * (4 * channels + 16) * sampler.count,
        label=sized(f"{node.record.name} {what}", batch, channels, points),
    )


TEMPLATES = dict.fromkeys(
    ("grid_sampler", "grid_sampler_whole", "grid_sampler_gradient"),
    Template(accepts, packed, steps),
)
