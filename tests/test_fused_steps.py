"""Evenly spaced doubles: each product and sum rounded once, by exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.array.kernels.create import fused

FACTORS = (0.0, -0.0, 5e-324, 1e-310, 0.1, 1 / 3, 1.0, -2.5)


@pytest.mark.parametrize("seed", range(4))
def test_blocks_give_the_bits_of_odd_sums(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for turn in range(30):
        count = int(rng.integers(1, 2 * fused.BLOCK + 3))
        size = 10.0 ** rng.integers(-300, 200)
        factor = np.float64(rng.choice(FACTORS) if turn % 3 else rng.standard_normal() * size)
        against = -factor * rng.integers(0, count) * (1 + 2.0 ** -rng.integers(30, 53))
        start = np.float64(rng.choice([0.0, -0.0, 1.0, -1.0, rng.standard_normal(), against]))
        index = np.arange(count, dtype=np.float64)[:: 1 if turn % 2 else -1]
        got = fused.fused_multiply_add(np, factor, index, start)
        want = fused._by_odd_sums(np, factor, index, start)
        assert got.tobytes() == want.tobytes(), (factor, start, count)
        for k in rng.integers(0, count, 3):
            exact = Fraction(float(factor)) * int(index[k]) + Fraction(float(start))
            assert got[k] == float(exact), (factor, start, index[k])


def test_what_is_no_number_stays_none() -> None:
    assert np.isnan(ad.linspace(float("nan"), 1, 9000, dtype=ad.float64).numpy()).all()
    ends = ad.linspace(-1e300, 1e300, 9001, dtype=ad.float64)  # beyond what can be split
    assert ends[0] == -1e300
    assert ends[-1] == 1e300
