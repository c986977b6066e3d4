"""What reductions, scans and orderings promise beyond their derivatives."""

from __future__ import annotations

import pickle
from math import fsum, inf, nan, prod
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.array.kernels.reduce.reduction import sum_


def test_results_are_named() -> None:
    x = ad.tensor([[3.0, 1.0], [2.0, 5.0]])
    assert x.max(0)._fields == ("values", "indices")
    assert x.aminmax().min.item() == 1
    assert ad.histogram(x, 2)._fields == ("hist", "bin_edges")
    assert isinstance(x.sort(), ad.return_types.sort)
    assert pickle.loads(pickle.dumps(ad.return_types.topk(1, 2))) == (1, 2)


def test_integers_sum_in_int64_and_halves_in_float32() -> None:
    assert ad.ones(3, dtype=ad.int8).sum().dtype is ad.int64
    assert ad.ones(3, dtype=ad.bool).prod().dtype is ad.int64
    assert ad.ones(4096, dtype=ad.bfloat16).sum().item() == 4096
    assert ad.full((70000,), 2.0, dtype=ad.float16).mean().item() == 2


@pytest.mark.parametrize("shape", [(1000003,), (4, 250000), (5, 2000, 7), (4097,), (70001, 2)])
def test_errors_of_sums_hardly_grow_with_their_length(shape: tuple[int, ...]) -> None:
    """Of equal terms all roundings go the same way, and a sum one by one is off by thousands."""
    compiled = ad.compile(lambda x: x.sum())
    for value in (0.1, 0.7654321, 1e-3):
        x = np.full(shape, value, np.float32)
        exact = float(x.flat[0]) * x.size
        for total in (ad.tensor(x).sum(), compiled(ad.tensor(x))):
            assert abs(total.item() - exact) <= 32 * 2.0**-24 * exact


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
@pytest.mark.parametrize(
    ("shape", "dims"),
    [((1000, 2), 0), ((70, 29), 0), ((4, 100, 5), 1), ((100, 3, 5), (0, 2)), ((3, 90, 7), (0, 1))],
)
def test_sums_of_few_columns_are_as_exact_as_those_of_rows(
    shape: tuple[int, ...], dims: int | tuple[int, ...], dtype: Any
) -> None:
    """Natively and by NumPy alone, with the same bits; of memory in any order and with gaps."""
    axes = (dims,) if isinstance(dims, int) else dims
    count = prod(shape[d] for d in axes)
    for value in (0.1, 0.7654321):
        x = np.full(shape, value, dtype)
        exact = fsum([float(x.flat[0].real)] * count)
        gaps = ad.tensor(np.repeat(x, 2, axis=-1))[..., ::2]
        behind = ad.tensor(np.ascontiguousarray(x.T)).permute(*reversed(range(x.ndim)))
        for given in (ad.tensor(x), gaps, behind):
            plain = sum_(np, given.numpy(), axes, keepdim=False)
            for _ in range(4):  # of calls alike only later ones are native
                total = given.sum(dims)
                assert np.array_equal(total.numpy(), plain)
                assert total.is_contiguous()
            assert np.all(abs(plain - exact) <= 6 * np.finfo(dtype).eps * exact)
            assert ad.equal(given.sum(dims, keepdim=True).flatten(), total.flatten())


@pytest.mark.parametrize("size", [1e-30, 3e25, 0.7])
@pytest.mark.parametrize("ord", [2.0, 3.0, 0.5, -1.5])
def test_the_norm_of_one_element_is_its_size(ord: float, size: float) -> None:
    """Neither squared nor raised, so that none is too small or too large; as PyTorch's."""
    x = ad.tensor([[size], [-size]], requires_grad=True)
    for norm in (ad.linalg.vector_norm, ad.compile(ad.linalg.vector_norm)):
        norms = norm(x, ord, dim=1)
        assert ad.equal(norms, x.detach().abs()[:, 0])
        (gradient,) = ad.autograd.grad(norms.sum(), x)
        assert ad.equal(gradient, ad.tensor([[1.0], [-1.0]]))


