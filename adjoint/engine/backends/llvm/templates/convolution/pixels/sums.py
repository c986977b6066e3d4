"""Convolutions of images whose channels lie innermost (Note [pixels])."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from adjoint.engine.backends.llvm.templates.convolution.geometry import (
    Line,
    Phase,
    input_bounds,
    positions,
    tap_offsets,
)
from adjoint.engine.backends.llvm.templates.convolution.narrow import TapWeights
from adjoint.engine.backends.llvm.templates.convolution.pixels import along_kernel, weights_kernel
from adjoint.engine.backends.llvm.templates.convolution.pixels import sums_kernel as kernels
from adjoint.engine.backends.llvm.templates.convolution.pixels.pieces_kernel import (
    MOST_TAPS,
    POSITIONS,
    PixelForm,
    PixelWords,
)
from adjoint.engine.backends.llvm.templates.convolution.pixels.winograd import (
    winograd_pixel_sums,
    wins,
)
from adjoint.engine.backends.llvm.templates.convolution.windowed import (
    KINDS,
    address,
    kind_of,
    padded,
    parts_of,
    rounded,
    walk_words,
)
from adjoint.engine.backends.llvm.templates.product.ending import Ending
from adjoint.engine.backends.llvm.templates.product.tiles import (
    has_wide_registers,
    outer_tile,
    tiled,
)
from adjoint.engine.backends.registers.vector import width
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.graph.sizes.extents import is_extent

PIECES = 8  # work is dealt out in at least so many pieces, where it can be
LEAST = 8  # channels that a pixel is read along
TOGETHER = 2  # positions of a depthwise convolution
FAR = 1 << 20  # bytes of weights that no near cache keeps from call to call
HIGH = 3  # vectors of a strip, below which rows take as long as strips of Note [strips], or longer
FULL = 0.75  # of the lanes of strips, that have an output channel


def vectors_of(rows: int, lanes: int) -> int:
    """Vectors of output channels in a strip: as many as leave the fewest lanes empty."""
    return min(kernels.HEIGHTS, key=lambda vectors: (rounded(rows, vectors * lanes), -vectors))


def height_of(vectors: int, count: int) -> int:
    """Pixels of a tile: as many as leave the fewest rows of the last empty."""
    return min(kernels.HEIGHTS[vectors], key=lambda rows: (rounded(count, rows), -rows))


def fills_strips(rows: int, lanes: int) -> bool:
    """Whether output channels fill the lanes of strips well enough."""
    return rows >= FULL * rounded(rows, vectors_of(rows, lanes) * lanes)


def goes_by_pixels(x: Place, weights: TapWeights, out: Place, phases: list[Phase]) -> bool:
    """Whether channels of input and result are neighbours, enough of them."""
    numbers = (*x.shape, *x.strides, *out.shape, *out.strides, *weights.place.shape)
    if any(map(is_extent, (*numbers, *weights.place.strides))) or not has_wide_registers():
        return False
    if len(x.shape) not in (3, 4) or not x.strides[1] == out.strides[1] == 1:
        return False
    taps = max(len(tap_offsets(phase)) for phase in phases)
    full = fills_strips(weights.rows, outer_tile(kind_of(out)).lanes)
    return weights.channels >= LEAST and 0 < taps <= MOST_TAPS and full


def pixel_way(
    x: Place, weights: TapWeights, out: Place, phases: list[Phase]
) -> Callable[..., list[Launch]] | None:
    """What makes the launches of a convolution by kept weights if its images are pixels."""
    if goes_along_pixels(x, weights, out, phases):
        return along_sums
    if goes_by_rows(x, weights, out, phases):
        return row_sums
    return pixel_sums if goes_by_pixels(x, weights, out, phases) else None


@dataclass(frozen=True, slots=True)
class PixelStrips:
    """Weights of one phase in strips."""

    buffer: PlannedBuffer
    zeros: PlannedBuffer
    vectors: int
    count: int  # of strips of a group


def pixel_sums(
    x: Place, weights: TapWeights, out: Place, phases: list[Phase], ending: Ending | None = None
) -> list[Launch]:
    """Launches of all phases; only one phase may have an ending."""
    launches = []
    vectors = vectors_of(weights.rows, outer_tile(kind_of(out)).lanes)
    if len(phases) == 1 and wins(phases[0], weights, out):
        return winograd_pixel_sums(x, weights, out, phases[0], vectors, ending)
    for phase in phases:
        strips, launch = in_strips(weights, phase, kind_of(out), vectors)
        launches += [launch, multiply(x, weights, strips, out, phase, ending)]
    return launches


def goes_by_rows(x: Place, weights: TapWeights, out: Place, phases: list[Phase]) -> bool:
    """Whether few channels lie in rows, of which taps are neighbours, and those of the result are
    neighbours: a network's first convolution."""
    numbers = (*x.shape, *x.strides, *out.shape, *out.strides, *weights.place.shape)
    if any(map(is_extent, (*numbers, *weights.place.strides))) or not has_wide_registers():
        return False
    if len(x.shape) != 4 or out.strides[1] != 1 or len(phases) != 1 or weights.groups != 1:
        return False
    down, across = phases[0]
    near = [t for _, t in across.taps] == list(range(len(across.taps)))
    taps = weights.channels * len(down.taps)
    lanes = outer_tile(kind_of(out)).lanes
    full = fills_strips(weights.rows, lanes) and vectors_of(weights.rows, lanes) >= HIGH
    few = weights.channels < LEAST and taps <= MOST_TAPS
    return few and near and len(across.taps) > 1 and full


