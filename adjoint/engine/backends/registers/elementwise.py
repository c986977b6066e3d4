"""Lowerings of the elementwise primitives to vector code.

A row, put into the table by `@lowers(EXP)`, takes a record's operands as values converted to the
dtype computed in (halves are float32 in registers, booleans i1), and its parameters; it returns the
result, i1 for booleans, which the caller converts to the dtype the record promises. `supports` says
what is covered: the rest runs through the eager table. Operands that are numbers come as constants
(`Code.const`), so that lowerings can see them. Faults (an integer divided by zero) are left in
`Code.faults`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from adjoint.engine.backends.registers import half_bits
from adjoint.engine.backends.registers.math import (
    division,
    error,
    exponential,
    gamma,
    inverse,
    known_divisors,
    logarithm,
    power,
    trigonometric,
)
from adjoint.engine.backends.registers.math.common import sign_bit
from adjoint.engine.backends.registers.vector import (
    Number,
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
from adjoint.engine.core.operations.record import Record
from adjoint.engine.ops.elementwise import records
from adjoint.engine.ops.random.tensor_parameters import BERNOULLI, NORMAL

Lowering = Callable[..., V]
INF = float("inf")
NO_PARAMS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Accepts:
    """What a lowering can be given."""

    categories: str
    halves: bool
    params: Callable[[Mapping[str, Any]], bool]


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
    if not dtype.is_half:
        return x
    is_short = dtype is dt.float16
    value = half_bits.from_float16_bits(x) if is_short else half_bits.from_bfloat16_bits(x)
    x.code.words[value.ref] = (dtype.name, x)
    return value


def to_memory(x: V, dtype: DType) -> V:
    """A value in registers as it is stored; halves are rounded."""
    if dtype is dt.bool_:
        return x.convert("u8")
    known, word = x.code.words.get(x.ref, ("", x))
    if known == dtype.name:
        return word
    if dtype is dt.float16:
        return half_bits.float16_bits(x)
    if dtype is not dt.bfloat16:
        return x
    return half_bits.upper_half(x) if _is_exact(x) else half_bits.bfloat16_bits(x)


def _is_exact(x: V | Number) -> bool:
    """Whether a value is known to be a bfloat16: a number that is one, or a word of memory."""
    if not isinstance(x, V):
        return half_bits.is_bfloat16(x)
    if x.number is not None:
        return half_bits.is_bfloat16(x.number)
    return x.code.words.get(x.ref, ("",))[0] == dt.bfloat16.name


# Their results are halves where all that they take are.
KEEP_HALVES = frozenset("neg abs relu maximum minimum fmax fmin clamp where clone".split())


def round_result(name: str, x: V, operands: Sequence[V | Number], dtype: DType) -> V:
    """The result of an operation, rounded to its dtype; those that need none are left as they are.

    A bfloat16 is the upper half of its float32; float16 is rounded by one instruction.
    """
    if dtype is not dt.bfloat16 or name not in KEEP_HALVES or x.kind != "f32":
        return round_to(x, dtype)
    if not all(map(_is_exact, operands[name == "where" :])):  # not its condition
        return round_to(x, dtype)
    x.code.words[x.ref] = (dtype.name, half_bits.upper_half(x))
    return x


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
    if dtype is dt.bfloat16 and _is_exact(x):
        return x
    return from_memory(to_memory(x, dtype), dtype) if dtype.is_half else x


# -- the table ----------------------------------------------------------------------------------

LOWER: dict[str, Lowering] = {}
_ACCEPTS: dict[str, Accepts] = {}


def supports(name: str, compute_dtype: DType, params: Mapping[str, Any] = NO_PARAMS) -> bool:
    """Whether a record has a lowering for operands of a dtype (the one it computes in)."""
    if name not in LOWER or compute_dtype not in _KINDS:
        return False
    accepts = _ACCEPTS[name]
    if compute_dtype.is_half and not accepts.halves:
        return False
    return "bif"[compute_dtype.category] in accepts.categories and accepts.params(params)


def lowers(
    record: Record | str,
    categories: str = "f",
    *,
    halves: bool = True,
    params: Callable[[Mapping[str, Any]], bool] = lambda _: True,
) -> Callable[[Lowering], Lowering]:
    """Put a function into the table: the row of a record.

    Args:
        record: whose lowering it is; by name where its family loads on first use.
        categories: of dtype that it accepts: b(ool), i(nt), f(loat).
        halves: whether float32 may stand for halves; not where each step rounds.
        params: whether it accepts parameters.
    """
    name = record if isinstance(record, str) else record.name

    def put(fn: Lowering) -> Lowering:
        LOWER[name], _ACCEPTS[name] = fn, Accepts(categories, halves, params)
        return fn

    return put


for _record, _fn in (
    (records.EXP, exponential.exp), (records.EXP2, exponential.exp2),
    (records.EXPM1, exponential.expm1), (records.TANH, exponential.tanh),
    (records.SIGMOID, exponential.sigmoid), (records.SINH, exponential.sinh),
    (records.COSH, exponential.cosh), (records.LOG, logarithm.log),
    (records.LOG2, logarithm.log2), (records.LOG10, logarithm.log10),
    (records.LOG1P, logarithm.log1p), (records.SIN, trigonometric.sin),
    (records.COS, trigonometric.cos), (records.TAN, trigonometric.tan),
    (records.ASIN, inverse.asin), (records.ACOS, inverse.acos), (records.ATAN, inverse.atan),
    (records.ATAN2, inverse.atan2), (records.ASINH, inverse.asinh),
    (records.ACOSH, inverse.acosh), (records.ATANH, inverse.atanh), (records.ERF, error.erf),
    (records.ERFC, error.erfc), (records.ERFINV, error.erfinv), ("erfcx", error.erfcx),
    ("ndtr", error.ndtr), ("ndtri", error.ndtri), ("log_ndtr", error.log_ndtr),
    ("lgamma", gamma.lgamma),
):  # fmt: skip
    lowers(_record)(_fn)
lowers("polygamma", params=lambda p: p.get("n", 2) <= 1)(
    lambda x, n: gamma.trigamma(x) if n else gamma.digamma(x)
)
lowers(records.POW, "if")(power.power)

# -- arithmetic ---------------------------------------------------------------------------------


@lowers(records.ADD, "bif")
def lower_add(x: V, y: V) -> V:
    return x | y if x.kind == "i1" else x + y


@lowers(records.MUL, "bif")
def lower_mul(x: V, y: V) -> V:
    return x & y if x.kind == "i1" else x * y


lowers(records.SUB, "if")(lambda x, y: x - y)
lowers(records.NEG, "if")(lambda x: -x)
lowers(records.ABS, "if")(abs)
lowers(records.DIV)(known_divisors.quotient)
lowers(records.SQRT)(lambda x: x.sqrt())
lowers(records.RSQRT)(lambda x: 1.0 / x.sqrt())


@lowers(records.ADDCMUL, "if")
def lower_addcmul(x: V, y: V, z: V, w: V) -> V:
    return x + w * y * z  # one rounding after the other, as in eager execution


@lowers(records.ADDCDIV)
def lower_addcdiv(x: V, y: V, z: V, w: V) -> V:
    return x + known_divisors.quotient(w * y, z)


@lowers(records.LERP)
def lower_lerp(x: V, y: V, z: V) -> V:
    near = abs(z) < 0.5  # from the nearer end, so that weights 0 and 1 are exact
    step = y - x
    return select(near, x + z * step, y - step * (1.0 - z))


@lowers(NORMAL)
def lower_normal(z: V, mean: V, std: V) -> V:
    return z.convert(mean.kind) * std + mean


@lowers(BERNOULLI)
def lower_bernoulli(fractions: V, p: V) -> V:
    wrong = ~((p >= 0.0) & (p <= 1.0))
    p.code.faults.append((wrong, "bernoulli: expected all probabilities p to satisfy 0 <= p <= 1"))
    return fractions < p


# -- division and powers ------------------------------------------------------------------------

lowers(records.FLOOR_DIVIDE, "if")(division.floor_divide)
lowers(records.TRUNC_DIVIDE, "if", halves=False)(division.trunc_divide)
lowers(records.REMAINDER, "if")(division.remainder)
lowers(records.FMOD, "if")(
    lambda x, y: division.fmod(x, y) if x.is_float else division.int_fmod(x, y)
)
lowers(records.GCD, "i")(division.gcd)
lowers(records.LCM, "i")(division.lcm)


@lowers(records.LDEXP)
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


@lowers(records.HYPOT)
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

lowers(records.EQ, "bif")(lambda x, y: x.eq(y))
lowers(records.NE, "bif")(lambda x, y: x.ne(y))
lowers(records.LT, "bif")(lambda x, y: x < y)
lowers(records.LE, "bif")(lambda x, y: x <= y)
lowers(records.GT, "bif")(lambda x, y: x > y)
lowers(records.GE, "bif")(lambda x, y: x >= y)
lowers(records.LOGICAL_AND, "bif")(lambda x, y: x.convert("i1") & y.convert("i1"))
lowers(records.LOGICAL_OR, "bif")(lambda x, y: x.convert("i1") | y.convert("i1"))
lowers(records.LOGICAL_XOR, "bif")(lambda x, y: x.convert("i1") ^ y.convert("i1"))
lowers(records.LOGICAL_NOT, "bif")(lambda x: ~x.convert("i1"))
lowers(records.BITWISE_AND, "bi")(lambda x, y: x & y)
lowers(records.BITWISE_OR, "bi")(lambda x, y: x | y)
lowers(records.BITWISE_XOR, "bi")(lambda x, y: x ^ y)
lowers(records.BITWISE_NOT, "bi")(lambda x: ~x)


def _never(x: V) -> V:
    return x.code.const(False, "i1", x.lanes)


@lowers(records.ISNAN, "bif")
def lower_isnan(x: V) -> V:
    return x.isnan() if x.is_float else _never(x)


@lowers(records.ISINF, "bif")
def lower_isinf(x: V) -> V:
    return abs(x).eq(INF) if x.is_float else _never(x)


@lowers(records.ISFINITE, "bif")
def lower_isfinite(x: V) -> V:
    return abs(x) < INF if x.is_float else ~_never(x)


@lowers(records.SIGNBIT, "bif")
def lower_signbit(x: V) -> V:
    if x.is_float:
        return sign_bit(x)
    return x < 0 if is_signed(x.kind) else _never(x)


def _in_width(x: V, y: V) -> V:
    """Whether y is a shift that leaves bits."""
    return (y >= 0) & (y < width(x.kind)) if is_signed(y.kind) else y < width(x.kind)


@lowers(records.LEFT_SHIFT, "i")
def lower_left_shift(x: V, y: V) -> V:
    inside = _in_width(x, y)
    return select(inside, x << select(inside, y, 0), 0)


@lowers(records.RIGHT_SHIFT, "i")
def lower_right_shift(x: V, y: V) -> V:
    inside = _in_width(x, y)
    shifted = x >> select(inside, y, width(x.kind) - 1)
    return shifted if is_signed(x.kind) else select(inside, shifted, 0)


# -- bounds and choice --------------------------------------------------------------------------

lowers(records.MAXIMUM, "bif")(nan_max)
lowers(records.MINIMUM, "bif")(nan_min)
lowers(records.CLAMP_MIN, "bif")(nan_max)
lowers(records.CLAMP_MAX, "bif")(nan_min)
lowers(records.FMAX, "bif")(num_max)
lowers(records.FMIN, "bif")(num_min)
lowers(records.CLAMP, "if")(lambda x, y, z: nan_min(nan_max(x, y), z))
lowers(records.RELU, "if")(lambda x: nan_max(x, 0))
lowers(records.WHERE, "bif")(lambda mask, x, y: select(mask.convert("i1"), x, y))


# -- sign and rounding --------------------------------------------------------------------------


@lowers(records.SIGN, "bif")
def lower_sign(x: V) -> V:
    if x.kind == "i1":
        return x
    one = x.like(1)
    below = select(x < 0, -one, x.like(0)) if x.is_float or is_signed(x.kind) else x.like(0)
    return select(x > 0, one, below)  # a NaN has sign 0


lowers(records.COPYSIGN)(lambda x, y: x.copysign(y))
lowers(records.HEAVISIDE, "bif")(lambda x, y: select(x.eq(0), y, (x > 0).convert(x.kind)))
lowers(records.FLOOR, "if")(lambda x: x.floor() if x.is_float else x)
lowers(records.CEIL, "if")(lambda x: x.ceil() if x.is_float else x)
lowers(records.TRUNC, "if")(lambda x: x.trunc() if x.is_float else x)
lowers(records.ROUND, "if")(lambda x: x.rint() if x.is_float else x)
lowers(records.FRAC)(lambda x: x - x.trunc())


@lowers(records.NEXTAFTER, halves=False)
def lower_nextafter(x: V, y: V) -> V:
    bits = x.bits()
    away = (y > x) ^ (bits < 0)  # of larger size
    step = bits + select(away, bits.like(1), bits.like(-1))
    smallest = x.like(5e-324 if x.kind == "f64" else 2.0**-149).copysign(y)
    moved = select(x.eq(0.0), smallest, step.bitcast(x.kind))
    out = select(x.eq(y), y, moved)
    return select(x.isnan() | y.isnan(), float("nan"), out)


@lowers(records.ANGLE)
def lower_angle(x: V) -> V:
    return select(x.isnan(), x, select(x < 0.0, x.like(math.pi), x.like(0.0)))


# -- made of exponentials and logarithms --------------------------------------------------------


@lowers(records.LOGIT)
def lower_logit(x: V) -> V:
    return logarithm.log(x / (1.0 - x))


@lowers(records.LOGADDEXP)
def lower_logaddexp(x: V, y: V) -> V:
    larger = select(x > y, x, y)
    gap = abs(x - y)
    out = larger + logarithm.log1p(exponential.exp(-gap))
    out = select(x.eq(y), x + math.log(2), out)  # infinities too
    return select(x.isnan() | y.isnan(), x + y, out)


@lowers(records.LOGADDEXP2)
def lower_logaddexp2(x: V, y: V) -> V:
    larger = select(x > y, x, y)
    out = larger + logarithm.log1p(exponential.exp2(-abs(x - y))) * (1 / math.log(2))
    out = select(x.eq(y), x + 1.0, out)
    return select(x.isnan() | y.isnan(), x + y, out)


def _times_log(x: V, y: V, log: Lowering) -> V:
    return select(x.eq(0.0) & ~y.isnan(), x.like(0.0), x * log(y))


lowers(records.XLOGY)(lambda x, y: _times_log(x, y, logarithm.log))
lowers("xlog1py")(lambda x, y: _times_log(x, y, logarithm.log1p))


@lowers("entr")
def lower_entr(x: V) -> V:
    out = select(x.eq(0.0), x.like(0.0), -x * logarithm.log(x))
    return select(x < 0.0, -INF, out)


@lowers(records.SINC)
def lower_sinc(x: V) -> V:
    angle = x * math.pi
    return select(x.eq(0.0), x.like(1.0), trigonometric.sin(angle) / angle)


@lowers("spherical_bessel_j0")
def lower_spherical_bessel_j0(x: V) -> V:
    out = select(x.eq(0.0), x.like(1.0), trigonometric.sin(x) / x)
    return select(abs(x).eq(INF), 0.0, out)
