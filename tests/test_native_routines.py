"""Programs that call LAPACK: complex matrices, large ones and indefinite ones, without Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.program import native
from adjoint.engine.backends.llvm.runtime import routines, symbols
from adjoint.engine.backends.llvm.templates.lapack import template
from adjoint.engine.core.errors import LinAlgError
from adjoint.engine.ops.linalg.failures import WRONG_PIVOTS
from adjoint.engine.ops.linalg.pairs import OF_PAIRS

Function = Callable[..., Any]
linalg = ad.linalg


def hermitian(x: Any) -> Any:
    return x @ x.mH + ad.eye(x.shape[-1], dtype=x.dtype)


def triangle(x: Any, *, upper: bool, **options: Any) -> Any:
    """A system that is far from singular."""
    shifted = x + 4 * ad.eye(x.shape[-1], dtype=x.dtype)
    return linalg.solve_triangular(shifted, x.mT, upper=upper, **options)


def indefinite(x: Any, adjoint: bool) -> Any:
    return x + (x.mH if adjoint else x.mT)


def solved_indefinite(x: Any, adjoint: bool) -> Any:
    factors = linalg.ldl_factor(indefinite(x, adjoint), hermitian=adjoint)
    return linalg.ldl_solve(*factors, x @ x, hermitian=adjoint)


# Of square matrices.
SQUARE: dict[str, Function] = {
    "cholesky": lambda x: linalg.cholesky(hermitian(x)),
    "upper cholesky": lambda x: linalg.cholesky(hermitian(x), upper=True),
    "cholesky, unchecked": lambda x: linalg.cholesky_ex(hermitian(x)),
    "cholesky, failing": lambda x: linalg.cholesky_ex(x),
    "cholesky solve": lambda x: ad.cholesky_solve(x, linalg.cholesky(hermitian(x))),
    "upper cholesky solve": lambda x: ad.cholesky_solve(
        x, linalg.cholesky(hermitian(x), upper=True), upper=True
    ),
    "cholesky inverse": lambda x: ad.cholesky_inverse(linalg.cholesky(hermitian(x))),
    "lower": lambda x: triangle(x, upper=False),
    "upper": lambda x: triangle(x, upper=True),
    "unit": lambda x: triangle(x.tril() * 0.1, upper=False, unitriangular=True),
    "from the right": lambda x: triangle(x, upper=True, left=False),
    "solve": lambda x: linalg.solve(x, x.mH + 1),
    "solve a vector": lambda x: linalg.solve(x, x[..., 0]),
    "solve, unchecked": lambda x: linalg.solve_ex(x, x.mH),
    "inv": lambda x: linalg.inv(x),
    "inv, singular": lambda x: linalg.inv_ex(x * 0),
    "det": lambda x: linalg.det(x),
    "slogdet": lambda x: linalg.slogdet(x),
    "slogdet of nothing": lambda x: linalg.slogdet(x * 0),
    "eigh": lambda x: linalg.eigh(x),
    "eigh of the upper half": lambda x: linalg.eigh(x, UPLO="U"),
    "ldl": lambda x: linalg.ldl_factor(indefinite(x, adjoint=False)),
    "ldl, hermitian": lambda x: linalg.ldl_factor(indefinite(x, adjoint=True), hermitian=True),
    "ldl, unchecked": lambda x: linalg.ldl_factor_ex(x * 0),
    "ldl solve": lambda x: solved_indefinite(x, adjoint=False),
    "ldl solve, hermitian": lambda x: solved_indefinite(x, adjoint=True),
}
# Of any.
MATRICES: dict[str, Function] = {
    **SQUARE,
    "lu factors": lambda x: linalg.lu_factor(x),
    "lu": lambda x: linalg.lu(x),
    "qr": lambda x: linalg.qr(x),
    "complete qr": lambda x: linalg.qr(x, mode="complete"),
    "svd": lambda x: linalg.svd(x, full_matrices=False),
    "full svd": lambda x: linalg.svd(x),
    "pinv": lambda x: linalg.pinv(x),
    "pinv, hermitian": lambda x: linalg.pinv(x @ x.mH, hermitian=True),
    "least squares": lambda x: linalg.lstsq(x, x @ x.mH).solution,
    "rank": lambda x: linalg.matrix_rank(x),
    "norm": lambda x: linalg.matrix_norm(x, "nuc"),
}
SHAPES = [(), (1,), (5,), (2, 3)]


def some(rng: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    values = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(shape)
    return ad.from_numpy(np.asarray(values).astype(dtype))


def arrays(result: Any) -> list[Any]:
    return [t.numpy() for t in (result if isinstance(result, tuple) else (result,))]


def agree(function: Function, x: Any, *, digits: float = 1e-9) -> None:
    """What eager mode gives, and a program."""
    want, got = arrays(function(x)), arrays(ad.compile(function)(x))
    for one, other in zip(want, got, strict=True):
        assert one.dtype == other.dtype
        finite = np.isfinite(one)
        np.testing.assert_array_equal(np.isfinite(other), finite)
        limit = digits if one.dtype in (np.float64, np.complex128) else 2e-3
        size = np.abs(one[finite]).max(initial=1)
        np.testing.assert_allclose(other[finite], one[finite], rtol=0, atol=limit * size)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", MATRICES)
def test_complex_matrices(name: str, dtype: str, programs: list[native.Native]) -> None:
    rng = np.random.default_rng([len(name), len(dtype)])
    for batch in SHAPES:
        m, n = rng.integers(1, 8, 2)
        agree(MATRICES[name], some(rng, dtype, (*batch, m, m if name in SQUARE else n)))
    assert programs
    assert not any(program.calls_eager for program in programs)


def test_complex_eigenvalues(programs: list[native.Native]) -> None:
    rng = np.random.default_rng(1)
    for shape in [(4, 4), (1, 1), (3, 5, 5)]:
        agree(linalg.eig, some(rng, "complex128", shape))
    assert not any(program.calls_eager for program in programs)


@pytest.mark.parametrize("name", ["cholesky", "solve", "qr", "svd", "det"])
def test_complex_views_and_parts(name: str, programs: list[native.Native]) -> None:
    """Matrices that do not lie row by row, and those whose parts loops make."""
    rng = np.random.default_rng(len(name))
    x = some(rng, "complex128", (3, 4, 4))
    for seen in (x.mT, x[:, ::2, ::2], x[1:], x.mH, x.permute(1, 2, 0)[:, :3]):
        agree(MATRICES[name], seen)
    agree(lambda x: MATRICES[name](x.exp() * (1 + 2j)), x)
    agree(lambda x: MATRICES[name](ad.complex(x.real, x.real * x.imag)), x)
    assert not any(program.calls_eager for program in programs)


def test_empty_matrices() -> None:
    for shape in [(0, 0), (0, 3, 3), (2, 0, 0)]:
        x = some(np.random.default_rng(0), "complex128", shape)
        for name in ("cholesky", "solve", "det", "qr", "svd", "eigh"):
            agree(MATRICES[name], x)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_factors_are_factors(dtype: str) -> None:
    """Products of factors are the matrix, also of badly conditioned ones."""
    rng = np.random.default_rng(5)
    n = 130
    left, right = (np.linalg.qr(some(rng, dtype, (n, n)).numpy())[0] for _ in range(2))
    matrix = ad.from_numpy(left * np.logspace(0, -10, n) @ right)
    definite = ad.from_numpy(left * np.logspace(0, -10, n) @ left.conj().T)
    lower = ad.compile(linalg.cholesky)(definite)
    q, r = ad.compile(linalg.qr)(matrix)
    p, l, u = ad.compile(linalg.lu)(matrix)  # noqa: E741
    x = some(rng, dtype, (n, 3))
    solution = ad.compile(linalg.solve)(matrix, matrix @ x)
    for one, other in [
        (lower @ lower.mH, definite), (lower.tril(), lower), (q @ r, matrix),
        (q.mH @ q, ad.eye(n, dtype=q.dtype)), (r.triu(), r), (p @ l @ u, matrix),
        (matrix @ solution, matrix @ x),
    ]:  # fmt: skip
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=0, atol=1e-13 * n)


@pytest.mark.parametrize("threaded", [False, True])
@pytest.mark.parametrize("name", sorted(MATRICES.keys() - {"cholesky, failing", "ldl, unchecked"}))
@pytest.mark.usefixtures("anew")
def test_large_real_matrices(
    name: str, threaded: bool, programs: list[native.Native], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the plain algorithms, and where a single matrix has the library's threads."""
    size = 110
    if threaded:
        monkeypatch.setattr(template, "THREADED", size)
    x = some(np.random.default_rng(size), "float64", (size, size)) / size**0.5
    agree(MATRICES[name], x + ad.eye(size, dtype=x.dtype), digits=1e-8)
    assert not any(program.calls_eager for program in programs)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_columns_are_dealt_out(dtype: str, programs: list[native.Native]) -> None:
    """Right sides of many columns, in pieces that do not come out even; batches of them."""
    rng = np.random.default_rng(9)
    for batch, n, m in [((), 130, 101), ((2,), 111, 149), ((3,), 5, 800), ((), 2, 2000)]:
        x = some(rng, dtype, (*batch, n, n)) + n * ad.eye(n, dtype=getattr(ad, dtype))
        y = some(rng, dtype, (*batch, n, m))
        agree(lambda x, y=y: linalg.solve(x, y), x)
        agree(lambda x, y=y: linalg.solve_triangular(x, y, upper=True), x)
        agree(lambda x, y=y: ad.cholesky_solve(y, x.tril()), x)
    assert not any(program.calls_eager for program in programs)


