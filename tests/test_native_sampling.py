"""Sampling at the points of a grid as programs of their own, against what it is composed of."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import compile
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.eager.fragments import FRAGMENTS
from adjoint.engine.ops.image import grid as grids

CASES = [*product(range(3), range(3), (False, True))]  # interpolation, padding, corners aligned
SHAPES = [
    ((2, 3, 4, 5), (2, 9, 8, 2)),
    ((1, 5, 1, 7), (1, 3, 23, 2)),
    ((3, 2, 6, 1), (3, 70, 1, 2)),
]
VOLUMES = [((2, 3, 4, 5, 3), (2, 3, 4, 6, 3)), ((1, 2, 1, 2, 1), (1, 67, 1, 1, 3))]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size."""
    for record in (grids.GRID_SAMPLER_WHOLE, grids.GRID_SAMPLER_GRADIENT):
        monkeypatch.setattr(record, "large", 1)
    FRAGMENTS.forget()


def sampled(x: Any, y: Any, g: Any, how: Any) -> list[Any]:
    """Samples, and the gradients of image and grid."""
    a, b = (ad.from_numpy(v).requires_grad_() for v in (x, y))
    out = ad.grid_sampler(a, b, *how)
    out.backward(ad.from_numpy(g))
    return [v.detach().numpy() for v in (out, a.grad, b.grad)]


def compared(shapes: Any, how: Any, kind: str) -> None:
    rng = np.random.default_rng(3)
    for image, points in shapes:
        x = rng.standard_normal(image).astype(kind)
        y = (rng.uniform(-2.7, 2.7, points)).astype(kind)
        g = rng.standard_normal((*image[:2], *points[1:-1])).astype(kind)
        got = sampled(x, y, g, how)
        with CONTEXT.having(reference=True):
            want = sampled(x, y, g, how)
        for mine, theirs in zip(got, want, strict=True):
            assert mine.shape == theirs.shape
            near = 1e-11 if kind == "f8" else 3e-4
            np.testing.assert_allclose(mine, theirs, rtol=near, atol=near)


@pytest.mark.parametrize("how", CASES)
def test_images(how: tuple[int, int, bool]) -> None:
    compared(SHAPES[how[0] == 2 :], how, "f8")  # sixteen pixels take the composition long
    assert any(fragment is not None for fragment in FRAGMENTS.by_kind.values())


@pytest.mark.parametrize("how", [case for case in CASES if case[0] != 2])
def test_volumes(how: tuple[int, int, bool]) -> None:
    compared(VOLUMES, how, "f8")


@pytest.mark.parametrize("how", [(0, 0, False), (1, 1, True), (2, 2, False), (0, 2, True)])
def test_single_precision(how: tuple[int, int, bool]) -> None:
    compared(SHAPES[:1], how, "f4")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("how", [case for case in CASES if not case[2]])
def test_points_that_are_nowhere(how: tuple[int, int, bool]) -> None:
    rng = np.random.default_rng(5)
    x = ad.from_numpy(rng.standard_normal((1, 2, 4, 5)))
    y = rng.uniform(-1, 1, (1, 3, 5, 2))
    y.reshape(-1)[:9] = [np.nan, np.inf, -np.inf, 1, -1, 0, np.nan, 1e30, -1e30]
    got = ad.grid_sampler(x, ad.from_numpy(y), *how).numpy()
    with CONTEXT.having(reference=True):
        want = ad.grid_sampler(x, ad.from_numpy(y), *how).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_pixels_that_are_no_numbers_stay_where_they_are() -> None:
    x = np.zeros((1, 1, 4, 4))
    x[0, 0, 0, 0] = np.inf
    y = np.full((1, 1, 3, 2), 5.0)  # outside
    y[0, 0, 1] = 0.3
    got = ad.grid_sampler(ad.from_numpy(x), ad.from_numpy(y), 0, 0, False).numpy()
    assert not got.any()


def test_second_order() -> None:
    """The gradient of a gradient, which the composition is differentiated for."""
    rng, results = np.random.default_rng(6), []
    given = rng.standard_normal((1, 1, 3, 2)), rng.uniform(-0.8, 0.8, (1, 2, 1, 2))
    for reference in (False, True):
        with CONTEXT.having(reference=reference):
            x, y = (ad.from_numpy(v).requires_grad_() for v in given)
            out = ad.grid_sampler(x, y, 0, 1, False) ** 2
            first = ad.autograd.grad(out.sum(), (x, y), create_graph=True)
            second = ad.autograd.grad(sum((g**2).sum() for g in first), (x, y))
        results.append([g.numpy() for g in second])
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)


def test_one_gradient_alone() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 3, 5, 6)), rng.uniform(-1, 1, (2, 4, 4, 2))
    both = sampled(x, y, np.ones((2, 3, 4, 4)), (0, 0, True))
    a, b = (ad.from_numpy(v) for v in (x, y))
    (one,) = ad.autograd.grad(ad.grid_sampler(a.requires_grad_(), b, 0, 0, True).sum(), a)
    a = a.detach()
    (other,) = ad.autograd.grad(ad.grid_sampler(a, b.requires_grad_(), 0, 0, True).sum(), b)
    np.testing.assert_allclose(one.numpy(), both[1], rtol=1e-12)
    np.testing.assert_allclose(other.numpy(), both[2], rtol=1e-12)


def test_the_number_of_workers_does_not_matter() -> None:
    rng, before, results = np.random.default_rng(2), ad.get_num_threads(), []
    x, y = rng.standard_normal((1, 7, 9, 8)), rng.uniform(-1.2, 1.2, (1, 40, 11, 2))
    try:
        for workers in (1, 2, 3):
            ad.set_num_threads(workers)
            results.append(sampled(x, y, np.ones((1, 7, 40, 11)), (0, 0, False)))
    finally:
        ad.set_num_threads(before)
    for others in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], others, strict=True))


def test_compiled() -> None:
    x, y = ad.randn(2, 3, 8, 8), ad.rand(2, 5, 5, 2) * 2 - 1
    call = compile(lambda x, y: ad.grid_sampler(x, y, 0, 0, False) * 2)
    with CONTEXT.having(reference=True):
        want = ad.grid_sampler(x, y, 0, 0, False) * 2
    np.testing.assert_allclose(call(x, y).numpy(), want.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("padding", [0, 1])
def test_points_that_are_pixels_have_the_neighbour_on_their_right(
    padding: int, reference: bool
) -> None:
    """Where `(g + 1) * size - 1` is rounded once; rounded twice, some lie before their pixel."""
    size, one = 57, np.float32(1)
    at = ((2 * np.arange(size) + 1) / size - 1).astype(np.float32)
    wide = (at + one).astype(np.float64) * size
    exact = ((wide - 1) / 2).astype(np.float32)
    twice = ((at + one) * np.float32(size) - one) / np.float32(2)
    assert (np.floor(exact) != np.floor(twice)).any()
    image = np.cumsum(np.arange(1, size + 1, dtype=np.float32) % 7)
    points = np.stack([at, np.zeros_like(at)], -1)[None, None]
    x, y = image.reshape(1, 1, 1, size), points
    with CONTEXT.having(reference=reference):
        moved = sampled(x, y, np.ones((1, 1, 1, size), np.float32), (0, padding, False))[2]
    inside = (exact > 0) & (exact < size - 1)
    below = np.floor(exact[inside]).astype(int)
    slopes = (image[below + 1] - image[below]) * size / 2
    np.testing.assert_allclose(moved[0, 0, inside, 0], slopes, rtol=1e-5)
