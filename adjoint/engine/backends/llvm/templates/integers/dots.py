"""Dots: what a processor has for sums of products of bytes.

Note [dots]
    A dot takes a vector of sums in int32 and two vectors of int8, and adds to each sum the products
    of neighbouring bytes. NEON has it (`sdot`); VNNI has one that takes the first bytes as
    unsigned, so that 128 too much of each of the second's is taken off afterwards; older x86
    multiplies pairs of int16. Elsewhere products of int16 are widened and added. All are exact,
    modulo 2^32.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from adjoint.engine.backends.llvm.ir.machine import machine
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.registers.vector import V

OFFSET = 128  # that makes a signed byte unsigned


@dataclass(frozen=True, slots=True)
class Dot:
    """One way to multiply bytes (Note [dots])."""

    name: str
    size: int  # bytes of an operand
    lanes: int  # sums
    rows: int  # of a tile whose columns are four, so that its sums stay in registers
    add: Callable[[CodeWriter, V, V, V], V]
    moved: bool = False  # the first operand's bytes have OFFSET added
    feature: str = ""  # that LLVM may not know the processor to have


def _intrinsic(w: CodeWriter, name: str, lanes: int, operands: list[tuple[str, str]]) -> V:
    types = ", ".join(kind for kind, _ in operands)
    w.code.declarations.add(f"declare <{lanes} x i32> @{name}({types})")
    given = ", ".join(f"{kind} {ref}" for kind, ref in operands)
    return w.code.value(w.code.let(f"call <{lanes} x i32> @{name}({given})"), "i32", lanes)


def _sdot(w: CodeWriter, a: V, b: V, sums: V) -> V:
    operands = [(x.type, x.ref) for x in (sums, a, b)]
    return _intrinsic(w, "llvm.aarch64.neon.sdot.v4i32.v16i8", 4, operands)


def _vnni(bits: int) -> Callable[[CodeWriter, V, V, V], V]:
    lanes = bits // 32

    def add(w: CodeWriter, a: V, b: V, sums: V) -> V:
        words = [w.code.let(f"bitcast {x.type} {x.ref} to <{lanes} x i32>") for x in (a, b)]
        operands = [(f"<{lanes} x i32>", ref) for ref in (sums.ref, *words)]
        return _intrinsic(w, f"llvm.x86.avx512.vpdpbusd.{bits}", lanes, operands)

    return add


def _pairs(name: str, lanes: int) -> Callable[[CodeWriter, V, V, V], V]:
    def add(w: CodeWriter, a: V, b: V, sums: V) -> V:
        wide = [x.convert("i16") for x in (a, b)]
        return sums + _intrinsic(w, name, lanes, [(x.type, x.ref) for x in wide])

    return add


def _widened(w: CodeWriter, a: V, b: V, sums: V) -> V:
    """Products fit in int16; neighbours are added in int32."""
    products = a.convert("i16") * b.convert("i16")
    for first in (0, 1):
        sums = sums + w.pick(products, products, range(first, a.lanes, 2)).convert("i32")
    return sums


def _unsigned(w: CodeWriter, a: V, b: V, sums: V) -> V:
    """What VNNI does, for processors that have it not: its tests run anywhere."""
    products = a.bitcast("u8").convert("i32") * b.convert("i32")
    for first in range(4):
        sums = sums + w.pick(products, products, range(first, a.lanes, 4))
    return sums


DOTS = {
    dot.name: dot
    for dot in (
        Dot("sdot", 16, 4, 4, _sdot, feature="+dotprod"),
        Dot("vnni512", 64, 16, 4, _vnni(512), moved=True),
        Dot("vnni256", 32, 8, 2, _vnni(256), moved=True),
        Dot("pairs512", 32, 16, 4, _pairs("llvm.x86.avx512.pmaddw.d.512", 16)),
        Dot("pairs256", 16, 8, 2, _pairs("llvm.x86.avx2.pmadd.wd", 8)),
        Dot("pairs128", 8, 4, 2, _pairs("llvm.x86.sse2.pmadd.wd", 4)),
        Dot("widened", 16, 8, 2, _widened),
        Dot("unsigned", 16, 4, 2, _unsigned, moved=True),
    )
}
# The features of a processor that a dot needs, the best first.
_NEEDS = {
    "aarch64": (("sdot", {"dotprod"}), ("widened", set[str]())),
    "x86_64": (
        ("vnni512", {"avx512f", "avx512vnni"}),
        ("vnni256", {"avxvnni"}),
        ("vnni256", {"avx512vnni", "avx512vl"}),
        ("pairs512", {"avx512f", "avx512bw"}),
        ("pairs256", {"avx2"}),
        ("pairs128", {"sse2"}),
    ),
}
_HWCAP, _ASIMDDP = 16, 1 << 20  # of Linux: an entry of what a program is told, a bit of it
_MACHINES = {"arm64": "aarch64", "amd64": "x86_64"}


def best_dot(kind: str, have: set[str]) -> Dot:
    """The best dot of a processor with these features."""
    for name, needed in _NEEDS.get(kind, ()):
        if needed <= have:
            return DOTS[name]
    return DOTS["widened"]


def host_dot() -> Dot:
    """The best dot of the processor that text is written for."""
    other = machine().dot
    return DOTS[other] if other else _this_dot()


@cache
def _this_dot() -> Dot:
    """The best dot of this processor."""
    from llvmlite import binding

    kind = platform.machine().lower()
    kind = _MACHINES.get(kind, kind)
    if kind == "aarch64":  # LLVM does not tell
        return best_dot(kind, {"dotprod"} if _has_dotprod() else set())
    have = {name for name, there in binding.get_host_cpu_features().items() if there}
    return best_dot(kind, have)


def _has_dotprod() -> bool:
    """Whether the system says that the processor has `sdot`; every Mac of its kind does."""
    if sys.platform != "linux":
        return sys.platform == "darwin"
    library = ctypes.CDLL(None)
    ask = ctypes.CFUNCTYPE(ctypes.c_ulong, ctypes.c_ulong)(("getauxval", library))
    return bool(ask(_HWCAP) & _ASIMDDP)
