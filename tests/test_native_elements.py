"""Draws by rejection and the like in compiled programs: the bits of the eager table, no Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.array.kernels.random import gamma_samples, tensor_parameters
from adjoint.engine.backends.llvm.program import native
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.random.gamma_samples import STANDARD_GAMMA, STANDARD_GAMMA_GRAD
from adjoint.engine.ops.random.tensor_parameters import BINOMIAL, POISSON

Function = Callable[..., Any]
DTYPES = ["float32", "float64", "float16", "bfloat16"]
EDGES = [0.0, 0.5, 1.0, 9.999, 10.0, 1e6, np.inf]
# The record, its array kernel, and parameters of any size: usual ones, then those at the edges.
LAWS: dict[str, tuple[Any, Function, Callable[[Any, int], list[Any]], list[list[float]]]] = {
    "poisson": (
        POISSON,
        tensor_parameters.poisson,
        lambda rng, n: [10 ** rng.uniform(-4, 5, n)],
        [EDGES],
    ),
    "binomial": (
        BINOMIAL,
        tensor_parameters.binomial,
        lambda rng, n: [rng.integers(0, 400, n) * 1.0, rng.uniform(0, 1, n)],
        [[0, 1, 7.9, -3, np.nan, 50, 50, 50, 50, 50], [0.5, 1, 0, 0.3, 0.1, np.nan, 1, 0, 2, -1]],
    ),
    "standard_gamma": (
        STANDARD_GAMMA,
        gamma_samples.standard_gamma,
        lambda rng, n: [10 ** rng.uniform(-3, 4, n)],
        [[*EDGES, np.nan, -1.0, 1e-30]],
    ),
}


def words(rng: Any, shape: tuple[int, ...]) -> Any:
    return rng.integers(-(2**63), 2**63, shape, dtype=np.int64)


def same_bits(record: Any, kernel: Function, drawn: Any, arrays: list[Any], dtype: str) -> None:
    """A program's samples are those of the array kernel."""
    given = [ad.from_numpy(np.asarray(a)).to(getattr(ad, dtype)) for a in arrays]
    with np.errstate(all="ignore"):
        want = kernel(np, drawn, *[x._array for x in given])
    got = ad.compile(lambda *operands: record(*operands))(ad.from_numpy(drawn), *given)
    np.testing.assert_array_equal(got.double().numpy(), want.astype(np.float64))
    assert got.shape == want.shape


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("law", LAWS)
def test_samples_are_the_array_kernel_s_to_the_bit(
    law: str, dtype: str, programs: list[native.Native]
) -> None:
    record, kernel, usual, edges = LAWS[law]
    rng = np.random.default_rng([len(law), len(dtype)])
    same_bits(record, kernel, words(rng, (700,)), usual(rng, 700), dtype)
    cases = [np.array(column) for column in edges]
    same_bits(record, kernel, words(rng, cases[0].shape), cases, dtype)
    assert programs
    assert not any(program.calls_eager for program in programs)


@pytest.mark.parametrize("law", LAWS)
def test_attempts_in_lanes_are_those_of_one_element(
    law: str, programs: list[native.Native]
) -> None:
    """Around the numbers that are attempted together, unusual parameters among the others."""
    record, kernel, usual, edges = LAWS[law]
    rng = np.random.default_rng(len(law))
    for n in (7, 8, 9, 1024, 1037, 2600):
        columns = usual(rng, n)
        at = rng.permutation(n)[: len(edges[0])]
        for column, unusual in zip(columns, edges, strict=True):
            column[at] = unusual[: len(at)]
        same_bits(record, kernel, words(rng, (n,)), columns, "float64")
    one = [np.array(column[0]) for column in usual(rng, 1)]
    same_bits(record, kernel, words(rng, (1500,)), one, "float32")


@pytest.mark.parametrize("law", LAWS)
def test_parameters_spread_to_the_words(law: str, programs: list[native.Native]) -> None:
    record, kernel, usual, _ = LAWS[law]
    rng = np.random.default_rng(len(law))
    for shape, one, other in [
        ((), (), ()), ((1,), (1,), ()), ((3, 1, 4), (1, 4), (3, 1, 1)), ((2, 5), (), (2, 1)),
    ]:  # fmt: skip
        arrays = [
            np.resize(column, given)
            for column, given in zip(usual(rng, 12), (one, other), strict=False)
        ]
        same_bits(record, kernel, words(rng, shape), arrays, "float64")
    columns = [np.asarray(column).reshape(4, 3).T for column in usual(rng, 12)]
    same_bits(record, kernel, words(rng, (3, 4)), columns, "float32")
    assert not any(program.calls_eager for program in programs)


@pytest.mark.parametrize("law", LAWS)
def test_no_samples_of_nothing(law: str) -> None:
    record, kernel, usual, _ = LAWS[law]
    rng = np.random.default_rng(0)
    empty = [np.empty((0, 3)) for _ in usual(rng, 1)]
    same_bits(record, kernel, words(rng, (0, 3)), empty, "float32")