@pytest.mark.parametrize("count", [5, 300, 5000])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_means_norms_and_sums_without_nan_are_rounded_once(dtype: str, count: int) -> None:
    rng, kind = np.random.default_rng(count), getattr(ad, dtype)
    for scale in (1, 260):  # of which float16 has no square
        rows = ad.tensor(rng.standard_normal((20, count)) * scale).to(kind)
        rows[:, 0] = nan
        exact = rows.double().numpy()
        for name, want in {
            "nansum": np.nansum(exact, 1),
            "mean": exact[:, 1:].mean(1),
            "norm": np.sqrt((exact[:, 1:] ** 2).sum(1)),
        }.items():
            given = rows if name == "nansum" else rows[:, 1:]
            rounded = ad.tensor(want).to(kind).double().numpy()
            near = 2 * ad.finfo(kind).eps * 1e-2 if kind.is_half else 1e-5
            for requires_grad in (False, True):
                x = given.clone().requires_grad_(requires_grad)
                got = getattr(x, name)(dim=1).detach().double().numpy()
                # Where float32's sum is at the middle between two halves, it may be either.
                assert (np.abs(got - rounded) <= near * np.abs(rounded)).mean() >= 0.9
                spread = 1e-6 * np.nansum(np.abs(exact), 1)
                assert (np.abs(got - want) <= ad.finfo(kind).eps * np.abs(want) + spread).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_products_of_vectors_are_rounded_once(dtype: str) -> None:
    """Of any length and however they lie, on the tape and off it."""
    kind, rng = getattr(ad, dtype), np.random.default_rng(3)
    for count in (3, 257, 1500, 70_001):
        x, y = (ad.tensor(rng.standard_normal((count, 2)) / 2).to(kind) for _ in range(2))
        for a, b in ((x[:, 0], y[:, 1]), (x[:, 0].clone(), y[:, 0].clone()), (x[:, 1], x[:, 1])):
            exact = a.double().numpy() * b.double().numpy()
            scale = np.abs(exact).sum()
            for left in (a, a.clone().requires_grad_()):
                for got in (ad.dot(left, b), left @ b, b.dot(left)):
                    assert (got.dtype, got.shape) == (kind, ())
                    error = abs(got.item() - exact.sum())
                    half = ad.finfo(kind).eps * abs(exact.sum()) if kind.is_half else 0
                    assert error <= half + 1e-6 * scale
    with pytest.raises(RuntimeError, match="same dtype"):
        ad.dot(ad.ones(2000), ad.ones(2000, dtype=ad.float64))
    with pytest.raises(RuntimeError, match="inconsistent tensor size"):
        ad.dot(ad.ones(2000), ad.ones(2001))


def test_long_sums_keep_their_digits() -> None:
    x = np.random.default_rng(0).random((300_000, 3), dtype=np.float32)
    for got in (ad.tensor(x).sum(0), ad.tensor(x).cumsum(0)[-1]):
        np.testing.assert_allclose(got.numpy(), x.sum(0, dtype=np.float64), rtol=2e-6)


