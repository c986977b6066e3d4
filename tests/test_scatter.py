"""Gathering and scattering against plain loops, over shapes, dtypes and reductions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.engine.core.state.context import CONTEXT

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")
DTYPES = ("float64", "float32", "int64", "int32", "uint8")


@st.composite
def cases(draw: Any) -> tuple[Any, ...]:
    """(x, dim, index, src): index no larger than x outside dim, src no smaller than index."""
    rank = draw(st.integers(1, 3))
    dim = draw(st.integers(0, rank - 1))
    shape = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    picked = tuple(draw(st.integers(0, 5 if d == dim else n)) for d, n in enumerate(shape))
    full = tuple(n + draw(st.integers(0, 1)) for n in picked)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from(DTYPES))
    x = rng.integers(0, 5, shape).astype(dtype)
    src = rng.integers(0, 5, full).astype(dtype)
    return x, dim, rng.integers(0, shape[dim], picked), src


def places(dim: int, index: Any) -> Any:
    """(place in index, the place it names)."""
    for at in itertools.product(*map(range, index.shape)):
        yield at, (*at[:dim], int(index[at]), *at[dim + 1 :])


@settings(max_examples=150, deadline=None)
@given(cases())
def test_gather(case: Any) -> None:
    x, dim, index, _ = case
    want = np.zeros(index.shape, x.dtype)
    for at, there in places(dim, index):
        want[at] = x[there]
    got = ad.tensor(x).gather(dim, ad.tensor(index))
    np.testing.assert_array_equal(got.numpy(), want)
    assert got.dtype is ad.tensor(x).dtype


def reduced(reduce: str, v: Any) -> Any:
    match reduce:
        case "sum":
            return v.sum(dtype=v.dtype)
        case "prod":
            return v.prod(dtype=v.dtype)
        case "mean":
            total = v.sum(dtype=v.dtype)
            return total // v.dtype.type(len(v)) if v.dtype.kind in "iu" else total / len(v)
        case _:
            return getattr(v, reduce[1:])()


@settings(max_examples=300, deadline=None)
@given(cases(), st.sampled_from(REDUCTIONS), st.booleans())
def test_scatter_reduce(case: Any, reduce: str, include_self: bool) -> None:
    x, dim, index, src = case
    met: dict[Any, list[Any]] = {}
    for at, there in places(dim, index):
        met.setdefault(there, [x[there]] if include_self else []).append(src[at])
    want = x.copy()
    with np.errstate(over="ignore"):
        for there, values in met.items():
            many = np.array(values, dtype=x.dtype)
            want[there] = reduced(reduce, many)
    got = ad.tensor(x).scatter_reduce(
        dim, ad.tensor(index), ad.tensor(src), reduce, include_self=include_self
    )
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    assert got.dtype is ad.tensor(x).dtype


@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_equal_extremes_share_the_gradient(reduce: str) -> None:
    x = ad.tensor([2.0, 0.0], requires_grad=True)
    y = ad.tensor([2.0, 2.0, 2.0], requires_grad=True)
    out = x.scatter_reduce(0, ad.tensor([0, 0, 0]), y, reduce)
    gx, gy = ad.autograd.grad(out[0], (x, y))
    assert gx.tolist() == [0.25, 0.0]
    assert gy.tolist() == [0.25] * 3


def test_product_with_zeros() -> None:
    """The derivative by a zero is the product of the others, not 0 / 0."""
    x = ad.tensor([3.0, 5.0], requires_grad=True)
    y = ad.tensor([0.0, 2.0, 0.0, 0.0], requires_grad=True)
    out = x.scatter_reduce(0, ad.tensor([0, 0, 1, 1]), y, "prod")
    gx, gy = ad.autograd.grad(out.sum(), (x, y))
    assert gx.tolist() == [0.0, 0.0]
    assert gy.tolist() == [6.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16])
def test_halves_add_up_in_float32(dtype: Any) -> None:
    n = 4096
    i = ad.zeros(n, dtype=ad.int64)
    assert ad.zeros(1, dtype=dtype).index_add(0, i, ad.ones(n, dtype=dtype)).item() == n
    assert ad.zeros(1, dtype=dtype).scatter_add(0, i, ad.ones(n, dtype=dtype)).item() == n


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, i: x.gather(0, i + 9), RuntimeError, "index 9 is out of bounds"),
        (lambda x, i: x.gather(0, i - 1), RuntimeError, "index -1 is out of bounds"),
        (lambda x, i: x.gather(0, i[0]), RuntimeError, "same number of dimensions"),
        (lambda x, i: x.gather(2, i), IndexError, "dimension out of range"),
        (lambda x, i: x.gather(0, i.to(ad.float32)), RuntimeError, "int64 or int32 for index"),
        (lambda x, i: x.scatter(0, i, i), RuntimeError, r"self\.dtype to be equal"),
        (lambda x, i: x.scatter(0, i, x[:, :0]), RuntimeError, "no larger than src"),
        (lambda x, i: x.scatter(0, i, 1.0, reduce="max"), RuntimeError, "add or multiply"),
        (lambda x, i: x.scatter_reduce(0, i, x, "max"), RuntimeError, "amax or amin"),
        (lambda x, i: x.index_select(0, i), IndexError, "vector"),
        (lambda x, i: x.index_select(0, i[0] - 1), IndexError, "index -1"),
        (lambda x, i: x.index_add(0, i[0], x[:1]), RuntimeError, "number of indices"),
        (lambda x, i: x.index_copy(0, i[0], x[:2, :1]), RuntimeError, "must match self"),
        (lambda x, i: x.index_fill(0, i[0], x[0]), RuntimeError, "0-dimensional value"),
        (lambda x, i: x.take(i + 99), IndexError, "out of bounds"),
        (lambda x, i: x.put(i, x[:1, :1]), IndexError, "same number of elements"),
        (lambda x, i: x.take_along_dim(i[0], 1), RuntimeError, "same number of dimensions"),
        (lambda x, i: x.masked_select(i), RuntimeError, "BoolTensor"),
        (lambda x, i: x.masked_scatter(x == x, x[0]), RuntimeError, "number of ones in mask"),
    ],
)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(ad.ones(3, 2), ad.zeros(2, 2, dtype=ad.int64))


@pytest.mark.parametrize(("rows", "given"), [(2, 0), (0, 3), (0, 0)])
def test_masked_scatter_of_nothing_reaches_the_source(rows: int, given: int) -> None:
    """A mask that holds nowhere: the input comes back, and the source's gradient is zero."""
    x = ad.full((rows, 3), -2.0, requires_grad=True)
    source = ad.ones(given, requires_grad=True)
    out = x.masked_scatter(ad.zeros(rows, 1, dtype=ad.bool), source)
    out.sum().backward()
    assert out.tolist() == [[-2.0] * 3] * rows
    assert x.grad is not None
    assert x.grad.tolist() == [[1.0] * 3] * rows
    assert source.grad is not None
    assert source.grad.tolist() == [0.0] * given


