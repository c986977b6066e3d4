"""The template of matrix products: which of them one launch does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adjoint.engine.backends.llvm.templates.convolution.windowed import KINDS
from adjoint.engine.backends.llvm.templates.product.described import Lasts, never
from adjoint.engine.backends.llvm.templates.product.tiled import (
    product_steps,
    product_steps_with,
)
from adjoint.engine.backends.llvm.templates.product.tiles import has_wide_registers
from adjoint.engine.compiler.loops.epilogues import Epilogue
from adjoint.engine.compiler.memory.places import Dims, Place, common_batches
from adjoint.engine.compiler.schedule.steps import Launch
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.graph.ir import Node, Value


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Floats on the CPU."""
    spec = node.outputs[0].spec
    return (
        all(isinstance(x, Value) for x in inputs)
        and spec.dtype.name in KINDS
        and spec.device.type == "cpu"
    )


def in_rows(place: Place) -> bool:
    """Whether a product can be written there: rows that are contiguous."""
    return place.shape[-1] == 1 or place.strides[-1] == 1


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands whose batch no two strides describe; matrices themselves may lie anyhow."""
    return {i for i, x in enumerate(inputs) if len(batches(layout(x))) > 2}


def batches(place: Place) -> list[tuple[int, int]]:
    """Batch dimensions, merged where they are stepped through as one: (size, stride)."""
    merged: list[tuple[int, int]] = []
    for n, s in zip(place.shape[:-2], place.strides[:-2], strict=True):
        if n == 1:
            continue
        if merged and merged[-1][1] == s * n:
            merged[-1] = (merged[-1][0] * n, s)
        else:
            merged.append((n, s))
    return merged


def steps_with(
    setting: Setting,
    node: Node,
    operands: list[Place],
    result: Place,
    epilogue: Epilogue,
    stored: bool,
) -> list[Launch] | None:
    """Launches of one product whose last write does more (Note [epilogues])."""
    a, b = operands
    parts = [*products_of(a, b, result)]
    if len(parts) != 1:
        return None
    return product_steps_with(*parts[0], epilogue, stored, lasting_for(setting, result))


def lasting_for(setting: Setting, result: Place) -> Lasts:
    """What tells a product which operands last.

    A matrix that meets one row, once a call, is read as quickly where it lies (in turns of a loop
    it stays in a cache, where panels are quicker).
    """
    once = setting.lasting and not setting.turns and 1 in result.shape[-2:]
    return never if once else setting.lasts


def adds(node: Node) -> bool:
    """Whether a product's tiles begin with another matrix where there is one."""
    return has_wide_registers()


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """Launches of one product, or of several if the batch has more than two ranges."""
    parts, lasts = products_of(*operands, *results), lasting_for(setting, results[0])
    return [launch for part in parts for launch in product_steps(*part, lasts)]


def products_of(a: Place, b: Place, c: Place) -> Iterator[tuple[Place, Place, Place, Dims]]:
    """A product as such with two ranges of a batch; where that shares b, it may be one tall one."""
    dims = common_batches([a, b, c])
    if len(dims) == 1 and dims[0][1][1] == 0:
        joined = one_tall(a, c, dims)
        if joined is not None:
            a, c, dims = *joined, []
    if len(dims) > 2:
        size, strides = dims[0]
        for i in range(size):
            moved = [
                Place(p.buffer, p.shape, p.strides, p.offset + i * s)
                for p, s in zip((a, b, c), strides, strict=True)
            ]
            yield from products_of(*[slice_batch(p, dims[1:], j) for j, p in enumerate(moved)])
        return
    while len(dims) < 2:
        dims = [(1, (0, 0, 0)), *dims]
    yield a, b, c, dims


def one_tall(a: Place, c: Place, dims: Dims) -> tuple[Place, Place] | None:
    """The operand and result of a batch that shares the other operand, as rows of one product."""
    size, (along_a, _, along_c) = dims[0]
    m = a.shape[-2]
    if m == 1:
        rows = along_a, along_c
    elif along_a == a.strides[-2] * m and along_c == c.strides[-2] * m:
        rows = a.strides[-2], c.strides[-2]
    else:
        return None
    tall, result = (
        Place(p.buffer, (size * m, p.shape[-1]), (row, p.strides[-1]), p.offset)
        for p, row in zip((a, c), rows, strict=True)
    )
    return tall, result


def slice_batch(place: Place, dims: Dims, which: int) -> Place:
    """A place with these batch dimensions only."""
    shape = tuple(n for n, _ in dims) + place.shape[-2:]
    strides = tuple(s[which] for _, s in dims) + place.strides[-2:]
    return Place(place.buffer, shape, strides, place.offset)


TEMPLATES = {
    "matmul": Template(
        accepts, packed, steps, writes_to=in_rows, epilogue=steps_with, adds=adds
    )
}  # fmt: skip
