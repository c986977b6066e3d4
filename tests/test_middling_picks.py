"""Vectors and rows that positions pick, in eager mode on the CPU, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.eager.fragments import FRAGMENTS
from adjoint.engine.ops.nn.bags import EMBEDDING_BAG_MAX

F = ad.nn.functional
MODES = ["sum", "mean", "max"]


@pytest.mark.parametrize("shape", [(3,), (300,), (7, 50), (2, 1, 40)])
@pytest.mark.parametrize("classes", [1, 2, 10, 101, 1000])
def test_one_hot_vectors(shape: tuple[int, ...], classes: int) -> None:
    index = np.random.default_rng(0).integers(0, classes, shape)
    want = (index[..., None] == np.arange(classes)).astype("i8")
    for _ in range(2):
        got = F.one_hot(ad.from_numpy(index), classes)
        assert got.dtype is ad.int64
        assert np.array_equal(got.numpy(), want)
    turned = ad.from_numpy(index.T)
    assert np.array_equal(F.one_hot(turned, classes).numpy(), np.moveaxis(want.T, 0, -1))


def test_one_hot_vectors_are_one_fragment() -> None:
    FRAGMENTS.forget()
    F.one_hot(ad.arange(64) % 10, 1000)
    (fragment,) = FRAGMENTS.by_kind.values()
    assert fragment is not None


@pytest.mark.parametrize("count", [4, 64, 3000])
def test_classes_that_there_are_not(count: int) -> None:
    index = ad.arange(count) % 100
    with pytest.raises(RuntimeError, match="smaller than num_classes"):
        F.one_hot(index, min(count, 100) - 1)
    index[1] = -1
    with pytest.raises(RuntimeError, match="non-negative"):
        F.one_hot(index, 100)
    with pytest.raises(RuntimeError, match="should be positive"):
        F.one_hot(index, 0)
    with pytest.raises(RuntimeError, match="empty"):
        F.one_hot(index[:0])
    assert F.one_hot(index[:0], 5).shape == (0, 5)
    assert F.one_hot(index[:0], 0).shape == (0, 0)


# -- bags ---------------------------------------------------------------------------------------


def bags_of(x: Any, index: Any, begins: Any, mode: str) -> tuple[Any, Any]:
    """Each bag by itself, and the table's gradient where the bags' is their numbers from 1 on."""
    ends, grad, pooled = [*begins[1:], len(index)], np.zeros_like(x), []
    for b, (low, high) in enumerate(zip(begins, ends, strict=True)):
        rows = x[index[low:high]]
        g = np.full(x.shape[1], b + 1.0)
        if not len(rows):
            pooled.append(np.zeros(x.shape[1]))
        elif mode == "max":
            pooled.append(rows.max(0))
            grad[index[low:high][rows.argmax(0)], np.arange(x.shape[1])] += g
        else:
            pooled.append(rows.sum(0) / (len(rows) if mode == "mean" else 1))
            np.add.at(grad, index[low:high], g / (len(rows) if mode == "mean" else 1))
    return np.stack(pooled), grad


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("rows", "length"), [(700, 3), (300, 8), (90, 41), (50, 130)])
def test_bags(rows: int, length: int, mode: str) -> None:
    rng = np.random.default_rng(rows)
    x = rng.integers(-20, 20, (rows, length)).astype("f8")  # some are equal
    index = rng.integers(0, rows, 75)
    for begins in ([0], [0, 0, 5, 5, 40, 75], [*range(0, 75, 5)]):
        want, grad = bags_of(x, index, begins, mode)
        t = ad.from_numpy(x).requires_grad_()
        got = F.embedding_bag(ad.from_numpy(index), t, ad.tensor(begins), mode=mode)
        np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-12)
        got.backward(ad.arange(1.0, len(begins) + 1).double()[:, None].expand(got.shape))
        np.testing.assert_allclose(t.grad.numpy(), grad, rtol=1e-12)
    even = F.embedding_bag(ad.from_numpy(index.reshape(15, 5)), t, mode=mode)
    np.testing.assert_allclose(even.detach().numpy(), want, rtol=1e-12)
    assert any("embedding_bag" in f.what for f in FRAGMENTS.by_kind.values() if f is not None)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32"])
def test_bags_are_what_they_are_composed_of(kind: str, mode: str) -> None:
    rng = np.random.default_rng(3)
    x = ad.from_numpy(rng.standard_normal((300, 20))).to(getattr(ad, kind))
    x[6, 8] = -float("inf")
    if mode != "max":
        x[5, 7] = float("nan")
    index, begins = ad.from_numpy(rng.integers(0, 300, 500)), ad.arange(0, 500, 25)
    index[:25] = 6
    results = []
    for reference in (False, True):
        with CONTEXT.having(reference=reference):
            t = x.clone().requires_grad_()
            out = F.embedding_bag(index, t, begins, mode=mode)
            out[1:].sum().backward()
        results.append([v.detach().float().numpy() for v in (out, t.grad)])
    (mine, grad), (theirs, other) = results
    near = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5}[kind]
    if mode == "max":
        assert mine[0, 8] == -np.inf  # the composition takes it for an empty bag
        mine, theirs = mine[1:], theirs[1:]
    np.testing.assert_allclose(mine, theirs, rtol=near, atol=near)
    if mode != "max" or kind == "float32":  # of halves some are equal, which share it there
        np.testing.assert_allclose(grad, other, rtol=near, atol=near)


def test_derivatives_of_bags() -> None:
    x = ad.randn(4, 3, dtype=ad.float64).requires_grad_()
    wide = ad.randn(3, 700, dtype=ad.float64)  # a table that is large
    index, begins = ad.tensor([0, 1, 1, 3, 2]), ad.tensor([0, 2, 2])
    for mode in MODES:

        def call(x: ad.Tensor, mode: str = mode) -> ad.Tensor:
            return F.embedding_bag(index, x @ wide, begins, mode=mode) @ wide.T

        assert ad.autograd.gradcheck(call, (x,))
        assert ad.autograd.gradgradcheck(lambda x, call=call: call(x) ** 2, (x,))


@pytest.mark.parametrize("mode", MODES)
def test_bags_that_cannot_be(mode: str) -> None:
    x, index = ad.randn(100, 30), ad.arange(40)
    with pytest.raises((IndexError, RuntimeError), match="100|out of"):
        F.embedding_bag(ad.arange(80, 120), x, ad.tensor([0, 20]), mode=mode)
    with pytest.raises((IndexError, RuntimeError)):
        F.embedding_bag(index - 1, x, ad.tensor([0, 20]), mode=mode)
    with pytest.raises((IndexError, RuntimeError)):
        F.embedding_bag(index, x, ad.tensor([0, 41]), mode=mode)
    with pytest.raises((IndexError, RuntimeError)):
        F.embedding_bag(index, x, ad.tensor([1, 20]), mode=mode)


def test_the_first_rows_with_the_largest_are_chosen() -> None:
    rng = np.random.default_rng(4)
    x = ad.from_numpy(rng.integers(-3, 3, (200, 13)).astype("f4"))
    x[7], x[8], x[9] = float("nan"), -float("inf"), float("inf")
    index, begins = ad.from_numpy(rng.integers(0, 30, 90)), ad.tensor([0, 3, 3, 4, 50, 90])
    got = EMBEDDING_BAG_MAX(x, index, begins, mode="max")
    with CONTEXT.having(reference=True):
        want = EMBEDDING_BAG_MAX(x, index, begins, mode="max")
    for mine, theirs in zip(got, want, strict=True):
        assert np.array_equal(mine.numpy(), theirs.numpy(), equal_nan=mine.dtype is ad.float32)
