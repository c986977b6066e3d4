"""Depthwise convolutions along channels that lie innermost (Note [sums by channels])."""

from __future__ import annotations

from functools import partial
from math import prod

from adjoint.engine.backends.llvm.templates.convolution import channels_kernel as kernels
from adjoint.engine.backends.llvm.templates.convolution.geometry import (
    Phase,
    input_bounds,
    positions,
    tap_offsets,
)
from adjoint.engine.backends.llvm.templates.convolution.narrow import TapWeights
from adjoint.engine.backends.llvm.templates.convolution.walks import RANK
from adjoint.engine.backends.llvm.templates.convolution.windowed import (
    copied_with_zeros,
    is_inside,
    kind_of,
    parts_of,
    rounded,
    walk_words,
)
from adjoint.engine.backends.llvm.templates.product.tiles import tiled
from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer, row_major
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.compiler.target import Setting
from adjoint.engine.graph.sizes.extents import is_extent

PIECES = 16  # work is dealt out in at least so many pieces, where it can be


def goes_along_channels(x: Place, weights: TapWeights, out: Place) -> bool:
    """Whether each channel has a filter of its own, and channels of input and result lie innermost.

    With sizes that are not known yet it does not: whether it does would depend on them.
    """
    numbers = (*x.shape, *x.strides, *out.shape, *out.strides, *weights.place.shape)
    if any(map(is_extent, numbers)) or len(x.shape) - 1 > RANK:
        return False
    if weights.rows != 1 or weights.channels != 1 or not x.strides[1] == out.strides[1] == 1:
        return False
    return kernels.vectors_of(kind_of(out), weights.groups) > 0


def channel_sums(
    setting: Setting, x: Place, weights: TapWeights, out: Place, phases: list[Phase]
) -> list[Launch]:
    """Launches of all phases."""
    source, launches = with_zeros(x, phases)
    kernel = weights.place.shape[2:]
    buffer = PlannedBuffer(ARENA, out.buffer.dtype, prod(kernel) * weights.groups, name="weights")
    rows = row_major(buffer, (*kernel, weights.groups))
    given = Place(
        weights.place.buffer,
        rows.shape,
        (*weights.place.strides[2:], weights.group_step),
        weights.place.offset,
    )
    launches.append(copy_step(setting.target, given, rows, "weights"))
    launches += [phase_sums(source, rows, out, phase) for phase in phases]
    return launches


def with_zeros(x: Place, phases: list[Phase]) -> tuple[Place, list[Launch]]:
    """A place in which all positions of the phases exist; channels are its innermost coordinate."""
    ranges = input_bounds(phases)
    if is_inside(ranges, x.shape[2:]):
        return x, []
    # As images of one channel that have another coordinate.
    shape = (x.shape[0], 1, *x.shape[2:], x.shape[1])
    single = Place(x.buffer, shape, (x.strides[0], 0, *x.strides[2:], 1), x.offset)
    made, launches = copied_with_zeros(single, [*ranges, (0, x.shape[1] - 1)])
    steps = (made.strides[0], 1, *made.strides[2:-1])
    return Place(made.buffer, (*x.shape[:2], *made.shape[2:-1]), steps, made.offset), launches


def phase_sums(source: Place, rows: Place, out: Place, phase: Phase) -> Launch:
    """The launch of one phase."""
    kind, channels = kind_of(out), out.shape[1]
    vectors = kernels.vectors_of(kind, channels)
    together = kernels.positions_together(vectors)
    taps = tap_offsets(phase, rows.strides[:-1], source.strides[2:])
    count = positions(phase, out.shape[0])
    part = min(kernels.CHUNK, rounded(parts_of(count, PIECES), together))
    pieces = parts_of(count, part)
    begin, to, walk = walk_words(phase, source, out)
    words = kernels.ChannelWords(
        begin, Address(rows.buffer), to, channels=channels, taps=len(taps), positions=count,
        part=part, pieces=pieces, sizes=walk[0], source_steps=walk[1], target_steps=walk[2],
    )  # fmt: skip
    return Launch(
        function=f"channel_sums_{tiled(kind)}_{vectors}",
        text=partial(kernels.channel_sums_text, kind=kind, vectors=vectors),
        words=[*words.listed(), *(offset for tap in taps for offset in tap)],
        reads=(whole(source.buffer), whole(rows.buffer)),
        writes=(whole(out.buffer),),
        pieces=pieces,
        cost=count * channels * max(len(taps), 1) / 4,
        label=sized("convolution", channels, 1, count, len(taps)),
    )
