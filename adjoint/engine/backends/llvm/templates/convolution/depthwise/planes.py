"""Depthwise convolutions of images that are read where they lie (Note [image planes])."""

from __future__ import annotations

from functools import partial

from adjoint.engine.backends.llvm.templates.convolution.depthwise import planes_kernel as kernels
from adjoint.engine.backends.llvm.templates.convolution.geometry import (
    Phase,
    positions,
    tap_offsets,
)
from adjoint.engine.backends.llvm.templates.convolution.narrow import TapWeights, group_parts
from adjoint.engine.backends.llvm.templates.convolution.windowed import address, kind_of
from adjoint.engine.backends.llvm.templates.product.tiles import has_wide_registers, tiled
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Launch, sized, whole
from adjoint.engine.graph.sizes.extents import is_extent


def is_by_planes(x: Place, weights: TapWeights, out: Place, phases: list[Phase]) -> bool:
    """Whether each output channel is made of one channel, in lines that lie together.

    How many lines are made at once is the text's, so that many of them have to be known.
    """
    if len(phases) != 1 or not has_wide_registers() or len(x.shape) != 4:
        return False
    written = [n for line in phases[0] for n in (line.low, line.start, line.step)]
    if any(map(is_extent, (out.shape[2], weights.rows, *weights.place.shape, *written))):
        return False
    if weights.channels != 1 or not x.strides[-1] == out.strides[-1] == 1:
        return False
    if max(x.shape[-1], out.shape[-1]) > kernels.LONGEST:
        return False
    taps = all(line.taps for line in phases[0])
    all_lines = all(line.to_step == 1 for line in phases[0])
    return taps and all_lines and kernels.is_written_out(window_of(phases[0]))


def window_of(phase: Phase) -> kernels.TapWindow:
    """What of a phase the text depends on."""
    down, across = (tuple(t - line.low + line.start for _, t in line.taps) for line in phase)
    return kernels.TapWindow(down, across, (phase[0].step, phase[1].step))


def plane_sums(x: Place, weights: TapWeights, out: Place, phase: Phase) -> Launch:
    """The launch of a convolution that `is_by_planes`."""
    kind, (examples, _, lines, line) = kind_of(out), out.shape
    window = window_of(phase)
    tall = kernels.lines_at_once(window, lines)
    block, parts = group_parts(weights.groups)
    words = kernels.ImagePlaneWords(
        source=address(x, x.offset), weights=address(weights.place, weights.place.offset),
        target=address(out, out.offset), groups=weights.groups, rows=weights.rows,
        group_block=block, group_parts=parts, pieces=examples * parts,
        height=x.shape[2], width=x.shape[3], top=phase[0].low, left=phase[1].low,
        lines=lines, line=line, example_source=x.strides[0], group_source=x.strides[1],
        line_source=x.strides[2], group_weights=weights.group_step, row_weights=weights.row_step,
        example_target=out.strides[0], group_target=weights.rows * out.strides[1],
        row_target=out.strides[1], line_target=out.strides[2],
    )  # fmt: skip
    taps = [offset for offset, _ in tap_offsets(phase, weights.place.strides[2:])]
    count = positions(phase, examples)
    return Launch(
        function=f"planes_{tiled(kind)}_{window.name}_{tall}",
        text=partial(kernels.plane_sums_text, kind=kind, window=window, tall=tall),
        words=[*words.listed(), *taps],
        reads=(whole(x.buffer), whole(weights.place.buffer)),
        writes=(whole(out.buffer),),
        pieces=examples * parts,
        cost=count * weights.groups * weights.rows * len(taps) / 4,
        label=sized("convolution", weights.groups, weights.rows, count, len(taps)),
    )
