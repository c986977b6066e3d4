"""What an operation of the loop IR is in registers: elementwise ones, and reductions' steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.registers import distributions, philox
from adjoint.engine.backends.registers.elementwise import (
    LOWER,
    cast,
    kind_of,
    stored_kind,
    supports,
)
from adjoint.engine.backends.registers.vector import (
    Code,
    V,
    int_max,
    int_min,
    nan_max,
    nan_min,
    select,
)
from adjoint.engine.compiler.loops.ir import Op
from adjoint.engine.core.dtype import DTYPES, DType, named
from adjoint.engine.core.operations.record import Record
from adjoint.engine.ops.random.random import word_bits
from adjoint.engine.ops.reduce.extremes import AMAX, AMIN
from adjoint.engine.ops.reduce.product import PROD
from adjoint.engine.ops.reduce.reduction import ALL, ANY, SUM

# dtype -> kind in registers, kind in memory
KIND = {d.name: (kind_of(d), stored_kind(d)) for d in DTYPES if not d.is_complex}


def lower(code: Code, op: Op, operands: list[Any], lanes: int) -> V:
    """The result of an operation on values (and numbers) in registers."""
    compute, result = KIND[op.compute][0], KIND[op.dtype][0]
    special = SPECIAL.get(op.name)
    if special is not None:
        return special(code, op, operands, lanes, compute, result)
    skip = 1 if op.name == "where" else 0
    values = [_as(code, x, "i1" if i < skip else compute, lanes) for i, x in enumerate(operands)]
    return LOWER[op.name](*values, **dict(op.params)).convert(result)


def _as(code: Code, x: Any, kind: str, lanes: int) -> V:
    return code.splat(x.convert(kind), lanes) if isinstance(x, V) else code.const(x, kind, lanes)


def random_sample(code: Code, op: Op, operands: list[Any], lanes: int, first: V | None) -> V:
    """Samples at places of a stream; `first` is the place of lane 0 where a block begins there."""
    seed, offset, index = (x if isinstance(x, V) else code.const(x, "u64", 1) for x in operands)
    law, args = op.params
    dtype = named(op.dtype)
    seed, offset = (one_lane(x).bitcast("u64") for x in (seed, offset))
    bits = word_bits(law, dtype)
    if first is not None:
        words = philox.random_words(bits, seed, offset, first.bitcast("u64"), lanes)
    else:
        words = philox.words_at(bits, seed, offset, index.bitcast("u64"))
    return distributions.sample(words, law, args, dtype)


def one_lane(x: V) -> V:
    """The first lane of a value."""
    if x.lanes == 1:
        return x
    return V(x.code, x.code.let(f"extractelement {x.type} {x.ref}, i64 0"), x.kind, 1)


def _cast(code: Code, op: Op, xs: list[Any], lanes: int, compute: str, result: str) -> V:
    if isinstance(xs[0], V):
        return code.splat(cast(xs[0], named(op.compute), named(op.dtype)), lanes)
    return code.const(xs[0], result, lanes)


def _fill(code: Code, op: Op, xs: list[Any], lanes: int, compute: str, result: str) -> V:
    return _as(code, xs[0], result, lanes)


def _triangle(code: Code, op: Op, xs: list[Any], lanes: int, compute: str, result: str) -> V:
    x, row, column = xs
    diagonal = dict(op.params)["diagonal"]
    ahead = column - row
    keep = ahead >= diagonal if op.name == "triu" else ahead <= diagonal
    value = _as(code, x, result, lanes)
    return select(keep, value, code.const(0, result, lanes))


def _arange(code: Code, op: Op, xs: list[Any], lanes: int, compute: str, result: str) -> V:
    params = dict(op.params)
    start, step = params["start"], params["step"]
    kind = "i64" if isinstance(start, int) and isinstance(step, int) else "f64"
    if kind == "i64" and xs[0].kind == "i32":  # compiler.loops.narrowing: they fit
        kind = "i32"
    return (xs[0].convert(kind) * step + start).convert(result)


SPECIAL = {
    "cast": _cast, "fill": _fill, "triu": _triangle, "tril": _triangle, "arange": _arange,
}  # fmt: skip

# -- reductions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReductionStep:
    """One step of a reduction, and what it starts from in a kind of register."""

    combine: Callable[[V, V], V]
    identity: Callable[[str], float | int | bool]
    categories: str = "bif"  # of dtype: b(ool), i(nt), f(loat)


REDUCERS: dict[str, ReductionStep] = {}


def reduces(
    record: Record, identity: Callable[[str], float | int | bool], categories: str = "bif"
) -> Callable[[Callable[[V, V], V]], Callable[[V, V], V]]:
    """Put the step of a reduction into the table: its row, as `lowers` is an operation's."""

    def put(step: Callable[[V, V], V]) -> Callable[[V, V], V]:
        REDUCERS[record.name] = ReductionStep(step, identity, categories)
        return step

    return put


def reduces_in(name: str, compute: DType) -> bool:
    """Whether there is a row for operands of a dtype."""
    row = REDUCERS.get(name)
    return row is not None and "bif"[compute.category] in row.categories


def lowest(kind: str) -> float | int | bool:
    """What is below everything of a kind, or equal to it."""
    if kind[0] == "f":
        return float("-inf")
    return False if kind == "i1" else 0 if kind[0] == "u" else -(2 ** (int(kind[1:]) - 1))


def highest(kind: str) -> float | int | bool:
    """What is above everything of a kind, or equal to it."""
    if kind[0] == "f":
        return float("inf")
    return True if kind == "i1" else 2 ** (int(kind[1:]) - (kind[0] != "u")) - 1


reduces(SUM, lambda kind: 0)(lambda a, b: a + b if a.kind != "i1" else a | b)
reduces(PROD, lambda kind: 1)(lambda a, b: a * b)
reduces(ANY, lambda kind: 0)(lambda a, b: a | b)
reduces(ALL, lambda kind: 1)(lambda a, b: a & b)


@reduces(AMAX, lowest)
def _larger(a: V, b: V) -> V:
    if a.is_float:
        return _extreme(a, b, b > a) if not a.code.features.nan_bounds else nan_max(a, b)
    return a | b if a.kind == "i1" else int_max(a, b)


@reduces(AMIN, highest)
def _smaller(a: V, b: V) -> V:
    if a.is_float:
        return _extreme(a, b, b < a) if not a.code.features.nan_bounds else nan_min(a, b)
    return a & b if a.kind == "i1" else int_min(a, b)


def _extreme(a: V, b: V, beyond: V) -> V:
    """b where it lies beyond a or is NaN, else a: which of two zeros is no matter here.

    The inner choice is one instruction on x86, in this order of operands. What keeps the order of
    zeros too is a chain of five, which each element has to wait for.
    """
    return select(b.isnan(), b, select(beyond, b, a))


def combine(name: str, a: V, b: V) -> V:
    """One step of a reduction."""
    return REDUCERS[name].combine(a, b)


def identity(code: Code, name: str, kind: str, lanes: int) -> V:
    """What a reduction starts from."""
    return code.const(REDUCERS[name].identity(kind), kind, lanes)


__all__ = ["KIND", "combine", "identity", "lower", "reduces_in", "supports"]
