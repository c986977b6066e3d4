"""`multinomial` as kernels: the choices of the eager table, for any weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.templates.searching.weighed import STEPS, quotient
from adjoint.engine.core.state.context import CONTEXT
from tests.native_code import native

# Of weights and how many are chosen: few and many of a row, one row and several.
CASES = [
    ((1,), 3), ((2,), 9), ((7,), 40), ((100,), 8), ((5000,), 8), ((4096,), 16), ((3000,), 3000),
    ((3, 8), 5), ((40, 509), 8), ((70, 1024), 3), ((3, 4097), 2),
]  # fmt: skip


def weights(rng: Any, shape: tuple[int, ...], dtype: Any) -> list[tuple[str, Any]]:
    even = rng.random(shape).astype(dtype)
    holes, one_nan, one_none = even.copy(), even.copy(), even.copy()
    holes[..., ::2] = 0
    one_nan.flat[-1] = np.nan
    one_none.reshape(-1, shape[-1])[-1] = 0
    spread = np.exp(rng.normal(0, 8, shape)).astype(dtype)
    least = np.full(shape, np.finfo(dtype).smallest_subnormal)
    most = np.full(shape, np.finfo(dtype).max)
    return [
        ("even", even), ("holes", holes), ("spread", spread), ("least", least), ("most", most),
        ("tiny", (even * float(np.finfo(dtype).tiny)).astype(dtype)), ("one nan", one_nan),
        ("one row without", one_none), ("below zero", -even), ("infinite", most * 2),
    ]  # fmt: skip


def outcome(call: Any, *given: Any) -> Any:
    ad.manual_seed(6)
    try:
        return call(*given).tolist()
    except RuntimeError as error:
        return str(error).split("\n")[0]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "count"), CASES)
def test_choices_are_the_same(shape: tuple[int, ...], count: int, dtype: Any) -> None:
    def call(w: ad.Tensor) -> ad.Tensor:
        return ad.multinomial(w, count, replacement=True)

    compiled = ad.compile(call)
    with np.errstate(all="ignore"):
        rows = weights(np.random.default_rng(7), shape, dtype)
    for name, w in rows:
        x = ad.from_numpy(w)
        with CONTEXT.having(reference=True):
            want = outcome(call, x)
        assert outcome(call, x) == want, name
        got = outcome(compiled, x)
        assert got == want or (isinstance(want, str) and got.startswith(want)), name


@pytest.mark.parametrize("kind", STEPS)
def test_quotients_are_rounded_to_nearest(kind: str) -> None:
    """Also those near the middle between two doubles, and of divisors near powers of two."""
    rng = np.random.default_rng(8)
    bits = {"f32": 24, "f64": 53}[kind]
    count = 1 << 16
    d = rng.integers(1 << (bits - 1), 1 << bits, count).astype(np.float64)
    near = np.arange(count // 4)
    d[: count // 4] = (1 << bits) - 1.0 - near % (1 << 14)
    d[count // 4 : count // 2] = (1 << (bits - 1)) + 1.0 + near % (1 << 14)
    x = np.minimum(rng.integers(1, 1 << bits, count).astype(np.float64), d)
    # Products of the divisor with numbers of half a unit more than doubles have room for.
    x[::3] = np.floor(d[::3] * (rng.integers(1 << 30, 1 << 31, len(d[::3])) / (1 << 31)))
    divided = native(lambda x, d: quotient(x, d, 1.0 / d, STEPS[kind]), ("f64", "f64"), "f64", 4)
    np.testing.assert_array_equal(divided(x, d), x / d)


# Rows of which the first are selected, at the bound (64 times as long) and beyond, one and several.
FEW_OF = [((64,), 1), ((65,), 1), ((5000,), 8), ((4097,), 64), ((2049,), 33), ((3, 700), 10)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "count"), FEW_OF)
def test_the_first_of_an_order_are_the_same(shape: tuple[int, ...], count: int, dtype: Any) -> None:
    """Without replacement: of equal ones, as are all that weigh nothing, the first."""

    def call(w: ad.Tensor) -> ad.Tensor:
        return ad.multinomial(w, count)

    compiled = ad.compile(call)
    with np.errstate(all="ignore"):
        rows = weights(np.random.default_rng(8), shape, dtype)
    alone = np.zeros(shape, dtype)
    alone[..., -1] = 1
    for name, w in [*rows, ("one alone", alone)]:
        x = ad.from_numpy(w)
        with CONTEXT.having(reference=True):
            want = outcome(call, x)
        assert outcome(call, x) == want, name
        assert outcome(compiled, x) == want, name