@pytest.mark.parametrize("dtype", ["complex128", "float64"])
@pytest.mark.parametrize("name", ["cholesky", "solve", "inv", "det", "slogdet", "qr", "svd"])
def test_gradients(name: str, dtype: str, programs: list[native.Native]) -> None:
    def gradient(x: Any) -> Any:
        x = x.detach().requires_grad_()
        results = MATRICES[name](x)
        results = results if isinstance(results, tuple) else (results,)
        sum((r.abs() ** 2).sum() for r in results).backward()
        return x.grad

    for shape in [(5, 5), (2, 4, 4)]:
        agree(gradient, some(np.random.default_rng(7), dtype, shape), digits=1e-7)
    assert not any(program.calls_eager for program in programs)


BAD = {
    "zero": np.zeros((3, 3)),
    "rank one": np.outer([1, 2, 4], [1, 2, 4]),
    "negative": np.diag([1.0, -1.0, 1.0]),
    "nan": np.diag([1.0, np.nan, 1.0]),
    "infinite": np.diag([1.0, np.inf, 1.0]),
}
LOOKED_AT: dict[str, Function] = {
    "cholesky": linalg.cholesky,
    "solve": lambda x: linalg.solve(x, x),
    "inv": linalg.inv,
    "det": linalg.det,
    "slogdet": linalg.slogdet,
    "lu_factor": linalg.lu_factor,
    "qr": linalg.qr,
    "eigh": linalg.eigh,
    "svd": linalg.svd,
    "eig": linalg.eig,
    "ldl_factor": linalg.ldl_factor,
    "ldl_factor_ex": linalg.ldl_factor_ex,
    "cholesky_ex": linalg.cholesky_ex,
    "inv_ex": linalg.inv_ex,
}


