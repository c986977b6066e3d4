"""Squares of as many rows as a vector has lanes, turned on their way from memory to memory."""

from __future__ import annotations

from dataclasses import dataclass

from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.registers.vector import V, select, width


@dataclass(frozen=True, slots=True)
class Square:
    """Rows of which some elements are read, and columns of which some are written."""

    source: V  # addresses
    source_step: V  # from a row to the next, in elements
    rows: V  # that there are: the last one stands for those beyond it
    columns: V  # that are wanted: nothing else is read
    target: V
    target_step: V  # from a column to the next
    wanted: V  # elements of a column


def turn_square(w: CodeWriter, kind: str, lanes: int, square: Square) -> None:
    """Turn a square: by a routine that functions share, as LLVM is long about so many shuffles."""
    name = f"turn_square_{kind}_{lanes}"
    numbers = [
        square.source, square.source_step, square.rows, square.columns, square.target,
        square.target_step, square.wanted,
    ]  # fmt: skip
    w.routine(name, len(numbers), lambda inner, given: _body(inner, kind, lanes, Square(*given)))
    w.call(name, numbers)


def _body(w: CodeWriter, kind: str, lanes: int, square: Square) -> None:
    """Columns that are not wanted go to memory that nobody reads, which takes no branches."""
    item = width(kind) // 8
    source, nothing = w.pointer(square.source), w.address(w.reserve(kind, lanes))
    read, written = w.lanes_below(square.columns, lanes), w.lanes_below(square.wanted, lanes)
    last, step, zero = square.rows - 1, square.target_step * item, w.whole(0)
    rows = [
        w.load_some(read, kind, source, w.least(w.whole(i), last) * square.source_step)
        for i in range(lanes)
    ]
    for i, column in enumerate(w.transposed(rows)):
        place = select(square.columns > i, square.target + step * i, nothing)
        w.store_some(written, column, w.pointer(place), zero)
