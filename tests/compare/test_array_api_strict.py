"""Every function of the array API standard, beside its strict reference `array_api_strict`.

What the reference refuses is not compared: a namespace may take more than the standard names.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import array_api

strict: Any = pytest.importorskip("array_api_strict")
pytestmark = [pytest.mark.compare, pytest.mark.filterwarnings("ignore")]

Call = Callable[[Any], Any]  # a namespace -> what it gives
INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
FLOATS, COMPLEX = ["float32", "float64"], ["complex64", "complex128"]
DTYPES = ["bool", *INTEGERS, *FLOATS, *COMPLEX]
SHAPES: list[tuple[int, ...]] = [(), (0,), (1,), (5,), (2, 3), (3, 0, 2), (2, 1, 4)]
NARROW = {"float32": 1e-5, "complex64": 1e-5}  # tolerances; the others are held to 1e-11
UNARY = (
    "abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag "
    "isfinite isinf isnan log log1p log2 log10 logical_not negative positive real reciprocal round "
    "sign signbit sin sinh square sqrt tan tanh trunc"
).split()
BINARY = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign "
    "divide equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and "
    "logical_or logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract"
).split()
OPERATORS = (
    "add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift eq ne lt le gt ge".split()
)
INPLACE = "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift".split()


@pytest.fixture(autouse=True)
def float64_by_default() -> Iterator[None]:
    """The standard leaves the default to the library; the reference's is float64."""
    before = ad.get_default_dtype()
    ad.set_default_dtype(ad.float64)
    yield
    ad.set_default_dtype(before)


