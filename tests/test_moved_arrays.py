"""What moves to another device lies there as a copy of it would, though libraries give rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.array.kernels.shape import copies
from adjoint.engine.core.device import CPU


def test_as_a_copy_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: Any = lambda x, device, non_blocking: np.array(x, order="C")
    monkeypatch.setattr(copies, "transfer", rows)
    rng = np.random.default_rng(0)
    for _ in range(400):
        rank = int(rng.integers(0, 5))
        x = ad.tensor(rng.standard_normal(rng.integers(1, 4, rank)))
        x = x.permute(*map(int, rng.permutation(rank))) if rank else x
        if rank and rng.random() < 0.4:
            d = int(rng.integers(rank))
            x = x.narrow(d, 0, max(1, x.shape[d] - 1))
        if rank and rng.random() < 0.3:
            x = x[:1].expand(3, *x.shape[1:])
        moved, copied = copies.to_device(np, x._array, CPU), x.clone()._array
        np.testing.assert_array_equal(moved, copied)
        steps = zip(x.shape, moved.strides, copied.strides, strict=True)
        assert all(n == 1 or a == b for n, a, b in steps), (x.shape, x.stride())
