"""The templates of convolutions: forward, transposed, and by the weights."""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.backends.llvm import convolution as kernels
from adjoint.backends.llvm import filters, narrow
from adjoint.backends.llvm.walks import RANK, inner_tile, outer_tile
from adjoint.compiler.geometry import (
    Phase,
    forward_phases,
    positions,
    reach,
    spread,
    steps_from,
    steps_to,
    tap_offsets,
    transposed_phases,
)
from adjoint.compiler.places import ARENA, Buffer, Place, row_major
from adjoint.compiler.steps import Address, Launch, whole
from adjoint.compiler.templates import TEMPLATES, LayoutOf, Template
from adjoint.core.dtype import int64
from adjoint.graph.ir import Node, Value

KINDS = {"float32": "f32", "float64": "f64"}
COLUMNS = 576  # taps times channels in a piece of a gradient by the weights
NARROW = 4  # output channels in a group from which on panels pay
DEEPEST = 1024  # taps times channels of those without
GROUP_BLOCK = 16  # groups in a piece of them
PIECES = 8  # a convolution is dealt out in at least so many pieces, where it can be


def accepts(node: Node, inputs: tuple[Any, ...]) -> bool:
    """Floats on the CPU, of up to RANK dimensions."""
    spec = node.outputs[0].spec
    return (
        all(isinstance(x, Value) for x in inputs)
        and spec.dtype.name in KINDS
        and spec.device.type == "cpu"
        and len(spec.shape) - 2 <= RANK
    )


def nothing_packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands may lie anyhow."""
    return set()


def address(place: Place, offset: int = 0) -> Address:
    """The address of an element of a place's buffer."""
    return Address(place.buffer, offset * place.buffer.dtype.itemsize)


