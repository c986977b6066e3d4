"""Convolutions by tiles of some positions and vectors of output channels (Note [strips])."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from adjoint.engine.backends.llvm.templates.convolution import strips_kernel as kernels
from adjoint.engine.backends.llvm.templates.convolution.geometry import (
    Phase,
    positions,
    tap_offsets,
)
from adjoint.engine.backends.llvm.templates.convolution.narrow import TapWeights
from adjoint.engine.backends.llvm.templates.convolution.windowed import (
    KINDS,
    address,
    kind_of,
    parts_of,
    rounded,
    walk_words,
)
from adjoint.engine.backends.llvm.templates.product.tiles import (
    has_wide_registers,
    outer_tile,
    tiled,
)
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer, row_major
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.core.dtype import int64
from adjoint.engine.graph.sizes.extents import computed, is_extent

PIECES = 8  # work is dealt out in at least so many pieces, where it can be
LATE = 2  # pieces that use the same weights, at most, where each turns them itself
VECTORS = (2, 3, 1)  # of a strip: the first of those that leave the fewest lanes empty


def vectors_of(rows: int, lanes: int) -> int:
    """Vectors of output channels in a strip."""
    return min(VECTORS, key=lambda vectors: rounded(rows, vectors * lanes))


def lies_in_strips(weights: TapWeights, out: Place) -> bool:
    """Whether output channels fill the lanes of wide registers well enough."""
    rows = weights.rows
    if not has_wide_registers() or is_extent(rows):
        return False
    lanes = outer_tile(kind_of(out)).lanes
    padded = rounded(rows, vectors_of(rows, lanes) * lanes)
    return 4 * rows >= 3 * padded


def are_contiguous(weights: TapWeights, taps: list[tuple[int, int]]) -> bool:
    """Whether weights of all channels and taps of an output channel are neighbours, in order."""
    near = [of for of, _ in taps] == list(range(len(taps)))
    return near and (weights.channels == 1 or weights.channel_step == len(taps))


def are_turned_late(weights: TapWeights, strips: int, count: int) -> bool:
    """Whether strips are so many, and positions so few, that each piece turns its own weights."""
    known = not is_extent(count) and not is_extent(weights.row_step) and weights.row_step != 0
    return known and weights.groups * strips >= PIECES and count <= LATE * kernels.POSITIONS


@dataclass(frozen=True, slots=True)
class Strips:
    """Weights of one phase as its sums read them: in strips, or still as they lie."""

    phase: Phase
    taps: list[tuple[int, int]]
    vectors: int  # of a strip
    count: int  # of strips of a group
    depth: int
    apart: int  # from a strip to the next
    buffer: PlannedBuffer
    start: Address
    table: PlannedBuffer  # of taps
    near: bool  # whether weights of an output channel are neighbours
    late: bool  # whether they lie in rows yet
    elsewhere: bool  # whether they are turned by another launch


def strip_sums(
    source: Place, weights: TapWeights, out: Place, phases: list[Phase], lasts: bool = False
) -> list[Launch]:
    """Weights into strips, and tables of taps; then the sums of each phase.

    Weights that `lasts` are turned for many calls, so no piece turns its own.
    """
    together = lie_in_blocks(weights)
    strips = [strips_of(source, weights, out, phase, together, lasts) for phase in phases]
    launches = [turn_blocks(weights, strips)] if together else []
    for some in strips:
        launches.append(pack(weights, some, source))
        launches.append(multiply(source, weights, some, out))
    return launches


def strips_of(
    source: Place, weights: TapWeights, out: Place, phase: Phase, together: bool, lasts: bool
) -> Strips:
    """Where weights of a phase are read; `together` they are turned for all phases."""
    dtype, kind = out.buffer.dtype, kind_of(out)
    vectors = vectors_of(weights.rows, outer_tile(kind).lanes)
    tile = kernels.strip_tile(kind, vectors)
    taps = tap_offsets(phase, weights.place.strides[2:], source.strides[2:])
    depth, count = weights.channels * len(taps), parts_of(weights.rows, tile.columns)
    apart = rounded(depth, tile.lanes) * tile.columns
    near = are_contiguous(weights, taps)
    late = near and not lasts and are_turned_late(weights, count, positions(phase, out.shape[0]))
    buffer, start = weights.place.buffer, address(weights.place, weights.place.offset)
    if not late:
        size = max(weights.groups * count * apart, 1)
        buffer = PlannedBuffer(ARENA, dtype, size, name="strips")
        start = Address(buffer)
    table = PlannedBuffer(ARENA, int64, max(depth, 1), name="taps")
    return Strips(
        phase, taps, vectors, count, depth, apart, buffer, start, table, near, late,
        elsewhere=late or together,
    )  # fmt: skip


def lie_in_blocks(weights: TapWeights) -> bool:
    """Whether all taps of an output channel are neighbours, and those of the next come after them.

    So weights of transposed convolutions lie, of which each phase wants some taps.
    """
    place, taps = weights.place, prod(weights.place.shape[2:])
    if any(map(is_extent, (*place.shape, *place.strides))) or weights.channels == 1:
        return False
    near = place.strides[2:] == row_major(place.buffer, place.shape).strides[2:]
    return near and 1 < taps <= kernels.MOST_TAPS and weights.row_step == taps


def turn_blocks(weights: TapWeights, phases: list[Strips]) -> Launch:
    """Weights that lie in blocks into the strips of all phases."""
    kind = KINDS[weights.place.buffer.dtype.name]
    first = phases[0]
    columns = kernels.strip_tile(kind, first.vectors).columns
    entries = [
        word
        for strips in phases
        for k, (tap, _) in enumerate(strips.taps)
        for word in (
            tap, Address(strips.buffer, k * columns * strips.buffer.dtype.itemsize),
            len(strips.taps) * columns, strips.apart, strips.count * strips.apart,
        )
    ]  # fmt: skip
    channel_part = parts_of(weights.channels, parts_of(PIECES, weights.groups))
    channel_parts = parts_of(weights.channels, channel_part)
    words = kernels.BlockWords(
        source=address(weights.place, weights.place.offset), rows=weights.rows,
        channels=weights.channels, taps=prod(weights.place.shape[2:]),
        entries=len(entries) // kernels.ENTRY, vectors=first.count * first.vectors,
        channel_part=channel_part, channel_parts=channel_parts,
        pieces=weights.groups * channel_parts, channel_step=weights.channel_step,
        group_step=weights.group_step,
    )  # fmt: skip
    return Launch(
        function=f"turn_blocks_{tiled(kind)}_{first.vectors}",
        text=partial(kernels.turn_blocks_text, kind=kind, vectors=first.vectors),
        words=[*words.listed(), *entries],
        reads=(whole(weights.place.buffer),),
        writes=tuple(whole(strips.buffer) for strips in phases),
        pieces=weights.groups * channel_parts,
        cost=sum(strips.buffer.size for strips in phases),
        label="strips",
    )


def pack(weights: TapWeights, strips: Strips, source: Place) -> Launch:
    """Weights into strips, unless that is done elsewhere, and the table of taps."""
    kind = KINDS[strips.buffer.dtype.name]
    depth_parts = parts_of(strips.depth, kernels.DEPTH_PIECE)
    vectors = strips.count * strips.vectors
    pieces = 0 if strips.elsewhere else weights.groups * vectors * depth_parts
    words = kernels.StripWords(
        source=address(weights.place, weights.place.offset), target=strips.start,
        table=Address(strips.table), rows=weights.rows, channels=weights.channels,
        taps=len(strips.taps), vectors=vectors, depth_parts=depth_parts, pieces=pieces,
        strip=strips.apart, row_step=weights.row_step, channel_step=weights.channel_step,
        group_step=weights.group_step, channel=source.strides[1], near=int(strips.near),
    )  # fmt: skip
    made = (whole(strips.table),)
    return Launch(
        function=f"strips_{tiled(kind)}_{strips.vectors}",
        text=partial(kernels.strips_text, kind=kind, vectors=strips.vectors),
        words=[*words.listed(), *(offset for tap in strips.taps for offset in tap)],
        reads=() if strips.elsewhere else (whole(weights.place.buffer),),
        writes=made if strips.elsewhere else (whole(strips.buffer), *made),
        pieces=max(pieces, 1),
        cost=max(strips.depth, 1) if strips.elsewhere else strips.buffer.size,
        label="taps" if strips.elsewhere else "strips",
    )


def positions_of_piece(count: int, parts: int, lanes: int) -> int:
    """Positions of a piece, so many that there are about so many parts."""
    return min(kernels.POSITIONS, rounded(parts_of(max(count, 1), max(parts, 1)), lanes))


def multiply(source: Place, weights: TapWeights, strips: Strips, out: Place) -> Launch:
    """The sums of one phase."""
    phase, kind, groups, rows = strips.phase, kind_of(out), weights.groups, weights.rows
    tile = kernels.strip_tile(kind, strips.vectors)
    count, depth = positions(phase, out.shape[0]), max(strips.depth, 1)
    # Cut by shape, never by the number of workers, so that results do not depend on it.
    wanted = parts_of(PIECES, groups * strips.count)
    part = computed(positions_of_piece, count, wanted, tile.lanes)
    position_parts = parts_of(count, part)
    strip_parts = computed(min, parts_of(PIECES, position_parts * groups), strips.count)
    strip_part = parts_of(strips.count, strip_parts)
    strip_parts = parts_of(strips.count, strip_part)
    pieces = groups * strip_parts * position_parts
    begin, to, walk = walk_words(phase, source, out)
    words = kernels.StripSumWords(
        begin, strips.start, Address(strips.table), to, m=rows, k=strips.depth, positions=count,
        pieces=pieces, part=part, position_parts=position_parts, strip_part=strip_part,
        strip_parts=strip_parts, strip_count=strips.count, strip=strips.apart,
        row_step=weights.row_step if strips.late else 0,
        group_weights=weights.group_step if strips.late else strips.count * strips.apart,
        group_source=weights.channels * source.strides[1], group_target=rows * out.strides[1],
        channel_target=out.strides[1],
        block=parts_of(depth, parts_of(depth, kernels.block_most(tile, kind))),
        sizes=walk[0], source_steps=walk[1], target_steps=walk[2],
    ).listed()  # fmt: skip
    return Launch(
        function=f"strip_sums_{tiled(kind)}_{strips.vectors}",
        text=partial(kernels.strip_sums_text, kind=kind, vectors=strips.vectors),
        words=words,
        reads=(whole(source.buffer), whole(strips.buffer), whole(strips.table)),
        writes=(whole(out.buffer),),
        pieces=pieces,
        cost=count * groups * rows * depth / 4,
        label=sized("convolution", groups, rows, count, strips.depth),
    )
