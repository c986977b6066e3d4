"""float16 and bfloat16 in memory, float32 in registers.

Both are 16-bit words (kind u16) in loads and stores. LLVM's bfloat calls library functions on
many targets, so its rounding is integer arithmetic; float16's is too where the processor lacks
the conversion.
"""

from __future__ import annotations

import struct

from adjoint.engine.backends.registers.vector import Number, V, select, type_text


def bfloat16_bits(x: V) -> V:
    """A float32 rounded to bfloat16 (nearest, ties to even; NaN stays NaN), as its word."""
    bits = x.bits(signed=False)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    quiet = (bits & 0x80000000) | 0x7FC00000
    return (select(x.isnan(), quiet, rounded) >> 16).convert("u16")


def upper_half(x: V) -> V:
    """The word of a float32 that is a bfloat16."""
    return (x.bits(signed=False) >> 16).convert("u16")


def is_bfloat16(value: Number) -> bool:
    """Whether a number is one.

    >>> is_bfloat16(0), is_bfloat16(-1.5), is_bfloat16(0.1), is_bfloat16(float("inf"))
    (True, True, False, True)
    """
    try:
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
    except OverflowError:
        return False
    exact = value != value or struct.unpack("<f", struct.pack("<f", value))[0] == value
    return exact and not bits & 0xFFFF


def from_bfloat16_bits(word: V) -> V:
    """A bfloat16's word as float32."""
    return (word.convert("u32") << 16).bitcast("f32")


def float16_bits(x: V) -> V:
    """A float32 rounded to float16 (nearest, ties to even; NaN stays NaN), as its word."""
    if x.code.features.halves:
        half = "half" if x.lanes == 1 else f"<{x.lanes} x half>"
        narrow = x.code.let(f"fptrunc {x.type} {x.ref} to {half}")
        out = type_text("u16", x.lanes)
        return V(x.code, x.code.let(f"bitcast {half} {narrow} to {out}"), "u16", x.lanes)
    bits = x.bits(signed=False)
    size = bits & 0x7FFFFFFF
    # Normal halves: rebias the exponent by 127 - 15 and round away 13 bits.
    normal = (size + (0xFFF - (112 << 23)) + ((size >> 13) & 1)) >> 13
    # Subnormal ones: adding 0.5 puts their unit, 2**-24, at the last bit of the sum.
    small = (size.bitcast("f32") + 0.5).bits(signed=False) - 0x3F000000
    word = select(size < (113 << 23), small, normal)
    word = select(size >= (143 << 23), 0x7C00, word)
    word = select(size > 0x7F800000, 0x7E00, word)
    return (word | ((bits >> 16) & 0x8000)).convert("u16")


def from_float16_bits(word: V) -> V:
    """A float16's word as float32."""
    if word.code.features.halves:
        half = "half" if word.lanes == 1 else f"<{word.lanes} x half>"
        wide = word.code.let(f"bitcast {word.type} {word.ref} to {half}")
        out = type_text("f32", word.lanes)
        return V(word.code, word.code.let(f"fpext {half} {wide} to {out}"), "f32", word.lanes)
    bits = word.convert("u32")
    size = bits & 0x7FFF
    # Scaling by 2**112 rebiases normal and subnormal numbers alike, exactly.
    value = (size << 13).bitcast("f32") * 2.0**112
    special = ((size << 13) | 0x7F800000).bitcast("f32")
    sized = select(size >= 0x7C00, special, value).bits(signed=False)
    return (sized | ((bits & 0x8000) << 16)).bitcast("f32")
