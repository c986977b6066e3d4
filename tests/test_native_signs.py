"""Exponentials of what is known to be at most 0, and of what looks like it and is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import compile
from adjoint.engine.backends.llvm.loops import kernels

# The tails of both dtypes, where powers of two are subnormal, and what is no number.
PLACES = [0.0, -0.0, -1e-8, 1.0, 2.5, -3.0, 9.0, 12.9, 13.3, 14.4, 14.9, 26.5, 37.6, 38.7, 40.0]
TAILS = [*PLACES, -87.4, -88.0, -103.2, -104.5, -708.6, -745.0, -746.5, float("-inf")]


def largest(x: Any) -> Any:
    return x.amax(-1, keepdim=True) if isinstance(x, ad.Tensor) else x.max(-1, keepdims=True)


def least(x: Any) -> Any:
    return x.amin(-1, keepdim=True) if isinstance(x, ad.Tensor) else x.min(-1, keepdims=True)


def less_scaled(x: Any, top: Any) -> Any:
    """x - alpha top, for an alpha below 0."""
    return ad.sub(x, top, alpha=-0.5) if isinstance(x, ad.Tensor) else x + 0.5 * top


# name -> (the exponent, whether it is known not to be positive)
CASES: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
    "less than the largest": (lambda x, y: x - largest(x), True),
    "a square times a number below 0": (lambda x, y: (y * y) * -0.5, True),
    "a number below 0 times a square": (lambda x, y: -1.0 * (y * y), True),
    "more than the least": (lambda x, y: y - least(y), False),
    "another's largest": (lambda x, y: x - largest(y), False),
    "the largest less x": (lambda x, y: largest(y) - y, False),
    "a square": (lambda x, y: 0.5 * (y * y), False),
    "a product": (lambda x, y: -0.01 * (x * y), False),
    "the largest times a number": (lambda x, y: less_scaled(x, largest(x)), False),
    "any number": (lambda x, y: x, False),
}


def answers(executable: Any, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What is said of the exponents when a program's kernels are written again."""
    found: list[bool] = []

    def noted(ops: Any, argument: Any, real: Any = kernels.never_positive) -> bool:
        found.append(real(ops, argument))
        return found[-1]

    monkeypatch.setattr(kernels, "never_positive", noted)
    executable.sources()
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_exponentials(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exponent, known = CASES[name]
    x = np.array([TAILS, TAILS[::-1], [*TAILS[:-1], float("nan")]], dtype)
    y = np.array([PLACES + PLACES[:-1][: len(TAILS) - len(PLACES)]] * 3, dtype)
    fn = compile(lambda x, y: exponent(x, y).exp(), backend="native")
    got = fn(ad.tensor(x), ad.tensor(y)).numpy()
    with np.errstate(all="ignore"):
        inside = exponent(x, y)
        want = np.exp(inside.astype(np.longdouble)).astype(dtype)
        apart = np.abs(got.astype(np.longdouble) - want) / np.spacing(np.abs(want))
    assert set(answers(fn.latest.executable, monkeypatch)) == {known}
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    finite = np.isfinite(want)
    assert np.max(apart[finite]) <= 2, (inside[finite][np.argmax(apart[finite])],)


def test_squares_of_integers_may_be_negative() -> None:
    x = np.array([46341, -50000, 60000, 65535, 3, 0], np.int32)
    with np.errstate(over="ignore"):
        square = (x * x).astype(np.float64)
    assert (square < 0).any()
    got = compile(lambda x: ((x * x) * -1e-7).exp(), backend="native")(ad.tensor(x))
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(got.numpy(), np.exp(square * -1e-7).astype("float32"), 1e-5)
