"""The template of Fourier transforms of numbers as pairs (Note [pairs])."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isqrt, log2, prod, sqrt
from typing import Any

import numpy as np

from adjoint.engine.backends.llvm.templates.spectra import kernel, stages
from adjoint.engine.backends.llvm.templates.spectra.kernel import Spectrum, SpectrumKernel
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import Address, Launch, double_bits, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import is_extent

KINDS = {"float32": "f32", "float64": "f64"}
NUMPY = {"f32": np.float32, "f64": np.float64}
PRIME = 79  # the largest radix: beyond, Note [chirps], which takes as long as that from 83 on
LONG = 1 << 12  # elements of a line from which on it is a sheet among many lines too
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
    """One launch, or two for sheets; lines are dealt out among the workers."""
    (x,), (out,), params = operands, results, node.params
    spec, dim, n, way = node.inputs[0].spec, params["dim"], params["n"], params["way"]
    shape = spec.shape if way == "half" else spec.shape[:-1]
    after = prod(shape[dim + 1 :])
    kind, inverse = KINDS[spec.dtype.name], params["inverse"]
    given = Address(x.buffer, x.offset * spec.dtype.itemsize)
    target = Address(out.buffer, out.offset * spec.dtype.itemsize)
    lines, scale = prod(shape[:dim]) * after, scale_of(params, n)
    radices = stages.radices_of(n)
    chirps = max(radices, default=1) > PRIME
    folded = n % 2 == 0 and not chirps and (way == "half" or (way == "back" and inverse))
    what = described(kind, way, inverse, chirps, after, folded)
    circle = 2 * n if chirps else n if folded else 0
    passed = Passed(what, lines, after, n, scale, circle=circle, read=shape[dim])
    sheet = sheet_of(n // 2 if folded else n, lines, what.lanes) if after == 1 else None
    if sheet is None or not (folded or way == "whole"):
        return [launch(spec.dtype, passed, given, target, x.buffer, out.buffer)]
    if not folded:
        ends = given, target, x.buffer, out.buffer
        return of_sheets(spec.dtype, inverse, lines, sheet, scale, *ends)
    between = PlannedBuffer(ARENA, spec.dtype, lines * n, name="folded lines")
    passed = replace(passed, is_transformed=False, scale=scale if way == "half" else 1.0)
    if way == "half":
        ends = given, Address(between), x.buffer, between
        first = of_sheets(spec.dtype, False, lines, sheet, 1.0, *ends)
        return [*first, launch(spec.dtype, passed, Address(between), target, between, out.buffer)]
    ends = Address(between), target, between, out.buffer
    first = [launch(spec.dtype, passed, given, Address(between), x.buffer, between)]
    return [*first, *of_sheets(spec.dtype, True, lines, sheet, scale, *ends)]


def of_sheets(
    dtype: Any, inverse: bool, lines: int, sheet: tuple[int, int], scale: float,
    given: Address, target: Address, source: Any, result: Any,
) -> list[Launch]:  # fmt: skip
    """Complex lines, each as a sheet: its columns, then its rows (Note [sheets])."""
    (rows, columns), kind = sheet, KINDS[dtype.name]
    between = PlannedBuffer(ARENA, dtype, 2 * lines * rows * columns, name="sheets")
    one = Spectrum(kind, "whole", inverse, chirps=False, near=True, sheet="columns")
    two = Spectrum(kind, "whole", inverse, chirps=False, near=False, in_one=True, sheet="rows")
    circle = rows * columns
    first = Passed(one, lines * columns, columns, rows, 1.0, across=columns, circle=circle)
    second = Passed(two, lines * rows, 1, columns, scale, across=rows)
    return [
        launch(dtype, first, given, Address(between), source, between),
        launch(dtype, second, Address(between), target, between, result),
    ]


def sheet_of(n: int, lines: int, lanes: int) -> tuple[int, int] | None:
    """Rows and columns of a line as a sheet, as many as whole vectors; None: it stays a line.

    Many lines are transformed side by side while the nearer memory holds as many as lanes.
    """
    if n % (lanes * lanes) or (lines >= lanes and n < LONG) or max(stages.radices_of(n)) > PRIME:
        return None
    found = [r for r in range(lanes, isqrt(n) + 1, lanes) if n % r == 0 and n // r % lanes == 0]
    return (found[-1], n // found[-1]) if found else None


@dataclass(frozen=True, slots=True)
class Passed:
    """Lines that one launch transforms."""

    what: Spectrum
    lines: int
    after: int
    n: int
    scale: float
    across: int = 0  # Note [sheets]
    circle: int = 0  # the order of the second table of roots
    read: int = 0  # elements of a line, if not n
    is_transformed: bool = True  # else they are folded, or unfolded, alone


def launch(
    dtype: Any, of: Passed, given: Address, target: Address, source: Any, result: Any
) -> Launch:
    """The launch for some lines."""
    what, n = of.what, of.n
    length = smooth(2 * n - 1) if what.chirps else n // 2 if what.folded else n
    radices = stages.radices_of(length) if of.is_transformed else []
    more, table, second = program_words(length, radices, of.circle)
    turns = kernel.SpectrumWords.word_count() + len(more)
    if what.sheet == "columns":
        more += sheet_words(what, n, of.circle)
    pieces = min(-(-of.lines // what.lanes), MOST)
    room = kernel.room_of(what, length)
    work = PlannedBuffer(ARENA, dtype, pieces * room, name="lines")
    words = kernel.SpectrumWords(
        out=target, source=given, work=Address(work), room=room, lines=of.lines, after=of.after,
        read=of.read or n, written=n // 2 + 1 if what.way == "half" else n, length=n,
        padded=length, stages=len(radices),
        scale=double_bits(of.scale / (length if what.chirps else 1)), table=table, chirps=second,
        across=of.across, turns=turns, pieces=pieces,
    )  # fmt: skip
    return Launch(
        function=what.function,
        text=lambda name: SpectrumKernel(what).text(name),
        words=[*words.listed(), *more],
        reads=(whole(source),),
        writes=(whole(result), whole(work)),
        pieces=pieces,
        cost=of.lines * length * (4 + 3 * log2(length + 1)) * (3 if what.chirps else 1),
        label=sized("fft", of.lines, n),
    )


def sheet_words(what: Spectrum, rows: int, order: int) -> list[int]:
    """Words of both parts of the roots by which lanes of a sheet's columns differ, row by row."""
    turns = np.array([[stages.root(k * j, order) for j in range(what.lanes)] for k in range(rows)])
    parts = np.stack([turns.real, turns.imag], 1).astype(NUMPY[what.kind])
    listed: list[int] = parts.reshape(-1).view(np.int64).tolist()
    return listed


def in_order(place: Place) -> bool:
    """Results are written in row-major order."""
    return place.contiguous


TEMPLATES = {"spectrum": Template(accepts, packed, steps, writes_part=in_order)}
