"""Winograd's convolutions: three by three filters with four products a result instead of nine.

Note [winograd]
    Two by two results of a filter of three by three need four by four elements of the input. Both
    are transformed to sixteen points by additions (B d B' and G g G'), at which convolutions are
    products, and summed over channels there:

        y = A' (sum over channels of (G g G') * (B d B')) A

    So sixteen products of matrices, in which tiles of the images are the columns, do the work of
    thirty-six. Gradients by the input are such convolutions of the gradient; those by the filters
    are G' (sum over tiles of (A dy A') * (B d B')) G, by the same points.

    An element of the input reaches the results that it is a term of and no others. So rounding
    errors are relative to a result's own window, though to the largest tap of each filter rather
    than to each tap: about those of the direct way. Channels are summed in chains of some length,
    as errors of sums of one sign grow with the length of a chain. Infinities would become NaN and
    large elements could overflow in sums, so results that are not finite are made again without
    the transforms. Only float32 is computed this way.
"""

from __future__ import annotations

from adjoint.engine.backends.llvm.templates.convolution.geometry import (
    Line,
    Phase,
    positions,
    spread,
)
from adjoint.engine.backends.llvm.templates.convolution.narrow import TapWeights
from adjoint.engine.backends.llvm.templates.convolution.windowed import (
    address,
    kind_of,
    padded,
    parts_of,
    rounded,
)
from adjoint.engine.backends.llvm.templates.convolution.winograd import images_kernel as kernels
from adjoint.engine.backends.llvm.templates.product.tiles import outer_tile, tiled
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.graph.sizes.extents import computed, is_extent, typical

LEAST = 8  # channels on either side, of which transforms need four
FILTER_CYCLES = 80  # to transform one
PIECES = 16  # work is dealt out in at least so many pieces, where it can be


# -- when ---------------------------------------------------------------------------------------


def suits(
    phase: Phase,
    examples: int,
    rows: int,
    channels: int,
    kind: str,
    waste: float | None = None,
    lasts: bool = False,
) -> bool:
    """Whether a phase is a convolution by three by three taps that this way is faster for.

    `waste` is how much larger products are than their operands, rounded up to whole panels: if it
    is not given, those in which tiles are the columns. Filters that `lasts` are transformed once
    for many calls.
    """
    if kind != "f32" or len(phase) != 2 or not all(map(in_a_row, phase)):
        return False
    m, k = typical(rows), typical(channels)
    if min(m, k) < LEAST:
        return False
    count, tiles = (typical(f(phase, examples)) for f in (positions, tile_count))
    if waste is None:
        waste = rounded(tiles, outer_tile(kind).columns) / max(tiles, 1)
    cycles = winograd_cycles(m, k, tiles, waste) - (FILTER_CYCLES * m * k if lasts else 0)
    faster = cycles < direct_cycles(m, k, count)
    # Not only typically: filters are transformed so many channels at a time.
    return faster and channels >= kernels.SIDE


def in_a_row(line: Line) -> bool:
    """Whether a dimension has three neighbouring taps and goes on by one."""
    offsets = sorted(t for _, t in line.taps)
    near = [t - offsets[0] for t in offsets] == [0, 1, 2]
    return near and line.step == 1 and line.to_step == 1


def direct_cycles(m: int, k: int, count: int) -> float:
    """About how long an implicit product takes, in multiply-adds of vectors."""
    return 1.2 * 9 * m * k * count


def winograd_cycles(m: int, k: int, tiles: int, waste: float) -> float:
    """The same of this way: its products, transforms of tiles, of results and of filters."""
    return 1.25 * 16 * m * k * tiles * waste + 110 * (m + k) * tiles + FILTER_CYCLES * m * k


# -- tiles --------------------------------------------------------------------------------------


def tile_grid(phase: Phase) -> tuple[int, ...]:
    """How many tiles there are along each dimension."""
    return tuple(parts_of(line.count, kernels.OUT) for line in phase)


def tile_count(phase: Phase, examples: int) -> int:
    """How many there are in all."""
    down, across = tile_grid(phase)
    return examples * down * across


def start_of(phase: Phase, source: Place) -> int:
    """Where the first tile begins."""
    inner = source.strides[2:]
    return source.offset + sum(line.low * s for line, s in zip(phase, inner, strict=True))


def tile_steps(place: Place) -> list[int]:
    """From a tile to the next: example, coordinates."""
    inner = tuple(s * kernels.OUT for s in place.strides[2:])
    return [place.strides[0], *spread(inner, 0)]


def with_room(x: Place, phase: Phase) -> tuple[Place, list[Launch]]:
    """The input in a place where tiles may reach beyond its edges, its rows contiguous."""
    ranges = [
        (line.low, line.low + n * kernels.OUT + kernels.TAPS - 2)
        for line, n in zip(phase, tile_grid(phase), strict=True)
    ]
    # Sizes that are not known yet decide nothing: there is always a copy.
    copied = x.strides[-1] != 1 or any(map(is_extent, (*x.shape[2:], x.strides[-1])))
    return padded(x, ranges, always=copied)


# -- launches -----------------------------------------------------------------------------------


