"""Words: what a launch of generated kernels is told, and how its work is dealt out.

Note [tiled pieces]
    What reads a matrix by columns and writes it by rows touches a line of memory for each element
    of a row, and finds none of them in the cache when the next row wants their neighbours. So its
    pieces are TILE columns wide, wider where rows are few, and rows follow each other before
    columns do: TILE lines serve as many rows as they have elements.

Note [pieces in turns]
    Kernels that write parts of the rows of one array, as those of `cat` do, leave gaps when each
    does all its rows first, and memory takes twice as long as to write one row after another. So
    where they have as many pieces each, and not short ones, they take turns, piece by piece.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from adjoint.engine.backends.llvm.loops.column_sums import STRIP, sums_columns
from adjoint.engine.backends.llvm.loops.nests import has_long_sums
from adjoint.engine.backends.llvm.loops.pieces import FEW_LANES, lanes_of, words_of
from adjoint.engine.backends.llvm.loops.turning import SQUARE, SQUARES, copies_by_lines, square_side
from adjoint.engine.compiler.loops.ir import (
    ANY,
    LOAD,
    POINT,
    SEVERAL,
    SHORT,
    WHOLE,
    Form,
    Kernel,
)
from adjoint.engine.compiler.schedule.steps import Address, HostNumber, Launch, Status, double_bits
from adjoint.engine.compiler.target import Template
from adjoint.engine.graph.ir import Value
from adjoint.engine.graph.sizes.extents import Extent, computed, is_extent, is_undecided

TILE, TILE_ELEMENTS = 16, 4096  # columns at least; elements of few rows, which stay in the cache
LEADS = 16  # blocks of rows, or other dimensions, that are pieces enough without strips
TURN = 256  # elements of a piece: of less, what is around a piece would take as long


def fill_words(step: Launch) -> None:
    """The words of a launch of generated kernels (Note [kernel words])."""
    form = step.form
    layout = words_of(form)
    lanes, checks = lanes_of(form), form.checks()
    step.form = replace(
        form,
        spans=spans(step.kernels, lanes),
        tiled=is_tiled(step.kernels),
        turned=is_turned(step.kernels),
        long=has_long_sums(step.kernels, lanes),
    )
    words: list[Any] = [len(step.kernels), 0]
    first = 0
    shares = [divide(kernel, lanes, step.form) for kernel in step.kernels]
    step.form = replace(step.form, in_turns=take_turns(step.kernels, shares))
    for kernel, (pieces, chunk, chunks) in zip(step.kernels, shares, strict=True):
        extents = iter(kernel.extents)
        words += [first, pieces, chunk, chunks, *kernel.outer, *kernel.inner]
        for kind, k, d in layout:
            if kind == "address":
                ref = kernel.refs[k]
                if ref.buffer is None:
                    words.append(ref.offset)
                else:
                    words.append(Address(ref.buffer, ref.offset * ref.dtype.itemsize))
            elif kind == "stride":
                words.append(kernel.refs[k].strides[d])
            elif kind == "pick":
                words.append(kernel.refs[k].picks[d][0])
            elif kind == "limit":
                words.append(kernel.refs[k].picks[d][1])
            elif kind == "extent":
                words.append(next(extents))
            elif kind == "status":
                words.append(Status())
            elif kind == "fault":
                words.append(kernel.faults[checks.index((k, d))])
            else:
                host = kernel.hosts[k]
                if isinstance(host, Value):
                    host = HostNumber(host)
                words.append(double_bits(host) if host.__class__ is float else host)
        first += pieces
    words[1] = first
    step.words = words
    step.pieces = first


def spans(kernels: list[Kernel], lanes: int) -> str:
    """What sizes of the vector dimension there are."""
    sizes = [k.inner[-1] if k.form.rows else k.outer[-1] if k.outer else 0 for k in kernels]
    if any(isinstance(n, Extent) and not n.decides for n in sizes):
        return ANY
    if all(n < lanes for n in sizes):
        moves = all(is_pointwise(k.form) for k in kernels)
        return SEVERAL if moves and max(sizes) >= FEW_LANES else SHORT
    return ANY if any(n % lanes for n in sizes) else WHOLE


def is_pointwise(form: Form) -> bool:
    """Whether elements are made each by itself, of no numbers that are drawn in vectors."""
    return not (
        form.rows or form.inner or form.columns or any(op.name == "random" for op in form.ops)
    )


def is_tiled(kernels: list[Kernel]) -> bool:
    """Whether kernels are pointwise and step by columns through some of what they touch."""
    return all(
        not k.form.rows
        and not k.form.inner
        and k.form.outer > 1
        and any(
            ref.buffer is not None
            and ref.strides[k.form.outer - 2] == 1
            and ref.strides[k.form.outer - 1] not in (0, 1)
            for ref in k.refs
        )
        for k in kernels
    )


def is_turned(kernels: list[Kernel]) -> bool:
    """Whether kernels copy what lies by columns into rows, and do nothing else (`turning`)."""
    return all(map(only_turns, kernels))


def only_turns(kernel: Kernel) -> bool:
    """The same of one kernel, of words of four or eight bytes."""
    form = kernel.form
    if form.rows or form.inner or form.outer < 2 or len(kernel.refs) != 2:
        return False
    (name, _), (stored, _) = form.refs
    kinds = [(op.kind, op.name if op.kind == POINT else LOAD) for op in form.ops]
    whole = kinds in ([(LOAD, LOAD)], [(LOAD, LOAD), (POINT, "cast")]) and name == stored
    if not whole or len(form.ops[0].args) != 1 or form.stores != ((len(form.ops) - 1, 1),):
        return False
    if {op.dtype for op in form.ops} != {name} or name not in SQUARES:
        return False
    source, target = (ref.strides for ref in kernel.refs)
    row, column = form.outer - 2, form.outer - 1
    sizes, steps = kernel.outer[row:], [source[row], source[column], target[row], target[column]]
    if any(map(is_extent, (*sizes, *steps))) or min(sizes) < SQUARE:
        return False
    return source[row] == target[column] == 1 and source[column] > 1 and target[row] > 1


def joined(template: Template) -> Template:
    """A template whose copies into parts of its result are one launch, if they are of one form."""

    def steps(*given: Any) -> list[Any]:
        launches: list[Launch] = []
        for step in template.steps(*given):
            if launches and step.form.key() == launches[-1].form.key():
                last = launches[-1]
                last.kernels += step.kernels
                last.works += step.works
                last.reads += step.reads
                last.writes += step.writes
                last.cost += step.cost
            else:
                launches.append(step)
        return launches

    return replace(template, steps=steps)


def take_turns(kernels: list[Kernel], shares: list[tuple[int, int, int]]) -> bool:
    """Whether kernels write parts of one array's rows (Note [pieces in turns])."""
    pieces, _, chunks = shares[0]
    if len(kernels) < 2 or is_undecided(pieces) or pieces < 2 or chunks != 1:
        return False
    if any(is_undecided(n) or n != pieces or many != 1 for n, _, many in shares):
        return False
    if any(k.form.rows or k.form.inner or len(k.form.stores) != 1 for k in kernels):
        return False
    written = [k.refs[k.form.stores[0][1]] for k in kernels]
    one, leading = written[0], range(kernels[0].form.outer - 1)
    return all(
        ref.buffer is one.buffer
        and all(ref.strides[d] == one.strides[d] for d in leading)
        and k.outer[-1] >= TURN
        for k, ref in zip(kernels, written, strict=True)
    )


