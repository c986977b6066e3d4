"""Reduction of huge angles (Payne and Hanek), one lane at a time in a function of its own.

x = M 2**e times 2/pi is wanted modulo 4. Of the bits of 2/pi, in pieces of 24, those whose product
with x is a multiple of 4 turn nothing; nine pieces from there give the fraction to 2**-114. Halves
of x times a piece are exact in float64, and stay so when multiples of 4 are taken away.
"""

from __future__ import annotations

from adjoint.backends.llvm.math import tables
from adjoint.backends.llvm.math.common import fast_two_sum, two_product, two_sum
from adjoint.backends.llvm.vector import Code, Features, V, int_max, mad, type_text

PIECES = 9
_TABLE = "@adjoint.two_over_pi"


def huge_angle(x: V, limit: float) -> tuple[V, V, V]:
    """(n, r, low) with x = n pi/2 + r + low in the lanes where |x| exceeds the limit, else 0."""
    code, lanes = x.code, x.lanes
    name = f"@adjoint.huge_angle.v{lanes}"
    code.declarations.add(_table_text())
    code.declarations.add("declare double @llvm.fabs.f64(double)")
    code.declarations |= _function(code.features, lanes, name)
    reals, wholes = type_text("f64", lanes), type_text("i64", lanes)
    result = f"{{ {wholes}, {reals}, {reals} }}"
    bound = code.const(limit, "f64")
    made = code.let(f"call {result} {name}({reals} {x.ref}, double {bound.ref})")
    parts = [code.let(f"extractvalue {result} {made}, {i}") for i in range(3)]
    n, r, low = (V(code, p, k, lanes) for p, k in zip(parts, ("i64", "f64", "f64"), strict=True))
    return n, r, low


def _table_text() -> str:
    pieces = [piece * 2.0**-24 for piece in tables.TWO_OVER_PI]
    code = Code()
    items = ", ".join(f"double {code.const(p, 'f64').ref}" for p in pieces)
    return f"{_TABLE} = internal constant [{len(pieces)} x double] [{items}]"


def _function(features: Features, lanes: int, name: str) -> set[str]:
    """The text of the function: a loop over the lanes that skips those below the limit."""
    code = Code(features)
    n, r, low = _lane(code, code.value("%x", "f64", 1))
    reals, wholes = type_text("f64", lanes), type_text("i64", lanes)
    result = f"{{ {wholes}, {reals}, {reals} }}"
    body = "\n  ".join(code.lines)
    text = f"""define internal {result} {name}({reals} %xs, double %limit) noinline {{
entry:
  %px = alloca {reals}
  %pn = alloca {wholes}
  %pr = alloca {reals}
  %pl = alloca {reals}
  store {reals} %xs, ptr %px
  store {wholes} zeroinitializer, ptr %pn
  store {reals} zeroinitializer, ptr %pr
  store {reals} zeroinitializer, ptr %pl
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %tail ]
  %at = getelementptr double, ptr %px, i64 %i
  %x = load double, ptr %at
  %size = call double @llvm.fabs.f64(double %x)
  %above = fcmp ogt double %size, %limit
  %finite = fcmp olt double %size, 0x7FF0000000000000
  %huge = and i1 %above, %finite
  br i1 %huge, label %body, label %tail
body:
  {body}
  %an = getelementptr i64, ptr %pn, i64 %i
  %ar = getelementptr double, ptr %pr, i64 %i
  %al = getelementptr double, ptr %pl, i64 %i
  store i64 {n.ref}, ptr %an
  store double {r.ref}, ptr %ar
  store double {low.ref}, ptr %al
  br label %tail
tail:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, {lanes}
  br i1 %more, label %head, label %done
done:
  %n = load {wholes}, ptr %pn
  %r = load {reals}, ptr %pr
  %l = load {reals}, ptr %pl
  %a = insertvalue {result} poison, {wholes} %n, 0
  %b = insertvalue {result} %a, {reals} %r, 1
  %c = insertvalue {result} %b, {reals} %l, 2
  ret {result} %c
}}"""
    if lanes == 1:
        text = text.replace("zeroinitializer, ptr %pn", "0, ptr %pn")
        text = text.replace("zeroinitializer", "0x0000000000000000")
    return {text, *code.declarations}


def _lane(code: Code, x: V) -> tuple[V, V, V]:
    bits = x.bits()
    exponent = ((bits >> 52) & 0x7FF) - 1023
    skipped = (int_max(exponent, 54) - 54).quotient(24)
    scaled = (bits - ((skipped * 24) << 52)).bitcast("f64")
    high = (scaled.bits() & -(1 << 26)).bitcast("f64")
    low = scaled - high
    total, rest = x.like(0.0), x.like(0.0)
    for i in range(PIECES):
        at = code.let(f"getelementptr double, ptr {_TABLE}, i64 {(skipped + i).ref}")
        piece = code.value(code.let(f"load double, ptr {at}"), "f64", 1) * 2.0 ** (-24 * i)
        for half in (high, low):
            product = half * piece
            turns = product - (product * 0.25).rint() * 4.0
            total, error = two_sum(total, turns)
            rest = rest + error
            if half is high:
                total = total - (total * 0.25).rint() * 4.0
    n = total.rint()
    fraction, rest = fast_two_sum(total - n, rest)
    half_pi = x.like(tables.PI_F64[0] / 2)
    r, error = two_product(fraction, half_pi)
    error = mad(fraction, tables.PI_F64[1] / 2, mad(rest, half_pi, error))
    r, low = fast_two_sum(r, error)
    return n.convert("i64"), r, low
