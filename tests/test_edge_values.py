"""Values at the edges of what is defined: zeros' signs, NaNs, memory that shows more than once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.nn import functional as F

INF, NAN = math.inf, math.nan


def same(got: Any, want: list[float]) -> None:
    """Equal, with the signs of zeros and NaN where NaN is."""
    found = got.double().numpy()
    np.testing.assert_array_equal(found, np.array(want))
    kept = ~np.isnan(found)
    np.testing.assert_array_equal(np.signbit(found[kept]), np.signbit(np.array(want)[kept]))


# Divisor -> what is left of 5, -5, 0, -0, infinity, -infinity and NaN, as PyTorch has it.
REMAINDERS = {
    2.0: [1.0, 1.0, 0.0, -0.0, NAN, NAN, NAN],
    -2.0: [-1.0, -1.0, 0.0, -0.0, NAN, NAN, NAN],
    INF: [5.0, INF, 0.0, -0.0, NAN, NAN, NAN],
    -INF: [-INF, -5.0, 0.0, -0.0, NAN, NAN, NAN],
    0.0: [NAN] * 7,
}


@pytest.mark.parametrize("divisor", sorted(REMAINDERS))
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64, ad.float16])
@pytest.mark.parametrize("compiled", [False, True])
def test_remainders(divisor: float, dtype: Any, compiled: bool) -> None:
    x = ad.tensor([5.0, -5.0, 0.0, -0.0, INF, -INF, NAN], dtype=dtype)
    remainder = ad.compile(ad.remainder) if compiled else ad.remainder
    same(remainder(x, ad.full((7,), divisor, dtype=dtype)), REMAINDERS[divisor])


@pytest.mark.parametrize("alpha", [-1.0, 0.5, 2.0])
def test_elu_keeps_the_signs_of_zeros(alpha: float) -> None:
    same(F.elu(ad.tensor([0.0, -0.0, NAN]), alpha), [0.0, -0.0, NAN])


# Of 1, NaN, 3, NaN: PyTorch's `max()` shares a gradient among NaNs, its `amax` gives NaN to all.
OF_NANS: dict[str, tuple[Any, list[float]]] = {
    "max": (lambda x: x.max(), [0.0, 0.5, 0.0, 0.5]),
    "min": (lambda x: x.min(), [0.0, 0.5, 0.0, 0.5]),
    "median": (lambda x: x.median(), [0.0, 0.5, 0.0, 0.5]),
    "nanmedian": (lambda x: x.nanmedian(), [1.0, 0.0, 0.0, 0.0]),
    "max of a dimension": (lambda x: x.max(0).values, [0.0, 1.0, 0.0, 0.0]),
    "amax": (lambda x: x.amax(), [NAN] * 4),
    "amin": (lambda x: x.amin(), [NAN] * 4),
    "amax of a dimension": (lambda x: x.amax(0), [NAN] * 4),
    "aminmax": (lambda x: x.aminmax().max, [NAN] * 4),
    "aminmax of a dimension": (lambda x: x.aminmax(dim=0).min, [NAN] * 4),
}


@pytest.mark.parametrize("name", sorted(OF_NANS))
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_of_what_is_not_a_number(name: str, compiled: bool) -> None:
    reduce, want = OF_NANS[name]
    x = ad.tensor([1.0, NAN, 3.0, NAN], requires_grad=True)
    (ad.compile(reduce) if compiled else reduce)(x).backward()
    same(x.grad, want)


@pytest.mark.parametrize("name", ["max", "min", "median"])
def test_extremes_of_all_in_transforms(name: str) -> None:
    rows = ad.tensor([[1.0, NAN, 3.0, NAN], [2.0, 5.0, 5.0, 2.0]])
    middle = [0.5, 0.0, 0.0, 0.5]
    want = [[0.0, 0.5, 0.0, 0.5], [0.0, 0.5, 0.5, 0.0] if name == "max" else middle]

    def extreme(x: Any) -> Any:
        return getattr(x, name)()

    for row, of_row in zip(ad.func.vmap(ad.func.grad(extreme))(rows), want, strict=True):
        same(row, of_row)
    for row, of_row in zip(rows, want, strict=True):
        same(ad.func.grad(extreme)(row), of_row)
        out, tangent = ad.func.jvp(extreme, (row,), (ad.tensor([1.0, 2.0, 4.0, 8.0]),))
        same(out, extreme(row).tolist())
        same(tangent, sum(w * t for w, t in zip(of_row, (1.0, 2.0, 4.0, 8.0), strict=True)))


# Function -> its values and its derivatives at NaN, inf, -inf, 0, -0, 1e-40 and -1e-40.
AT_THE_EDGES: dict[str, tuple[list[float], list[float]]] = {
    "elu": ([NAN, INF, -1.0, 0.0, -0.0, 1e-40, -1e-40], [NAN, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0]),
    "celu": ([NAN, INF, -1.0, 0.0, -0.0, 1e-40, -1e-40], [NAN, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0]),
    "hardswish": ([NAN, INF, NAN, 0.0, -0.0, 5e-41, -5e-41], [NAN, 1.0, 0.0] + [0.5] * 4),
    "softsign": ([NAN, NAN, NAN, 0.0, -0.0, 1e-40, -1e-40], [NAN, NAN, NAN] + [1.0] * 4),
    "softshrink": ([NAN, INF, -INF, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0] + [0.0] * 4),
    "hardtanh": ([NAN, 1.0, -1.0, 0.0, -0.0, 1e-40, -1e-40], [0.0, 0.0, 0.0] + [1.0] * 4),
}


@pytest.mark.parametrize("name", sorted(AT_THE_EDGES))
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
def test_activations_at_the_edges(name: str, compiled: bool, dtype: Any) -> None:
    activation = getattr(F, name)
    x = ad.tensor([NAN, INF, -INF, 0.0, -0.0, 1e-40, -1e-40], dtype=dtype, requires_grad=True)
    out = (ad.compile(activation) if compiled else activation)(x)
    out.backward(ad.ones_like(x))
    values, slopes = AT_THE_EDGES[name]
    same(out.detach(), ad.tensor(values, dtype=dtype).tolist())
    same(x.grad, slopes)


def test_hardswish_of_large_numbers_does_not_overflow() -> None:
    same(F.hardswish(ad.tensor([2.0**127, -(2.0**127)])), [2.0**127, -0.0])


def test_remainders_by_subnormal_numbers() -> None:
    """The exact ones; PyTorch's depend on where in the tensor the element lies (NaN in whole
    vectors)."""
    x, y = ad.tensor([3.0, -3.0, 1e38] * 7), ad.tensor(1e-40)
    same(ad.fmod(x, y), np.fmod(x.double().numpy(), y.double().numpy()).tolist())


def test_hinges_of_whole_numbers_are_whole() -> None:
    x, y = ad.tensor([1, 2, 3]), ad.tensor([1, -1, 1])
    out = F.hinge_embedding_loss(x, y, margin=3.5, reduction="none")
    assert (out.dtype, out.tolist()) == (ad.int64, [1, 1, 3])
    assert F.hinge_embedding_loss(x, y, reduction="sum").item() == 4
    with pytest.raises(RuntimeError, match="could not infer output dtype"):
        F.hinge_embedding_loss(x, y)


def test_the_grid_of_nearest_pixels_has_a_gradient_of_zeros() -> None:
    image = ad.arange(16.0).reshape(1, 1, 4, 4).requires_grad_()
    grid = ad.tensor([[[[0.1, INF], [NAN, -0.3]]]], requires_grad=True)
    out = F.grid_sample(image, grid, mode="nearest", align_corners=False)
    out.sum().backward()
    assert grid.grad is not None
    assert not grid.grad.any()
    with ad.no_grad():
        plain = F.grid_sample(image, grid, mode="nearest", align_corners=False)
    assert ad.equal(out, plain)


def test_one_value_is_written_to_memory_that_shows_more_than_once() -> None:
    base = ad.zeros(1, 3)
    assert base.expand(4, 3).fill_(2.0).sum() == 24
    assert base.tolist() == [[2.0] * 3]
    base.expand(2, 4, 3).zero_()
    assert not base.any()
    for write in (lambda e: e.add_(1), lambda e: e.copy_(ad.ones(4, 3)), lambda e: e.relu_()):
        with pytest.raises(RuntimeError, match="more than one element of the written-to"):
            write(base.expand(4, 3))


# Matrices and right-hand sides -> shapes of solution, residuals, rank and singular values.
REPEATED = {
    ("gelsd", (2, 1, 4, 3), (1, 5, 4, 2)): [(2, 5, 3, 2), (2, 5, 2), (2, 1), (2, 1, 3)],
    ("gelsy", (1, 4, 3), (5, 4, 2)): [(5, 3, 2), (0,), (1,), (0,)],
    ("gels", (1, 4, 3), (5, 4, 2)): [(5, 3, 2), (5, 2), (0,), (0,)],
}


@pytest.mark.parametrize("case", sorted(REPEATED))
def test_ranks_are_those_of_the_matrices_given(case: Any) -> None:
    driver, left, right = case
    matrix = ad.ones(left) + ad.eye(*left[-2:])
    found = ad.linalg.lstsq(matrix, ad.ones(right), driver=driver)
    assert [tuple(part.shape) for part in found] == REPEATED[case]


# A norm's order, the elements -> the gradient: the signs of NaNs are 0.
GRADIENTS_OF_NORMS = [
    (INF, [1.0, NAN, 3.0], [0.0, 0.0, 0.0]),
    (-INF, [1.0, NAN, 3.0], [0.0, 0.0, 0.0]),
    (INF, [NAN, NAN], [0.0, 0.0]),
    (INF, [3.0, -3.0, 1.0], [0.5, -0.5, 0.0]),
    (-INF, [3.0, -1.0, 1.0], [0.0, -0.5, 0.5]),
]


@pytest.mark.parametrize(("order", "elements", "want"), GRADIENTS_OF_NORMS)
@pytest.mark.parametrize("compiled", [False, True])
def test_infinite_norms_of_nans(
    order: float, elements: list[float], want: list[float], compiled: bool
) -> None:
    gradient = ad.func.grad(lambda x: ad.linalg.vector_norm(x, order))
    got = (ad.compile(gradient) if compiled else gradient)(ad.tensor(elements))
    np.testing.assert_array_equal(got.numpy(), want)


# Elements, lengths of runs -> the gradients of the largest, the smallest and the product of each.
RUNS: list[tuple[list[float], list[int], list[list[float]]]] = [
    ([1.0, NAN, 3.0, 3.0], [2, 2], [[0, 1, 0.5, 0.5], [0, 1, 0.5, 0.5], [NAN, 1, 3, 3]]),
    ([NAN, NAN, 2.0], [3], [[0.5, 0.5, 0], [0.5, 0.5, 0], [NAN, NAN, NAN]]),
    ([0.0, NAN, 5.0], [2, 1], [[0, 1, 1], [0, 1, 1], [NAN, 0, 1]]),
    ([0.0, 4.0, 5.0], [0, 3], [[0, 0, 1], [1, 0, 0], [20, 0, 0]]),
]


@pytest.mark.parametrize(("elements", "lengths", "want"), RUNS)
def test_gradients_of_runs_with_nans(
    elements: list[float], lengths: list[int], want: list[list[float]]
) -> None:
    for reduce, gradient in zip(("max", "min", "prod"), want, strict=True):
        x = ad.tensor(elements, requires_grad=True)
        ad.segment_reduce(x, reduce, lengths=ad.tensor(lengths)).sum().backward()
        assert x.grad is not None
        np.testing.assert_array_equal(x.grad.numpy(), gradient)


@pytest.mark.parametrize("driver", ["gelsy", "gels", "gelss"])
def test_compiled_least_squares_of_nans(driver: str) -> None:
    a = ad.tensor([[[1.0, NAN], [2.0, 3.0], [4.0, 5.0]], [[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]])
    b = ad.tensor([[1.0], [4.0], [7.0]]).expand(2, 3, 1)
    solution = ad.compile(lambda a, b: ad.linalg.lstsq(a, b, driver=driver).solution)(a, b)
    np.testing.assert_allclose(solution.numpy(), [[[NAN]] * 2, [[1.0], [2.0]]], atol=1e-6)
    with pytest.raises(RuntimeError):
        ad.compile(lambda a, b: ad.linalg.lstsq(a, b, driver="gelsd").solution)(a, b)


@pytest.mark.parametrize("driver", ["gelsy", "gels", "gelsd", "gelss"])
@pytest.mark.parametrize("rcond", [None, 0.2, 1.5, -1.0])
def test_compiled_least_squares_leave_out_what_eager_ones_do(driver: str, rcond: Any) -> None:
    """How much is left out of a matrix is the driver's to say where it is more than rounding."""
    a, b = ad.tensor([[1.0, 2.0], [3.0, 3.5], [0.5, 1.0], [1.0, 0.8]]), ad.eye(4)[:, :3]

    def solve(a: Any, b: Any) -> tuple[Any, Any]:
        found = ad.linalg.lstsq(a, b, rcond=rcond, driver=driver)
        return found.solution, found.rank

    for got, want in zip(ad.compile(solve)(a, b), solve(a, b), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), atol=1e-5)


