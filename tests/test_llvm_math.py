"""The elementary functions in vector code: units in the last place over the whole range.

float32 is swept by bit patterns against NumPy's or SciPy's float64 functions, rounded; float64 is
held against mpmath, in 160 bits, at a few hundred points. `-m slow` sweeps thirty times as densely.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import math
import platform
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.special as special
from hypothesis import given, settings
from hypothesis import strategies as st

from adjoint.engine.backends.llvm.ir.machine import host_features
from adjoint.engine.backends.registers.math import (
    division,
    error,
    exponential,
    gamma,
    inverse,
    logarithm,
    power,
    trigonometric,
)
from adjoint.engine.backends.registers.vector import Features, V
from tests.native_code import native

Fn = Callable[..., Any]


def log_gamma(x: Any) -> Any:
    """SciPy's, which is infinite too early below and NaN at -inf."""
    value = special.gammaln(np.where(x == -np.inf, -x, x))
    return np.where((np.abs(x) < 1e-300) & (x != 0), -np.log(np.abs(x)), value)


def digamma(x: Any) -> Any:
    """SciPy's with signed infinities at 0."""
    return np.where(x == 0, np.copysign(np.inf, -x), special.psi(x))


def trigamma(x: Any) -> Any:
    """SciPy's sum, by reflection where it would be long, and eager's value at poles."""
    value = special.zeta(2.0, np.where(x < 0, 1 - x, x))
    turned = (np.pi / np.sin(np.pi * (x - np.rint(x)))) ** 2 - value
    pole = (np.pi / np.sin(np.pi * x)) ** 2
    return np.where((x <= 0) & (np.floor(x) == x), pole, np.where(x < 0, turned, value))


# name -> (vector code, float64 oracle, name in mpmath or a function of mpmath)
FUNCTIONS: dict[str, tuple[Callable[[V], V], Fn, Any]] = {
    "exp": (exponential.exp, np.exp, "exp"),
    "exp2": (exponential.exp2, np.exp2, lambda mp, x: mp.power(2, x)),
    "expm1": (exponential.expm1, np.expm1, "expm1"),
    "tanh": (exponential.tanh, np.tanh, "tanh"),
    "sigmoid": (exponential.sigmoid, special.expit, lambda mp, x: 1 / (1 + mp.exp(-x))),
    "sinh": (exponential.sinh, np.sinh, "sinh"),
    "cosh": (exponential.cosh, np.cosh, "cosh"),
    "log": (logarithm.log, np.log, "log"),
    "log2": (logarithm.log2, np.log2, lambda mp, x: mp.log(x, 2)),
    "log10": (logarithm.log10, np.log10, "log10"),
    "log1p": (logarithm.log1p, np.log1p, "log1p"),
    "sin": (trigonometric.sin, np.sin, "sin"),
    "cos": (trigonometric.cos, np.cos, "cos"),
    "tan": (trigonometric.tan, np.tan, "tan"),
    "asin": (inverse.asin, np.arcsin, "asin"),
    "acos": (inverse.acos, np.arccos, "acos"),
    "atan": (inverse.atan, np.arctan, "atan"),
    "asinh": (inverse.asinh, np.arcsinh, "asinh"),
    "acosh": (inverse.acosh, np.arccosh, "acosh"),
    "atanh": (inverse.atanh, np.arctanh, "atanh"),
    "erf": (error.erf, special.erf, "erf"),
    "erfc": (error.erfc, special.erfc, "erfc"),
    "erfcx": (error.erfcx, special.erfcx, lambda mp, x: mp.exp(x * x) * mp.erfc(x)),
    "erfinv": (error.erfinv, lambda x: np.where(x == 0, x, special.erfinv(x)), "erfinv"),
    "ndtr": (error.ndtr, special.ndtr, "ncdf"),
    "ndtri": (error.ndtri, special.ndtri, None),
    "log_ndtr": (error.log_ndtr, special.log_ndtr, None),
    "digamma": (gamma.digamma, lambda x: digamma(x), None),
    "trigamma": (gamma.trigamma, lambda x: trigamma(x), lambda mp, x: mp.psi(1, x)),
    "lgamma": (gamma.lgamma, lambda x: log_gamma(x), lambda mp, x: mp.re(mp.loggamma(x))),
}
# Most units in the last place of float64; float32 is held to 2 throughout.
MOST_F64 = {"erfc": 3, "erfinv": 4, "lgamma": 8, "trigamma": 5}
ORDERED = {"float32": (np.int32, 31), "float64": (np.int64, 63)}