@pytest.mark.parametrize("shape", [(50, 2), (300, 5), (2000, 40)])
def test_running_sums_are_rounded_once(shape: tuple[int, ...]) -> None:
    """Few elements, some, and many; forwards and, in the gradient, backwards."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for dim in (0, 1):
        want = x.astype(np.float64).cumsum(dim).astype(np.float32)
        back = np.flip(np.flip(x, dim).astype(np.float64).cumsum(dim), dim).astype(np.float32)
        for run in (lambda t, d=dim: t.cumsum(d), ad.compile(lambda t, d=dim: t.cumsum(d))):
            given = ad.tensor(x, requires_grad=True)
            got = run(given)
            (g,) = ad.autograd.grad(got, given, ad.tensor(x))
            np.testing.assert_array_equal(got.detach().numpy(), want)
            np.testing.assert_array_equal(g.numpy(), back)


@pytest.mark.parametrize("mean", [0, 1000, 30_000])
@pytest.mark.parametrize("shape", [(8, 100), (40, 3), (64, 5000)])
def test_variances_do_not_carry_the_rounding_of_the_mean(
    shape: tuple[int, ...], mean: float
) -> None:
    x = (np.random.default_rng(0).standard_normal(shape) + mean).astype(np.float32)
    for dim in (0, 1, (0, 1)):
        want = x.astype(np.float64).var(dim)
        for run in (lambda t, d=dim: t.var(d, correction=0), lambda t, d=dim: t.std(d, False) ** 2):
            for got in (run(ad.tensor(x)), ad.compile(run)(ad.tensor(x))):
                np.testing.assert_allclose(got.numpy(), want, rtol=2e-6)


@pytest.mark.parametrize("value", [0.1, 1e6 / 3])
@pytest.mark.parametrize("n", [3, 1000, 100_001])
def test_variances_of_a_constant_are_not_negative(value: float, n: int) -> None:
    x = ad.full((n,), value)
    ulp = float(np.spacing(np.float32(value)))
    assert 0 <= x.var().item() <= ulp**2
    assert 0 <= x.std().item() <= ulp


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    "run", [lambda x: x.var(1), lambda x: x.std(1), lambda x: x.var((0, 1)), lambda x: x.std()]
)
def test_variances_are_rounded_once(run: Any, compiled: bool) -> None:
    """Also of values whose squares are too large or too small for float32, as in PyTorch."""
    rng = np.random.default_rng(0)
    for scale in (1e-30, 1, 1e30):
        given = ad.from_numpy((rng.standard_normal((4, 300)) + 3) * scale).float()
        got = (ad.compile(run) if compiled else run)(given).numpy()
        with np.errstate(over="ignore"):
            want = run(given.double()).numpy().astype(np.float32)
        np.testing.assert_allclose(got, want, rtol=2e-7)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_variances_of_nothing_are_nan() -> None:
    for correction in (-1, 0, 1):
        assert ad.zeros(3, 0).var(1, correction=correction).isnan().all()
        assert ad.zeros(0).std(correction=correction).isnan()


@pytest.mark.parametrize("dtype", [ad.bfloat16, ad.float16, ad.float32, ad.float64])
@pytest.mark.parametrize("kind", ["sum", "mean", "max", "min", "prod"])
def test_reductions_of_segments_keep_the_dtype(kind: str, dtype: ad.dtype) -> None:
    x, lengths = ad.tensor([2.0, 3.0, 4.0], dtype=dtype), ad.tensor([2, 1])
    out = ad.segment_reduce(x, kind, lengths=lengths)
    want = {"sum": 5.0, "mean": 2.5, "max": 3.0, "min": 2.0, "prod": 6.0}[kind]
    assert (out.dtype, out.tolist()) == (dtype, [want, 4.0])


@pytest.mark.parametrize("dtype", [ad.bfloat16, ad.float16])
def test_sums_of_halves_to_a_size_are_rounded_once(dtype: ad.dtype) -> None:
    """Over dimensions in front and within at once, as in the gradient of a channel's bias."""
    x = ad.randn(8, 16, 28, 28, generator=ad.Generator().manual_seed(0)).to(dtype)
    total = x.double().sum((0, 2, 3))
    bias = ad.zeros(16, 1, 1, dtype=dtype, requires_grad=True)
    (x + bias).backward(x)
    for got in (
        x.sum_to_size(16, 1, 1),
        bias.grad,
        ad.compile(lambda t: t.sum_to_size(16, 1, 1))(x),
    ):
        assert got.shape == (16, 1, 1)
        assert got.dtype is dtype
        ad.testing.assert_close(
            got.reshape(-1).double(), total, rtol=ad.finfo(dtype).eps * 0.51, atol=1e-3
        )


def test_nan_wins_and_sorts_last() -> None:
    x = ad.tensor([2.0, nan, 1.0])
    assert x.max().isnan()
    assert x.argmin().item() == 1
    assert x.median(0).indices.item() == 1
    assert x.nanmedian().item() == 1
    assert x.sort().indices.tolist() == [2, 0, 1]
    assert x.topk(2).indices.tolist() == [1, 0]
    assert x.cummax(0).indices.tolist() == [0, 1, 1]


def test_reductions_of_nothing() -> None:
    empty = ad.zeros(0)
    assert empty.sum().item() == 0
    assert empty.prod().item() == 1
    assert empty.mean().isnan()
    assert empty.all().item()
    assert empty.logsumexp(0).item() == -inf
    with pytest.raises(RuntimeError, match="max: expected reduction dim"):
        empty.max()
    with pytest.raises(IndexError, match="argmax"):
        ad.zeros(2, 0).argmax(1)


def test_ties_share_or_go_to_the_index() -> None:
    x = ad.tensor([3.0, 3.0, 1.0], requires_grad=True)
    assert ad.autograd.grad(x.amax(), x)[0].tolist() == [0.5, 0.5, 0.0]
    assert ad.autograd.grad(x.max(0).values, x)[0].tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("zeros", [(), (1,), (0, 2)])
def test_products_differentiate_at_zero(zeros: tuple[int, ...]) -> None:
    values = [2.0, 3.0, 5.0]
    for i in zeros:
        values[i] = 0.0

    def others(*without: int) -> float:
        return float(np.prod([v for i, v in enumerate(values) if i not in without]))

    x = ad.tensor(values, dtype=ad.float64)
    for product in (lambda t: t.prod(), lambda t: t.cumprod(0)[-1]):
        assert ad.func.grad(product)(x).tolist() == [others(i) for i in range(3)]
        hessian = ad.func.hessian(product)(x).tolist()
        for i in range(3):
            for j in range(3):
                assert hessian[i][j] == (0 if i == j else others(i, j))