def parts_of(n: int, size: int) -> int:
    """How many parts of a size there are, the last perhaps smaller."""
    return -(-n // size)


def rounded(n: int, multiple: int) -> int:
    """The next multiple."""
    return parts_of(n, multiple) * multiple


# -- zeros around the input ---------------------------------------------------------------------


def padded(source: Place, ranges: list[tuple[int, int]]) -> tuple[Place, list[Launch]]:
    """A place in which all positions of the ranges exist, its origin still the input's first."""
    sizes = source.shape[2:]
    if all(low >= 0 and high < n for (low, high), n in zip(ranges, sizes, strict=True)):
        return source, []
    extents = tuple(high - low + 1 for low, high in ranges)
    shape = (*source.shape[:2], *extents)
    buffer = Buffer(ARENA, source.buffer.dtype, prod(shape), name="padded")
    whole_place = row_major(buffer, shape)
    kind = KINDS[buffer.dtype.name]
    words = [
        address(source, source.offset), Address(buffer), shape[1], shape[0] * shape[1],
        *spread(extents), *spread(sizes), *spread(tuple(-low for low, _ in ranges), 0),
        *source.strides[:2], *spread(source.strides[2:], 0),
    ]  # fmt: skip
    launch = Launch(
        function=f"pad_{kind}",
        text=lambda name: kernels.pad_text(name, kind),
        words=words,
        reads=(whole(source.buffer),),
        writes=(whole(buffer),),
        pieces=shape[0] * shape[1] * spread(extents)[0],
        cost=float(buffer.size),
        label="pad",
    )
    start = sum(low * s for (low, _), s in zip(ranges, whole_place.strides[2:], strict=True))
    return Place(buffer, shape, whole_place.strides, -start), [launch]


# -- forward and transposed ---------------------------------------------------------------------


def forward(node: Node, operands: list[Place], results: list[Place]) -> list[Launch]:
    """Launches of a convolution."""
    x, weight = operands
    groups = node.params["groups"]
    phases = forward_phases(node.params, weight.shape[2:], results[0].shape[2:])
    # As (group, out channel, in channel, taps).
    sizes = (weight.shape[0] // groups, weight.shape[1])
    steps = (weight.strides[0] * sizes[0], *weight.strides[:2])
    return convolve(node, x, weight, results[0], phases, sizes, steps)


def transposed(node: Node, operands: list[Place], results: list[Place]) -> list[Launch]:
    """Launches of a transposed convolution."""
    x, weight = operands
    groups = node.params["groups"]
    phases = transposed_phases(node.params, weight.shape[2:], results[0].shape[2:])
    sizes = (weight.shape[1], weight.shape[0] // groups)
    steps = (weight.strides[0] * sizes[1], weight.strides[1], weight.strides[0])
    return convolve(node, x, weight, results[0], phases, sizes, steps)


def convolve(
    node: Node,
    x: Place,
    weight: Place,
    out: Place,
    phases: list[Phase],
    sizes: tuple[int, int],
    steps: tuple[int, int, int],
) -> list[Launch]:
    """Launches of all phases; `sizes` are out and in channels of a group, `steps` the weights'."""
    source, launches = padded(x, reach(phases))
    taps = max(prod(len(line.taps) for line in phase) for phase in phases)
    few = is_narrow(sizes[0], sizes[1] * taps)
    for phase in phases:
        launches += (narrow_steps if few else phase_steps)(
            node, source, weight, out, phase, sizes, steps
        )
    return launches


def phase_steps(
    node: Node,
    source: Place,
    weight: Place,
    out: Place,
    phase: Phase,
    sizes: tuple[int, int],
    steps: tuple[int, int, int],
) -> list[Launch]:
    """Weights into panels, then the product."""
    groups, dtype = node.params["groups"], out.buffer.dtype
    kind = KINDS[dtype.name]
    rows, channels = sizes
    taps = tap_offsets(phase, weight.strides[2:], source.strides[2:])
    depth = channels * len(taps)
    tile = outer_tile(kind)
    panels = parts_of(rows, tile.rows)
    packed = Buffer(ARENA, dtype, groups * panels * tile.rows * max(depth, 1), name="panels")
    table = Buffer(ARENA, int64, max(depth, 1), name="taps")
    pack = Launch(
        function=f"panels_{kind}",
        text=lambda name: kernels.weights_text(name, kind),
        words=[
            address(weight, weight.offset),
            Address(packed),
            Address(table),
            rows,
            channels,
            len(taps),
            groups,
            steps[1],
            steps[2],
            steps[0],
            source.strides[1],
            *(offset for tap in taps for offset in tap),
        ],
        reads=(whole(weight.buffer),),
        writes=(whole(packed), whole(table)),
        pieces=groups * panels,
        cost=float(packed.size),
        label="panels",
    )
    return [pack, multiply(source, packed, table, out, phase, groups, rows, depth, channels)]


def multiply(
    source: Place,
    packed: Buffer,
    table: Buffer,
    out: Place,
    phase: Phase,
    groups: int,
    rows: int,
    depth: int,
    channels: int,
) -> Launch:
    """The product of one phase."""
    kind = KINDS[out.buffer.dtype.name]
    tile, width = outer_tile(kind), kernels.piece_columns(kind)
    count = positions(phase, out.shape[0])
    column_parts = parts_of(count, width)
    # Cut by shape, never by the number of workers, so that results do not depend on it.
    row_parts = min(parts_of(PIECES, column_parts * groups), parts_of(rows, tile.rows))
    part = rounded(parts_of(rows, row_parts), tile.rows)
    row_parts = parts_of(rows, part)
    # Blocks of one size, so that none is a small rest.
    block = parts_of(max(depth, 1), parts_of(max(depth, 1), kernels.DEPTH))
    start, steps = steps_from(phase, source)
    to_start, to_steps = steps_to(phase, out)
    pieces = groups * row_parts * column_parts
    words: list[Any] = [
        address(source, start), Address(packed), Address(table), address(out, to_start),
        rows, depth, count, pieces, part, row_parts, column_parts,
        channels * source.strides[1], rows * out.strides[1], out.strides[1], block,
        *spread(tuple(line.count for line in phase)), *steps, *to_steps,
    ]  # fmt: skip
    return Launch(
        function=f"convolve_{kind}",
        text=lambda name: kernels.product_text(name, kind),
        words=words,
        reads=(whole(source.buffer), whole(packed), whole(table)),
        writes=(whole(out.buffer),),
        pieces=pieces,
        cost=2.0 * count * groups * rows * max(depth, 1) / 8,
        label=f"convolution {groups}x{rows}x{count}x{depth}",
    )


# -- few output channels in a group -------------------------------------------------------------


def is_narrow(rows: int, depth: int) -> bool:
    """Whether a group has so few output channels that panels do not pay."""
    return rows < NARROW and depth <= DEEPEST


def group_parts(groups: int, chunks: int) -> tuple[int, int]:
    """(groups of a piece, parts of the groups): tables are made once for a piece."""
    block = min(groups, max(GROUP_BLOCK, parts_of(groups * chunks, 64 * chunks)))
    return block, parts_of(groups, block)


def narrow_steps(
    node: Node,
    source: Place,
    weight: Place,
    out: Place,
    phase: Phase,
    sizes: tuple[int, int],
    steps: tuple[int, int, int],
) -> list[Launch]:
    """Sums without panels."""
    groups, kind = node.params["groups"], KINDS[out.buffer.dtype.name]
    rows, channels = sizes
    taps = tap_offsets(phase, weight.strides[2:], source.strides[2:])
    pairs = [
        offset
        for c in range(channels)
        for of, at in taps
        for offset in (c * steps[2] + of, c * source.strides[1] + at)
    ]
    count = positions(phase, out.shape[0])
    chunks = parts_of(count, narrow.CHUNK)
    block, parts = group_parts(groups, chunks)
    start, from_steps = steps_from(phase, source)
    to_start, to_steps = steps_to(phase, out)
    words: list[Any] = [
        address(source, start), address(weight, weight.offset), address(out, to_start),
        rows, len(pairs) // 2, count, 0, chunks * parts, groups, block, parts,
        channels * source.strides[1], steps[0], steps[1], rows * out.strides[1], out.strides[1],
        *spread(tuple(line.count for line in phase)), *from_steps, *to_steps, *pairs,
    ]  # fmt: skip
    launch = Launch(
        function=f"narrow_{kind}",
        text=lambda name: narrow.sums_text(name, kind),
        words=words,
        reads=(whole(source.buffer), whole(weight.buffer)),
        writes=(whole(out.buffer),),
        pieces=chunks * parts,
        cost=2.0 * count * groups * rows * max(len(pairs) // 2, 1) / 8,
        label=f"convolution {groups}x{rows}x{count}x{len(pairs) // 2}",
    )
    return [launch]


# -- by the weights -----------------------------------------------------------------------------


def by_weight(node: Node, operands: list[Place], results: list[Place]) -> list[Launch]:
    """Launches of the gradient by the weights; `operands` are input and gradient."""
    x, gradient = operands
    out = results[0]
    kind = KINDS[out.buffer.dtype.name]
    groups = node.params["groups"]
    phase = forward_phases(node.params, out.shape[2:], gradient.shape[2:])[0]
    source, launches = padded(x, reach([phase]))
    if is_narrow(out.shape[0] // groups, prod(out.shape[1:])):
        return launches + narrow_weight(source, gradient, out, phase, groups)
    cut = Parts(out, groups, positions(phase, x.shape[0]), kind)
    target = out
    if cut.parts > 1:
        buffer = Buffer(ARENA, out.buffer.dtype, cut.parts * prod(out.shape), name="parts")
        target = row_major(buffer, (cut.parts, *out.shape))
    start, steps = steps_from(phase, source)
    to_start, to_steps = steps_to(phase, gradient)
    words: list[Any] = [
        address(source, start), address(gradient, to_start), address(target, target.offset),
        cut.rows, cut.columns, cut.taps, cut.positions, cut.part, cut.block, cut.pieces,
        cut.row_part, cut.row_parts, cut.column_part, cut.column_parts, groups,
        out.shape[1] * source.strides[1], cut.rows * gradient.strides[1],
        source.strides[1], gradient.strides[1],
        *spread(tuple(line.count for line in phase)), *steps, *to_steps,
        *(at for _, at in tap_offsets(phase, (0,) * len(phase), source.strides[2:])),
    ]  # fmt: skip
    launch = Launch(
        function=f"filters_{kind}",
        text=lambda name: filters.filters_text(name, kind),
        words=words,
        reads=(whole(source.buffer), whole(gradient.buffer)),
        writes=(whole(target.buffer),),
        pieces=cut.pieces,
        cost=2.0 * cut.positions * groups * cut.rows * cut.columns / 8,
        label=f"convolution_weight {groups}x{cut.rows}x{cut.columns}x{cut.positions}",
    )
    launches.append(launch)
    if cut.parts > 1:
        launches.append(sum_parts(target, out, cut.parts))
    return launches


def narrow_weight(
    source: Place, gradient: Place, out: Place, phase: Phase, groups: int
) -> list[Launch]:
    """The same for few output channels in a group."""
    kind = KINDS[out.buffer.dtype.name]
    rows, channels = out.shape[0] // groups, out.shape[1]
    taps = tap_offsets(phase, (0,) * len(phase), source.strides[2:])
    pairs = [
        offset
        for c in range(channels)
        for _, at in taps
        for offset in (0, c * source.strides[1] + at)
    ]
    count = positions(phase, gradient.shape[0])
    chunks = parts_of(count, narrow.CHUNK)
    block, group_count = group_parts(groups, 1)
    parts = min(parts_of(2 * PIECES, group_count), chunks)
    part = parts_of(chunks, parts) * narrow.CHUNK
    parts = parts_of(count, part)
    target = out
    if parts > 1:
        buffer = Buffer(ARENA, out.buffer.dtype, parts * prod(out.shape), name="parts")
        target = row_major(buffer, (parts, *out.shape))
    start, from_steps = steps_from(phase, source)
    to_start, to_steps = steps_to(phase, gradient)
    words: list[Any] = [
        address(source, start), address(gradient, to_start), address(target, target.offset),
        rows, len(pairs) // 2, count, part, parts * group_count, groups, block, group_count,
        channels * source.strides[1], rows * gradient.strides[1], gradient.strides[1], 0, 0,
        *spread(tuple(line.count for line in phase)), *from_steps, *to_steps, *pairs,
    ]  # fmt: skip
    launch = Launch(
        function=f"narrow_filters_{kind}",
        text=lambda name: narrow.filters_text(name, kind),
        words=words,
        reads=(whole(source.buffer), whole(gradient.buffer)),
        writes=(whole(target.buffer),),
        pieces=parts * group_count,
        cost=2.0 * count * prod(out.shape) / 8,
        label=f"convolution_weight {groups}x{rows}x{len(pairs) // 2}x{count}",
    )
    return [launch] if parts == 1 else [launch, sum_parts(target, out, parts)]


class Parts:
    """How a gradient by the weights is cut into pieces: by its shape alone."""

    def __init__(self, out: Place, groups: int, count: int, kind: str) -> None:
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
        wanted = min(parts_of(PIECES, whole_pieces), parts_of(count, largest // 2))
        # Blocks of one size, so that none is a small rest.
        self.part = rounded(parts_of(count, wanted), tile.lanes)
        self.parts = parts_of(count, self.part)
        self.block = rounded(parts_of(self.part, parts_of(self.part, largest)), tile.lanes)
        self.pieces = whole_pieces * self.parts


def sum_parts(parts: Place, out: Place, count: int) -> Launch:
    """The sum of partial results."""
    kind = KINDS[out.buffer.dtype.name]
    size = prod(out.shape)
    pieces = parts_of(size, filters.CHUNK)
    return Launch(
        function=f"sum_parts_{kind}",
        text=lambda name: filters.sums_text(name, kind),
        words=[
            address(parts, parts.offset),
            address(out, out.offset),
            size,
            count,
            pieces,
        ],
        reads=(whole(parts.buffer),),
        writes=(whole(out.buffer),),
        pieces=pieces,
        cost=float(size * count),
        label="sum of parts",
    )


TEMPLATES["convolution"] = Template(accepts, nothing_packed, forward)
TEMPLATES["convolution_transpose"] = Template(accepts, nothing_packed, transposed)
TEMPLATES["convolution_weight"] = Template(accepts, nothing_packed, by_weight)