def outcome(function: Function, x: Any) -> Any:
    """Which error, or where results are not numbers."""
    try:
        with np.errstate(all="ignore"):
            results = arrays(function(x))
    except (LinAlgError, RuntimeError) as error:
        return type(error), str(error)
    return [(np.isnan(r).tolist(), r.shape) for r in results]


@pytest.mark.parametrize("name", LOOKED_AT)
@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_treated(what: str, name: str) -> None:
    """The errors of eager mode, with the matrix and the place."""
    bad = BAD[what].astype(np.complex128)
    for x in (bad, np.stack([np.eye(3, dtype=bad.dtype), bad])):
        given = ad.from_numpy(x)
        assert outcome(ad.compile(LOOKED_AT[name]), given) == outcome(LOOKED_AT[name], given)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", ["cholesky", "solve", "inv", "lu_factor", "ldl_factor"])
def test_the_matrix_of_a_large_batch_is_told(
    name: str, dtype: str, programs: list[native.Native]
) -> None:
    matrices = np.broadcast_to(np.eye(3, dtype=dtype), (300, 3, 3)).copy()
    call = ad.compile(LOOKED_AT[name])
    call(ad.from_numpy(matrices))
    matrices[217, 1, 1] = 0
    given = ad.from_numpy(matrices)
    assert outcome(call, given) == outcome(LOOKED_AT[name], given)
    assert "(Batch element 217)" in outcome(call, given)[1]
    assert not any(program.calls_eager for program in programs)


