"""Elementwise operations of several steps, and conditions, as rows."""

from __future__ import annotations

from typing import Any

import numpy as np

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
from adjoint.engine.core.operations.record import Record
from adjoint.engine.ops.common.checks import REQUIRE
from adjoint.engine.ops.elementwise import arithmetic, division, exponential
from adjoint.engine.ops.random.tensor_parameters import BERNOULLI

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
    product = ufunc_of(w, np.multiply, y, z)
    return summed(w, x, product if is_one(factor) else ufunc_of(w, np.multiply, product, factor))


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


def writes_whole_division(record: Record, function: np.ufunc) -> None:
    """A function of integers and one whole number, which is not zero."""

    @writes(record)
    def write_whole_division(w: RowWriter, out: Array, x: Any, y: Any) -> Spot:
        if not isinstance(x, Spot) or isinstance(y, Spot) or not y or x.array.dtype.kind != "i":
            raise NoRow
        return ufunc_of(w, function, x, y)


writes_whole_division(division.REMAINDER, np.remainder)
writes_whole_division(division.FMOD, np.fmod)


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
