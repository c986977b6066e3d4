"""Quotients and remainders of floats and of integers, as NumPy rounds them."""

from __future__ import annotations

from functools import cache, partial

from adjoint.engine.backends.registers.math.common import two_product
from adjoint.engine.backends.registers.math.lanes import by_lane
from adjoint.engine.backends.registers.vector import (
    Code,
    Features,
    V,
    int_min,
    is_signed,
    select,
    when_any,
    width,
)

INF = float("inf")
ZERO_DIVISION = "{}: ZeroDivisionError: integer division or modulo by zero"


def fmod(x: V, y: V) -> V:
    """What is left of x by whole multiples of y towards zero, exactly; the sign is x's."""
    if x.code.features.device:
        return x.code.call("fmod", x.kind, x, y)
    if x.kind == "f32":
        return fmod(x.convert("f64"), y.convert("f64")).convert("f32")
    a, b = abs(x), abs(y)
    q = (a / b).trunc()
    # Exact for quotients of few bits; the rounded quotient may be one too large.
    high, low = two_product(q, b)
    r = (a - high) - low
    r = select(r < 0.0, r + b, r)
    far = a >= b * 2.0**26
    (r,) = when_any(far, lambda: (_far_remainder(a, b),), (select(a < b, a, r),))
    r = r.copysign(x)
    return select((a < INF) & (b > 0.0), r, float("nan"))


def _far_remainder(a: V, b: V) -> V:
    """a modulo b where the quotient has many bits: lane by lane."""
    text, declared = _far_function(a.code.features)
    a.code.declarations |= declared
    return by_lane(a.code, "adjoint.far_remainder", text, [a, b], ("f64",))[0]


@cache
def _far_function(features: Features) -> tuple[str, frozenset[str]]:
    """Subtract b times powers of two, 26 bits of quotient at a time; NaN and 0 leave at once."""
    code = Code(features)
    r, b = code.value("%r", "f64", 1), code.value("%b", "f64", 1)
    # The multiple of b has an exponent 26 below r's, or b's own.
    small = b < 2.0**-1022
    exponent = (select(small, b * 2.0**60, b).bits() >> 52) - select(small, r.bits().like(60), 0)
    gap = (r.bits() >> 52) - exponent - 26
    up = select(gap > 0, gap, 0)
    first = int_min(up, 1023)  # in two steps, since 2**up may be infinite
    scaled = b * _power(first) * _power(int_min(up - first, 1023))
    scaled = select(scaled > r, b, scaled)  # r is subnormal: its quotient by b has few bits
    q = (r / scaled).trunc()
    high, low = two_product(q, scaled)
    left = (r - high) - low
    left = select(left < 0.0, left + scaled, left)
    body = "\n  ".join(code.lines)
    text = f"""define internal {{ double }} @adjoint.far_remainder(double %a, double %b) noinline {{
entry:
  %finite = fcmp olt double %a, 0x7FF0000000000000
  %whole = fcmp ogt double %b, 0x0000000000000000
  %good = and i1 %finite, %whole
  br i1 %good, label %test, label %done
test:
  %r = phi double [ %a, %entry ], [ {left.ref}, %step ]
  %large = fcmp oge double %r, %b
  br i1 %large, label %step, label %done
step:
  {body}
  br label %test
done:
  %out = phi double [ %a, %entry ], [ %r, %test ]
  %made = insertvalue {{ double }} poison, double %out, 0
  ret {{ double }} %made
}}"""
    return text, frozenset(code.declarations)


def _power(k: V) -> V:
    return ((k + 1023) << 52).bitcast("f64")


def remainder(x: V, y: V) -> V:
    """Modulo with the sign of y; a zero keeps the sign of x, as PyTorch's does."""
    if not x.is_float:
        return _floored(x, y, "remainder")[1]
    r = fmod(x, y)
    other = ((r < 0.0) ^ (y < 0.0)) & r.ne(0.0)
    return select(other, r + y, r)


def floor_divide(x: V, y: V) -> V:
    """The largest integer at or below the quotient, from the exact remainder (as NumPy does)."""
    if not x.is_float:
        return _floored(x, y, "floor_divide")[0]
    r = fmod(x, y)
    q = (x - r) / y
    other = ((r < 0.0) ^ (y < 0.0)) & r.ne(0.0)
    q = select(other, q - 1.0, q)
    whole = q.floor()
    whole = select(q - whole > 0.5, whole + 1.0, whole)
    quotient = x / y
    whole = select(q.eq(0.0), x.like(0.0).copysign(quotient), whole)
    return select(y.eq(0.0), quotient, whole)


