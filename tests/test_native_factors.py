"""Linear algebra on small matrices in compiled programs, without calls from Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.program import native
from adjoint.engine.core.errors import LinAlgError
from adjoint.engine.ops.linalg.det import COFACTOR
from adjoint.engine.ops.linalg.lu import PERMUTATION

Function = Callable[..., Any]
SIZES = [(1, 1), (2, 3), (5, 1), (17, 9), (33, 4)]
TOLERANCE = {"float32": 2e-3, "float64": 1e-10}


def definite(a: Any) -> Any:
    """A symmetric positive definite matrix made of any."""
    return a @ a.mT + ad.eye(a.shape[-1], dtype=a.dtype)


def far_from_singular(a: Any) -> Any:
    return a + 3 * a.shape[-1] ** 0.5 * ad.eye(a.shape[-1], dtype=a.dtype)


# What is computed of a matrix and a right side, and the same by NumPy in double precision.
OPERATIONS: dict[str, tuple[Function, Function]] = {
    "cholesky": (lambda a, b: ad.linalg.cholesky(definite(a)), lambda a, b: np.linalg.cholesky(a @ a.T + np.eye(len(a)))),
    "solve": (lambda a, b: ad.linalg.solve(far_from_singular(a), b), lambda a, b: np.linalg.solve(shifted(a), b)),
    "inv": (lambda a, b: ad.linalg.inv(far_from_singular(a)), lambda a, b: np.linalg.inv(shifted(a))),
    "inv of a transpose": (lambda a, b: ad.linalg.inv(far_from_singular(a).T), lambda a, b: np.linalg.inv(shifted(a).T)),
    "det": (lambda a, b: ad.linalg.det(a), lambda a, b: np.linalg.det(a)),
    "lower": (lambda a, b: ad.linalg.solve_triangular(far_from_singular(a), b, upper=False), lambda a, b: np.linalg.solve(np.tril(shifted(a)), b)),
    "upper": (lambda a, b: ad.linalg.solve_triangular(far_from_singular(a), b, upper=True), lambda a, b: np.linalg.solve(np.triu(shifted(a)), b)),
    "upper factor": (
        lambda a, b: ad.linalg.cholesky(definite(a), upper=True),
        lambda a, b: np.linalg.cholesky(a @ a.T + np.eye(len(a))).T,
    ),
    "by a factor": (
        lambda a, b: ad.cholesky_solve(b, far_from_singular(a).tril()),
        lambda a, b: np.linalg.solve(np.tril(shifted(a)) @ np.tril(shifted(a)).T, b),
    ),
    "by an upper factor": (
        lambda a, b: ad.cholesky_solve(b, far_from_singular(a).triu(), upper=True),
        lambda a, b: np.linalg.solve(np.triu(shifted(a)).T @ np.triu(shifted(a)), b),
    ),
    "slogdet": (
        lambda a, b: ad.stack([*ad.linalg.slogdet(a)]),
        lambda a, b: np.stack([*np.linalg.slogdet(a)]),
    ),
    "orthogonal": (lambda a, b: ad.linalg.qr(far_from_singular(a))[0], lambda a, b: np.linalg.qr(shifted(a))[0]),
    "triangle": (lambda a, b: ad.linalg.qr(b)[1], lambda a, b: np.linalg.qr(b)[1]),
    "triangle of a wide matrix": (lambda a, b: ad.linalg.qr(b.T)[1], lambda a, b: np.linalg.qr(b.T)[1]),
    "all columns": (
        lambda a, b: ad.cat([*ad.linalg.qr(b, mode="complete")], 1),
        lambda a, b: np.concatenate([*np.linalg.qr(b, mode="complete")], 1),
    ),
    "unit": (
        lambda a, b: ad.linalg.solve_triangular(a / len(a), b, upper=False, unitriangular=True),
        lambda a, b: np.linalg.solve(np.tril(a / len(a), -1) + np.eye(len(a)), b),
    ),
}  # fmt: skip


def shifted(a: Any) -> Any:
    return a + 3 * len(a) ** 0.5 * np.eye(len(a))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", OPERATIONS)
def test_results_are_numpy_s(name: str, dtype: str, programs: list[native.Native]) -> None:
    rng = np.random.default_rng(len(name))
    own, numpy = OPERATIONS[name]
    for n, m in SIZES:
        a, b = rng.standard_normal((n, n)), rng.standard_normal((n, m))
        given = [ad.from_numpy(x.astype(dtype)) for x in (a, b)]
        out = ad.compile(own)(*given).numpy()
        want = numpy(*[x.numpy().astype(np.float64) for x in given])
        assert out.dtype == dtype
        np.testing.assert_allclose(out, want, atol=TOLERANCE[dtype] * np.abs(want).max(), rtol=0)
    assert programs
    assert not any(program.calls_eager for program in programs)


def test_batches(programs: list[native.Native]) -> None:
    rng = np.random.default_rng(0)
    a, b = (
        ad.from_numpy(rng.standard_normal((3, 2, 6, 6))),
        ad.from_numpy(rng.standard_normal((3, 2, 6, 4))),
    )
    determinants = ad.compile(ad.linalg.det)(a)
    np.testing.assert_allclose(determinants.numpy(), np.linalg.det(a.numpy()))
    inverses = ad.compile(ad.linalg.inv)(a)
    np.testing.assert_allclose(inverses.numpy(), np.linalg.inv(a.numpy()), rtol=1e-7, atol=1e-9)
    solved = ad.compile(lambda a, b: ad.linalg.solve_triangular(a, b, upper=True))(a, b)
    np.testing.assert_allclose(np.triu(a.numpy()) @ solved.numpy(), b.numpy(), atol=1e-9)
    assert not any(program.calls_eager for program in programs)


def test_determinants_of_any_size() -> None:
    """Parts of the product are beyond what a number can be, the product is not."""
    det = ad.compile(ad.linalg.det)
    for diagonal, want in (
        ([1e200, 1e200, 1e-250, 1e-100, 3.0], 3e50),
        ([1e-200, 1e-200, 1e250, 1e100, -3.0], -3e-50),
        ([1e200, 1e200], np.inf),
        ([1e-200, 1e-200], 0.0),
        ([0.0, 1e300], 0.0),
        ([np.nan, 1.0], np.nan),
    ):
        matrix = ad.tensor(np.diag(diagonal))
        np.testing.assert_allclose(det(matrix).item(), want, rtol=1e-12)


@pytest.mark.parametrize("name", ["cholesky", "solve", "inv"])
def test_what_cannot_be_treated_is_said_as_ever(name: str) -> None:
    operation = getattr(ad.linalg, name)
    call = (lambda a: operation(a, a)) if name == "solve" else operation
    compiled = ad.compile(call)
    compiled(ad.eye(3))
    singular = ad.tensor([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(LinAlgError) as eager:
        call(singular)
    with pytest.raises(LinAlgError) as refused:
        compiled(singular)
    assert str(refused.value) == str(eager.value)
    compiled(ad.eye(3))
    batch = ad.stack([ad.eye(3), ad.eye(3), singular])
    with pytest.raises(LinAlgError) as eager:
        call(batch)
    with pytest.raises(LinAlgError) as refused:
        compiled(batch)
    assert str(refused.value) == str(eager.value)


def test_logarithms_of_singular_determinants() -> None:
    sign, size = ad.compile(ad.linalg.slogdet)(ad.tensor([[1.0, 2.0], [2.0, 4.0]]))
    assert (sign.item(), size.item()) == (0.0, -np.inf)


def test_gradients_are_native_too(programs: list[native.Native]) -> None:
    rng = np.random.default_rng(1)
    a, b = ad.from_numpy(rng.standard_normal((7, 7))), ad.from_numpy(rng.standard_normal((7, 2)))

    def loss(a: Any, b: Any) -> Any:
        factor = ad.linalg.cholesky(definite(a))
        half = ad.linalg.solve_triangular(factor, b, upper=False)
        return (
            (half**2).sum()
            + factor.diagonal().log().sum()
            + (ad.linalg.solve(definite(a), b) ** 2).sum()
        )

    gradients = ad.func.grad(loss, argnums=(0, 1))
    for mine, want in zip(ad.compile(gradients)(a, b), gradients(a, b), strict=True):
        np.testing.assert_allclose(mine.numpy(), want.numpy(), rtol=1e-8, atol=1e-10)
    assert not any(program.calls_eager for program in programs)


def test_large_and_complex_matrices_are_lapack_s(programs: list[native.Native]) -> None:
    large = far_from_singular(ad.from_numpy(np.random.default_rng(2).standard_normal((150, 150))))
    np.testing.assert_allclose(
        ad.compile(ad.linalg.inv)(large).numpy(), np.linalg.inv(large.numpy()), atol=1e-10
    )
    turned = ad.eye(3, dtype=ad.complex128) * 2j
    np.testing.assert_allclose(ad.compile(ad.linalg.inv)(turned).numpy(), np.eye(3) / 2j)
    assert not any(program.calls_eager for program in programs)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_orthogonal_factors(dtype: str, programs: list[native.Native]) -> None:
    """Q is orthogonal and Q R the matrix, to rounding; signs are LAPACK's, also of zeros."""
    rng, eps = np.random.default_rng(2), np.finfo(dtype).eps
    compiled = ad.compile(ad.linalg.qr)
    flat = np.zeros((4, 3), dtype)
    flat[0] = [-2, 1, 0]
    for a in (
        rng.standard_normal((3, 2, 7, 5)).astype(dtype),
        rng.standard_normal((6, 9)).astype(dtype) * np.asarray(np.finfo(dtype).max / 1000, dtype),
        flat,
        np.tril(np.ones((5, 5), dtype)).T.copy(),
    ):
        q, r = (t.numpy() for t in compiled(ad.from_numpy(a)))
        want, upper = np.linalg.qr(a.astype(np.float64))
        eye = np.eye(q.shape[-1])
        assert np.abs(np.swapaxes(q, -1, -2) @ q - eye).max() < 20 * eps
        product = q.astype(np.float64) @ r.astype(np.float64)
        assert np.abs(product - a).max() <= 20 * eps * max(np.abs(a).max(), 1)
        assert (np.sign(np.diagonal(r, 0, -2, -1)) == np.sign(np.diagonal(upper, 0, -2, -1))).all()
        assert (np.tril(r, -1) == 0).all()
        np.testing.assert_allclose(q, want, atol=3e3 * eps)
    assert not any(program.calls_eager for program in programs)


