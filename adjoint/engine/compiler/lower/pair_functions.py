"""Functions of complex numbers as functions of their parts (Note [pairs]).

Each overflows only where its result does, and gives what C's tables say of zeros and infinities;
where those leave a sign open, it may differ from NumPy's.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.compiler.lower.pairs import Pair, Pairs, Part, exp_of, product, rule_of
from adjoint.engine.compiler.lower.pairs import paired as paired
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.numeric_limits import finfo
from adjoint.engine.core.operations.record import Record
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.ops.elementwise import records
from adjoint.engine.ops.elementwise.condition import WHERE
from adjoint.engine.ops.elementwise.logical import LOGICAL_AND, LOGICAL_OR

INFINITE = float("inf")
LARGE = 30.0  # from where on cosh and sinh are half of an exponential, to the last bit


class PartWriter:
    """Operations on parts, in short."""

    def __init__(self, p: Pairs) -> None:
        self.p = p

    def __getattr__(self, name: str) -> Any:
        record: Record = getattr(records, name.upper())
        return lambda *operands: self.p.emit(record, *operands)

    def where(self, condition: Value, x: Part, y: Part) -> Value:
        return self.p.emit(WHERE, condition, x, y)

    def both(self, x: Value, y: Value) -> Value:
        return self.p.emit(LOGICAL_AND, x, y)

    def either(self, x: Value, y: Value) -> Value:
        return self.p.emit(LOGICAL_OR, x, y)

    def where_pair(self, condition: Value, x: Pair, y: Pair) -> Pair:
        return self.where(condition, x[0], y[0]), self.where(condition, x[1], y[1])


def log_of(p: Pairs, a: Value, b: Value) -> Pair:
    """Near the circle of one the size is 1 and a small rest, which a logarithm would lose."""
    e = PartWriter(p)
    larger, smaller = e.maximum(e.abs(a), e.abs(b)), e.minimum(e.abs(a), e.abs(b))
    size = e.hypot(a, b)
    rest = e.add(e.mul(e.sub(larger, 1.0), e.add(larger, 1.0)), e.mul(smaller, smaller))
    near = e.both(e.gt(size, 0.7), e.lt(size, 1.5))
    return e.where(near, e.mul(e.log1p(rest), 0.5), e.log(size)), e.atan2(b, a)


def sqrt_of(p: Pairs, a: Value, b: Value, real: DType) -> Pair:
    """By the root of half the size and the real part, where nothing cancels."""
    e, limits = PartWriter(p), finfo(real)
    largest = e.maximum(e.abs(a), e.abs(b))
    huge, tiny = e.gt(largest, limits.max / 4), e.lt(largest, limits.tiny * 16)
    up = 2.0**30
    scale = e.where(huge, 0.25, e.where(tiny, up * up, 1.0))
    back = e.where(huge, 2.0, e.where(tiny, 1 / up, 1.0))
    x, y = e.mul(a, scale), e.mul(b, scale)
    root = e.sqrt(e.mul(e.add(e.abs(x), e.hypot(x, y)), 0.5))
    other = e.div(e.mul(y, 0.5), root)
    right = e.ge(a, 0.0)
    unknown = e.ne(a, a)
    pair = (
        e.mul(e.where(right, root, e.abs(other)), back),
        e.mul(e.where(right, other, e.copysign(root, b)), back),
    )
    pair = e.where_pair(unknown, (a, a), pair)
    zero = e.both(e.eq(a, 0.0), e.eq(b, 0.0))
    pair = e.where(zero, 0.0, pair[0]), e.where(zero, b, pair[1])
    endless = e.eq(e.abs(b), INFINITE)
    return e.where(endless, INFINITE, pair[0]), e.where(endless, b, pair[1])


@rule_of(records.LOG)
def log(p: Pairs, node: Node) -> Pair:
    return log_of(p, *p.tensors(node.inputs[0]))


@rule_of(records.SQRT)
def sqrt(p: Pairs, node: Node) -> Pair:
    real = node.outputs[0].spec.dtype.to_real()
    return sqrt_of(p, *p.tensors(node.inputs[0]), real)


@rule_of(records.POW)
def power(p: Pairs, node: Node) -> Pair | None:
    """exp(w log z), by products for the commonest exponents; 1 where w is 0."""
    z, w = node.inputs
    out = node.outputs[0].spec
    real = out.dtype.to_real()
    if z.__class__ is not Value:
        return None
    pairs = p.operands(node)
    a, b = (p.filled(part, z.spec.shape, real, out) for part in pairs[0])
    if w.__class__ is not Value and w in (2, 3):
        square = product(p, records.MUL, a, b, a, b)
        return square if w == 2 else product(p, records.MUL, *square, a, b)
    if w.__class__ is not Value and w == 0.5:
        return sqrt_of(p, a, b, real)
    shape = w.spec.shape if w.__class__ is Value else ()
    c, d = (p.filled(part, shape, real, out) for part in pairs[1])
    e = PartWriter(p)
    x, y = exp_of(p, *product(p, records.MUL, c, d, *log_of(p, a, b)))
    from_zero = e.both(e.eq(a, 0.0), e.eq(b, 0.0))
    nothing = e.where(e.gt(c, 0.0), 0.0, float("nan"))
    x, y = e.where(from_zero, nothing, x), e.where(from_zero, nothing, y)
    is_one = e.both(e.eq(c, 0.0), e.eq(d, 0.0))
    return e.where(is_one, 1.0, x), e.where(is_one, 0.0, y)


def waves(p: Pairs, angle: Value, growth: Value) -> tuple[Value, Value, Value, Value]:
    """cos and sin of an angle, times cosh and sinh of a growth: cc, cs, sc, ss."""
    e = PartWriter(p)
    c, s = e.cos(angle), e.sin(angle)
    size = e.abs(growth)
    far, half = e.gt(size, LARGE), e.exp(e.mul(size, 0.5))

    def grown(x: Value, odd: bool) -> Value:
        near = e.mul(x, e.sinh(growth) if odd else e.cosh(growth))
        beyond = e.mul(e.mul(x, e.mul(half, 0.5)), half)
        if odd:
            beyond = e.where(e.lt(growth, 0.0), e.neg(beyond), beyond)
        wave = e.where(far, beyond, near)
        unknown = e.both(e.eq(size, INFINITE), e.ne(x, x))
        return e.where(unknown, INFINITE, wave) if x is c else wave

    return grown(c, odd=False), grown(c, odd=True), grown(s, odd=False), grown(s, odd=True)


def kept(p: Pairs, x: Value, y: Value) -> Value:
    """y, or x where that is a zero: nothing times an infinity would be a NaN."""
    e = PartWriter(p)
    return e.where(e.eq(x, 0.0), x, y)


def sine(p: Pairs, a: Value, b: Value) -> Pair:
    """Of a + bi."""
    _, cs, sc, _ = waves(p, a, b)
    return kept(p, a, sc), kept(p, b, cs)


def cosine(p: Pairs, a: Value, b: Value) -> Pair:
    """Of a + bi."""
    e = PartWriter(p)
    cc, _, _, ss = waves(p, a, b)
    nothing = e.either(e.eq(a, 0.0), e.eq(b, 0.0))
    return cc, e.where(nothing, 0.0, e.neg(ss))


@rule_of(records.SIN)
def sin(p: Pairs, node: Node) -> Pair:
    return sine(p, *p.tensors(node.inputs[0]))


@rule_of(records.COS)
def cos(p: Pairs, node: Node) -> Pair:
    return cosine(p, *p.tensors(node.inputs[0]))


@rule_of(records.SINH)
def sinh(p: Pairs, node: Node) -> Pair:
    """-i sin(iz)."""
    a, b = p.tensors(node.inputs[0])
    x, y = sine(p, b, a)
    return y, x


@rule_of(records.COSH)
def cosh(p: Pairs, node: Node) -> Pair:
    """cos(iz), of -b + ai."""
    a, b = p.tensors(node.inputs[0])
    x, y = cosine(p, b, a)
    return x, PartWriter(p).neg(y)
