"""The templates of convolutions: forward and transposed ones as implicit products."""

from __future__ import annotations

from typing import Any

from adjoint.engine.backends.llvm.templates.convolution import kernel as kernels
from adjoint.engine.backends.llvm.templates.convolution.channels import (
    channel_sums,
    goes_along_channels,
)
from adjoint.engine.backends.llvm.templates.convolution.depthwise.planes import (
    is_by_planes,
    plane_sums,
)
from adjoint.engine.backends.llvm.templates.convolution.filters import by_weight
from adjoint.engine.backends.llvm.templates.convolution.geometry import (
    Phase,
    forward_phases,
    input_bounds,
    positions,
    tap_offsets,
    transposed_phases,
)
from adjoint.engine.backends.llvm.templates.convolution.narrow import (
    TapWeights,
    is_narrow,
    narrow_sums,
)
from adjoint.engine.backends.llvm.templates.convolution.pixels.sums import (
    pixel_way,
)
from adjoint.engine.backends.llvm.templates.convolution.pointwise import (
    is_one_pixel,
    is_pointwise,
    one_pixel_steps,
    pointwise_steps,
)
from adjoint.engine.backends.llvm.templates.convolution.strips import lies_in_strips, strip_sums
from adjoint.engine.backends.llvm.templates.convolution.walks import RANK
from adjoint.engine.backends.llvm.templates.convolution.windowed import (
    KINDS,
    PIECES,
    address,
    kind_of,
    lies_apart,
    lies_turned,
    padded,
    parts_of,
    rounded,
    walk_words,
)
from adjoint.engine.backends.llvm.templates.convolution.winograd.images import suits, winograd_steps
from adjoint.engine.backends.llvm.templates.product.ending import Ending
from adjoint.engine.backends.llvm.templates.product.tiles import outer_tile, tiled
from adjoint.engine.compiler.loops.epilogues import Epilogue
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.core.dtype import int64
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import computed, is_extent


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Floats on the CPU, of up to RANK dimensions."""
    spec = node.outputs[0].spec
    return (
        all(isinstance(x, Value) for x in inputs)
        and spec.dtype.name in KINDS
        and spec.device.type == "cpu"
        and len(spec.shape) - 2 <= RANK
    )


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands may lie anyhow; but images of which each element is read for several taps are laid
    row by row first, if those lie apart."""
    x, weights = inputs
    several = any(is_extent(n) or n > 1 for n in weights.spec.shape[2:])
    return {0} if several and is_scattered(layout(x)) else set()