def test_infinities_in_logsumexp() -> None:
    assert ad.tensor([-inf, -inf]).logsumexp(0).item() == -inf
    assert ad.tensor([inf, 1.0]).logsumexp(0).item() == inf
    assert ad.tensor([-inf, 0.0]).logcumsumexp(0).tolist() == [-inf, 0.0]


def test_order_among_equals() -> None:
    x = ad.tensor([1, 0, 1, 0, 1])
    assert x.sort(stable=True, descending=True).indices.tolist() == [0, 2, 4, 1, 3]
    many = ad.zeros(5000)
    assert many.topk(2).indices.tolist() == [0, 1]
    assert sorted(many.sort().indices.tolist()) == list(range(5000))


def test_numpy_names() -> None:
    x: Any = ad.ones(2, 3)  # type checkers are told PyTorch's names only
    total: Any = ad.sum
    assert total(x, axis=1, keepdims=True).shape == (2, 1)
    assert x.argmax(axis=0).shape == (3,)


def test_too_few_degrees_of_freedom_warn() -> None:
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert ad.ones(1).var().isnan()


FAR_APART = {
    "wide": [0.0, 100.0, -200.0, 50.0, 120.0],
    "falling": [300.0, 200.0, 0.0, -100.0],
    "rising": [-300.0, 0.0, 200.0, 500.0],
    "nothing first": [-inf, 1.0, -inf, 2.0],
    "nothing": [-inf, -inf],
    "a zero": [-0.0],
    "huge": [1e38, 10.0, -1e38],
}


