"""What linear algebra promises beyond its samples: errors, gauges, exactness, orders."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import adjoint as ad

linalg: Any = ad.linalg


def matrix(*shape: int, seed: int = 0) -> Any:
    return ad.tensor(np.random.default_rng(seed).normal(size=shape))


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (linalg.inv, "diagonal element 2 is zero"),
        (lambda a: linalg.solve(a, a), "input matrix is singular"),
        (lambda a: linalg.solve(a, a[..., :0]), "input matrix is singular"),
        (linalg.cholesky, "leading minor of order 2 is not positive-definite"),
        (linalg.lu_factor, r"U\[2,2\] is zero"),
    ],
)
def test_singular_input_is_an_error_that_says_where(fn: Any, message: str) -> None:
    singular = ad.tensor([[1.0, 0.0], [0.0, 0.0]])
    with pytest.raises(linalg.LinAlgError, match=message):
        fn(singular)
    with pytest.raises(RuntimeError, match=r"Batch element 1"):
        fn(ad.stack([ad.eye(2), singular]))


def test_ex_forms_report_instead_of_raising() -> None:
    batch = ad.stack([ad.eye(2), ad.zeros(2, 2), 2 * ad.eye(2)])
    inverse, info = linalg.inv_ex(batch)
    assert info.tolist() == [0, 1, 0]
    assert inverse[2].tolist() == [[0.5, 0.0], [0.0, 0.5]]
    assert linalg.cholesky_ex(batch - 1).info.dtype is ad.int32
    for columns in (0, 1):  # singular whatever is to be solved
        assert linalg.solve_ex(batch, batch[..., :columns]).info.tolist() == [0, 1, 0]


def test_zero_beta_ignores_what_input_holds() -> None:
    nan = ad.full((2, 2), float("nan"))
    assert ad.addmm(nan, ad.eye(2), ad.eye(2), beta=0).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert ad.baddbmm(nan, ad.ones(1, 2, 2), ad.ones(1, 2, 2), beta=0).tolist() == [
        [[2.0, 2.0]] * 2
    ]


def test_what_is_added_to_a_product_may_be_smaller_than_it() -> None:
    one, rows = ad.tensor(1.0), ad.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert ad.addmv(one, rows, ad.ones(2)).tolist() == [4.0, 8.0]
    stacked = ad.baddbmm(rows, ad.stack([rows, rows]), ad.stack([rows, rows]))
    assert stacked.tolist() == [(rows + rows @ rows).tolist()] * 2
    nothing = ad.addmm(ad.ones(2), ad.ones(3, 0, requires_grad=True), ad.ones(0, 2))
    assert nothing.tolist() == [[1.0, 1.0]] * 3
    assert nothing.requires_grad


def test_integer_products_are_exact() -> None:
    big = 2**53 + 1
    assert (ad.tensor([[big, 0]]) @ ad.tensor([[1], [0]])).item() == big


def test_products_of_two_dtypes_are_refused() -> None:
    with pytest.raises(RuntimeError, match="same dtype"):
        ad.ones(2, 2) @ ad.ones(2, 2, dtype=ad.float64)
    with pytest.raises(NotImplementedError, match="Bool"):
        ad.ones(2, 2, dtype=ad.bool) @ ad.ones(2, 2, dtype=ad.bool)


@pytest.mark.parametrize("half", [ad.float16, ad.bfloat16])
def test_products_of_halves_accumulate_in_float32(half: Any) -> None:
    ones = ad.ones(1, 4096, dtype=half)
    assert (ones @ ones.T).item() == 4096


@pytest.mark.parametrize("shapes", [((2, 0, 3), (3, 4)), ((2, 3, 0), (0, 4)), ((0,), (0, 2))])
def test_empty_products(shapes: Any) -> None:
    x, y = (np.zeros(s) for s in shapes)
    assert (ad.tensor(x) @ ad.tensor(y)).numpy().tolist() == (x @ y).tolist()


def test_determinants_differentiate_to_third_order_and_at_singular_matrices() -> None:
    third = ad.func.jacrev(ad.func.hessian(linalg.det))(matrix(3, 3))
    assert third[0, 0, 1, 1, 2, 2].item() == pytest.approx(1)
    assert third[1, 1, 1, 1, 1, 1].item() == pytest.approx(0, abs=1e-9)
    singular = ad.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
    linalg.det(singular).backward()
    np.testing.assert_allclose(singular.grad.numpy(), [[4, -2], [-2, 1]], atol=1e-5)


@pytest.mark.parametrize("fn", [linalg.eig, linalg.eigh])
def test_a_loss_that_depends_on_a_phase_is_an_error(fn: Any) -> None:
    a = (matrix(3, 3) + 1j * matrix(3, 3, seed=1)).requires_grad_()
    vectors = fn(a).eigenvectors
    with pytest.raises(RuntimeError, match="ill-defined"):
        (vectors.real.sum() + vectors.imag.sum()).backward()


def test_r_alone_has_no_gradient() -> None:
    a = matrix(4, 2).requires_grad_()
    with pytest.raises(RuntimeError, match="mode='reduced'"):
        linalg.qr(a, mode="r").R.sum().backward()


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...ij,...jk->...ik", ((2, 1, 3, 4), (5, 4, 2))),
        ("iij,j->i", ((3, 3, 2), (2,))),
        ("ab,bc,cd,de->ae", ((2, 3), (3, 4), (4, 5), (5, 2))),
        ("i,j", ((2,), (3,))),
        ("b...,...a->a...", ((2, 3, 4), (3, 4, 5))),
    ],
)
def test_einsum_equals_numpy(equation: str, shapes: Any) -> None:
    arrays = [np.random.default_rng(i).normal(size=s) for i, s in enumerate(shapes)]
    got = ad.einsum(equation, *map(ad.tensor, arrays))
    np.testing.assert_allclose(got.numpy(), np.einsum(equation, *arrays), rtol=1e-12, atol=1e-12)


def test_einsum_of_any_equation_equals_numpy() -> None:
    """Of operands as they lie, met twice: the second time its steps are known."""
    rng = np.random.default_rng(5)
    for _ in range(150):
        sizes = dict(zip("abcde", rng.integers(1, 5, 5).tolist(), strict=True))
        given = ["".join(rng.choice([*"abcde"], rng.integers(0, 4), False)) for _ in range(3)]
        given = given[: rng.integers(1, 4)]
        used = [*dict.fromkeys("".join(given))]
        out = "".join(rng.permutation(used)[: rng.integers(0, len(used) + 1)]) if used else ""
        equation = f"{','.join(given)}->{out}"
        arrays = [rng.integers(-5, 6, [sizes[c] for c in g]) for g in given]
        want = np.einsum(equation, *arrays, optimize=False)
        for kind in (ad.float64, ad.int64):
            turned = [
                ad.tensor(np.asarray(x.T).copy()).permute(tuple(range(x.ndim))[::-1])
                for x in arrays
            ]
            for _ in range(2):
                got = ad.einsum(equation, *[x.to(kind) for x in turned])
                assert got.shape == want.shape
                np.testing.assert_array_equal(got.numpy(), want, err_msg=equation)
            assert got.dtype is kind


def test_low_rank_factors_reproduce_a_low_rank_matrix() -> None:
    ad.manual_seed(0)
    a = matrix(20, 3) @ matrix(3, 15, seed=1)
    U, S, V = ad.svd_lowrank(a, q=3)
    np.testing.assert_allclose((U * S @ V.T).numpy(), a.numpy(), atol=1e-10)
    U, S, V = ad.pca_lowrank(a, q=3)
    centred = a - a.mean(0, keepdim=True)
    np.testing.assert_allclose((U * S @ V.T).numpy(), centred.numpy(), atol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_derivatives_of_determinants_are_cofactors(dtype: str) -> None:
    """Of matrices far from singular, nearly singular ones, singular ones, and all in one batch."""
    rng = np.random.default_rng(5)
    parts = rng.standard_normal((2, 3, 6, 6))
    x = (parts[0] + 1j * parts[1] if dtype == "complex64" else parts[0]).astype(dtype)
    x[1, 0] = x[1, 1] * (1 + 1e-6)
    x[2, 0] = x[2, 1]
    wide = np.complex128 if dtype == "complex64" else np.float64
    for given in (x[:2], x[0], x[1]) if dtype == "complex64" else (x, x[0], x[1], x[2]):
        minors = np.empty(given.shape, wide)
        for i, j in np.ndindex(6, 6):
            rest = np.delete(np.delete(given.astype(wide), i, -2), j, -1)
            minors[..., i, j] = np.linalg.det(rest) * (-1) ** (i + j)
        leaf = ad.from_numpy(given.copy()).requires_grad_()
        determinant = ad.linalg.det(leaf)
        (determinant.real if leaf.is_complex() else determinant).sum().backward()
        assert leaf.grad is not None
        wanted = minors.conj()
        error = np.abs(leaf.grad.numpy() - wanted).max() / np.abs(wanted).max()
        assert error < (1e-12 if dtype == "float64" else 2e-6)


@pytest.mark.parametrize("n", [3, 20])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_logarithms_of_determinants_may_be_written_over(dtype: str, n: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, n, n)).astype(dtype)
    leaf = ad.from_numpy(x).requires_grad_()
    logabs = linalg.slogdet(leaf)[1]
    logabs.mul_(2).sum().backward()
    assert leaf.grad is not None
    wanted = 2 * np.linalg.inv(x.astype(np.complex128)).conj().swapaxes(1, 2)
    np.testing.assert_allclose(leaf.grad.numpy(), wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("n", [3, 7])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_determinants_of_what_is_not_finite_have_derivatives(
    dtype: str, n: int, compiled: bool
) -> None:
    """NaN, and those of the other matrices in the batch as ever: singular ones, too."""
    x = np.random.default_rng(0).standard_normal((3, n, n)).astype(dtype) / np.sqrt(n).astype(dtype)
    x[2, 0] = x[2, 1]
    det = ad.compile(linalg.det) if compiled else linalg.det

    def gradient(x: Any) -> Any:
        leaf = ad.from_numpy(x).requires_grad_()
        determinant = det(leaf)
        (determinant.real if leaf.is_complex() else determinant).sum().backward()
        assert leaf.grad is not None
        return leaf.grad.numpy()

    wanted = gradient(x.copy())
    x[1, 1, 0] = np.nan
    got = gradient(x)
    assert np.isnan(got[1]).any()
    scale = np.abs(wanted[::2]).max()
    np.testing.assert_allclose(got[::2] / scale, wanted[::2] / scale, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_triangles_are_solved_however_they_lie(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for size, wide, upper, unit in itertools.product((1, 2, 33), (1, 4), (False, True), (0, 1)):
        x = (rng.normal(size=(2, size, size)) / size + 3 * np.eye(size)).astype(dtype)
        if dtype == "complex64":
            x = x + (1j / size * rng.normal(size=x.shape)).astype(dtype)
        y = rng.normal(size=(2, size, wide)).astype(dtype)
        triangle = (np.triu if upper else np.tril)(x)
        if unit:
            triangle[:, range(size), range(size)] = 1
        apart = np.zeros((2, 2 * size, 2 * size), dtype)
        apart[:, ::2, ::2] = x
        turned = np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
        for matrix in map(ad.from_numpy, (x, turned, apart[:, ::2, ::2])):
            out = ad.linalg.solve_triangular(
                matrix, ad.from_numpy(y), upper=upper, unitriangular=bool(unit)
            )
            np.testing.assert_allclose(triangle @ out.numpy(), y, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
@pytest.mark.parametrize("size", [0, 1, 63, 1000, 4000])
def test_dot_with_and_without_gradients(dtype: Any, size: int) -> None:
    """Off the tape vectors are seen as matrices with no views of them."""
    rng = np.random.default_rng(size)
    x, y = (ad.tensor(rng.standard_normal(2 * size)).to(dtype)[::2] for _ in range(2))
    want = float(np.dot(x.numpy().astype(np.float64), y.numpy().astype(np.float64)))
    within = (1e-6 if dtype is ad.float32 else 1e-14) * max(1, size)
    for out in (x.dot(y), x.detach().requires_grad_().dot(y)):
        assert out.shape == ()
        assert out.dtype is dtype
        assert abs(out.item() - want) <= within


def test_tensordot_of_no_dimensions_is_the_product() -> None:
    assert ad.tensordot(ad.tensor(3), ad.tensor(4), 0).item() == 12
    assert ad.tensordot(ad.ones(2), ad.tensor(4.0), 0).tolist() == [4, 4]


@pytest.mark.parametrize("dtype", [ad.float32, ad.complex128])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("size", [3, 70])
def test_factors_of_matrices_with_nan_fail(
    dtype: Any, compiled: bool, upper: bool, size: int
) -> None:
    """At the first line that reads one, as in PyTorch; what is not read does not matter."""
    factor = ad.compile(ad.linalg.cholesky_ex) if compiled else ad.linalg.cholesky_ex
    whole = ad.compile(ad.linalg.cholesky) if compiled else ad.linalg.cholesky
    regular = ad.eye(size, dtype=dtype) * 2
    for place, line in (((0, 0), 1), ((2, 1), 3), ((size - 1, size - 1), size)):
        x = regular.clone()
        x[place[::-1] if upper else place] = float("nan")
        infos = factor(ad.stack([x, regular]), upper=upper).info
        assert factor(x, upper=upper).info.item() == line
        assert infos.tolist() == [line, 0]
        with pytest.raises(ad.linalg.LinAlgError, match=f"leading minor of order {line} "):
            whole(x, upper=upper)
    x = regular.clone()
    x[(2, 1) if upper else (1, 2)] = float("nan")
    assert factor(x, upper=upper).info.item() == 0
    assert not whole(x, upper=upper).isnan().any()
