"""An operation and a reduction from outside: a definition, a kernel, a lowering, and all modes follow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.array import table
from adjoint.engine.backends.registers import elementwise as native
from adjoint.engine.backends.registers import operations
from adjoint.engine.backends.registers.vector import V
from adjoint.engine.core.operations.families import elementwise
from adjoint.engine.core.operations.record import REGISTRY, Record
from adjoint.engine.core.operations.reductions import reduction
from adjoint.engine.ops.reduce.reduction import restore


@pytest.fixture(scope="module")
def cubed() -> Iterator[Record]:
    # 1. the record; 2. its kernel; 3. its lowering
    record = elementwise("cubed", lambda x: 3 * x * x, promotion="float", accepts="f")
    table.lowers(record)(lambda xp, x: x * x * x)
    native.lowers(record)(lambda x: x * x * x)
    yield record
    del REGISTRY[record.name], native.LOWER[record.name], native._ACCEPTS[record.name]


@contextmanager
def exponentials_added() -> Iterator[Record]:
    record = reduction(
        "add_exponentially",
        lambda g, x, out, x_spec, dims, keepdim: (
            restore(g, x_spec, dims, keepdim) * (x - restore(out, x_spec, dims, keepdim)).exp()
        ),
    )

    @table.lowers(record)
    def kernel(xp: Any, x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
        return xp.logaddexp.reduce(x, axis=dims, keepdims=keepdim)

    @operations.reduces(record, lambda kind: float("-inf"), "f")
    def step(a: V, b: V) -> V:
        return native.LOWER["logaddexp"](a, b)

    try:
        yield record
    finally:
        del REGISTRY[record.name], operations.REDUCERS[record.name]


@pytest.fixture(scope="module")
def add_exponentially() -> Iterator[Record]:
    with exponentials_added() as record:
        yield record


def compiled_without_calls(fn: Any, *args: Any) -> Any:
    """A compiled function's result; every step of it is native."""
    compiled = ad.compile(fn, validate=True)
    out = compiled(*args)
    assert "Python" not in compiled.explain(), compiled.explain()
    return out


def test_an_elementwise_operation(cubed: Record) -> None:
    x = ad.linspace(-2, 2, 60).reshape(3, 20)
    expected = np.asarray(x) ** 3
    np.testing.assert_allclose(cubed(x), expected, rtol=1e-6)
    np.testing.assert_allclose(ad.vmap(lambda row: cubed(row))(x), expected, rtol=1e-6)
    gradient = ad.func.grad(lambda x: cubed(x).sum())
    np.testing.assert_allclose(gradient(x), 3 * np.asarray(x) ** 2, rtol=1e-6)
    _, tangent = ad.func.jvp(cubed, (x,), (ad.ones_like(x),))
    np.testing.assert_allclose(tangent, 3 * np.asarray(x) ** 2, rtol=1e-6)
    np.testing.assert_allclose(
        compiled_without_calls(lambda x: cubed(x) + 1, x), expected + 1, rtol=1e-6, atol=1e-6
    )
    np.testing.assert_allclose(compiled_without_calls(gradient, x), gradient(x), rtol=1e-6)


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("shape", [(3, 20), (37, 5), (4, 20_000)])
def test_a_reduction(
    add_exponentially: Record, dims: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    ad.manual_seed(0)
    x = ad.randn(shape)

    def reduced(x: Any, dims: tuple[int, ...] = dims) -> Any:
        return add_exponentially(x, dims=dims, keepdim=False)

    expected = np.logaddexp.reduce(np.asarray(x).astype(np.float64), axis=dims)
    np.testing.assert_allclose(reduced(x), expected, rtol=1e-4)
    batched = ad.vmap(lambda x: reduced(x, tuple(range(x.ndim))))(x)
    np.testing.assert_allclose(batched, np.logaddexp.reduce(np.asarray(x), axis=1), rtol=1e-4)
    gradient = ad.func.grad(lambda x: (reduced(x) ** 2).sum())
    wanted = ad.func.grad(lambda x: (ad.logsumexp(x, dims) ** 2).sum())(x)
    np.testing.assert_allclose(gradient(x), wanted, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(
        compiled_without_calls(lambda x: reduced(x * 2) - 1, x), reduced(x * 2) - 1, rtol=1e-4
    )
    np.testing.assert_allclose(compiled_without_calls(gradient, x), wanted, rtol=1e-3, atol=1e-6)


def test_a_reduction_without_a_lowering_runs_in_the_eager_table() -> None:
    record = reduction("first_of_all")
    try:
        table.lowers(record)(lambda xp, x, dims, keepdim: x.min(axis=dims, keepdims=keepdim))
        compiled = ad.compile(lambda x: record(x, dims=(0,), keepdim=False) + 1)
        np.testing.assert_array_equal(compiled(ad.arange(6.0).reshape(2, 3)), [1, 2, 3])
        assert "Python" in compiled.explain()
    finally:
        del REGISTRY[record.name]