def row_sums(
    x: Place, weights: TapWeights, out: Place, phases: list[Phase], ending: Ending | None = None
) -> list[Launch]:
    """Launches of a convolution that `goes_by_rows`.

    It is one of pixels whose channels are the taps along a row, and whose coordinates are channel,
    row, and where a row's taps begin. Zeros are laid around, as such pixels lie across the edge.
    """
    phase, given = phases[0], weights.place
    source, launches = padded(x, input_bounds(phases), always=x.strides[-1] != 1)
    along = len(phase[1].taps)
    deep = Line(1, 0, 1, 0, 1, tuple((c, c) for c in range(weights.channels)))
    first = replace(phase[1], taps=phase[1].taps[:1])
    (n, channels, *sizes), (example, channel, line, step) = source.shape, source.strides
    images = Place(
        source.buffer, (n, along, channels, *sizes), (example, step, channel, line, step),
        source.offset,
    )  # fmt: skip
    shape = (given.shape[0], along, weights.channels, len(phase[0].taps), 1)
    steps = (weights.row_step, given.strides[3], weights.channel_step, given.strides[2], 0)
    filters = replace(
        weights, place=Place(given.buffer, shape, steps, given.offset), channels=along,
        channel_step=given.strides[3],
    )  # fmt: skip
    (n, rows, *counts), (example, row, *of_counts) = out.shape, out.strides
    results = Place(out.buffer, (n, rows, 1, *counts), (example, row, 0, *of_counts), out.offset)
    vectors = vectors_of(weights.rows, outer_tile(kind_of(out)).lanes)
    lines = (deep, phase[0], first)
    strips, launch = in_strips(filters, lines, kind_of(out), vectors)
    last = multiply(images, filters, strips, results, lines, ending, exist=True)
    return [*launches, launch, last]


