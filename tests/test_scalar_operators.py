"""Operators between tensors and Python's numbers, on either side: compiled as eager."""

from __future__ import annotations

import itertools
import math
import operator
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

OPERATORS = {
    name: getattr(operator, name)
    for name in (
        "add sub mul truediv floordiv mod pow eq ne lt le gt ge and_ or_ xor lshift rshift".split()
    )
}
SCALARS: list[Any] = [True, False, 3, -2, 0, 2.5, -0.0, math.nan, math.inf, 2 + 1j]
DTYPES = "bool uint8 int32 int64 float16 bfloat16 float32 float64 complex64".split()
FORMS: dict[str, Callable[[Any], Any]] = {
    "x": lambda x: x,
    "-x": lambda x: -x if not str(x.dtype).endswith("bool") else x,
}


def operand(library: Any, dtype: str) -> Any:
    values: list[Any] = [1.5, -2.0, 0.25]
    if dtype == "bool":
        values = [True, False, True]
    elif "int" in dtype:
        values = [1, 2, 3]
    return library.tensor(values, dtype=getattr(library, dtype))


def applied(name: str, form: str, left: bool, scalar: Any) -> Callable[[Any], Any]:
    """The operator, with the number on one side."""
    apply, shaped = OPERATORS[name], FORMS[form]
    if left:
        return lambda x: apply(shaped(x), scalar)
    return lambda x: apply(scalar, shaped(x))


def outcome(fn: Callable[[Any], Any], x: Any) -> Any:
    """dtype and elements, or the kind of refusal."""
    try:
        result = fn(x)
    except Exception as error:
        return type(error)
    kind = str(result.dtype).split(".")[-1]
    if kind == "complex32":
        return NotImplementedError  # which there is not here
    wide = result.double() if "float16" in kind else result
    return kind, wide.numpy()


def check(got: Any, want: Any, what: str, tolerance: float) -> None:
    refused = isinstance(want, type)
    assert isinstance(got, type) is refused, f"{what}: {got}, wanted {want}"
    if refused:
        return
    assert got[0] == want[0], what
    np.testing.assert_allclose(got[1], want[1], rtol=tolerance, err_msg=what)


CASES = list(itertools.product(OPERATORS, FORMS, (True, False)))


def sweep(name: str, form: str, left: bool, dtype: str, scalars: list[Any]) -> None:
    for scalar in scalars:
        fn = applied(name, form, left, scalar)
        what = f"{name} of {form} in {dtype} and {scalar!r}"
        want = outcome(fn, operand(ad, dtype))
        check(outcome(ad.compile(fn), operand(ad, dtype)), want, what, 1e-5)


@pytest.mark.parametrize(("name", "form", "left"), CASES)
def test_a_few(name: str, form: str, left: bool) -> None:
    """Another dtype and another number for each."""
    seed = zlib.crc32(f"{name}{form}{left}".encode())
    sweep(name, form, left, DTYPES[seed % len(DTYPES)], [True, SCALARS[seed % len(SCALARS)]])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "form", "left"), CASES)
def test_all(name: str, form: str, left: bool, dtype: str) -> None:
    sweep(name, form, left, dtype, SCALARS)


def test_a_bool_beside_a_negated_tensor() -> None:
    for dtype in DTYPES[1:]:
        x = operand(ad, dtype)
        for fn in (lambda x: -x + True, lambda x: True + -x, lambda x: 1 + -x):
            ad.testing.assert_close(ad.compile(fn)(x), fn(x), equal_nan=True)


@pytest.mark.compare
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_are_pytorch_s(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    for name, form, left in CASES:
        for scalar in SCALARS:
            if dtype == "float16" and isinstance(scalar, complex):
                continue  # complex32 there
            if dtype == "complex64" and scalar == math.inf:
                continue  # PyTorch multiplies by alpha, and infinite parts become NaN
            fn = applied(name, form, left, scalar)
            want, got = outcome(fn, operand(torch, dtype)), outcome(fn, operand(ad, dtype))
            check(got, want, f"{name} of {form} in {dtype} and {scalar!r}", 0.01)


# -- a float that changes, as the function sees it -------------------------------------------------

SEEN: dict[str, Callable[[Any, float], Any]] = {
    "its class": lambda x, s: x * 2 if isinstance(s, float) else x,
    "a tuple of classes": lambda x, s: x * s if isinstance(s, (int, float)) else x,
    "its text": lambda x, s: x * len(str(s)),
    "its representation": lambda x, s: x * len(repr(s)),
    "formatted": lambda x, s: x * len(f"{s:.6f}"),
    "formatted plainly": lambda x, s: x * len(f"{s}"),
    "compared with a tensor": lambda x, s: (s < x, x < s, s == x),
    "a root": lambda x, s: x * s**0.5,
    "truncated": lambda x, s: x * int(s),
    "rounded": lambda x, s: x * round(s),
    "floor": lambda x, s: x * math.floor(s),
    "divided": lambda x, s: x * divmod(s, 2.0)[1],
    "in a list": lambda x, s: ad.tensor([s, 1.0]) * x.sum(),
    "as a key": lambda x, s: x * {0.5: 1.0}.get(s, 3.0),
    "in a branch": lambda x, s: x if s > 1 else x * s,
    "truth": lambda x, s: x if s else -x,
    "whole": lambda x, s: x * s.is_integer(),
    "beside itself": lambda x, s: x.clamp(min=s, max=s + 1),
}


@pytest.mark.parametrize("name", SEEN)
def test_a_changing_float_is_a_float(name: str) -> None:
    fn = SEEN[name]
    compiled = ad.compile(fn)
    for s in (0.5, 3.0, 4.0, 10.25, 0.0, -2.0, 0.5):
        x = ad.tensor([0.5, 1.0, 3.0])
        ad.testing.assert_close(compiled(x, s), fn(x, s))


def test_a_number_that_no_longer_fits_is_refused_and_nothing_written() -> None:
    x = ad.zeros(3, dtype=ad.float16)
    f = ad.compile(lambda x, s: x.fill_(s))
    for s in (1.0, 2.0, 3.0):
        f(x, s)
    with pytest.raises(RuntimeError, match="without overflow"):
        f(x, 1e6)
    assert x.tolist() == [3.0] * 3
    f(x, 4.0)
    assert x.tolist() == [4.0] * 3


FILLED: dict[str, Callable[[Any, float], Any]] = {
    "full": lambda x, zero: ad.full((3,), zero),
    "full_like": lambda x, zero: ad.full_like(x, zero),
    "new_full": lambda x, zero: x.new_full((3,), zero),
    "fill_": lambda x, zero: x.clone().fill_(zero),
    "masked_fill": lambda x, zero: x.masked_fill(x > 0, zero),
    "index_fill": lambda x, zero: x.index_fill(0, ad.arange(3), zero),
    "pad": lambda x, zero: ad.nn.functional.pad(x[:1], (2, 2), value=zero)[[0, 1, 3, 4]],
    "mul": lambda x, zero: x.abs() * zero,
    "complex": lambda x, zero: ad.full((3,), complex(zero, zero)).imag,
}


@pytest.mark.parametrize("name", FILLED)
def test_zeros_keep_their_sign(name: str) -> None:
    compiled = ad.compile(FILLED[name])
    for zero in (0.0, -0.0, 0.0, -0.0):
        for fn in (FILLED[name], compiled):
            assert set(fn(ad.ones(3), zero).signbit().tolist()) == {str(zero) == "-0.0"}