def test_pivots_that_are_none_are_refused(programs: list[native.Native]) -> None:
    """LAPACK would read and write wherever they say."""
    factors, _ = linalg.ldl_factor(ad.eye(3, dtype=ad.float64))
    solve = ad.compile(linalg.ldl_solve)
    right = ad.ones(3, 1, dtype=ad.float64)
    for pivots in ([1, 2, 4], [0, 2, 3], [-1, 2, 3], [1, 2, -3], [1, -3, -2], [-9, -9, 3]):
        given = ad.tensor(pivots, dtype=ad.int32)
        for call in (linalg.ldl_solve, solve):
            with pytest.raises(RuntimeError, match=WRONG_PIVOTS):
                call(factors, given, right)
    fine = ad.tensor([1, 2, 3], dtype=ad.int32)
    assert solve(factors, fine, right).tolist() == right.tolist()
    assert not any(program.calls_eager for program in programs)


def test_pairs_are_complex_matrices() -> None:
    """What stands for an operation in programs is that operation."""
    x = some(np.random.default_rng(3), "complex128", (2, 3, 3))
    pairs = ad.view_as_real(x)
    found = OF_PAIRS[1](pairs, function="det", pairs=(True,))
    np.testing.assert_array_equal(ad.view_as_complex(found).numpy(), linalg.det(x).numpy())
    values, vectors = OF_PAIRS[2](pairs, function="eigh", pairs=(True,), upper=False)
    want = linalg.eigh(x)
    np.testing.assert_array_equal(values.numpy(), want[0].numpy())
    np.testing.assert_array_equal(ad.view_as_complex(vectors).numpy(), want[1].numpy())
    u, s, vh = OF_PAIRS[3](pairs, function="svd", pairs=(True,), full_matrices=False)
    back = ad.view_as_complex(u) @ (s.unsqueeze(-1) * ad.view_as_complex(vh))
    np.testing.assert_allclose(back.numpy(), x.numpy(), atol=1e-12)


def test_a_single_matrix_with_the_library_s_threads(programs: list[native.Native]) -> None:
    rng = np.random.default_rng(2)
    x = some(rng, "float64", (780, 780)) / 780**0.5
    lower = ad.compile(linalg.cholesky)(hermitian(x))
    np.testing.assert_allclose((lower @ lower.mH).numpy(), hermitian(x).numpy(), atol=1e-11)
    assert not any(program.calls_eager for program in programs)


def test_routines_by_name() -> None:
    assert routines.factors()
    for module in (routines.LAPACK, "os", routines.BLAS):
        assert routines.routine_of(module, "system") is None
    with pytest.raises(symbols.UnknownSymbol):
        symbols.address_of(f"{routines.LAPACK}:system")
    with pytest.raises(symbols.UnknownSymbol):
        symbols.address_of("ctypes:memmove")