# -- triangular factors, orders of rows, exponentials ---------------------------------------------


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_triangular_factors_multiply_to_the_matrix(
    dtype: str, programs: list[native.Native]
) -> None:
    rng = np.random.default_rng(6)
    for shape in [(1, 1), (4, 4), (3, 5, 2), (2, 2, 3, 7), *[tuple(rng.integers(1, 20, 2))] * 2]:
        a = ad.from_numpy(rng.standard_normal(shape).astype(dtype))
        factors, pivots = ad.compile(ad.linalg.lu_factor_ex)(a)[:2]
        assert (pivots == ad.linalg.lu_factor_ex(a)[1]).all()
        permutation, low, up = ad.compile(ad.linalg.lu)(a)
        product = permutation.numpy() @ (low.numpy().astype(float) @ up.numpy())
        np.testing.assert_allclose(product, a.numpy(), atol=TOLERANCE[dtype] * 1e-2, rtol=0)
        np.testing.assert_allclose(
            factors.numpy(), ad.linalg.lu_factor_ex(a)[0].numpy(), atol=TOLERANCE[dtype]
        )
    assert not any(program.calls_eager for program in programs)


@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)])
def test_a_matrix_without_a_pivot(shape: tuple[int, ...]) -> None:
    array = np.ones(shape)
    array[..., 0, 0], array[..., 2, 2] = 2, 5
    array[..., 1, :] = array[..., 0, :] = 1
    singular = ad.from_numpy(array)
    for want, got in zip(
        ad.linalg.lu_factor_ex(singular), ad.compile(ad.linalg.lu_factor_ex)(singular), strict=True
    ):
        np.testing.assert_array_equal(want.numpy(), got.numpy())
    with pytest.raises(LinAlgError) as eager:
        ad.linalg.lu_factor(singular)
    with pytest.raises(LinAlgError) as told:
        ad.compile(ad.linalg.lu_factor)(singular)
    assert str(told.value).replace("(Batch element 1)", "(Batch element 0)") == str(eager.value)