def packed_both(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """The same of gradients of weights, which read both operands for each other's channels."""
    return {k for k, x in enumerate(inputs) if is_scattered(layout(x))}


def is_scattered(place: Place) -> bool:
    """Whether the elements of a row lie apart, and the copy that adds zeros does not turn them."""
    return lies_apart(place) and not lies_turned(place)


def forward(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """Launches of a convolution."""
    weights, phases = described(node, operands[1], *results)
    return convolve(setting, operands[0], weights, results[0], phases)


def described(node: Node, place: Place, out: Place) -> tuple[TapWeights, list[Phase]]:
    """The weights and the one phase of a convolution."""
    groups = node.params["groups"]
    phases = forward_phases(node.params, place.shape[2:], out.shape[2:])
    rows, (row, channel) = place.shape[0] // groups, place.strides[:2]
    weights = TapWeights(place, groups, rows, place.shape[1], row * rows, row, channel)
    return weights, phases


def ends(setting: Setting, node: Node, layout: LayoutOf) -> bool:
    """Whether a convolution ends in whole vectors of its output channels (Note [pixels])."""
    x, given = node.inputs
    place = layout(given)
    weights, phases = described(node, place, layout(node.outputs[0]))
    way = pixel_way(layout(x), weights, layout(node.outputs[0]), phases)
    return setting.lasts(place.buffer) and way is not None


def forward_with(
    setting: Setting,
    node: Node,
    operands: list[Place],
    out: Place,
    epilogue: Epilogue,
    stored: bool,
) -> list[Launch] | None:
    """Launches of a convolution of pixels whose last write does more (Note [epilogues])."""
    x, place = operands
    weights, phases = described(node, place, out)
    way = pixel_way(x, weights, out, phases)
    if stored or way is None or not setting.lasts(place.buffer):
        return None
    return way(x, weights, out, phases, Ending(epilogue, stored))


def transposed(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """Launches of a transposed convolution, whose rows are the weights' second dimension."""
    x, place = operands
    groups = node.params["groups"]
    if is_one_pixel(node.params, x, place, results[0]):
        return one_pixel_steps(x, place, results[0], groups, setting.lasts)
    phases = transposed_phases(node.params, place.shape[2:], results[0].shape[2:])
    channels, (channel, row) = place.shape[0] // groups, place.strides[:2]
    weights = TapWeights(place, groups, place.shape[1], channels, channel * channels, row, channel)
    return convolve(setting, x, weights, results[0], phases)


def convolve(
    setting: Setting, x: Place, weights: TapWeights, out: Place, phases: list[Phase]
) -> list[Launch]:
    """Launches of all phases."""
    lasts = setting.lasts(weights.place.buffer)
    by_pixels = pixel_way(x, weights, out, phases) if lasts else None
    if by_pixels is not None:
        return by_pixels(x, weights, out, phases)
    if len(phases) == 1 and suits(
        phases[0], x.shape[0], weights.rows, weights.channels, kind_of(out), lasts=lasts
    ):
        return winograd_steps(x, weights, out, phases[0])
    if is_pointwise(x, weights, out, phases):
        return pointwise_steps(x, weights, out, setting.lasts)
    if goes_along_channels(x, weights, out):
        return channel_sums(setting, x, weights, out, phases)
    if is_by_planes(x, weights, out, phases):
        return [plane_sums(x, weights, out, phases[0])]
    several = any(is_extent(n) or n > 1 for n in weights.place.shape[2:])
    source, launches = padded(x, input_bounds(phases), always=several and lies_turned(x))
    if lies_in_strips(weights, out):
        return launches + strip_sums(source, weights, out, phases, lasts)
    for phase in phases:
        if is_narrow(weights.rows, weights.channels * len(tap_offsets(phase))):
            launches.append(narrow_sums(source, weights, out, phase))
        else:
            launches += implicit_product(source, weights, out, phase)
    return launches


def implicit_product(source: Place, weights: TapWeights, out: Place, phase: Phase) -> list[Launch]:
    """Weights into rows, unless they lie in rows, and a table of taps; then the product."""
    dtype, kind = out.buffer.dtype, kind_of(out)
    taps = tap_offsets(phase, weights.place.strides[2:], source.strides[2:])
    depth = weights.channels * len(taps)
    table = PlannedBuffer(ARENA, int64, max(depth, 1), name="taps")
    given = address(weights.place, weights.place.offset)
    rows, count, makes = given, 0, [whole(table)]
    if not lie_in_rows(weights, taps):
        count = weights.groups * weights.rows
        packed = PlannedBuffer(ARENA, dtype, count * max(depth, 1), name="weights")
        rows, makes = Address(packed), [whole(packed), whole(table)]
    words = kernels.WeightWords(
        source=given, target=rows, table=Address(table), rows=weights.rows,
        channels=weights.channels, taps=len(taps), count=count, row_step=weights.row_step,
        channel_step=weights.channel_step, group_step=weights.group_step,
        channel=source.strides[1],
    )  # fmt: skip
    pack = Launch(
        function=f"weights_{kind}",
        text=lambda name: kernels.weights_text(name, kind),
        words=[*words.listed(), *(offset for tap in taps for offset in tap)],
        reads=(whole(weights.place.buffer),) if count else (),
        writes=tuple(makes),
        pieces=max(count, 1),
        cost=max(count, 1) * max(depth, 1),
        label="weights" if count else "taps",
    )
    return [pack, multiply(source, weights, (rows, table), out, phase, depth)]


def lie_in_rows(weights: TapWeights, taps: list[tuple[int, int]]) -> bool:
    """Whether weights are rows already, one after the other, each of channels of all taps."""
    counts = (weights.groups, weights.rows, weights.channels)
    steps = (weights.group_step, weights.row_step, weights.channel_step)
    if any(map(is_extent, (*counts, *steps))):
        return False
    size = len(taps)
    wanted: list[int] = []
    for count in reversed(counts):
        wanted.insert(0, size)
        size *= count
    near = all(n == 1 or a == b for n, a, b in zip(counts, steps, wanted, strict=True))
    return near and [of for of, _ in taps] == list(range(len(taps)))


def multiply(
    source: Place,
    weights: TapWeights,
    given: tuple[Address, PlannedBuffer],
    out: Place,
    phase: Phase,
    depth: int,
) -> Launch:
    """The product of one phase; rows of weights and the table of taps are given."""
    kind, groups, rows = kind_of(out), weights.groups, weights.rows
    tile = outer_tile(kind)
    count = positions(phase, out.shape[0])
    column_parts = parts_of(count, kernels.piece_columns(kind))
    # Cut by shape, never by the number of workers, so that results do not depend on it.
    row_parts = computed(min, parts_of(PIECES, column_parts * groups), parts_of(rows, tile.rows))
    part = rounded(parts_of(rows, row_parts), tile.rows)
    row_parts = parts_of(rows, part)
    # Blocks of one size, so that none is a small rest.
    block = parts_of(max(depth, 1), parts_of(max(depth, 1), kernels.DEPTH))
    pieces = groups * row_parts * column_parts
    begin, to, walk = walk_words(phase, source, out)
    words = kernels.ConvolutionWords(
        begin, given[0], Address(given[1]), to, m=rows, k=depth, positions=count,
        pieces=pieces, rows=part, row_parts=row_parts, column_parts=column_parts,
        group_source=weights.channels * source.strides[1], group_target=rows * out.strides[1],
        channel_target=out.strides[1], block=block,
        sizes=walk[0], source_steps=walk[1], target_steps=walk[2],
    ).listed()  # fmt: skip
    return Launch(
        function=f"convolve_{tiled(kind)}",
        text=lambda name: kernels.product_text(name, kind),
        words=words,
        reads=(whole(source.buffer), whole(given[0].buffer), whole(given[1])),
        writes=(whole(out.buffer),),
        pieces=pieces,
        cost=count * groups * rows * max(depth, 1) / 4,
        label=sized("convolution", groups, rows, count, depth),
    )


def channels_innermost(place: Place) -> bool:
    """Whether results are to lie in a place whose channels are neighbours."""
    return len(place.shape) > 2 and place.strides[1] == 1


TEMPLATES = {
    "convolution": Template(
        accepts,
        packed,
        forward,
        writes_to=channels_innermost,
        ordered=True,
        epilogue=forward_with,
        ends=ends,
    ),
    "convolution_transpose": Template(accepts, packed, transposed, writes_to=channels_innermost),
    "convolution_weight": Template(accepts, packed_both, by_weight, writes_to=channels_innermost),
}
