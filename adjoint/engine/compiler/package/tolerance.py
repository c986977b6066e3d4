"""How far a kernel may be from the reference: the one place that says so.

Note [tolerance]
    Compiled code and the reference round differently: sums go in another order, functions differ in
    their last bits. How much that matters depends on what follows: a difference of two close
    numbers magnifies it, a comparison may turn it into another result. So the reference is run
    several times more, with every result off by about as much as it may be rounded wrongly
    (`Noise`), up and down at random. An element may differ from the reference as far as those
    runs do there, or at the median of all elements, times `MARGIN`. What no noise reaches (copies,
    whole numbers, comparisons of what was given) must be equal.

    The size of the noise, in units of the dtype's last place, is that of an operation's value for
    arithmetic and functions. For what adds up n terms it is that of the sum of their absolute
    values, and grows as the square root of n, as rounding errors that are as often up as down do.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt
from typing import Any

import numpy as np

from adjoint.engine.core.numeric_limits import finfo
from adjoint.engine.core.operations.record import Record
from adjoint.engine.ops.elementwise.records import ABS
from adjoint.engine.tensor.tensor import DTYPE_OF

RUNS = 4  # pairs of runs, up and down
MARGIN = 16
FUNCTION = 4  # last places: a function of the backend or of the library may be off by so many


def unit(dtype: np.dtype[Any]) -> float:
    """The distance from 1 to the next number: for float16, 2 ** -10."""
    return finfo(DTYPE_OF[dtype]).eps


def exact(record: Record, params: dict[str, Any]) -> bool:
    """Whether results are the same bits however they are computed.

    They are taken, compared, rounded to a grid; or put somewhere, unless added to what is there.
    """
    return record.rounding == "exact" and not params.get("accumulate")


def terms(record: Record, floats: list[Any], params: dict[str, Any], size: int) -> float:
    """About how many terms each of `size` elements is made of."""
    if record.running:
        return float(floats[0].shape[params["dim"]])
    sizes = prod(max(prod(x.shape), 1) for x in floats) / max(size, 1)
    return max(sqrt(sizes) if len(floats) > 1 else sizes, 1.0)


def is_float(x: Any) -> bool:
    """Whether something is a tensor of floats."""
    return hasattr(x, "_array") and x.dtype.is_floating_point


@dataclass(eq=False, slots=True)
class Noise:
    """Rounding errors for one run of the reference; `sign` -1 gives the opposite of +1."""

    rng: np.random.Generator
    sign: int

    def operands(self, record: Record, operands: list[Any], params: dict[str, Any]) -> list[Any]:
        """A function's operands, a last place off; others as they are."""
        if (
            record.family != "elementwise"
            or record.rounding == "arithmetic"
            or exact(record, params)
        ):  # fmt: skip
            return operands
        return [self.moved(x, abs(wide(x))) if is_float(x) else x for x in operands]

    def result(
        self, record: Record, operands: list[Any], params: dict[str, Any], out: Any, off: Any = None
    ) -> Any:
        """A result off by as much as it may be rounded wrongly.

        `off`: how far the operands are from each other by noise, of what compares them.
        """
        if off is not None:
            return self.nearly(record, operands, out, off)
        if not is_float(out) or exact(record, params):
            return out
        return self.moved(out, self.size(record, operands, params, out))

    def size(self, record: Record, operands: list[Any], params: dict[str, Any], out: Any) -> Any:
        """How wrong a result may be, in last places times a magnitude."""
        value = abs(wide(out))
        if record.rounding == "arithmetic":
            return value
        floats = [x for x in operands if is_float(x)]
        if record.rounding == "sum" or params.get("accumulate"):
            total = record(*[ABS(x) if is_float(x) else x for x in operands], **params)
            return abs(wide(total)) * (1 + sqrt(terms(record, floats, params, value.size)) / 4)
        if record.rounding == "product":
            return value * terms(record, floats, params, value.size)
        return FUNCTION * (value + 1 if record.name == "random" else value)

    @staticmethod
    def nearly(record: Record, operands: list[Any], out: Any, off: Any) -> Any:
        """A test for equality that takes close numbers for equal, which noise hardly makes them."""
        x, y = (wide(v) if hasattr(v, "_array") else v for v in operands)
        noisy = out.clone()
        close = np.abs(np.subtract(x, y, dtype=np.float64)) <= MARGIN * off
        noisy._array[np.broadcast_to(close, noisy._array.shape)] = record.name == "eq"
        return noisy

    def moved(self, x: Any, size: Any) -> Any:
        """A tensor with errors of a size added."""
        array = x._array
        share = self.rng.uniform(0.5, 1, array.shape) * self.rng.choice((-1, 1), array.shape)
        off = wide(x) + self.sign * unit(array.dtype) * share * np.where(np.isfinite(size), size, 0)
        noisy = x.clone()
        noisy._array[...] = off.astype(array.dtype)
        return noisy


def noises() -> list[Noise]:
    """The noise of all runs."""
    return [Noise(np.random.default_rng(k), sign) for k in range(RUNS) for sign in (1, -1)]


def spread_of(want: Any, others: list[Any]) -> Any:
    """How far noise takes each element; nothing where that is not a number."""
    off = np.max([np.abs(np.subtract(wide(other), wide(want))) for other in others], axis=0)
    return np.where(np.isnan(off), 0, off)


def wide(x: Any) -> Any:
    """A tensor's or array's elements in float64 (or whole numbers, as they are)."""
    array = getattr(x, "_array", x)
    return array.astype(np.float64) if array.dtype.kind not in "biu" else array


def differing(actual: Any, want: Any, others: list[Any]) -> Any:
    """Which elements are further off than rounding explains, given what the noisy runs made."""
    if actual.dtype.kind in "biu":
        stable = np.all([other == want for other in others], axis=0)
        return (actual != want) & stable
    eps = unit(actual.dtype)
    tiny = finfo(DTYPE_OF[actual.dtype]).tiny
    actual, want, others = wide(actual), wide(want), [wide(other) for other in others]
    same = (actual == want) | (np.isnan(actual) & np.isnan(want))
    spread = spread_of(want, others)
    finite = np.isfinite(want)
    usual = spread[np.isfinite(spread) & (spread > 0)]
    if usual.size:  # noise that reaches an element several ways may cancel there
        spread = np.maximum(spread, np.median(usual)) + (eps * np.abs(want) / MARGIN + tiny)
    near = np.abs(actual - want) <= MARGIN * spread
    unsure = np.any([np.isfinite(other) != finite for other in others], axis=0) | np.any(
        [(other != want) & ~np.isnan(want) & ~finite for other in others], axis=0
    )
    return ~(same | near | unsure)
