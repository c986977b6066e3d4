"""Convolutions of one tap that are products of matrices as they lie."""

from __future__ import annotations

from math import prod

from adjoint.engine.backends.llvm.templates.convolution.geometry import Phase
from adjoint.engine.backends.llvm.templates.convolution.narrow import TapWeights, is_narrow
from adjoint.engine.backends.llvm.templates.product.template import products_of
from adjoint.engine.backends.llvm.templates.product.tiled import Lasts, product_steps
from adjoint.engine.backends.llvm.templates.product.tiles import has_wide_registers
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Launch
from adjoint.engine.graph.sizes.extents import is_extent

LEAST = 32  # positions of an image, or they leave too much of the products' tiles empty


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
    if not alike or prod(x.shape[2:]) < LEAST:
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
