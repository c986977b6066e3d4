"""Many little matrices at once: products in registers, triangles, cofactors, against float64."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.array.kernels.linalg import cofactors
from adjoint.engine.graph.eager.fragments import FRAGMENTS
from adjoint.engine.ops.linalg.det import MOST_BY_MINORS

SIZES = [(1, 1, 1), (2, 3, 4), (3, 3, 3), (4, 4, 4), (5, 1, 7), (1, 8, 2), (8, 8, 8), (7, 5, 3)]
KINDS = ["f4", "f8"]


def laid_out(rng: np.random.Generator, how: str, batch: int, rows: int, columns: int) -> Any:
    """A batch of matrices that lie in memory in some way."""
    match how:
        case "turned":
            return rng.standard_normal((batch, columns, rows)).swapaxes(1, 2)
        case "strided":
            return rng.standard_normal((batch, 2 * rows, 3 * columns))[:, ::2, ::3]
        case "one":
            return rng.standard_normal((rows, columns))
    return rng.standard_normal((batch, rows, columns))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("first", "second"), [*product(["plain", "turned", "strided", "one"], repeat=2)]
)
def test_little_products(first: str, second: str, kind: str) -> None:
    rng = np.random.default_rng(5)
    for m, n, k in SIZES:
        x, y = laid_out(rng, first, 70, m, k), laid_out(rng, second, 70, k, n)
        x, y = (np.array(a, kind, order="K") for a in (x, y))
        want = x.astype("f8") @ y.astype("f8")
        got = (ad.from_numpy(x) @ ad.from_numpy(y)).numpy()
        bound = (np.abs(x) @ np.abs(y)).max() * 8 * np.finfo(kind).eps
        assert got.shape == want.shape
        assert got.dtype == x.dtype
        assert np.abs(got - want).max() <= bound, (m, n, k)


def test_little_products_are_fragments() -> None:
    FRAGMENTS.forget()
    x = ad.randn(100, 3, 3)
    x @ x
    assert any(fragment is not None for fragment in FRAGMENTS.by_kind.values())


def test_nans_and_infinities_of_little_products_stay_in_their_rows() -> None:
    x, y = np.ones((64, 3, 3), "f4"), np.ones((64, 3, 3), "f4")
    x[5, 1, 2], y[9, 0, 1] = np.nan, np.inf
    got = (ad.from_numpy(x) @ ad.from_numpy(y)).numpy()
    want = x @ y
    assert np.array_equal(got, want, equal_nan=True)


def test_gradients_of_little_products() -> None:
    rng = np.random.default_rng(1)
    x, y, g = (rng.standard_normal((80, 3, 4)) for _ in range(3))
    a, b = (ad.from_numpy(v).requires_grad_() for v in (x, y))
    (a @ b.mT).backward(ad.from_numpy(g @ y.swapaxes(1, 2)))
    back = g @ y.swapaxes(1, 2)
    np.testing.assert_allclose(a.grad.numpy(), back @ y, rtol=1e-12)
    np.testing.assert_allclose(b.grad.numpy(), back.swapaxes(1, 2) @ x, rtol=1e-12)


@pytest.mark.parametrize("kind", [*KINDS, "c8", "c16"])
@pytest.mark.parametrize(("upper", "unit"), [*product([False, True], repeat=2)])
def test_triangles(upper: bool, unit: bool, kind: str) -> None:
    rng = np.random.default_rng(2)
    for batch, n, columns in (((), 13, 11), ((70,), 3, 1), ((2, 40), 4, 5)):
        x = rng.standard_normal((*batch, n, n)) * 0.3 + np.eye(n) * 2
        y = rng.standard_normal((*batch, n, columns))
        if kind[0] == "c":
            x, y = x + 0.2j * x[..., ::-1], y - 1j * y[..., ::-1, :]
        x, y = x.astype(kind), y.astype(kind)
        part = np.triu(x) if upper else np.tril(x)
        if unit:
            part = part - part * np.eye(n) + np.eye(n)
        got = ad.linalg.solve_triangular(
            ad.from_numpy(x), ad.from_numpy(y), upper=upper, unitriangular=unit
        ).numpy()
        back = part.astype("c16") @ got.astype("c16") - y
        bound = 64 * n * np.finfo(kind).eps * (np.abs(part) @ np.abs(got)).max()
        assert np.abs(back).max() <= bound, (batch, n, columns)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("kind", ["f8", "c16"])
def test_derivatives_of_determinants(n: int, kind: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((20, n, n)).astype(kind)
    if kind == "c16":
        x = x + 1j * rng.standard_normal((20, n, n))
    if n > 1:
        x[0] = 0
        x[1, 0] = x[1, 1]  # singular, of rank n - 1
    t = ad.from_numpy(x).requires_grad_()
    total = ad.linalg.det(t).sum()
    (total.real if kind == "c16" else total).backward()
    want = np.zeros_like(x)
    for i, j in product(range(n), repeat=2):  # (-1)^(i + j) times the minor
        minor = np.delete(np.delete(x, i, 1), j, 2)
        with np.errstate(all="ignore"):  # of those that are zero
            value = np.linalg.det(minor) if n > 1 else np.ones(20)
        want[:, i, j] = np.conj(value) * (-1) ** (i + j)
    np.testing.assert_allclose(t.grad.numpy(), want, atol=1e-11)


def test_little_cofactors_are_those_of_singular_values() -> None:
    rng = np.random.default_rng(4)
    for n in range(2, MOST_BY_MINORS + 1):
        x = rng.standard_normal((30, n, n))
        u, s, vh = np.linalg.svd(x)
        others = np.stack([np.prod(np.delete(s, k, 1), 1) for k in range(n)], 1)
        turn = (np.linalg.det(u) * np.linalg.det(vh))[:, None, None]
        np.testing.assert_allclose(
            cofactors.by_minors(np, x), turn * (u * others[:, None]) @ vh, atol=1e-12
        )


FACTORED = {
    "cholesky": lambda a, b: ad.linalg.cholesky(a),
    "cholesky_solve": lambda a, b: ad.cholesky_solve(b, ad.linalg.cholesky(a)),
    "solve_triangular": lambda a, b: ad.linalg.solve_triangular(a, b, upper=False),
    "inv": lambda a, b: ad.linalg.inv(a),
    "solve": ad.linalg.solve,
    "logdet": lambda a, b: ad.logdet(a),
    "slogdet": lambda a, b: ad.linalg.slogdet(a)[1],
}


@pytest.mark.parametrize("name", FACTORED)
def test_a_few_little_matrices_are_one_program_and_as_one_by_one(name: str) -> None:
    FRAGMENTS.forget()
    rng = np.random.default_rng(3)
    x = rng.standard_normal((9, 2, 2))
    given = x @ x.swapaxes(1, 2) + 2 * np.eye(2), rng.standard_normal((9, 2, 1))

    def results(*arrays: Any) -> list[Any]:
        a, b = (ad.tensor(v, requires_grad=True) for v in arrays)
        out = FACTORED[name](a, b)
        out.backward(ad.ones_like(out) / 3)
        return [out.detach(), a.grad, *([] if b.grad is None else [b.grad])]

    many = results(*given)
    assert any(fragment is not None for fragment in FRAGMENTS.by_kind.values())
    single = [results(*pair) for pair in zip(*given, strict=True)]
    for k, result in enumerate(many):
        ad.testing.assert_close(result, ad.stack([one[k] for one in single]))


@pytest.mark.parametrize("kind", ["f4", "f8", "i8", "u1"])
@pytest.mark.parametrize("lead", [(), (7,), (2, 3), (0,)])
def test_columns_times_rows_are_the_library_s_to_the_bit(lead: Any, kind: str) -> None:
    rng = np.random.default_rng(len(lead))
    x = (rng.standard_normal((*lead, 70, 1)) * 5).astype(kind)
    y = (rng.standard_normal((*lead, 1, 90)) * 5).astype(kind)
    if x.size and x.dtype.kind == "f":
        x[..., :4, 0] = -0.0, 0.0, np.inf, np.nan
    got = (ad.from_numpy(x) @ ad.from_numpy(y)).numpy()
    with np.errstate(invalid="ignore"):
        want = np.matmul(x, y)
    assert got.shape == want.shape
    assert got.strides == want.strides
    np.testing.assert_array_equal(got, want)
    if got.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64, ad.complex64])
@pytest.mark.parametrize("n", [0, 1, 5, 2000])
def test_products_of_vectors_are_one_node(n: int, dtype: Any) -> None:
    x, y = (ad.randn(n, dtype=dtype).requires_grad_() for _ in range(2))
    for call in (ad.dot, ad.vdot, ad.inner, ad.matmul, lambda x, y: x @ y):
        out = call(x, y)
        plain = call(x.detach(), y.detach())
        assert out.shape == ()
        assert ad.allclose(out.detach(), plain, rtol=1e-4, atol=1e-4)
        first = x.conj() if call is ad.vdot else x
        one = ad.ones((), dtype=dtype)
        want = ad.autograd.grad((first * y).sum(), (x, y), one, create_graph=True)
        got = ad.autograd.grad(out, (x, y), one, create_graph=True)
        for g, w in zip(got, want, strict=True):
            assert ad.allclose(g, w)
        if n:
            again = ad.autograd.grad((got[0] * got[1].detach()).sum().abs(), y)
            assert again[0].shape == y.shape
    assert type(ad.dot(x, y).grad_fn).__name__ == "DotBackward0"
    assert ad.func.vmap(ad.dot)(ad.ones(3, n), ad.ones(3, n)).tolist() == [n] * 3


@pytest.mark.parametrize("n", [1100, 1900, 2047, 2048, 2500])
def test_products_of_vectors_keep_their_bits(n: int) -> None:
    """However often they are called, and whether anything follows them."""
    rng = np.random.default_rng(n)
    given = rng.standard_normal((2, n)).astype(np.float32)
    for followed in (False, True):
        found = set()
        for _ in range(20):
            x, y = ad.tensor(given, requires_grad=followed)
            found.add(float(ad.dot(x, y)))
        assert len(found) == 1
