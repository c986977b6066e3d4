"""PyTorch's semantics of elementwise operations, where they are easy to get wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import adjoint as ad

inf, nan = math.inf, math.nan


def values(x: Any) -> Any:
    return x.detach().numpy().tolist()


def gradient(fn: Any, *xs: Any) -> list[Any]:
    leaves = [ad.tensor(x, dtype=ad.float64, requires_grad=True) for x in xs]
    out = fn(*leaves)
    return [values(g) for g in ad.autograd.grad(out.sum(), leaves)]


# -- integers -----------------------------------------------------------------------------------


def test_integer_division_rounds_as_asked() -> None:
    x = ad.tensor([-7, 7, -1])
    assert values(x // 2) == [-4, 3, -1]
    assert values(x % 2) == [1, 1, 1]
    assert values(x % -2) == [-1, -1, -1]
    assert values(ad.fmod(x, 2)) == [-1, 1, -1]
    assert values(ad.div(x, 2, rounding_mode="trunc")) == [-3, 3, 0]
    assert (x / 2).dtype is ad.float32


@pytest.mark.parametrize("fn", [ad.floor_divide, ad.remainder, ad.fmod], ids=lambda f: f.__name__)
def test_integers_divided_by_zero_raise(fn: Any) -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        fn(ad.tensor([1, 2]), ad.tensor([1, 0]))
    assert math.isnan(ad.fmod(ad.tensor([1.0]), 0).item())


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_no_integers_are_divided_by_zero(name: str) -> None:
    none, divide = ad.zeros((0, 2), dtype=ad.int32), getattr(ad, name)
    for divisor in (0, ad.tensor(0), ad.zeros(2, dtype=ad.int32)):
        assert divide(none, divisor).shape == (0, 2)
        assert ad.compile(divide)(none, divisor).shape == (0, 2)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            divide(ad.ones((3, 2), dtype=ad.int32), divisor)


def test_integers_wrap_around() -> None:
    x = ad.tensor([250], dtype=ad.uint8)
    assert values(x + 10) == [4]
    assert values(x * ad.tensor([2], dtype=ad.uint8)) == [244]
    assert values(ad.tensor([0], dtype=ad.uint8) - 1) == [255]
    assert values(ad.tensor([100], dtype=ad.int8) + 300) == [-112]


def test_shifts_out_of_range() -> None:
    x = ad.tensor([1, -1])
    assert values(x << 64) == [0, 0]
    assert values(x << -1) == [0, 0]
    assert values(x >> 100) == [0, -1]
    assert values(3 << ad.tensor([1, 2])) == [6, 12]


def test_integer_powers() -> None:
    assert values(ad.tensor([2, -1, 1, 0]) ** ad.tensor([-1, -3, -2, -1])) == [0, -1, 1, 0]
    assert values(ad.pow(2, ad.tensor([-1, 3]))) == [0, 8]
    with pytest.raises(RuntimeError, match="negative integer powers"):
        ad.tensor([2]) ** -1
    assert values(ad.tensor([2.0]) ** -1) == [0.5]
    assert (ad.tensor([True]) ** 2).dtype is ad.int64


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "int8"])
def test_large_integer_powers_wrap_around(dtype: str) -> None:
    """Compiled code looks at as many bits of exponents as there are."""
    rng, kind = np.random.default_rng(2), np.iinfo(dtype)
    for most in (31, 32, 255, 256, 70_000):
        x = rng.integers(max(kind.min, -9), 10, 2050).astype(dtype)
        y = rng.integers(0, min(most, kind.max), 2050, endpoint=True).astype(dtype)
        y[-1] = min(most, kind.max)
        wrapped = [pow(int(a), int(b), 1 << kind.bits) for a, b in zip(x, y, strict=True)]
        want = np.array(wrapped, np.uint64).astype(dtype)
        np.testing.assert_array_equal((ad.tensor(x) ** ad.tensor(y)).numpy(), want)


@pytest.mark.parametrize("dtype", [ad.int64, ad.int32, ad.int8, ad.uint8])
@pytest.mark.parametrize("count", [40, 3000])
def test_integer_powers_wrap(dtype: ad.dtype, count: int) -> None:
    """Of few elements and many, by usual exponents and, among them, a large one."""
    rng, bits = np.random.default_rng(1), 8 * dtype.itemsize
    x = rng.integers(-100 if dtype is not ad.uint8 else 0, 100, count)
    y = rng.integers(0, 20, count)
    y[::37] = rng.integers(0, 100, len(y[::37]))
    got = ad.from_numpy(x).to(dtype) ** ad.from_numpy(y).to(dtype)
    want = [pow(a, b, 1 << bits) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert [n % (1 << bits) for n in values(got)] == want


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_multiples_added_to_large_tensors_are_rounded_twice(dtype: Any) -> None:
    """One program for all multipliers; results lie as those of two operations."""
    rng = np.random.default_rng(4)
    x, y = (rng.standard_normal((50, 60)).astype(dtype) for _ in range(2))
    given, other = ad.from_numpy(x), ad.from_numpy(y)
    turned = ad.from_numpy(x.T.copy()).t()
    for alpha in (0.3, -2, 0, 1e-3):
        scaled = y * dtype(alpha)
        for start in (given, turned):
            assert np.array_equal(ad.add(start, other, alpha=alpha).numpy(), x + scaled)
            assert np.array_equal(start.sub(other, alpha=alpha).numpy(), x - scaled)
            assert start.add(start, alpha=alpha).stride() == start.stride()
    tracked = other.clone().requires_grad_()
    ad.sub(given, tracked, alpha=3).sum().backward()
    assert tracked.grad is not None
    assert np.array_equal(tracked.grad.numpy(), np.full_like(y, -3))
    with pytest.raises(RuntimeError, match="alpha"):
        ad.add(given.long(), other.long(), alpha=0.5)


def test_equal_of_many_elements() -> None:
    x = ad.arange(6000.0).reshape(60, 100)
    for at in (0, 2047, 2048, 5999):
        other = x.clone()
        assert x.equal(other)
        other.view(-1)[at] = math.nan
        assert not x.equal(other)
        assert not other.equal(other.clone())
    assert not x.equal(x.reshape(100, 60))
    assert x.t().equal(x.t().contiguous())


@pytest.mark.parametrize("number", [0, 1, 2, 0.5, False, True])
def test_numbers_put_into_truth_values_are_truth_values(number: Any) -> None:
    x, mask = ad.tensor([True, False, True, False]), ad.tensor([True, True, False, False])
    want = [bool(number), bool(number), True, False]
    assert x.masked_fill(mask, number).tolist() == want
    assert x.masked_fill(mask, number).dtype is ad.bool
    assert x.masked_fill_(mask, number) is x
    assert x.tolist() == want


# -- booleans and other refusals ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda b: b - b, "logical_xor"),
        (lambda b: ad.tensor([1]) - b, "bool tensor"),
        (lambda b: -b, "logical_not"),
        (lambda b: +b, "bool tensor"),
        (lambda b: b // b, "not implemented for bool"),
        (lambda b: ad.add(ad.tensor([1]), ad.tensor([1]), alpha=1.5), "floating point number"),
        (lambda b: ad.add(ad.tensor([1.0]), 1, alpha=True), "Boolean alpha"),
        (lambda b: ad.tensor([1.0]) & 1, "not implemented for float32"),
        (lambda b: ad.tensor([1j]) < 0, "not implemented for complex64"),
        (lambda b: ad.clamp(ad.tensor([1.0])), "at least one"),
        (lambda b: ad.where(ad.tensor([1.0]), 1, 2), "boolean"),
        (lambda b: ad.tensor([1.0]).masked_fill(ad.tensor([1]), 0), "boolean"),
        (lambda b: ad.tensor([1]).masked_fill(b, inf), "overflow"),
        (lambda b: ad.div(ad.tensor([1]), 2, rounding_mode="up"), "rounding_mode"),
        (lambda b: ad.isclose(ad.tensor([1]), ad.tensor([1.0])), "did not match"),
        (lambda b: ad.tensor([1.0]).float_power_(2), "float64"),
        (lambda b: ad.tensor([1j]).abs_(), "complex"),
        (lambda b: ad.ones(2) + ad.ones(3), "must match"),
        (lambda b: ad.addcdiv(ad.tensor([1]), ad.tensor([1]), ad.tensor([1])), "integer division"),
    ],
)
def test_refusals(fn: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        fn(ad.tensor([True]))


@pytest.mark.parametrize(
    "fn",
    [
        lambda: ad.exp(1.0),
        lambda: ad.maximum(ad.tensor([1.0]), 2),
        lambda: ad.eq(2, ad.tensor([1.0])),
        lambda: ad.mul(ad.tensor([1.0]), "a"),
        lambda: ad.tensor([1.0]) + None,
        lambda: ad.atan2(ad.tensor([1.0]), 1.0),
    ],
)
def test_what_is_no_tensor_is_a_type_error(fn: Any) -> None:
    with pytest.raises(TypeError):
        fn()


# -- dtypes -------------------------------------------------------------------------------------


def test_result_dtypes() -> None:
    f32, f64, i64 = ad.ones(2), ad.ones(2, dtype=ad.float64), ad.tensor([1, 2])
    half = ad.ones(2, dtype=ad.float16)
    assert (f32 + f64).dtype is ad.float64
    assert (f32 + ad.tensor(1.0, dtype=ad.float64)).dtype is ad.float32
    assert (i64 + 1.5).dtype is ad.float32
    assert (half * 2.5).dtype is ad.float16
    assert (half + i64).dtype is ad.float16
    assert (half + ad.ones(2, dtype=ad.bfloat16)).dtype is ad.float32
    assert ad.exp(i64).dtype is ad.float32
    assert ad.abs(ad.tensor([3 + 4j])).dtype is ad.float32
    assert (f32 * 1j).dtype is ad.complex64
    assert ad.where(ad.tensor([True, False]), 1, 2).dtype is ad.int64
    assert ad.clamp(i64, max=1.5).dtype is ad.float32
    assert (i64 == 1.0).dtype is ad.bool


def test_integers_become_halves_before_they_compute() -> None:
    x = ad.tensor([2.0], dtype=ad.float16)
    assert values(x + ad.tensor([100000])) == [inf]


# -- NaN, infinity, ties ------------------------------------------------------------------------


def test_nan_in_extremes() -> None:
    x, y = ad.tensor([nan, 1.0]), ad.tensor([0.0, nan])
    assert all(map(math.isnan, values(ad.maximum(x, y))))
    assert values(ad.fmax(x, y)) == [0.0, 1.0]
    assert values(ad.fmin(x, y)) == [0.0, 1.0]
    assert math.isnan(values(ad.clamp(x, 0, 1))[0])
    assert values(ad.sign(x))[0] == 0.0


def test_zero_and_infinity() -> None:
    x = ad.tensor([0.0, -0.0, inf, nan])
    assert values(ad.signbit(x)) == [False, True, False, False]
    assert values(ad.xlogy(ad.tensor([0.0, 0.0]), ad.tensor([0.0, inf]))) == [0.0, 0.0]
    assert values(ad.nan_to_num(x))[2:] == [pytest.approx(3.4028235e38), 0.0]
    assert values(1 / x)[:2] == [inf, -inf]
    assert values(ad.copysign(ad.tensor([1.0]), -0.0)) == [-1.0]


def test_gradients_at_kinks() -> None:
    assert gradient(ad.abs, [0.0]) == [[0.0]]
    assert gradient(ad.relu, [0.0, 1.0]) == [[0.0, 1.0]]
    assert gradient(ad.maximum, [1.0, 2.0], [1.0, 1.0]) == [[0.5, 1.0], [0.5, 0.0]]
    assert gradient(lambda x: ad.clamp(x, 0, 1), [0.0, 1.0, 2.0]) == [[1.0, 1.0, 0.0]]
    assert gradient(ad.clamp_min, [1.0, 0.0], [1.0, 1.0]) == [[1.0, 0.0], [0.0, 1.0]]
    assert gradient(ad.floor, [0.5]) == [[0.0]]
    assert gradient(lambda x: x**0, [0.0]) == [[0.0]]
    assert gradient(ad.pow, [0.0], [2.0]) == [[0.0], [0.0]]
    assert gradient(ad.pow, [0.0], [0.0]) == [[0.0], [0.0]]
    assert gradient(ad.atan2, [0.0], [0.0]) == [[0.0], [0.0]]
    assert gradient(ad.sgn, [0.0, 2.0]) == [[0.0, 0.0]]
    assert gradient(lambda x: x / 0, [1.0]) == [[inf]]


def test_the_gradient_of_halves_is_a_half() -> None:
    x = ad.tensor([1.0, 2.0], dtype=ad.float16, requires_grad=True)
    for out in (ad.maximum(x, x * 0 + 1), x**3, x / 3, x.erf()):
        (g,) = ad.autograd.grad(out.sum(), x)
        assert g.dtype is ad.float16


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *((n, 3) for n in ("div", "xlogy", "xlog1py", "pow", "rpow", "addcdiv", "atan2")),
        ("div", 3000),
    ],
)
def test_partials_of_narrow_operands_are_as_precise_as_wide_ones(name: str, count: int) -> None:
    fn: Any = {
        "xlog1py": ad.special.xlog1py,
        "rpow": lambda x, y: y**x,
        "addcdiv": lambda x, y: ad.addcdiv(x, x, y),
    }.get(name) or getattr(ad, name)
    generator = np.random.default_rng(0)
    elements = generator.uniform(0.5, 2.5, count)
    divisors = generator.choice([3.0, 5.0, 7.0], count)
    for wide, narrow, precision in (
        (ad.float64, ad.int64, 1e-13),
        (ad.float64, ad.float32, 1e-13),
        (ad.float32, ad.bfloat16, 5e-6),
        (ad.complex128, ad.float32, 1e-13),
    ):
        if wide.is_complex and name in ("atan2", "xlogy", "xlog1py"):
            continue
        x, y = ad.tensor(elements, dtype=wide), ad.tensor(divisors, dtype=narrow)
        exact = x.to(ad.complex128 if wide.is_complex else ad.float64), y.to(ad.float64)
        found = ad.func.vjp(lambda x, y=y: fn(x, y), x)[1](ad.ones_like(x))[0]
        want = ad.func.vjp(lambda x, y=exact[1]: fn(x, y), exact[0])[1](ad.ones_like(exact[0]))[0]
        leaf = x.clone().requires_grad_()
        fn(leaf, y).backward(ad.ones_like(x))
        pushed = ad.func.jvp(lambda x, y=y: fn(x, y), (x,), (ad.ones_like(x),))[1]
        for each in (found, leaf.grad, pushed):
            np.testing.assert_allclose(
                each.conj().resolve_conj().numpy() if each is pushed else each.numpy(),
                want.numpy(),
                rtol=precision,
            )


DIVIDED: dict[str, tuple[Any, Any]] = {  # d out is dx divided by the second
    "div": (lambda x: x / ad.full_like(x, 3), lambda x: np.full_like(x, 3)),
    "number": (lambda x: x / 3, lambda x: np.full_like(x, 3)),
    "log": (ad.log, lambda x: x),
    "log1p": (ad.log1p, lambda x: x + 1),
    "sqrt": (ad.sqrt, lambda x: 2 * np.sqrt(x)),
    "atan": (ad.atan, lambda x: x * x + 1),
    "mean": (lambda x: x.reshape(-1, 3).mean(1), lambda x: np.full_like(x, 3)),
}


@pytest.mark.parametrize("name", DIVIDED)
@pytest.mark.parametrize("count", [9, 3000])
def test_gradients_of_quotients_are_rounded_once(name: str, count: int) -> None:
    fn, divisor = DIVIDED[name]
    generator = np.random.default_rng(0)
    elements = generator.uniform(0.5, 2.5, count).astype(np.float32)
    x = ad.tensor(elements, requires_grad=True)
    g = ad.tensor(generator.standard_normal(fn(x).numel()).astype(np.float32))
    along = np.repeat(g.numpy(), count // g.numel()) / divisor(elements)

    def pulled(x: Any) -> Any:
        return ad.autograd.grad(fn(x), x, g)[0]

    for found in (pulled(x), ad.compile(pulled)(x), ad.func.vjp(fn, x.detach())[1](g)[0]):
        assert found.numpy().tobytes() == along.tobytes()
    if name != "mean":
        assert ad.func.jvp(fn, (x.detach(),), (g,))[1].numpy().tobytes() == along.tobytes()
        each = ad.vmap(lambda x, g: ad.func.vjp(fn, x)[1](g)[0])(x.detach(), g)
        assert each.numpy().tobytes() == along.tobytes()


def test_a_quotient_whose_inverse_is_too_large_has_a_gradient() -> None:
    for divisor in (1e-40, ad.tensor(1e-40)):
        x = ad.tensor([2.0], requires_grad=True)
        (g,) = ad.autograd.grad(x / divisor, x, ad.tensor([1e-5]))
        assert values(g) == pytest.approx([1e35], rel=1e-4)


def test_complex_gradients_follow_the_conjugate_convention() -> None:
    z = ad.tensor([3 + 4j], dtype=ad.complex128, requires_grad=True)
    (g,) = ad.autograd.grad(z.abs().sum(), z)
    assert values(g) == [pytest.approx(0.6 + 0.8j)]
    (g,) = ad.autograd.grad((z * (1 + 2j)).real.sum(), z)
    assert values(g) == [pytest.approx(1 - 2j)]
    (g,) = ad.autograd.grad(z.angle().sum(), z)
    assert values(g) == [pytest.approx((-4 + 3j) / 25)]


# -- forms --------------------------------------------------------------------------------------


def test_inplace_and_out_forms() -> None:
    x = ad.tensor([1.0, 2.0])
    assert x.add_(1) is x
    assert values(x) == [2.0, 3.0]
    assert x.eq_(2) is x
    assert values(x) == [1.0, 0.0]
    with pytest.raises(RuntimeError, match="can't be cast"):
        ad.tensor([1]).div_(2)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        ad.ones(1).add_(ad.ones(2))
    out = ad.empty(2)
    assert ad.add(x, 1, out=out) is out
    assert values(out) == [2.0, 1.0]


def test_repeated_in_place_writes() -> None:
    """From the second time on a write may be computed in the target's own memory."""
    x = ad.arange(4.0)
    for _ in range(3):
        x[1:] += x[:-1]
    assert values(x) == [0.0, 1.0, 5.0, 12.0]
    for expected in ([0.0, 2.0, 10.0, 24.0], [0.0, 4.0, 20.0, 48.0]):
        version = x._version
        assert x.mul_(2) is x
        assert values(x) == expected
        assert x._version == version + 1
    count = ad.ones(2, dtype=ad.int64)
    for other in (1, ad.ones(2, dtype=ad.int64), ad.tensor(1), ad.ones(2).bool()):
        for _ in range(2):
            count += other
    assert values(count) == [9, 9]
    w = ad.ones(2, requires_grad=True)
    for _ in range(2):
        y = ad.ones(2)
        y.mul_(w)  # the tape must see it
        assert y.requires_grad
        with pytest.raises(RuntimeError, match="leaf Variable"):
            w.mul_(2)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="single memory location"):
            ad.ones(1).expand(3).mul_(2)
    small = ad.full((2,), 200, dtype=ad.uint8)
    for _ in range(2):
        small.add_(100)
    assert values(small) == [144, 144]


