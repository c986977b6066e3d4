"""Padding with a constant as one program, against NumPy: any rank, layout, dtype and width."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.engine.graph.eager.fragments import FRAGMENTS
from adjoint.engine.ops.shape.pad import CONSTANT_PAD

pad = ad.nn.functional.pad
KINDS = ["float32", "float64", "float16", "int64", "int32", "int16", "uint8", "bool"]


def padded(x: Any, widths: list[tuple[int, int]], value: Any) -> Any:
    """What is cut, then what is added."""
    kept = tuple(
        slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, widths, strict=True)
    )
    added = [(max(a, 0), max(b, 0)) for a, b in widths]
    return np.pad(x[kept], added, constant_values=np.array(value).astype(x.dtype))


def given_widths(widths: list[tuple[int, int]]) -> list[int]:
    """As functions take them: from the last dimension on."""
    return [n for pair in reversed(widths) for n in pair]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size, and when first met."""
    monkeypatch.setattr(CONSTANT_PAD, "large", 1)
    monkeypatch.setattr("adjoint.engine.graph.eager.sightings.WAITS", False)
    FRAGMENTS.forget()


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_any_padding(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 5))
    shape = [data.draw(st.integers(1, 5)) for _ in range(rank)]
    shape[-1] = data.draw(st.sampled_from([1, 3, 7, 8, 9, 31, 33, 70]))
    widths = []
    for n in shape:
        a, b = (data.draw(st.integers(-2, 9)) for _ in range(2))
        fits = n + min(a, 0) + min(b, 0) > 0
        widths.append((a, b) if fits and data.draw(st.booleans()) else (0, 0))
    kind = data.draw(st.sampled_from(KINDS))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    order = data.draw(st.permutations(range(rank)))
    x = (rng.standard_normal([shape[d] for d in order]) * 50).astype("i8").astype(kind)
    x = x.transpose(np.argsort(order))  # lies in some order
    value = data.draw(st.sampled_from([0, 1, 3])) if kind in ("uint8", "bool") else -2
    got = pad(ad.from_numpy(x), given_widths(widths), value=value).numpy()
    want = padded(x, widths, value)
    assert got.flags.c_contiguous
    assert got.dtype == want.dtype
    assert np.array_equal(got, want)


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float32", "float64"])
def test_bits_are_kept(name: str) -> None:
    """Of numbers that are none, too; the constant is rounded as `full` rounds it."""
    numbers = np.array([np.nan, -0.0, np.inf, -np.inf, 1e-45, 0.1, -2.5, 7], "f4")
    x = ad.from_numpy(numbers).to(getattr(ad, name))
    got = pad(x, (2, 19), value=0.1)
    want = ad.cat([x.new_full((2,), 0.1), x, x.new_full((19,), 0.1)])
    assert got.view(ad.uint8).tolist() == want.view(ad.uint8).tolist()


def test_gradients_to_second_order() -> None:
    x = ad.randn(3, 4, 5, dtype=ad.float64).requires_grad_()
    assert ad.autograd.gradcheck(lambda x: pad(x, (1, 2, -1, 0, 0, 3), value=0.5), (x,))
    assert ad.autograd.gradgradcheck(lambda x: pad(x, (1, -2, 2, 1)) ** 2, (x,))


def test_it_is_one_program() -> None:
    x = ad.randn(4, 3, 8, 8)
    pad(x, (1, 1, 1, 1))
    (fragment,) = FRAGMENTS.by_kind.values()
    assert fragment is not None
    assert fragment.what == "constant_pad"


def test_the_number_of_workers_does_not_matter() -> None:
    x, before = ad.randn(40, 7, 30, 31), ad.get_num_threads()
    results = []
    try:
        for workers in (1, 2, 3):
            ad.set_num_threads(workers)
            results.append(pad(x, (3, 4, 5, 6), value=2.0).numpy().copy())
    finally:
        ad.set_num_threads(before)
    assert all(np.array_equal(results[0], one) for one in results)


def test_what_is_refused() -> None:
    with pytest.raises(RuntimeError, match="negative output size"):
        pad(ad.ones(3, 4), (-3, -2))


@pytest.mark.parametrize("rank", [4, 5])
def test_images_whose_channels_lie_innermost(rank: int) -> None:
    """They are rows of channels to the kernel; results lie as they do."""
    draws = np.random.default_rng(rank)
    innermost = {4: ad.channels_last, 5: ad.channels_last_3d}[rank]
    for channels in (2, 7, 16, 33):
        shape = (2, channels, *draws.integers(2, 6, rank - 2).tolist())
        x = draws.standard_normal(shape).astype("f4")
        widths = [(0, 0), *[tuple(draws.integers(-1, 3, 2).tolist()) for _ in shape[1:]]]
        widths[1] = widths[1] if channels == 7 else (0, 0)
        want = padded(x, widths, -2)
        given_ = ad.tensor(x).contiguous(memory_format=innermost).requires_grad_()
        got = pad(given_, given_widths(widths), value=-2)
        np.testing.assert_array_equal(got.detach().numpy(), want)
        if 0 not in want.shape:
            assert got.is_contiguous(memory_format=innermost)
        got.sum().backward()
        kept = padded(np.ones_like(want), [(-a, -b) for a, b in widths], 0)
        np.testing.assert_array_equal(given_.grad.numpy(), kept)
