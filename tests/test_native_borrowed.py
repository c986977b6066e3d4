"""Programs that call inner loops of NumPy and SciPy: results of eager mode, without Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.program import native
from adjoint.engine.backends.llvm.runtime import symbols
from adjoint.engine.backends.llvm.templates.borrowed.template import SPECIAL
from adjoint.engine.core.errors import LinAlgError
from adjoint.engine.ops.linalg.lstsq import LSTSQ
from adjoint.engine.ops.special.bessel import AIRY_AI_PRIME

Function = Callable[..., Any]

# Of square matrices, and of any.
SQUARE: dict[str, Function] = {
    "eigh": lambda x: ad.linalg.eigh(x),
    "eigh of the upper half": lambda x: ad.linalg.eigh(x, UPLO="U"),
    "eigvalsh": lambda x: ad.linalg.eigvalsh(x),
    "eig": lambda x: ad.linalg.eig(x),
    "eigvals": lambda x: ad.linalg.eigvals(x),
}
MATRICES: dict[str, Function] = {
    **SQUARE,
    "svd": lambda x: ad.linalg.svd(x, full_matrices=False),
    "full svd": lambda x: ad.linalg.svd(x),
    "svd of a transpose": lambda x: ad.linalg.svd(x.mT),
    "svdvals": lambda x: ad.linalg.svdvals(x),
}
# What is made of those results, and so may differ by what rounding does.
MADE: dict[str, Function] = {
    "pinv": lambda x: ad.linalg.pinv(x),
    "pinv of few": lambda x: ad.linalg.pinv(x, rtol=0.3),
    "pinv by limits of their own": lambda x: ad.linalg.pinv(
        x, atol=ad.full(x.shape[:-2], 0.5, dtype=x.dtype)
    ),
    # Of values that are not far apart: an inverse grows the product's rounding by their ratio.
    "pinv of symmetric ones": lambda x: ad.linalg.pinv(x @ x.mT, rtol=0.02, hermitian=True),
    "rank": lambda x: ad.linalg.matrix_rank(x),
    "nuclear norm": lambda x: ad.linalg.matrix_norm(x, "nuc"),
}
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 1e-30, 80.0, -80.0, np.inf, -np.inf, np.nan]


def arrays(result: Any) -> list[Any]:
    return [t.numpy() for t in (result if isinstance(result, tuple) else (result,))]


def some_matrices(rng: Any, dtype: str, square: bool) -> Any:
    """A batch of matrices of any shape."""
    batch = [(), (1,), (7,), (2, 3)][rng.integers(4)]
    m, n = rng.integers(1, 9, 2)
    array = rng.standard_normal((*batch, m, m if square else n)).astype(dtype)
    return ad.from_numpy(array)


def compare(function: Function, x: Any, *, exactly: bool) -> None:
    """What eager mode gives, and a program."""
    want, got = arrays(function(x)), arrays(ad.compile(function)(x))
    for one, other in zip(want, got, strict=True):
        assert one.dtype == other.dtype
        if exactly:
            np.testing.assert_array_equal(one, other)
        else:
            size = np.abs(one).max(initial=1)
            limit = 1e-12 if one.dtype == np.float64 else 1e-5
            np.testing.assert_allclose(one, other, rtol=0, atol=limit * size)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MATRICES)
def test_factors_are_eager_mode_s_to_the_bit(
    name: str, dtype: str, programs: list[native.Native]
) -> None:
    rng = np.random.default_rng([len(name), len(dtype)])
    for _ in range(4):
        compare(MATRICES[name], some_matrices(rng, dtype, name in SQUARE), exactly=True)
    assert programs
    assert not any(program.calls_eager for program in programs)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MADE)
def test_what_is_made_of_factors(name: str, dtype: str, programs: list[native.Native]) -> None:
    rng = np.random.default_rng([len(name), len(dtype)])
    for _ in range(3):
        compare(MADE[name], some_matrices(rng, dtype, False), exactly=False)
    assert not any(program.calls_eager for program in programs)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_least_squares(driver: str, dtype: str, programs: list[native.Native]) -> None:
    """The solution of least norm, of full rank and of less."""
    rng = np.random.default_rng(len(driver))
    # By pivots more than rounding is left out otherwise, and the library is asked.
    own = {"float32": 2.0**-23, "float64": 2.0**-52}[dtype] if driver in ("gels", "gelsy") else 2e-6
    # Residuals are none where ranks are known to be less than full.
    solve = lambda x, y: LSTSQ(x, y, rcond=own * max(x.shape[-2:]), driver=driver)
    for batch, m, n, k in [((), 6, 3, 2), ((3,), 4, 4, 1), ((2, 2), 3, 5, 2), ((), 7, 4, 3)]:
        x = rng.standard_normal((*batch, m, n)).astype(dtype)
        if driver != "gels" and (m, n) == (7, 4):
            x[..., 3] = x[..., 0] - 2 * x[..., 1]
        y = ad.from_numpy(rng.standard_normal((*batch, m, k)).astype(dtype))
        given = ad.from_numpy(x)
        for want, got in zip(solve(given, y), ad.compile(solve)(given, y), strict=True):
            assert want.shape == got.shape
            limit = 2e-4 if dtype == "float32" else 1e-10
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=limit, atol=limit)
    assert not any(program.calls_eager for program in programs)


def test_gradients_by_factors(programs: list[native.Native]) -> None:
    def gradient(x: Any) -> Any:
        x = x.detach().requires_grad_()
        _, s, vh = ad.linalg.svd(x, full_matrices=False)
        (s.log().sum() + (vh * vh).sum() + ad.linalg.eigvalsh(x.mT @ x).sum()).backward()
        return x.grad

    rng = np.random.default_rng(3)
    compare(gradient, ad.from_numpy(rng.standard_normal((4, 6, 3))), exactly=False)
    assert not any(program.calls_eager for program in programs)


def test_a_loop_of_factors(programs: list[native.Native]) -> None:
    """Whole loops are native where their bodies are."""

    def largest(xs: Any) -> Any:
        return ad.scan(lambda c, x: (c + ad.linalg.svdvals(x)[0], c), xs.new_zeros(()), xs)

    rng = np.random.default_rng(4)
    compare(largest, ad.from_numpy(rng.standard_normal((5, 3, 3))), exactly=False)
    assert not any(program.calls_eager for program in programs)


def test_a_single_large_matrix(programs: list[native.Native]) -> None:
    """It has the threads of NumPy's library, and gives them back."""
    x = ad.from_numpy(np.random.default_rng(1).standard_normal((390, 390)))
    compare(lambda x: ad.linalg.eigvalsh(x), x, exactly=False)
    assert not any(program.calls_eager for program in programs)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers(workers: int) -> None:
    before = ad.get_num_threads()
    x = ad.from_numpy(np.random.default_rng(0).standard_normal((64, 12, 12)))
    want = arrays(ad.linalg.eigh(x))
    try:
        ad.set_num_threads(workers)
        got = arrays(ad.compile(ad.linalg.eigh)(x))
    finally:
        ad.set_num_threads(before)
    for one, other in zip(want, got, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["eigh", "svd", "eig"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("batch", [(), (5,)])
def test_what_is_not_finite_is_refused_as_ever(
    name: str, wrong: float, batch: tuple[int, ...]
) -> None:
    state = ad.zeros(())
    operation = getattr(ad.linalg, name)

    def counted(x: Any) -> Any:
        state.add_(1)
        return operation(x)

    compiled = ad.compile(counted)
    array = np.random.default_rng(1).standard_normal((*batch, 4, 4))
    compiled(ad.from_numpy(array))
    array.reshape(-1, 4, 4)[-1, 1, 0] = wrong
    with pytest.raises(Exception, match="linalg") as eager:
        operation(ad.from_numpy(array))
    with pytest.raises(type(eager.value)) as told:
        compiled(ad.from_numpy(array))
    assert str(told.value) == str(eager.value)
    assert isinstance(eager.value, RuntimeError if name == "eig" else LinAlgError)
    assert state.item() == 1


# -- special functions --------------------------------------------------------------------------


def public_of(name: str) -> Function:
    if name == "airy_ai_prime":  # the derivative, which has no name of its own
        return lambda x: AIRY_AI_PRIME(x)
    names = {"igamma": "gammainc", "igammac": "gammaincc"}
    function: Function = getattr(ad.special, names.get(name, name))
    return function


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions_are_eager_mode_s(
    name: str, dtype: str, programs: list[native.Native]
) -> None:
    rng = np.random.default_rng(len(name))
    function = public_of(name)
    x = ad.from_numpy(np.concatenate([NUMBERS, rng.standard_normal(60) * 5]).astype(dtype))
    if name in ("igamma", "igammac", "zeta"):
        others = [x.abs().reshape(-1, 1)[::7], ad.tensor(2.5).to(x.dtype)]
        results = [(function(x, y), ad.compile(function)(x, y)) for y in others]
    else:
        results = [(function(x), ad.compile(function)(x))]
    for want, got in results:
        assert want.dtype == got.dtype
        np.testing.assert_array_equal(want.numpy(), got.numpy())
    assert not any(program.calls_eager for program in programs)


def test_a_function_of_several_results_on_several_workers(programs: list[native.Native]) -> None:
    """What nobody wants of them is written somewhere else."""
    x = ad.from_numpy(np.random.default_rng(2).standard_normal((7, 131)) * 3)
    compiled = ad.compile(lambda x: (ad.special.airy_ai(x), AIRY_AI_PRIME(x[:, ::2]) * 2))
    for got, want in zip(
        compiled(x), (ad.special.airy_ai(x), AIRY_AI_PRIME(x[:, ::2]) * 2), strict=True
    ):
        np.testing.assert_array_equal(got.numpy(), want.numpy())
    assert not any(program.calls_eager for program in programs)


@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_polygamma(n: int, dtype: str, programs: list[native.Native]) -> None:
    x = ad.from_numpy(np.array([*NUMBERS, -0.3, 2.5, 17.0], dtype))
    want, got = ad.polygamma(n, x), ad.compile(lambda x: ad.polygamma(n, x))(x)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)
    assert not any(program.calls_eager for program in programs)


# -- names --------------------------------------------------------------------------------------


def test_names_lead_to_loops_of_known_modules_alone() -> None:
    address, data = symbols.names_of(symbols.MATRICES, "eigh_lo", "d->dd")
    assert symbols.address_of(address) > 0
    assert symbols.address_of(data) >= 0
    for name in ("os:system:d->d:address", "numpy:add:dd->d:address", "", "scipy.special:i0:d->d",
                 f"{symbols.MATRICES}:eigh_lo:d->dd:__class__", f"{symbols.SPECIAL}:gone:d->d:data"):  # fmt: skip
        with pytest.raises(symbols.UnknownSymbol):
            symbols.address_of(name)


def test_a_kept_program_whose_loop_is_gone_is_planned_again(
    monkeypatch: pytest.MonkeyPatch, programs: list[native.Native]
) -> None:
    x = ad.from_numpy(np.random.default_rng(5).standard_normal((3, 11, 11)))
    want = ad.compile(ad.linalg.eigvalsh)(x)
    assert [len(program.image.symbols) for program in programs] == [2]

    def gone(name: str) -> int:
        raise symbols.UnknownSymbol(name)

    symbols.loop_of.cache_clear()
    monkeypatch.setattr(symbols, "inner_loop_of", lambda ufunc, kinds: None)
    monkeypatch.setattr(symbols, "address_of", gone)
    try:
        again = ad.compile(lambda x: ad.linalg.eigvalsh(x))(x)
    finally:
        symbols.loop_of.cache_clear()
    np.testing.assert_array_equal(want.numpy(), again.numpy())
    assert programs[-1].calls_eager
