"""Vectors and rows that positions pick, in eager mode on the CPU, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.graph.eager.fragments import FRAGMENTS

F = ad.nn.functional


@pytest.mark.parametrize("shape", [(3,), (300,), (7, 50), (2, 1, 40)])
@pytest.mark.parametrize("classes", [1, 2, 10, 101, 1000])
def test_one_hot_vectors(shape: tuple[int, ...], classes: int) -> None:
    index = np.random.default_rng(0).integers(0, classes, shape)
    want = (index[..., None] == np.arange(classes)).astype("i8")
    for _ in range(2):
        got = F.one_hot(ad.from_numpy(index), classes)
        assert got.dtype is ad.int64
        assert np.array_equal(got.numpy(), want)
    turned = ad.from_numpy(index.T)
    assert np.array_equal(F.one_hot(turned, classes).numpy(), np.moveaxis(want.T, 0, -1))


def test_one_hot_vectors_are_one_fragment() -> None:
    FRAGMENTS.forget()
    F.one_hot(ad.arange(64) % 10, 1000)
    (fragment,) = FRAGMENTS.by_kind.values()
    assert fragment is not None


@pytest.mark.parametrize("count", [4, 64, 3000])
def test_classes_that_there_are_not(count: int) -> None:
    index = ad.arange(count) % 100
    with pytest.raises(RuntimeError, match="smaller than num_classes"):
        F.one_hot(index, min(count, 100) - 1)
    index[1] = -1
    with pytest.raises(RuntimeError, match="non-negative"):
        F.one_hot(index, 100)
    with pytest.raises(RuntimeError, match="should be positive"):
        F.one_hot(index, 0)
    with pytest.raises(RuntimeError, match="empty"):
        F.one_hot(index[:0])
    assert F.one_hot(index[:0], 5).shape == (0, 5)
    assert F.one_hot(index[:0], 0).shape == (0, 0)
