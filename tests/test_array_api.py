"""The array API namespace: NumPy and Python's own mathematics judge it, and SciPy uses it."""

from __future__ import annotations

import cmath
import inspect
import itertools
import math
import operator
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import array_api as xp

INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
DTYPES = ["bool", *INTEGERS, "float32", "float64", "complex64", "complex128"]
KIND = dict.fromkeys(INTEGERS, "i") | {"bool": "b"}
KIND |= {"float32": "f", "float64": "f", "complex64": "c", "complex128": "c"}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 1.5, math.inf, -math.inf, math.nan]
# Function -> the kinds of dtypes the standard gives it (bool, int, float, complex).
UNARY = {
    "abs": "ifc", "acos": "fc", "acosh": "fc", "asin": "fc", "asinh": "fc", "atan": "fc",
    "atanh": "fc", "bitwise_invert": "bi", "ceil": "if", "conj": "c", "cos": "fc", "cosh": "fc",
    "exp": "fc", "expm1": "fc", "floor": "if", "imag": "c", "isfinite": "ifc", "isinf": "ifc",
    "isnan": "ifc", "log": "fc", "log10": "fc", "log1p": "fc", "log2": "fc", "logical_not": "b",
    "negative": "ifc", "positive": "ifc", "real": "c", "reciprocal": "f", "round": "ifc",
    "sign": "if", "signbit": "f", "sin": "fc", "sinh": "fc", "sqrt": "fc", "square": "ifc",
    "tan": "fc", "tanh": "fc", "trunc": "if",
}  # fmt: skip
BINARY = {
    "add": "ifc", "atan2": "f", "bitwise_and": "bi", "bitwise_left_shift": "i", "bitwise_or": "bi",
    "bitwise_right_shift": "i", "bitwise_xor": "bi", "copysign": "f", "divide": "fc",
    "equal": "bifc", "floor_divide": "if", "greater": "if", "greater_equal": "if", "hypot": "f",
    "less": "if", "less_equal": "if", "logaddexp": "f", "logical_and": "b", "logical_or": "b",
    "logical_xor": "b", "maximum": "if", "minimum": "if", "multiply": "ifc", "nextafter": "f",
    "not_equal": "bifc", "pow": "if", "remainder": "if", "subtract": "ifc",
}  # fmt: skip
OPERATORS = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "divide": operator.truediv, "floor_divide": operator.floordiv, "remainder": operator.mod,
    "pow": operator.pow, "bitwise_and": operator.and_, "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor, "bitwise_left_shift": operator.lshift,
    "bitwise_right_shift": operator.rshift, "equal": operator.eq, "not_equal": operator.ne,
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt,
    "greater_equal": operator.ge,
}  # fmt: skip


