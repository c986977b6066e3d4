"""Lowerings of the elementwise primitives to vector code.

`LOWER[name]` takes a record's operands as values converted to the dtype computed in (halves are
float32 in registers, booleans i1), and its parameters; it returns the result, i1 for booleans,
which the caller converts to the dtype the record promises. `supports` says what is covered: the
rest runs through the eager table. Operands that are numbers come as constants (`Code.const`), so
that lowerings can see them. Faults (an integer divided by zero) are left in `Code.faults`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from adjoint.engine.backends.llvm.ir import half_bits
from adjoint.engine.backends.llvm.ir.math import (
    division,
    error,
    exponential,
    gamma,
    inverse,
    logarithm,
    power,
    trigonometric,
)
from adjoint.engine.backends.llvm.ir.math.common import sign_bit
from adjoint.engine.backends.llvm.ir.vector import (
    V,
    is_signed,
    nan_max,
    nan_min,
    num_max,
    num_min,
    select,
    width,
)
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType

Lowering = Callable[..., V]
INF = float("inf")
NO_PARAMS: Mapping[str, Any] = MappingProxyType({})

_KINDS = {
    dt.bool_: "i1", dt.uint8: "u8", dt.int8: "i8", dt.int16: "i16", dt.int32: "i32",
    dt.int64: "i64", dt.float16: "f32", dt.bfloat16: "f32", dt.float32: "f32", dt.float64: "f64",
}  # fmt: skip
_STORED = {dt.bool_: "u8", dt.float16: "u16", dt.bfloat16: "u16"}


def kind_of(dtype: DType) -> str:
    """The kind a dtype has in registers."""
    return _KINDS[dtype]


def stored_kind(dtype: DType) -> str:
    """The kind a dtype has in memory: halves are words, booleans bytes."""
    return _STORED.get(dtype) or _KINDS[dtype]


def from_memory(x: V, dtype: DType) -> V:
    """What was loaded (in `stored_kind`) as a value in registers."""
    if dtype is dt.bool_:
        return x.ne(0)
    if dtype is dt.float16:
        return half_bits.from_float16_bits(x)
    return half_bits.from_bfloat16_bits(x) if dtype is dt.bfloat16 else x


def to_memory(x: V, dtype: DType) -> V:
    """A value in registers as it is stored; halves are rounded."""
    if dtype is dt.bool_:
        return x.convert("u8")
    if dtype is dt.float16:
        return half_bits.float16_bits(x)
    return half_bits.bfloat16_bits(x) if dtype is dt.bfloat16 else x


def cast(x: V, old: DType, new: DType) -> V:
    """The `cast` record: a value of one dtype in another, halves rounded to their precision."""
    if new is old:
        return x
    if not new.is_half:
        return x.convert(kind_of(new))
    if old is dt.bool_:
        return x.convert("f32")
    return round_to(x.convert("f32"), new)


def round_to(x: V, dtype: DType) -> V:
    """A float32 rounded to what a half can hold."""
    return from_memory(to_memory(x, dtype), dtype) if dtype.is_half else x


# -- the table ----------------------------------------------------------------------------------

LOWER: dict[str, Lowering] = {}
_ACCEPTS: dict[str, str] = {}
# Computed in halves as they are, with a rounding after each step that float32 lacks.
_NOT_HALF = {"trunc_divide", "nextafter"}


def supports(name: str, compute_dtype: DType, params: Mapping[str, Any] = NO_PARAMS) -> bool:
    """Whether a record has a lowering for operands of a dtype (the one it computes in)."""
    if name not in LOWER or compute_dtype not in _KINDS:
        return False
    if name == "polygamma" and params.get("n", 2) > 1:
        return False
    if compute_dtype.is_half and name in _NOT_HALF:
        return False
    return "bif"[compute_dtype.category] in _ACCEPTS[name]


def lowers(name: str, accepts: str = "f") -> Callable[[Lowering], Lowering]:
    """Put a function into the table, for the categories of dtype it accepts."""

    def put(fn: Lowering) -> Lowering:
        LOWER[name], _ACCEPTS[name] = fn, accepts
        return fn

    return put


def _functions(module: Any, *names: str) -> None:
    for name in names:
        lowers(name)(getattr(module, name))


_functions(exponential, "exp", "exp2", "expm1", "tanh", "sigmoid", "sinh", "cosh")
_functions(logarithm, "log", "log2", "log10", "log1p")
_functions(trigonometric, "sin", "cos", "tan")
_functions(inverse, "asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh")
_functions(error, "erf", "erfc", "erfcx", "erfinv", "ndtr", "ndtri", "log_ndtr")
_functions(gamma, "lgamma")
lowers("polygamma")(lambda x, n: gamma.trigamma(x) if n else gamma.digamma(x))
lowers("pow", "if")(power.power)

# -- arithmetic ---------------------------------------------------------------------------------


@lowers("add", "bif")
def lower_add(x: V, y: V) -> V:
    return x | y if x.kind == "i1" else x + y


@lowers("mul", "bif")
def lower_mul(x: V, y: V) -> V:
    return x & y if x.kind == "i1" else x * y


lowers("sub", "if")(lambda x, y: x - y)
lowers("neg", "if")(lambda x: -x)
lowers("abs", "if")(abs)
lowers("div")(lambda x, y: x / y)
lowers("sqrt")(lambda x: x.sqrt())
lowers("rsqrt")(lambda x: 1.0 / x.sqrt())


@lowers("addcmul", "if")
def lower_addcmul(x: V, y: V, z: V, w: V) -> V:
    return x + y * z * w  # one rounding after the other, as in eager execution


@lowers("addcdiv")
def lower_addcdiv(x: V, y: V, z: V, w: V) -> V:
    return x + w * y / z


@lowers("lerp")
def lower_lerp(x: V, y: V, z: V) -> V:
    near = abs(z) < 0.5  # from the nearer end, so that weights 0 and 1 are exact
    step = y - x
    return select(near, x + z * step, y - step * (1.0 - z))


@lowers("normal")
def lower_normal(z: V, mean: V, std: V) -> V:
    return z.convert(mean.kind) * std + mean


@lowers("bernoulli")
def lower_bernoulli(fractions: V, p: V) -> V:
    wrong = ~((p >= 0.0) & (p <= 1.0))
    p.code.faults.append((wrong, "bernoulli: expected all probabilities p to satisfy 0 <= p <= 1"))
    return fractions < p


# -- division and powers ------------------------------------------------------------------------

lowers("floor_divide", "if")(division.floor_divide)
lowers("trunc_divide", "if")(division.trunc_divide)
lowers("remainder", "if")(division.remainder)
lowers("fmod", "if")(lambda x, y: division.fmod(x, y) if x.is_float else division.int_fmod(x, y))
lowers("gcd", "i")(division.gcd)
lowers("lcm", "i")(division.lcm)


@lowers("ldexp")
def lower_ldexp(x: V, y: V) -> V:
    # No exponent beyond these matters, from the smallest double to the largest.
    k = select(y > 2200.0, y.like(2200.0), select(y < -2200.0, y.like(-2200.0), y))
    if x.kind == "f32":
        k = select(k > 300.0, k.like(300.0), select(k < -300.0, k.like(-300.0), k))
        wide = k.convert("i64")
        return (x.convert("f64") * ((wide + 1023) << 52).bitcast("f64")).convert("f32")
    n = k.convert("i64")
    for _ in range(2):
        # Down by no more than leaves the mantissa whole, so that only the last step rounds.
        step = select(n < -1022, n.like(-969), select(n > 1023, n.like(1023), n.like(0)))
        x = x * ((step + 1023) << 52).bitcast("f64")
        n = n - step
    n = select(n < -1022, n.like(-1022), select(n > 1023, n.like(1023), n))
    return x * ((n + 1023) << 52).bitcast("f64")


@lowers("hypot")
def lower_hypot(x: V, y: V) -> V:
    if x.kind == "f32":
        a, b = x.convert("f64"), y.convert("f64")
        out = (a * a + b * b).sqrt().convert("f32")
    else:
        out = _hypot64(abs(x), abs(y))
    infinite = abs(x).eq(INF) | abs(y).eq(INF)  # even beside a NaN
    return select(infinite, INF, out)


def _hypot64(a: V, b: V) -> V:
    """By a power of two close to the larger, so that no square overflows or vanishes."""
    larger = select(a > b, a, b)
    bits = larger.bits() & (0x7FF << 52)
    bits = select(bits > (2000 << 52), bits.like(2000 << 52), bits)
    bits = select(bits < (50 << 52), bits.like(50 << 52), bits)
    scale = bits.bitcast("f64")
    inverse = ((2046 << 52) - bits).bitcast("f64")
    a, b = a * inverse, b * inverse
    return (a * a + b * b).sqrt() * scale


# -- comparison, logic, bits --------------------------------------------------------------------

lowers("eq", "bif")(lambda x, y: x.eq(y))
lowers("ne", "bif")(lambda x, y: x.ne(y))
lowers("lt", "bif")(lambda x, y: x < y)
lowers("le", "bif")(lambda x, y: x <= y)
lowers("gt", "bif")(lambda x, y: x > y)
lowers("ge", "bif")(lambda x, y: x >= y)
lowers("logical_and", "bif")(lambda x, y: x.convert("i1") & y.convert("i1"))
lowers("logical_or", "bif")(lambda x, y: x.convert("i1") | y.convert("i1"))
lowers("logical_xor", "bif")(lambda x, y: x.convert("i1") ^ y.convert("i1"))
lowers("logical_not", "bif")(lambda x: ~x.convert("i1"))
lowers("bitwise_and", "bi")(lambda x, y: x & y)
lowers("bitwise_or", "bi")(lambda x, y: x | y)
lowers("bitwise_xor", "bi")(lambda x, y: x ^ y)
lowers("bitwise_not", "bi")(lambda x: ~x)


def _never(x: V) -> V:
    return x.code.const(False, "i1", x.lanes)


@lowers("isnan", "bif")
def lower_isnan(x: V) -> V:
    return x.isnan() if x.is_float else _never(x)


@lowers("isinf", "bif")
def lower_isinf(x: V) -> V:
    return abs(x).eq(INF) if x.is_float else _never(x)


@lowers("isfinite", "bif")
def lower_isfinite(x: V) -> V:
    return abs(x) < INF if x.is_float else ~_never(x)


@lowers("signbit", "bif")
def lower_signbit(x: V) -> V:
    if x.is_float:
        return sign_bit(x)
    return x < 0 if is_signed(x.kind) else _never(x)


def _in_width(x: V, y: V) -> V:
    """Whether y is a shift that leaves bits."""
    return (y >= 0) & (y < width(x.kind)) if is_signed(y.kind) else y < width(x.kind)


@lowers("bitwise_left_shift", "i")
def lower_left_shift(x: V, y: V) -> V:
    inside = _in_width(x, y)
    return select(inside, x << select(inside, y, 0), 0)


@lowers("bitwise_right_shift", "i")
def lower_right_shift(x: V, y: V) -> V:
    inside = _in_width(x, y)
    shifted = x >> select(inside, y, width(x.kind) - 1)
    return shifted if is_signed(x.kind) else select(inside, shifted, 0)


# -- bounds and choice --------------------------------------------------------------------------

lowers("maximum", "bif")(nan_max)
lowers("minimum", "bif")(nan_min)
lowers("clamp_min", "bif")(nan_max)
lowers("clamp_max", "bif")(nan_min)
lowers("fmax", "bif")(num_max)
lowers("fmin", "bif")(num_min)
lowers("clamp", "if")(lambda x, y, z: nan_min(nan_max(x, y), z))
lowers("relu", "if")(lambda x: nan_max(x, 0))
lowers("where", "bif")(lambda mask, x, y: select(mask.convert("i1"), x, y))


# -- sign and rounding --------------------------------------------------------------------------


@lowers("sign", "bif")
def lower_sign(x: V) -> V:
    if x.kind == "i1":
        return x
    one = x.like(1)
    below = select(x < 0, -one, x.like(0)) if x.is_float or is_signed(x.kind) else x.like(0)
    return select(x > 0, one, below)  # a NaN has sign 0


lowers("copysign")(lambda x, y: x.copysign(y))
lowers("heaviside", "bif")(lambda x, y: select(x.eq(0), y, (x > 0).convert(x.kind)))
lowers("floor", "if")(lambda x: x.floor() if x.is_float else x)
lowers("ceil", "if")(lambda x: x.ceil() if x.is_float else x)
lowers("trunc", "if")(lambda x: x.trunc() if x.is_float else x)
lowers("round", "if")(lambda x: x.rint() if x.is_float else x)
lowers("frac")(lambda x: x - x.trunc())


@lowers("nextafter")
def lower_nextafter(x: V, y: V) -> V:
    bits = x.bits()
    away = (y > x) ^ (bits < 0)  # of larger size
    step = bits + select(away, bits.like(1), bits.like(-1))
    smallest = x.like(5e-324 if x.kind == "f64" else 2.0**-149).copysign(y)
    moved = select(x.eq(0.0), smallest, step.bitcast(x.kind))
    out = select(x.eq(y), y, moved)
    return select(x.isnan() | y.isnan(), float("nan"), out)


@lowers("angle")
def lower_angle(x: V) -> V:
    return select(x.isnan(), x, select(x < 0.0, x.like(math.pi), x.like(0.0)))


# -- made of exponentials and logarithms --------------------------------------------------------


@lowers("logit")
def lower_logit(x: V) -> V:
    return logarithm.log(x / (1.0 - x))


@lowers("logaddexp")
def lower_logaddexp(x: V, y: V) -> V:
    larger = select(x > y, x, y)
    gap = abs(x - y)
    out = larger + logarithm.log1p(exponential.exp(-gap))
    out = select(x.eq(y), x + math.log(2), out)  # infinities too
    return select(x.isnan() | y.isnan(), x + y, out)


@lowers("logaddexp2")
def lower_logaddexp2(x: V, y: V) -> V:
    larger = select(x > y, x, y)
    out = larger + logarithm.log1p(exponential.exp2(-abs(x - y))) * (1 / math.log(2))
    out = select(x.eq(y), x + 1.0, out)
    return select(x.isnan() | y.isnan(), x + y, out)


def _times_log(x: V, y: V, log: Lowering) -> V:
    return select(x.eq(0.0) & ~y.isnan(), x.like(0.0), x * log(y))


lowers("xlogy")(lambda x, y: _times_log(x, y, logarithm.log))
lowers("xlog1py")(lambda x, y: _times_log(x, y, logarithm.log1p))


@lowers("entr")
def lower_entr(x: V) -> V:
    out = select(x.eq(0.0), x.like(0.0), -x * logarithm.log(x))
    return select(x < 0.0, -INF, out)


@lowers("sinc")
def lower_sinc(x: V) -> V:
    angle = x * math.pi
    return select(x.eq(0.0), x.like(1.0), trigonometric.sin(angle) / angle)


@lowers("spherical_bessel_j0")
def lower_spherical_bessel_j0(x: V) -> V:
    out = select(x.eq(0.0), x.like(1.0), trigonometric.sin(x) / x)
    return select(abs(x).eq(INF), 0.0, out)