def test_few_and_many_numbers_are_drawn_alike() -> None:
    """Eagerly few are drawn by the array kernel, many by a program: one stream."""
    rates = ad.linspace(0.1, 60.0, 3000)
    for draw in (ad.poisson, ad._standard_gamma, lambda x: ad.binomial(x.ceil(), x / 61)):
        with np.errstate(all="ignore"):
            ad.manual_seed(7)
            many = draw(rates)
            ad.manual_seed(7)
            few = draw(rates[:20])
        assert many[:20].tolist() == few.tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_samples_accepted_by_a_bound_are_those_of_the_logarithms(dtype: str) -> None:
    """Of shapes at which the bound of gamma samples begins to hold, and of all sizes."""
    rng = np.random.default_rng(len(dtype))
    near = 1.0 + rng.uniform(-1e-6, 1e-6, 2000)
    sizes = 10 ** rng.uniform(-2, 16, 4000)
    signed = rng.uniform(-1.0, 1.0, 60)  # none below zero is accepted before the last retry
    shapes = np.concatenate([near, sizes, np.abs(signed)])
    same_bits(
        STANDARD_GAMMA,
        gamma_samples.standard_gamma,
        words(rng, shapes.shape),
        [shapes],
        dtype,
    )


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("shape", [(70, 130), (9000,), (3, 2), (40, 1)])
def test_categories_are_the_table_s(replacement: bool, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape))
    weights = rng.random(shape) * 10 ** rng.uniform(-8, 8, shape)
    weights[..., ::7] = 0.0 if shape[-1] > 1 else 1.0
    for dtype in (ad.float32, ad.float64, ad.bfloat16):
        x = ad.from_numpy(weights).to(dtype)
        ad.manual_seed(3)
        with CONTEXT.having(reference=True):
            want = ad.multinomial(x, 1, replacement=replacement)
        for _ in range(20):
            ad.manual_seed(3)
            assert ad.multinomial(x, 1, replacement=replacement).tolist() == want.tolist()
    for bad in (np.nan, np.inf, -1.0):
        weights[..., -1] = bad
        with pytest.raises(RuntimeError, match="multinomial: probability tensor contains"):
            ad.multinomial(ad.from_numpy(weights), 1, replacement=replacement)
    with pytest.raises(RuntimeError, match="multinomial: invalid multinomial distribution"):
        ad.multinomial(ad.zeros(shape), 1, replacement=replacement)


@pytest.mark.parametrize("count", [1, 100, 5000, 70001])
def test_random_orders_are_the_table_s(count: int) -> None:
    ad.manual_seed(5)
    with CONTEXT.having(reference=True):
        want = ad.randperm(count)
    assert sorted(want.tolist()) == [*range(count)]
    for _ in range(20 if count < 10000 else 3):
        ad.manual_seed(5)
        assert np.array_equal(ad.randperm(count).numpy(), want.numpy())