def trunc_divide(x: V, y: V) -> V:
    """The quotient towards zero."""
    if x.is_float:
        return (x / y).trunc()
    return _quotient(x, y, "div")


def int_fmod(x: V, y: V) -> V:
    """Integer remainder with the sign of x."""
    return x - _quotient(x, y, "fmod") * y


def is_known(y: V) -> bool:
    """Whether a divisor is a number other than zero in its kind (`compiler.loops.ir.divides`)."""
    return type(y.number) is int and bool(y.number & ((1 << int(y.kind[1:])) - 1))


def _quotient(x: V, y: V, name: str) -> V:
    """Integer quotient towards zero; a zero divisor is a fault, and -2**(n-1) / -1 wraps around."""
    safe = y
    if not is_known(y):
        zero = y.eq(0)
        x.code.faults.append((zero, ZERO_DIVISION.format(name)))
        safe = select(zero, y.like(1), y)
    if not is_signed(x.kind):
        return x.quotient(safe)
    minus = safe.eq(-1)
    return select(minus, -x, x.quotient(select(minus, safe.like(1), safe)))


def _floored(x: V, y: V, name: str) -> tuple[V, V]:
    q = _quotient(x, y, name)
    r = x - q * y
    if not is_signed(x.kind):
        return q, r
    down = r.ne(0) & ((r ^ y) < 0)
    return select(down, q - 1, q), select(down, r + y, r)


# Of an exponent: two to one of more than five is more than most numbers hold, and of those that are
# larger all the same most have eight.
USUAL_BITS, SOME_BITS = 5, 8


def integer_power(x: V, y: V) -> V:
    """x**y modulo 2**n by squaring; 1/x rounded towards zero for a negative y."""
    count = width(x.kind)
    if isinstance(y.number, int):
        count = max(int(y.number), 0).bit_length()

    def squared(out: V, base: V, first: int, last: int) -> tuple[V, V]:
        """The power by bits up to the last of the exponent, and x to that of the next."""
        for k in range(first, last):
            out = select(((y >> k) & 1).ne(0), out * base, out)
            if k + 1 < count:
                base = base * base
        return out, base

    out, base = squared(x.like(1), x, 0, min(count, USUAL_BITS))
    for first, last in ((USUAL_BITS, min(SOME_BITS, count)), (SOME_BITS, count)):
        if first < last:
            large = y >= 1 << first
            there = partial(squared, out, base, first, last)
            out, base = when_any(large, there, (out, base))
    if not is_signed(x.kind):
        return out
    parity = select((y & 1).eq(0), x.like(1), x.like(-1))
    inverse = select(x.eq(1), x.like(1), select(x.eq(-1), parity, x.like(0)))
    return select(y < 0, inverse, out)


def gcd(x: V, y: V) -> V:
    """Greatest common divisor, lane by lane (Euclid)."""
    pair = [abs(v.convert("i64")) for v in (x, y)]
    return by_lane(x.code, "adjoint.gcd", _GCD, pair, ("i64",))[0].convert(x.kind)


def lcm(x: V, y: V) -> V:
    """Least common multiple; 0 beside a 0."""
    divisor = gcd(x, y)
    safe = select(divisor.eq(0), 1, divisor)
    a, b = abs(x), abs(y)
    unsigned = "u" + x.kind[1:]  # the absolute value of the least number, and its divisors
    return abs(
        (a.bitcast(unsigned).quotient(safe.bitcast(unsigned)) * b.bitcast(unsigned)).bitcast(x.kind)
    )


_GCD = """define internal { i64 } @adjoint.gcd(i64 %a, i64 %b) noinline {
entry:
  br label %test
test:
  %u = phi i64 [ %a, %entry ], [ %v, %step ]
  %v = phi i64 [ %b, %entry ], [ %w, %step ]
  %end = icmp eq i64 %v, 0
  br i1 %end, label %done, label %step
step:
  %w = urem i64 %u, %v
  br label %test
done:
  %made = insertvalue { i64 } poison, i64 %u, 0
  ret { i64 } %made
}"""
