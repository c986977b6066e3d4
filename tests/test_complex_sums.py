"""Sums and means of many complex numbers, beside NumPy's in twice the precision."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import adjoint as ad

SHAPES = ((20011,), (257, 129), (33, 1024), (16384, 2), (7, 60, 61), (3, 5000, 2), (1, 20000))
EXACT = {np.complex64: np.complex128, np.complex128: np.clongdouble}


def numbers(shape: tuple[int, ...], dtype: Any) -> Any:
    rng = np.random.default_rng(11)
    return (rng.standard_normal(shape) + 1 + 1j * (rng.standard_normal(shape) - 2)).astype(dtype)


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_are_accurate(shape: tuple[int, ...], dtype: Any) -> None:
    given = numbers(shape, dtype)
    x = ad.from_numpy(given)
    for count in range(1, len(shape) + 1):
        for dims in combinations(range(len(shape)), count):
            want = given.astype(EXACT[dtype]).sum(dims)
            terms = np.prod([shape[d] for d in dims])
            for keepdim in (False, True):
                got = x.sum(dims, keepdim=keepdim)
                mean = x.mean(dims, keepdim=keepdim)
                shown = want if not keepdim else np.expand_dims(want, dims)
                assert got.shape == mean.shape == shown.shape
                assert got.is_contiguous()
                limit = 8 * np.finfo(dtype).eps * terms  # of elements of about two
                assert np.abs(got.numpy() - shown).max() <= limit
                assert np.abs(mean.numpy() - shown / terms).max() <= limit / terms


@pytest.mark.parametrize("x", [np.s_[:, ::2], np.s_[::-1]], ids=["every other", "turned"])
def test_sums_of_what_does_not_lie_row_by_row(x: Any) -> None:
    given = numbers((300, 200), np.complex64)
    seen = ad.from_numpy(given)[:, ::2] if x == np.s_[:, ::2] else ad.from_numpy(given).t()
    want = given[:, ::2] if x == np.s_[:, ::2] else given.T
    for dim in (0, 1):
        exact = want.astype(np.complex128).sum(dim)
        np.testing.assert_allclose(seen.sum(dim).numpy(), exact, rtol=2e-5, atol=2e-4)


def test_what_is_no_number_stays_in_its_part() -> None:
    given = numbers((150, 150), np.complex64)
    given[3, 5] = complex(np.inf, 1)
    given[7, 9] = complex(2, np.nan)
    total = ad.from_numpy(given).sum()
    assert ad.isinf(total.real).item()
    assert ad.isnan(total.imag).item()
    columns = ad.from_numpy(given).sum(0).numpy()
    assert np.isinf(columns.real[5])
    assert np.isfinite(columns.imag[5])
    assert np.isfinite(columns[[0, 100]]).all()


def test_gradients_of_sums() -> None:
    x = ad.from_numpy(numbers((200, 130), np.complex64)).requires_grad_()
    (x.sum(0).abs() ** 2).sum().backward()
    sums = x.detach().numpy().astype(np.complex128).sum(0)
    want = np.broadcast_to(2 * sums, (200, 130))
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-4)
