"""Operations on some thousand elements: NumPy's bits before they are fragments and after."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.operations.large import COMPUTED
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.eager import sightings
from adjoint.engine.graph.eager.fragments import FRAGMENTS
from adjoint.engine.graph.eager.straight import straight_program

SHAPE = (47, 67)
KINDS = ["f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "?", "c8", "c16"]
QUICK = ("f4", "i8", "c8")


def images(x: ad.Tensor) -> ad.Tensor:
    """Some of a tensor's elements, as images whose channels come last."""
    return x.reshape(-1)[:2304].reshape(1, 12, 12, 16).permute(0, 3, 1, 2)


CALLS: dict[str, Any] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "number": lambda x, y: 3 + x * 2,
    "row": lambda x, y: x * y[:1],
    "clone": lambda x, y: x.clone(),
    "turned": lambda x, y: x.t().contiguous(),
    "cat": lambda x, y: ad.cat([x, y], 1),
    "stack": lambda x, y: ad.stack([x, y], 1),
    "flip": lambda x, y: x.flip(1),
    "relu": lambda x, y: x.relu(),
    "clamp": lambda x, y: x.clamp(-1, 1),
    "maximum": lambda x, y: ad.maximum(x, y),
    "tril": lambda x, y: x.tril(),
    "cummax": lambda x, y: x.cummax(1),
    "amax": lambda x, y: x.amax(0),
    "div": lambda x, y: x / y,
    "float": lambda x, y: x * 0.7 - 1.3,
    "bounds": lambda x, y: x.clamp(-0.7, 1.1),
    "sqrt": lambda x, y: x.sqrt(),
    "neg": lambda x, y: -x,
    "abs": lambda x, y: x.abs(),
    "sign": lambda x, y: x.sign(),
    "copysign": lambda x, y: ad.copysign(x, y),
    "heaviside": lambda x, y: ad.heaviside(x, y),
    "nextafter": lambda x, y: ad.nextafter(x, y),
    "rounded": lambda x, y: (x.floor(), x.ceil(), x.trunc(), x.round()),
    "kinds": lambda x, y: (x.isnan(), x.isinf(), x.isfinite(), x.signbit()),
    "compared": lambda x, y: (x == y, x != y, x < y, x <= y, x > 0.7, x >= 2),
    "where": lambda x, y: (ad.where(x == y, x, y), ad.where(x != 0, x, 2)),
    "masked_fill": lambda x, y: x.masked_fill(y == 0, 1),
    "logical": lambda x, y: (ad.logical_and(x, y), ad.logical_or(x, y), ad.logical_not(x)),
    "bits": lambda x, y: (x & y, x | y, x ^ y, ~x),
    "shifts": lambda x, y: (x << (y & 15), x >> (y & 15), x << y, x >> y),
    "common": lambda x, y: (ad.gcd(x, y), ad.lcm(x, y)),
}

# Of zeros of both signs NumPy finds one or the other the larger, as the machine's instruction does.
LARGER = ("maximum", "amax")

# Rows that are no multiple of a vector, strided operands, and none at all.
ODD = (70, 301)
AGAINST_TABLE: dict[str, Any] = {
    "pixels of channels": lambda x, y: ad.pixel_shuffle(images(x), 2),
    "channels of pixels": lambda x, y: ad.pixel_unshuffle(images(x), 2),
    "channels dealt out": lambda x, y: ad.channel_shuffle(images(x), 4),
    "cat of three": lambda x, y: ad.cat([x, y[:, :257], x.flip(0)], 1),
    "cat of strided rows": lambda x, y: ad.cat([x[::2], y[::2, 1:]], 1),
    "cat of turned": lambda x, y: ad.cat([x.t(), y.t()], 1),
    "cat with none": lambda x, y: ad.cat([x, y[:, :0], y], 1),
    "cat of columns": lambda x, y: ad.cat([x[:, :3], y, x[:, :1]], 1),
    "flip": lambda x, y: x.flip(1),
    "flip of both": lambda x, y: x.flip(0, 1),
    "flip of a part": lambda x, y: x[:, 1:-3].flip(1),
    "flip and another": lambda x, y: x.flip(1) * y[:, :1],
    "outer": lambda x, y: x[:, :1] * y[:1],
    "outer sum": lambda x, y: x[:, 0, None] + y[0],
    "cummax": lambda x, y: x.cummax(1),
    "cummin": lambda x, y: x.cummin(1),
    "cummax of columns": lambda x, y: x.cummax(0),
    "cummin of turned": lambda x, y: x.t().cummin(1),
    "cummax of none": lambda x, y: x[:0].cummax(1),
}


