"""Quotients by known numbers have the bits of the processor's division, at every element."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.ir.machine import host_features
from adjoint.engine.backends.registers.math.known_divisors import (
    inverse_of,
    proved_parts,
    quotient,
)
from adjoint.engine.compiler.loops.ir import Op, divides
from tests.native_code import native

DTYPES = {"f32": np.float32, "f64": np.float64}
# Counts of elements, probabilities, small and large numbers, and some whose inverse is refused.
DIVISORS = [3.0, -7.0, 10.0, 0.1, 0.9, 300.0, -1e-5, 50257.0, 6.0, 2.0**-9, 1e12, 1e-44, 1e300]


def same_bits(got: Any, want: Any) -> bool:
    """Whether all bits are the same, but those of NaN."""
    number = ~np.isnan(want)
    bits = f"i{want.itemsize}"
    return bool(np.array_equal(np.isnan(got), ~number)) and bool(
        np.array_equal(got[number].view(bits), want[number].view(bits))
    )


def divided(x: Any, c: float) -> Any:
    with np.errstate(all="ignore"):
        return x / x.dtype.type(c)


def edges(dtype: Any) -> Any:
    """Numbers of all exponents, some of each, and the smallest, the largest, NaN and infinities."""
    rng = np.random.default_rng(0)
    width = np.dtype(dtype).itemsize * 8
    mantissa = 23 if width == 32 else 52
    exponents = np.arange(1 << (width - mantissa), dtype=f"u{width // 8}") << mantissa
    count = 40 if width == 32 else 8
    drawn = rng.integers(0, 1 << mantissa, (count, exponents.size), dtype=f"u{width // 8}")
    drawn[:3] = np.array([0, 1, (1 << mantissa) - 1])[:, None]
    few = np.arange(4096, dtype=f"u{width // 8}")  # subnormal numbers, with ties among quotients
    return np.concatenate([(drawn | exponents).ravel(), few]).view(dtype)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("c", DIVISORS)
def test_every_exponent(kind: str, c: float) -> None:
    with np.errstate(over="ignore"):
        c = float(DTYPES[kind](c))
    x = edges(DTYPES[kind])
    run = native(lambda x: quotient(x, x.like(c)), (kind,), kind)
    assert same_bits(run(x), divided(x, c))
    apart = x[np.abs(x) > 1e-9] if kind == "f32" else x  # vectors without a small element
    assert same_bits(run(apart), divided(apart, c))
    zeros = np.where(np.arange(x.size) % 3 == 0, np.copysign(x.dtype.type(0), x), x)
    assert same_bits(run(zeros), divided(zeros, c))


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("branching", [True, False])
@pytest.mark.parametrize("other", [{"folds": False}, {"folds": True}, {"fused": False}])
def test_other_processors(kind: str, branching: bool, other: dict[str, bool]) -> None:
    features = replace(host_features(), **other)
    x = edges(DTYPES[kind])
    divide = lambda x: quotient(x, x.like(-0.3))
    run = native(divide, (kind,), kind, features=features, branching=branching)
    assert same_bits(run(x), divided(x, -0.3))


@pytest.mark.parametrize("c", [3.0, 10.7])
def test_every_mantissa(c: float) -> None:
    x = np.arange(1 << 23, dtype=np.uint32)
    x |= np.uint32(127 << 23)
    run = native(lambda x: quotient(x, x.like(c)), ("f32",), "f32")
    x = x.view(np.float32)
    assert inverse_of(float(np.float32(c)), "f32") is not None
    assert same_bits(run(x), divided(x, c))


@pytest.mark.slow
def test_every_mantissa_of_random_divisors() -> None:
    rng = np.random.default_rng(0)
    x = (np.arange(1 << 23, dtype=np.uint32) | np.uint32(127 << 23)).view(np.float32)
    for c in np.exp(rng.normal(0, 4, 60)):
        run = native(lambda x, c=float(c): quotient(x, x.like(c)), ("f32",), "f32")
        assert same_bits(run(x), divided(x, c)), c


def test_random_divisors_of_doubles() -> None:
    """Where quotients lie nearest to the middle of two numbers, which chance would not find."""
    rng = np.random.default_rng(0)
    for c in np.exp(rng.normal(0, 4, 6)):
        q = rng.integers(1 << 52, 1 << 53, 512).astype(np.float64)
        middle = [Fraction(c) * (Fraction(n) + Fraction(1, 2)) for n in q.tolist()]
        near = np.array([float(m) for m in middle])
        x = np.concatenate([near, np.nextafter(near, np.inf), np.nextafter(near, 0), -near])
        run = native(lambda x, c=float(c): quotient(x, x.like(c)), ("f64",), "f64")
        assert same_bits(run(x), divided(x, c)), c


def rounded(x: Fraction, precision: int) -> Fraction:
    """To so many bits, ties to even."""
    exponent = 0
    while x / Fraction(2) ** exponent >= 1 << precision:
        exponent += 1
    while x / Fraction(2) ** exponent < 1 << (precision - 1):
        exponent -= 1
    return round(x / Fraction(2) ** exponent) * Fraction(2) ** exponent


@pytest.mark.parametrize("precision", [5, 6])
def test_what_is_proved(precision: int) -> None:
    """In few bits, all elements by all divisors, in fractions."""
    refused = 0
    half = 1 << (precision - 1)
    for whole in range(half + 1, 2 * half):
        parts = proved_parts(whole, precision)
        if parts is None:
            refused += 1
            continue
        c = Fraction(whole, half)
        high = Fraction(parts[0], 1 << precision)
        low = Fraction(parts[1], 1 << (3 * precision))
        assert rounded(high, precision) == high < 1 / c
        assert rounded(low, precision) == low
        for mantissa in range(half, 2 * half):
            x = Fraction(mantissa, half)
            got = rounded(x * high + rounded(x * low, precision), precision)
            assert got == rounded(x / c, precision), (whole, mantissa)
    assert refused * 8 < half


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_compiled_quotients(dtype: str) -> None:
    kind = getattr(ad, dtype)
    x = ad.tensor(np.random.default_rng(0).standard_normal(3000) * 1e-3).to(kind)
    for c in (3.0, 0.7, -300.0):
        got = ad.compile(lambda x, c=c: x / c)(x)
        wide = ad.float64 if kind is ad.float64 else ad.float32
        want = ad.tensor(divided(x.to(wide).numpy(), c)).to(kind)
        assert ad.equal(got, want)


@pytest.mark.parametrize("dtype", [ad.uint8, ad.int8, ad.int32, ad.int64])
def test_whole_numbers_by_a_number(dtype: Any) -> None:
    """Quotients and remainders, at the ends too; of a divisor that is zero in the dtype, no more."""
    limits = ad.iinfo(dtype)
    ends = [limits.min, limits.min + 1, limits.max]
    values = [*ends, *range(0 if limits.min == 0 else -60, 100)] * 20
    x = ad.tensor(values, dtype=dtype)
    size = 1 << limits.bits

    def wrapped(n: int) -> int:
        return (n - limits.min) % size + limits.min

    for c in (7, 1, 100) if limits.min == 0 else (7, -3, 1, -1, 100):
        run = ad.compile(lambda x, c=c: (x // c, x % c, x.fmod(c)))
        towards_zero = [abs(n) % abs(c) * (-1 if n < 0 else 1) for n in values]
        wants = [wrapped(n // c) for n in values], [n % c for n in values], towards_zero
        for got, again, want in zip(run(x), (x // c, x % c, x.fmod(c)), wants, strict=True):
            assert got.tolist() == again.tolist() == want, c
    for call in (lambda: ad.compile(lambda x: x % 0)(x), lambda: x // 0):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            call()


def test_divisors_that_are_known_are_not_looked_at() -> None:
    def operation(name: str, value: object, compute: str) -> Op:
        args = (("v", 0), ("c", value) if value is not None else ("v", 1))
        return Op("point", name, args, (), compute, compute, full=False, stage=0)

    known = [("floor_divide", 7, "int64"), ("remainder", -1, "int8"), ("fmod", 255, "uint8")]
    others = [
        ("floor_divide", 0, "int64"), ("remainder", 256, "uint8"), ("fmod", None, "int32"),
        ("trunc_divide", True, "int32"), ("floor_divide", 1 << 32, "int32"),
    ]  # fmt: skip
    assert [divides(operation(*case)) for case in known] == [True] * len(known)
    assert [divides(operation(*case)) for case in others] == [False] * len(others)