def in_strips(
    weights: TapWeights, phase: Phase, kind: str, vectors: int
) -> tuple[PixelStrips, Launch]:
    """Weights into strips of so many vectors."""
    dtype, lanes = weights.place.buffer.dtype, outer_tile(kind).lanes
    taps = [offset for offset, _ in tap_offsets(phase, weights.place.strides[2:])]
    count = parts_of(weights.rows, vectors * lanes)
    size = weights.groups * count * len(taps) * weights.channels * vectors * lanes
    buffer = PlannedBuffer(ARENA, dtype, size, name="strips")
    row = max(weights.channels, count * vectors * lanes)  # any pixel, of either kind of sums
    zeros = PlannedBuffer(ARENA, dtype, row, name="zeros")
    words = weights_kernel.PixelWeightWords(
        source=address(weights.place, weights.place.offset), target=Address(buffer),
        zeros=Address(zeros), rows=weights.rows, channels=weights.channels, taps=len(taps),
        strips=count, pieces=weights.groups * count, zero_count=row, row_step=weights.row_step,
        channel_step=weights.channel_step, group_step=weights.group_step,
    )  # fmt: skip
    launch = Launch(
        function=f"pixel_weights_{tiled(kind)}_{vectors}",
        text=partial(weights_kernel.weights_text, kind=kind, vectors=vectors),
        words=[*words.listed(), *taps],
        reads=(whole(weights.place.buffer),),
        writes=(whole(buffer), whole(zeros)),
        pieces=weights.groups * count,
        cost=size,
        label="strips",
    )
    return PixelStrips(buffer, zeros, vectors, count), launch


def along_sums(
    x: Place, weights: TapWeights, out: Place, phases: list[Phase], ending: Ending | None = None
) -> list[Launch]:
    """Launches of a depthwise convolution that `goes_along_pixels`: all its filters are a group's
    output channels, of one channel each."""
    as_rows = replace(weights, groups=1, rows=weights.groups, row_step=weights.group_step)
    strips, launch = in_strips(as_rows, phases[0], kind_of(out), along_vectors(weights, phases[0]))
    return [launch, multiply(x, as_rows, strips, out, phases[0], ending, along=True)]