def ordered(x: Any) -> Any:
    """Floats as integers that count them in order."""
    kind, _ = ORDERED[str(x.dtype)]
    bits = x.view(kind).astype(np.int64)
    low = np.int64(-(1 << 63)) if x.dtype == np.float64 else np.int64(-(1 << 31))
    return np.where(bits < 0, low - bits, bits)


def ulps(got: Any, want: Any) -> Any:
    """How many floats lie between; infinite where only one is NaN or zeros differ in sign."""
    apart = np.abs((ordered(got) - ordered(want)).astype(np.float64))
    nan = np.isnan(want)
    apart[nan] = 0
    wrong = (np.isnan(got) != nan) | (
        (want == 0) & (got == 0) & (np.signbit(got) != np.signbit(want))
    )
    apart[wrong] = np.inf
    return apart


def check(got: Any, want: Any, most: float, *xs: Any) -> None:
    apart = ulps(got, want)
    at = int(np.argmax(apart))
    shown = [float(x[at]) for x in xs]
    assert apart[at] <= most, f"{apart[at]} ulp at {shown}: {got[at]!r}, not {want[at]!r}"


@cache
def sweep(step: int) -> Any:
    """float32 by bit patterns, with all the edges of exponents."""
    patterns = np.arange(0, 1 << 32, step, dtype=np.uint64).astype(np.uint32)
    edges = (np.arange(512, dtype=np.uint32) << 23).repeat(5)
    edges += np.tile(np.array([-2, -1, 0, 1, 2]).astype(np.uint32), 512)
    return np.concatenate([patterns, edges]).view(np.float32)


def off_poles(name: str, x: Any) -> Any:
    """Without the poles of trigamma, where float32 and float64 give different large numbers."""
    if name != "trigamma":
        return x
    with np.errstate(invalid="ignore"):
        return x[~((x < 0) & (np.floor(x) == x))]


def rounded(oracle: Fn, *xs: Any) -> Any:
    with np.errstate(all="ignore"):
        return oracle(*(x.astype(np.float64) for x in xs)).astype(np.float32)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32(name: str) -> None:
    fn, oracle, _ = FUNCTIONS[name]
    x = off_poles(name, sweep(9973))
    check(native(fn, ("f32",), "f32")(x), rounded(oracle, x), 2, x)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32_densely(name: str) -> None:
    fn, oracle, _ = FUNCTIONS[name]
    kernel = native(fn, ("f32",), "f32")
    for start in range(0, 1 << 32, 1 << 28):
        x = np.arange(start, start + (1 << 28), 331, dtype=np.uint64).astype(np.uint32)
        x = off_poles(name, x.view(np.float32))
        if x.size:  # large negative numbers are all poles
            check(kernel(x), rounded(oracle, x), 2, x)


def points(count: int) -> Any:
    rng = np.random.default_rng(11)
    return np.concatenate([
        rng.standard_normal(count) * 2.0 ** rng.integers(-60, 9, count),
        rng.uniform(-2, 2, count),
        1 + rng.standard_normal(count) * 2.0 ** rng.integers(-40, 0, count),
    ])  # fmt: skip


def exact(oracle: Any, x: float) -> float:
    """A value of mpmath rounded to float64; NaN where it is not real."""
    mp = pytest.importorskip("mpmath")
    fn = (lambda v: oracle(mp, v)) if callable(oracle) else getattr(mp, oracle)
    with mp.workprec(260):
        try:
            value = fn(mp.mpf(x))
            return math.nan if isinstance(value, mp.mpc) else float(value)
        except (ValueError, ZeroDivisionError):
            return math.nan
        except OverflowError:
            return math.inf


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if FUNCTIONS[n][2] is not None])
def test_float64(name: str) -> None:
    fn, _, oracle = FUNCTIONS[name]
    x = points(20 if name == "erfinv" else 150)
    if name in ("asin", "acos", "atanh", "erfinv"):
        x = x[np.abs(x) < 1]
    if name in (
        "lgamma",
        "trigamma",
    ):  # where it vanishes between poles only the absolute error is small
        x = x[x > 0]
    want = np.array([exact(oracle, float(v)) for v in x])
    check(native(fn, ("f64",), "f64", 8)(x), want, MOST_F64.get(name, 2), x)