def values(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Any:
    """Numbers with equal ones among them; floats have fractions, some of them negative."""
    rng = np.random.default_rng(seed)
    whole = rng.integers(0 if dtype[0] in "ub" else -4, 5, shape)
    if dtype == "bool":
        return np.asarray(whole % 2 == 0)
    if dtype in INTEGERS:
        return np.asarray(whole).astype(dtype)
    parts = whole / 4 + (0.37j * rng.integers(-3, 4, shape) if dtype in COMPLEX else 0.0)
    return np.asarray(parts).astype(dtype)


def array(xp: Any, dtype: str, shape: tuple[int, ...], seed: int = 0) -> Any:
    return xp.asarray(values(dtype, shape, seed).tolist(), dtype=getattr(xp, dtype))


def plain(found: Any) -> Any:
    """What both namespaces can be compared by: arrays of NumPy, names of dtypes, numbers."""
    if isinstance(found, (tuple, list)):
        return [plain(each) for each in found]
    if isinstance(found, array_api.Array):
        return np.asarray(found.detach().numpy())
    if type(found).__module__.startswith("array_api_strict") and hasattr(found, "shape"):
        return np.asarray(found._array)
    if "DType" in type(found).__name__ or type(found).__name__ == "dtype":
        return str(found).split(".")[-1].rstrip("')>")
    return found


def plain_dtype(x: Any) -> Any:
    """The reference's dtype of an array of either namespace."""
    return getattr(strict, plain(x.dtype))


def difference(mine: Any, want: Any) -> str:
    """Why two results are not the same; nothing where they are."""
    if isinstance(want, list):
        if not isinstance(mine, list) or len(mine) != len(want):
            return f"{mine} is not {want}"
        told = [difference(a, b) for a, b in zip(mine, want, strict=True)]
        return "; ".join(filter(None, told))
    if not isinstance(want, np.ndarray):
        return "" if mine == want or (want != want and mine != mine) else f"{mine} is not {want}"
    if not isinstance(mine, np.ndarray):
        return f"{mine} is no array"
    if (mine.dtype, mine.shape) != (want.dtype, want.shape):
        return f"{mine.dtype}{mine.shape} is not {want.dtype}{want.shape}"
    near = NARROW.get(want.dtype.name, 1e-11) if want.dtype.kind in "fc" else 0
    if np.allclose(mine, want, rtol=near, atol=near, equal_nan=True):
        return ""
    return f"{mine.tolist()} is not {want.tolist()}"


def judge(cases: Iterator[tuple[Any, Call]]) -> None:
    """Compare all cases that the reference answers; tell of all that differ."""
    wrong, answered = [], 0
    with np.errstate(all="ignore"):
        for told, call in cases:
            try:
                want = plain(call(strict))
            except Exception:
                continue
            answered += 1
            try:
                why = difference(plain(call(array_api)), want)
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
            if why:
                wrong.append(f"{told}: {why}")
    assert answered, "the reference refused every case"
    assert not wrong, f"{len(wrong)} of {answered} differ:\n" + "\n".join(wrong[:20])


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_array(name: str) -> None:
    judge(
        ((dtype, shape), lambda xp, d=dtype, s=shape: getattr(xp, name)(array(xp, d, s)))  # type: ignore[misc]
        for dtype, shape in itertools.product(DTYPES, SHAPES)
    )


def pairs(apply: Callable[[Any, Any, Any], Any]) -> Iterator[tuple[Any, Call]]:
    """Two arrays of all pairs of dtypes, broadcast; an array and a Python number, either way round."""
    shapes = [((2, 3), (3,)), ((), (4,)), ((0,), (1,)), ((2, 1, 3), (4, 1))]
    for (one, two), (a, b) in itertools.product(itertools.product(DTYPES, DTYPES), shapes[:2]):
        yield (
            (one, two, a, b),
            lambda xp, o=one, t=two, a=a, b=b: apply(  # type: ignore[misc]
                xp, array(xp, o, a), array(xp, t, b, 1)
            ),
        )
    for dtype, (a, b) in itertools.product(DTYPES, shapes[2:]):
        yield (
            (dtype, a, b),
            lambda xp, d=dtype, a=a, b=b: apply(  # type: ignore[misc]
                xp, array(xp, d, a), array(xp, d, b, 1)
            ),
        )
    for dtype, number in itertools.product(DTYPES, (2, 1.5, True, 1j)):
        yield (dtype, number), lambda xp, d=dtype, n=number: apply(xp, array(xp, d, (4,)), n)  # type: ignore[misc]
        yield (number, dtype), lambda xp, d=dtype, n=number: apply(xp, n, array(xp, d, (4,)))  # type: ignore[misc]


ORDERED = "greater greater_equal less less_equal maximum minimum lt le gt ge".split()


def defined(name: str, x: Any, y: Any) -> bool:
    """Whether there is a result: no order of complex numbers, no shift by or whole power of less than zero, no division by it."""
    if name in ORDERED:
        return complex not in (type(x), type(y))
    if (
        "shift" not in name
        and name not in "pow ipow floor_divide floordiv ifloordiv remainder mod imod".split()
    ):
        return True
    second = np.asarray(plain(y))
    if second.dtype.kind not in "iub" or np.asarray(plain(x)).dtype.kind not in "iub":
        return True
    whole = second.astype(object)
    if name in ("pow", "ipow") or "shift" in name:
        return bool(np.all((whole >= 0) & (whole < 8)))
    return bool(np.all(whole != 0))


def checked(name: str, function: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """The function, which refuses what no library defines."""

    def apply(xp: Any, x: Any, y: Any) -> Any:
        if not defined(name, x, y):
            raise ArithmeticError
        return function(xp, x, y)

    return apply


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arrays(name: str) -> None:
    judge(pairs(checked(name, lambda xp, x, y: getattr(xp, name)(x, y))))


@pytest.mark.parametrize("name", OPERATORS + INPLACE)
def test_operators(name: str) -> None:
    judge(pairs(checked(name, lambda xp, x, y: getattr(operator, name)(x, y))))


REDUCTIONS = "sum prod max min mean std var all any count_nonzero argmax argmin".split()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str) -> None:
    further: list[dict[str, Any]] = [{}]
    if name in ("std", "var"):
        further += [{"correction": 1.0}]
    axes = (None, 0, -1, 1, (0, 1), (0, -1), ())
    judge(
        # The reference takes axes 0 and -1 of an array without dimensions, the standard does not.
        (
            (dtype, shape, axis, keep, more),
            lambda xp, d=dtype, s=shape, a=axis, k=keep, m=more: getattr(xp, name)(  # type: ignore[misc]
                array(xp, d, s), axis=a, keepdims=k, **m
            ),
        )
        for dtype, shape, axis, keep, more in itertools.product(
            DTYPES, SHAPES, axes, (False, True), further
        )
        if shape or axis in (None, ())
    )


def one_array(
    actions: dict[str, Callable[[Any, Any], Any]], least: int
) -> Iterator[tuple[Any, Call]]:
    """Each action on arrays of all dtypes and shapes of at least so many dimensions."""
    shapes = [shape for shape in SHAPES if len(shape) >= least]
    for (told, act), dtype, shape in itertools.product(actions.items(), DTYPES, shapes):
        yield (told, dtype, shape), lambda xp, a=act, d=dtype, s=shape: a(xp, array(xp, d, s))  # type: ignore[misc]


SCANS: dict[str, Callable[[Any, Any], Any]] = {
    "cumulative_sum": lambda xp, x: xp.cumulative_sum(x, axis=-1),
    "cumulative_sum from": lambda xp, x: xp.cumulative_sum(x, axis=0, include_initial=True),
    "cumulative_sum dtype": lambda xp, x: xp.cumulative_sum(x, axis=0, dtype=xp.float64),
    "cumulative_prod": lambda xp, x: xp.cumulative_prod(x, axis=-1),
    "cumulative_prod from": lambda xp, x: xp.cumulative_prod(x, axis=0, include_initial=True),
    "sum dtype": lambda xp, x: xp.sum(x, dtype=xp.float64),
    "prod dtype": lambda xp, x: xp.prod(x, dtype=xp.float64),
    "diff": lambda xp, x: xp.diff(x),
    "diff twice": lambda xp, x: xp.diff(x, axis=0, n=2),
    "diff between": lambda xp, x: xp.diff(x, prepend=x, append=x),
}
MOVES: dict[str, Callable[[Any, Any], Any]] = {
    "flip": lambda xp, x: xp.flip(x),
    "flip axis": lambda xp, x: xp.flip(x, axis=-1),
    "flip axes": lambda xp, x: xp.flip(x, axis=(0, 1)),
    "roll": lambda xp, x: xp.roll(x, 2),
    "roll axis": lambda xp, x: xp.roll(x, -1, axis=0),
    "roll axes": lambda xp, x: xp.roll(x, (1, 2), axis=(0, -1)),
    "reshape": lambda xp, x: xp.reshape(x, (-1,)),
    "reshape copy": lambda xp, x: xp.reshape(x, (1, *x.shape), copy=True),
    "expand_dims": lambda xp, x: xp.expand_dims(x, axis=-1),
    "expand_dims first": lambda xp, x: xp.expand_dims(x, axis=0),
    "squeeze": lambda xp, x: xp.squeeze(x, axis=0),
    "squeeze second": lambda xp, x: xp.squeeze(x, axis=(1,)),
    "permute_dims": lambda xp, x: xp.permute_dims(x, tuple(reversed(range(x.ndim)))),
    "moveaxis": lambda xp, x: xp.moveaxis(x, 0, -1),
    "moveaxis two": lambda xp, x: xp.moveaxis(x, (0, 1), (-1, 0)),
    "matrix_transpose": lambda xp, x: xp.matrix_transpose(x),
    "mT": lambda xp, x: x.mT,
    "T": lambda xp, x: x.T,
    "concat": lambda xp, x: xp.concat([x, x, x], axis=-1),
    "concat flat": lambda xp, x: xp.concat([x, x], axis=None),
    "stack": lambda xp, x: xp.stack([x, x], axis=-1),
    "unstack": lambda xp, x: xp.unstack(x),
    "unstack last": lambda xp, x: xp.unstack(x, axis=-1),
    "tile": lambda xp, x: xp.tile(x, (2, 1, 2)),
    "repeat": lambda xp, x: xp.repeat(x, 2),
    "repeat axis": lambda xp, x: xp.repeat(x, 3, axis=-1),
    "repeat each": lambda xp, x: xp.repeat(x, xp.arange(x.shape[0]), axis=0),
    "broadcast_to": lambda xp, x: xp.broadcast_to(x, (2, *x.shape)),
    "broadcast_arrays": lambda xp, x: xp.broadcast_arrays(x, xp.ones((2, *x.shape))),
    "tril": lambda xp, x: xp.tril(x, k=1),
    "triu": lambda xp, x: xp.triu(x, k=-1),
    "zeros_like": lambda xp, x: xp.zeros_like(x),
    "ones_like": lambda xp, x: xp.ones_like(x, dtype=xp.float64),
    "full_like": lambda xp, x: xp.full_like(x, 1),
    "empty_like": lambda xp, x: xp.empty_like(x).shape,
    "meshgrid": lambda xp, x: xp.meshgrid(xp.reshape(x, (-1,)), xp.arange(2), indexing="ij"),
    "meshgrid xy": lambda xp, x: xp.meshgrid(xp.reshape(x, (-1,)), xp.asarray([1.0, 2.0])),
    "size": lambda xp, x: [x.size, x.ndim, tuple(x.shape)],
}  # fmt: skip
FINDS: dict[str, Callable[[Any, Any], Any]] = {
    "sort": lambda xp, x: xp.sort(x),
    "sort down": lambda xp, x: xp.sort(x, axis=0, descending=True),
    "argsort": lambda xp, x: xp.argsort(x),
    "argsort down": lambda xp, x: xp.argsort(x, axis=0, descending=True),
    "nonzero": lambda xp, x: xp.nonzero(x),
    "unique_values": lambda xp, x: xp.sort(xp.unique_values(x)),
    "unique_counts": lambda xp, x: xp.unique_counts(x),
    "unique_inverse": lambda xp, x: xp.unique_inverse(x),
    "unique_all": lambda xp, x: xp.unique_all(x),
    "take": lambda xp, x: xp.take(x, xp.asarray([0, 1, 0]), axis=-1),
    "take flat": lambda xp, x: xp.take(x, xp.asarray([1])),
    "take_along_axis": lambda xp, x: xp.take_along_axis(x, xp.argsort(x), axis=-1),
    "where": lambda xp, x: xp.where(x == x, x, xp.zeros_like(x)),
    "where number": lambda xp, x: xp.where(x != x, x, 1),
    "clip": lambda xp, x: xp.clip(x, 1, 3),
    "clip below": lambda xp, x: xp.clip(x, max=2),
    "clip array": lambda xp, x: xp.clip(x, x, xp.ones_like(x)),
    "searchsorted": lambda xp, x: xp.searchsorted(xp.sort(x), x),
    "searchsorted right": lambda xp, x: xp.searchsorted(x, x, side="right", sorter=xp.argsort(x)),
    "isin": lambda xp, x: xp.isin(x, xp.asarray([1, 2])),
    "bool": lambda xp, x: bool(x),
    "int": lambda xp, x: int(x),
    "float": lambda xp, x: float(x),
    "complex": lambda xp, x: complex(x),
    "index": lambda xp, x: operator.index(x),
}  # fmt: skip
POINTS = {  # what has no axis, or makes one
    told: (FINDS | MOVES)[told]
    for told in "bool int float complex index clip where unique_all isin reshape expand_dims stack tile broadcast_to size".split()
}
CASTS: dict[str, Callable[[Any, Any], Any]] = {
    f"astype {to}": lambda xp, x, to=to: xp.astype(xp.abs(x) if "f" in str(x.dtype) else x, getattr(xp, to))  # type: ignore[misc]
    for to in DTYPES
} | {
    "isdtype": lambda xp, x: [
        xp.isdtype(x.dtype, kind)
        for kind in ("bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric")
    ],
    "can_cast": lambda xp, x: [
        xp.can_cast(x.dtype, getattr(xp, to)) for to in DTYPES if strict.can_cast(plain_dtype(x), getattr(strict, to))
    ],  # between kinds of numbers a library may say yes
    "result_type": lambda xp, x: xp.result_type(x, xp.int16),
    "result_type floats": lambda xp, x: xp.result_type(x, xp.float64),
    "result_type number": lambda xp, x: xp.result_type(x, 1.0),
    "finfo": lambda xp, x: [getattr(xp.finfo(x.dtype), a) for a in "bits eps max min smallest_normal dtype".split()],
    "iinfo": lambda xp, x: [getattr(xp.iinfo(x), a) for a in "bits max min dtype".split()],
}  # fmt: skip


GROUPS = {
    "scans": (SCANS, 1),
    "moves": (MOVES, 1),
    "finds": (FINDS, 1),
    "points": (POINTS, 0),
    "casts": (CASTS, 0),
}


@pytest.mark.parametrize("group", GROUPS)
def test_functions_of_shapes_and_places(group: str) -> None:
    judge(one_array(*GROUPS[group]))


CREATED: dict[str, Call] = {
    "arange": lambda xp: xp.arange(5),
    "arange step": lambda xp: xp.arange(1, 9, 3),
    "arange down": lambda xp: xp.arange(5, 0, -2),
    "arange none": lambda xp: xp.arange(5, 0),
    "arange float": lambda xp: xp.arange(0.0, 1.0, 0.25),
    "arange dtype": lambda xp: xp.arange(3, dtype=xp.float32),
    "linspace": lambda xp: xp.linspace(0, 1, 5),
    "linspace open": lambda xp: xp.linspace(0, 1, 4, endpoint=False),
    "linspace one": lambda xp: xp.linspace(2, 3, 1),
    "linspace none": lambda xp: xp.linspace(2, 3, 0),
    "linspace complex": lambda xp: xp.linspace(0, 1j, 3),
    "linspace dtype": lambda xp: xp.linspace(0, 4, 5, dtype=xp.float32),
    "eye": lambda xp: xp.eye(3),
    "eye wide": lambda xp: xp.eye(2, 4, k=1, dtype=xp.int8),
    "eye below": lambda xp: xp.eye(3, 2, k=-1),
    "zeros": lambda xp: xp.zeros((2, 0)),
    "zeros number": lambda xp: xp.zeros(3, dtype=xp.bool),
    "ones": lambda xp: xp.ones((2, 2), dtype=xp.complex64),
    "full int": lambda xp: xp.full((2,), 3),
    "full float": lambda xp: xp.full((), 0.5),
    "full bool": lambda xp: xp.full((2,), True),
    "full complex": lambda xp: xp.full((2,), 1j),
    "asarray bool": lambda xp: xp.asarray([True, False]),
    "asarray mixed": lambda xp: xp.asarray([1, 2.5, True]),
    "asarray complex": lambda xp: xp.asarray([[1, 2j]]),
    "asarray none": lambda xp: xp.asarray([]),
    "asarray number": lambda xp: xp.asarray(3),
    "broadcast_shapes": lambda xp: tuple(xp.broadcast_shapes((2, 1), (3,), ())),
    "fftfreq": lambda xp: xp.fft.fftfreq(5, d=0.5),
    "rfftfreq": lambda xp: xp.fft.rfftfreq(6),
    "fftfreq dtype": lambda xp: xp.fft.fftfreq(4, dtype=xp.float32),
    "constants": lambda xp: [xp.e, xp.pi, xp.inf, xp.newaxis is None],
}


def test_creation() -> None:
    judge(iter(CREATED.items()))


def matrix(xp: Any, dtype: str, *shape: int) -> Any:
    """Rows that stand well apart: the diagonal is the largest."""
    made = values(dtype, shape) + (3 * np.eye(*shape[-2:])).astype(dtype)
    return xp.asarray(made.tolist(), dtype=getattr(xp, dtype))


def definite(xp: Any, dtype: str, *shape: int) -> Any:
    x = matrix(xp, dtype, *shape)
    return x @ (xp.conj(x.mT) if dtype in COMPLEX else x.mT)


def rebuilt(xp: Any, found: Any, shape: str) -> Any:
    """Factors are told by what they make again: their signs are free."""
    if shape == "eigh":
        across = xp.conj(found[1].mT) if "complex" in str(found[1].dtype) else found[1].mT
        return [found[0], (found[1] * xp.astype(found[0][..., None, :], found[1].dtype)) @ across]
    if shape == "qr":
        return found[0] @ found[1]
    return [found[1], (found[0] * xp.astype(found[1][..., None, :], found[0].dtype)) @ found[2]]


LINEAR: dict[str, Callable[[Any, str], Any]] = {
    "matmul": lambda xp, d: xp.matmul(matrix(xp, d, 2, 3, 4), matrix(xp, d, 4, 2)),
    "matmul vector": lambda xp, d: matrix(xp, d, 3, 4) @ array(xp, d, (4,)),
    "matmul none": lambda xp, d: array(xp, d, (2, 0)) @ array(xp, d, (0,)),
    "vecdot": lambda xp, d: xp.vecdot(matrix(xp, d, 2, 3), array(xp, d, (3,), 1)),
    "vecdot axis": lambda xp, d: xp.linalg.vecdot(matrix(xp, d, 2, 3), matrix(xp, d, 2, 3), axis=-2),
    "tensordot": lambda xp, d: xp.tensordot(matrix(xp, d, 2, 3), matrix(xp, d, 2, 3), axes=2),
    "tensordot axes": lambda xp, d: xp.tensordot(matrix(xp, d, 2, 3), matrix(xp, d, 4, 2), axes=((0,), (1,))),
    "tensordot none": lambda xp, d: xp.tensordot(matrix(xp, d, 2, 3), array(xp, d, (2,)), axes=0),
    "outer": lambda xp, d: xp.linalg.outer(array(xp, d, (3,)), array(xp, d, (4,), 1)),
    "cross": lambda xp, d: xp.linalg.cross(matrix(xp, d, 2, 3), matrix(xp, d, 1, 3)),
    "trace": lambda xp, d: xp.linalg.trace(matrix(xp, d, 2, 3, 4)),
    "trace offset": lambda xp, d: xp.linalg.trace(matrix(xp, d, 3, 4), offset=-1, dtype=xp.float64),
    "diagonal": lambda xp, d: xp.linalg.diagonal(matrix(xp, d, 2, 3, 4), offset=1),
    "cholesky": lambda xp, d: xp.linalg.cholesky(definite(xp, d, 2, 3, 3)),
    "cholesky upper": lambda xp, d: xp.linalg.cholesky(definite(xp, d, 3, 3), upper=True),
    "det": lambda xp, d: xp.linalg.det(matrix(xp, d, 2, 3, 3)),
    "slogdet": lambda xp, d: xp.linalg.slogdet(matrix(xp, d, 2, 3, 3)),
    "inv": lambda xp, d: xp.linalg.inv(matrix(xp, d, 2, 3, 3)),
    "solve": lambda xp, d: xp.linalg.solve(matrix(xp, d, 2, 3, 3), matrix(xp, d, 2, 3, 1)),
    "solve vector": lambda xp, d: xp.linalg.solve(matrix(xp, d, 3, 3), array(xp, d, (3,))),
    "pinv": lambda xp, d: xp.linalg.pinv(matrix(xp, d, 4, 3)),
    "pinv rtol": lambda xp, d: xp.linalg.pinv(matrix(xp, d, 2, 3), rtol=0.1),
    "matrix_rank": lambda xp, d: xp.linalg.matrix_rank(xp.linalg.inv(matrix(xp, d, 2, 3, 3))),
    "matrix_rank rtol": lambda xp, d: xp.linalg.matrix_rank(xp.linalg.inv(matrix(xp, d, 3, 3)), rtol=0.3),
    "matrix_power": lambda xp, d: xp.linalg.matrix_power(matrix(xp, d, 2, 3, 3), 3),
    "matrix_power zero": lambda xp, d: xp.linalg.matrix_power(matrix(xp, d, 3, 3), 0),
    "matrix_power less": lambda xp, d: xp.linalg.matrix_power(matrix(xp, d, 3, 3), -2),
    "eigvalsh": lambda xp, d: xp.linalg.eigvalsh(definite(xp, d, 2, 3, 3)),
    "eigh": lambda xp, d: rebuilt(xp, xp.linalg.eigh(definite(xp, d, 3, 3)), "eigh"),
    "qr": lambda xp, d: rebuilt(xp, xp.linalg.qr(matrix(xp, d, 4, 3)), "qr"),
    "qr complete": lambda xp, d: rebuilt(xp, xp.linalg.qr(matrix(xp, d, 4, 3), mode="complete"), "qr"),
    "svd": lambda xp, d: rebuilt(xp, xp.linalg.svd(matrix(xp, d, 4, 3), full_matrices=False), "svd"),
    "svd full": lambda xp, d: [tuple(f.shape) for f in xp.linalg.svd(matrix(xp, d, 4, 3))],
    "svdvals": lambda xp, d: xp.linalg.svdvals(matrix(xp, d, 2, 3, 4)),
} | {
    f"matrix_norm {order} {keep}": lambda xp, d, order=order, keep=keep: xp.linalg.matrix_norm(  # type: ignore[misc]
        matrix(xp, d, 2, 3, 4), ord=order, keepdims=keep
    )
    for order in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)
    for keep in (False, True)
} | {
    f"vector_norm {order} {axis}": lambda xp, d, order=order, axis=axis: xp.linalg.vector_norm(  # type: ignore[misc]
        matrix(xp, d, 2, 3), ord=order, axis=axis, keepdims=axis == 0
    )
    for order in (2, 1, 0, 3.5, -1, -2, math.inf, -math.inf)
    for axis in (None, 0, -1, (0, 1))
}  # fmt: skip
TRANSFORMS: dict[str, Callable[[Any, str], Any]] = {
    f"{name} {more}": lambda xp, d, name=name, more=more: getattr(xp.fft, name)(  # type: ignore[misc]
        array(xp, d, (3, 6)), **more
    )
    for name in "fft ifft rfft irfft hfft ihfft fftn ifftn rfftn irfftn fftshift ifftshift".split()
    for more in (
        [{}, {"axes": (0, 1)}, {"axes": 0}]
        if name.endswith("shift")
        else [{}, {"axes": (0, 1)}, {"axes": (1,), "s": (5,)}, {"norm": "ortho"}]
        if name.endswith("n")
        else [{}, {"n": 5}, {"n": 8, "axis": 0}, {"norm": "ortho"}, {"norm": "forward"}]
    )
}


