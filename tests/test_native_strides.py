"""Compiled copies and functions of tensors that lie otherwise than their results, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad

KINDS = [np.float32, np.float64, np.int32, np.int64, np.bool_, np.int8, np.float16]


def lying_otherwise(rng: np.random.Generator, dtype: Any) -> tuple[Any, Any]:
    """A random array, and a view of it: turned, backwards, or with steps."""
    shape = tuple(int(n) for n in rng.integers(1, 70, rng.integers(1, 4)))
    array = (rng.standard_normal(shape) * 9).astype(dtype)
    order = [int(d) for d in rng.permutation(len(shape))]
    backwards = [d for d in range(len(shape)) if rng.random() < 0.4]
    steps = tuple(slice(int(rng.integers(0, 2)), None, int(rng.integers(1, 3))) for _ in shape)

    def view(x: Any) -> Any:
        x = x[steps]
        x = x.permute(order) if isinstance(x, ad.Tensor) else x.transpose(order)
        return x.flip(backwards) if isinstance(x, ad.Tensor) else np.flip(x, backwards)

    return array, view


@pytest.mark.parametrize("seed", range(8))
def test_copies_and_functions_of_views(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for dtype in KINDS:
        array, view = lying_otherwise(rng, dtype)
        x, want = ad.from_numpy(array), view(array)
        copied = ad.compile(lambda x, view=view: view(x).contiguous())(x)
        assert copied.is_contiguous()
        np.testing.assert_array_equal(copied.numpy(), want)
        if want.size:
            both = ad.compile(
                lambda x, view=view: (view(x) == view(x).contiguous(), view(x).amax())
            )
            same, most = both(x)
            assert same.all()
            assert most.item() == want.max()
        into = ad.zeros(*array.shape, dtype=x.dtype)
        if view(into)._is_view():  # backwards it is a copy
            ad.compile(lambda y, x, view=view: view(y).copy_(x))(into, copied)
            np.testing.assert_array_equal(view(into.numpy()), want)


@pytest.mark.parametrize(("rows", "columns"), [(400, 300), (1025, 97), (16, 4099), (3000, 17)])
def test_large_matrices_are_turned_tile_by_tile(rows: int, columns: int) -> None:
    rng = np.random.default_rng(rows)
    array = rng.standard_normal((rows, columns)).astype(np.float32)
    x = ad.from_numpy(array)
    turned = ad.compile(lambda x: (x.t().contiguous(), x.t() + x.t()[:, :1], x.flip(1)))(x)
    for got, want in zip(turned, (array.T, array.T + array.T[:, :1], array[:, ::-1]), strict=True):
        np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(x.t().contiguous().numpy(), array.T)  # as a fragment


@pytest.mark.parametrize("seed", range(4))
def test_short_rows_of_many_dimensions(seed: int) -> None:
    """Vectors go along another dimension than the last where that is short."""
    rng = np.random.default_rng(seed)
    for dtype in (np.float32, np.int8, np.bool_, np.float64):
        rank = int(rng.integers(4, 7))
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 5, 8, 17], rank))
        order = [int(d) for d in rng.permutation(rank)]
        turned = [int(d) for d in rng.permutation(rank)[: rng.integers(0, rank + 1)]]
        array = (rng.standard_normal(shape) * 3).astype(dtype)
        want = np.flip(array.transpose(order), turned)
        copied = ad.compile(
            lambda x, order=order, turned=turned: x.permute(order).flip(turned).contiguous(),
            backend="native",
        )
        np.testing.assert_array_equal(copied(ad.from_numpy(array)).numpy(), want)
        joined = ad.compile(
            lambda x, order=order: ad.cat([x.permute(order), x.permute(order)], -1),
            backend="native",
        )
        both = np.concatenate([array.transpose(order)] * 2, -1)
        np.testing.assert_array_equal(joined(ad.from_numpy(array)).numpy(), both)
