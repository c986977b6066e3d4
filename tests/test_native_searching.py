"""`searchsorted` and `bucketize` in compiled programs, without calls from Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.program import native

DTYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64"]


def some(rng: Any, dtype: str, *shape: int) -> Any:
    """Numbers of which many are equal; among floats also infinities and NaN."""
    array = rng.integers(-6, 7, shape).astype(dtype)
    if dtype.startswith("float"):
        array = np.where(rng.random(shape) < 0.1, np.inf, array)
        array = np.where(rng.random(shape) < 0.1, np.nan, array).astype(dtype)
    return array


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_places_are_eager_mode_s(dtype: str, right: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[native.Native] = []
    start = native.Native.__init__

    def noted(self: native.Native, *args: Any, **kwargs: Any) -> None:
        start(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(native.Native, "__init__", noted)
    rng = np.random.default_rng([len(dtype), right])
    search = lambda s, v: ad.searchsorted(s, v, right=right)
    compiled = ad.compile(search)
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((1,), (3,)), ((17,), (4, 5)), ((8,), ()), ((3, 9), (3, 4)), ((2, 2, 5), (2, 2, 1)),
    ]  # fmt: skip
    for one, other in shapes:
        sequence = ad.from_numpy(np.sort(some(rng, dtype, *one), axis=-1))
        values = ad.from_numpy(np.asarray(some(rng, dtype, *other)))
        want, got = search(sequence, values), compiled(sequence, values)
        assert got.dtype is want.dtype
        np.testing.assert_array_equal(got.numpy(), want.numpy())
    assert made
    assert not any(program.calls_eager for program in made)


def test_edges_that_lie_apart() -> None:
    edges, x = ad.arange(12.0).reshape(6, 2)[:, 0], ad.arange(20.0).reshape(4, 5).T
    want, got = ad.bucketize(x, edges), ad.compile(ad.bucketize)(x, edges)
    np.testing.assert_array_equal(got.numpy(), want.numpy())
