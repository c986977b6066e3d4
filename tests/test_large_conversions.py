"""Conversions of many elements are compiled, and give what the table's kernels give."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.operations.record import HOOKS, REGISTRY
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.eager import sightings
from adjoint.engine.graph.eager.fragments import FRAGMENTS
from adjoint.engine.ops.shape.convert import CAST

DTYPES = [
    getattr(ad, name)
    for name in (
        "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
    ).split()
]
LAYOUTS: dict[str, Callable[[ad.Tensor], ad.Tensor]] = {
    "rows": lambda x: x,
    "turned": lambda x: x.t(),
    "every other": lambda x: x[:, ::2],
    "expanded": lambda x: x[:1].expand(x.shape),
}


def values() -> np.ndarray:
    """Numbers of all sizes, halfway between halves, at the ends of integers, and no numbers."""
    rng = np.random.default_rng(5)
    few = [0.0, -0.0, np.inf, -np.inf, np.nan, 255.5, -1.5, 65504, 65520, 65519.99, 6e-8, 2.9e-8]
    few += [1.0009765625 + 2.0**-11, 2.0**31, -(2.0**31), 2.0**63, -(2.0**63), 3.5e38, 1e-46]
    of_all_sizes = rng.standard_normal(3600) * 10.0 ** rng.integers(-14, 14, 3600)
    whole = rng.integers(-(2**62), 2**62, 1001).astype(float)
    return np.concatenate([few, of_all_sizes, whole]).reshape(66, 70)


def bits(x: ad.Tensor) -> np.ndarray:
    """The bits of each element, whichever they are of those that are no numbers."""
    dense = x.contiguous()
    array = dense.view(ad.int16).numpy() if x.dtype is ad.bfloat16 else dense.numpy()
    nans = dense.isnan().numpy()
    if array.dtype.kind == "c":
        array = np.ascontiguousarray(array)[..., None].view(array.real.dtype)
        nans = np.isnan(array)
    words = np.ascontiguousarray(array).view(f"u{array.itemsize}")
    return np.where(nans, 0, words)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fragments are made at the fourth call, whether or not a compiler is loaded."""
    monkeypatch.setattr(sightings, "LOADING", sightings.WORTH)
    HOOKS.load_rest()
    FRAGMENTS.forget()


TURNS = len(LAYOUTS)
SOME_TURNS = [
    turn if turn == 0 else pytest.param(turn, marks=pytest.mark.slow) for turn in range(TURNS)
]


@pytest.mark.parametrize("turn", SOME_TURNS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("old", DTYPES, ids=str)
def test_conversions_have_the_bits_of_the_tables(old: ad.dtype, layout: str, turn: int) -> None:
    """Each pair of dtypes in one layout after another; the others are slow."""
    place = [*LAYOUTS].index(layout)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of imaginary parts that are left out
        x = LAYOUTS[layout](ad.from_numpy(values()).to(old))
        for k, new in enumerate(DTYPES):
            if new is old or (k + DTYPES.index(old) + place + turn) % TURNS:
                continue
            with CONTEXT.having(reference=True):
                want = x.to(new)
            for _ in range(6):
                got = x.to(new)
            assert got.dtype is new
            assert got.stride() == want.stride()
            np.testing.assert_array_equal(bits(got), bits(want), err_msg=str(new))
    made = {k[0][-1] for k, f in FRAGMENTS.by_kind.items() if k[0][0] is CAST and f is not None}
    assert bool(made) == (not old.is_complex)


def test_few_elements_are_left_to_the_table() -> None:
    x = ad.randn(3, 5)
    for _ in range(6):
        x.half()
    assert REGISTRY["cast"].large > 15
    assert not [k for k in FRAGMENTS.by_kind if k[0][0] is CAST]
