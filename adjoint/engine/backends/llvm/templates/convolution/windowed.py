"""What templates over windows share: parts, zeros around the input, words of walks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from adjoint.engine.backends.llvm.templates.convolution import zeros_kernel as kernels
from adjoint.engine.backends.llvm.templates.convolution.geometry import (
    Phase,
    spread,
    steps_from,
    steps_to,
)
from adjoint.engine.backends.llvm.templates.product.tiles import tiled
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer, row_major
from adjoint.engine.compiler.schedule.steps import Address, Launch, whole
from adjoint.engine.graph.sizes.extents import is_extent

# Sizes, steps in one array, steps in another.
WalkWords = tuple[Sequence[Any], Sequence[Any], Sequence[Any]]
KINDS = {"float32": "f32", "float64": "f64"}
PIECES = 8  # work is dealt out in at least so many pieces, where it can be


def kind_of(place: Place) -> str:
    """The kind of a place's elements."""
    return KINDS[place.buffer.dtype.name]


def address(place: Place, offset: int = 0) -> Address:
    """The address of an element of a place's buffer."""
    return Address(place.buffer, offset * place.buffer.dtype.itemsize)


def lies_apart(place: Place) -> bool:
    """Whether the elements of a row of images lie apart, as where channels lie between them."""
    size, step = place.shape[-1], place.strides[-1]
    return not is_extent(size) and not is_extent(step) and size > 1 and step != 1


def lies_turned(place: Place) -> bool:
    """Whether it is channels that lie between them, so many that `pad_text` reads them together."""
    channels, step = place.shape[1], place.strides[1]
    known = not is_extent(channels) and not is_extent(step)
    return known and step == 1 and channels >= kernels.TURNED and lies_apart(place)


def parts_of(n: int, size: int) -> int:
    """How many parts of a size there are, the last perhaps smaller."""
    return -(-n // size)


def rounded(n: int, multiple: int) -> int:
    """The next multiple."""
    return parts_of(n, multiple) * multiple


def padded(
    source: Place, ranges: list[tuple[int, int]], always: bool = False
) -> tuple[Place, list[Launch]]:
    """A place in which all positions of the ranges exist, its origin still the input's first.

    That is the source itself if it has them, unless there is `always` to be a copy.
    """
    if not always and is_inside(ranges, source.shape[2:]):
        return source, []
    return copied_with_zeros(source, ranges)


def is_inside(ranges: list[tuple[int, int]], sizes: Sequence[int]) -> bool:
    """Whether all positions of the ranges exist."""
    return all(low >= 0 and high < n for (low, high), n in zip(ranges, sizes, strict=True))


def copied_with_zeros(source: Place, ranges: list[tuple[int, int]]) -> tuple[Place, list[Launch]]:
    """A copy, row by row, that has all positions of the ranges; those that were not are 0."""
    sizes = source.shape[2:]
    extents = tuple(high - low + 1 for low, high in ranges)
    shape = (*source.shape[:2], *extents)
    buffer = PlannedBuffer(ARENA, source.buffer.dtype, prod(shape), name="padded")
    whole_place = row_major(buffer, shape)
    kind = KINDS[buffer.dtype.name]
    words = kernels.PaddingWords(
        source=address(source, source.offset), target=Address(buffer),
        channels=shape[1], planes=shape[0] * shape[1],
        sizes=spread(extents), given=spread(sizes),
        starts=spread(tuple(-low for low, _ in ranges), 0),
        steps=[*source.strides[:2], *spread(source.strides[2:], 0)],
    ).listed()  # fmt: skip
    launch = Launch(
        function=f"pad_{tiled(kind)}",
        text=lambda name: kernels.pad_text(name, kind),
        words=words,
        reads=(whole(source.buffer),),
        writes=(whole(buffer),),
        pieces=shape[0] * shape[1] * spread(extents)[0],
        cost=buffer.size,
        label="pad",
    )
    start = sum(low * s for (low, _), s in zip(ranges, whole_place.strides[2:], strict=True))
    return Place(buffer, shape, whole_place.strides, -start), [launch]


def walk_words(phase: Phase, source: Place, out: Place) -> tuple[Address, Address, WalkWords]:
    """Where a phase begins in two arrays, and its words: sizes, steps in the one, in the other."""
    start, steps = steps_from(phase, source)
    to_start, to_steps = steps_to(phase, out)
    words = (spread(tuple(line.count for line in phase)), steps, to_steps)
    return address(source, start), address(out, to_start), words