def log_weights(x: np.ndarray[Any, Any], g: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The gradient of sum g[j] log sum exp x[..j], by its definition in double precision."""
    total = np.zeros_like(x)
    for j in range(len(x)):
        part = x[: j + 1]
        top = part.max()
        if top > -inf:
            share = np.exp(part - top)
            total[: j + 1] += g[j] * share / share.sum()
    return total


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
@pytest.mark.parametrize("name", FAR_APART)
def test_gradients_of_running_logsumexp_of_values_far_apart(name: str, dtype: Any) -> None:
    values = FAR_APART[name]
    weights = ad.arange(1, len(values) + 1, dtype=dtype)

    def derivatives(x: Any) -> list[Any]:
        y = x.logcumsumexp(0)
        (g,) = ad.autograd.grad((y * weights).sum(), x, create_graph=True)
        (second,) = ad.autograd.grad((g * weights).sum(), x)
        return [y.detach(), g.detach(), second]

    x = ad.tensor(values, dtype=dtype, requires_grad=True)
    eager, compiled = derivatives(x), ad.compile(derivatives)(x)
    ad.testing.assert_close(compiled, eager)
    assert np.signbit(compiled[0].numpy()).tolist() == np.signbit(eager[0].numpy()).tolist()
    wide = np.array(values)
    want = log_weights(wide, weights.numpy().astype(float))
    np.testing.assert_allclose(eager[1].numpy(), want, rtol=1e-4, atol=1e-30)
    assert np.isfinite(eager[2].numpy()).all()


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_of_long_running_logarithms_do_not_drift(compiled: bool) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal(20000).astype(np.float32)

    def gradient(x: Any) -> Any:
        return ad.autograd.grad(x.logcumsumexp(0).sum(), x)[0]

    x = ad.tensor(numbers, requires_grad=True)
    got = (ad.compile(gradient) if compiled else gradient)(x).numpy()
    powers = np.exp(numbers.astype(np.float64))
    want = powers * np.cumsum((1 / np.cumsum(powers))[::-1])[::-1]
    assert np.abs(got / want - 1).max() < 1e-6


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("shape", [(20000,), (3000, 3), (16, 3)])
def test_long_running_products_do_not_drift(shape: tuple[int, ...], compiled: bool) -> None:
    """Along lines and columns, and gradients: what is carried has twice the bits."""
    rng = np.random.default_rng(0)
    numbers = (1 + 0.01 * rng.standard_normal(shape)).astype(np.float32)

    def products(x: Any) -> Any:
        out = x.cumprod(0)
        return out, *ad.autograd.grad(out.sum(), x)

    x = ad.tensor(numbers, requires_grad=True)
    got, gradient = (ad.compile(products) if compiled else products)(x)
    exact = np.cumprod(numbers.astype(np.float64), 0)
    after = np.cumsum(exact[::-1], 0)[::-1] / numbers
    np.testing.assert_allclose(got.detach().numpy(), exact, 1e-7)
    np.testing.assert_allclose(gradient.numpy(), after, 3e-7)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "cummax"])
@pytest.mark.parametrize("shape", [(7,), (7, 3), (7, 20), (5, 7), (2, 7, 9)])
def test_running_from_the_first_element(name: str, shape: tuple[int, ...]) -> None:
    """Infinite, missing and signed elements anywhere, along lines and columns."""
    rng = np.random.default_rng(0)
    drawn = rng.choice([0.0, -0.0, inf, -inf, nan, 1.5, -300.0, 300.0], shape)
    x = ad.tensor(drawn.astype("float32"))
    for dim in range(x.ndim):

        def run(x: Any, dim: int = dim) -> Any:
            return x.cummax(dim)[0] if name == "cummax" else getattr(x, name)(dim)

        got, want = ad.compile(run)(x).numpy(), run(x).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-5)
        there = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[there], np.signbit(want)[there])


def test_sums_over_several_dimensions_are_as_exact_as_over_one() -> None:
    ad.manual_seed(0)
    x = ad.randn(2, 64, 24, 24) + 5
    normed = ad.nn.functional.batch_norm
    want = normed(x.double(), None, None, training=True)
    for given in (x, x.to(memory_format=ad.channels_last)):
        got = normed(given, None, None, training=True)
        assert ((got.double() - want).norm() / want.norm()).item() < 1e-6


@pytest.mark.parametrize("dtype", [ad.int64, ad.uint8, ad.float16, ad.bool])
def test_what_is_accumulated_is_accumulated_in_the_dtype_of_out(dtype: ad.dtype) -> None:
    """As if that dtype was asked for: elements are converted before they are added."""
    x = ad.tensor([[300.5, 7.9, 0.6], [1.0, 60000.0, 60000.0]])
    for fn in (ad.sum, ad.prod, ad.cumsum, ad.cumprod):
        want = fn(x, 1, dtype=dtype)
        out = ad.zeros(*want.shape, dtype=dtype)
        assert fn(x, 1, out=out) is out
        assert repr(out.tolist()) == repr(want.tolist())
        with pytest.raises(RuntimeError, match="expected out tensor to have dtype"):
            fn(x, 1, dtype=dtype, out=ad.zeros(*want.shape, dtype=ad.float64))


ALL_OF = {
    "sum": np.sum, "mean": np.mean, "prod": np.prod, "amax": np.max, "amin": np.min,
    "var": lambda x: np.var(x, ddof=1), "std": lambda x: np.std(x, ddof=1),
    "nansum": np.nansum, "norm": np.linalg.norm, "count_nonzero": np.count_nonzero,
    "logsumexp": lambda x: np.log(np.sum(np.exp(x))),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, "float32") for name in ALL_OF), ("sum", "int64"), ("var", "float64")],
)
def test_all_elements_are_combined_in_the_order_in_which_they_lie(name: str, dtype: str) -> None:
    """Views that turn the same memory have the same bits as it has, however they name it."""
    drawn = np.random.default_rng(0).uniform(0.98, 1.02, (2, 17, 9, 16))
    values = (drawn * (100 if dtype == "int64" else 1)).astype(dtype)
    x = ad.tensor(values)
    fn, every = getattr(ad, name), (0, 1, 2, 3)
    by_name = name in ("logsumexp", "count_nonzero")  # which want to be told

    def run(x: Any) -> Any:
        return fn(x, every) if by_name else fn(x)

    bits = run(x)
    wide = values.astype("float64").reshape(-1)
    np.testing.assert_allclose(bits.numpy(), ALL_OF[name](wide), rtol=1e-5)
    for order in ((3, 2, 1, 0), (0, 3, 1, 2)):
        turned = x.permute(order)
        got = run(turned)
        assert got.shape == ()
        assert ad.equal(got, bits), (order, got, bits)
        if name in ("sum", "var", "amax"):
            kept = fn(turned, dim=every, keepdim=True)
            assert kept.shape == (1, 1, 1, 1)
            assert ad.equal(kept.reshape(()), bits)
    gaps = x.permute(3, 2, 1, 0)[..., ::2]  # which lie in no order without gaps
    ad.testing.assert_close(run(gaps), run(gaps.contiguous()))


@pytest.mark.parametrize("name", ["max", "min", "median", "nanmedian"])
def test_one_number_of_all_keeps_no_dimension(name: str) -> None:
    """Refused, as in PyTorch, and not left aside."""
    with pytest.raises(TypeError, match="keepdim is for one dimension"):
        getattr(ad.ones(2, 3), name)(keepdim=True)
    assert getattr(ad.ones(2, 3), name)(dim=1, keepdim=True)[0].shape == (2, 1)