@pytest.mark.parametrize("shape", [(2,), (2, 3)])
def test_cat_of_an_empty_vector_reaches_it(shape: tuple[int, ...]) -> None:
    """An empty vector joins tensors of any rank; its gradient is zero, not missing."""
    weight = ad.ones(3, requires_grad=True)
    out = ad.cat([weight[:0], ad.ones(shape), weight[:0]], dim=-1)
    assert out.shape == shape
    (out.sum() * 2).backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [0.0] * 3


NOWHERE: dict[str, Any] = {
    "scatter": lambda x, i, y: x.scatter(0, i, y),
    "scatter_add": lambda x, i, y: x.scatter_add(0, i, y),
    "scatter_add_": lambda x, i, y: x.clone().scatter_add_(0, i, y),
    "index_reduce": lambda x, i, y: x.index_reduce(0, i[:, 0], y[:0], "amax", include_self=False),
    "compiled": lambda x, i, y: ad.compile(lambda x, y: x.scatter_add(0, i, y))(x, y),
} | {
    f"scatter_reduce {how}": lambda x, i, y, how=how: x.scatter_reduce(
        0, i, y, how, include_self=False
    )
    for how in REDUCTIONS
}


@pytest.mark.parametrize("name", NOWHERE)
@pytest.mark.parametrize(("rows", "given"), [(2, 0), (2, 3), (0, 3)])
def test_scatter_of_nothing_reaches_the_source(name: str, rows: int, given: int) -> None:
    """A graph without edges: the input comes back, and the source's gradient is zero."""
    x = ad.full((rows, 3), -0.0, requires_grad=True)
    source = ad.ones(given, 3, requires_grad=True)
    out = NOWHERE[name](x, ad.zeros(0, 3, dtype=ad.int64), source)
    out.sum().backward()
    assert out.shape == x.shape
    assert bool(out.signbit().all())  # -0.0 as it was: nothing was added
    assert x.grad is not None
    assert x.grad.tolist() == [[1.0] * 3] * rows
    assert source.grad is not None
    assert source.grad.tolist() == [[0.0] * 3] * given


def test_scatter_of_nothing_refuses_what_others_do() -> None:
    none = ad.zeros(0, dtype=ad.int64)
    with pytest.raises(IndexError, match="out of range"):
        ad.zeros(2).scatter_add(3, none, ad.ones(0))
    with pytest.raises(RuntimeError, match=r"equal to src\.dtype"):
        ad.zeros(2).scatter(0, none, ad.ones(0, dtype=ad.float64))


def taken(array: Any, index: Any, dim: int) -> Any:
    """What `take_along_dim` gives, and its gradient, or the class of its error."""
    x = ad.from_numpy(array.copy()).requires_grad_()
    try:
        out = x.take_along_dim(ad.from_numpy(index), dim)
    except Exception as error:
        return type(error)
    (grad,) = ad.autograd.grad((out * out).sum(), x)
    return out.tolist(), out.stride(), grad.tolist()


def test_indices_that_need_nothing_are_taken_as_they_are() -> None:
    """Those of one shape and without negative numbers, against what is broadcast and turned."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        shape = [int(n) for n in rng.integers(1, 4, rng.integers(1, 4))]
        dim = int(rng.integers(-len(shape), len(shape)))
        picked = [1 if rng.random() < 0.2 else n for n in shape]
        picked[dim] = int(rng.integers(0, 4))
        low = -shape[dim] if rng.random() < 0.5 else 0
        beyond = int(rng.random() < 0.05)
        given = rng.standard_normal(shape), rng.integers(low, shape[dim] + beyond, picked), dim
        with CONTEXT.having(reference=True):
            want = taken(*given)
        assert taken(*given) == want, given
