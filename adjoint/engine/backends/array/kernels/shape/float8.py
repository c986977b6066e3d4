"""Conversions to and from float8 on a GPU, whose arrays of it are bytes (`dtypes.FLOAT8`).

A number is scaled by the power of two that makes its last bit a whole one, and rounded to the
nearest, ties to even: what ml_dtypes does on the CPU.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import FLOAT8, HOST_FLOAT8

Array = Any
# Bits of the mantissa, bias of the exponent, the code from which on numbers are too large and what
# they become, and that of NaN.
FORMS = {"float8_e4m3fn": (3, 7, 0x7F, 0x7F, 0x7F), "float8_e5m2": (2, 15, 0x7C, 0x7C, 0x7E)}


def encoding(name: str) -> str:
    """C text: `code`, a byte, from `x`, a double."""
    mantissa, bias, beyond, large, nan = FORMS[name]
    one = 1 << mantissa
    return f"""
        int sign = signbit(x) ? 0x80 : 0, found;
        double size = fabs(x);
        if (x != x) found = {nan};
        else if (size > 1e30) found = {large};
        else {{
            int e = {1 - bias};
            if (size > 0.0 && ilogb(size) > e) e = ilogb(size);
            found = (e + {bias - 1}) * {one} + (int)rint(ldexp(size, {mantissa} - e));
            if (found >= {beyond}) found = {large};
        }}
        code = (unsigned char)(found | sign);
    """


def decoding(name: str) -> str:
    """C text: `x`, a float, from `code`, a byte."""
    mantissa, bias, beyond, large, nan = FORMS[name]
    one = 1 << mantissa
    no_number = "__int_as_float(0x7fc00000)"  # where there is no math.h
    infinity = "__int_as_float(0x7f800000)" if large != nan else no_number
    return f"""
        int size = code & 0x7f, e = size / {one}, m = size % {one};
        float found = e ? ldexpf((float)({one} + m), e - {bias + mantissa})
                        : ldexpf((float)m, {1 - bias - mantissa});
        if (size >= {beyond}) found = size == {large} ? {infinity} : {no_number};
        x = code & 0x80 ? -found : found;
    """


@lru_cache(maxsize=4)
def _kernel(xp: Any, name: str, encodes: bool) -> Any:
    given, result = ("float64 x", "uint8 code") if encodes else ("uint8 code", "float32 x")
    text = encoding(name) if encodes else decoding(name)
    return xp.ElementwiseKernel(
        given, result, text, f"adjoint_{name}_{'to' if encodes else 'from'}"
    )


def to_float8(xp: Any, x: Array, kind: np.dtype[Any]) -> Array:
    """Real numbers as float8; `kind` is NumPy's dtype."""
    codes = _kernel(xp, kind.name, True)(x.astype(np.float64))
    return codes.view(FLOAT8[kind])


def from_float8(xp: Any, x: Array) -> Array:
    """Numbers of float8 in float32."""
    kind = HOST_FLOAT8[x.dtype]
    return _kernel(xp, kind.name, False)(xp.ascontiguousarray(x).view(np.uint8))