def divide(kernel: Kernel, lanes: int, form: Form) -> tuple[int, int, int]:
    """(pieces, chunk, chunks): how the outer space is dealt out, by shape alone."""
    if form.rows or not kernel.outer:
        return prod(kernel.outer), 0, 1
    lead, size = prod(kernel.outer[:-1]), kernel.outer[-1]
    chunk = computed(chunk_length, lead, size, prod(kernel.inner), lanes, sums_columns(form))
    if form.tiled:
        wide = form.turned and copies_by_lines(form.refs[0][0])
        chunk = STRIP if wide else computed(tile_width, kernel.outer[-2])
    chunks = -(-size // chunk)
    if form.turned:
        lead = prod(kernel.outer[:-2]) * -(-kernel.outer[-2] // square_side(form.refs[0][0]))
    return lead * chunks, chunk, chunks


def tile_width(rows: int) -> int:
    """Columns of a piece (Note [tiled pieces])."""
    return max(TILE, TILE_ELEMENTS // max(rows, 1) // TILE * TILE)


def strip_width(lead: int, size: int) -> int:
    """Columns of a strip (Note [columns]): narrow only where strips alone are to be many pieces."""
    if lead >= LEADS:
        return STRIP
    return STRIP // 4 if size >= STRIP // 2 else STRIP // 16


def chunk_length(lead: int, size: int, inside: int, lanes: int, strips: int) -> int:
    """Elements of the vector dimension in a piece."""
    if strips:  # Note [columns]
        return strip_width(lead, size)
    wanted = max(1, 4096 // max(1, inside))
    chunk = max(lanes, -(-min(size, wanted) // lanes) * lanes)
    return max(chunk, -(-size // lanes) * lanes) if lead >= 64 else chunk
