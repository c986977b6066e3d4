"""Numbers beside halves: what is rounded first, the same at all sizes, eager and compiled.

What is wanted is written with tensors that are filled, of halves or of float32 (Note [numbers
beside halves]); `tests/compare` has PyTorch's own words for it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad

HALVES = (ad.float16, ad.bfloat16)
Operation = Callable[[Any, Any], Any]


def swapped(fn: Operation) -> Operation:
    return lambda x, s: fn(s, x)


def written(name: str) -> Operation:
    return lambda x, s: getattr(x.clone(), name)(s)


ROUNDED: dict[str, Operation] = {
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: getattr(operator, name) for name in ("add", "sub", "mod", "pow")},
    **{f"{name} swapped": swapped(getattr(operator, name)) for name in ("sub", "mod", "lt")},
    **{name: written(name) for name in ("add_", "fmod_", "remainder_", "eq_", "lt_")},
    "mul swapped": swapped(ad.mul),
    "mul swapped, negated": lambda x, s: ad.mul(s, -x),
    "div swapped": swapped(ad.div),
    "floor_divide swapped": swapped(ad.floor_divide),
    "fmod": ad.fmod,
    "xlogy": ad.xlogy,
    "copysign": ad.copysign,
    "clamp": lambda x, s: x.clamp(min=s),
    "where": lambda x, s: ad.where(x > 0, x, s),
}
UNROUNDED: dict[str, Operation] = {
    **{name: getattr(operator, name) for name in ("mul", "truediv", "floordiv")},
    **{name: written(name) for name in ("mul_", "div_", "floor_divide_")},
    "div": ad.div,
    "truncated": lambda x, s: ad.div(x, s, rounding_mode="trunc"),
    "mul by operator": swapped(operator.mul),
}
ONLY_NUMBERS = {"mul by operator"}  # of a tensor, the other one is second
KINDS = ("number", "float32", "float64")


def as_given(kind: str, number: float) -> Any:
    return number if kind == "number" else ad.tensor(number, dtype=getattr(ad, kind))


def wanted(fn: Operation, x: Any, number: float, rounded: bool) -> Any:
    """What a filled tensor gives: of halves where the number is rounded, else of float32."""
    wide = ad.full(x.shape, number, dtype=ad.float64).float()
    if rounded:
        return fn(x, wide.to(x.dtype))
    return fn(x.float(), wide).to(x.dtype)


def same(got: Any, want: Any) -> None:
    assert got.dtype is want.dtype
    ad.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


def values(number: float, count: int, dtype: Any) -> Any:
    """Halves, among them the one next to a number."""
    ad.manual_seed(count)
    x = ad.randn(count) * 4
    x[0] = number
    return x.to(dtype)


ALL = [*((name, True) for name in ROUNDED), *((name, False) for name in UNROUNDED)]


@pytest.mark.parametrize(("name", "rounded"), ALL)
@settings(max_examples=6, deadline=None)
@given(
    number=st.sampled_from([0.1, -0.7, 1 / 3, 3, 2051]),
    dtype=st.sampled_from(HALVES),
    kind=st.sampled_from(KINDS),
    count=st.sampled_from([1, 20, 9000]),
)
def test_is_rounded_or_not(
    name: str, rounded: bool, number: float, dtype: Any, kind: str, count: int
) -> None:
    fn = (ROUNDED if rounded else UNROUNDED)[name]
    x = values(number, count, dtype)
    s = as_given("number" if name in ONLY_NUMBERS else kind, number)
    same(fn(x, s), wanted(fn, x, number, rounded))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_equals_eager(kind: str, dtype: Any) -> None:
    """As constants, as numbers that differ from call to call, and as tensors."""
    names = ["eq", "add", "mod swapped", "mul swapped", "mul swapped, negated"]
    names += ["clamp", "where", "mul", "floordiv", "add_"]
    table = {**ROUNDED, **UNROUNDED}
    x, s = values(0.1, 33, dtype), as_given(kind, 0.1)

    def constant(x: Any) -> Any:
        return [table[name](x, s) for name in names]

    def operand(x: Any, s: Any) -> Any:
        return [table[name](x, s) for name in names]

    for got in (ad.compile(constant)(x), ad.compile(operand, dynamic=True)(x, s)):
        for name, a in zip(names, got, strict=True):
            same(a, table[name](x, s))


@pytest.mark.parametrize("dtype", HALVES)
def test_gradients(dtype: Any) -> None:
    """A product's is a product with the number as it is, at all sizes and compiled."""
    for count in (5, 9000):
        x, g = values(0.1, count, dtype), values(0.3, count, dtype)

        def each(leaf: Any, g: Any) -> Any:
            return [ad.autograd.grad(y, leaf, g)[0] for y in (leaf * 0.1, leaf / 0.1)]

        leaf = x.requires_grad_()
        wide = ad.tensor(0.1)
        for got in (each(leaf, g), ad.compile(each)(leaf, g)):
            same(got[0], (g.float() * wide).to(dtype))
            same(got[1], (g.float() / wide).to(dtype))


@pytest.mark.parametrize("dtype", HALVES)
def test_number_by_halves(dtype: Any) -> None:
    """`s / x` is a multiple of the reciprocal, which is rounded."""
    for count in (5, 9000):
        x = values(0.1, count, dtype)
        same(0.1 / x, x.reciprocal() * 0.1)
        same(ad.compile(lambda x: 0.1 / x)(x), x.reciprocal() * 0.1)


def test_membership() -> None:
    x = ad.tensor([0.1, 0.2]).half()
    assert ad.isin(x, ad.tensor(0.1)).tolist() == [True, False]


@pytest.mark.parametrize("dtype", [*HALVES, ad.float32])
@pytest.mark.parametrize("given", [ad.float64, ad.float32, ad.int64])
def test_a_weight_without_dimensions_is_converted(dtype: Any, given: Any) -> None:
    x, y = values(0.1, 20, dtype), values(0.3, 21, dtype)[1:]
    weight = ad.tensor(1 / 3).to(given)
    same(ad.lerp(x, y, weight), ad.lerp(x, y, weight.to(dtype)))
    with pytest.raises(RuntimeError, match="expected dtype"):
        ad.lerp(x, y, weight.expand(1).half() if dtype is not ad.float16 else weight.expand(1))
