"""Distances between pairs of rows as one kernel, against NumPy."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.graph.eager.fragments import FRAGMENTS, name_of
from adjoint.engine.ops.reduce.norms import _euclidean, distances_of

pdist = ad.nn.functional.pdist


@pytest.mark.parametrize("p", [1.0, 2.0, inf, 0.0, 3.0])
@pytest.mark.parametrize(("count", "length"), [(2, 600), (3, 300), (17, 8), (30, 3), (41, 37)])
def test_distances(count: int, length: int, p: float) -> None:
    rng = np.random.default_rng(count)
    x = rng.standard_normal((count, length))
    x[1] = x[0]
    one, other = np.triu_indices(count, 1)
    want = np.linalg.norm(x[one] - x[other], p, 1)
    FRAGMENTS.forget()
    np.testing.assert_allclose(pdist(ad.from_numpy(x), p).numpy(), want, rtol=1e-12)
    assert any("pdist" in f.what for f in FRAGMENTS.by_kind.values() if f is not None) or p in (
        0,
        3,
    )
    turned = ad.from_numpy(np.ascontiguousarray(x.T)).t()
    np.testing.assert_allclose(pdist(turned, p).numpy(), want, rtol=1e-12)
    for kind, near in ((ad.float32, 1e-5), (ad.bfloat16, 2e-2)):
        got = pdist(ad.from_numpy(x).to(kind), p).double().numpy()
        if p:
            np.testing.assert_allclose(got, want, rtol=near, atol=4 * near)


@pytest.mark.parametrize("p", [1.0, 2.0, inf])
def test_rows_that_hold_no_numbers(p: float) -> None:
    x = np.zeros((20, 19), "f4")
    x[3, 2], x[5, 18] = np.nan, np.inf
    one, other = np.triu_indices(20, 1)
    got = pdist(ad.from_numpy(x), p).numpy()
    assert np.array_equal(np.isnan(got), (one == 3) | (other == 3))
    assert np.array_equal(np.isinf(got), ((one == 5) | (other == 5)) & ~np.isnan(got))


def test_gradients_are_the_compositions() -> None:
    x = ad.randn(20, 12, dtype=ad.float64).requires_grad_()
    g = ad.randn(190, dtype=ad.float64)
    pdist(x).backward(g)
    want, numbers = np.zeros((20, 12)), x.detach().numpy()
    for k, (i, j) in enumerate(zip(*np.triu_indices(20, 1), strict=True)):
        step = (numbers[i] - numbers[j]) / np.linalg.norm(numbers[i] - numbers[j]) * float(g[k])
        want[i] += step
        want[j] -= step
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("count", [3, 40])
def test_distances_of_order_0_have_zero_gradients(count: int) -> None:
    x = (ad.arange(count * 4.0) % 3).reshape(count, 4).requires_grad_()
    y = ad.full((5, 4), float("inf")).requires_grad_()
    (pdist(x, 0.0).sum() + ad.cdist(x, y, 0.0).sum()).backward()
    assert x.grad.tolist() == ad.zeros(count, 4).tolist()
    assert y.grad.tolist() == ad.zeros(5, 4).tolist()


@pytest.mark.parametrize("count", [2, 40])
def test_all_coordinates_as_far_apart_have_the_whole_gradient(count: int) -> None:
    """Unlike a norm's, which is shared among them."""
    x = ad.zeros(count, 3)
    x[1] = ad.tensor([1.0, 1.0, -1.0])
    x.requires_grad_()
    pdist(x, float("inf")).sum().backward()
    want = np.outer([-1.0] * count, [1.0, 1.0, -1.0])
    want[1] *= 1 - count
    assert x.grad.tolist() == want.tolist()
    y = x.detach().requires_grad_()
    ad.cdist(y, ad.zeros(2, 3), float("inf")).sum().backward()
    assert y.grad.tolist() == [[0.0] * 3, [2.0, 2.0, -2.0], *[[0.0] * 3] * (count - 2)]


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, inf])
@pytest.mark.parametrize("kind", [ad.float64, ad.float32, ad.float16], ids=str)
def test_the_rule_of_distances_is_that_of_their_parts(p: float, kind: ad.dtype) -> None:
    rng = np.random.default_rng(7)
    values = rng.standard_normal((9, 4))
    values[4] = values[1]  # no way apart
    one, other = np.triu_indices(9, 1)
    g = ad.from_numpy(rng.standard_normal(36)).to(kind)
    gradients, wide = [], ad.float32 if kind.is_half else kind
    for whole in (True, False):
        x = ad.from_numpy(values).to(kind).requires_grad_()
        if whole:
            out = pdist(x, p)
            assert [node for node, _ in out.grad_fn.next_functions] == [
                node for node, _ in (x * 1).grad_fn.next_functions if node is not None
            ]
        else:
            single = x.to(wide)
            apart = single[ad.from_numpy(one)] - single[ad.from_numpy(other)]
            out = distances_of(apart, p).to(kind)
        out.backward(g)
        assert x.grad is not None
        gradients.append(x.grad.double().numpy())
    near = {ad.float64: 1e-12, ad.float32: 1e-5}.get(kind, 4e-3)
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=near, atol=near)


