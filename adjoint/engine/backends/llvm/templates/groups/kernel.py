"""The kernel of a few rows of floats times a weight of 4 or 8 bits in groups.

Note [grouped products]
    With few rows the time goes into reading the weight, so it is unpacked in registers: a vector of
    whole numbers becomes floats, less the group's zero point, times the input. What a group adds up
    to is scaled once. Each result is a sum along two rows; workers share the weight's rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.registers.vector import V, mad

EVEN = 1 << 23  # from here on floats are whole numbers, whose last digits are bits
EVEN_BITS = 0x4B000000
OFFSET = 128  # that makes a signed byte unsigned
LANES = 32  # numbers at a time: whole groups are multiples of it


@dataclass(frozen=True, slots=True)
class GroupedForm:
    """What a kernel is written for."""

    bits: int
    rows: int  # of the input, at a time
    zero: str  # the kind of the zero points; "" if there are none
    bias: bool

    @property
    def exact(self) -> bool:
        """Whether zero points are whole numbers."""
        return self.zero != "f32"

    @property
    def name(self) -> str:
        parts = [f"groups_{self.bits}x{self.rows}", self.zero or "none", "bias" * self.bias]
        return "_".join(part for part in parts if part)


@dataclass(slots=True)
class GroupedWords(LaunchWords):
    """C = X W^T + bias, the weights in groups along the depth."""

    x: Any
    weight: Any
    scale: Any
    zero: Any
    bias: Any
    c: Any
    m: Any
    n: Any
    groups: Any  # of a row
    group: Any  # elements of each
    x_row: Any
    c_row: Any
    part: Any  # rows of the weight in a piece
    pieces: Any


class GroupedProduct:
    """Writes the kernel of Note [grouped products]."""

    def __init__(self, form: GroupedForm) -> None:
        self.form = form
        self.w = w = CodeWriter()
        self.word = GroupedWords.read_by(w)

    def text(self, name: str) -> Text:
        self.w.pieces(self.word.pieces, self.piece)
        return self.w.finish(name)

    def piece(self, p: V) -> None:
        """Some of the weight's rows."""
        w, word, form = self.w, self.word, self.form
        self.point_at()
        first = p * word.part
        stop = w.least(first + word.part, word.n)

        def column(j: V) -> None:
            def rows(i: V) -> None:
                # The last row stands in for those beyond, which give its result again.
                numbers = [w.least(i + r, word.m - 1) for r in range(form.rows)]
                inputs = [w.at(self.x, "f32", number * word.x_row) for number in numbers]
                for number, total in zip(numbers, self.sums(j, inputs), strict=True):
                    out = w.total(total)
                    if form.bias:
                        out = out + w.load(self.bias, "f32", j)
                    w.store(out, self.c, number * word.c_row + j)

            w.loop(0, word.m, rows, step=form.rows)

        w.loop(first, stop, column)

    def point_at(self) -> None:
        """Pointers to the operands."""
        word = self.word
        self.x, self.weight, self.scale, self.zero, self.bias, self.c = (
            self.w.pointer(start)
            for start in (word.x, word.weight, word.scale, word.zero, word.bias, word.c)
        )

    def sums(self, j: V, inputs: list[str]) -> list[V]:
        """The sums of one row of the weight with some of the input, vectors still."""
        w, word, form = self.w, self.word, self.form
        zeros = [w.code.const(0, "f32", LANES)] * form.rows

        def group(g: V, *before: V) -> list[V]:
            at = j * word.groups + g
            point = w.code.splat(self.point(at), LANES)

            def turn(k: V, *inner: V) -> list[V]:
                place = g * word.group + k
                real = self.numbers(j * word.groups * word.group + place) - point
                return [
                    mad(real, w.load(x, "f32", place, LANES), s)
                    for x, s in zip(inputs, inner, strict=True)
                ]

            totals = w.loop(0, word.group, turn, zeros, step=LANES)
            scale = w.code.splat(w.load(self.scale, "f32", at), LANES)
            return [mad(x, scale, s) for x, s in zip(totals, before, strict=True)]

        return w.loop(0, word.groups, group, zeros)

    def point(self, at: V) -> V:
        """What stands for zero among `numbers` of a group."""
        w, form = self.w, self.form
        zero = w.code.const(0, "f32")
        if form.zero:
            zero = w.load(self.zero, form.zero, at).convert("f32")
        if form.exact:
            return zero + (EVEN + (OFFSET if form.bits == 8 else 0))
        return zero + OFFSET if form.bits == 8 else zero

    def numbers(self, at: V) -> V:
        """Neighbouring numbers of the weight as floats, moved so that none is negative."""
        steps = self.bytes(at).convert("u32")
        if self.form.exact:  # in the place of the last digits of EVEN: quicker than a conversion
            return (steps | EVEN_BITS).bitcast("f32")
        return steps.convert("f32")

    def bytes(self, at: V) -> V:
        """Neighbouring numbers of the weight, a byte each."""
        w = self.w
        if self.form.bits == 8:
            return w.load(self.weight, "u8", at, LANES) ^ OFFSET
        both = w.load(self.weight, "u8", at.quotient(2), LANES // 2)
        low, high = both & 15, both >> 4
        half = LANES // 2
        order = [lane // 2 + half * (lane % 2) for lane in range(LANES)]
        return w.pick(low, high, order)


def groups_text(name: str, form: GroupedForm) -> Text:
    """The kernel of Note [grouped products]."""
    return GroupedProduct(form).text(name)
