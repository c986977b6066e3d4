"""What a number is beside a tensor of halves.

Note [numbers beside halves]
    Halves are computed with in float32. A number beside them, or a tensor of another dtype without
    dimensions, is rounded to a half before: 0.1 is what a half tensor holds for it, so that x is
    equal to 0.1 where it was made of it. Not so what a record names as `unrounded`: the second
    operand of a product or quotient, and factors that are numbers alone, are computed with in
    float32, as a learning rate should be. PyTorch's CPU does all of this so.
    What `alpha` multiplies is rounded before it is added; that CPU rounds alpha itself, and the
    multiple where it adds one by one (the end of a tensor, strided ones), so last bits differ.
"""

from __future__ import annotations

import struct
from math import copysign, inf, isnan

from adjoint.engine.core.dtype import DType, bfloat16


def half_of(number: float, dtype: DType) -> float:
    """A number as a half of a dtype, by way of float32, as PyTorch converts it.

    >>> from adjoint.engine.core.dtype import float16
    >>> half_of(0.1, float16), half_of(0.1, bfloat16), half_of(70000, float16)
    (0.0999755859375, 0.10009765625, inf)
    """
    if isnan(number):
        return number
    single = _rounded("<f", number)
    if dtype is not bfloat16 or single in (inf, -inf):
        return _rounded("<e", single)
    (bits,) = struct.unpack("<I", struct.pack("<f", single))
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000  # to the nearest, ties to even
    (half,) = struct.unpack("<f", struct.pack("<I", bits))
    return float(half)


def _rounded(form: str, number: float) -> float:
    """A number as `struct` keeps it, infinite where that is too small for it."""
    try:
        return float(struct.unpack(form, struct.pack(form, number))[0])
    except OverflowError:
        return copysign(inf, number)
