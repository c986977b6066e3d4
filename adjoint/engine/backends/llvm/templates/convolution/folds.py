"""The templates of windows laid out as columns, and of columns added up."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from adjoint.engine.backends.llvm.templates.convolution.geometry import (
    Phase,
    forward_phases,
    input_bounds,
    transposed_phases,
)
from adjoint.engine.backends.llvm.templates.convolution.narrow import DEEPEST, sums_launch
from adjoint.engine.backends.llvm.templates.convolution.walks import RANK
from adjoint.engine.backends.llvm.templates.convolution.windowed import KINDS, padded
from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Launch
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.graph.ir import Node, Value


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Floats on the CPU, of up to RANK dimensions and not too many taps."""
    spec, kernel = node.outputs[0].spec, node.params["kernel"]
    return (
        isinstance(inputs[0], Value)
        and spec.dtype.name in KINDS
        and spec.device.type == "cpu"
        and len(kernel) <= RANK
        and prod(kernel) <= DEEPEST
    )


def nothing_packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """The operand may lie anyhow."""
    return set()


def row_major_packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Taps are further channels: the operand must lie in row-major order."""
    return set() if layout(inputs[0]).contiguous else {0}


def unfold_steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """Zeros around the input, then one copy of all its windows, which overlap."""
    out, kernel = results[0], node.params["kernel"]
    phase = forward_phases(node.params, kernel, out.shape[2 + len(kernel) :])[0]
    source, launches = padded(operands[0], input_bounds([phase]))
    inner = source.strides[2:]
    strides = (
        *source.strides[:2],
        *(s * d for s, d in zip(inner, node.params["dilation"], strict=True)),
        *(s * t for s, t in zip(inner, node.params["stride"], strict=True)),
    )
    start = sum(line.start * s for line, s in zip(phase, inner, strict=True))
    windows = Place(source.buffer, out.shape, strides, source.offset + start)
    return [*launches, copy_step(setting.target, windows, out, "unfold")]


def fold_steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """Each element the sum of its taps: a transposed convolution with weights 1."""
    out, kernel = results[0], node.params["kernel"]
    columns, rank, taps = operands[0], len(kernel), prod(kernel)
    counts = columns.shape[2 + rank :]
    shape = (columns.shape[0], columns.shape[1] * taps, *counts)
    strides = (columns.strides[0], prod(counts), *columns.strides[2 + rank :])
    flat = Place(columns.buffer, shape, strides, columns.offset)
    phases = transposed_phases(node.params, kernel, out.shape[2:])
    source, launches = padded(flat, input_bounds(phases))
    for phase in phases:
        pairs = [(0, at) for at in fold_taps(phase, kernel, source)]
        steps = (taps * source.strides[1], 0, 0)
        sizes = (columns.shape[1], 1)
        launches.append(sums_launch(source, None, out, phase, sizes, steps, pairs))
    return launches


def fold_taps(phase: Phase, kernel: tuple[int, ...], source: Place) -> list[int]:
    """The offset of each tap of a phase: of its channel, and within it."""
    offsets = []
    for tap in product(*(line.taps for line in phase)):
        channel = 0
        for (k, _), extent in zip(tap, kernel, strict=True):
            channel = channel * extent + k
        inner = sum(t * s for (_, t), s in zip(tap, source.strides[2:], strict=True))
        offsets.append(channel * source.strides[1] + inner)
    return offsets


TEMPLATES = {
    "unfold_windows": Template(accepts, nothing_packed, unfold_steps),
    "fold_windows": Template(accepts, row_major_packed, fold_steps),
}
