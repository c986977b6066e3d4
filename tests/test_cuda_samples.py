"""Samples that a GPU draws in one launch have the CPU's bits: its kernels on the CPU's threads."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.array.kernels.random import device_samples
from tests.cuda_on_threads import threaded
from tests.cupy_stand_in import on_device

needs_cpp = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a compiler of C++")
rng = np.random.default_rng(4)
CASES = {
    "poisson": (ad.poisson, rng.random(37) * rng.choice([0, 3, 9.9, 40, 1e5], 37)),
    "gamma": (ad._standard_gamma, rng.random(37) * rng.choice([0.2, 1, 30], 37)),
}


@needs_cpp
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_the_cpu_s_bits(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, name: str, dtype: Any
) -> None:
    call, given = CASES[name]
    given = given.astype(dtype)
    generator = ad.Generator().manual_seed(2**63 + 12345)
    generator.set_offset((1 << 40) - 5)
    seed, offset = generator.position()
    want = call(ad.tensor(given), generator=generator).numpy()
    found: list[Any] = []

    def kernels_of(xp: Any, text: str, *kernels: tuple[str, int, str], **_: Any) -> Any:
        found[:] = threaded(tmp_path_factory.getbasetemp(), text, *kernels)
        return found

    monkeypatch.setattr(device_samples, "THREADS", 8)
    monkeypatch.setattr(device_samples, "kernels_of", kernels_of)
    device_samples._drawing.__wrapped__(None, 0, name, given.dtype.char)
    there, out = on_device(given), on_device(np.zeros_like(given))
    least = float(np.finfo(dtype).tiny)
    status = on_device(np.zeros(1, np.int64))
    words = there.data.ptr, given.size, seed, offset, status.data.ptr, 77, 8, least, out.data.ptr
    found[0](-(-given.size // 8), *words)
    np.testing.assert_array_equal(np.asarray(out), want)
    assert not np.asarray(status)[0]
    if name == "poisson":
        there[5] = -1
        found[0](5, *words)
        assert np.asarray(status)[0] == 77


def test_divisions_by_whole_numbers_are_rounded_once() -> None:
    """What `over` computes, in numbers of any length."""
    from fractions import Fraction

    def rounded(x: Fraction) -> float:
        return x.numerator / x.denominator  # which Python rounds once

    for k in range(1, device_samples.INVERSES):
        inverse = 1 / k
        for x in (*rng.random(20) * 10, 1.0, np.nextafter(10, 0), np.nextafter(k, 0), 1e-200):
            about = float(x) * inverse
            left = rounded(Fraction(float(x)) - Fraction(about) * k)
            assert rounded(Fraction(left) * Fraction(inverse) + Fraction(about)) == float(x) / k