def sample(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype in INTEGERS:
        low = 0 if dtype.startswith("u") else -9
        return np.asarray(rng.integers(low, 10, shape)).astype(dtype)
    values = np.asarray(rng.normal(size=shape))
    return (
        (values + 1j * rng.normal(size=shape)).astype(dtype)
        if KIND[dtype] == "c"
        else np.asarray(values).astype(dtype)
    )


def same(got: Any, want: Any) -> None:
    want = np.asarray(want)
    assert type(got) is xp.Array
    mine = got.detach().numpy()
    assert mine.dtype == want.dtype
    assert mine.shape == want.shape
    if want.dtype.kind in "fc":
        near = 2e-5 if want.dtype in (np.float32, np.complex64) else 1e-12
        np.testing.assert_allclose(mine, want, rtol=near, atol=near)
    else:
        np.testing.assert_array_equal(mine, want)


@pytest.mark.parametrize("name", sorted(UNARY))
@np.errstate(all="ignore")
def test_functions_of_one_array(name: str) -> None:
    for dtype in DTYPES:
        if KIND[dtype] in UNARY[name]:
            for shape in ((), (3,), (0,), (2, 3)):
                x = sample(dtype, shape)
                same(getattr(xp, name)(xp.asarray(x)), getattr(np, name)(x))


def mates(name: str, dtype: str, other: str, seed: int) -> Any:
    """A second operand for which the function is defined."""
    shape = ((3,), (), (2, 1))[seed % 3]
    y = sample(other, shape, seed)
    if "shift" in name or name == "pow":
        return np.abs(y) % 4 if KIND[other] == "i" else np.abs(y)
    if name in ("floor_divide", "remainder"):
        return np.where(y == 0, np.ones_like(y), y)
    return y


@pytest.mark.parametrize("name", sorted(BINARY))
@np.errstate(all="ignore")
def test_functions_of_two_arrays(name: str) -> None:
    """All shapes promote alike: an array without dimensions counts as much as any other."""
    for at, (one, two) in enumerate(itertools.product(DTYPES, DTYPES)):
        mixed = "uint64" in (one, two) and not (one.startswith("u") and two.startswith("u"))
        if KIND[one] != KIND[two] or KIND[one] not in BINARY[name] or (mixed and KIND[one] == "i"):
            continue
        x = (
            np.abs(sample(one, (2, 3) if at % 4 else ()))
            if name == "pow"
            else sample(one, (2, 3) if at % 4 else ())
        )
        y = np.asarray(mates(name, one, two, at)).astype(two)
        want = getattr(np, name)(x, y)
        if name in ("divide", "pow"):
            want = want.astype(np.result_type(x.dtype, y.dtype))
        same(getattr(xp, name)(xp.asarray(x), xp.asarray(y)), want)
        if name in OPERATORS:
            same(OPERATORS[name](xp.asarray(x), xp.asarray(y)), want)


def equal(a: complex, b: complex) -> bool:
    """Equal to rounding, with the signs of zeros."""
    a, b = complex(a), complex(b)
    for x, y in ((a.real, b.real), (a.imag, b.imag)):
        if math.isnan(y):
            if not math.isnan(x):
                return False
        elif y == 0 or math.isinf(y):
            if x != y or math.copysign(1, x) != math.copysign(1, y):
                return False
        elif not math.isclose(x, y, rel_tol=1e-6, abs_tol=1e-12):
            return False
    return True


def quotient(a: float, b: float) -> float:
    """The standard's floor_divide, which keeps infinities and signs of zeros, unlike Python's."""
    if math.isinf(a) or math.isinf(b) or b == 0:
        return float(np.float64(a) / np.float64(b))
    return float(np.floor_divide(a, b))


def power(a: float, b: float) -> float:
    return float(np.power(np.asarray([a, 1.0]), np.asarray([b, 1.0]))[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@np.errstate(all="ignore")
def test_special_values(dtype: str) -> None:
    for name in (n for n, kinds in UNARY.items() if "f" in kinds):
        for value in SPECIAL:
            want = getattr(np, name)(np.asarray(value, dtype=dtype))
            got = getattr(xp, name)(xp.asarray(value, dtype=getattr(xp, dtype)))
            assert equal(got.item(), want.item()), (name, value, got)
    judges: dict[str, Callable[[float, float], float]] = {
        "floor_divide": quotient,
        "remainder": lambda a, b: float(np.remainder(np.float64(a), np.float64(b))),
        "pow": power,
        "divide": lambda a, b: float(np.float64(a) / np.float64(b)),
        "multiply": lambda a, b: a * b,
        "add": lambda a, b: a + b,
        "hypot": math.hypot,
        "copysign": math.copysign,
        "atan2": math.atan2,
    }
    for name, judge in judges.items():
        for a, b in itertools.product(SPECIAL, SPECIAL):
            x, y = (xp.asarray(v, dtype=getattr(xp, dtype)) for v in (a, b))
            want = judge(a, b)
            assert equal(getattr(xp, name)(x, y).item(), want), (name, a, b)
            if name in OPERATORS:
                assert equal(OPERATORS[name](x, b).item(), want), (name, a, b)
                into = xp.asarray([a], dtype=x.dtype)
                into = getattr(operator, f"i{OPERATORS[name].__name__}")(into, y)
                assert equal(into[0].item(), want), (name, a, b)


# What C leaves open: which sign a zero or infinity beside a NaN has.
@np.errstate(all="ignore")
def test_special_values_of_complex_numbers() -> None:
    for name in "acos acosh asin asinh atan atanh cos cosh exp log sin sinh sqrt tan tanh".split():
        for parts in itertools.product(SPECIAL, SPECIAL):
            if (
                any(math.isnan(part) for part in parts)
                or parts[0] == -math.inf
                or math.inf in parts
            ):
                continue
            z = complex(*parts)
            try:
                want = getattr(cmath, name)(z)
            except (ValueError, OverflowError):
                continue
            got = getattr(xp, name)(xp.asarray(z, dtype=xp.complex128)).item()
            assert equal(got, want), (name, z, got, want)


REDUCTIONS = {
    "sum": "ifc", "prod": "ifc", "max": "if", "min": "if", "mean": "f", "std": "f", "var": "f",
    "all": "bifc", "any": "bifc", "count_nonzero": "bifc",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(REDUCTIONS))
def test_reductions(name: str) -> None:
    for dtype in DTYPES:
        if KIND[dtype] not in REDUCTIONS[name]:
            continue
        x = sample(dtype, (2, 3, 4))
        for axis, keep in itertools.product((None, 0, -1, (0, 2), ()), (False, True)):
            want = getattr(np, name)(x, axis=axis, keepdims=keep)
            same(getattr(xp, name)(xp.asarray(x), axis=axis, keepdims=keep), want)
        point = sample(dtype, ())
        same(getattr(xp, name)(xp.asarray(point)), getattr(np, name)(point))


KEYS = [
    (), ..., 0, slice(None, None, -1), (slice(5, None, -2), 0), (..., slice(None, None, -1)),
    (None, 1, ..., slice(2, 0, -1)), (0, 1, 2), slice(3, 1), slice(10, -10, -1), (0, ..., None),
    (slice(None, None, -1), slice(None, None, -2), slice(0, 0, -1)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["uint8", "uint64", "float32", "complex128", "bool"])
def test_indexing(dtype: str) -> None:
    x = sample(dtype, (2, 3, 4))
    for key in KEYS:
        same(xp.asarray(x)[key], x[key])
        value = sample(dtype, x[key].shape, 1)
        mine, theirs = xp.asarray(x, copy=True), x.copy()
        mine[key], theirs[key] = xp.asarray(value), value
        same(mine, theirs)
    at = np.asarray([1, 0], dtype="uint8")
    same(xp.asarray(x)[xp.asarray(at)], x[at])
    same(xp.asarray(x)[xp.asarray(x) != 0], x[x != 0])


MANIPULATED: list[Callable[[Any, Any], Any]] = [
    lambda m, x: m.concat([x, x], axis=1),
    lambda m, x: m.concat([x, x], axis=None),
    lambda m, x: m.stack([x, x], axis=-1),
    lambda m, x: m.flip(x),
    lambda m, x: m.roll(x, (1, 2), axis=(0, 2)),
    lambda m, x: m.repeat(x, 2, axis=1),
    lambda m, x: m.repeat(x, m.asarray([1, 2]), axis=0),
    lambda m, x: m.tile(x, (2, 1, 1, 2)),
    lambda m, x: m.permute_dims(x, (2, 0, 1)),
    lambda m, x: m.moveaxis(x, (0, 1), (2, 0)),
    lambda m, x: m.reshape(x, (-1, 2)),
    lambda m, x: m.expand_dims(x, axis=1),
    lambda m, x: m.squeeze(x[:1], axis=0),
    lambda m, x: m.broadcast_to(x, (2, 2, 3, 4)),
    lambda m, x: m.take(x, m.asarray([1, 0]), axis=1),
    lambda m, x: m.where(x != 0, x, x[0, 0, 0]),
    lambda m, x: m.tril(x, k=1),
    lambda m, x: m.zeros_like(x),
    lambda m, x: m.full_like(x, 1),
    lambda m, x: m.nonzero(x)[1],
    lambda m, x: m.unique_all(x)[0],
    lambda m, x: m.unique_all(x)[2],
    lambda m, x: m.unique_all(x)[3],
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_manipulation(dtype: str) -> None:
    x = sample(dtype, (2, 3, 4))
    for act in MANIPULATED:
        same(act(xp, xp.asarray(x)), act(np, x))
    if KIND[dtype] != "c":
        for down in (False, True):
            order = xp.argsort(xp.asarray(x), axis=1, descending=down)
            line = np.take_along_axis(x, order.numpy(), 1)
            assert (line == (np.sort(x, 1)[:, ::-1] if down else np.sort(x, 1))).all()
            same(xp.sort(xp.asarray(x), axis=1, descending=down), line)
    if KIND[dtype] in "if":
        for name in ("cumulative_sum", "cumulative_prod"):
            got = getattr(xp, name)(xp.asarray(x), axis=1, include_initial=True)
            assert got.shape == (2, 4, 4)
            same(got[:, 1:], getattr(np, name.replace("ulative_", ""))(x, axis=1))


def test_differences_of_short_axes() -> None:
    for size, n in itertools.product(range(4), range(5)):
        x = sample("int16", (2, size))
        same(xp.diff(xp.asarray(x), n=n), np.diff(x, n=n))


def test_a_python_number_keeps_the_width_of_an_array() -> None:
    before = ad.get_default_dtype()
    try:
        for default in (ad.float32, ad.float64):
            ad.set_default_dtype(default)
            for dtype in ("float32", "float64", "complex64", "complex128"):
                x = sample(dtype, (3,))
                for number in (True, 2, 0.5, 1j):
                    same(xp.asarray(x) + number, x + number)
    finally:
        ad.set_default_dtype(before)


def test_results_are_tensors_and_differentiable() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = xp.sum(xp.asarray(x) ** 2) * 3
    assert isinstance(y, ad.Tensor)
    y.backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_an_array_answers_both_apis() -> None:
    x = xp.ones((2, 3))
    assert x.size == 6
    assert x.size(0) == 2
    assert x.size() == (2, 3)
    assert type(ad.relu(x)) is ad.Tensor
    assert ad.ones(2).__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError, match="not supported"):
        x.__array_namespace__(api_version="1999.12")


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: xp.asarray([1], dtype=xp.uint64) + xp.asarray([1]), TypeError, "uint64"),
    (lambda: xp.astype(xp.asarray([1j]), xp.float32), TypeError, "complex"),
    (lambda: xp.add(1, 2), TypeError, "at least one"),
    (lambda: xp.squeeze(xp.ones((2, 1)), axis=0), ValueError, "size 2"),
    (lambda: xp.nonzero(xp.asarray(1)), ValueError, "at least one"),
    (lambda: xp.asarray([1], copy=False), ValueError, "copied"),
    (lambda: xp.mean(xp.asarray([1, 2])), TypeError, "floating"),
    (lambda: xp.matmul(xp.asarray(1.0), xp.ones(2)), ValueError, "dimension"),
    (lambda: xp.logical_not(xp.ones(2)), TypeError, "boolean"),
    (lambda: operator.iadd(xp.asarray([1]), 1.5), TypeError, "fit"),
    (lambda: operator.iadd(xp.ones((1,)), xp.ones((2,))), ValueError, "shape"),
    (lambda: xp.relu, AttributeError, "relu"),
    (lambda: xp.max(xp.ones((0,))), ValueError, "no elements"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refusals(case: int) -> None:
    act, kind, words = REFUSED[case]
    with pytest.raises(kind, match=words):
        act()


def test_dtype_questions() -> None:
    assert xp.result_type(xp.uint8, xp.int8) is xp.int16
    assert xp.result_type(xp.ones(2, dtype=xp.float64), 1) is xp.float64
    assert xp.can_cast(xp.uint32, xp.int64)
    assert not xp.can_cast(xp.int64, xp.uint64)
    assert xp.finfo(xp.complex64).dtype is xp.float32
    assert xp.iinfo(xp.uint64).max == 2**64 - 1
    info = xp.__array_namespace_info__()
    assert set(info.dtypes()) == set(DTYPES)
    assert info.default_dtypes()["integral"] is xp.int64
    assert ad.device("cpu") in info.devices()


def test_signatures_are_the_standards() -> None:
    strict = pytest.importorskip("array_api_strict")
    for spaces in ((xp, strict), (xp.linalg, strict.linalg), (xp.fft, strict.fft)):
        for name in spaces[1].__all__:
            theirs = getattr(spaces[1], name)
            if name.startswith("_") or "strict" in name or not inspect.isfunction(theirs):
                continue
            shapes = [
                [(p.name, p.kind) for p in inspect.signature(f).parameters.values()]
                for f in (getattr(spaces[0], name), theirs)
            ]
            assert shapes[0] == shapes[1], name


def run(program: str) -> None:
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


SCIPY = """
import numpy as np, adjoint as ad
from scipy import special, stats, signal
X = np.random.default_rng(0).normal(size=(20, 4))
T = ad.tensor(X)
for act in (
    lambda x: special.logsumexp(x, axis=1), lambda x: special.erf(x), lambda x: stats.skew(x),
    lambda x: stats.ttest_1samp(x, 0.0).pvalue, lambda x: stats.zscore(x),
    lambda x: signal.detrend(x, axis=0), lambda x: signal.fftconvolve(x, x, mode="same"),
):
    got = act(T)
    assert isinstance(got, ad.Tensor), type(got)
    np.testing.assert_allclose(got.numpy(), act(X), rtol=1e-9, atol=1e-12)
"""


def test_scipy_takes_tensors() -> None:
    run(SCIPY)


SKLEARN = """
import numpy as np, adjoint as ad
from sklearn import config_context
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score, r2_score
from sklearn.preprocessing import StandardScaler
X = np.random.default_rng(0).normal(size=(40, 5))
y = (X[:, 0] > 0).astype(np.int64)
T, t = ad.tensor(X), ad.tensor(y)
with config_context(array_api_dispatch=True):
    for act in (
        lambda x, y: StandardScaler().fit_transform(x),
        lambda x, y: PCA(3, svd_solver="full").fit_transform(x),
        lambda x, y: Ridge(solver="svd").fit(x, x[:, 0]).predict(x),
        lambda x, y: LinearDiscriminantAnalysis().fit(x, y).predict(x),
    ):
        got = act(T, t)
        assert isinstance(got, ad.Tensor), type(got)
        np.testing.assert_allclose(got.numpy(), act(X, y), rtol=1e-8, atol=1e-10)
    assert accuracy_score(t, 1 - t) == 0.0
    assert abs(r2_score(T[:, 0], T[:, 1]) - r2_score(X[:, 0], X[:, 1])) < 1e-9
"""


def test_scikit_learn_takes_tensors() -> None:
    pytest.importorskip("sklearn")
    run(SKLEARN)
