"""A few eigenpairs by `lobpcg`, beside those of SciPy's and our own decompositions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import linalg as scipy_linalg

import adjoint as ad

Array = np.ndarray[Any, Any]


def positive(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    """Symmetric (or Hermitian) positive definite matrices."""
    x = rng.normal(size=shape)
    if np.issubdtype(dtype, np.complexfloating):
        x = x + 1j * rng.normal(size=shape)
    made: Array = x @ x.conj().swapaxes(-1, -2) / shape[-1] + np.eye(shape[-1])
    return made.astype(dtype)


def expected(a: Array, b: Array | None, k: int, largest: bool) -> Array:
    found: Array = scipy_linalg.eigh(a, b, eigvals_only=True)
    return found[::-1][:k] if largest else found[:k]


@pytest.mark.parametrize("method", ["ortho", "basic"])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("generalised", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_eigenpairs(method: str, largest: bool, generalised: bool, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for m, k in ((9, 3), (16, 2)):
        a = positive(rng, (m, m), dtype)
        b = positive(rng, (m, m), dtype) if generalised else None
        X0 = ad.tensor(rng.normal(size=(m, k)).astype(dtype))
        B = None if b is None else ad.tensor(b)
        E, X = ad.lobpcg(ad.tensor(a), k, B, X0, largest=largest, method=method)
        assert tuple(X.shape) == (m, k)
        rough = 1e-4 if dtype == np.float32 else 1e-9
        np.testing.assert_allclose(E.numpy(), expected(a, b, k, largest), rough)
        x = X.numpy()
        bx = x if b is None else b @ x
        residual = np.linalg.norm(a @ x - bx * E.numpy(), axis=0)
        assert residual.max() < (1e-2 if dtype == np.float32 else 1e-6)
        np.testing.assert_allclose(x.conj().T @ bx, np.eye(k), atol=1e-3)


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_sparse_matrices(layout: str) -> None:
    a = (
        np.diag(np.arange(1.0, 31.0))
        + np.diag(np.full(29, 0.25), 1)
        + np.diag(np.full(29, 0.25), -1)
    )
    A = ad.tensor(a)
    sparse = A.to_sparse() if layout == "coo" else A.to_sparse_csr()
    E, X = ad.lobpcg(sparse, 3, X=ad.randn(30, 3, dtype=ad.float64))
    np.testing.assert_allclose(E.numpy(), np.linalg.eigvalsh(a)[::-1][:3], 1e-10)
    assert ((A @ X - X * E).abs() < 1e-5).all()


def test_batches_and_defaults() -> None:
    rng = np.random.default_rng(1)
    a = positive(rng, (2, 3, 12, 12), np.float64)
    E, X = ad.lobpcg(ad.tensor(a), 2, n=3)
    assert (tuple(E.shape), tuple(X.shape)) == ((2, 3, 2), (2, 3, 12, 2))
    np.testing.assert_allclose(E.numpy(), np.linalg.eigvalsh(a)[..., ::-1][..., :2], 1e-9)
    assert ad.lobpcg(ad.tensor(a[0, 0]))[0].shape == (1,)
    start = ad.tensor(rng.normal(size=(12, 4)))
    assert ad.lobpcg(ad.tensor(a[0, 0]), X=start)[0].shape == (4,)
    assert ad.lobpcg(ad.diag(ad.arange(1, 8)), 1)[0].dtype == ad.float32
    whole = ad.lobpcg(ad.tensor(a[:0]), 2)
    assert [tuple(t.shape) for t in whole] == [(0, 3, 2), (0, 3, 12, 2)]


def test_matrices_of_one_eigenvalue() -> None:
    for scale in (0.0, 1.0):
        E, X = ad.lobpcg(ad.eye(9, dtype=ad.float64) * scale, 2)
        np.testing.assert_allclose(E.numpy(), [scale, scale], atol=1e-12)
        np.testing.assert_allclose((X.mT @ X).numpy(), np.eye(2), atol=1e-10)


def test_preconditioner_and_tracker() -> None:
    a = positive(np.random.default_rng(2), (30, 30), np.float64)
    A, X0 = ad.tensor(a), ad.tensor(np.random.default_rng(3).normal(size=(30, 1)))
    steps: dict[str, list[Any]] = {"plain": [], "iK": []}

    def count(name: str, **options: Any) -> int:
        seen = steps[name]
        ad.lobpcg(A, 1, X=X0, largest=False, tracker=lambda w: seen.append(w), **options)
        return len(seen)

    assert count("iK", iK=ad.linalg.inv(A)) < count("plain") / 2
    worker = steps["plain"][-1]
    assert worker.ivars["istep"] == len(steps["plain"])
    assert worker.ivars["converged_count"] == 1
    assert worker.tvars["rerr"][0] < worker.fparams["tol"]
    assert worker.iparams["niter"] == 1000
    np.testing.assert_allclose((A @ worker.X - worker.X * worker.E).numpy(), worker.R.numpy())


@pytest.mark.parametrize("method", ["ortho", "basic"])
def test_when_it_stops(method: str) -> None:
    a = ad.tensor(positive(np.random.default_rng(4), (40, 40), np.float64))
    seen: list[int] = []
    ad.lobpcg(a, 2, niter=3, method=method, tracker=lambda w: seen.append(w.ivars["istep"]))
    assert seen == [1, 2, 3]

    def stop(worker: Any) -> None:
        seen.append(worker.ivars["istep"])
        worker.bvars["force_stop"] = worker.ivars["istep"] == 2

    ad.lobpcg(a, 2, method=method, tracker=stop)
    assert seen[3:] == [1, 2]
    loose: list[Any] = []
    tight: list[Any] = []
    ad.lobpcg(a, 2, tol=1e-2, method=method, tracker=loose.append)
    ad.lobpcg(a, 2, tol=1e-6, niter=-1, method=method, tracker=tight.append)
    assert len(loose) < len(tight)


@pytest.mark.parametrize("drop", [False, True])
def test_dependent_starts(drop: bool) -> None:
    """Columns that repeat others are no basis: what they lack is found."""
    a = positive(np.random.default_rng(5), (30, 30), np.float64)
    start = ad.tensor(np.random.default_rng(6).normal(size=(30, 2)))
    start = ad.cat([start, start[:, :1] + 1e-13], 1)
    chosen = {"ortho_bparams": {"ortho_use_drop": drop}, "ortho_iparams": {"ortho_i_max": 4}}
    E, _ = ad.lobpcg(ad.tensor(a), 3, X=start, **chosen)
    np.testing.assert_allclose(E.numpy(), expected(a, None, 3, True), 1e-9)


@pytest.mark.parametrize("largest", [True, False])
def test_gradients_are_those_of_eigh(largest: bool) -> None:
    rng = np.random.default_rng(7)
    a, v = positive(rng, (2, 9, 9), np.float64), ad.tensor(rng.normal(size=(9, 3)))
    start = ad.tensor(rng.normal(size=(2, 9, 3)))
    weights = ad.tensor([3.0, 1.0, 2.0], dtype=ad.float64)

    def pairs(A: Any, direct: bool) -> Any:
        if not direct:
            return ad.lobpcg(A, 3, X=start, largest=largest, tol=1e-14)
        E, X = ad.linalg.eigh((A + A.mT) / 2)
        return (E.flip(-1)[..., :3], X.flip(-1)[..., :3]) if largest else (E[..., :3], X[..., :3])

    found = []
    for direct in (False, True):
        A = ad.tensor(a, requires_grad=True)
        E, X = pairs(A, direct)
        loss = (E * weights).sum() + (X * X * v).sum()  # signs of vectors do not matter
        (first,) = ad.autograd.grad(loss, A, create_graph=True)
        (second,) = ad.autograd.grad((first * first * first).sum(), A)
        found.append((first.detach().numpy(), second.numpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6, atol=1e-7)


def test_refusals() -> None:
    a = ad.eye(9, dtype=ad.float64)
    with pytest.raises(AssertionError, match="A must be square"):
        ad.lobpcg(ad.ones(9, 8))
    with pytest.raises(AssertionError, match="same shape"):
        ad.lobpcg(a, B=ad.eye(8))
    with pytest.raises(AssertionError, match="X shape mismatch"):
        ad.lobpcg(a, X=ad.ones(8, 2))
    with pytest.raises(ValueError, match="3 x the number of requested"):
        ad.lobpcg(a, k=4)
    with pytest.raises(ValueError, match="'ortho' or 'basic'"):
        ad.lobpcg(a, method="other")
    with pytest.raises(NotImplementedError, match="Low precision"):
        ad.lobpcg(a.half())
    with pytest.raises(ValueError, match="B != I"):
        ad.lobpcg(a.clone().requires_grad_(), B=a)[0].sum().backward()
    hermitian = (a * (1 + 0j)).requires_grad_()
    with pytest.raises(ValueError, match="complex input"):
        ad.lobpcg(hermitian)[0].sum().backward()
