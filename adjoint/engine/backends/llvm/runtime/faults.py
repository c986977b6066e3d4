"""The status of a program: which of its checks failed, and on what number.

The low bits are the fault's code, 1 or more; the rest is the number that was wrong (an index, a
class), one of them where there are several. Both are one word, so that workers that fail at the
same time cannot mix theirs up.
"""

from __future__ import annotations

from adjoint.engine.backends.llvm.ir.vector import Code, V, select

CODE_BITS = 24
LEAST = -(1 << 63)  # with a code: a number too large to be shown


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


def read_status(status: int) -> tuple[int, int | None]:
    """(code, number) of a status; the number is 0 where the check was about none.

    >>> read_status(3 | 7 << CODE_BITS), read_status(3 | -5 << CODE_BITS), read_status(3 | LEAST)
    ((3, 7), (3, -5), (3, None))
    """
    number = status >> CODE_BITS
    return status & (1 << CODE_BITS) - 1, None if number == LEAST >> CODE_BITS else number