@pytest.mark.parametrize("dtype", [ad.int64, ad.uint8, ad.bool])
@pytest.mark.parametrize("weight", [0.5, 1])
def test_whole_numbers_have_nothing_between_them(dtype: Any, weight: float) -> None:
    x = ad.tensor([0, 1], dtype=dtype)
    for way in (ad.lerp, ad.Tensor.lerp, ad.Tensor.lerp_):
        with pytest.raises(NotImplementedError, match="not implemented for"):
            way(x, x, weight)


@pytest.mark.parametrize("count", [1, 3000])
def test_the_gamma_function_of_the_smallest_numbers(count: int) -> None:
    x = np.array([5e-324, 1e-310, -1e-310, 1e-301, -1e-299, 2e-308] * count)
    np.testing.assert_allclose(ad.tensor(x).lgamma().numpy(), -np.log(np.abs(x)), rtol=1e-14)


MOST = float(np.finfo(np.float32).max)
# What a function gives near the ends of its range, of float32: function, operands, result.
NEAR_THE_ENDS: dict[str, tuple[Any, list[list[float]], list[float]]] = {
    "pow": (ad.pow, [[MOST, -MOST, 2.0**127], [1.0, 1.0, 1.0]], [MOST, -MOST, 2.0**127]),
    "addcmul": (
        lambda x, y, z: ad.addcmul(x, y, z, value=0.5),
        [[0.0, 1.0], [2.0, 1.5], [MOST, -MOST]],
        [MOST, -0.75 * MOST],
    ),
    "hardsigmoid": (F.hardsigmoid, [[-3 + 2.0**-22, -3.0]], [2.0**-22 / 6, 0.0]),
    "slope of i1": (
        lambda x: ad.autograd.grad(ad.special.i1(x.requires_grad_()).sum(), x)[0],
        [[1e-45, -1e-40, 1e-38, 0.0]],
        [0.5] * 4,
    ),
}


