"""Kernels that reduce are called with their factors: layers of several sizes share code."""

from __future__ import annotations

from typing import Any

import numpy as np

import adjoint as ad
from adjoint.compiler import compile


def test_means_over_several_sizes_are_one_function() -> None:
    rng = np.random.default_rng(0)
    x, y, z = (ad.tensor(rng.standard_normal((6, n))) for n in (7, 48, 100))

    def run(x: Any, y: Any, z: Any) -> Any:
        return [(t - t.mean(1, keepdim=True)) / t.shape[1] for t in (x, y, z)]

    compiled = compile(run, backend="native")
    for a, b in zip(compiled(x, y, z), run(x, y, z), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-14, atol=1e-15)
    text = compiled.explain()
    assert "; 1 functions of machine code;" in text or "; 1 function of machine code;" in text


def test_factors_are_rounded_as_constants_are() -> None:
    x = ad.tensor(np.random.default_rng(0).standard_normal((5, 33)), dtype=ad.float32)

    def run(x: Any) -> Any:
        return (
            (x * 0.1).amax(1),
            (x / 3).amax(1),
            (x.abs() * -0.0).amax(1),
            (x.to(ad.int64) * 3).amax(1),
        )

    for a, b in zip(compile(run, backend="native")(x), run(x), strict=True):
        assert a.dtype is b.dtype
        assert np.array_equal(a.numpy(), b.numpy())
        assert np.array_equal(np.signbit(a.numpy()), np.signbit(b.numpy()))
