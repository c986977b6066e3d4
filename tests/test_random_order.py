"""`randperm` on the CPU: the order that sorting the words gives, whatever the words are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.templates.sorting import random_order
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.random.random import RANDOM_ORDER, position_bits

# Around the sizes from which words are divided into parts, and below lanes.
SIZES = (1, 2, 3, 17, 64, 65, 1000, 1 << 14, (1 << 14) + 1, 40_000, (1 << 17) + 5)


def wanted(words: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """By NumPy's stable sort of what is left of the words."""
    keys = words >> np.uint64(position_bits(len(words)))
    return np.argsort(keys, kind="stable")


def ordered(words: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """By a compiled program."""
    call = ad.compile(lambda x: RANDOM_ORDER(x, dim=0))
    out: np.ndarray[Any, Any] = call(ad.from_numpy(words.view(np.int64))).numpy()
    return out


WORDS = {
    "even": lambda rng, n: rng.integers(0, 1 << 64, n, np.uint64),
    "equal": lambda rng, n: np.full(n, 7, np.uint64),
    "all bits": lambda rng, n: np.full(n, (1 << 64) - 1, np.uint64),
    "few": lambda rng, n: rng.integers(0, 4, n, np.uint64) << np.uint64(62),
    "falling": lambda rng, n: np.arange(n, 0, -1).astype(np.uint64) << np.uint64(40),
}


@pytest.mark.parametrize("kind", WORDS)
def test_any_words_come_into_order(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of one part, which take long: so parts are small here."""
    monkeypatch.setattr(random_order, "TOGETHER", 8)
    rng = np.random.default_rng(2)
    for n in (1, 2, 15, 256, 257, 3000):
        words = WORDS[kind](rng, n)
        np.testing.assert_array_equal(ordered(words), wanted(words))


@pytest.mark.parametrize("n", SIZES)
def test_sizes(n: int) -> None:
    words = WORDS["even"](np.random.default_rng(n), n)
    np.testing.assert_array_equal(ordered(words), wanted(words))


@pytest.mark.parametrize("n", [0, 5, 1500, 20_000])
@pytest.mark.parametrize("dtype", [ad.int64, ad.int32, ad.float64], ids=str)
def test_eager_and_compiled_calls_are_the_same(n: int, dtype: Any) -> None:
    def draw() -> ad.Tensor:
        return ad.randperm(n, dtype=dtype)

    with CONTEXT.having(reference=True):
        ad.manual_seed(n)
        want = [draw().tolist() for _ in range(3)]
    for call in (draw, ad.compile(draw)):
        ad.manual_seed(n)
        assert [call().tolist() for _ in range(3)] == want


def test_orders_of_a_batch_are_each_their_own() -> None:
    rows = ad.vmap(lambda x: ad.randperm(2000) + x, randomness="different")(ad.zeros(3))
    assert (rows.sort(-1).values == ad.arange(2000)).all()
    assert not (rows[0] == rows[1]).all()
