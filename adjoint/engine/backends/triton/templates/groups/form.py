"""What kernels of a product with a weight in groups must know of it, and how numbers become floats.

Note [numbers as floats]
    To convert whole numbers takes several times as long as to add. So bits are put below the
    exponent of 2^23: the float of that is 2^23 plus the number, from which 2^23 is taken off,
    exactly. Bits further up stand for the number times a power of two, which needs no shift where
    the other factor was divided by that power before.
"""

from __future__ import annotations

from dataclasses import dataclass

from adjoint.engine.backends.triton.code import memory_type
from adjoint.engine.backends.triton.launch_words import ALIGN
from adjoint.engine.backends.triton.templates.lines import pointer
from adjoint.engine.core.dtype import named

X, WEIGHT, SCALE, ZERO, BIAS, OUT, ROWS, OUTPUTS = range(8)  # words
EXPONENT, LEAST = 0x4B000000, 1 << 23  # the bits of 2^23, and itself


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """Rows (m, k) of floats times a weight (n, k) of few bits, which is transposed."""

    dtype: str  # of rows and results
    bits: int
    depth: int  # k
    group: int
    step: int  # elements from a row to the next
    scale: str  # dtypes; that of zero points and of a bias is "" where there is none
    zero: str
    bias: str
    aligned: tuple[int, int]  # what addresses and steps of rows, of the weight's, are multiples of

    @property
    def count(self) -> int:
        """Groups of a row."""
        return self.depth // self.group

    @property
    def bytes(self) -> int:
        """Bytes of a row of the weight."""
        return self.depth * self.bits // 8

    @property
    def shift(self) -> int:
        """What is added to numbers of 8 bits, which are signed."""
        return 128 if self.bits == 8 else 0

    def start(self, weight: str, hinted: bool = True) -> list[str]:
        """Pointers to all that is read and written, the weight being seen as some type."""
        item = named(self.dtype).itemsize
        lines = [
            f"x = {hint(pointer(X, memory_type(self.dtype)), self.aligned[0], item)}",
            f"weight = {hint(pointer(WEIGHT, weight), self.aligned[1] if hinted else 1, 1)}",
            f"scale = {pointer(SCALE, memory_type(self.scale))}",
            f"m = tl.load(w + {ROWS})",
            f"n = tl.load(w + {OUTPUTS})",
        ]
        if self.zero:
            lines.append(f"zero = {pointer(ZERO, memory_type(self.zero))}")
        if self.bias:
            lines.append(f"bias = {pointer(BIAS, memory_type(self.bias))}")
        return lines

    def number(self, bits: str, factor: int = 1) -> str:
        """A number times a factor, given the bits it is at."""
        return (
            f"((({bits}) | {EXPONENT}).to(tl.float32, bitcast=True) - "
            f"{LEAST + self.shift * factor}.0)"
        )


def hint(start: str, aligned: int, item: int) -> str:
    """A pointer that is known to be a multiple of 16, if it is."""
    return f"tl.multiple_of({start}, {ALIGN})" if aligned >= max(ALIGN, item) else start
