"""Rows added to long tables in their own memory, against NumPy's sums in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.operations.overrides import OVERRIDES
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.index import index

DTYPES = ["float32", "float64", "int64", "int32", "uint8", "complex64"]
TALL, WIDE, SMALL = (5000,), (130, 67), (6, 3)


def _table(rng: Any, shape: tuple[int, ...], dtype: str) -> Any:
    return rng.integers(0, 50, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [0, 3, 400])
@pytest.mark.parametrize("shape", [TALL, WIDE, SMALL, (9, 5, 120)], ids=str)
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


@pytest.mark.parametrize("bad", [6, -7, 2**62, -(2**63)])
def test_few_rows_are_added_at_once_or_not_at_all(bad: int, monkeypatch: Any) -> None:
    x, rows = ad.ones(SMALL), ad.ones(3, 3)
    with pytest.raises(IndexError, match="out of bounds"):
        x.index_put_((ad.tensor([0, 1, bad]),), rows, accumulate=True)
    assert x.eq(1).all()
    if not OVERRIDES.active:  # by classes of other tests, for which nothing is cut short
        monkeypatch.setattr(index, "resolve_indices", None)  # which the operation itself asks first
    x.index_put_((ad.tensor([0, -1, 0]),), rows, accumulate=True)
    assert x.tolist() == [[3.0] * 3, *[[1.0] * 3] * 4, [2.0] * 3]


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


KINDS = ["float32", "float64", "bfloat16", "int64", "uint8", "bool", "complex64"]


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_slices_are_written_in_place(dim: int, dtype: str) -> None:
    """Whatever lies around a view stays; of equal indices the last has its say."""
    rng = np.random.default_rng(3)
    kind = getattr(ad, dtype)
    for view in (lambda t: t, lambda t: t[:, 1:], lambda t: t.transpose(0, 2), lambda t: t[::2]):
        whole = ad.tensor(rng.integers(0, 90, (40, 13, 21))).to(kind)
        shown = view(whole)
        size = shown.shape[dim]
        index = rng.integers(0, size, 9)
        shape = [*shown.shape]
        shape[dim] = len(index)
        source = ad.tensor(rng.integers(0, 90, shape)).to(kind)
        every = (slice(None),) * (dim % 3)
        value = True if dtype == "bool" else 7
        signed = ad.tensor(np.where(rng.random(9) < 0.5, index, index - size))
        for write, given in (
            (lambda t: t.index_copy_(dim, ad.tensor(index), source), source),  # noqa: B023
            (lambda t: t.index_fill_(dim, signed, value), value),  # noqa: B023
        ):
            mine = whole.clone()
            wanted = mine.to(ad.complex128).numpy().copy()
            part = view(ad.from_numpy(wanted)).numpy()
            given = given.to(ad.complex128).numpy() if isinstance(given, ad.Tensor) else given
            part[(*every, index)] = given
            target, version = view(mine), mine._version
            assert write(target) is target
            np.testing.assert_array_equal(mine.to(ad.complex128).numpy(), wanted)
            assert mine._version == version + 1


@pytest.mark.parametrize("dtype", ["float32", "int64", "bfloat16"])
def test_slices_are_added_along_every_dimension(dtype: str) -> None:
    rng = np.random.default_rng(4)
    kind = getattr(ad, dtype)
    for dim, shape in ((1, (30, 200)), (1, (9, 50, 20)), (2, (7, 30, 40)), (-1, (3, 2000))):
        x, index = rng.integers(0, 50, shape), rng.integers(0, shape[dim], 150)
        rows = rng.integers(
            0, 9, tuple(150 if d == dim % len(shape) else n for d, n in enumerate(shape))
        )
        want = x.copy()
        np.add.at(want, (*(slice(None),) * (dim % len(shape)), index), rows)
        table = ad.tensor(x).to(kind)
        version = table._version
        table.index_add_(dim, ad.tensor(index), ad.tensor(rows).to(kind))
        got = ad.tensor(x).to(kind).index_add(dim, ad.tensor(index), ad.tensor(rows).to(kind))
        assert table.equal(got)
        assert table._version == version + 1
        if dtype != "bfloat16":
            np.testing.assert_array_equal(table.numpy(), want)


def test_elements_are_put_in_place() -> None:
    rng = np.random.default_rng(5)
    x, index = rng.integers(0, 50, (90, 70)), rng.integers(-6300, 6300, (20, 5))
    values = rng.integers(0, 50, (20, 5))
    want = x.copy()
    want.reshape(-1)[index.reshape(-1)] = values.reshape(-1)
    for turned in (False, True):
        table = ad.tensor(x if not turned else np.ascontiguousarray(x.T))
        target = table.t() if turned else table
        target.put_(ad.tensor(index), ad.tensor(values))
        np.testing.assert_array_equal(target.numpy(), want)
    table = ad.tensor(x)
    table.put_(ad.tensor([1]), table[5, :1])  # which shares its memory
    assert table[0, 1] == x[5, 0]


@pytest.mark.parametrize("bad", [90, -91])
def test_an_index_out_of_bounds_writes_nothing(bad: int) -> None:
    x = ad.ones(90, 70)
    index = ad.tensor([3, bad])
    for write in (
        lambda: x.index_copy_(0, index, ad.zeros(2, 70)),
        lambda: x.index_copy_(0, ad.tensor([3, -1]), ad.zeros(2, 70)),  # which takes none below 0
        lambda: x.index_fill_(0, index, 0.0),
        lambda: x.index_add_(1, ad.tensor([3, 70]), ad.zeros(90, 2)),
        lambda: x.put_(ad.tensor([3, 6300]), ad.zeros(2)),
    ):
        with pytest.raises((IndexError, RuntimeError), match="out of (bounds|range)"):
            write()
    assert x.eq(1).all()


def test_what_is_followed_is_written_by_the_operation() -> None:
    x, source = ad.zeros(90, 70), ad.ones(2, 70, requires_grad=True)
    index = ad.tensor([1, 2])
    y = x.clone().index_copy_(0, index, source)
    y.sum().backward()
    assert source.grad is not None
    assert source.grad.eq(1).all()
    with pytest.raises(RuntimeError, match="leaf"):
        ad.zeros(90, 70, requires_grad=True).index_fill_(0, index, 1.0)


# Shape, the dimensions that are indexed (next to each other), the indices' shape.
INNER: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
    ((60, 131), (1,), (90,)), ((60, 131), (1,), (7, 9)), ((30, 17, 19), (1,), (40,)),
    ((5, 40, 70), (1,), (33,)), ((30, 17, 19), (2,), (25,)), ((12, 7, 9, 11), (1, 2), (50,)),
    ((12, 7, 9, 11), (2, 3), (6, 8)), ((2, 3000), (1,), (4000,)), ((4, 1, 2048), (1,), (3,)),
]  # fmt: skip


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bfloat16"])
def test_rows_of_several_tables_are_those_of_the_eager_table(dtype: str, workers: int) -> None:
    """Eagerly from many elements on, and compiled: what is indexed need not come first."""
    rng = np.random.default_rng(3)
    before = ad.get_num_threads()
    ad.set_num_threads(workers)
    try:
        for shape, dims, block in INNER:
            x = ad.from_numpy(_table(rng, shape, "float32")).to(getattr(ad, dtype))
            first, last = dims[0], dims[-1] + 1
            chosen = (*shape[:first], *block, *shape[last:])
            values = ad.from_numpy(_table(rng, chosen, "float32")).to(x.dtype)
            if first == 1:
                values = values.transpose(0, -1).contiguous().transpose(0, -1)
            picks = [ad.from_numpy(rng.integers(-shape[d], shape[d], block)) for d in dims]
            for adds in (True, False):

                def put(x: Any, values: Any, *picks: Any) -> Any:
                    return index.INDEX_PUT(x, values, *picks, dims=dims, accumulate=adds)  # noqa: B023

                with CONTEXT.having(reference=True):
                    want = put(x, values, *picks)
                for got in (put(x, values, *picks), ad.compile(put)(x, values, *picks)):
                    assert bool(ad.equal(got, want)), (shape, dims, block, adds)
    finally:
        ad.set_num_threads(before)


def test_an_index_out_of_bounds_of_an_inner_dimension_is_told() -> None:
    x, source = ad.ones(40, 130), ad.ones(40, 101)
    picks = ad.cat([ad.arange(100), ad.tensor([130])])
    for call in (ad.index_add, ad.compile(ad.index_add)):
        with pytest.raises(IndexError, match="130 is out of bounds for dimension 1 with size 130"):
            call(x, 1, picks, source)