def test_clamp_of_many_elements() -> None:
    x = ad.linspace(-2, 2, 5000)
    x[0] = float("nan")
    y = x.clamp(-1, 0.5)
    assert y[0].isnan()
    assert y[1:].aminmax() == (-1, 0.5)
    assert ad.equal(y[1:], ad.cat([p.clamp(-1, 0.5) for p in x[1:].split(500)]))
    assert ad.arange(5000).clamp(3, 1).unique() == 1
    assert x.clamp(-1, ad.ones(2, 1)).shape == (2, 5000)


def test_special_names_are_the_same_functions() -> None:
    x = ad.tensor([0.25])
    assert values(ad.special.expit(x)) == values(x.sigmoid())
    assert values(ad.special.psi(x)) == values(x.digamma())
    assert values(ad.special.gammaln(x)) == values(x.lgamma())
    assert values(ad.special.multigammaln(x + 2, 2)) == values((x + 2).mvlgamma(2))


def test_frexp_is_a_named_tuple() -> None:
    mantissa, exponent = ad.frexp(ad.tensor([8.0, -0.75]))
    assert values(mantissa) == [0.5, -0.75]
    assert exponent.dtype is ad.int32
    assert ad.frexp(ad.tensor([1.0])).exponent.item() == 1


@pytest.mark.parametrize("decimals", [-1, 1, 2])
def test_halves_are_rounded_to_decimals_as_they_are(decimals: int) -> None:
    """-1.5498 is no -1.55: ten times it would be -15.5 as a half."""
    x = np.linspace(-40, 40, 1001).astype(np.float16)
    scale = np.float32(10.0 ** abs(decimals))
    wide = x.astype(np.float32)
    want = np.rint(wide * scale) / scale if decimals > 0 else np.rint(wide / scale) * scale
    found = ad.tensor(x).round(decimals=decimals)
    np.testing.assert_array_equal(found.numpy(), want.astype(np.float16))