def numbers(rng: np.random.Generator, kind: str, shape: tuple[int, ...] = SHAPE) -> Any:
    """Numbers of all sizes, with those that are none."""
    dtype = np.dtype(kind)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        about = np.iinfo(dtype)
        return rng.integers(about.min, about.max, shape, dtype=dtype, endpoint=True)
    if dtype.kind == "c":
        part = "f4" if kind == "c8" else "f8"
        return (numbers(rng, part, shape) + 1j * numbers(rng, part, shape)).astype(dtype)
    found = rng.standard_normal(shape) * 10 ** rng.uniform(-4, 4, shape)
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, np.finfo(dtype).tiny, np.finfo(dtype).max]
    chosen = rng.random(shape) < (0.2 if shape == SHAPE else 0.01)
    found[chosen] = rng.choice(special, chosen.sum())
    return found.astype(dtype)


def bits(result: Any, name: str = "") -> list[Any]:
    """What results are, whatever kind of NaN, and of zero where the machine chooses."""
    found = []
    for one in result if isinstance(result, tuple) else (result,):
        array = np.asarray(one)
        plain = np.where(np.isnan(array), np.nan, array) if array.dtype.kind in "fc" else array
        plain = plain + plain.dtype.type(0) if name in LARGER else plain
        found.append((array.dtype, one.stride(), plain.tobytes()))
    return found


@pytest.mark.parametrize(
    "kind", [k if k in QUICK else pytest.param(k, marks=pytest.mark.slow) for k in KINDS]
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_bits_do_not_change(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    monkeypatch.setattr(sightings, "LOADING", sightings.WORTH)
    x, y = (ad.from_numpy(numbers(rng, kind)) for _ in range(2))
    for name, call in CALLS.items():
        FRAGMENTS.forget()
        try:
            first = bits(call(x, y), name)
        except (RuntimeError, TypeError):  # no such function of these numbers
            continue
        for turn in range(sightings.WORTH + 2):
            assert bits(call(x, y), name) == first, (name, turn)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_bits_are_the_tables(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    monkeypatch.setattr(sightings, "LOADING", sightings.WORTH)
    x, y = (ad.from_numpy(numbers(rng, kind, ODD)) for _ in range(2))
    for name, call in AGAINST_TABLE.items():
        FRAGMENTS.forget()
        try:
            with CONTEXT.having(reference=True):
                want = bits(call(x, y))
        except (RuntimeError, TypeError):  # no such function of these numbers
            continue
        for turn in range(sightings.WORTH + 2):
            assert bits(call(x, y)) == want, (name, turn)


@pytest.mark.parametrize("operands", [(2000, 1024), (90, 100), (30, 40)])
def test_large_results_of_few_elements_stay_programs(operands: tuple[int, int]) -> None:
    x, y = ad.randn(operands[0], 1), ad.randn(1, operands[1])
    want = np.asarray(x) * np.asarray(y)
    for turn in range(100):  # by then native code would have taken it for a small call
        assert np.array_equal(np.asarray(x * y), want), turn
    if np.size(want) >= COMPUTED:
        assert straight_program([x, y], lambda: x * y) is None


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
def test_the_derivative_of_digamma(dtype: Any) -> None:
    """As large fragments compute it: its recurrence and reflection, and limits."""
    special = pytest.importorskip("scipy.special")
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.uniform(0.05, 30, 2500), rng.lognormal(0, 5, 2500)])
    x = np.concatenate([x, rng.uniform(0.1, 0.9, 500) - rng.integers(0, 9, 500)])
    leaf = ad.tensor(np.concatenate([x, [np.inf, np.nan]]), dtype=dtype, requires_grad=True)
    exact = leaf.detach().double().numpy()[:-2]
    up, down = exact > 0, exact < 0
    want = np.empty_like(exact)
    want[up] = special.zeta(2.0, exact[up])
    sine = np.sin(np.pi * (exact[down] - np.rint(exact[down])))
    want[down] = (np.pi / sine) ** 2 - special.zeta(2.0, 1 - exact[down])
    ad.digamma(leaf).sum().backward()
    assert leaf.grad is not None
    got = leaf.grad.double().numpy()
    np.testing.assert_allclose(got[:-2], want, rtol=16 * ad.finfo(dtype).eps)
    assert got[-2] == 0.0
    assert np.isnan(got[-1])


@pytest.mark.parametrize("dims", [(1, 0), (0, 2, 1), (2, 1, 0), (1, 2, 0), (3, 1, 0, 2)])
def test_permuted_operands_make_results_that_lie_as_they_do(dims: tuple[int, ...]) -> None:
    """In one pass, and found by native code once there were many."""
    rng = np.random.default_rng(len(dims))
    shape = [(70, 61), (9, 20, 31), (4, 9, 11, 17)][len(dims) - 2]
    for turn in range(60):
        array = rng.standard_normal(shape).astype("f4")
        x = ad.from_numpy(array).permute(*dims)
        want = array.transpose(dims)
        for got, expected in (
            (x + x, want + want),
            (x * x[:1], want * want[:1]),
            (x.clamp(-0.5, 0.5), want.clip(-0.5, 0.5)),
        ):
            assert np.array_equal(got.numpy(), expected), turn
            assert got.stride() == x.stride()
    made = [f for f in FRAGMENTS.by_kind.values() if f is not None and "permute" in f.what]
    assert all(len(f.executable.image.segments[0]) == 1 for f in made)
