"""Scatters of all kinds and integer products run natively, and give what NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad

REDUCTIONS = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}
DTYPES = [ad.float32, ad.float64, ad.int64, ad.int32, ad.uint8, ad.float16, ad.bool]


def _native(fn: Any, *args: Any) -> np.ndarray[Any, Any]:
    """What the compiled function gives, made by kernels alone."""
    compiled = ad.compile(fn)
    out = compiled(*args)
    assert " 0 calls of the eager table" in compiled.explain(), compiled.explain()
    return np.asarray(out.numpy())


def _native_each(fn: Any) -> list[np.ndarray[Any, Any]]:
    """The same of several results, of which those without elements are whoever's."""
    compiled = ad.compile(fn)
    out = [np.asarray(x.numpy()) for x in compiled()]
    called = sum(x.size == 0 for x in out)
    assert f" {called} calls of the eager table" in compiled.explain(), compiled.explain()
    return out


def _lines(x: Any, at: Any, y: Any, combine: Any) -> Any:
    """x with each y[i, j] combined with x[at[i, j], j], one after the other."""
    out = x.copy()
    for i, j in np.ndindex(*at.shape):
        out[at[i, j], j] = combine(out[at[i, j], j], y[i, j])
    return out


@pytest.mark.parametrize("rows", [(5, 6), (3, 4)], ids=["whole", "part"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_scatter_reduce(reduce: str, dtype: Any, rows: tuple[int, int]) -> None:
    generator = np.random.default_rng(0)
    x, y = ((generator.integers(0, 3, s) - 0.5).astype(dtype.name) for s in ((5, 6), rows))
    at = generator.integers(0, 5, rows)
    found = _native(
        lambda x, at, y: x.scatter_reduce(0, at, y, reduce), *map(ad.tensor, (x, at, y))
    )
    np.testing.assert_array_equal(found, _lines(x, at, y, REDUCTIONS[reduce]))


def test_the_extreme_of_a_nan_is_a_nan() -> None:
    x, at = ad.tensor([1.0, 2.0]), ad.tensor([0, 0, 1])
    y = ad.tensor([float("nan"), 5.0, 3.0])
    found = _native(lambda x, at, y: x.scatter_reduce(0, at, y, "amax"), x, at, y)
    np.testing.assert_array_equal(found, [float("nan"), 3.0])


@pytest.mark.parametrize("rows", [(5, 6), (3, 4)], ids=["whole", "part"])
def test_a_mask_is_scattered(rows: tuple[int, int]) -> None:
    generator = np.random.default_rng(1)
    x, y = generator.random((5, 6)) > 0.5, generator.random(rows) > 0.5
    at = generator.permuted(np.tile(np.arange(5)[:, None], 6), axis=0)[: rows[0], : rows[1]]
    found = _native(lambda x, at, y: x.scatter(0, at, y), *map(ad.tensor, (x, at, y)))
    np.testing.assert_array_equal(found, _lines(x, at, y, lambda old, new: new))


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8"])
@pytest.mark.parametrize(
    ("a", "b"), [((4, 5), (5, 6)), ((3, 1, 4, 5), (2, 5, 6)), ((5,), (5, 6)), ((40, 90), (90, 33))]
)
def test_integer_products(a: tuple[int, ...], b: tuple[int, ...], dtype: str) -> None:
    generator = np.random.default_rng(2)
    x, y = (generator.integers(-100, 100, s).astype(dtype) for s in (a, b))
    found = _native(lambda x, y: x @ y, ad.tensor(x), ad.tensor(y))
    np.testing.assert_array_equal(found, x @ y)


@pytest.mark.parametrize("dtype", [ad.int32, ad.int64], ids=str)
def test_indices_of_either_width_are_native(dtype: Any) -> None:
    x, at = ad.randn(4, 4), ad.tensor([3, 0, 1, 1], dtype=dtype)
    for fn in (
        lambda x, at: x[at],
        lambda x, at: x.gather(1, at[:, None]),
        lambda x, at: ad.nn.functional.embedding(at, x),
        lambda x, at: x.index_add(0, at, x),
        lambda x, at: x.index_put((at,), x, accumulate=True),
    ):
        np.testing.assert_array_equal(_native(fn, x, at), fn(x, at).numpy())


@pytest.mark.parametrize("dtype", [*DTYPES, ad.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (40, 7)], ids=str)
def test_identity_matrices(shape: tuple[int, int], dtype: Any) -> None:
    compiled = ad.compile(lambda: ad.eye(*shape, dtype=dtype))
    assert compiled().dtype is dtype
    assert compiled().to(ad.float64).tolist() == np.eye(*shape).tolist()
    assert " 0 calls of the eager table" in compiled.explain()


@pytest.mark.parametrize("lower", [True, False], ids=["lower", "upper"])
def test_indices_of_triangles(lower: bool) -> None:
    generator = np.random.default_rng(2)
    shapes = [(1, 1), (17, 17), (1, 9), (9, 1), *generator.integers(1, 40, (6, 2)).tolist()]
    cases = [(n, m, k) for n, m in shapes for k in (-m - 1, -3, -1, 0, 2, m)]
    found = _native_each(
        lambda: [(ad.tril_indices if lower else ad.triu_indices)(*case) for case in cases]
    )
    for case, one in zip(cases, found, strict=True):
        want = (np.tril_indices if lower else np.triu_indices)(case[0], case[2], case[1])
        np.testing.assert_array_equal(one, np.stack(want), err_msg=str(case))


def test_indices_of_a_large_triangle() -> None:
    found = _native(lambda: ad.triu_indices(3001, 2003, -7, dtype=ad.int32))
    np.testing.assert_array_equal(found, np.stack(np.triu_indices(3001, -7, 2003)))


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64, ad.bfloat16, ad.float16, ad.int64])
def test_one_place_of_every_line(dtype: Any, accumulate: bool) -> None:
    # Lines as long as registers and longer: the place is before, in and behind the lanes.
    rng = np.random.default_rng(0)

    def scattered(x: Any, y: Any, index: Any, dim: int) -> Any:
        for base in (ad.zeros_like(x), x * 2):
            scatter = base.scatter_add if accumulate else base.scatter
            yield scatter(dim, index, y)

    compiled = ad.compile(lambda *args: [*scattered(*args)])
    for (rows, columns), dim in (((5, 37), 1), ((64, 3), 0), ((2, 200), 1), ((70, 33), 0)):
        shape = (1, columns) if dim == 0 else (rows, 1)
        x, y = rng.integers(-9, 9, (rows, columns)), rng.integers(1, 9, shape)
        index = rng.integers(0, (rows, columns)[dim], shape)
        found = compiled(ad.tensor(x).to(dtype), ad.tensor(y).to(dtype), ad.tensor(index), dim)
        for base, got in zip((x * 0, x * 2), found, strict=True):
            before = np.take_along_axis(base, index, dim)
            np.put_along_axis(base, index, y + before * accumulate, dim)
            np.testing.assert_array_equal(got.to(ad.int64).numpy(), base)
