"""Convolutions by tiles of some positions and vectors of output channels (Note [strips])."""

from __future__ import annotations

from functools import partial

from adjoint.engine.backends.llvm.templates.convolution import strips_kernel as kernels
from adjoint.engine.backends.llvm.templates.convolution.geometry import (
    Phase,
    positions,
    tap_offsets,
)
from adjoint.engine.backends.llvm.templates.convolution.narrow import TapWeights
from adjoint.engine.backends.llvm.templates.convolution.windowed import (
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
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.core.dtype import int64
from adjoint.engine.graph.sizes.extents import computed, is_extent

PIECES = 8  # work is dealt out in at least so many pieces, where it can be
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


def strip_sums(source: Place, weights: TapWeights, out: Place, phase: Phase) -> list[Launch]:
    """Weights into strips, and a table of taps; then the sums of one phase."""
    dtype, kind = out.buffer.dtype, kind_of(out)
    groups, rows, channels = weights.groups, weights.rows, weights.channels
    vectors = vectors_of(rows, outer_tile(kind).lanes)
    tile = kernels.strip_tile(kind, vectors)
    taps = tap_offsets(phase, weights.place.strides[2:], source.strides[2:])
    depth = channels * len(taps)
    strips = parts_of(rows, tile.columns)
    step = rounded(depth, tile.lanes) * tile.columns
    table = PlannedBuffer(ARENA, int64, max(depth, 1), name="taps")
    packed = PlannedBuffer(ARENA, dtype, max(groups * strips * step, 1), name="strips")
    depth_parts = parts_of(depth, kernels.DEPTH_PIECE)
    pieces = groups * strips * vectors * depth_parts
    near = [of for of, _ in taps] == list(range(len(taps))) and (
        channels == 1 or weights.channel_step == len(taps)
    )
    words = kernels.StripWords(
        source=address(weights.place, weights.place.offset), target=Address(packed),
        table=Address(table), rows=rows, channels=channels, taps=len(taps),
        vectors=strips * vectors, depth_parts=depth_parts, pieces=pieces, strip=step,
        row_step=weights.row_step, channel_step=weights.channel_step,
        group_step=weights.group_step, channel=source.strides[1], near=int(near),
    )  # fmt: skip
    pack = Launch(
        function=f"strips_{tiled(kind)}_{vectors}",
        text=partial(kernels.strips_text, kind=kind, vectors=vectors),
        words=[*words.listed(), *(offset for tap in taps for offset in tap)],
        reads=(whole(weights.place.buffer),),
        writes=(whole(packed), whole(table)),
        pieces=max(pieces, 1),
        cost=packed.size,
        label="strips",
    )
    return [pack, multiply(source, weights, (packed, table), out, phase, (vectors, depth, step))]


def positions_of_piece(count: int, parts: int, lanes: int) -> int:
    """Positions of a piece, so many that there are about so many parts."""
    return min(kernels.POSITIONS, rounded(parts_of(max(count, 1), max(parts, 1)), lanes))


def multiply(
    source: Place,
    weights: TapWeights,
    given: tuple[PlannedBuffer, PlannedBuffer],
    out: Place,
    phase: Phase,
    sizes: tuple[int, int, int],
) -> Launch:
    """The sums of one phase; strips and the table of taps are given."""
    kind, groups, rows = kind_of(out), weights.groups, weights.rows
    vectors, depth, step = sizes
    tile = kernels.strip_tile(kind, vectors)
    strips = parts_of(rows, tile.columns)
    count = positions(phase, out.shape[0])
    # Cut by shape, never by the number of workers, so that results do not depend on it.
    part = computed(positions_of_piece, count, parts_of(PIECES, groups * strips), tile.lanes)
    position_parts = parts_of(count, part)
    strip_parts = computed(min, parts_of(PIECES, position_parts * groups), strips)
    strip_part = parts_of(strips, strip_parts)
    strip_parts = parts_of(strips, strip_part)
    most = kernels.block_most(tile, kind)
    block = parts_of(max(depth, 1), parts_of(max(depth, 1), most))
    pieces = groups * strip_parts * position_parts
    begin, to, walk = walk_words(phase, source, out)
    words = kernels.StripSumWords(
        begin, Address(given[0]), Address(given[1]), to, m=rows, k=depth, positions=count,
        pieces=pieces, part=part, position_parts=position_parts, strip_part=strip_part,
        strip_parts=strip_parts, strip_count=strips, strip=step,
        group_source=weights.channels * source.strides[1], group_target=rows * out.strides[1],
        channel_target=out.strides[1], block=block,
        sizes=walk[0], source_steps=walk[1], target_steps=walk[2],
    ).listed()  # fmt: skip
    return Launch(
        function=f"strip_sums_{tiled(kind)}_{vectors}",
        text=partial(kernels.strip_sums_text, kind=kind, vectors=vectors),
        words=words,
        reads=(whole(source.buffer), whole(given[0]), whole(given[1])),
        writes=(whole(out.buffer),),
        pieces=pieces,
        cost=count * groups * rows * max(depth, 1) / 4,
        label=sized("convolution", groups, rows, count, depth),
    )