@pytest.mark.parametrize("inverse", [False, True])
def test_orders_of_exchanges(inverse: bool, programs: list[native.Native]) -> None:
    rng = np.random.default_rng(7)
    order = ad.compile(lambda pivots: PERMUTATION(pivots, size=9, inverse=inverse))
    for count in (1, 5, 9):
        array = np.stack([[rng.integers(k, 9) + 1 for k in range(count)] for _ in range(4)])
        pivots = ad.from_numpy(array.astype(np.int32))
        want = PERMUTATION(pivots, size=9, inverse=inverse)
        np.testing.assert_array_equal(order(pivots).numpy(), want.numpy())
    assert not any(program.calls_eager for program in programs)
    for wrong in (0, -3, 10):
        pivots[2, 4] = wrong
        with pytest.raises(IndexError, match=f"row {wrong} of a matrix with 9 rows"):
            order(pivots)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_exponentials(dtype: str, programs: list[native.Native]) -> None:
    """Against the sum of the series in higher precision, by NumPy's longest floats."""
    rng = np.random.default_rng(8)
    compiled = ad.compile(ad.matrix_exp)
    for n, size in [(1, 2.0), (4, 0.01), (7, 1.0), (5, 12.0), (17, 3.0)]:
        a = (rng.standard_normal((3, n, n)) * size / n).astype(dtype)
        term = want = np.broadcast_to(np.eye(n, dtype=np.longdouble), a.shape)
        for k in range(1, 140):
            term = term @ a.astype(np.longdouble) / k
            want = want + term
        got = compiled(ad.from_numpy(a)).numpy()
        limit = (1e-6 if dtype == "float32" else 1e-12) * np.abs(want).max()
        np.testing.assert_allclose(got, want.astype(float), atol=limit, rtol=0)
    broken = np.zeros((3, 2, 2), dtype)
    broken[1, 0, 1], broken[2, 0, 0] = np.nan, -np.inf
    for call in (compiled, ad.matrix_exp):
        got = call(ad.from_numpy(broken)).numpy()
        np.testing.assert_array_equal(got[0], np.eye(2))
        assert np.isnan(got[1:]).all()
    assert not any(program.calls_eager for program in programs)


