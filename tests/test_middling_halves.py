"""Halves in fragments: every bit pattern, and few elements, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.backends.registers import half_bits
from adjoint.engine.core.operations.large import HALVES
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.eager.fragments import FRAGMENTS

EVERY = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
NAMES = ["bfloat16", "float16"]
CALLS: dict[str, Any] = {
    "neg": lambda x, y: -x,
    "abs": lambda x, y: x.abs(),
    "relu": lambda x, y: x.relu(),
    "maximum": lambda x, y: ad.maximum(x, y),
    "minimum": lambda x, y: ad.minimum(x, y),
    "fmax": lambda x, y: ad.fmax(x, y),
    "where": lambda x, y: ad.where(x > y, x, y),
    "number": lambda x, y: ad.where(x > y, x, 0.1),
    "exact number": lambda x, y: ad.where(x > y, x, 0.25),
    "clamp": lambda x, y: x.clamp(-0.7, 1.1),
    "exact clamp": lambda x, y: x.clamp(-0.75, 1.5),
    "clamp by tensors": lambda x, y: x.clamp(min=y),
    "clone": lambda x, y: x.clone(),
    "turned": lambda x, y: x.reshape(256, 256).t().contiguous(),
    "mul": lambda x, y: x * y,
    "number times": lambda x, y: x * 0.1,
    "chain": lambda x, y: ad.nn.functional.hardtanh(-x * y, -0.3, 0.4),
    "single": lambda x, y: x.float() * 0.3,
    "of single": lambda x, y: (x.float() * 1.001).to(x.dtype),
}


def words(x: Any) -> Any:
    """The bits of elements; of those that are no numbers, that they are none."""
    array = x.numpy() if x.dtype is not ad.bfloat16 else x.float().numpy()
    return np.where(np.isnan(array), np.nan, array).tobytes()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_half(call: str, name: str) -> None:
    numpy = NUMPY_OF[getattr(ad, name)]
    other = np.random.default_rng(2).permutation(EVERY)
    x, y = (ad.tensor(v.view(np.int16)).view(getattr(ad, name)) for v in (EVERY, other))
    assert x._array.dtype == numpy
    got = CALLS[call](x, y)
    with CONTEXT.having(reference=True):
        want = CALLS[call](x, y)
    assert words(got) == words(want)


@pytest.mark.parametrize("name", NAMES)
def test_few_halves_are_fragments(name: str) -> None:
    x = ad.randn(HALVES).to(getattr(ad, name)).requires_grad_()
    FRAGMENTS.forget()
    ad.nn.functional.silu(x).sum().backward()
    made = [f.what for f in FRAGMENTS.by_kind.values() if f is not None]
    assert len(made) >= 2
    with CONTEXT.having(reference=True):
        y = x.detach().clone().requires_grad_()
        ad.nn.functional.silu(y).sum().backward()
    np.testing.assert_allclose(x.grad.float().numpy(), y.grad.float().numpy(), atol=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_native_code_finds_halves(name: str) -> None:
    """Again and again, by other tensors of one kind, and then by those of another dtype."""
    kind, rng = getattr(ad, name), np.random.default_rng(0)
    for turn in range(80):
        x = ad.from_numpy(rng.standard_normal(500).astype("f4")).to(kind)
        assert np.array_equal((-x).float().numpy(), -x.float().numpy()), turn
    single = ad.from_numpy(rng.standard_normal(500).astype("f4"))
    assert (-single).dtype is ad.float32
    short = ad.arange(500, dtype=ad.int16)
    assert (-short).dtype is ad.int16


def test_numbers_that_bfloat16_has() -> None:
    for number in (0.0, -0.0, 1.5, 3e38, 1e-40, 0.1, 2.0**-133, 2.0**-134, 1e300, float("nan")):
        with np.errstate(over="ignore"):
            here = np.float64(number).astype(NUMPY_OF[ad.bfloat16]).astype(np.float64)
        same = bool(here == number) or number != number
        assert half_bits.is_bfloat16(number) == same, number


@pytest.mark.parametrize("name", NAMES)
def test_conversions_of_many_are_the_kernels_to_the_bit(name: str) -> None:
    half = getattr(ad, name)
    rng = np.random.default_rng(4)
    bits = rng.integers(0, 1 << 32, (300, 257), dtype=np.uint32).view(np.float32)
    bits[0, :8] = 0.0, -0.0, np.inf, -np.inf, 65504.0, 65520.0, 6e-8, 1e-45
    single = ad.from_numpy(bits)
    narrow = ad.from_numpy(EVERY.view(np.int16)).view(half)
    for x, dtype in (
        (single, half),
        (single[:, 1:], half),
        (single.t(), half),
        (narrow, ad.float32),
    ):
        with CONTEXT.having(reference=True):
            want = x.to(dtype)
        for _ in range(6):  # fragments that have the same bits wait to be met again
            got = x.to(dtype)
        assert got.stride() == want.stride()
        assert words(got) == words(want)
    x = ad.randn(300, 257, requires_grad=True)
    (g,) = ad.autograd.grad(x.to(half).float().sum(), x)
    assert g.dtype is ad.float32
    assert g.eq(1).all()
