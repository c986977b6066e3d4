"""Searches, counts and distinct rows on a GPU are the CPU's; and what of it any array library does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.array.kernels.order.search import distinct_rows

rng = np.random.default_rng(0)


def rows_of(count: int, columns: int, kind: str) -> Any:
    x = rng.integers(0, 3, (count, columns))
    if kind == "nan":
        x = x.astype(np.float64)
        x[rng.random(x.shape) < 0.1] = np.nan
        return x
    if kind == "complex":
        return x + 1j * rng.integers(0, 2, x.shape)
    return x.astype(kind)


@pytest.mark.parametrize("kind", ["int64", "bool", "float32", "nan", "complex"])
@pytest.mark.parametrize(
    ("count", "columns", "dim"), [(1, 1, 0), (40, 3, 0), (25, 8, 1), (7, 5, 1)]
)
def test_distinct_rows_are_numpys(kind: str, count: int, columns: int, dim: int) -> None:
    x = rows_of(count, columns, kind)
    want = np.unique(x, return_inverse=True, return_counts=True, axis=dim, equal_nan=False)
    values, inverse, counts = distinct_rows(np, x, dim)
    if kind == "nan":  # of rows with NaN every one is alone, in whatever order
        assert values.shape == want[0].shape
        assert sorted(counts.tolist()) == sorted(want[2].tolist())
    else:
        np.testing.assert_array_equal(values, want[0])
        np.testing.assert_array_equal(inverse, want[1].reshape(-1))
        np.testing.assert_array_equal(counts, want[2])
    np.testing.assert_array_equal(np.take(values, inverse, axis=dim), x)


SORTED = np.sort(rng.standard_normal((6, 17)).astype(np.float32), axis=1)
MISSING = np.array([0.0, 1.0, 2.0, np.nan, np.nan], np.float32)
WANTED = rng.standard_normal((6, 40)).astype(np.float32)
WANTED[0, :3] = np.nan, np.inf, -np.inf
MANY = rng.integers(0, 9000, 30_000)
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{
        f"searchsorted {right}": (
            lambda s, v, right=right: ad.searchsorted(s, v, right=right), (SORTED, WANTED),
        )
        for right in (False, True)
    },
    **{
        f"bucketize {right}": (
            lambda v, s, right=right: ad.bucketize(v, s, right=right), (WANTED, SORTED[0]),
        )
        for right in (False, True)
    },
    **{
        f"missing {right}": (
            lambda s, v, right=right: ad.searchsorted(s, v, right=right), (MISSING, WANTED),
        )
        for right in (False, True)
    },
    "search of integers": (ad.searchsorted, (np.arange(0, 90, 3), MANY[:100] % 95)),
    "search of bfloat16": (
        lambda s, v: ad.searchsorted(s.bfloat16(), v.bfloat16()), (SORTED, WANTED),
    ),
    "search of nothing": (ad.searchsorted, (SORTED, WANTED[:, :0])),
    "search in nothing": (ad.searchsorted, (SORTED[:, :0], WANTED)),
    "few bins": (lambda x: ad.bincount(x % 100), (MANY,)),
    "many bins": (ad.bincount, (MANY,)),
    "at least so many": (lambda x: ad.bincount(x, minlength=20_000), (MANY,)),
    "small integers": (lambda x: ad.bincount((x % 200).to(ad.uint8)), (MANY,)),
    "histc": (lambda x: ad.histc(x, 50, -1, 1), (WANTED,)),
    "histc between extremes": (lambda x: ad.histc(x[1:], 7), (WANTED,)),
    "histc of halves": (lambda x: ad.histc(x[1:].half(), 20, -2, 2), (WANTED,)),
    "histc of one value": (lambda x: ad.histc(x * 0 + 1, 5), (WANTED[1:],)),
    "histc of doubles": (lambda x: ad.histc(x[1:].double(), 9, -0.5, 2.25), (WANTED,)),
    "masked": (
        lambda x: (x[x > 0.5], x.masked_select(x < 9), x.half()[x < -9], x.T[x.T > 1]), (WANTED,),
    ),
    "masked rows": (lambda x: x[x[:, 3] > 0], (WANTED,)),
    "neighbours": (
        lambda x: (
            *ad.unique_consecutive(x % 2, return_inverse=True, return_counts=True),
            *ad.unique_consecutive((x % 3).half().reshape(100, -1), return_inverse=True),
            ad.unique_consecutive(x % 5 > 2),
        ),
        (MANY,),
    ),
    "unique rows": (
        lambda x: ad.unique(x % 2, dim=0, return_inverse=True, return_counts=True),
        (MANY[:600].reshape(200, 3),),
    ),
    "unique columns": (
        lambda x: ad.unique(x % 2, dim=1, return_inverse=True, return_counts=True),
        (MANY[:600].reshape(6, 100),),
    ),
    "greatest of rows": (lambda x: (*x.max(1), *x.min(0), x.argmax(1), x.argmin()), (WANTED,)),
    "ties": (lambda x: (*(x % 3).max(-1), (x % 3).argmax(0), (x % 3).argmin()), (MANY,)),
    "orders": (
        lambda x: (x.flip(0, 1), x.roll((2, -3), (0, 1)), x.tril(1), x.triu(-1)), (WANTED,),
    ),
    "truths": (
        lambda x: ((x > 2).any(1), (x > -4).all(0), (x > 9).any(), x.isfinite().all()), (WANTED,),
    ),
    "combinations": (lambda x: ad.combinations(x[:9], 3, True), (MANY,)),
}  # fmt: skip


@pytest.mark.cuda
@pytest.mark.parametrize("name", CASES)
def test_gpu_equals_cpu(name: str) -> None:
    fn, arrays = CASES[name]
    want = fn(*map(ad.from_numpy, arrays))
    got = fn(*(ad.from_numpy(x).to("cuda") for x in arrays))
    pairs = [(got, want)] if isinstance(want, ad.Tensor) else list(zip(got, want, strict=True))
    for result, expected in pairs:
        assert result.is_cuda
        ad.testing.assert_close(result.cpu(), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_samples_are_where_their_weights_are(device: str) -> None:
    weights = ad.tensor([[0.0, 1.0, 3.0, 0.0], [2.0, 0.0, 0.0, 2.0]], device=device)
    ad.manual_seed(5)
    samples = ad.multinomial(weights, 4000, replacement=True).cpu()
    assert set(samples[0].tolist()) == {1, 2}
    assert set(samples[1].tolist()) == {0, 3}
    assert 0.72 < float((samples[0] == 2).double().mean()) < 0.78
    if device == "cuda":
        ad.manual_seed(5)
        assert samples.tolist() == ad.multinomial(weights.cpu(), 4000, replacement=True).tolist()
