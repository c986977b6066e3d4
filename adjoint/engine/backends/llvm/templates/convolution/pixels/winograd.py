"""Winograd's convolutions of images whose channels lie innermost (Note [winograd pixels])."""

from __future__ import annotations

from functools import partial
from typing import Any

from adjoint.engine.backends.llvm.templates.convolution.geometry import Phase, positions, spread
from adjoint.engine.backends.llvm.templates.convolution.narrow import TapWeights
from adjoint.engine.backends.llvm.templates.convolution.pixels import winograd_kernel as kernels
from adjoint.engine.backends.llvm.templates.convolution.pixels.pieces_kernel import PixelForm
from adjoint.engine.backends.llvm.templates.convolution.pixels.sums_kernel import HEIGHTS, TURNS
from adjoint.engine.backends.llvm.templates.convolution.windowed import (
    address,
    kind_of,
    parts_of,
    rounded,
)
from adjoint.engine.backends.llvm.templates.convolution.winograd.images import (
    filter_offsets,
    in_a_row,
    start_of,
    tile_count,
    tile_grid,
    tile_steps,
)
from adjoint.engine.backends.llvm.templates.convolution.winograd.images_kernel import (
    OUT,
    POINTS,
    SIDE,
)
from adjoint.engine.backends.llvm.templates.product.ending import Ending
from adjoint.engine.backends.llvm.templates.product.tiles import outer_tile, tiled
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole

PIECES = 8  # work is dealt out in so many pieces, where they are no smaller than
FEW = 24  # tiles: weights are read anew for each piece
LEAST = 16  # channels on either side
FAR = 1 << 19  # bytes of weights beside which a near cache keeps little else


def wins(phase: Phase, weights: TapWeights, out: Place) -> bool:
    """Whether a convolution of pixels by three by three taps is sooner made by points.

    Costs are cycles: half of one for a multiply-add of a vector, one for a weight to be read (most
    of them from far), and transforms.
    """
    if kind_of(out) != "f32" or len(phase) != 2 or not all(map(in_a_row, phase)):
        return False
    m, k, lanes = weights.rows, weights.channels, outer_tile("f32").lanes
    if min(m, k) < LEAST or k > kernels.ROOM // 8:
        return False
    count, tiles = positions(phase, out.shape[0]), tile_count(phase, out.shape[0])
    direct = 9 * m * k * (count / (2 * lanes) + 1)
    return 16 * m * k * (tiles / (2 * lanes) + 1) + 2.5 * tiles * (m + k) < direct


def tiles_of(tiles: int, channels: int, rows: int) -> int:
    """Tiles of a piece, in tiles of so many rows of products."""
    most = min(kernels.TILES, kernels.ROOM // channels)
    some = min(tiles, max(FEW, parts_of(tiles, PIECES)))
    parts = parts_of(tiles, min(most, rounded(some, rows)))
    return min(most, parts_of(tiles, parts))


def winograd_pixel_sums(
    x: Place,
    weights: TapWeights,
    out: Place,
    phase: Phase,
    vectors: int,
    ending: Ending | None,
) -> list[Launch]:
    """Filters at points, in strips of so many vectors; then the sums."""
    kind, groups, m, channels = kind_of(out), weights.groups, weights.rows, weights.channels
    lanes = outer_tile(kind).lanes
    columns = vectors * lanes
    strips = parts_of(m, columns)
    size = groups * strips * POINTS * channels * columns
    buffer = PlannedBuffer(ARENA, out.buffer.dtype, size, name="points")
    zeros = PlannedBuffer(ARENA, out.buffer.dtype, rounded(channels, lanes), name="zeros")
    offsets = filter_offsets(phase, weights.place.strides[2:])
    given = address(weights.place, weights.place.offset)
    points = kernels.PixelPointWords(
        source=given, target=Address(buffer), zeros=Address(zeros), rows=m, channels=channels,
        strips=strips, pieces=groups * strips, zero_count=zeros.size, row_step=weights.row_step,
        channel_step=weights.channel_step, group_step=weights.group_step,
    )  # fmt: skip
    transform = Launch(
        function=f"pixel_points_{tiled(kind)}_{vectors}",
        text=partial(kernels.points_text, kind=kind, vectors=vectors),
        words=[*points.listed(), *offsets],
        reads=(whole(weights.place.buffer),),
        writes=(whole(buffer), whole(zeros)),
        pieces=groups * strips,
        cost=2 * size,
        label="filter points",
    )
    tiles = tile_count(phase, out.shape[0])
    rows = min(HEIGHTS[vectors], key=lambda n: (rounded(tiles_of(tiles, channels, n), n), -n))
    part = tiles_of(tiles, channels, rows)
    # Cut by shape, never by the number of workers, so that results do not depend on it.
    tile_parts = parts_of(tiles, part)
    strip_part = parts_of(strips, min(parts_of(PIECES, tile_parts * groups), strips))
    strip_parts = parts_of(strips, strip_part)
    turns = TURNS if channels % TURNS == 0 else 1
    form = PixelForm(kind, vectors, rows, turns, m % columns > 0, ending, buffer.nbytes > FAR)
    high, wide = out.shape[2:]
    down, across = phase
    taps = [(i, j) for i in range(SIDE) for j in range(SIDE)]
    steps = x.strides[2:]
    entries = [n for i, j in taps for n in (i, j, i * steps[0] + j * steps[1])]
    target: Any = address(out, out.offset) if ending is None else 0
    words = kernels.WinogradPixelWords(
        address(x, start_of(phase, x)), Address(buffer), Address(zeros), target, m=m,
        channels=channels, taps=len(taps), positions=tiles,
        pieces=groups * strip_parts * tile_parts, part=part, position_parts=tile_parts,
        strip_part=strip_part, strip_parts=strip_parts, strip_count=strips, tap_block=1,
        channel_block=channels, group_source=channels, group_target=m, height=x.shape[2],
        width=x.shape[3], starts=[down.low, across.low], steps=[OUT, OUT],
        sizes=spread(tile_grid(phase)), source_steps=tile_steps(x), target_steps=tile_steps(out),
        weights=given, group_weights=weights.group_step, row_weights=weights.row_step,
        channel_weights=weights.channel_step, line_target=out.strides[2],
        step_target=out.strides[3], high=high, wide=wide,
        numbers=[high * wide, 0, OUT * wide, OUT],
    ).listed()  # fmt: skip
    reads = [x.buffer, weights.place.buffer, buffer, zeros]
    writes = [out.buffer]
    label: Any = sized("winograd", groups, m, positions(phase, out.shape[0]), channels * 9)
    if ending is not None:
        reads += [ref.buffer for ref in ending.epilogue.refs if ref is not None]
        writes = [ref.buffer for _, ref in ending.epilogue.stores]
        label = (*label, "+" + "+".join(ending.epilogue.origin))
    sums = Launch(
        function=f"winograd_pixels_{tiled(kind)}_{form.name}",
        text=partial(kernels.winograd_pixels_text, form=form),
        words=[*words, *([] if ending is None else ending.words), *entries, *offsets],
        reads=tuple(map(whole, reads)),
        writes=tuple(map(whole, writes)),
        pieces=groups * strip_parts * tile_parts,
        cost=tiles * groups * m * channels * 4,
        label=label,
    )
    return [transform, sums]
