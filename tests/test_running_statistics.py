"""Running statistics of batch norm, moved one by one and by a program: the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.engine.ops.nn import channel_norm

NEVER = 10**9
FEW = NEVER + 1


def moved(
    monkeypatch: pytest.MonkeyPatch, often: int, x: Any, running: list[Any], momentum: float
) -> list[Any]:
    """The statistics after three batches, with a program from so many moves on; at once: `FEW`."""
    monkeypatch.setattr(channel_norm, "FEW", 1 << 12 if often == FEW else 0)
    monkeypatch.setattr(channel_norm, "OFTEN", often)
    for k in range(3):
        F.batch_norm(x + k, *running, training=True, momentum=momentum)
    return [t.numpy().copy() for t in running if t is not None]


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16, ad.float32, ad.float64])
def test_a_program_gives_the_same_numbers(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    for channels in map(int, (1, 4, *rng.integers(2, 70, 3))):
        x = ad.from_numpy(rng.standard_normal((5, channels, 2))).to(dtype).requires_grad_()
        momentum = float(rng.random())
        results = []
        for often in (FEW, 0, NEVER):
            kept = ad.float64 if dtype is ad.float64 else ad.float32
            running = [ad.full((channels,), 0.25, dtype=kept) for _ in range(2)]
            results.append(moved(monkeypatch, often, x, running, momentum))
        for one, another, other in zip(*results, strict=True):
            np.testing.assert_array_equal(one, other)
            np.testing.assert_array_equal(another, other)


def overlapping() -> list[Any]:
    memory = np.ones(7, np.float32)
    return [ad.from_numpy(memory[:4]), ad.from_numpy(memory[3:])]


def one_for_both() -> list[Any]:
    tensor = ad.ones(4)
    return [tensor, tensor]


def views() -> list[Any]:
    tensor = ad.ones(2, 4)
    return [tensor[0], tensor[1]]


def strided() -> list[Any]:
    return [ad.ones(8)[::2], ad.ones(4)]


def one_alone() -> list[Any]:
    return [None, ad.ones(4)]


@pytest.mark.parametrize("make", [overlapping, one_for_both, views, strided, one_alone])
def test_what_lies_otherwise_is_moved_one_by_one(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = ad.from_numpy(np.random.default_rng(1).standard_normal((6, 4)).astype(np.float32))
    results = [moved(monkeypatch, often, x, make(), 0.3) for often in (FEW, 0, NEVER)]
    for one, another, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(another, other)


def test_memory_that_cannot_be_written_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.ones(4, np.float32)
    running = [ad.from_numpy(array), ad.ones(4)]
    array.flags.writeable = False
    running[0]._array.flags.writeable = False
    for often in (FEW, 0, NEVER):
        monkeypatch.setattr(channel_norm, "FEW", 1 << 12 if often == FEW else 0)
        monkeypatch.setattr(channel_norm, "OFTEN", often)
        with pytest.raises(ValueError, match="read-only|writeable"):
            F.batch_norm(ad.arange(8.0).reshape(2, 4), *running, training=True)
    assert (array == 1).all()


def test_versions_advance_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """What autograd saved of a statistic is known to have changed."""
    x = ad.arange(8.0).reshape(2, 4)
    counts = []
    for often in (FEW, 0, NEVER):
        running = [ad.zeros(4), ad.ones(4)]
        moved(monkeypatch, often, x, running, 0.1)
        counts.append([t._version for t in running])
    assert counts[0] == counts[1] == counts[2] == [3, 3]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("shape", [(64, 5), (9, 5, 7, 6), (16, 5, 40)])
@pytest.mark.parametrize("level", [0.0, 1e3, -1e6])
def test_statistics_far_from_zero_are_rounded_once(
    level: float, shape: tuple[int, ...], compiled: bool
) -> None:
    x = np.random.default_rng(0).standard_normal(shape) * 3 + level
    given = ad.from_numpy(x).float()
    running = ad.zeros(5), ad.zeros(5)

    def move(x: ad.Tensor) -> ad.Tensor:
        return F.batch_norm(x, *running, training=True, momentum=1.0)

    (ad.compile(move) if compiled else move)(given)
    exact = np.moveaxis(given.double().numpy(), 1, 0).reshape(5, -1)
    one = np.spacing(np.float32(abs(level) + 1))
    np.testing.assert_allclose(running[0].numpy(), exact.mean(1), atol=0.75 * one, rtol=0)
    np.testing.assert_allclose(running[1].numpy(), exact.var(1, ddof=1), rtol=2e-6)