def test_numpy_operands() -> None:
    x = ad.tensor([1.0, 2.0])
    assert (x + np.float32(1)).dtype is ad.float32
    assert (x * np.int64(2)).dtype is ad.float32
    assert values(x + np.array([1.0, 1.0])) == [2.0, 3.0]
    assert values(np.array([1.0, 1.0]) / x) == [1.0, 0.5]
    assert isinstance(np.float32(2) * x, ad.Tensor)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_incomplete_gamma_differentiates_by_its_order(name: str) -> None:
    fn = getattr(ad.special, name)
    order = np.array([0.05, 0.3, 1.0, 2.5, 10.0, 80.0])[:, None]
    at = order * np.array([0.2, 0.9, 1.0, 1.7])
    a = ad.tensor(order, dtype=ad.float64, requires_grad=True)
    (got,) = ad.autograd.grad(fn(a.expand(6, 4), ad.tensor(at)).sum(), a)
    h = 1e-5 * order
    up, down = (fn(ad.tensor(o + 0 * at), ad.tensor(at)).numpy() for o in (order + h, order - h))
    np.testing.assert_allclose(
        got.numpy(), ((up - down) / (2 * h)).sum(1, keepdims=True), rtol=1e-6
    )
    zero = ad.zeros(1, dtype=ad.float64)
    half = ad.full((1,), 0.5, dtype=ad.float64, requires_grad=True)
    assert ad.autograd.grad(fn(half, zero).sum(), half)[0].item() == 0