def test_a_rate_that_is_none_is_refused(programs: list[native.Native]) -> None:
    draw = ad.compile(ad.poisson)
    for bad in (-1.0, np.nan):
        for size in (3, 2000):
            rates = ad.ones(size)
            rates[size - 1] = bad
            for call in (ad.poisson, draw):
                with pytest.raises(RuntimeError, match="expected rate to be non-negative"):
                    call(rates)
    assert draw(ad.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    assert not any(program.calls_eager for program in programs)


def some_shapes(rng: Any, count: int) -> tuple[Any, Any]:
    shapes = 10 ** rng.uniform(-3, 3.5, count)
    return shapes, shapes * 10 ** rng.uniform(-1.5, 0.7, count)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_of_gamma_samples(dtype: str, programs: list[native.Native]) -> None:
    shapes, samples = (a.astype(dtype) for a in some_shapes(np.random.default_rng(3), 300))
    edges = np.array([0.0, 1, 2, np.nan, -1, 3, 5, 200], dtype)
    beside = np.array([1.0, 0, 2, 3, 1, np.nan, -2, 190], dtype)
    limit = 1e-6 if dtype == "float32" else 1e-12
    for a, x in ((shapes, samples), (edges, beside)):
        want = gamma_samples.standard_gamma_grad(np, a, x)
        got = ad.compile(STANDARD_GAMMA_GRAD)(ad.from_numpy(a), ad.from_numpy(x)).numpy()
        np.testing.assert_allclose(got, want, rtol=limit)
    assert not any(program.calls_eager for program in programs)


DISTRIBUTIONS: dict[str, Function] = {
    "gamma": lambda a: ad.distributions.Gamma(a, a + 1).rsample(),
    "beta": lambda a: ad.distributions.Beta(a, a + 1).rsample((3,)),
    "dirichlet": lambda a: ad.distributions.Dirichlet(a).rsample((2,)),
    "chi2": lambda a: ad.distributions.Chi2(a).rsample(),
    "student": lambda a: ad.distributions.StudentT(a + 3).rsample(),
    "poisson": lambda a: ad.distributions.Poisson(a * 20).sample() * a,
    "binomial": lambda a: ad.distributions.Binomial(9, a / 4).sample() * a,
    "negative binomial": lambda a: ad.distributions.NegativeBinomial(5.0, a / 4).sample() * a,
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions_and_their_gradients(name: str, programs: list[native.Native]) -> None:
    def step(a: Any) -> Any:
        a = a.detach().requires_grad_()
        sample = DISTRIBUTIONS[name](a)
        (sample * sample).sum().backward()
        return sample.detach(), a.grad

    a = ad.linspace(0.2, 3.0, 8, dtype=ad.float64)
    ad.manual_seed(11)
    want = step(a)
    ad.manual_seed(11)
    got = ad.compile(step)(a)
    for one, other in zip(want, got, strict=True):
        np.testing.assert_allclose(other.numpy(), one.numpy(), rtol=1e-11)
    assert not any(program.calls_eager for program in programs)


POLYNOMIALS = sorted(name for name in dir(ad.special) if "polynomial" in name)
PLACES = [1.0, -1.0, 0.0, 0.5, np.nan, np.inf, -np.inf, 1e30]
DEGREES: list[float] = [0, 1, 2, 6, 7, 9, 20, -1, 3.7, 130, 600]


def agree(function: Function, *operands: Any) -> None:
    """A program's results are those of the eager table, on few elements and so by NumPy."""
    want, got = function(*operands).numpy(), ad.compile(function)(*operands).numpy()
    assert want.dtype == got.dtype
    limit = 1e-6 if want.dtype == np.float32 else 2e-12
    np.testing.assert_allclose(got, want, rtol=limit, atol=limit)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_orthogonal_polynomials(name: str, dtype: str, programs: list[native.Native]) -> None:
    polynomial = getattr(ad.special, name)
    rng = np.random.default_rng(len(name))
    x = np.concatenate([rng.uniform(-1, 1, 23), rng.normal(0, 3, 11), PLACES]).astype(dtype)
    given = ad.from_numpy(x)
    for n in DEGREES:
        agree(lambda x, n=n: polynomial(x, n), given)
    degrees = ad.from_numpy(rng.uniform(-1, 40, x.shape).astype(dtype))
    for n_ in (degrees, degrees.long(), degrees[:1], degrees[0], degrees.reshape(-1, 1)):
        agree(polynomial, given, n_)
    agree(polynomial, given[0], degrees)
    agree(lambda n: polynomial(0.3, n), degrees)
    agree(polynomial, ad.tensor([0, 1, 2]), 3)
    assert not any(program.calls_eager for program in programs)


@pytest.mark.parametrize("name", [n for n in POLYNOMIALS if "hermite" not in n])
def test_polynomials_of_halves(name: str, programs: list[native.Native]) -> None:
    polynomial = getattr(ad.special, name)
    for dtype in (ad.float16, ad.bfloat16):
        x = ad.linspace(-1.2, 1.2, 13, dtype=dtype)
        want, got = polynomial(x, 4), ad.compile(polynomial)(x, 4)
        assert want.dtype is got.dtype is dtype
        assert want.tolist() == got.tolist()
    assert not any(program.calls_eager for program in programs)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_gradients_of_polynomials(name: str, programs: list[native.Native]) -> None:
    polynomial = getattr(ad.special, name)

    def gradient(x: Any) -> Any:
        x = x.detach().requires_grad_()
        polynomial(x, 5).sum().backward()
        return x.grad

    x = ad.linspace(-1.3, 1.4, 9, dtype=ad.float64)
    agree(gradient, x)
    assert not any(program.calls_eager for program in programs)
    h = 1e-6
    slope = (polynomial(x + h, 5) - polynomial(x - h, 5)) / (2 * h)
    np.testing.assert_allclose(gradient(x).numpy(), slope.numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_evenly_spaced_numbers(dtype: str, programs: list[native.Native]) -> None:
    """To the bits of eager mode, whatever the ends."""
    rng = np.random.default_rng(len(dtype))
    kind = getattr(ad, dtype)
    for count in (2, 3, 7, 100, 257):
        for start, end in [(0, 1), (-1.0, 1.0), (5, 5), *(rng.normal(0, 100, (3, 2))).tolist()]:
            draw = lambda x, a=start, b=end, n=count: x + ad.linspace(a, b, n, dtype=kind)
            x = ad.zeros(count, dtype=kind)
            np.testing.assert_array_equal(
                ad.compile(draw)(x).float().numpy(), draw(x).float().numpy()
            )
    assert not any(program.calls_eager for program in programs)
