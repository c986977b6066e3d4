"""Copies of matrices that lie by columns into rows.

Note [squares]
    Along a row of the result, elements of the source lie apart: each would be loaded by itself. So
    as many rows as a register holds elements are copied at once, as many columns at a time: a
    vector of each column, which lies together, turned in registers into a vector of each row. With
    registers as wide as a line of the cache both sides are read and written by lines. What is left
    at the edges comes in the smallest squares, then one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from adjoint.engine.backends.llvm.ir.machine import machine
from adjoint.engine.backends.registers.operations import KIND
from adjoint.engine.backends.registers.vector import V, type_text, width

if TYPE_CHECKING:
    from adjoint.engine.backends.llvm.loops.kernels import LoopEmitter

SQUARE = 4  # rows and columns, at the least
LINE = 64  # bytes of a line of the cache
SQUARES = frozenset({"float32", "float64", "int32", "int64"})  # what is copied so


def square_side(dtype: str) -> int:
    """How many rows of a dtype are copied at once."""
    return max(SQUARE, machine().bits // width(KIND[dtype][1]))


def copies_by_lines(dtype: str) -> bool:
    """Whether a square takes whole lines of what it reads, to which no other square comes back.

    Pieces are then as wide as rows of the result are: narrow ones would leave a page of it for the
    next at each row, and take three to five times as long.
    """
    return square_side(dtype) * width(KIND[dtype][1]) >= 8 * LINE


def square_count(emitter: LoopEmitter, row: int) -> str:
    """How many blocks of rows there are, the last perhaps not whole."""
    let, side = emitter.code.let, square_side(emitter.form.refs[0][0])
    return let(f"udiv i64 {let(f'add i64 {emitter.size[row]}, {side - 1}')}, {side}")


def copy_rows(emitter: LoopEmitter, where: dict[int, str], start: str, stop: str) -> None:
    """One piece: some columns of a block of rows, whose number is where its dimension is."""
    let, row = emitter.code.let, emitter.form.outer - 2
    side, size = square_side(emitter.form.refs[0][0]), emitter.size[row]
    first = let(f"mul i64 {where.pop(row)}, {side}")
    end = let(f"add i64 {first}, {side}")
    end = let(f"select i1 {let(f'icmp sle i64 {end}, {size}')}, i64 {end}, i64 {size}")
    area = MatrixArea(emitter, where)
    area.copy((first, end), (start, stop), [side, SQUARE] if side > SQUARE else [side])


class MatrixArea:
    """Writes the copy of some rows and columns."""

    def __init__(self, emitter: LoopEmitter, where: dict[int, str]) -> None:
        self.emitter, self.where = emitter, where
        self.code, self.blocks, self.let = emitter.code, emitter.blocks, emitter.code.let
        self.row, self.column = emitter.form.outer - 2, emitter.form.outer - 1
        self.kind = KIND[emitter.form.refs[0][0]][1]
        self.one = type_text(self.kind, 1)
        self.align = 8 if self.kind in ("f64", "i64") else 4
        self.apart = emitter.access.word["stride", 0, self.column]
        self.below = emitter.access.word["stride", 1, self.row]

    def copy(self, rows: tuple[str, str], columns: tuple[str, str], sides: list[int]) -> None:
        """Rows and columns from and to these, by squares of the first side, then of the next."""
        side, *smaller = sides
        middle, edge = self.whole(rows, side), self.whole(columns, side)
        self.each((rows[0], middle), (columns[0], edge), (side, side), self.square(side))
        right, below = ((rows[0], middle), (edge, columns[1])), ((middle, rows[1]), columns)
        if smaller:
            self.copy(*right, smaller)
            self.copy(*below, smaller)
        else:
            self.each(*right, (side, 1), self.line(side))
            self.each(*below, (1, 1), self.element)

    def whole(self, span: tuple[str, str], side: int) -> str:
        """Where whole squares of a span end."""
        length = self.let(f"sub i64 {span[1]}, {span[0]}")
        return self.let(f"add i64 {span[0]}, {self.let(f'and i64 {length}, {-side}')}")

    def each(
        self,
        rows: tuple[str, str],
        columns: tuple[str, str],
        steps: tuple[int, int],
        body: Callable[[str, str], None],
    ) -> None:
        """A loop over rows, and over columns in it."""

        def along(i: str, _: list[V]) -> list[V]:
            def at(c: str, _: list[V]) -> list[V]:
                body(
                    *(
                        self.emitter.access.address(r, {**self.where, self.row: i, self.column: c})
                        for r in (0, 1)
                    )
                )
                return []

            self.blocks.loop(*columns, steps[1], (), at)
            return []

        self.blocks.loop(*rows, steps[0], (), along)

    def step(self, pointer: str, stride: str, times: int) -> str:
        """An element so many strides further."""
        far = self.let(f"mul i64 {stride}, {times}")
        return self.let(f"getelementptr {self.one}, ptr {pointer}, i64 {far}")

    def square(self, side: int) -> Callable[[str, str], None]:
        """What copies a square: its columns, as its rows."""
        wide = type_text(self.kind, side)

        def copied(source: str, target: str) -> None:
            columns = [
                self.let(f"load {wide}, ptr {self.step(source, self.apart, k)}, align {self.align}")
                for k in range(side)
            ]
            for k, vector in enumerate(turned(self.let, wide, columns)):
                place = self.step(target, self.below, k)
                self.code.lines.append(f"store {wide} {vector}, ptr {place}, align {self.align}")

        return copied

    def line(self, side: int) -> Callable[[str, str], None]:
        """What copies one column of so many rows."""
        wide = type_text(self.kind, side)

        def copied(source: str, target: str) -> None:
            vector = self.let(f"load {wide}, ptr {source}, align {self.align}")
            for k in range(side):
                element = self.let(f"extractelement {wide} {vector}, i64 {k}")
                place = self.step(target, self.below, k)
                self.code.lines.append(
                    f"store {self.one} {element}, ptr {place}, align {self.align}"
                )

        return copied

    def element(self, source: str, target: str) -> None:
        """One element."""
        value = self.let(f"load {self.one}, ptr {source}, align {self.align}")
        self.code.lines.append(f"store {self.one} {value}, ptr {target}, align {self.align}")


def turned(let: Callable[[str], str], wide: str, columns: list[str]) -> list[str]:
    """The rows of a square whose columns are given.

    Quarters of it change places, then those of its quarters, and so on: each pair of vectors so far
    apart gives one of their lanes where that bit of the number is not set, and one of the others.
    """
    side = len(columns)
    rows, far = [*columns], side // 2
    while far:
        for k in (k for k in range(side) if not k & far):
            low = [lane if not lane & far else side + lane - far for lane in range(side)]
            high = [lane + far if not lane & far else side + lane for lane in range(side)]
            a, b = rows[k], rows[k + far]
            rows[k], rows[k + far] = (
                let(
                    f"shufflevector {wide} {a}, {wide} {b}, <{side} x i32> "
                    f"<{', '.join(f'i32 {lane}' for lane in lanes)}>"
                )
                for lanes in (low, high)
            )
        far //= 2
    return rows