@pytest.mark.parametrize("shape", [(30, 8), (2, 27, 3)], ids=str)
@pytest.mark.parametrize("kind", [ad.float64, ad.float32], ids=str)
def test_the_rule_of_distances_by_a_product_is_that_of_its_parts(
    shape: tuple[int, ...], kind: ad.dtype
) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.integers(-9, 9, shape) / 4, rng.integers(-9, 9, (*shape[:-2], 12, shape[-1])) / 4
    y[..., 5, :] = x[..., 2, :]  # in one place
    g = ad.from_numpy(rng.standard_normal((*shape[:-1], 12))).to(kind)
    gradients = []
    for distances in (ad.cdist, _euclidean):
        leaves = [ad.from_numpy(values).to(kind).requires_grad_() for values in (x, y)]
        out = distances(*leaves)
        if distances is ad.cdist:
            assert len(out.grad_fn.next_functions) == 2
        gradients.append([d.numpy() for d in ad.autograd.grad(out, leaves, g)])
    near = 1e-12 if kind is ad.float64 else 1e-4
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(one, other, rtol=near, atol=near)


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
@pytest.mark.parametrize("shape", [(500, 10, 8), (90, 79, 3), (3, 64, 33, 5), (1, 1, 2100, 2)])
def test_distances_by_a_product_are_one_program(shape: tuple[int, ...], dtype: Any) -> None:
    FRAGMENTS.forget()
    *batch, n, m, k = shape
    rng = np.random.default_rng(n)
    x, y = (rng.standard_normal((*batch, rows, k)) for rows in (n, m))
    a, b = (ad.tensor(array, dtype=dtype).requires_grad_() for array in (x, y))
    x, y = (np.array(tensor.detach(), np.float64) for tensor in (a, b))  # as they were rounded
    apart = x[..., :, None, :] - y[..., None, :, :]
    want = np.sqrt((apart**2).sum(-1))
    got = ad.cdist(a, b)
    assert any(name_of(key[0]) == "euclidean" for key, made in FRAGMENTS.by_kind.items() if made)
    error = 1e-6 if dtype is ad.float64 else 4e-3  # of distances much less than rows are long
    np.testing.assert_allclose(np.array(got.detach()), want, error, error)
    got.sum().backward()
    if dtype is ad.float64:  # of points that nearly meet, float32 rounds the direction away
        unit = apart / want[..., None]
        for grad, ours in ((unit.sum(-2), a.grad), (-unit.sum(-3), b.grad)):
            np.testing.assert_allclose(np.array(ours), grad, 1e-6, 1e-6)
