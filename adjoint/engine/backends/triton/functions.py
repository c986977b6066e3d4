"""Elementwise operations in Triton: the lowerings of native code, and NVIDIA's functions.

Most rows are those of `backends.registers.elementwise`, written by another writer (Note [writers]).
Functions that NVIDIA's library has are taken from there; what native code computes lane by lane
has its own row here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from adjoint.engine.backends.registers import distributions, philox
from adjoint.engine.backends.registers.elementwise import LOWER, Lowering, supports
from adjoint.engine.backends.registers.operations import KIND, SPECIAL
from adjoint.engine.backends.registers.vector import V
from adjoint.engine.backends.triton.code import TritonCode
from adjoint.engine.backends.triton.loose import LOOSE
from adjoint.engine.compiler.loops.ir import Op
from adjoint.engine.core.dtype import DType, named
from adjoint.engine.ops.random.random import word_bits

OWN: dict[str, Lowering] = {}


def own_row(*names: str) -> Callable[[Lowering], Lowering]:
    """Put a function into the rows that this target has beside those of `backends.registers`."""

    def put(fn: Lowering) -> Lowering:
        OWN.update(dict.fromkeys(names, fn))
        return fn

    return put


def code_of(x: V) -> TritonCode:
    """The kernel a value is in."""
    assert isinstance(x.code, TritonCode)
    return x.code


def _library(name: str, *operands: V) -> V:
    return code_of(operands[0]).device(name, *operands)


FROM_LIBRARY = (
    "exp", "exp2", "expm1", "tanh", "sinh", "cosh", "log", "log2", "log10", "log1p",
    "asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh",
    "erf", "erfc", "erfcx", "erfinv", "lgamma", "hypot", "nextafter",
)  # fmt: skip
for _name in FROM_LIBRARY:
    own_row(_name)(partial(_library, _name))
# Those that native code borrows from SciPy, one number at a time.
BORROWED = {
    "i0": "cyl_bessel_i0", "i1": "cyl_bessel_i1",
    "bessel_j0": "j0", "bessel_j1": "j1", "bessel_y0": "y0", "bessel_y1": "y1",
}  # fmt: skip
for _name, _function in BORROWED.items():
    own_row(_name)(partial(_library, _function))
own_row("ndtr")(partial(_library, "normcdf"))
own_row("ndtri")(partial(_library, "normcdfinv"))


@own_row("sigmoid")
def sigmoid(x: V) -> V:
    """1 / (1 + exp(-x))."""
    return 1.0 / (_library("exp", -x) + 1.0)


@own_row("pow")
def power(x: V, y: V) -> V:
    """x to the power y; powers that native code multiplies out are multiplied out here too."""
    plain = not x.is_float or y.number in (1, 2, 3, 0.5, -0.5, -1, -2)
    return LOWER["pow"](x, y) if plain else _library("pow", x, y)


UNKNOWN = {"gcd", "lcm"}  # lane by lane in native code
TABLE: Mapping[str, Lowering] = {**LOWER, **OWN}


def computes(name: str, dtype: DType, params: Mapping[str, Any]) -> bool:
    """Whether there is a row for operands of a dtype."""
    if name in BORROWED:
        return dtype.is_floating_point
    return name not in UNKNOWN and supports(name, dtype, params)


def lower(code: TritonCode, op: Op, operands: list[Any], loose: bool = False) -> V:
    """The result of an operation on values (and numbers); `loose`: within 2^-18 of it."""
    compute, result = KIND[op.compute][0], KIND[op.dtype][0]
    if op.name == "cast":
        x = operands[0]
        return x.convert(result) if isinstance(x, V) else code.const(x, result)
    special = SPECIAL.get(op.name)
    if special is not None:
        return special(code, op, operands, 1, compute, result)
    skip = 1 if op.name == "where" else 0
    values = [as_value(code, x, "i1" if i < skip else compute) for i, x in enumerate(operands)]
    if loose and compute == "f32" and op.name in LOOSE:
        return code.named(LOOSE[op.name].format(values[0].ref), "f32").convert(result)
    return TABLE[op.name](*values, **dict(op.params)).convert(result)


def as_value(code: TritonCode, x: Any, kind: str) -> V:
    """An operand in a kind."""
    return x.convert(kind) if isinstance(x, V) else code.const(x, kind)


def sample(code: TritonCode, op: Op, operands: list[Any]) -> V:
    """Samples at places of a stream."""
    seed, offset, index = (as_value(code, x, "i64").bitcast("u64") for x in operands)
    law, args = op.params
    dtype = named(op.dtype)
    words = philox.words_at(word_bits(law, dtype), seed, offset, index)
    return distributions.sample(words, law, args, dtype)
