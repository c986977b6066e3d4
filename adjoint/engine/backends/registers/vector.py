"""Values in registers, and the lines that make them: LLVM IR, unless another writer is given.

A `V` is a scalar (one lane) or a vector of any power of two of lanes; its operators append
instructions to its `Code`. Lanes need not match a register: LLVM splits wide vectors, which is
how kernels unroll. Nothing optimises what is written here beyond instruction selection.

Note [writers]
    Lowerings (`elementwise`, `distributions`, `philox`) know values and their operators only. What
    an operator writes is a method of `Code`; the Triton backend's code writes Triton instead, with
    all of a tile in one lane.

Kinds: f32 f64, signed i8 i16 i32 i64, unsigned u8 u16 u32 u64, and i1 for masks and booleans.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

Number: TypeAlias = bool | int | float
Operand: TypeAlias = "V | Number"

# kind -> (LLVM type, width in bits)
_TYPES = {
    "f32": ("float", 32), "f64": ("double", 64), "i1": ("i1", 1),
    "i8": ("i8", 8), "i16": ("i16", 16), "i32": ("i32", 32), "i64": ("i64", 64),
    "u8": ("i8", 8), "u16": ("i16", 16), "u32": ("i32", 32), "u64": ("i64", 64),
}  # fmt: skip
KINDS = tuple(_TYPES)


def is_float(kind: str) -> bool:
    """Whether a kind is floating."""
    return kind[0] == "f"


def is_signed(kind: str) -> bool:
    """Whether a kind is a signed integer."""
    return kind[0] == "i" and kind != "i1"


def width(kind: str) -> int:
    """The bits of a kind."""
    return _TYPES[kind][1]


def type_text(kind: str, lanes: int) -> str:
    """The LLVM type of a value.

    >>> type_text("f32", 4), type_text("u8", 1)
    ('<4 x float>', 'i8')
    """
    element = _TYPES[kind][0]
    return element if lanes == 1 else f"<{lanes} x {element}>"


@dataclass(frozen=True, slots=True)
class Features:
    """What a machine can do that decides which instructions are written."""

    fused: bool = True  # multiply-add in one rounding
    halves: bool = True  # conversion between float16 and float32
    nan_bounds: bool = True  # a minimum and maximum that keep NaN, as one instruction
    device: bool = False  # remainders of floats, sines and cosines by functions of the device
    overwrites: bool = False  # multiply-add of vectors puts its result where its addend was
    slow_underflow: bool = False  # a product below all normal numbers takes a hundred cycles
    folds: bool = False  # the least of a vector's 32-bit lanes, as one instruction
    scales: int = 0  # bits of vectors that AVX-512 multiplies by powers of two; 0: none


@dataclass(slots=True)
class Code:
    """Lines of a function's body, and the declarations its module needs.

    >>> code = Code()
    >>> x = code.value("%x", "f32", 4)
    >>> y = x * 2 + x
    >>> print(*code.lines, sep="\\n")
    %t0 = fmul <4 x float> %x, splat (float 0x4000000000000000)
    %t1 = fadd <4 x float> %t0, %x
    """

    features: Features = field(default_factory=Features)
    lines: list[str] = field(default_factory=list)
    declarations: set[str] = field(default_factory=set)  # of the module: also whole functions
    # Lanes in which an operation must be refused, each with what to say: `RuntimeError` of eager
    # execution (an integer divided by zero). Whoever emits the loop masks and reports them.
    faults: list[tuple[V, str]] = field(default_factory=list)
    # The label of the block being written. An emitter that sets `branching` starts it at its own
    # label and names `block`, as it is after the body, in the phi nodes of its loops: rare cases
    # (a huge angle) then cost a test; otherwise they are computed always.
    block: str = "entry"
    branching: bool = False
    count: int = 0
    # Of values that are halves: the dtype and the word that each is in memory, so that storing what
    # was loaded, or rounded already, takes no rounding.
    words: dict[str, tuple[str, V]] = field(default_factory=dict)

    def let(self, expression: str) -> str:
        """Name the result of an instruction."""
        name = f"%t{self.count}"
        self.count += 1
        self.lines.append(f"{name} = {expression}")
        return name

    def value(self, ref: str, kind: str, lanes: int) -> V:
        """A value that exists already."""
        return V(self, ref, kind, lanes)

    def const(self, value: Number, kind: str, lanes: int = 1) -> V:
        """A number in every lane, rounded (floats) or wrapped around (integers) to the kind."""
        text = literal(value, kind)
        if lanes > 1:
            text = f"splat ({_TYPES[kind][0]} {text})"
        return V(self, text, kind, lanes, value)

    def addend(self, value: float, kind: str, lanes: int) -> V:
        """A number in every lane, for a sum of which it is the first term.

        Where sums overwrite that term, it is read from memory each time: to copy it from register
        to register would take the place of arithmetic.
        """
        number = self.const(value, kind, lanes)
        if not self.features.overwrites or lanes == 1:
            return number
        name = f"@adjoint.{kind}.{lanes}.{literal(value, kind)}"
        # Not a constant, which would be kept in a register after all.
        self.declarations.add(f"{name} = internal global {number.type} {number.ref}, align 16")
        return self.value(self.let(f"load {number.type}, ptr {name}, align 16"), kind, lanes)

    def iota(self, kind: str, lanes: int) -> V:
        """0, 1, 2, ... along the lanes."""
        if lanes == 1:
            return self.const(0, kind)
        element = _TYPES[kind][0]
        items = ", ".join(f"{element} {literal(i, kind)}" for i in range(lanes))
        return V(self, f"<{items}>", kind, lanes)

    def splat(self, x: V, lanes: int) -> V:
        """A scalar in every lane."""
        if lanes == x.lanes:
            return x
        if not x.ref.startswith(("%", "@")):
            return V(self, f"splat ({_TYPES[x.kind][0]} {x.ref})", x.kind, lanes, x.number)
        vector = type_text(x.kind, lanes)
        first = self.let(f"insertelement {vector} poison, {x.type} {x.ref}, i64 0")
        every = f"shufflevector {vector} {first}, {vector} poison, <{lanes} x i32> zeroinitializer"
        result = V(self, self.let(every), x.kind, lanes)
        if x.ref in self.words:
            dtype, word = self.words[x.ref]
            self.words[result.ref] = (dtype, self.splat(word, lanes))
        return result

    def call(self, name: str, result: str, *operands: V) -> V:
        """An overloaded intrinsic, `llvm.NAME.<type>`, whose result has a kind."""
        lanes = operands[0].lanes
        element = suffix(result)
        full = f"@llvm.{name}." + (element if lanes == 1 else f"v{lanes}{element}")
        out = type_text(result, lanes)
        types = ", ".join(x.type for x in operands)
        self.declarations.add(f"declare {out} {full}({types})")
        arguments = ", ".join(f"{x.type} {x.ref}" for x in operands)
        return V(self, self.let(f"call {out} {full}({arguments})"), result, lanes)

    # What operators write: another backend's code overrides these (Note [writers]).

    def binary(self, op: str, a: V, b: V) -> V:
        """An instruction on two values of one kind."""
        return V(self, self.let(f"{op} {a.type} {a.ref}, {b.ref}"), a.kind, a.lanes)

    def negative(self, x: V) -> V:
        """A float with the other sign."""
        return V(self, self.let(f"fneg {x.type} {x.ref}"), x.kind, x.lanes)

    def compare(self, test: str, a: V, b: V) -> V:
        """A comparison of two values of one kind."""
        return V(self, self.let(f"{test} {a.type} {a.ref}, {b.ref}"), "i1", a.lanes)

    def select(self, mask: V, a: V, b: V) -> V:
        """a where the mask is set, else b."""
        text = f"select {mask.type} {mask.ref}, {a.type} {a.ref}, {b.type} {b.ref}"
        return V(self, self.let(text), a.kind, a.lanes)

    def bitcast(self, x: V, kind: str) -> V:
        """The same bits as another kind of the same width."""
        if _TYPES[kind][0] == _TYPES[x.kind][0]:
            return V(self, x.ref, kind, x.lanes)
        text = f"bitcast {x.type} {x.ref} to {type_text(kind, x.lanes)}"
        return V(self, self.let(text), kind, x.lanes)

    def resize(self, op: str, x: V, kind: str) -> V:
        """A value in another kind by an instruction that converts."""
        text = f"{op} {x.type} {x.ref} to {type_text(kind, x.lanes)}"
        return V(self, self.let(text), kind, x.lanes)


def suffix(kind: str) -> str:
    """A kind as the names of intrinsics spell it."""
    return kind if is_float(kind) else f"i{width(kind)}"


def literal(value: Number, kind: str) -> str:
    """A number as LLVM reads it, exactly.

    >>> literal(0.1, "f32"), literal(300, "u8"), literal(1, "i1")
    ('0x3FB99999A0000000', '44', 'true')
    """
    if kind == "i1":
        return "true" if value else "false"
    if is_float(kind):
        value = float(value)
        if kind == "f32":
            value = to_float32(value)
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    bits = width(kind)
    whole = int(value) & ((1 << bits) - 1)
    return str(whole - (1 << bits) if is_signed(kind) and whole >> (bits - 1) else whole)


def to_float32(value: float) -> float:
    """A number rounded to float32, beyond whose range it becomes infinite."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


