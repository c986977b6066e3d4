"""LLVM's intrinsic functions in C: a helper each, written where it is used."""

from __future__ import annotations

from adjoint.export.c_source.body import Body
from adjoint.export.c_source.types import BITS, Type
from adjoint.export.errors import ExportError

# One lane of a function of floats, by the suffix of C's functions.
_FLOATS = {
    "fma": "__builtin_fma{s}(a, b, c)",
    "fmuladd": "a * b + c",
    "fabs": "__builtin_fabs{s}(a)",
    "sqrt": "__builtin_sqrt{s}(a)",
    "floor": "__builtin_floor{s}(a)",
    "ceil": "__builtin_ceil{s}(a)",
    "trunc": "__builtin_trunc{s}(a)",
    "rint": "__builtin_rint{s}(a)",
    "nearbyint": "__builtin_nearbyint{s}(a)",
    "roundeven": "__builtin_rint{s}(a)",
    "copysign": "__builtin_copysign{s}(a, b)",
    "minnum": "__builtin_fmin{s}(a, b)",
    "maxnum": "__builtin_fmax{s}(a, b)",
    # A NaN is kept, and 0 is more than -0.
    "minimum": "a != a ? a : b != b ? b : a == b ? (__builtin_signbit(a) ? a : b) : a < b ? a : b",
    "maximum": "a != a ? a : b != b ? b : a == b ? (__builtin_signbit(a) ? b : a) : a > b ? a : b",
}
_INTEGERS = {
    "umin": "a < b ? a : b",
    "umax": "a > b ? a : b",
    "smin": "({s})a < ({s})b ? a : b",
    "smax": "({s})a > ({s})b ? a : b",
    "abs": "({s})a < 0 ? 0 - a : a",
    "ctpop": "(T)__builtin_popcountll(a)",
    "ctlz": "a ? (T)(__builtin_clzll(a) - (64 - {bits})) : (T){bits}",
    "cttz": "a ? (T)__builtin_ctzll(a) : (T){bits}",
}
_REDUCTIONS = {
    "or": "r | x", "and": "r & x", "xor": "r ^ x", "add": "r + x", "mul": "r * x",
    "umax": "r > x ? r : x", "umin": "r < x ? r : x",
    "smax": "({s})r > ({s})x ? r : x", "smin": "({s})r < ({s})x ? r : x",
    "fmax": "__builtin_fmax{f}(r, x)", "fmin": "__builtin_fmin{f}(r, x)",
}  # fmt: skip
# Dots: what the elements are that are multiplied, four bytes or two words to a sum.
_DOTS = {
    "aarch64.neon.sdot": ("int8_t", "int8_t"),
    "x86.avx512.vpdpbusd": ("uint8_t", "int8_t"),
    "x86.avx512.pmaddw": ("int16_t", "int16_t"),
    "x86.avx2.pmadd": ("int16_t", "int16_t"),
    "x86.sse2.pmadd": ("int16_t", "int16_t"),
}
_NEON_DOT = """#if defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
static inline {of} {helper}({of} r, {by} a, {by} b) {{
  return ({of})vdotq_s32((int32x4_t)r, (int8x16_t)a, (int8x16_t)b); }}
#else
{plain}
#endif"""


def call_intrinsic(body: Body, name: str, of: Type, types: list[Type], values: list[str]) -> str:
    """The expression of a call."""
    parts = name.split(".")
    if parts[0] == "prefetch":
        return f"__builtin_prefetch((const void *){values[0]})"
    if parts[0] in ("memcpy", "memmove"):
        return f"__builtin_{parts[0]}((void *){values[0]}, (const void *){values[1]}, {values[2]})"
    if parts[0] == "memset":
        return f"__builtin_memset((void *){values[0]}, {values[1]}, {values[2]})"
    if parts[0] in ("lifetime", "assume"):
        return ""
    if parts[0] == "vector":
        return _reduced(body, parts[2], of, types, values)
    if parts[0] in ("fptosi", "fptoui") and parts[1] == "sat":
        return _saturated(body, parts[0] == "fptosi", of, types[0], values[0])
    if parts[0] in _FLOATS:
        return _lanes(body, parts[0], of, _FLOATS[parts[0]], values, _suffix(of.scalar))
    if parts[0] in _INTEGERS:
        values = values[: 1 if parts[0] in ("abs", "ctpop", "ctlz", "cttz") else 2]
        return _lanes(body, parts[0], of, _INTEGERS[parts[0]], values, "")
    for stem, elements in _DOTS.items():
        if name.startswith(f"{stem}."):
            return _dot(body, stem, elements, types, values)
    raise ExportError(
        f"export: LLVM's function {name} has no form in C. Export it with machine='portable'."
    )


def _suffix(scalar: str) -> str:
    return "f" if scalar == "float" else ""