def minors(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Cofactors by their definition."""
    n = len(a)
    rest = [[*range(k), *range(k + 1, n)] for k in range(n)]
    return np.array(
        [
            [(-1) ** (i + j) * np.linalg.det(a[np.ix_(rest[i], rest[j])]) for j in range(n)]
            for i in range(n)
        ]
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("seed", range(4))
def test_cofactors(dtype: str, seed: int, programs: list[native.Native]) -> None:
    """Of regular matrices, and of those with one row or two of zeros or nearly so."""
    rng = np.random.default_rng(seed)
    compiled = ad.compile(lambda a: COFACTOR(a))
    for n in (1, 2, 3, 5, 9, 14):
        a = rng.standard_normal((n, n))
        a[: min(seed, n - 1)] *= 1e-9 if seed == 3 else 0
        a = (a @ rng.standard_normal((n, n))).astype(dtype)
        want = minors(a.astype(np.float64))
        got = compiled(ad.from_numpy(a)).numpy()
        limit = (1e-6 if dtype == "float32" else 1e-13) * np.linalg.norm(a, 2) ** (n - 1) + 1e-30
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=limit)
    batch = rng.standard_normal((3, 40, 40)).astype(dtype)
    got = compiled(ad.from_numpy(batch)).numpy()
    want = np.linalg.det(batch)[:, None, None] * np.linalg.inv(batch).swapaxes(-1, -2)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3 * np.abs(want).max())
    assert not any(program.calls_eager for program in programs)


def test_gradients_of_large_determinants() -> None:
    """Whose cofactors are made of the inverse; of a singular matrix, of singular values."""
    rng = np.random.default_rng(0)
    a = np.eye(140) + rng.standard_normal((140, 140)) / 40
    a[[3, 8]] = a[[8, 3]]
    x = ad.tensor(a).requires_grad_()
    for call in (ad.linalg.det, ad.compile(ad.linalg.det)):
        (g,) = ad.autograd.grad(call(x), x)
        np.testing.assert_allclose(g.numpy(), np.linalg.det(a) * np.linalg.inv(a).T, rtol=1e-8)
    a[7] = a[2]
    singular = ad.tensor(a).requires_grad_()
    (g,) = ad.autograd.grad(ad.linalg.det(singular), singular)
    np.testing.assert_allclose(a.T @ g.numpy(), 0, atol=1e-8)
    a[7, 0] += 1
    np.testing.assert_allclose(g.numpy()[7, 0], np.linalg.det(a), rtol=1e-8)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("size", [2, 7, 40])
def test_a_nan_is_a_failure_of_cholesky(size: int, upper: bool) -> None:
    """As of the reference LAPACK, and in eager mode."""
    a = np.eye(size)
    factor = partial(ad.linalg.cholesky, upper=upper)
    for value in (np.nan, 0.0):
        a[1, 1] = value
        for call in (factor, ad.compile(factor)):
            with pytest.raises(ad.linalg.LinAlgError, match="leading minor of order 2"):
                call(ad.tensor(a))


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_pseudo_inverses_of_no_numbers_fail_alike(batch: tuple[int, ...], hermitian: bool) -> None:
    a = np.broadcast_to(np.eye(3), (*batch, 3, 3)).copy()
    a[..., 1, 1] = np.nan
    faults = []
    for call in (ad.linalg.pinv, ad.compile(ad.linalg.pinv)):
        with pytest.raises(LinAlgError, match="non-finite") as fault:
            call(ad.tensor(a), hermitian=hermitian)
        faults.append(str(fault.value))
    assert faults[0] == faults[1]
