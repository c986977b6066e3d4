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


def test_rows_shorter_than_vectors_are_taken_several_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("adjoint.engine.backends.llvm.program.native.disk_key", lambda *_: None)
    for size, along in ((10, False), (16, True)):
        softmax: Any = ad.compile(lambda x: x.softmax(-1), backend="native")
        softmax(ad.ones(64, size))
        (step,) = softmax.latest.executable.plan.steps
        assert step.form.rows is along
