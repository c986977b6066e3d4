"""Gradients of convolutions by their weights."""

from __future__ import annotations

from math import prod

from adjoint.engine.backends.llvm.templates.convolution import filters_kernel as filters
from adjoint.engine.backends.llvm.templates.convolution.geometry import (
    Phase,
    forward_phases,
    input_bounds,
    positions,
    tap_offsets,
)
from adjoint.engine.backends.llvm.templates.convolution.narrow import (
    is_narrow,
    narrow_filters,
    narrow_parts,
)
from adjoint.engine.backends.llvm.templates.convolution.windowed import (
    PIECES,
    address,
    kind_of,
    lies_turned,
    padded,
    parts_of,
    rounded,
    walk_words,
)
from adjoint.engine.backends.llvm.templates.convolution.winograd.filters import (
    filter_steps,
    filters_suit,
)
from adjoint.engine.backends.llvm.templates.product.parts import sum_parts
from adjoint.engine.backends.llvm.templates.product.tiles import inner_tile, tiled
from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer, row_major
from adjoint.engine.compiler.schedule.steps import Launch, sized, whole
from adjoint.engine.compiler.target import Setting
from adjoint.engine.graph.ir import Node
from adjoint.engine.graph.sizes.extents import computed, is_extent

COLUMNS = 576  # taps times channels in a piece


def by_weight(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """Launches of the gradient by the weights; `operands` are input and gradient."""
    x, gradient = operands
    out = results[0]
    groups = node.params["groups"]
    phase = forward_phases(node.params, out.shape[2:], gradient.shape[2:])[0]
    if filters_suit(phase, x.shape[0], out, groups):
        return filter_steps(x, gradient, out, phase, groups)
    if not out.contiguous:  # as it is made
        made = PlannedBuffer(ARENA, out.buffer.dtype, prod(out.shape), name="filters")
        rows = row_major(made, out.shape)
        steps = by_weight(setting, node, operands, [rows])
        return [*steps, copy_step(setting.target, rows, out, "filters")]
    source, launches = padded(x, input_bounds([phase]), always=lies_turned(x))
    whole_images = [(0, n - 1) for n in gradient.shape[2:]]
    gradient, more = padded(gradient, whole_images, always=lies_turned(gradient))
    launches += more
    count = positions(phase, x.shape[0])
    few = is_narrow(out.shape[0] // groups, prod(out.shape[1:]))
    parts = narrow_parts(groups, count)[0] if few else Parts(out, groups, count).parts
    target = out
    several = is_extent(parts) or parts > 1  # one part may be summed as well
    if several:
        buffer = PlannedBuffer(ARENA, out.buffer.dtype, parts * prod(out.shape), name="parts")
        target = row_major(buffer, (parts, *out.shape))
    if few:
        launches.append(narrow_filters(source, gradient, out, target, phase, groups))
    else:
        launches.append(filters_launch(source, gradient, out, target, phase, groups))
    if several:
        starts = address(target, target.offset), address(out, out.offset)
        launches.append(sum_parts(kind_of(out), *starts, prod(out.shape), parts))
    return launches


def filters_launch(
    source: Place, gradient: Place, out: Place, target: Place, phase: Phase, groups: int
) -> Launch:
    """The launch that makes all parts of `target`."""
    kind = kind_of(out)
    cut = Parts(out, groups, positions(phase, gradient.shape[0]))
    begin, at, walk = walk_words(phase, source, gradient)
    words = filters.FilterWords(
        begin, at, address(target, target.offset), m=cut.rows, k=cut.columns,
        tap_count=cut.taps, positions=cut.positions, part=cut.part, block=cut.block,
        pieces=cut.pieces, rows=cut.row_part, row_parts=cut.row_parts, columns=cut.column_part,
        column_parts=cut.column_parts, groups=groups,
        group_source=out.shape[1] * source.strides[1],
        group_gradient=cut.rows * gradient.strides[1],
        channel_source=source.strides[1], channel_gradient=gradient.strides[1],
        sizes=walk[0], source_steps=walk[1], gradient_steps=walk[2],
    )  # fmt: skip
    taps = [offset for _, offset in tap_offsets(phase, None, source.strides[2:])]
    return Launch(
        function=f"filters_{tiled(kind)}",
        text=lambda name: filters.filters_text(name, kind),
        words=[*words.listed(), *taps],
        reads=(whole(source.buffer), whole(gradient.buffer)),
        writes=(whole(target.buffer),),
        pieces=cut.pieces,
        cost=cut.positions * groups * cut.rows * cut.columns / 4,
        label=sized("convolution_weight", groups, cut.rows, cut.columns, cut.positions),
    )


class Parts:
    """How a gradient by the weights is cut into pieces: by its shape alone."""

    def __init__(self, out: Place, groups: int, count: int) -> None:
        kind = kind_of(out)
        tile = inner_tile(kind)
        self.rows = out.shape[0] // groups
        self.taps = prod(out.shape[2:])
        self.columns = out.shape[1] * self.taps
        self.positions = count
        self.row_part = min(filters.ROWS, rounded(self.rows, tile.rows))
        self.row_parts = parts_of(self.rows, self.row_part)
        self.column_part = rounded(COLUMNS, tile.vectors)
        self.column_parts = parts_of(self.columns, self.column_part)
        whole_pieces = groups * self.row_parts * self.column_parts
        largest = filters.block_size(kind)
        wanted = computed(min, parts_of(PIECES, whole_pieces), parts_of(count, largest // 2))
        # Blocks of one size, so that none is a small rest.
        self.part = rounded(parts_of(count, wanted), tile.lanes)
        self.parts = parts_of(count, self.part)
        self.block = rounded(parts_of(self.part, parts_of(self.part, largest)), tile.lanes)
        self.pieces = whole_pieces * self.parts
