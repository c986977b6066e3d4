"""Kernels of elementwise operations.

Operands arrive promoted to the dtype computed in, float16 and bfloat16 as float32; a number
beside floating arrays stays a Python number. Results are cast to the dtype promised.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.engine.backends.array.kernels.elementwise.layouts import as_first, as_operands
from adjoint.engine.backends.array.table import NAMED, lowers
from adjoint.engine.ops.elementwise import (
    arithmetic,
    bounds,
    comparison,
    complex_parts,
    condition,
    division,
    exponential,
    logical,
    power,
    rounding,
    sign,
    trigonometric,
)

Array = Any

NAMED.update(
    {
        arithmetic.ADD: "add",
        arithmetic.SUB: "subtract",
        arithmetic.MUL: "multiply",
        arithmetic.NEG: "negative",
        division.DIV: "divide",
        division.GCD: "gcd",
        power.SQRT: "sqrt",
        comparison.EQ: "equal",
        comparison.NE: "not_equal",
        comparison.LT: "less",
        comparison.LE: "less_equal",
        comparison.GT: "greater",
        comparison.GE: "greater_equal",
        comparison.ISNAN: "isnan",
        comparison.ISINF: "isinf",
        comparison.ISFINITE: "isfinite",
        logical.LOGICAL_AND: "logical_and",
        logical.LOGICAL_OR: "logical_or",
        logical.LOGICAL_XOR: "logical_xor",
        logical.LOGICAL_NOT: "logical_not",
        logical.BITWISE_AND: "bitwise_and",
        logical.BITWISE_OR: "bitwise_or",
        logical.BITWISE_XOR: "bitwise_xor",
        logical.BITWISE_NOT: "invert",
        bounds.MAXIMUM: "maximum",
        bounds.MINIMUM: "minimum",
        bounds.FMAX: "fmax",
        bounds.FMIN: "fmin",
        bounds.CLAMP_MIN: "maximum",
        bounds.CLAMP_MAX: "minimum",
        exponential.EXP: "exp",
        exponential.EXPM1: "expm1",
        exponential.LOG: "log",
        exponential.LOG2: "log2",
        exponential.LOG10: "log10",
        exponential.LOGADDEXP2: "logaddexp2",
        trigonometric.SIN: "sin",
        trigonometric.COS: "cos",
        trigonometric.TAN: "tan",
        trigonometric.ASIN: "arcsin",
        trigonometric.ACOS: "arccos",
        trigonometric.ATAN: "arctan",
        trigonometric.SINH: "sinh",
        trigonometric.COSH: "cosh",
        trigonometric.TANH: "tanh",
        trigonometric.ASINH: "arcsinh",
        trigonometric.ACOSH: "arccosh",
        trigonometric.ATANH: "arctanh",
        trigonometric.ATAN2: "arctan2",
        trigonometric.HYPOT: "hypot",
        trigonometric.SINC: "sinc",
        sign.ABS: "absolute",
        sign.COPYSIGN: "copysign",
        condition.WHERE: "where",
        complex_parts.CONJ: "conj",
    }
)


# -- arithmetic ---------------------------------------------------------------------------------


@lowers(arithmetic.ADDCMUL)
@as_operands
def addcmul(xp: Any, x: Array, y: Array, z: Array, w: Any) -> Array:
    return _sum_into(xp, x, (y if _is_one(w) else w * y) * z)


@lowers(arithmetic.ADDCDIV)
@as_operands
def addcdiv(xp: Any, x: Array, y: Array, z: Array, w: Any) -> Array:
    return _sum_into(xp, x, (y if _is_one(w) else w * y) / z)


# Temporaries are reused: at a million elements a fresh array costs as much as the arithmetic.


def _sum_into(xp: Any, x: Array, fresh: Array) -> Array:
    """x + fresh, in the memory of `fresh` where it has the shape of the sum."""
    if fresh.ndim and fresh.shape == x.shape:
        fresh += x
        return fresh
    return x + fresh


def _scaled(fresh: Array, w: Any) -> Array:
    """fresh * w, in place where that can be."""
    if fresh.ndim and not (isinstance(w, complex) and fresh.dtype.kind != "c"):
        fresh *= w
        return fresh
    return fresh * w


def _is_one(w: Any) -> bool:
    return not hasattr(w, "dtype") and bool(w == 1)


@lowers(arithmetic.LERP)
def lerp(xp: Any, x: Array, y: Array, z: Any) -> Array:
    near = abs(z) < 0.5  # from the nearer end, so that weights 0 and 1 are exact
    if not hasattr(z, "dtype"):
        return _sum_into(xp, x if near else y, _scaled(y - x, z if near else z - 1))
    return xp.where(near, x + z * (y - x), y - (y - x) * (1 - z))


def refuse_zero(xp: Any, name: str, x: Array, y: Array) -> None:
    """Integers cannot be divided by zero, but none can. A GPU does not look, as in PyTorch."""
    if y.dtype.kind in "iub" and xp is np and x.size and not y.all():
        raise RuntimeError(f"{name}: ZeroDivisionError: integer division or modulo by zero")


def array_of(xp: Any, x: Any, like: Array) -> Array:
    """A number as an array of the dtype computed in."""
    return x if hasattr(x, "dtype") else xp.asarray(x, dtype=like.dtype)


def is_plain_divisor(xp: Any, x: Any, y: Any) -> bool:
    """Whether NumPy takes a number as it is: its kind is that of the elements, and it is not 0."""
    kinds = {int: "ilqfd", float: "fd"}.get(y.__class__)
    return bool(kinds and xp is np and y and hasattr(x, "dtype") and x.dtype.char in kinds)


@lowers(division.FLOOR_DIVIDE)
def floor_divide(xp: Any, x: Any, y: Any) -> Array:
    if is_plain_divisor(xp, x, y):
        return xp.floor_divide(x, y)
    x, y = pair(xp, x, y)
    refuse_zero(xp, "floor_divide", x, y)
    return xp.floor_divide(x, y)


@lowers(division.TRUNC_DIVIDE)
def trunc_divide(xp: Any, x: Any, y: Any) -> Array:
    x, y = pair(xp, x, y)
    if x.dtype.kind not in "iub":
        return xp.trunc(xp.divide(x, y))
    refuse_zero(xp, "div", x, y)
    if x.dtype.kind != "i":
        return xp.floor_divide(x, y)
    down = xp.floor_divide(x, y)
    return down + ((x - down * y != 0) & ((x < 0) != (y < 0))).astype(down.dtype)


@lowers(division.REMAINDER)
def remainder(xp: Any, x: Any, y: Any) -> Array:
    x, y = pair(xp, x, y)
    refuse_zero(xp, "remainder", x, y)
    if x.dtype.kind in "iub":
        return xp.remainder(x, y)
    # Not the library's: there a zero has the divisor's sign, in PyTorch the dividend's.
    left = xp.fmod(x, y)
    return xp.where((left != 0) & ((left < 0) != (y < 0)), left + y, left)


@lowers(division.FMOD)
def fmod(xp: Any, x: Any, y: Any) -> Array:
    x, y = pair(xp, x, y)
    refuse_zero(xp, "fmod", x, y)
    return xp.fmod(x, y)


@lowers(division.LCM)
def lcm(xp: Any, x: Array, y: Array) -> Array:
    return xp.abs(xp.lcm(x, y))  # NumPy keeps the sign of an overflow


def pair(xp: Any, x: Any, y: Any) -> tuple[Array, Array]:
    """Both operands as arrays of the dtype computed in."""
    return array_of(xp, x, y), array_of(xp, y, x)


@lowers(power.POW)
def pow_(xp: Any, x: Any, y: Any) -> Array:
    if not hasattr(y, "dtype"):
        if y == 2:
            return x * x
        if y == 3:  # a general power costs a hundred times as much
            return x * x * x
        if y == -2:
            return 1 / (x * x)
        if y == 0.5:
            return xp.sqrt(x)
        if y == -0.5 and x.dtype.kind == "f":
            return rsqrt(xp, x)
        if y == 1:
            return +x
        if y == -1:
            return 1 / x
    elif y.dtype.kind == "i" and y.size and y.min() < 0:
        return _integer_power(xp, *pair(xp, x, y))
    return xp.power(x, y)


def _integer_power(xp: Any, x: Array, y: Array) -> Array:
    """Integers to powers some of which are negative: 1/x rounded towards zero."""
    whole = xp.power(x, xp.maximum(y, 0))
    one = xp.ones((), x.dtype)
    parity = xp.where(y % 2 == 0, one, -one)
    inverse = xp.where(x == 1, one, xp.where(x == -1, parity, 0 * one))
    return xp.where(y < 0, inverse, whole)


@lowers(power.LDEXP)
def ldexp(xp: Any, x: Array, y: Array) -> Array:
    # No exponent beyond these matters, from the smallest double to the largest.
    return xp.ldexp(x, xp.clip(y, -2200, 2200).astype(np.int32))


@lowers(power.RSQRT)
def rsqrt(xp: Any, x: Array) -> Array:
    return 1 / xp.sqrt(x)


# -- exponentials -------------------------------------------------------------------------------


@lowers(exponential.EXP2)
def exp2(xp: Any, x: Array) -> Array:
    return xp.exp(x * math.log(2)) if x.dtype.kind == "c" else xp.exp2(x)


@lowers(exponential.SIGMOID)
def sigmoid(xp: Any, x: Array) -> Array:
    if not x.ndim:
        return 1 / (1 + xp.exp(-x))
    out = xp.negative(x)
    xp.exp(out, out=out)
    out += 1
    return xp.reciprocal(out, out=out)


@lowers(exponential.LOGIT)
def logit(xp: Any, x: Array) -> Array:
    return xp.log(x / (1 - x))


@lowers(exponential.LOG1P)
def log1p(xp: Any, x: Array) -> Array:
    if x.dtype.kind != "c":
        return xp.log1p(x)
    # NumPy has the logarithm of 1 + x, in which little is left of a small x.
    real, imaginary = x.real, x.imag
    rest = real * (real + 2) + imaginary * imaginary  # of the size, squared, besides 1
    near = xp.abs(x) < 0.5
    size = xp.where(near, 0.5 * xp.log1p(rest), xp.log(xp.hypot(real + 1, imaginary)))
    out = xp.empty_like(x)
    out.real = xp.where(near & (rest == 0), real, size)
    out.imag = xp.arctan2(imaginary, real + 1)
    return out


@lowers(exponential.LOGADDEXP)
def logaddexp(xp: Any, x: Array, y: Array) -> Array:
    if x.dtype.kind != "c":
        return xp.logaddexp(x, y)
    larger = xp.where(x.real >= y.real, x, y)
    smaller = xp.where(x.real >= y.real, y, x)
    both = (larger == smaller) & ~xp.isfinite(larger.real)  # -inf - -inf is NaN
    return xp.where(both, larger, larger + log1p(xp, xp.exp(smaller - larger)))


@lowers(exponential.XLOGY)
def xlogy(xp: Any, x: Any, y: Any) -> Array:
    x, y = pair(xp, x, y)
    return xp.where((x == 0) & ~xp.isnan(y), xp.zeros((), x.dtype), x * xp.log(y))


# -- rounding -----------------------------------------------------------------------------------


def rounds(record: Any, name: str) -> None:
    """A rounding function, which leaves integers as they are."""

    @lowers(record)
    def kernel(xp: Any, x: Array) -> Array:
        return getattr(xp, name)(x) if x.dtype.kind == "f" else x.copy(order="K")


rounds(rounding.FLOOR, "floor")
rounds(rounding.CEIL, "ceil")
rounds(rounding.TRUNC, "trunc")
rounds(rounding.ROUND, "rint")


@lowers(rounding.FRAC)
def frac(xp: Any, x: Array) -> Array:
    return x - xp.trunc(x)


@lowers(rounding.NEXTAFTER)
def nextafter(xp: Any, x: Array, y: Array) -> Array:
    return xp.nextafter(x, y)


@lowers(rounding.FREXP)
def frexp(xp: Any, x: Array) -> tuple[Array, Array]:
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    mantissa, exponent = xp.frexp(wide)
    mantissa = mantissa.astype(x.dtype, copy=False)
    return as_first(mantissa, (x,)), as_first(exponent.astype(np.int32, copy=False), (x,))


# -- sign, extremes, shifts ---------------------------------------------------------------------


@lowers(sign.SIGN)
def sign_(xp: Any, x: Array) -> Array:
    if x.dtype.kind == "b":
        return x.copy(order="K")
    if x.dtype.kind == "f":  # a NaN has sign 0
        out = xp.sign(x)
        return xp.where(out == out, out, xp.zeros((), x.dtype))
    return xp.sign(x)


@lowers(sign.HEAVISIDE)
def heaviside(xp: Any, x: Array, y: Array) -> Array:
    x, y = pair(xp, x, y)
    return xp.where(x == 0, y, (x > 0).astype(x.dtype))


@lowers(comparison.SIGNBIT)
def signbit(xp: Any, x: Array) -> Array:
    return xp.signbit(x) if x.dtype.kind == "f" else x < 0


@lowers(bounds.CLAMP)
def clamp(xp: Any, x: Array, y: Any, z: Any) -> Array:
    if xp is np and x.size > 4096:  # one pass in place of two
        return np.clip(x, y, z)
    low = xp.maximum(x, y)
    # In place where the upper bound cannot enlarge the result.
    inside = low.ndim and (not hasattr(z, "shape") or z.shape in ((), low.shape))
    return xp.minimum(low, z, out=low) if inside else xp.minimum(low, z)


@lowers(bounds.RELU)
def relu(xp: Any, x: Array) -> Array:
    if xp is np:  # an array of its dtype is taken as it is; a number has to be converted each time
        zero = _ZEROS.get(x.dtype)
        if zero is None:
            zero = _ZEROS[x.dtype] = np.zeros((), x.dtype)
        return np.maximum(x, zero)
    return xp.maximum(x, 0)


_ZEROS: dict[Any, Array] = {}


@lowers(logical.LEFT_SHIFT)
def left_shift(xp: Any, x: Array, y: Array) -> Array:
    x, y = pair(xp, x, y)
    bits = 8 * x.dtype.itemsize
    inside = (y >= 0) & (y < bits)
    return xp.where(inside, xp.left_shift(x, xp.where(inside, y, 0)), 0).astype(x.dtype)


@lowers(logical.RIGHT_SHIFT)
def right_shift(xp: Any, x: Array, y: Array) -> Array:
    x, y = pair(xp, x, y)
    last = 8 * x.dtype.itemsize - 1  # shifting by one less than the width leaves the sign alone
    inside = (y >= 0) & (y <= last)
    shifted = xp.right_shift(x, xp.where(inside, y, last).astype(y.dtype))
    return shifted if x.dtype.kind == "i" else xp.where(inside, shifted, 0).astype(x.dtype)


# -- complex ------------------------------------------------------------------------------------


@lowers(complex_parts.ANGLE)
def angle(xp: Any, x: Array) -> Array:
    if x.dtype.kind == "c":
        return xp.arctan2(x.imag, x.real)
    return xp.where(xp.isnan(x), x, xp.where(x < 0, x.dtype.type(math.pi), x.dtype.type(0)))


@lowers(complex_parts.COMPLEX)
@as_operands
def complex_(xp: Any, x: Any, y: Any) -> Array:
    x, y = xp.broadcast_arrays(*pair(xp, x, y))
    out = xp.empty(x.shape, np.result_type(x.dtype, np.complex64))
    out.real, out.imag = x, y
    return out