@pytest.mark.parametrize("name", sorted(NEAR_THE_ENDS))
@pytest.mark.parametrize("count", [1, 4000])
@pytest.mark.parametrize("compiled", [False, True])
def test_results_near_the_ends_of_a_range(name: str, count: int, compiled: bool) -> None:
    function, operands, want = NEAR_THE_ENDS[name]
    given = [ad.tensor(x * count) for x in operands]
    got = (ad.compile(function) if compiled else function)(*given)
    np.testing.assert_allclose(got.numpy(), np.float32(want * count), rtol=2e-7)


@pytest.mark.parametrize("count", [1, 2000])
@pytest.mark.parametrize("compiled", [False, True])
def test_log1p_of_small_complex_numbers(count: int, compiled: bool) -> None:
    """log(1 + z) = z - z^2 / 2 + ..., of which a sum with 1 would leave little."""
    z = np.array([1e-30, 1e-8j, 1e-9 - 2e-9j, -1e-20 + 1e-25j] * count)
    function = ad.compile(ad.log1p) if compiled else ad.log1p
    np.testing.assert_allclose(function(ad.from_numpy(z)).numpy(), z - z * z / 2, rtol=1e-15)
    far = np.array([3 - 4j, -0.75 + 0.1j, 1e200j] * count)
    np.testing.assert_allclose(function(ad.from_numpy(far)).numpy(), np.log(1 + far), rtol=1e-15)


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16])
def test_slopes_of_sinc_in_halves(dtype: Any) -> None:
    x = ad.tensor([702.5, 33.25, -10.0, 0.3, 0.01]).to(dtype).requires_grad_()
    ad.sinc(x).sum().backward()
    angle = np.pi * x.detach().double().numpy()
    want = np.pi * (np.cos(angle) / angle - np.sin(angle) / angle**2)
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.double().numpy(), want, rtol=0.01, atol=2e-6)


