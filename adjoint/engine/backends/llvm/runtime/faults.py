"""Telling of a fault in a program's status, as IR (`compiler.package.status`)."""

from __future__ import annotations

from adjoint.engine.backends.registers.vector import Code, V, select
from adjoint.engine.compiler.package.status import CODE_BITS, LEAST


def store_fault(
    code: Code, status: str, fault: str, bad: V | None = None, at: V | None = None
) -> None:
    """Tell of a fault in the status, unless one is told: its code, a number where `bad` holds."""
    let = code.let
    word = fault
    if at is not None:
        number = at.convert("i64")
        if bad is not None:
            number = _largest(select(bad, number, number.like(LEAST)))
        shown = let(f"shl i64 {number.ref}, {CODE_BITS}")
        back = let(f"ashr i64 {shown}, {CODE_BITS}")
        fits = let(f"icmp eq i64 {back}, {number.ref}")
        word = let(f"or i64 {let(f'select i1 {fits}, i64 {shown}, i64 {LEAST}')}, {fault}")
    let(f"cmpxchg ptr {status}, i64 0, i64 {word} monotonic monotonic")


def _largest(x: V) -> V:
    """The largest of a vector's lanes."""
    if x.lanes == 1:
        return x
    name = f"@llvm.vector.reduce.smax.v{x.lanes}i64"
    x.code.declarations.add(f"declare i64 {name}({x.type})")
    return x.code.value(x.code.let(f"call i64 {name}({x.type} {x.ref})"), "i64", 1)