def winograd_steps(x: Place, weights: TapWeights, out: Place, phase: Phase) -> list[Launch]:
    """Launches of a convolution that `suits`."""
    source, launches = with_room(x, phase)
    kind, tile = kind_of(out), outer_tile(kind_of(out))
    padded_rows = rounded(weights.rows, tile.rows)
    matrix = padded_rows * weights.channels + kernels.SKEW
    size = weights.groups * kernels.POINTS * matrix
    points = PlannedBuffer(ARENA, out.buffer.dtype, size, name="points")
    offsets = filter_offsets(phase, weights.place.strides[2:])
    launches.append(filter_points(weights, padded_rows, matrix, points, offsets, kind))
    launches.append(multiply(source, weights, matrix, points, offsets, out, phase))
    return launches


def filter_offsets(phase: Phase, strides: tuple[int, ...]) -> list[int]:
    """The taps' offsets in the weights, in the order of the input's elements."""
    down, across = (sorted(line.taps, key=lambda tap: tap[1]) for line in phase)
    return [i * strides[0] + j * strides[1] for i, _ in down for j, _ in across]


def filter_points(
    weights: TapWeights,
    padded_rows: int,
    matrix: int,
    points: PlannedBuffer,
    offsets: list[int],
    kind: str,
) -> Launch:
    """Filters transformed."""
    words = kernels.FilterPointWords(
        source=address(weights.place, weights.place.offset), target=Address(points),
        rows=weights.rows, padded_rows=padded_rows, matrix=matrix, channels=weights.channels,
        groups=weights.groups, row_step=weights.row_step, channel_step=weights.channel_step,
        group_step=weights.group_step,
    )  # fmt: skip
    return Launch(
        function=f"filter_points_{tiled(kind)}",
        text=lambda name: kernels.filter_points_text(name, kind),
        words=[*words.listed(), *offsets],
        reads=(whole(weights.place.buffer),),
        writes=(whole(points),),
        pieces=weights.groups * padded_rows,
        cost=2 * points.size,
        label="filter points",
    )


def panels_of(tiles: int, channels: int, columns: int, parts: int) -> int:
    """Panels of a piece: few where there are many channels, or few tiles."""
    some = parts_of(tiles, columns * parts)
    return max(1, min(kernels.PANELS, kernels.ROOM // max(channels, 1), some))


def rows_of(rows: int, column_parts: int, groups: int, tile_rows: int) -> int:
    """Rows of a piece: all, unless there would be too few pieces."""
    parts = min(parts_of(PIECES, column_parts * groups), parts_of(rows, 4 * tile_rows))
    return rounded(parts_of(rows, parts), tile_rows)


def block_of(channels: int, panels: int) -> int:
    """Channels that are transformed together; blocks are of one size."""
    most = kernels.ROOM // panels
    return parts_of(max(channels, 1), parts_of(max(channels, 1), most))


def row_block_of(panels: int, tile_rows: int) -> int:
    """Rows whose products there is room for."""
    return kernels.RESULTS // panels // tile_rows * tile_rows


def multiply(
    source: Place,
    weights: TapWeights,
    matrix: int,
    points: PlannedBuffer,
    offsets: list[int],
    out: Place,
    phase: Phase,
) -> Launch:
    """Tiles transformed, multiplied, and transformed back."""
    kind, groups, rows, channels = kind_of(out), weights.groups, weights.rows, weights.channels
    tile = outer_tile(kind)
    tiles = tile_count(phase, out.shape[0])
    # Cut by shape, never by the number of workers, so that results do not depend on it.
    panels = computed(panels_of, tiles, channels, tile.columns, parts_of(PIECES, groups))
    column_parts = parts_of(tiles, panels * tile.columns)
    part = computed(rows_of, rows, column_parts, groups, tile.rows)
    row_parts = parts_of(rows, part)
    pieces = groups * row_parts * column_parts
    words = kernels.WinogradWords(
        source=address(source, start_of(phase, source)), points=Address(points),
        weights=address(weights.place, weights.place.offset), target=address(out, out.offset),
        m=rows, matrix=matrix, k=channels, tiles=tiles, pieces=pieces, panels=panels,
        rows=part, row_parts=row_parts, column_parts=column_parts,
        row_block=computed(row_block_of, panels, tile.rows),
        block=computed(block_of, channels, panels),
        group_source=channels * source.strides[1], group_weights=weights.group_step,
        group_target=rows * out.strides[1], row_weights=weights.row_step,
        channel_weights=weights.channel_step, channel_source=source.strides[1],
        channel_target=out.strides[1], line_source=source.strides[2],
        line_target=out.strides[2], step_target=out.strides[3],
        height=out.shape[2], width=out.shape[3], sizes=spread(tile_grid(phase)),
        source_steps=tile_steps(source), target_steps=tile_steps(out),
    )  # fmt: skip
    return Launch(
        function=f"winograd_{tiled(kind)}",
        text=lambda name: kernels.winograd_text(name, kind),
        words=[*words.listed(), *offsets],
        reads=(whole(source.buffer), whole(weights.place.buffer), whole(points)),
        writes=(whole(out.buffer),),
        pieces=pieces,
        cost=tiles * groups * rows * channels * 4,
        label=sized("winograd", groups, rows, positions(phase, out.shape[0]), channels * 9),
    )
