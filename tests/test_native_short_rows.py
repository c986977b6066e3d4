"""Rows shorter than a vector in native code: several rows at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad

SIZES = (1, 2, 7, 10, 15, 16)


def shapes(size: int) -> list[tuple[int, ...]]:
    return [(37, size), (2, 19, size), (0, size)]


def of_rows(x: Any) -> tuple[Any, ...]:
    """Functions of rows: costly ones, sums and places, and elements beside them."""
    centred = x - x.mean(-1, keepdim=True)
    log = x.log_softmax(-1)
    return x.softmax(-1), log.exp().sum(-1), log, x.sum(-1), x.amax(-1), x.argmin(-1), centred


@pytest.mark.parametrize("size", SIZES)
def test_functions_of_short_rows(size: int) -> None:
    rng = np.random.default_rng(size)
    for shape in shapes(size):
        x = rng.standard_normal(shape).astype(np.float32)
        exact = x.astype(np.float64)
        top = exact - exact.max(-1, keepdims=True)
        log = top - np.log(np.exp(top).sum(-1, keepdims=True))
        wanted = [np.exp(log), np.exp(log).sum(-1), log, exact.sum(-1), exact.max(-1)]
        wanted += [exact.argmin(-1), exact - exact.mean(-1, keepdims=True)]
        for given in (x, np.asfortranarray(x)):
            compiled: Any = ad.compile(of_rows, backend="native")  # else a warning: many shapes
            got = compiled(ad.from_numpy(given))
            for mine, right in zip(got, wanted, strict=True):
                np.testing.assert_allclose(mine.numpy(), right, rtol=1e-5, atol=2e-6)


@pytest.mark.usefixtures("anew")
def test_rows_shorter_than_vectors_are_taken_several_at_a_time() -> None:
    for size, along in ((10, False), (16, True)):
        softmax: Any = ad.compile(lambda x: x.softmax(-1), backend="native")
        softmax(ad.ones(64, size))
        (step,) = softmax.latest.executable.plan.steps
        assert step.form.rows is along


@pytest.mark.usefixtures("anew")
def test_sums_of_rows_run_along_them_whatever_is_outside() -> None:
    """Sums that are written beside each other do not make vectors of elements that lie apart."""
    for shape, dims in (((5, 17, 67), (2,)), ((2, 3, 11, 13), (2, 3)), ((3, 2, 5, 7, 5), (3, 4)),
                        ((16, 64, 14, 14), (2, 3)), ((64, 32, 7, 7), (2, 3))):  # fmt: skip
        total: Any = ad.compile(lambda x, dims=dims: x.sum(dims), backend="native")
        total(ad.ones(*shape))
        (step,) = total.latest.executable.plan.steps
        assert step.form.rows, shape
    columns: Any = ad.compile(lambda x: x.sum(1), backend="native")
    columns(ad.ones(5, 17, 67))
    assert not columns.latest.executable.plan.steps[0].form.rows


@pytest.mark.parametrize("seed", range(4))
def test_reductions_over_any_dimensions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 9, rng.integers(3, 6)).tolist())
    x = rng.standard_normal(shape).astype(np.float32).transpose(rng.permutation(len(shape)))
    dims = tuple(rng.choice(x.ndim, rng.integers(1, x.ndim), replace=False).tolist())

    def reduced(x: Any) -> tuple[Any, ...]:
        return x.sum(dims), x.amax(dims), x.mean(dims, keepdim=True), (x * x).sum(dims)

    exact = x.astype(np.float64)
    wanted = [exact.sum(dims), exact.max(dims), exact.mean(dims, keepdims=True)]
    wanted.append((exact * exact).sum(dims))
    compiled: Any = ad.compile(reduced, backend="native")
    for got in (compiled(ad.from_numpy(x)), reduced(ad.from_numpy(x))):
        for mine, right in zip(got, wanted, strict=True):
            np.testing.assert_allclose(mine.numpy(), right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [(3, 5), (14, 14), (1, 37)])
def test_what_stays_along_inner_dimensions_is_made_outside_them(size: tuple[int, int]) -> None:
    """Weights of channels, and what is made of them, of images that are normalised together."""
    rng = np.random.default_rng(sum(size))
    x = rng.standard_normal((4, 6, *size)).astype(np.float32)
    weight, bias = rng.standard_normal((2, 6)).astype(np.float32)

    def normalised(x: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
        apart = x - x.mean((1, 2, 3), keepdim=True)
        scale = weight.sigmoid().reshape(1, 6, 1, 1)
        return apart * scale + bias.reshape(1, 6, 1, 1), (apart * scale).sum((1, 2, 3))

    exact = x.astype(np.float64)
    apart = exact - exact.mean((1, 2, 3), keepdims=True)
    scaled = apart / (1 + np.exp(-weight.astype(np.float64))).reshape(1, 6, 1, 1)
    wanted = scaled + bias.reshape(1, 6, 1, 1), scaled.sum((1, 2, 3))
    compiled: Any = ad.compile(normalised, backend="native")
    for layout in (x, np.asfortranarray(x), x.transpose(0, 3, 1, 2).copy().transpose(0, 2, 3, 1)):
        for mine, right in zip(compiled(*map(ad.from_numpy, (layout, weight, bias))), wanted,
                               strict=True):  # fmt: skip
            np.testing.assert_allclose(mine.numpy(), right, rtol=1e-5, atol=2e-5)