def along_vectors(weights: TapWeights, phase: Phase) -> int:
    """Vectors of channels in a strip, of which all weights are in registers."""
    lanes = outer_tile(KINDS[weights.place.buffer.dtype.name]).lanes
    most = max(1, along_kernel.IN_REGISTERS // len(tap_offsets(phase)))
    return min(range(1, min(most, 4) + 1), key=lambda n: (rounded(weights.groups, n * lanes), -n))


def goes_along_pixels(x: Place, weights: TapWeights, out: Place, phases: list[Phase]) -> bool:
    """Whether each channel has a filter of its own, and channels of input and result lie innermost,
    enough of them."""
    numbers = (*x.shape, *x.strides, *out.shape, *out.strides, *weights.place.shape)
    if any(map(is_extent, (*numbers, *weights.place.strides))) or not has_wide_registers():
        return False
    if len(x.shape) not in (3, 4) or not x.strides[1] == out.strides[1] == 1:
        return False
    if weights.rows != 1 or weights.channels != 1 or len(phases) != 1:
        return False
    full = weights.groups >= FULL * rounded(weights.groups, outer_tile(kind_of(out)).lanes)
    return full and 0 < len(tap_offsets(phases[0])) <= along_kernel.MOST_TAPS


def multiply(
    x: Place,
    weights: TapWeights,
    strips: PixelStrips,
    out: Place,
    phase: Phase,
    ending: Ending | None,
    along: bool = False,
    exist: bool = False,
) -> Launch:
    """The sums of one phase; `along` pixels, each channel by its own weights.

    Unless all pixels that are read `exist`, there are zeros in place of some.
    """
    kind, groups, rows, channels = kind_of(out), weights.groups, weights.rows, weights.channels
    lanes, vectors = outer_tile(kind).lanes, strips.vectors
    count = positions(phase, out.shape[0])
    # Cut by shape, never by the number of workers, so that results do not depend on it.
    height = TOGETHER if along else height_of(vectors, count)
    most = POSITIONS // height * height
    wanted = parts_of(PIECES, groups * strips.count)
    part = min(most, rounded(parts_of(count, wanted), height))
    position_parts = parts_of(count, part)
    strip_parts = min(parts_of(PIECES, position_parts * groups), strips.count)
    strip_part = parts_of(strips.count, strip_parts)
    strip_parts = parts_of(strips.count, strip_part)
    pieces = groups * strip_parts * position_parts
    taps = [offset for _, offset in tap_offsets(phase, None, x.strides[2:])]
    tap_block, channel_block, turns = blocks_of(channels, len(taps), vectors, kind)
    turns = len(taps) if along else turns
    weights_bytes = strips.buffer.nbytes
    ahead = not along and weights_bytes > FAR
    form = PixelForm(kind, vectors, height, turns, rows % (lanes * vectors) > 0, ending, ahead)
    begin, to, walk = walk_words(phase, x, out)
    plane: list[Any] = [(1, 0, 0, (0,))] * (2 - len(phase))
    lines: list[Any] = [
        (n, at.start, at.step, [t for _, t in at.taps])
        for n, at in zip(x.shape[2:], phase, strict=True)
    ]
    (high, top, down, ys), (wide, left, across, xs) = (plane + lines)[-2:]
    if exist:
        top, left, high, wide = FAR, FAR, 2 * FAR, 2 * FAR
    before = len(taps) // (len(ys) * len(xs))  # taps of a coordinate before those two
    # A result of which only an epilogue's are written lies nowhere.
    target: Any = to if ending is None else 0
    words = PixelWords(
        begin, Address(strips.buffer), Address(strips.zeros), target, m=rows, channels=channels,
        taps=len(taps), positions=count, pieces=pieces, part=part, position_parts=position_parts,
        strip_part=strip_part, strip_parts=strip_parts, strip_count=strips.count,
        tap_block=tap_block, channel_block=channel_block, group_source=channels,
        group_target=rows, height=high, width=wide, starts=[top, left], steps=[down, across],
        sizes=walk[0], source_steps=walk[1], target_steps=walk[2],
    ).listed()  # fmt: skip
    more: list[Any] = [] if ending is None else ending.words
    coordinates = [(y, z) for _ in range(before) for y in ys for z in xs]
    entries = [n for (y, z), offset in zip(coordinates, taps, strict=True) for n in (y, z, offset)]
    reads, writes = (
        [whole(x.buffer), whole(strips.buffer), whole(strips.zeros)],
        [whole(out.buffer)],
    )
    label: Any = sized("convolution", groups, rows, count, channels * len(taps))
    if ending is not None:
        refs = ending.epilogue.refs
        reads += [whole(ref.buffer) for ref in refs if ref is not None]
        writes = [whole(ref.buffer) for _, ref in ending.epilogue.stores]
        label = (*label, "+" + "+".join(ending.epilogue.origin))
    return Launch(
        function=f"{'along_pixels' if along else 'pixel_sums'}_{tiled(kind)}_{form.name}",
        text=partial(along_kernel.along_text if along else kernels.pixels_text, form=form),
        words=[*words, *more, *entries],
        reads=tuple(reads),
        writes=tuple(writes),
        pieces=pieces,
        cost=count * groups * rows * channels * len(taps) / 4,
        label=label,
    )


def blocks_of(channels: int, taps: int, vectors: int, kind: str) -> tuple[int, int, int]:
    """Taps and channels that are summed together, and channels of a turn."""
    columns = vectors * outer_tile(kind).lanes
    most = min(kernels.CHAIN, kernels.PART_BYTES // (columns * width(kind) // 8))
    turns = kernels.TURNS if channels % kernels.TURNS == 0 else 1
    turns = channels if channels < LEAST else turns
    if channels > most:
        return 1, rounded(parts_of(channels, parts_of(channels, most)), turns), turns
    some = max(1, most // channels)
    return parts_of(taps, parts_of(taps, some)), channels, turns
