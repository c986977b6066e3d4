"""Powers of two as factors, by the one instruction that AVX-512 has for it."""

from __future__ import annotations

from adjoint.engine.backends.registers.vector import V, type_text, width

_NAMES = {"f32": "ps", "f64": "pd"}
_CURRENT_ROUNDING = 4


def scales(y: V) -> bool:
    """Whether the machine has that instruction for a vector's lanes."""
    bits = y.code.features.scales
    return 0 < bits <= y.lanes * width(y.kind)


def scaled(y: V, n: V) -> V:
    """y 2**n for whole numbers n, rounded once, also where 2**n alone is subnormal or infinite."""
    code, each = y.code, y.code.features.scales // width(y.kind)
    wide = type_text(y.kind, each)
    name = f"@llvm.x86.avx512.mask.scalef.{_NAMES[y.kind]}.{code.features.scales}"
    code.declarations.add(f"declare {wide} {name}({wide}, {wide}, {wide}, i{each}, i32)")
    parts = []
    for first in range(0, y.lanes, each):
        a, b = _part(y, first, each), _part(n, first, each)
        given = f"{wide} {a.ref}, {wide} {b.ref}, {wide} zeroinitializer, i{each} -1"
        made = code.let(f"call {wide} {name}({given}, i32 {_CURRENT_ROUNDING})")
        parts.append(code.value(made, y.kind, each))
    while len(parts) > 1:
        parts = [_joined(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _part(x: V, first: int, count: int) -> V:
    return x if count == x.lanes else _shuffled(x, x, range(first, first + count))


def _joined(a: V, b: V) -> V:
    return _shuffled(a, b, range(2 * a.lanes))


def _shuffled(a: V, b: V, places: range) -> V:
    """The lanes of two vectors that are at these places, one after another."""
    order = ", ".join(f"i32 {place}" for place in places)
    text = f"shufflevector {a.type} {a.ref}, {b.type} {b.ref}, <{len(places)} x i32> <{order}>"
    return a.code.value(a.code.let(text), a.kind, len(places))
