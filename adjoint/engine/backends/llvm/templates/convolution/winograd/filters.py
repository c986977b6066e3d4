"""Gradients by filters of three by three, by Winograd's points (Note [winograd filters])."""

from __future__ import annotations

from adjoint.engine.backends.llvm.templates.convolution.geometry import Phase, positions, spread
from adjoint.engine.backends.llvm.templates.convolution.windowed import (
    address,
    kind_of,
    padded,
    parts_of,
    rounded,
)
from adjoint.engine.backends.llvm.templates.convolution.winograd import filters_kernel as kernels
from adjoint.engine.backends.llvm.templates.convolution.winograd.images import (
    PIECES,
    start_of,
    suits,
    tile_count,
    tile_grid,
    tile_steps,
    with_room,
)
from adjoint.engine.backends.llvm.templates.convolution.winograd.images_kernel import (
    OUT,
    POINTS,
    SKEW,
)
from adjoint.engine.backends.llvm.templates.product.tiles import outer_tile, tiled
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.graph.sizes.extents import computed, is_extent, typical


def filters_suit(phase: Phase, examples: int, out: Place, groups: int) -> bool:
    """Whether the gradient by filters is computed faster by Winograd's points."""
    kind = kind_of(out)
    rows, channels, tile = out.shape[0] // groups, out.shape[1], outer_tile(kind)
    m, k = typical(rows), typical(channels)
    waste = rounded(m, tile.rows) * rounded(k, tile.columns) / max(m * k, 1)
    return suits(phase, examples, rows, channels, kind, waste)


def filter_steps(x: Place, gradient: Place, out: Place, phase: Phase, groups: int) -> list[Launch]:
    """Launches of a gradient whose convolution `suits`."""
    source, launches = with_room(x, phase)
    ranges = [(0, n * OUT - 1) for n in tile_grid(phase)]
    lies = gradient.strides[-1] == 1 and not any(map(is_extent, gradient.shape[2:]))
    given, more = padded(gradient, ranges, always=not lies)
    cut = FilterParts(out, groups, tile_count(phase, x.shape[0]))
    size = cut.parts * groups * POINTS * cut.matrix
    products = PlannedBuffer(ARENA, out.buffer.dtype, size, name="points")
    launches += more
    launches.append(multiply(source, given, products, phase, cut))
    launches.append(taps(source, given, products, out, phase, cut))
    return launches


class FilterParts:
    """How a gradient is cut into pieces: by its shape alone."""

    def __init__(self, out: Place, groups: int, tiles: int) -> None:
        self.tile = outer_tile(kind_of(out))
        self.groups = groups
        self.tiles = tiles
        self.rows, self.columns = out.shape[0] // groups, out.shape[1]
        self.padded_columns = rounded(self.columns, self.tile.columns)
        self.matrix = rounded(self.rows, self.tile.rows) * self.padded_columns + SKEW
        self.row_parts = parts_of(self.rows, kernels.ROWS)
        self.column_parts = parts_of(self.columns, kernels.COLUMNS)
        alike = groups * self.row_parts * self.column_parts
        wanted = computed(min, parts_of(PIECES, alike), parts_of(tiles, kernels.TILES))
        self.part = parts_of(tiles, wanted)
        self.parts = parts_of(tiles, self.part)
        # Blocks of one size, so that none is a small rest.
        self.block = parts_of(self.part, parts_of(self.part, kernels.TILES))
        self.pieces = alike * self.parts


def multiply(
    source: Place, gradient: Place, products: PlannedBuffer, phase: Phase, cut: FilterParts
) -> Launch:
    """Products at all points."""
    kind = kind_of(source)
    words = kernels.WinogradFilterWords(
        source=address(source, start_of(phase, source)),
        gradient=address(gradient, gradient.offset), target=Address(products),
        m=cut.rows, k=cut.columns, padded_columns=cut.padded_columns, matrix=cut.matrix,
        tiles=cut.tiles, part=cut.part, block=cut.block,
        pieces=cut.pieces, row_parts=cut.row_parts, column_parts=cut.column_parts,
        groups=cut.groups, group_source=cut.columns * source.strides[1],
        group_gradient=cut.rows * gradient.strides[1], channel_source=source.strides[1],
        channel_gradient=gradient.strides[1], line_source=source.strides[2],
        line_gradient=gradient.strides[2], sizes=spread(tile_grid(phase)),
        source_steps=tile_steps(source), gradient_steps=tile_steps(gradient),
    )  # fmt: skip
    count = positions(phase, source.shape[0])
    return Launch(
        function=f"winograd_filters_{tiled(kind)}",
        text=lambda name: kernels.winograd_filters_text(name, kind),
        words=words.listed(),
        reads=(whole(source.buffer), whole(gradient.buffer)),
        writes=(whole(products),),
        pieces=cut.pieces,
        cost=cut.tiles * cut.groups * cut.rows * cut.columns * 4,
        label=sized("winograd_weight", cut.groups, cut.rows, cut.columns * 9, count),
    )


def taps(
    source: Place,
    gradient: Place,
    products: PlannedBuffer,
    out: Place,
    phase: Phase,
    cut: FilterParts,
) -> Launch:
    """Filters of products."""
    kind = kind_of(out)
    words = kernels.TapWords(
        source=address(source, start_of(phase, source)),
        gradient=address(gradient, gradient.offset), parts_at=Address(products),
        target=address(out, out.offset), m=cut.rows, k=cut.columns,
        padded_columns=cut.padded_columns, matrix=cut.matrix, parts=cut.parts,
        groups=cut.groups, examples=source.shape[0], height=phase[0].count,
        width=phase[1].count, group_source=cut.columns * source.strides[1],
        group_gradient=cut.rows * gradient.strides[1], source_steps=source.strides,
        gradient_steps=gradient.strides, target_steps=out.strides,
    )  # fmt: skip
    return Launch(
        function=f"winograd_taps_{tiled(kind)}",
        text=lambda name: kernels.taps_text(name, kind),
        words=words.listed(),
        reads=(whole(source.buffer), whole(gradient.buffer), whole(products)),
        writes=(whole(out.buffer),),
        pieces=cut.groups * cut.rows,
        cost=products.size,
        label="taps of points",
    )
