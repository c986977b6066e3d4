"""Text that combines an element with the one at an index, for loops that scatter."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial


def _arithmetic(name: str, kind: str) -> str:
    """What is there, %y, combined with %x."""
    return f"  %z = {'' if kind == 'i64' else 'f'}{name} {kind} %y, %x"


def _extreme(way: str, kind: str) -> str:
    """The larger (`gt`) or smaller (`lt`) of what is there, %y, and %x; a NaN if one is.

    Which of two zeros NumPy takes is its machine's affair: they fail, for the kernel to decide.
    """
    if kind == "i64":
        return f"  %over = icmp s{way} i64 %x, %y\n  %z = select i1 %over, i64 %x, i64 %y"
    bits = "i32" if kind == "float" else "i64"
    return (
        f"  %xBits = bitcast {kind} %x to {bits}\n  %yBits = bitcast {kind} %y to {bits}\n"
        f"  %apart = icmp ne {bits} %xBits, %yBits\n  %equal = fcmp oeq {kind} %x, %y\n"
        "  %zeros = and i1 %apart, %equal\n  br i1 %zeros, label %fail, label %combine\n"
        f"combine:\n  %over = fcmp u{way} {kind} %x, %y\n"
        f"  %best = select i1 %over, {kind} %x, {kind} %y\n"
        f"  %stays = fcmp uno {kind} %y, %y\n  %z = select i1 %stays, {kind} %y, {kind} %best"
    )


COMBINING: dict[str, Callable[[str], str]] = {
    "add": partial(_arithmetic, "add"),
    "prod": partial(_arithmetic, "mul"),
    "amax": partial(_extreme, "gt"),
    "amin": partial(_extreme, "lt"),
}