def test_the_order_of_zeta_has_no_derivative_and_says_so() -> None:
    order = ad.tensor(2.0, requires_grad=True)
    with pytest.raises(NotImplementedError, match="by the order"):
        (ad.special.zeta(order, ad.tensor(1.5)) + order).backward()


@pytest.mark.parametrize("dtype", [ad.float64, ad.float32])
def test_derivatives_of_sinc_near_its_middle(dtype: Any) -> None:
    """Against its series: sum of (-1)^k (pi x)^2k / (2k + 1)!."""
    grad = ad.func.grad
    limit = 1e-13 if dtype is ad.float64 else 2e-4
    for x in (0.0, -0.0, 1e-12, 1e-5, -0.01, 0.049, 0.051, 0.2):
        terms = [
            ((-1) ** k * math.pi ** (2 * k) / math.factorial(2 * k + 1), 2 * k) for k in range(12)
        ]
        first = sum(c * n * x ** (n - 1) for c, n in terms if n)
        second = sum(c * n * (n - 1) * x ** (n - 2) for c, n in terms if n)
        at = ad.tensor(x, dtype=dtype)
        assert grad(ad.sinc)(at).item() == pytest.approx(first, rel=limit, abs=1e-30)
        for twice in (grad(grad(ad.sinc)), ad.func.hessian(ad.sinc)):
            assert twice(at).item() == pytest.approx(second, rel=limit * 10)


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64, ad.float16, ad.bfloat16])
@pytest.mark.parametrize("count", [10, 5063])
def test_inverse_roots(dtype: Any, count: int) -> None:
    """x ** -0.5 is 1 / sqrt(x), of -0.0 and -inf too, and so is the derivative of x ** 0.5."""
    special = [0.0, -0.0, inf, -inf, math.nan, -1.0, 1e-40, 4.0]
    rest = np.random.default_rng(3).lognormal(0, 3, count - len(special))
    x = ad.tensor([*special, *rest], dtype=dtype)
    exact = np.array(x.double().tolist())
    with np.errstate(all="ignore"):
        want = 1 / np.sqrt(exact)
    tolerance = 2 * ad.finfo(dtype).eps
    largest = ad.finfo(dtype).max
    want[np.abs(want) > largest] *= inf
    ways: tuple[Any, ...] = (lambda f: f, ad.compile)
    for run in ways:
        for each in (x, x.repeat(2, 1).T[:, 0]):
            got = np.array(run(lambda x: x**-0.5)(each).double().tolist())
            np.testing.assert_allclose(got, want, rtol=tolerance)
            leaf = each.clone().requires_grad_()
            run(lambda x: (x**0.5).sum())(leaf).backward()
            assert leaf.grad is not None
            slope = np.array(leaf.grad.double().tolist())
            np.testing.assert_allclose(slope, want / 2, rtol=2 * tolerance)
    assert (x[:0] ** -0.5).shape == (0,)
    z = ad.tensor([-4 + 0j, 3 - 4j])
    np.testing.assert_allclose((z**-0.5).numpy(), z.numpy() ** -0.5, rtol=1e-6)


