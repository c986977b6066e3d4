"""Rows added to long tables in their own memory, against NumPy's sums in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad

DTYPES = ["float32", "float64", "int64", "int32", "uint8", "complex64"]
TALL, WIDE = (5000,), (130, 67)


def _table(rng: Any, shape: tuple[int, ...], dtype: str) -> Any:
    return rng.integers(0, 50, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [0, 3, 400])
@pytest.mark.parametrize("shape", [TALL, WIDE, (9, 5, 120)], ids=str)
def test_rows_are_added_in_place(shape: tuple[int, ...], count: int, dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = _table(rng, shape, dtype)
    rows = _table(rng, (count, *shape[1:]), dtype)
    index = rng.integers(0, shape[0], count)
    want = x.astype(np.complex128 if dtype == "complex64" else np.float64)
    np.add.at(want, index, rows)
    want = (want % 256 if dtype == "uint8" else want).astype(dtype)
    signed = np.where(rng.random(count) < 0.5, index, index - shape[0])
    for write in (
        lambda t: t.index_add_(0, ad.tensor(index), ad.tensor(rows)),
        lambda t: t.index_put_((ad.tensor(signed),), ad.tensor(rows), accumulate=True),
        lambda t: t.add_(ad.sparse_coo_tensor(ad.tensor(index[None]), ad.tensor(rows), shape)),
    ):
        table = ad.tensor(x)
        seen, version = table[1:], table._version
        assert write(table) is table
        np.testing.assert_array_equal(table.numpy(), want)
        np.testing.assert_array_equal(seen.numpy(), want[1:])
        assert table._version > version


def test_elements_are_added_by_several_indices() -> None:
    rng = np.random.default_rng(1)
    x, values = _table(rng, WIDE, "float32"), _table(rng, (30, 20), "float32")
    i, j = (rng.integers(-n, n, (30, 20)) for n in WIDE)
    want = x.copy()
    np.add.at(want, (i, j), values)
    got = ad.tensor(x).index_put_((ad.tensor(i), ad.tensor(j)), ad.tensor(values), True)
    np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("bad", [130, -1, -131, 2**62, -(2**63)])
def test_an_index_out_of_bounds_leaves_the_table(bad: int) -> None:
    x = ad.ones(WIDE)
    index = ad.cat([ad.arange(100), ad.tensor([bad])])
    with pytest.raises((IndexError, RuntimeError), match="out of (bounds|range)"):
        x.index_add_(0, index, ad.ones(101, 67))
    if bad != -1:
        with pytest.raises((IndexError, RuntimeError), match="out of (bounds|range)"):
            x.index_put_((index,), ad.ones(101, 67), accumulate=True)
    assert x.eq(1).all()


def test_rows_of_the_table_itself_are_read_before_they_change() -> None:
    x = ad.arange(130.0 * 67).reshape(WIDE)
    want, index = x.clone(), ad.tensor([*range(1, 40), *range(39)])
    want = want.index_add(0, index, x[:78].clone())
    assert x.index_add_(0, index, x[:78]).equal(want)
    whole = ad.arange(5000)
    double = whole.index_add(0, whole.clone(), whole.clone())
    assert whole.index_add_(0, whole, whole).equal(double)


def test_gradients_and_other_tables_take_the_usual_way() -> None:
    leaf, rows = ad.ones(WIDE, requires_grad=True), ad.full((78, 67), 2.0, requires_grad=True)
    index = ad.tensor([*range(39), *range(39)])
    (leaf * 1).index_add_(0, index, rows, alpha=3).sum().backward()
    for tensor, gradient in ((leaf, 1), (rows, 3)):
        assert tensor.grad is not None
        assert tensor.grad.eq(gradient).all()
    turned = ad.zeros(67, 130).t()
    with ad.no_grad():
        assert turned.index_add_(0, index, rows, alpha=0.5).sum() == 78 * 67
    half = ad.zeros(5000, dtype=ad.bfloat16)
    ones = ad.ones(600, dtype=ad.bfloat16)  # 256 + 1 is 256 in bfloat16
    assert half.index_add_(0, ad.zeros(600, dtype=ad.int64), ones)[0] == 600
    compiled = ad.compile(lambda x, i, y: x.index_add_(0, i, y))
    x = ad.zeros(WIDE)
    compiled(x, index, rows.detach())
    assert x.equal(ad.zeros(WIDE).index_add_(0, index, rows.detach()))


@pytest.mark.parametrize("length", [5, 5000])
@pytest.mark.parametrize(
    ("dtype", "alpha", "want"),
    [
        ("int64", 1.5, 4), ("int64", -0.5, 1), ("uint8", 0.5, 1), ("int8", -1, -2),
        ("int64", True, 4), ("float32", 0.5, 2.5), ("int64", float("nan"), None),
        ("int8", 300, None), ("uint8", -1.0, None), ("int64", 1e30, None), ("float32", 1j, None),
        ("float32", 1e39, None), ("float16", 1e30, None),
    ],
)  # fmt: skip
def test_alpha_is_a_number_of_the_dtype(length: int, dtype: str, alpha: Any, want: Any) -> None:
    x = ad.ones(length, dtype=getattr(ad, dtype))
    rows, index = x[:2] * 3, ad.tensor([0, 1])
    if want is None:
        with pytest.raises(RuntimeError, match="overflow"):
            x.index_add_(0, index, rows, alpha=alpha)
    else:
        assert x.index_add_(0, index, rows, alpha=alpha)[:3].tolist() == [want, want, 1]
