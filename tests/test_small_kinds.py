"""Few elements of rarer kinds: products of halves and complex numbers, distinct floats, places."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.engine.backends.llvm.ir.machine import this_machine
from adjoint.engine.backends.llvm.small import loops
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.eager import small_calls

PRODUCTS = (
    ((2, 4), (4, 2)), ((3, 5), (5, 7)), ((2, 3, 4), (2, 4, 5)), ((4, 3, 2), (2, 6)), ((1, 1), (1, 1))
)  # fmt: skip


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: ad.dtype) -> ad.Tensor:
    values = rng.standard_normal(shape)
    return ad.from_numpy(values + 1j * values[..., ::-1] if dtype.is_complex else values).to(dtype)


def bits(x: ad.Tensor) -> Any:
    x = ad.view_as_real(x) if x.is_complex() else x
    return x.contiguous().view(ad.uint8).numpy()


@pytest.mark.parametrize("turned", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize(
    "dtype", [ad.float16, ad.bfloat16, ad.complex64, ad.complex128, ad.float32], ids=str
)
def test_products_are_rows_with_the_kernels_bits(
    dtype: ad.dtype, turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if loops.native() is None:
        pytest.skip("objects are laid out otherwise here: nothing is found natively")
    monkeypatch.setattr(small_calls, "SIGHTED", 0)
    HOOKS.load_rest()
    small_calls.PROGRAMS.forget()
    rng = np.random.default_rng(13)
    for left, right in PRODUCTS:
        for _ in range(5):
            x, y = numbers(rng, left, dtype), numbers(rng, right, dtype)
            x = x.mT.contiguous().mT if turned else x
            with CONTEXT.having(reference=True):
                want = x @ y
            np.testing.assert_array_equal(bits(x @ y), bits(want))
            if y.ndim == 2:
                weight = y.mT.contiguous()
                with CONTEXT.having(reference=True):
                    want = F.linear(x, weight)
                np.testing.assert_array_equal(bits(F.linear(x, weight)), bits(want))
    made = [x for x in small_calls.PROGRAMS.by_kind.values() if x.__class__ is tuple]
    if dtype is not ad.float16 or this_machine().features.halves:
        assert any(words is not None for words, *_ in made), "no product is rows"


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16, ad.float32, ad.float64], ids=str)
def test_distinct_floats(dtype: ad.dtype) -> None:
    """In order, of 0.0 and -0.0 the first one that is there; no two NaNs are alike."""
    rng = np.random.default_rng(14)
    for n in (0, 1, 2, 17, 300, 1999, 3000):
        values = np.round(rng.standard_normal(n) * 3) / 2
        values[rng.random(n) < 0.05] = np.nan
        values = np.where((values == 0) & (rng.random(n) < 0.5), -0.0, values)
        found = ad.unique(ad.from_numpy(values).to(dtype)).double().tolist()
        want: list[float] = []
        for x in sorted(x for x in values.tolist() if not math.isnan(x)):  # which is stable
            if not want or want[-1] != x:
                want.append(x)
        missing = int(np.isnan(values).sum())
        assert [*map(repr, found)] == [*map(repr, want), *["nan"] * missing]


def test_places_of_truths() -> None:
    rng = np.random.default_rng(15)
    for shape in ((), (0,), (7,), (3, 4), (2, 3, 5)):
        mask = rng.random(shape) < 0.5
        given = ad.from_numpy(np.array(mask))
        for places in (ad.where(given), given.nonzero(as_tuple=True)):
            want = np.atleast_1d(mask).nonzero()
            assert len(places) == len(want)
            for place, also in zip(places, want, strict=True):
                assert place.dtype is ad.int64
                assert place.is_contiguous()
                np.testing.assert_array_equal(place.numpy(), also)


@pytest.mark.parametrize(
    "dtype", [ad.float16, ad.bfloat16, ad.float32, ad.float64, ad.int64], ids=str
)
def test_medians_of_many(dtype: ad.dtype) -> None:
    """The lower of two middle ones; of what has a NaN, NaN, unless those do not count."""
    rng = np.random.default_rng(16)
    for n in (1, 2, 127, 128, 4096, 20001):
        values = np.round(rng.standard_normal(n) * 100)
        x = ad.from_numpy(values).to(dtype)
        exact = np.sort(x.double().numpy())
        for shown in (x, x.reshape(1, n, 1)):
            assert shown.median().item() == exact[(n - 1) // 2]
        if not dtype.is_floating_point or n < 3:
            continue
        x[n // 3] = math.nan
        there = np.sort(x.double().numpy())[: n - 1]
        assert math.isnan(x.median().item())
        assert x.nanmedian().item() == there[(n - 2) // 2]


def test_gradients_of_medians_go_to_those_that_are_one() -> None:
    x = ad.arange(5000, dtype=ad.float64).flip(0).requires_grad_()
    x.median().backward()
    assert x.grad is not None
    assert x.grad.nonzero().tolist() == [[5000 - 1 - 2499]]