def test_digamma_in_float64() -> None:
    """Near its zeros only the absolute error is small."""
    x = np.concatenate([np.abs(points(60)), -np.random.default_rng(1).random(60) * 20])
    want = np.array([exact("digamma", float(v)) for v in x])
    got = native(gamma.digamma, ("f64",), "f64", 4)(x)
    np.testing.assert_allclose(got, want, rtol=1e-15, atol=2e-15)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64_specials(name: str) -> None:
    """Infinities, NaN, zeros, the ends of the domain and of the range, as NumPy has them."""
    fn, oracle, _ = FUNCTIONS[name]
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1.5, -1.5, 5e-324, -5e-324, 2e-308,
                  1e-300, -1e-300, 1.79e308, -1.79e308, 1e300, 750, -750, 709.7, -745.2, 40, -40])  # fmt: skip
    with np.errstate(all="ignore"):
        want = oracle(x)
    most = 16 if name == "digamma" else 4  # 1.5 is close to its zero
    check(native(fn, ("f64",), "f64", 8)(x), want, most, x)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_huge_angles(name: str) -> None:
    fn, _, oracle = FUNCTIONS[name]
    rng = np.random.default_rng(2)
    x = rng.standard_normal(100) * 2.0 ** rng.integers(15, 1020, 100)
    # The double nearest a multiple of pi/2 of all, and its neighbours.
    worst = 6381956970095103.0 * 2.0**797
    x = np.concatenate(
        [x, [worst, -worst, math.pi * 1e6, 1e6 * (1 + 2**-52)], np.arange(1, 60) * np.pi / 2]
    )
    mp = pytest.importorskip("mpmath")
    with mp.workprec(1400):
        want = np.array([float(getattr(mp, oracle)(mp.mpf(float(v)))) for v in x])
    for branching in (True, False):
        got = native(fn, ("f64",), "f64", 4, branching=branching)(x)
        check(got, want, 2, x)


GRID = np.array([0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, np.inf, -np.inf, np.nan, 1e-45, -1e-45,
                 3e38, -3e38, 1e10, -1e10, 2.0**25 + 1, 1 - 2.0**25, 2.0**60, -3e300, 5e-324])  # fmt: skip
BINARY: dict[str, tuple[Callable[..., V], Fn]] = {
    "pow": (power.power, np.power),
    "atan2": (inverse.atan2, np.arctan2),
}


@pytest.mark.parametrize("name", BINARY)
@np.errstate(all="ignore")
def test_two_operands(name: str) -> None:
    fn, oracle = BINARY[name]
    x, y = (a.ravel() for a in np.meshgrid(GRID, GRID))
    check(native(fn, ("f64", "f64"), "f64", 4)(x, y), oracle(x, y), 1, x, y)
    rng = np.random.default_rng(5)
    n = 60_000
    x = np.concatenate([x, rng.random(n) * 4, 2.0 ** (rng.random(n) * 250 - 125),
                        -(2.0 ** (rng.random(n) * 10 - 5)), 1 + rng.standard_normal(n) * 1e-3])  # fmt: skip
    y = np.concatenate([y, rng.standard_normal(n) * 5, rng.standard_normal(n),
                        rng.integers(-9, 20, n), rng.standard_normal(n) * 5e4])  # fmt: skip
    x, y = x.astype(np.float32), y.astype(np.float32)
    check(native(fn, ("f32", "f32"), "f32")(x, y), rounded(oracle, x, y), 2, x, y)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@np.errstate(all="ignore")
def test_remainders_are_exact(kind: str) -> None:
    """Quotients of any number of bits, subnormal divisors included."""
    dtype = np.float32 if kind == "f32" else np.float64
    rng = np.random.default_rng(9)
    low, high = (-149, 127) if kind == "f32" else (-1074, 1023)
    with_sizes = lambda n: rng.standard_normal(n) * 2.0 ** rng.integers(low, high, n)
    x = np.concatenate([with_sizes(3000), rng.standard_normal(500), GRID]).astype(dtype)
    y = rng.permutation(x)
    got = native(division.fmod, (kind, kind), kind, 4)(x, y)
    np.testing.assert_array_equal(got, np.fmod(x, y))
    got = native(division.remainder, (kind, kind), kind, 4)(x, y)
    np.testing.assert_array_equal(got, np.remainder(x, y))


def test_pow_in_float64() -> None:
    mp = pytest.importorskip("mpmath")
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.random(200) * 4, 1 + rng.standard_normal(200) * 1e-9])
    y = np.concatenate([rng.standard_normal(200) * 200, rng.standard_normal(200) * 3e11])
    with mp.workprec(200):
        want = np.array(
            [float(mp.power(mp.mpf(float(a)), mp.mpf(float(b)))) for a, b in zip(x, y, strict=True)]
        )
    check(native(power.power, ("f64", "f64"), "f64", 4)(x, y), want, 2, x, y)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, 0.5, -0.5, 2.5, -3])
