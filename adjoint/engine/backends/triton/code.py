"""Values in registers as Triton text: what the lowerings' operators write (Note [writers]).

A value is a tile, or a number the same for all of it; Triton broadcasts one to the other. So all
values have one lane here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from adjoint.engine.backends.registers.vector import Code, Features, Number, V, to_float32
from adjoint.engine.graph.sizes.extents import Extent, ExtentFloat
from adjoint.engine.graph.sizes.marked import Marked, pin, scope_of

TYPES = {
    "f32": "tl.float32", "f64": "tl.float64", "i1": "tl.int1",
    "i8": "tl.int8", "i16": "tl.int16", "i32": "tl.int32", "i64": "tl.int64",
    "u8": "tl.uint8", "u16": "tl.uint16", "u32": "tl.uint32", "u64": "tl.uint64",
}  # fmt: skip
OPERATORS = {
    "fadd": "+", "add": "+", "fsub": "-", "sub": "-", "fmul": "*", "mul": "*",
    "sdiv": "//", "udiv": "//", "srem": "%", "urem": "%", "and": "&", "or": "|", "xor": "^",
    "shl": "<<", "ashr": ">>", "lshr": ">>",
}  # fmt: skip
TESTS = {
    "olt": "<", "ole": "<=", "ogt": ">", "oge": ">=", "oeq": "==", "une": "!=", "uno": "!=",
    "eq": "==", "ne": "!=",
    "slt": "<", "sle": "<=", "sgt": ">", "sge": ">=",
    "ult": "<", "ule": "<=", "ugt": ">", "uge": ">=",
}  # fmt: skip
# LLVM's overloaded intrinsics, as the lowerings name them.
CALLS = {
    "fabs": "tl.abs({0})", "sqrt": "libdevice.sqrt_rn({0})", "floor": "tl.floor({0})",
    "ceil": "tl.ceil({0})", "trunc": "libdevice.trunc({0})", "rint": "libdevice.rint({0})",
    "copysign": "libdevice.copysign({0}, {1})", "fma": "tl.fma({0}, {1}, {2})",
    "fmod": "libdevice.fmod({0}, {1})", "sin": "libdevice.sin({0})", "cos": "libdevice.cos({0})",
    "tan": "libdevice.tan({0})",
    "maximum": "nan_max({0}, {1})", "minimum": "nan_min({0}, {1})",
    "maxnum": "tl.maximum({0}, {1})", "minnum": "tl.minimum({0}, {1})",
}  # fmt: skip
NUMBERS = {float("inf"): 'float("inf")', float("-inf"): 'float("-inf")'}


FEATURES = Features(fused=False, halves=False, device=True)


@dataclass(slots=True)
class TritonCode(Code):
    """Lines of a Triton kernel."""

    features: Features = FEATURES
    margin: str = "    "

    def let(self, expression: str) -> str:
        name = f"t{self.count}"
        self.count += 1
        self.lines.append(f"{self.margin}{name} = {expression}")
        return name

    def put(self, line: str) -> None:
        """A statement."""
        self.lines.append(self.margin + line)

    def named(self, expression: str, kind: str) -> V:
        """The value of an expression, under a name."""
        return V(self, self.let(expression), kind, 1)

    def const(self, value: Number, kind: str, lanes: int = 1) -> V:
        return V(self, f"tl.full((), {number(value, kind)}, {TYPES[kind]})", kind, 1, value)

    def iota(self, kind: str, lanes: int) -> V:
        raise NotImplementedError("a tile has no lanes")

    def splat(self, x: V, lanes: int) -> V:
        return x

    def call(self, name: str, result: str, *operands: V) -> V:
        return self.named(CALLS[name].format(*[x.ref for x in operands]), result)

    def device(self, name: str, *operands: V) -> V:
        """A function of NVIDIA's library, in the kind of its first operand."""
        given = ", ".join(x.ref for x in operands)
        return self.named(f"libdevice.{name}({given})", operands[0].kind)

    def binary(self, op: str, a: V, b: V) -> V:
        if op == "fdiv":  # the operator's quotient is approximate in float32
            exact = f"tl.div_rn({a.ref}, {b.ref})" if a.kind == "f32" else f"{a.ref} / {b.ref}"
            return self.named(exact, a.kind)
        return self.named(f"{a.ref} {OPERATORS[op]} {b.ref}", a.kind)

    def negative(self, x: V) -> V:
        return self.named(f"-{x.ref}", x.kind)

    def compare(self, test: str, a: V, b: V) -> V:
        return self.named(f"{a.ref} {TESTS[test.split()[1]]} {b.ref}", "i1")

    def select(self, mask: V, a: V, b: V) -> V:
        return self.named(f"tl.where({mask.ref}, {a.ref}, {b.ref})", a.kind)

    def bitcast(self, x: V, kind: str) -> V:
        if kind == x.kind:
            return x
        return self.named(f"{x.ref}.to({TYPES[kind]}, bitcast=True)", kind)

    def resize(self, op: str, x: V, kind: str) -> V:
        return self.named(f"{x.ref}.to({TYPES[kind]})", kind)

    def rounded(self, x: V, dtype: str) -> V:
        """A float32 rounded to what a half can hold."""
        return self.named(f"{x.ref}.to(tl.{dtype}).to(tl.float32)", "f32")


def number(value: Any, kind: str) -> str:
    """A number as Triton reads it, in a kind.

    >>> number(300, "u8"), number(float("inf"), "f32"), number(-1, "u16"), number(1, "i1")
    ('44', 'float("inf")', '65535', 'True')
    """
    if kind == "i1":
        return str(bool(value))
    if isinstance(value, (Extent, ExtentFloat)):
        return open_number(value, kind)
    if kind[0] == "f":
        value = to_float32(float(value)) if kind == "f32" else float(value)
        if value != value:
            return 'float("nan")'
        return NUMBERS.get(value, repr(value))
    bits = int(kind[1:])
    whole = int(value) & ((1 << bits) - 1)
    return str(whole - (1 << bits) if kind[0] == "i" and whole >> (bits - 1) else whole)


def open_number(value: Extent | ExtentFloat, kind: str) -> str:
    """The same of a number that depends on sizes (Note [extents])."""
    scope = scope_of(value)
    assert scope is not None
    if scope.marks is None:
        raise NotImplementedError("a kernel of sizes that are not known")
    if kind[0] == "f":
        return scope.mark(Marked(value, FLOATS[kind]))
    if not isinstance(value, Extent) or not 0 <= value < 1 << (int(kind[1:]) - 1):
        pin(value)
        return number(int(value), kind)
    return str(value)


FLOATS = {kind: partial(number, kind=kind) for kind in ("f32", "f64")}


def memory_type(dtype: str) -> str:
    """What a pointer to elements of a dtype points to."""
    return "tl.uint8" if dtype == "bool" else f"tl.{dtype}"


class Words:
    """What a kernel is told, one word after another: what each is, and where."""

    def __init__(self) -> None:
        self.at: dict[tuple[Any, ...], int] = {}

    def of(self, *what: Any) -> int:
        """The number of a word."""
        return self.at.setdefault(what, len(self.at))