# Function, points -> its first and second derivatives there, of mathematics.
CURVED: list[tuple[str, list[float], list[float], list[float]]] = [
    (
        "log_ndtr",
        [-300.0, -30.0, 0.0, 14.0, 1e10],
        [300.00333325926337, 30.033259667433677, 0.7978845608028654, 1.0966065593889713e-43, 0.0],
        [
            -0.99998888962956105,
            -0.99889622848810991,
            -0.6366197723675814,
            -1.5352491831445598e-42,
            0.0,
        ],
    ),
    (
        "erfcx",
        [-1.0, 20.0, 100.0, 1e8],
        [
            -11.14633932862008,
            -0.0014052174534598012,
            -5.6410497625993185e-05,
            -5.641895835477562e-17,
        ],
        [
            32.310638818764726,
            0.00013999934371059263,
            1.1280407802288336e-06,
            1.1283791670955122e-24,
        ],
    ),
]


@pytest.mark.parametrize(("name", "points", "slopes", "curvatures"), CURVED)
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
@pytest.mark.parametrize("compiled", [False, True])
def test_curvatures_in_the_tails(
    name: str, points: Any, slopes: Any, curvatures: Any, dtype: Any, compiled: bool
) -> None:
    function = getattr(ad.special, name)

    def derive(x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        (slope,) = ad.autograd.grad(function(x).sum(), x, create_graph=True)
        return slope.detach(), ad.autograd.grad(slope.sum(), x)[0]

    x = ad.tensor(points, dtype=dtype, requires_grad=True)
    found = (ad.compile(derive) if compiled else derive)(x)
    for got, want in zip(found, (slopes, curvatures), strict=True):
        rtol = 1e-5 if dtype is ad.float32 else 1e-11
        np.testing.assert_allclose(got.numpy(), want, rtol=rtol, atol=2e-44)  # subnormal


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("sizes", [(3, 5), (70, 90), (900, 7), (1, 5000)])
def test_products_of_a_column_and_a_row(sizes: tuple[int, int], dtype: Any) -> None:
    """As those of two columns, of which the second adds nothing: zeros are above 0."""
    draws = np.random.default_rng(7)
    values = np.array([0.0, -0.0, 1.5, -3.0, 7e9] + [INF, NAN] * (dtype is not np.int32))
    with np.errstate(invalid="ignore"):
        column, row = (draws.choice(values, size).astype(dtype) for size in sizes)
    pairs = [ad.tensor(np.stack([x, np.zeros_like(x)], 1)) for x in (column, row)]
    want = (pairs[0] @ pairs[1].T).numpy()
    for x in (ad.tensor(column)[:, None], pairs[0][:, :1], ad.tensor(column[None]).T):
        for y in (ad.tensor(row)[None], pairs[1].T[:1]):
            got = x @ y
            assert got.is_contiguous()
            assert got.dtype == x.dtype
            np.testing.assert_array_equal(got.numpy(), want)
            zero = want == 0
            np.testing.assert_array_equal(np.signbit(got.numpy()[zero]), np.signbit(want[zero]))
    with pytest.raises(ad.errors.ShapeError):
        ad.ones(sizes[0], 2) @ ad.ones(1, sizes[1])