def _lanes(body: Body, stem: str, of: Type, one: str, values: list[str], suffix: str) -> str:
    """A function of every lane."""
    scalar = Type(of.scalar)
    bits = BITS[of.scalar]
    item = one.format(s=suffix if of.is_float else f"int{bits}_t", bits=bits)
    item = item.replace("(T)", f"({scalar.name})")
    letters = "abc"[: len(values)]
    helper = f"{stem}_{scalar.name}"
    given = ", ".join(f"{scalar.name} {x}" for x in letters)
    body.helpers[helper] = f"static inline {scalar.name} {helper}({given}) {{ return {item}; }}"
    if not of.is_vector:
        return f"{helper}({', '.join(values)})"
    wide = f"{stem}_{of.name}"
    given = ", ".join(f"{of.name} {x}" for x in letters)
    lanes = ", ".join(f"{x}[k]" for x in letters)
    body.helpers[wide] = (
        f"static inline {of.name} {wide}({given}) {{ {of.name} r; "
        f"for (int k = 0; k < {of.count}; k++) r[k] = {helper}({lanes}); return r; }}"
    )
    return f"{wide}({', '.join(values)})"


def _reduced(body: Body, kind: str, of: Type, types: list[Type], values: list[str]) -> str:
    """All lanes as one; sums of floats in their order, as LLVM's are."""
    vector = types[-1]
    scalar = Type(vector.scalar)
    helper = f"reduce_{kind}_{vector.name}"
    start, first, given = "x[0]", 1, f"{vector.name} v"
    if kind in ("fadd", "fmul"):
        step, start, first = ("r + x" if kind == "fadd" else "r * x"), "start", 0
        given = f"{scalar.name} start, {vector.name} v"
    elif kind in _REDUCTIONS:
        bits = BITS[vector.scalar]
        step = _REDUCTIONS[kind].format(s=f"int{bits}_t", f=_suffix(vector.scalar))
    else:
        raise ExportError(f"export: LLVM's reduction {kind} has no form in C.")
    last = "(uint8_t)(r & 1)" if vector.scalar == "i1" else "r"
    body.helpers[helper] = (
        f"static inline {of.name} {helper}({given}) {{ {scalar.name} r = "
        f"{start.replace('x[0]', 'v[0]')}; for (int k = {first}; k < {vector.count}; k++) "
        f"{{ {scalar.name} x = v[k]; r = ({scalar.name})({step}); }} return {last}; }}"
    )
    return f"{helper}({', '.join(values)})"


def _dot(
    body: Body, stem: str, elements: tuple[str, str], types: list[Type], values: list[str]
) -> str:
    """Sums of products of neighbouring bytes or words (Note [dots]); they wrap around."""
    count = 2 if elements[1] == "int16_t" else 4
    # Some forms of LLVM's functions have bytes by fours in integers.
    one = f"[k] >> {32 // count} * j" if types[-1].scalar == "i32" else f"[{count} * k + j]"
    product = f"(int32_t)({elements[0]})(a{one}) * ({elements[1]})(b{one})"
    of = Type("vector", types[-1].nbytes // 4, (Type("i32"),))
    body.note(of)
    helper = f"{stem.replace('.', '_')}_{of.count}"
    by = types[-1].name
    added = len(values) == 3  # to sums that are given
    given = f"{of.name} r, {by} a, {by} b" if added else f"{by} a, {by} b"
    plain = (
        f"static inline {of.name} {helper}({given}) {{ {'' if added else f'{of.name} r = {{0}}; '}"
        f"for (int k = 0; k < {of.count}; k++) for (int j = 0; j < {count}; j++) "
        f"r[k] += (uint32_t)({product}); return r; }}"
    )
    if stem == "aarch64.neon.sdot":
        plain = _NEON_DOT.format(of=of.name, by=by, helper=helper, plain=plain)
    body.helpers[helper] = plain
    return f"{helper}({', '.join(values)})"


def _saturated(body: Body, signed: bool, of: Type, source: Type, value: str) -> str:
    """Floats to integers, those out of range to the nearest, NaN to 0."""
    bits, scalar, float_ = BITS[of.scalar], Type(of.scalar), Type(source.scalar)
    low = f"-0x1p{bits - 1}" if signed else "0.0"
    high = f"0x1p{bits - 1 if signed else bits}"
    kind = f"int{bits}_t" if signed else scalar.name
    least = f"({scalar.name})1 << {bits - 1}" if signed else "0"
    most = f"~({least})" if signed else f"({scalar.name})~({scalar.name})0"
    helper = f"sat{'s' if signed else 'u'}_{scalar.name}_{float_.name}"
    body.helpers[helper] = (
        f"static inline {scalar.name} {helper}({float_.name} a) {{ return a != a ? 0 : a < {low} ? "
        f"({scalar.name})({least}) : a >= {high} ? ({scalar.name})({most}) : "
        f"({scalar.name})({kind})a; }}"
    )
    if not of.is_vector:
        return f"{helper}({value})"
    wide = f"{helper}_{of.count}"
    body.helpers[wide] = (
        f"static inline {of.name} {wide}({source.name} a) {{ {of.name} r; "
        f"for (int k = 0; k < {of.count}; k++) r[k] = {helper}(a[k]); return r; }}"
    )
    return f"{wide}({value})"