@pytest.mark.parametrize("name", [*LINEAR, *TRANSFORMS])
def test_matrices_and_transforms(name: str) -> None:
    act = (LINEAR | TRANSFORMS)[name]
    judge((dtype, lambda xp, d=dtype: act(xp, d)) for dtype in DTYPES)  # type: ignore[misc]


KEYS: list[Any] = [
    (), ..., 0, -1, None, slice(None, None, -1), slice(1, None, 2), (0, 1), (..., 0), (0, ...), (None, 0, ..., None),
    (slice(0, 1), slice(None, None, -2)), (slice(-3, None), ..., slice(0, 0)), (slice(None), None, 1),
]  # fmt: skip


def test_indexing() -> None:
    def read(xp: Any, dtype: str, shape: tuple[int, ...], key: Any) -> Any:
        x = array(xp, dtype, shape)
        written = array(xp, dtype, shape)
        written[key] = array(xp, dtype, (), 3)
        return [x[key], written]

    def chosen(xp: Any, dtype: str, shape: tuple[int, ...], integer: str) -> Any:
        x = array(xp, dtype, shape)
        places = xp.asarray([1, 0, 1], dtype=getattr(xp, integer))
        return [
            x[x == x],
            x[places, ...] if x.ndim == 1 else x[places, places],
            x[xp.asarray(True)],
        ]

    judge(
        itertools.chain(
            (
                ((d, s, k), lambda xp, d=d, s=s, k=k: read(xp, d, s, k))  # type: ignore[misc]
                for d, s, k in itertools.product(DTYPES, SHAPES, KEYS)
            ),
            (
                ((d, s, i), lambda xp, d=d, s=s, i=i: chosen(xp, d, s, i))  # type: ignore[misc]
                for d, s, i in itertools.product(DTYPES, SHAPES, INTEGERS)
            ),
        )
    )
