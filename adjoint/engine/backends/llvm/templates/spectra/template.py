"""The template of Fourier transforms of numbers as pairs (Note [pairs])."""

from __future__ import annotations

from dataclasses import replace
from math import log2, prod, sqrt
from typing import Any

from adjoint.engine.backends.llvm.templates.spectra import kernel, stages
from adjoint.engine.backends.llvm.templates.spectra.kernel import Spectrum, SpectrumKernel
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import Address, Launch, double_bits, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import is_extent

KINDS = {"float32": "f32", "float64": "f64"}
PRIME = 79  # the largest radix: beyond, Note [chirps], which takes as long as that from 83 on
MOST = 32  # pieces, each of which has memory of its own


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Floats on the CPU, in sizes that are known."""
    (x,) = inputs
    if not isinstance(x, Value) or x.spec.dtype.name not in KINDS or x.spec.device.type != "cpu":
        return False
    return not any(map(is_extent, x.spec.shape)) and 0 not in x.spec.shape


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands are read in row-major order."""
    return {i for i, x in enumerate(inputs) if not layout(x).contiguous}


def scale_of(params: dict[str, Any], n: int) -> float:
    """What results are multiplied with."""
    if params["norm"] == "ortho":
        return 1 / sqrt(n)
    return 1 / n if (params["norm"] == "forward") != params["inverse"] else 1.0


def tables(order: int, at: int) -> list[int]:
    """The words of a table of roots that begin at a word."""
    bits, low, high = stages.table_of(order)
    first = at + stages.TABLE
    words = [bits, first, first + 2 * len(low)]
    return [*words, *stages.words_of(low), *stages.words_of(high)]


def program_words(length: int, radices: list[int], chirps: int) -> tuple[list[int], int, int]:
    """Stages and tables, and where the table of roots and that of chirps lie."""
    words: list[int] = [0] * (stages.STAGE * len(radices))
    before = kernel.SpectrumWords.word_count()

    def append(more: list[int]) -> int:
        at = before + len(words)
        words.extend(more)
        return at

    left, near = length, 1
    for t, radix in enumerate(radices):
        groups = left // radix
        words[stages.STAGE * t : stages.STAGE * (t + 1)] = (
            radix, groups, near, length // left,
        )  # fmt: skip
        left, near = groups, near * radix
    table = append(tables(length, before + len(words)))
    return (
        words,
        table,
        append(tables(chirps, before + len(words))) if chirps else 0,
    )


def described(
    kind: str, way: str, inverse: bool, chirps: bool, after: int, folded: bool
) -> Spectrum:
    """The kernel of a transform with so many elements after its dimension."""
    apart = Spectrum(kind, way, inverse, chirps, near=False, folded=folded)
    return replace(apart, near=after % apart.lanes == 0, in_one=after == 1)


def smooth(least: int) -> int:
    """A length from `least` on whose radices are 2, 3, 4 and 5 alone, of the least work."""
    lengths = [1 << (least - 1).bit_length()]
    for five in powers(5, lengths[0]):
        for three in powers(3, lengths[0] // five):
            odd = five * three
            lengths.append(odd << (-(-least // odd) - 1).bit_length())
    return min(lengths, key=lambda n: (n * len(stages.radices_of(n)), n))


def powers(base: int, most: int) -> list[int]:
    """1, base, ... up to a number."""
    found = [1]
    while found[-1] * base <= most:
        found.append(found[-1] * base)
    return found


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; lines are dealt out among the workers."""
    (x,), (out,), params = operands, results, node.params
    spec, dim, n, way = node.inputs[0].spec, params["dim"], params["n"], params["way"]
    shape = spec.shape if way == "half" else spec.shape[:-1]
    radices = stages.radices_of(n)
    chirps = max(radices, default=1) > PRIME
    after = prod(shape[dim + 1 :])
    folded = n % 2 == 0 and not chirps and (way == "half" or (way == "back" and params["inverse"]))
    what = described(KINDS[spec.dtype.name], way, params["inverse"], chirps, after, folded)
    length = smooth(2 * n - 1) if chirps else n // 2 if folded else n
    radices = radices if length == n else stages.radices_of(length)
    circle = 2 * n if chirps else n if folded else 0
    more, table, chirps_at = program_words(length, radices, circle)
    lines = prod(shape[:dim]) * after
    pieces = min(-(-lines // what.lanes), MOST)
    room = kernel.room_of(what, length)
    work = PlannedBuffer(ARENA, spec.dtype, pieces * room, name="lines")
    scale = scale_of(params, n) / (length if chirps else 1)
    words = kernel.SpectrumWords(
        out=Address(out.buffer, out.offset * spec.dtype.itemsize),
        source=Address(x.buffer, x.offset * spec.dtype.itemsize),
        work=Address(work), room=room, lines=lines, after=after, read=shape[dim],
        written=n // 2 + 1 if way == "half" else n, length=n, padded=length,
        stages=len(radices), scale=double_bits(scale), table=table, chirps=chirps_at,
        pieces=pieces,
    )  # fmt: skip
    return [
        Launch(
            function=what.function,
            text=lambda name: SpectrumKernel(what).text(name),
            words=[*words.listed(), *more],
            reads=(whole(x.buffer),),
            writes=(whole(out.buffer), whole(work)),
            pieces=pieces,
            cost=lines * length * (4 + 3 * log2(length + 1)) * (3 if chirps else 1),
            label=sized("fft", lines, n),
        )
    ]


def in_order(place: Place) -> bool:
    """Results are written in row-major order."""
    return place.contiguous


TEMPLATES = {"spectrum": Template(accepts, packed, steps, writes_part=in_order)}
