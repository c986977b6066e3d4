"""Convolutions of one tap, or of one pixel, that are products of matrices as they lie."""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.backends.llvm.templates.convolution.geometry import Phase
from adjoint.engine.backends.llvm.templates.convolution.narrow import TapWeights, is_narrow
from adjoint.engine.backends.llvm.templates.convolution.windowed import kind_of, rounded
from adjoint.engine.backends.llvm.templates.product.described import Lasts
from adjoint.engine.backends.llvm.templates.product.template import products_of
from adjoint.engine.backends.llvm.templates.product.tiled import product_steps
from adjoint.engine.backends.llvm.templates.product.tiles import has_wide_registers, outer_tile
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Launch
from adjoint.engine.graph.sizes.extents import is_extent

FULL = 2 / 3  # of the columns of products' tiles are positions of an image, at the least


def is_pointwise(x: Place, weights: TapWeights, out: Place, phases: list[Phase]) -> bool:
    """Whether each result is made of the input's element of the same place, of all channels.

    The processor must have wide registers: elsewhere implicit products are as quick.
    """
    numbers = (*x.shape, *x.strides, *out.shape, *out.strides, *weights.place.shape)
    if any(map(is_extent, numbers)) or len(phases) != 1 or not has_wide_registers():
        return False
    if is_narrow(weights.rows, weights.channels) or x.shape[2:] != out.shape[2:]:
        return False
    lines = phases[0]
    alike = all(
        len(line.taps) == 1 and (line.low, line.step, line.to_step) == (0, 1, 1) for line in lines
    )
    count = prod(x.shape[2:])
    if not alike or count < FULL * rounded(count, outer_tile(kind_of(out)).columns):
        return False
    steps = [merged(place) for place in (x, out)]
    in_rows = steps[1] == 1 or out.strides[1] == 1
    return in_rows and None not in steps


def merged(place: Place) -> int | None:
    """How far positions of an image are apart, if that is one number."""
    sizes = [(n, s) for n, s in zip(place.shape[2:], place.strides[2:], strict=True) if n > 1]
    step = sizes[-1][1] if sizes else 1
    wanted = step
    for n, s in reversed(sizes):
        if s != wanted:
            return None
        wanted *= n
    return step


def pointwise_steps(x: Place, weights: TapWeights, out: Place, lasts: Lasts) -> list[Launch]:
    """Launches of a convolution that `is_pointwise`: of weights and images, or turned."""
    examples, groups, count = x.shape[0], weights.groups, prod(x.shape[2:])

    def images(place: Place, channels: int) -> Place:
        """[example, group, channel, position]."""
        step = merged(place)
        assert step is not None
        steps = (place.strides[0], channels * place.strides[1], place.strides[1], step)
        return Place(place.buffer, (examples, groups, channels, count), steps, place.offset)

    first = weights.place
    steps = (0, weights.group_step, weights.row_step, weights.channel_step)
    shape = (examples, groups, weights.rows, weights.channels)
    operands = [
        Place(first.buffer, shape, steps, first.offset),
        images(x, weights.channels),
        images(out, weights.rows),
    ]
    if operands[2].strides[-1] != 1:
        a, b, c = map(turned, operands)
        operands = [b, a, c]
    return [step for part in products_of(*operands) for step in product_steps(*part, lasts)]


def turned(place: Place) -> Place:
    """Matrices with rows for columns."""
    (*some, m, n), (*steps, row, column) = place.shape, place.strides
    return Place(place.buffer, (*some, n, m), (*steps, column, row), place.offset)


def is_one_pixel(params: dict[str, Any], x: Place, weights: Place, out: Place) -> bool:
    """Whether a transposed convolution lays its filters down where they lie: each tap is a result.

    Channels of its images, of one pixel each, are then rows of one product with all taps.
    """
    taps, numbers = weights.shape[2:], (*x.shape, *x.strides, *out.shape, *out.strides)
    if any(map(is_extent, (*numbers, *weights.shape, *weights.strides))):
        return False
    before = (low for low, _ in params["padding"])
    alone = set(x.shape[2:]) == {1} and not any(before) and set(params["dilation"]) == {1}
    whole = taps == out.shape[2:]
    return alone and whole and all(merged_with_channels(place) for place in (weights, out))


def merged_with_channels(place: Place) -> bool:
    """Whether elements of all channels of an image follow one another, or there is one a channel.

    (Then channels may lie apart.)
    """
    step, count = merged(place), prod(place.shape[2:])
    return step is not None and (count == 1 or place.strides[1] == step * count)


def one_pixel_steps(
    x: Place, weights: Place, out: Place, groups: int, lasts: Lasts
) -> list[Launch]:
    """Launches of a transposed convolution that `is_one_pixel`."""
    examples, channels = x.shape[0], x.shape[1] // groups
    count = prod(weights.shape[1:])  # results of a group

    def columns(place: Place, rows: int, by_group: int, row: int) -> Place:
        """[group, row, result]."""
        step = merged(place) if prod(place.shape[2:]) > 1 else place.strides[1]
        assert step is not None
        return Place(place.buffer, (groups, rows, count), (by_group, row, step), place.offset)

    steps = (channels * x.strides[1], x.strides[0], x.strides[1])
    operands = (
        Place(x.buffer, (groups, examples, channels), steps, x.offset),
        columns(weights, channels, channels * weights.strides[0], weights.strides[0]),
        columns(out, examples, weights.shape[1] * out.strides[1], out.strides[0]),
    )
    return [step for part in products_of(*operands) for step in product_steps(*part, lasts)]