REPLACED = [(None, None, None), (1.5, None, -2.0), (inf, nan, 0.0)]


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64, ad.float16, ad.bfloat16])
@pytest.mark.parametrize("shape", [(2, 5), (7, 723), (3, 0)])
def test_replacing_what_is_no_number(dtype: Any, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal(shape)
    kind = rng.integers(0, 5, shape)
    x = np.choose(kind, [x, nan, inf, -inf, -0.0])
    g = rng.integers(-9, 9, shape).astype(float)
    for numbers in REPLACED:
        for each in (ad.tensor(x, dtype=dtype), ad.tensor(x.T.copy(), dtype=dtype).T):
            exact = np.array(each.double().tolist()).reshape(shape)
            largest = ad.finfo(dtype).max
            usual = (0.0, largest, -largest)
            new = [u if v is None else v for v, u in zip(numbers, usual, strict=True)]
            want = np.choose(kind, [exact, *new, exact])
            leaf = each.requires_grad_()
            out = ad.nan_to_num(leaf, *numbers)
            np.testing.assert_array_equal(out.detach().double().numpy(), want)
            assert out.stride() == each.stride() or not out.numel()
            out.backward(ad.tensor(g, dtype=dtype))
            assert leaf.grad is not None
            np.testing.assert_array_equal(leaf.grad.double().numpy(), g * np.isfinite(exact))


@pytest.mark.parametrize("shape", [(2, 5), (7, 723), (3, 5, 0), (4, 3, 300), (6,)])
@pytest.mark.parametrize("channels", [False, True])
def test_parametric_slopes(shape: tuple[int, ...], channels: bool) -> None:
    rng = np.random.default_rng(6)
    x = rng.integers(-9, 9, shape).astype(float)
    x[rng.random(shape) < 0.05] = inf  # on which no slope's gradient depends
    g = rng.integers(-9, 9, shape).astype(float)
    count = shape[1] if channels and len(shape) > 1 else 1
    slopes = rng.integers(1, 9, count) / 8
    spread = slopes.reshape((-1, *(1,) * max(len(shape) - 2, 0)))
    for turned in (False, True):
        leaf = ad.tensor(x.T.copy()).permute(*range(len(shape))[::-1]) if turned else ad.tensor(x)
        weight = ad.tensor(slopes, requires_grad=True)
        out = ad.nn.functional.prelu(leaf.requires_grad_(), weight)
        np.testing.assert_array_equal(out.detach().numpy(), np.where(x > 0, x, x * spread))
        out.backward(ad.tensor(g))
        assert leaf.grad is not None
        assert weight.grad is not None
        np.testing.assert_array_equal(leaf.grad.numpy(), np.where(x > 0, g, g * spread))
        lost = np.where(x > 0, 0, g * np.minimum(x, 0))
        others = tuple(d for d in range(len(shape)) if d != 1)
        total = lost.sum(others) if count > 1 else lost.sum()
        np.testing.assert_array_equal(weight.grad.numpy(), np.reshape(total, (count,)))
