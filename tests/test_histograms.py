"""Bins that are reckoned, where bins are equal, against bins that are searched for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.array.kernels.order import histogram


def numbers(rng: np.random.Generator, dtype: str) -> np.ndarray[Any, Any]:
    """Of any size, around any number, some alike, some at the ends of bins."""
    count = int(rng.choice([5, 1500, 4000]))
    around = rng.integers(-1, 2) * 10.0 ** rng.integers(0, 4)
    values = rng.standard_normal(count) * 10.0 ** rng.integers(-3, 3) + around
    if rng.random() < 0.3:
        values = np.round(values)
    return values.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_reckoned_bins_are_those_that_are_searched_for(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(2)
    for k in range(60):
        values = numbers(rng, dtype)
        bins, weight = int(rng.choice([1, 2, 7, 50, 1000])), ad.from_numpy(rng.random(len(values)))
        ends: Any = None
        if k % 2:
            values[:2] = np.nan, np.inf
            ends = sorted(map(float, rng.choice(values[2:], 2)))
        x = ad.from_numpy(values)
        given: Any = {"range": ends}
        if k % 3 == 0:
            given["weight"] = weight.to(x.dtype)
        got = ad.histogram(x, bins, **given)
        with monkeypatch.context() as patch:
            patch.setattr(histogram, "MANY", 1 << 60)
            want = ad.histogram(x, bins, **given)
        assert got.hist.tolist() == want.hist.tolist(), (bins, ends, len(values))
        if ends is None and "weight" not in given:
            assert float(got.hist.sum()) == len(values) or dtype == "float16"


def test_bins_of_any_width_and_of_several_dimensions() -> None:
    rng = np.random.default_rng(3)
    points, weights = rng.standard_normal((3000, 2)), rng.random(3000)
    edges = np.sort(rng.standard_normal(9))
    got = ad.histogram(ad.from_numpy(points[:, 0]), ad.from_numpy(edges)).hist
    assert got.tolist() == np.histogram(points[:, 0], edges)[0].tolist()
    grid = ad.histogramdd(ad.from_numpy(points), [5, 9], weight=ad.from_numpy(weights))
    want = np.histogramdd(points, [np.asarray(e) for e in grid.bin_edges], weights=weights)[0]
    np.testing.assert_allclose(grid.hist.numpy(), want)