def test_pow_of_a_number(exponent: float) -> None:
    x = sweep(99_991)
    got = native(lambda x: power.power(x, x.like(exponent)), ("f32",), "f32")(x)
    with np.errstate(all="ignore"):
        want = (x.astype(np.float64) ** exponent).astype(np.float32)
    apart = ulps(got, want)
    apart[(want == 0) | (np.abs(x) < 1e-12) | (np.abs(x) > 1e12)] = 0  # x * x * x overflows early
    assert apart.max() <= 2


@pytest.mark.parametrize("slow_underflow", [False, True])
def test_exponentials_of_what_is_never_positive(slow_underflow: bool) -> None:
    x = -np.abs(sweep(99_991))
    features = replace(host_features(), slow_underflow=slow_underflow)
    got = native(exponential.exp_of_negative, ("f32",), "f32", features=features)(x)
    check(got, rounded(FUNCTIONS["exp"][1], x), 1, x)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="no such flag elsewhere")
@pytest.mark.parametrize("fn", [exponential.exp, exponential.exp2, exponential.exp_of_negative])
@pytest.mark.parametrize("lanes", [4, 16])
def test_exponentials_that_are_zero_underflow_nowhere(fn: Any, lanes: int) -> None:
    """Where an underflow takes a hundred cycles, as rows that a mask hides would at each element."""
    flags, underflow = ctypes.CDLL(ctypes.util.find_library("m")), 0x10
    x = np.concatenate([-np.logspace(2.2, 38, 1021), [-np.inf] * 3]).astype(np.float32)
    kernel = native(fn, ("f32",), "f32", lanes)
    flags.feclearexcept(underflow)
    got = kernel(x)
    assert not flags.fetestexcept(underflow)
    np.testing.assert_array_equal(got, np.zeros_like(x))


@pytest.mark.skipif(not host_features().scales, reason="no instruction of AVX-512 here")
@pytest.mark.parametrize("lanes", [16, 32])
@pytest.mark.parametrize("name", ["exp", "exp2", "cosh"])
def test_powers_of_two_by_one_instruction_change_no_bit(name: str, lanes: int) -> None:
    fn, apart = FUNCTIONS[name][0], replace(host_features(), scales=0)
    for kind, x in (("f32", sweep(99_991)), ("f64", np.linspace(-800, 800, 100_003))):
        got, want = (
            native(fn, (kind,), kind, lanes, features=features)(x)
            for features in (host_features(), apart)
        )
        np.testing.assert_array_equal(got, want)


# Without fused multiply-add errors grow a little, and products in parts must still be exact.
@pytest.mark.parametrize("name", ["exp", "log", "log2", "sin", "tanh", "erf", "erfc"])
def test_without_fused_multiply_add(name: str) -> None:
    fn, oracle, _ = FUNCTIONS[name]
    x = sweep(99_991)
    features = Features(fused=False, halves=False, nan_bounds=False)
    check(native(fn, ("f32",), "f32", features=features)(x), rounded(oracle, x), 3, x)


@pytest.mark.parametrize("name", ["exp", "sin", "erfinv", "tanh"])
def test_lanes_do_not_matter(name: str) -> None:
    fn = FUNCTIONS[name][0]
    x = sweep(999_983)
    want = native(fn, ("f32",), "f32", 16)(x)
    for lanes in (1, 4):
        np.testing.assert_array_equal(
            native(fn, ("f32",), "f32", lanes, branching=lanes > 1)(x), want
        )


@given(st.floats(width=32, allow_nan=False))
@settings(deadline=None, max_examples=300)
def test_symmetries(x: float) -> None:
    both = np.array([x, -x], np.float32)
    for name in ("sin", "tan", "tanh", "erf", "sinh", "atan", "asinh"):
        a, b = kernel(name)(both)
        assert a == -b or (np.isnan(a) and np.isnan(b))
    for name in ("cos", "cosh"):
        a, b = kernel(name)(both)
        assert a == b or (np.isnan(a) and np.isnan(b))


@given(st.floats(-80, 80, width=32), st.floats(0, 2, width=32))
@settings(deadline=None, max_examples=300)
def test_monotonic(x: float, step: float) -> None:
    pair = np.array([x, np.float32(x) + np.float32(step)], np.float32)
    for name in ("exp", "tanh", "sigmoid", "erf"):
        a, b = kernel(name)(pair)
        assert b >= np.nextafter(a, np.float32(-np.inf))  # but for a unit of the last place


@cache
def kernel(name: str) -> Fn:
    return native(FUNCTIONS[name][0], ("f32",), "f32", 4)
