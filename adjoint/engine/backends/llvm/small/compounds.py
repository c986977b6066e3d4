"""Elementwise operations of several steps, and conditions, as rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.engine.backends.array.kernels.special.gamma import TINY
from adjoint.engine.backends.llvm.small.operations import (
    select,
    ufunc_of,
)
from adjoint.engine.backends.llvm.small.rows import (
    Array,
    NoRow,
    RowWriter,
    Spot,
    spread,
    writes,
)
from adjoint.engine.ops.common.checks import REQUIRE
from adjoint.engine.ops.elementwise import (
    arithmetic,
    comparison,
    complex_parts,
    division,
    exponential,
    rounding,
    sign,
)
from adjoint.engine.ops.random.tensor_parameters import BERNOULLI
from adjoint.engine.ops.special import gamma_family

# -- elementwise --------------------------------------------------------------------------------


def need_floats(*places: Any) -> None:
    """Only tensors of one dtype that NumPy computes in as it is."""
    if not all(isinstance(p, Spot) for p in places):
        raise NoRow
    if len({p.array.dtype for p in places}) > 1 or places[0].array.dtype.char not in "fd":
        raise NoRow


def summed(w: RowWriter, x: Spot, fresh: Spot) -> Spot:
    """As kernels add to a value that they have just made: of two NaN the first one stays."""
    if fresh.array.ndim and fresh.array.shape == x.array.shape:
        return ufunc_of(w, np.add, fresh, x)
    return ufunc_of(w, np.add, x, fresh)


def is_one(factor: Any) -> bool:
    """Whether nothing is multiplied."""
    return not isinstance(factor, Spot) and factor == 1


@writes(arithmetic.ADDCMUL)
def write_addcmul(w: RowWriter, out: Array, x: Spot, y: Spot, z: Spot, factor: Any) -> Spot:
    need_floats(x, y, z)
    first = y if is_one(factor) else ufunc_of(w, np.multiply, factor, y)
    return summed(w, x, ufunc_of(w, np.multiply, first, z))


@writes(arithmetic.ADDCDIV)
def write_addcdiv(w: RowWriter, out: Array, x: Spot, y: Spot, z: Spot, factor: Any) -> Spot:
    need_floats(x, y, z)
    top = y if is_one(factor) else ufunc_of(w, np.multiply, factor, y)
    return summed(w, x, ufunc_of(w, np.divide, top, z))


@writes(exponential.XLOGY)
def write_xlogy(w: RowWriter, out: Array, x: Spot, y: Spot) -> Spot:
    need_floats(x, y)
    is_zero, absent = ufunc_of(w, np.equal, x, 0), ufunc_of(w, np.isnan, y)
    nothing = ufunc_of(w, np.logical_and, is_zero, ufunc_of(w, np.logical_not, absent))
    product = ufunc_of(w, np.multiply, x, ufunc_of(w, np.log, y))
    return select(w, w.scratch(out), nothing, w.constant(0, out.dtype), product)


def whole_division(w: RowWriter, function: np.ufunc, x: Any, y: Any) -> Spot | None:
    """A function of integers and one whole number, which is not zero; None for others."""
    if not isinstance(x, Spot) or x.array.dtype.kind != "i":
        return None
    if isinstance(y, Spot) or not y:
        raise NoRow
    return ufunc_of(w, function, x, y)


def floats(w: RowWriter, *operands: Any) -> list[Spot]:
    """Operands as places of one dtype that NumPy computes in as it is, numbers among them."""
    dtype = next(x.array.dtype for x in operands if isinstance(x, Spot))
    placed = [x if isinstance(x, Spot) else w.constant(x, dtype) for x in operands]
    need_floats(*placed)
    return placed


@writes(division.FMOD)
def write_fmod(w: RowWriter, out: Array, x: Any, y: Any) -> Spot:
    return whole_division(w, np.fmod, x, y) or ufunc_of(w, np.fmod, *floats(w, x, y))


@writes(division.REMAINDER)
def write_remainder(w: RowWriter, out: Array, x: Any, y: Any) -> Spot:
    whole = whole_division(w, np.remainder, x, y)
    if whole is not None:
        return whole
    x, y = floats(w, x, y)
    left = ufunc_of(w, np.fmod, x, y)
    signs = [ufunc_of(w, np.less, v, w.constant(0, out.dtype)) for v in (left, y)]
    differ = ufunc_of(w, np.not_equal, *signs)
    wrong = ufunc_of(w, np.logical_and, ufunc_of(w, np.not_equal, left, 0), differ)
    return select(w, w.scratch(out), wrong, ufunc_of(w, np.add, left, y), left)


@writes(arithmetic.LERP)
def write_lerp(w: RowWriter, out: Array, x: Spot, y: Spot, z: Any) -> Spot:
    need_floats(x, y)
    way = ufunc_of(w, np.subtract, y, x)
    if not isinstance(z, Spot):
        near = abs(z) < 0.5
        part = ufunc_of(w, np.multiply, way, z if near else z - 1)
        return summed(w, x if near else y, part)
    need_floats(x, z)
    near_by = ufunc_of(w, np.less, ufunc_of(w, np.absolute, z), w.constant(0.5, out.dtype))
    here = ufunc_of(w, np.add, x, ufunc_of(w, np.multiply, z, way))
    rest = ufunc_of(w, np.subtract, w.constant(1, out.dtype), z)
    there = ufunc_of(w, np.subtract, y, ufunc_of(w, np.multiply, way, rest))
    return select(w, w.scratch(out), near_by, here, there)


@writes(rounding.FRAC)
def write_frac(w: RowWriter, out: Array, x: Spot) -> Spot:
    need_floats(x)
    return ufunc_of(w, np.subtract, x, ufunc_of(w, np.trunc, x))


@writes(comparison.SIGNBIT)
def write_signbit(w: RowWriter, out: Array, x: Spot) -> Spot:
    need_floats(x)
    return ufunc_of(w, np.signbit, x)


@writes(sign.HEAVISIDE)
def write_heaviside(w: RowWriter, out: Array, x: Any, y: Any) -> Spot:
    x, y = floats(w, x, y)
    above = ufunc_of(w, np.greater, x, w.constant(0, out.dtype))
    steps = w.copy(above, w.scratch(above.array, out.dtype))
    return select(w, w.scratch(out), ufunc_of(w, np.equal, x, 0), y, steps)


@writes(complex_parts.ANGLE)
def write_angle(w: RowWriter, out: Array, x: Spot) -> Spot:
    need_floats(x)
    half, nothing = w.constant(math.pi, out.dtype), w.constant(0, out.dtype)
    turned = select(w, w.scratch(out), ufunc_of(w, np.less, x, nothing), half, nothing)
    return select(w, w.scratch(out), ufunc_of(w, np.isnan, x), x, turned)


@writes(complex_parts.COMPLEX)
def write_complex(w: RowWriter, out: Array, x: Any, y: Any) -> Spot:
    x, y = floats(w, x, y)
    place = w.scratch(out)
    for part, given in ((out.real, x), (out.imag, y)):
        if given.array.shape != part.shape or given.array.dtype != part.dtype:
            raise NoRow
    w.copy(x, place.seen(place.array.real))
    w.copy(y, place.seen(place.array.imag))
    return place


# -- special functions --------------------------------------------------------------------------


@writes(gamma_family.LGAMMA)
def write_lgamma(w: RowWriter, out: Array, x: Spot) -> Spot:
    from scipy.special import gammaln

    need_floats(x)
    bottom = ufunc_of(w, np.equal, x, w.constant(-math.inf, out.dtype))
    upward = select(w, w.scratch(out), bottom, ufunc_of(w, np.negative, x), x)
    value = ufunc_of(w, gammaln, upward)
    if out.dtype.char == "f":
        return value
    near = ufunc_of(w, np.less, ufunc_of(w, np.absolute, x), w.constant(TINY, out.dtype))
    tiny = ufunc_of(w, np.logical_and, ufunc_of(w, np.not_equal, x, 0), near)
    size = ufunc_of(w, np.absolute, select(w, w.scratch(out), tiny, x, w.constant(1, out.dtype)))
    inverse = ufunc_of(w, np.negative, ufunc_of(w, np.log, size))
    return select(w, w.scratch(out), tiny, inverse, value)


@writes(gamma_family.POLYGAMMA)
def write_polygamma(w: RowWriter, out: Array, x: Spot, n: int) -> Spot:
    from scipy.special import psi

    need_floats(x)
    if n:
        raise NoRow
    pole = w.constant(np.full(out.shape, math.inf), out.dtype)
    at_zero = ufunc_of(w, np.copysign, pole, ufunc_of(w, np.negative, x))
    return select(w, w.scratch(out), ufunc_of(w, np.equal, x, 0), at_zero, ufunc_of(w, psi, x))


# -- conditions ---------------------------------------------------------------------------------


def need(w: RowWriter, condition: Spot) -> None:
    """A row that fails where the condition does not hold."""
    if condition.array.dtype != np.bool_:
        raise NoRow
    shape = condition.array.shape
    w.call(w.loop("need"), [condition], shape, [spread(condition.array, shape)])


@writes(REQUIRE)
def write_require(
    w: RowWriter, out: Array, x: Spot, condition: Spot, message: str, error: str = "RuntimeError"
) -> Spot:
    need(w, condition)
    return w.copy(x, w.scratch(out))


@writes(BERNOULLI)
def write_bernoulli(w: RowWriter, out: Array, fractions: Spot, p: Spot) -> Spot:
    need_floats(p)
    at_least, at_most = ufunc_of(w, np.greater_equal, p, 0), ufunc_of(w, np.less_equal, p, 1)
    need(w, ufunc_of(w, np.logical_and, at_least, at_most))
    chances = w.copy(p, w.scratch(np.empty(p.array.shape, np.float64)))
    return ufunc_of(w, np.less, fractions, chances)
