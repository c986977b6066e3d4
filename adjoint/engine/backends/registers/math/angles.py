"""Reduction of huge angles (Payne and Hanek), one lane at a time in a function of its own.

x = M 2**e times 2/pi is wanted modulo 4. Of the bits of 2/pi, in pieces of 24, those whose product
with x is a multiple of 4 turn nothing; nine pieces from there give the fraction to 2**-114. Halves
of x times a piece are exact in float64, and stay so when multiples of 4 are taken away.
"""

from __future__ import annotations

from functools import cache

from adjoint.engine.backends.registers.math import tables
from adjoint.engine.backends.registers.math.common import fast_two_sum, two_product, two_sum
from adjoint.engine.backends.registers.math.lanes import by_lane, struct
from adjoint.engine.backends.registers.vector import (
    Code,
    Features,
    V,
    int_max,
    int_min,
    literal,
    mad,
)

PIECES = 9
_TABLE = "@adjoint.two_over_pi"
_NAME = "adjoint.huge_angle"
_RESULTS = ("i64", "f64", "f64")


def huge_angle(x: V) -> tuple[V, V, V]:
    """(n, r, low) with x = n pi/2 + r + low, for |x| >= 1; without meaning for infinities."""
    code = x.code
    code.declarations |= {_table_text(), *_parts(code.features)[1]}
    n, r, low = by_lane(code, _NAME, _parts(code.features)[0], [x], _RESULTS)
    return n, r, low


def _table_text() -> str:
    pieces = [literal(piece * 2.0**-24, "f64") for piece in tables.TWO_OVER_PI]
    items = ", ".join(f"double {piece}" for piece in pieces)
    return f"{_TABLE} = internal constant [{len(pieces)} x double] [{items}]"


@cache
def _parts(features: Features) -> tuple[str, frozenset[str]]:
    """The function of one lane, and what it declares."""
    code = Code(features)
    results = _lane(code, code.value("%x", "f64", 1))
    last = "poison"
    for i, result in enumerate(results):
        last = code.let(f"insertvalue {struct(_RESULTS)} {last}, {result.type} {result.ref}, {i}")
    body = "\n  ".join([*code.lines, f"ret {struct(_RESULTS)} {last}"])
    text = f"define internal {struct(_RESULTS)} @{_NAME}(double %x) noinline {{\n  {body}\n}}"
    return text, frozenset(code.declarations)


def _lane(code: Code, x: V) -> tuple[V, V, V]:
    bits = x.bits()
    exponent = ((bits >> 52) & 0x7FF) - 1023
    exponent = int_min(exponent, 1023)  # infinities and lanes not meant stay inside the table
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
