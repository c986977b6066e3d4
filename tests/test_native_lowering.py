"""Operations with kernels of their own: equal to eager, and not left to the eager table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import compile

DTYPES = ["float32", "float64", "int64", "int32", "uint8", "bool", "bfloat16", "float16"]
SHAPES = [(7,), (5, 33), (3, 4, 5), (2, 9000)]


def numbers(shape: tuple[int, ...], dtype: str, nan: bool = False) -> Any:
    rng = np.random.default_rng(len(shape))
    x = ad.tensor(rng.integers(0, 9, shape)).to(getattr(ad, dtype))
    if nan and x.dtype.is_floating_point and x.ndim > 1:
        x[0, 2:4] = float("nan")
    return x


def same(fn: Callable[..., Any], *arguments: Any, limit: float = 0.0) -> None:
    """Compiled as eager, and without a call of the eager table."""
    want = fn(*arguments)
    compiled = compile(fn, backend="native")
    got = compiled(*arguments)
    assert got.dtype is want.dtype
    assert got.shape == want.shape
    a, b = got.numpy().astype(float), want.numpy().astype(float)
    np.testing.assert_allclose(a, b, rtol=limit, atol=limit)
    report = compiled.latest.executable.image.report
    assert [line["what"] for line in report if line["kind"] == "call"] == []


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_positions_of_extremes(dtype: str, shape: tuple[int, ...]) -> None:
    x = numbers(shape, dtype, nan=True)
    for d in range(len(shape)):
        same(lambda x, d=d: x.argmax(d), x)
        same(lambda x, d=d: x.argmin(d, keepdim=True), x)
    same(lambda x: x.argmax(), x)
    same(lambda x: (x * 2).max(-1).values, x)
    if x.dtype.is_floating_point:
        x = ad.full(shape, float("-inf"), dtype=x.dtype)
        same(lambda x: x.argmax(-1), x)


def test_a_position_is_found_by_one_kernel() -> None:
    compiled = compile(lambda x: x.argmax(-1), backend="native")
    compiled(ad.randn(8, 50))
    assert len(compiled.latest.executable.image.report) == 1


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_other_way_round(dtype: str, shape: tuple[int, ...]) -> None:
    x = numbers(shape, dtype)
    for d in range(len(shape)):
        same(lambda x, d=d: x.flip(d), x)
        same(lambda x, d=d: x.roll(2, d), x)
        same(lambda x, d=d: x.flip(d).roll(-1, d).flip(d), x)
    same(lambda x: x.flip(tuple(range(x.ndim))).reshape(-1)[1:].logical_not(), x)
    same(lambda x: x.roll(3), x)


def test_products_of_what_is_turned_round() -> None:
    x = numbers((6, 6), "float32")
    same(lambda x: x.flip(0) @ x.flip(1), x)
    same(lambda x: x.flip((0, 1)).t() @ x, x)
    same(lambda x: x.flip(1).sum(1) + x.flip(0).cumsum(0)[0] * 0, x)


@pytest.mark.parametrize("shape", [(7,), (5, 33), (3, 4, 5), (9, 2100), (1500, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "bfloat16", "float16"])
def test_what_runs_along_a_dimension(dtype: str, shape: tuple[int, ...]) -> None:
    x = numbers(shape, dtype)
    small = (x.clamp(0, 2) + 2) * 0.5 if x.dtype.is_floating_point else x.clamp(0, 2)
    limit = 0.0 if not x.dtype.is_floating_point else 0.02 if x.dtype.itemsize == 2 else 1e-5
    for d in range(len(shape)):
        same(lambda x, d=d: x.cumsum(d), x)
        same(lambda x, d=d: x.cumprod(d), small.narrow(d, 0, min(shape[d], 20)))
        same(lambda x, d=d: x.cummax(d).indices, x)
        same(lambda x, d=d: x.cummin(d).values, x)
        if x.dtype.is_floating_point:
            same(lambda x, d=d: x.logcumsumexp(d), small, limit=limit)


def test_nan_runs_along() -> None:
    x = numbers((4, 9), "float32", nan=True)
    same(lambda x: x.cummax(1).indices, x)
    same(lambda x: x.cumsum(1), x)
    same(lambda x: x.t().cummin(0).values, x)


def test_gradients_of_what_runs_along() -> None:
    def gradient(x: Any) -> Any:
        x = x.detach().requires_grad_()
        out = x.cumsum(0).sin() + x.cumprod(1) + x.logcumsumexp(1)
        (g,) = ad.autograd.grad(out.sum(), x)
        return g

    same(gradient, numbers((5, 6), "float64") * 0.1 + 0.5, limit=1e-9)


def test_lines_are_dealt_out_to_workers() -> None:
    before = ad.get_num_threads()
    x = ad.randn(203, 300)
    run = compile(lambda x: (x.cumsum(0), x.cumsum(1), x.cummax(1).indices), backend="native")
    try:
        ad.set_num_threads(1)
        want = [t.numpy() for t in run(x)]
        for threads in (2, 3):
            ad.set_num_threads(threads)
            for got, w in zip(run(x), want, strict=True):
                np.testing.assert_array_equal(got.numpy(), w)
    finally:
        ad.set_num_threads(before)


PUTS: dict[str, Callable[..., Any]] = {
    "rows": lambda x, at: x.index_copy(0, at, x[:4]),
    "columns": lambda x, at: x.index_fill(1, at, 3),
    "last": lambda x, at: x.index_add(2, at, x[:, :, :4]),
    "two": lambda x, at: x.index_put((at, at), x[0, :4]),
    "apart": lambda x, at: x.index_put((at, None, at), (x[:4, :, 0] > 3).to(x.dtype)),
    "elements": lambda x, at: x.index_put((at, at, at), x[0, 0, :4], accumulate=True),
    "repeated": lambda x, at: x.index_add(1, at * 0, x[:, :4]),
}


def _set(x: Any, at: Any) -> Any:
    x = x.clone()
    x[:, at] = x[:, at.flip(0)] + 1 if x.dtype is not ad.bool else ~x[:, at]
    x[at, 1:3, at] = 2
    return x


@pytest.mark.parametrize("name", [*PUTS, "set"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_put_at_indices(dtype: str, name: str) -> None:
    x = numbers((6, 5, 7), dtype)
    at = ad.tensor([3, 0, -1, 3] if name in ("two", "apart", "elements", "set") else [3, 0, 4, 3])
    same(PUTS.get(name, _set), x, at)


PICKS: dict[str, Callable[..., Any]] = {
    "apart": lambda x, at: x[at, :, at],
    "apart at the end": lambda x, at: x[:, at][at, :, at],
    "different shapes": lambda x, at: x[at.view(4, 1), at],
    "rows and columns": lambda x, at: x[:, at.view(4, 1), at],
    "one and all": lambda x, at: x[0, at, at[:1]],
}


@pytest.mark.parametrize("name", PICKS)
def test_elements_picked_by_indices(name: str) -> None:
    x = numbers((6, 5, 7), "float32")
    same(PICKS[name], x, ad.tensor([3, 0, -1, 3]))
    same(lambda x, at: PICKS[name](x * 2, at + 0) + 1, x, ad.tensor([3, 0, -1, 3]))
    with pytest.raises(IndexError):
        compile(PICKS[name], backend="native")(x, ad.tensor([3, 0, 7, 3]))


def test_rows_put_at_indices_of_different_shapes() -> None:
    x = numbers((6, 5, 7), "int32")
    at = ad.tensor([3, 0, 1])
    same(
        lambda x, at: x.index_put((at.view(3, 1), at), x[0, :3, :3].unsqueeze(-1).expand(3, 3, 7)),
        x,
        at,
    )
