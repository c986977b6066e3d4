"""Copies of matrices that lie by columns into rows.

Note [squares]
    Along a row of the result, elements of the source lie apart: each would be loaded by itself. So
    SQUARE rows are copied at once, SQUARE columns at a time: a vector of each column, which lies
    together, turned in registers into a vector of each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.engine.backends.registers.operations import KIND
from adjoint.engine.backends.registers.vector import V, type_text

if TYPE_CHECKING:
    from adjoint.engine.backends.llvm.loops.kernels import LoopEmitter

SQUARE = 4  # rows and columns
SQUARES = frozenset({"float32", "float64", "int32", "int64"})  # what is copied so


def square_count(emitter: LoopEmitter, row: int) -> str:
    """How many blocks of rows there are, the last perhaps not whole."""
    let = emitter.code.let
    return let(f"udiv i64 {let(f'add i64 {emitter.size[row]}, {SQUARE - 1}')}, {SQUARE}")


def copy_rows(emitter: LoopEmitter, where: dict[int, str], start: str, stop: str) -> None:
    """One piece: some columns of a block of rows, whose number is where its dimension is."""
    form, code, blocks = emitter.form, emitter.code, emitter.blocks
    let = code.let
    row, column = form.outer - 2, form.outer - 1
    kind = KIND[form.refs[0][0]][1]
    one, wide = type_text(kind, 1), type_text(kind, SQUARE)
    align = 8 if kind in ("f64", "i64") else 4
    first = let(f"mul i64 {where.pop(row)}, {SQUARE}")
    end = let(f"add i64 {first}, {SQUARE}")
    size = emitter.size[row]
    whole = let(f"icmp sle i64 {end}, {size}")
    middle = let(f"select i1 {whole}, i64 {end}, i64 {first}")
    end = let(f"select i1 {whole}, i64 {end}, i64 {size}")
    even = let(f"and i64 {let(f'sub i64 {stop}, {start}')}, {-SQUARE}")
    even = let(f"add i64 {start}, {even}")
    apart = emitter.access.word["stride", 0, column]
    below = emitter.access.word["stride", 1, row]

    def at(r: int, place: dict[int, str]) -> str:
        return emitter.access.address(r, {**where, **place})

    def step(pointer: str, stride: str, times: int) -> str:
        far = let(f"mul i64 {stride}, {times}")
        return let(f"getelementptr {one}, ptr {pointer}, i64 {far}")

    def several(i: str, _: list[V]) -> list[V]:
        def square(c: str, _: list[V]) -> list[V]:
            source, target = at(0, {row: i, column: c}), at(1, {row: i, column: c})
            columns = [
                let(f"load {wide}, ptr {step(source, apart, k)}, align {align}")
                for k in range(SQUARE)
            ]
            for k, vector in enumerate(turned(emitter, wide, columns)):
                place = step(target, below, k)
                code.lines.append(f"store {wide} {vector}, ptr {place}, align {align}")
            return []

        def line(c: str, _: list[V]) -> list[V]:
            source, target = at(0, {row: i, column: c}), at(1, {row: i, column: c})
            vector = let(f"load {wide}, ptr {source}, align {align}")
            for k in range(SQUARE):
                element = let(f"extractelement {wide} {vector}, i64 {k}")
                place = step(target, below, k)
                code.lines.append(f"store {one} {element}, ptr {place}, align {align}")
            return []

        blocks.loop(start, even, SQUARE, (), square)
        blocks.loop(even, stop, 1, (), line)
        return []

    def single(i: str, _: list[V]) -> list[V]:
        def element(c: str, _: list[V]) -> list[V]:
            value = let(f"load {one}, ptr {at(0, {row: i, column: c})}, align {align}")
            place = at(1, {row: i, column: c})
            code.lines.append(f"store {one} {value}, ptr {place}, align {align}")
            return []

        blocks.loop(start, stop, 1, (), element)
        return []

    blocks.loop(first, middle, SQUARE, (), several)
    blocks.loop(middle, end, 1, (), single)


def turned(emitter: LoopEmitter, wide: str, columns: list[str]) -> list[str]:
    """The rows of a square whose columns are given."""

    def mixed(a: str, b: str, *lanes: int) -> str:
        order = ", ".join(f"i32 {k}" for k in lanes)
        return emitter.code.let(f"shufflevector {wide} {a}, {wide} {b}, <4 x i32> <{order}>")

    a, b, c, d = columns
    low, high = mixed(a, b, 0, 4, 1, 5), mixed(a, b, 2, 6, 3, 7)  # a0 b0 a1 b1, a2 b2 a3 b3
    low_too, high_too = mixed(c, d, 0, 4, 1, 5), mixed(c, d, 2, 6, 3, 7)
    return [
        mixed(low, low_too, 0, 1, 4, 5),
        mixed(low, low_too, 2, 3, 6, 7),
        mixed(high, high_too, 0, 1, 4, 5),
        mixed(high, high_too, 2, 3, 6, 7),
    ]
