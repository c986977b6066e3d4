"""Sums over windows without panels: few output channels in a group, and folds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from adjoint.engine.backends.llvm.templates.convolution import lines_kernel as lines
from adjoint.engine.backends.llvm.templates.convolution import narrow_kernel as narrow
from adjoint.engine.backends.llvm.templates.convolution.geometry import (
    Phase,
    positions,
    tap_offsets,
)
from adjoint.engine.backends.llvm.templates.convolution.windowed import (
    PIECES,
    WalkWords,
    address,
    kind_of,
    parts_of,
    walk_words,
)
from adjoint.engine.backends.llvm.templates.product.tiles import (
    has_wide_registers,
    outer_tile,
    tiled,
)
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.core.spec import pinned
from adjoint.engine.graph.sizes.extents import computed, is_undecided, typical

NARROW = 4  # output channels in a group from which on panels pay
DEEPEST = 1024  # taps times channels without panels, at most
GROUP_BLOCK = 16  # groups in a piece, at least


@dataclass(frozen=True, slots=True)
class TapWeights:
    """The weights of a convolution: groups of rows (output channels) of channels of taps."""

    place: Place
    groups: int
    rows: int
    channels: int
    group_step: int
    row_step: int
    channel_step: int


def is_narrow(rows: int, depth: int) -> bool:
    """Whether a group has so few output channels that panels do not pay."""
    return rows < NARROW and depth <= DEEPEST


def group_parts(groups: int) -> tuple[int, int]:
    """(groups of a piece, parts of the groups): tables are made once for a piece."""
    block = min(groups, max(GROUP_BLOCK, parts_of(groups, 64)))
    return block, parts_of(groups, block)


def narrow_sums(source: Place, weights: TapWeights, out: Place, phase: Phase) -> Launch:
    """The launch of one phase of a convolution."""
    taps = tap_offsets(phase, weights.place.strides[2:], source.strides[2:])
    pairs = [
        (c * weights.channel_step + of, c * source.strides[1] + at)
        for c in range(weights.channels)
        for of, at in taps
    ]
    other = address(weights.place, weights.place.offset)
    steps = (weights.channels * source.strides[1], weights.group_step, weights.row_step)
    launch = sums_launch(source, other, out, phase, (weights.groups, weights.rows), steps, pairs)
    launch.reads += (whole(weights.place.buffer),)
    return launch


def sums_launch(
    source: Place,
    weights: Address | None,
    out: Place,
    phase: Phase,
    sizes: tuple[int, int],
    steps: tuple[int, int, int],
    pairs: list[tuple[int, int]],
) -> Launch:
    """Sums over taps, given as offsets in the weights and in the input; all 1 without weights."""
    kind, (groups, rows) = kind_of(out), sizes
    block, parts = group_parts(groups)
    weighted = weights is not None
    begin, to, walk = walk_words(phase, source, out)
    wide, step = walk[0][-1], walk[1][-1]
    if goes_along_lines(kind, walk):
        count = positions(phase[:-1], out.shape[0])
        # What is part of the code is the same at all sizes of a plan.
        across = pinned(computed(partial(lines.vectors_across, kind), wide, typical(count)))
        size = pinned(computed(lines.lines_together, across, typical(count))), across
        part = computed(lines.lines_of_piece, wide, size[0])
        near, short = walk[2][-1] == 1, wide < outer_tile(kind).lanes
        name = f"lines_{tiled(kind)}_{int(weighted)}_{size[0]}x{across}_{step}_{int(near)}"
        name += "_short" * short
        text = partial(
            lines.line_sums_text,
            kind=kind, weighted=weighted, size=size, step=step, near=near, short=short,
        )  # fmt: skip
    else:
        count, part = positions(phase, out.shape[0]), narrow.CHUNK
        name = f"narrow_{tiled(kind)}_{int(weighted)}"
        text = partial(narrow.sums_text, kind=kind, weighted=weighted)
    pieces = parts_of(count, part) * parts
    words = narrow.NarrowWords(
        begin, weights or 0, to, m=rows, k=len(pairs), positions=count, part=part,
        pieces=pieces, groups=groups, group_block=block, group_parts=parts,
        group_source=steps[0], group_other=steps[1], row_other=steps[2],
        group_target=rows * out.strides[1], row_target=out.strides[1],
        sizes=walk[0], source_steps=walk[1], other_steps=walk[2],
    )  # fmt: skip
    every = positions(phase, out.shape[0])
    return Launch(
        function=name,
        text=text,
        words=[*words.listed(), *(offset for pair in pairs for offset in pair)],
        reads=(whole(source.buffer),),
        writes=(whole(out.buffer),),
        pieces=pieces,
        cost=every * groups * rows * max(len(pairs), 1) / 4,
        label=sized("convolution", groups, rows, every, len(pairs)) if weighted else "fold",
    )


def goes_along_lines(kind: str, walk: WalkWords) -> bool:
    """Whether a result has lines that are each a vector or more, or can be less (Note [lines])."""
    sizes, steps, to_steps = walk
    wide, step, to_step = sizes[-1], steps[-1], to_steps[-1]
    if any(map(is_undecided, (wide, step, to_step))):
        return False
    return (wide >= outer_tile(kind).lanes or has_wide_registers()) and step in lines.STEPS


def narrow_parts(groups: int, count: int) -> tuple[int, int]:
    """(parts, positions of a part): how the positions of a gradient are cut."""
    chunks = parts_of(count, narrow.CHUNK)
    wanted = computed(min, parts_of(2 * PIECES, group_parts(groups)[1]), chunks)
    part = parts_of(chunks, wanted) * narrow.CHUNK
    return parts_of(count, part), part


def narrow_filters(
    source: Place, gradient: Place, out: Place, target: Place, phase: Phase, groups: int
) -> Launch:
    """The launch that makes all parts of a gradient by the weights."""
    kind = kind_of(out)
    rows, channels = out.shape[0] // groups, out.shape[1]
    taps = tap_offsets(phase, None, source.strides[2:])
    offsets = [c * source.strides[1] + at for c in range(channels) for _, at in taps]
    count = positions(phase, gradient.shape[0])
    block, group_count = group_parts(groups)
    parts, part = narrow_parts(groups, count)
    begin, at, walk = walk_words(phase, source, gradient)
    words = narrow.NarrowWords(
        begin, at, address(target, target.offset), m=rows, k=len(offsets), positions=count,
        part=part, pieces=parts * group_count, groups=groups, group_block=block,
        group_parts=group_count, group_source=channels * source.strides[1],
        group_other=rows * gradient.strides[1], row_other=gradient.strides[1],
        group_target=0, row_target=0,
        sizes=walk[0], source_steps=walk[1], other_steps=walk[2],
    )  # fmt: skip
    return Launch(
        function=f"narrow_filters_{tiled(kind)}",
        text=lambda name: narrow.filters_text(name, kind),
        words=[*words.listed(), *(word for offset in offsets for word in (0, offset))],
        reads=(whole(source.buffer), whole(gradient.buffer)),
        writes=(whole(target.buffer),),
        pieces=parts * group_count,
        cost=count * prod(out.shape) / 4,
        label=sized("convolution_weight", groups, rows, len(offsets), count),
    )