@dataclass(frozen=True, slots=True, eq=False)
class V:
    """A value in registers: its name in the code, its element kind and its lanes."""

    code: Code
    ref: str
    kind: str
    lanes: int
    number: Number | None = None  # a constant's value, before rounding to the kind

    @property
    def type(self) -> str:
        """Its LLVM type."""
        return type_text(self.kind, self.lanes)

    @property
    def is_float(self) -> bool:
        return self.kind[0] == "f"

    def like(self, value: Operand) -> V:
        """A number as a constant of this kind and these lanes; a value as it is."""
        if isinstance(value, V):
            if value.kind != self.kind or value.lanes != self.lanes:
                raise TypeError(
                    f"operands differ: {self.type} ({self.kind}) and {value.type} ({value.kind})"
                )
            return value
        return self.code.const(value, self.kind, self.lanes)

    def _binary(self, float_op: str, int_op: str, other: Operand, swap: bool = False) -> V:
        y = self.like(other)
        a, b = (y, self) if swap else (self, y)
        op = float_op if self.is_float else int_op
        if not op:
            raise TypeError(f"no such operation on {self.type}")
        return self.code.binary(op, a, b)

    # -- arithmetic (integers wrap around) -------------------------------------------------

    def __add__(self, other: Operand) -> V:
        return self._binary("fadd", "add", other)

    __radd__ = __add__

    def __sub__(self, other: Operand) -> V:
        return self._binary("fsub", "sub", other)

    def __rsub__(self, other: Operand) -> V:
        return self._binary("fsub", "sub", other, swap=True)

    def __mul__(self, other: Operand) -> V:
        return self._binary("fmul", "mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> V:
        return self._binary("fdiv", "", other)

    def __rtruediv__(self, other: Operand) -> V:
        return self._binary("fdiv", "", other, swap=True)

    def __neg__(self) -> V:
        if self.is_float:
            return self.code.negative(self)
        return self.like(0) - self

    def __abs__(self) -> V:
        if self.is_float:
            return self.code.call("fabs", self.kind, self)
        return select(self < 0, -self, self) if is_signed(self.kind) else self

    def quotient(self, other: Operand) -> V:
        """Integer division towards zero; traps or is undefined for 0 and for overflow."""
        return self._binary("", "sdiv" if is_signed(self.kind) else "udiv", other)

    def modulo(self, other: Operand) -> V:
        """What `quotient` leaves."""
        return self._binary("", "srem" if is_signed(self.kind) else "urem", other)

    # -- bits --------------------------------------------------------------------------------

    def __and__(self, other: Operand) -> V:
        return self._binary("", "and", other)

    def __or__(self, other: Operand) -> V:
        return self._binary("", "or", other)

    def __xor__(self, other: Operand) -> V:
        return self._binary("", "xor", other)

    def __invert__(self) -> V:
        return self ^ -1 if self.kind != "i1" else self ^ True

    def __lshift__(self, other: Operand) -> V:
        return self._binary("", "shl", other)

    def __rshift__(self, other: Operand) -> V:
        """Keeps the sign of signed kinds."""
        return self._binary("", "ashr" if is_signed(self.kind) else "lshr", other)

    def bitcast(self, kind: str) -> V:
        """The same bits as another kind of the same width."""
        return self.code.bitcast(self, kind)

    def bits(self, signed: bool = True) -> V:
        """A float's bits as an integer."""
        return self.bitcast(("i" if signed else "u") + self.kind[1:])

    # -- comparisons: all false beside a NaN, but `ne` -----------------------------------------

    def _compare(self, float_op: str, int_op: str, other: Operand) -> V:
        y = self.like(other)
        if self.is_float:
            test = f"fcmp {float_op}"
        elif int_op in ("eq", "ne"):
            test = f"icmp {int_op}"
        else:
            test = f"icmp {'s' if is_signed(self.kind) else 'u'}{int_op}"
        return self.code.compare(test, self, y)

    def __lt__(self, other: Operand) -> V:
        return self._compare("olt", "lt", other)

    def __le__(self, other: Operand) -> V:
        return self._compare("ole", "le", other)

    def __gt__(self, other: Operand) -> V:
        return self._compare("ogt", "gt", other)

    def __ge__(self, other: Operand) -> V:
        return self._compare("oge", "ge", other)

    def eq(self, other: Operand) -> V:
        """Whether equal."""
        return self._compare("oeq", "eq", other)

    def ne(self, other: Operand) -> V:
        """Whether different; true beside a NaN."""
        return self._compare("une", "ne", other)

    def isnan(self) -> V:
        """Whether not a number."""
        return self.code.compare("fcmp uno", self, self)

    # -- functions the processor has ------------------------------------------------------------

    def _unary(self, name: str) -> V:
        return self.code.call(name, self.kind, self)

    def sqrt(self) -> V:
        """Square root, correctly rounded."""
        return self._unary("sqrt")

    def floor(self) -> V:
        """The integer at or below."""
        return self._unary("floor")

    def ceil(self) -> V:
        """The integer at or above."""
        return self._unary("ceil")

    def trunc(self) -> V:
        """The integer towards zero."""
        return self._unary("trunc")

    def rint(self) -> V:
        """The nearest integer, halves to even."""
        return self._unary("rint")

    def copysign(self, sign: Operand) -> V:
        """This size with another's sign."""
        return self.code.call("copysign", self.kind, self, self.like(sign))

    def convert(self, kind: str) -> V:
        """The value in another kind (see `convert`)."""
        return convert(self, kind)


# -- functions of several values --------------------------------------------------------------


def select(mask: V, a: Operand, b: Operand) -> V:
    """a where the mask is set, else b; at least one of them is a value."""
    a, b = pair(a, b)
    return a.code.select(mask, a, b)


def pair(a: Operand, b: Operand) -> tuple[V, V]:
    """Two operands, one of which may be a number, as values."""
    if isinstance(a, V):
        return a, a.like(b)
    if isinstance(b, V):
        return b.like(a), b
    raise TypeError(f"two numbers: {a!r} and {b!r}. One operand must be a value.")


def mad(a: V, b: Operand, c: Operand) -> V:
    """a * b + c, in one rounding where that is one instruction, else in two."""
    if a.code.features.fused:
        return a.code.call("fma", a.kind, a, a.like(b), a.like(c))
    return a * b + c


def fma(a: V, b: Operand, c: Operand) -> V:
    """a * b + c in one rounding; a library call where the processor has no such instruction."""
    return a.code.call("fma", a.kind, a, a.like(b), a.like(c))


def nan_max(a: V, b: Operand) -> V:
    """The larger, NaN beside a NaN, +0 above -0."""
    return a.code.call("maximum", a.kind, a, a.like(b)) if a.is_float else int_max(a, b)


def nan_min(a: V, b: Operand) -> V:
    """The smaller, NaN beside a NaN, -0 below +0."""
    return a.code.call("minimum", a.kind, a, a.like(b)) if a.is_float else int_min(a, b)


def num_max(a: V, b: Operand) -> V:
    """The larger; a NaN yields to a number."""
    return a.code.call("maxnum", a.kind, a, a.like(b)) if a.is_float else int_max(a, b)


def num_min(a: V, b: Operand) -> V:
    """The smaller; a NaN yields to a number."""
    return a.code.call("minnum", a.kind, a, a.like(b)) if a.is_float else int_min(a, b)


def clip(x: V, low: Number, high: Number) -> V:
    """x kept within constant bounds; NaN stays NaN."""
    if x.code.features.nan_bounds:
        return nan_min(nan_max(x, low), high)
    above = select(x < low, low, x)  # one instruction each on x86, in this order of operands
    return select(above > high, high, above)


def at_most(x: V, high: Number) -> V:
    """x kept below a constant bound; NaN stays NaN."""
    return nan_min(x, high) if x.code.features.nan_bounds else select(x > high, high, x)


def at_least(x: V, low: Number) -> V:
    """x kept above a constant bound; NaN stays NaN."""
    return nan_max(x, low) if x.code.features.nan_bounds else select(x < low, low, x)


def when_any(mask: V, rare: Callable[[], tuple[V, ...]], usual: tuple[V, ...]) -> tuple[V, ...]:
    """`rare()` in the lanes of the mask, else `usual`; not computed where no lane needs it."""
    if not mask.code.branching:
        return _merged(mask, rare(), usual)
    return either(any_of(mask), lambda: _merged(mask, rare(), usual), usual)


def either(found: V, rare: Callable[[], tuple[V, ...]], usual: tuple[V, ...]) -> tuple[V, ...]:
    """`rare()` in all lanes where `found`, in one lane, is set, else `usual`; by a branch."""
    code = found.code
    number, before = code.count, code.block
    code.count += 1
    code.lines.append(f"br i1 {found.ref}, label %rare{number}, label %join{number}")
    code.block = f"rare{number}"
    code.lines.append(f"{code.block}:")
    other = rare()
    code.lines.append(f"br label %join{number}")
    inside, code.block = code.block, f"join{number}"
    code.lines.append(f"{code.block}:")
    return tuple(
        V(
            code,
            code.let(f"phi {a.type} [ {a.ref}, %{before} ], [ {b.ref}, %{inside} ]"),
            a.kind,
            a.lanes,
        )
        for a, b in zip(usual, other, strict=True)
    )


def _merged(mask: V, a: tuple[V, ...], b: tuple[V, ...]) -> tuple[V, ...]:
    return tuple(select(mask, x, y) for x, y in zip(a, b, strict=True))


def any_of(mask: V) -> V:
    """Whether any lane of a mask is set, in one lane."""
    if mask.lanes == 1:
        return mask
    code = mask.code
    name = f"@llvm.vector.reduce.or.v{mask.lanes}i1"
    code.declarations.add(f"declare i1 {name}({mask.type})")
    return V(code, code.let(f"call i1 {name}({mask.type} {mask.ref})"), "i1", 1)


def least_of(x: V) -> V:
    """The least of a signed integer's lanes, in one lane."""
    if x.lanes == 1:
        return x
    code, bits = x.code, width(x.kind)
    name = f"@llvm.vector.reduce.smin.v{x.lanes}i{bits}"
    code.declarations.add(f"declare i{bits} {name}({x.type})")
    return V(code, code.let(f"call i{bits} {name}({x.type} {x.ref})"), x.kind, 1)


def int_max(a: V, b: Operand) -> V:
    """The larger of two integers, or of two floats where which of NaN and zeros is no matter."""
    return select(a > b, a, b)


def int_min(a: V, b: Operand) -> V:
    """The smaller of two integers."""
    return select(a < b, a, b)


# -- conversion --------------------------------------------------------------------------------


def convert(x: V, kind: str) -> V:
    """The value in another kind, as NumPy converts.

    Floats go to integers towards zero; what is out of range is what the processor's instruction
    gives, by way of int32 for int8 and int16 and of int64 for unsigned kinds, which wrap around.
    Integers lose their upper bits. Anything but zero is true.
    """
    if kind == x.kind:
        return x
    if kind == "i1":
        return x.ne(0)
    if x.kind == "i1":
        return _resized(x, "uitofp" if is_float(kind) else "zext", kind)
    if is_float(kind):
        if x.is_float:
            return _resized(x, "fpext" if kind == "f64" else "fptrunc", kind)
        return _resized(x, "sitofp" if is_signed(x.kind) else "uitofp", kind)
    if x.is_float:
        return _whole(x, kind)
    if width(kind) == width(x.kind):
        return x.bitcast(kind)
    if width(kind) < width(x.kind):
        return _resized(x, "trunc", kind)
    return _resized(x, "sext" if is_signed(x.kind) else "zext", kind)


def _resized(x: V, op: str, kind: str) -> V:
    return x.code.resize(op, x, kind)


def _whole(x: V, kind: str) -> V:
    """A float as an integer: narrow kinds go through a wider one, then lose their upper bits."""
    if kind == "u64":
        return _resized(x, "fptoui", kind)
    wide = "i64" if kind in ("u8", "u16", "u32", "i64") else "i32"
    return convert(_resized(x, "fptosi", wide), kind)
