"""Order in native code: sort, top-k, the k-th element and medians beside plain Python's order."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.templates.sorting import template
from adjoint.engine.core.state.context import CONTEXT

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
# Long and short lines, one alone, columns; below and above what keeps PyTorch's order of equals.
SHAPES = [(33, 40), (300, 5), (2, 1500), (3, 3, 129), (1200,), (5, 7), (17, 60), (1, 1), (40, 24)]


def drawn(dtype: str, shape: tuple[int, ...], how: str, seed: int) -> ad.Tensor:
    """Elements that are all different, or mostly equal, or partly NaN, infinite and zeros."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-3, 4, shape) if how == "equal" else rng.standard_normal(shape) * 100
    values = np.abs(values) if dtype in ("uint8", "bool") else values
    if how == "special":
        odd = np.array([math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0])
        values = np.where(rng.random(shape) < 0.4, rng.choice(odd, shape), values)
    return ad.from_numpy(np.asarray(values, dtype=np.float64)).to(getattr(ad, dtype))


def in_order(row: list[Any], descending: bool) -> list[int]:
    """Positions, equal elements as they stand, NaN as the largest."""
    keys = [(x != x, 0 if x != x else x) for x in row]
    turned = [(not nan, -x) if descending else (nan, x) for nan, x in keys]
    return sorted(range(len(row)), key=turned.__getitem__)


def expected(x: ad.Tensor, dim: int, choose: Callable[[list[Any]], list[int]]) -> np.ndarray:
    """What plain Python chooses in each row."""
    rows = np.moveaxis(x.to(ad.float64).numpy(), dim, -1)
    chosen = [choose(row.tolist()) for row in rows.reshape(-1, rows.shape[-1])]
    return np.moveaxis(np.array(chosen).reshape(*rows.shape[:-1], -1), -1, dim)


def compiled(fn: Callable[[Any], Any], x: ad.Tensor) -> Any:
    """The result of one native program that calls nothing of the eager table."""
    step = ad.compile(fn)
    out = step(x)
    assert "0 calls of the eager table" in step.explain()
    return out


def check_positions(x: ad.Tensor, dim: int) -> None:
    """Sorting, and above what keeps PyTorch's order selection, as plain Python has it."""
    n = x.shape[dim]
    k = min(3, n)

    def several(x: Any) -> Any:
        sorts = [x.argsort(dim, descending=down, stable=True) for down in (False, True)]
        best = [x.topk(m, dim, largest=down).indices for m in (k, n) for down in (False, True)]
        middle = [x.median(dim).indices, x.nanmedian(dim).indices]
        return [*sorts, *middle, *best, x.kthvalue(n - n // 3, dim).indices]

    def median(row: list[Any], omit: bool) -> list[int]:
        order = in_order(row, False)
        there = sum(v == v for v in row)
        if there == len(row) or omit:
            return [order[max(there - 1, 0) // 2]]
        return [order[there]]

    got = [r.numpy() for r in compiled(several, x)]
    for g, down in zip(got[:2], (False, True), strict=True):
        np.testing.assert_array_equal(g, expected(x, dim, lambda row: in_order(row, down)))  # noqa: B023
    for g, omit in zip(got[2:4], (False, True), strict=True):
        want = expected(x, dim, lambda row: median(row, omit))  # noqa: B023
        np.testing.assert_array_equal(g, want.squeeze(dim))
    if x.numel() <= 1024:
        return
    ways = [(m, down) for m in (k, n) for down in (False, True)]
    for g, (m, down) in zip(got[4:8], ways, strict=True):
        want = expected(x, dim, lambda row: in_order(row, down)[:m])  # noqa: B023
        np.testing.assert_array_equal(g, want)
    want = expected(x, dim, lambda row: [in_order(row, False)[n - n // 3 - 1]])
    np.testing.assert_array_equal(got[8], want.squeeze(dim))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_order_is_that_of_plain_python(dtype: str) -> None:
    ways = ("different", "equal", "special") if dtype in FLOATS else ("different", "equal")
    for seed, shape in enumerate(SHAPES):
        x = drawn(dtype, shape, ways[seed % len(ways)], seed)
        check_positions(x, seed % len(shape))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_many_of_many_more_are_gathered(dtype: str) -> None:
    """Lines of which more are wanted than insertion is for, by how far their elements are in order:
    where most are better than those before, what is gathered is put in order again and again."""
    kinds = ("different", "equal", "special") if dtype in FLOATS else ("different", "equal")
    shapes = [((2100,), 0, 33), ((3, 900), 1, 112), ((700, 4), 0, 40), ((2, 1025), 1, 128)]
    for seed, (shape, dim, k) in enumerate(shapes):
        assert template.kernel_of_best(k, shape[dim]) is template.GatherKernel
        drawn_ones = [drawn(dtype, shape, kind, seed) for kind in kinds]
        rising = drawn_ones[0].sort(dim).values
        for x in (*drawn_ones, rising, rising.flip(dim), drawn_ones[0] * 0):
            for down in (False, True):
                best = x.topk(k, dim, largest=down)
                want = expected(x, dim, lambda row: in_order(row, down)[:k])  # noqa: B023
                np.testing.assert_array_equal(best.indices.numpy(), want)
                assert bool(ad.equal(best.values.isnan(), x.gather(dim, best.indices).isnan()))


def selections(x: Any, dim: int) -> list[Any]:
    """What leaves equal elements in an order of its own where there are few."""
    n = x.shape[dim]
    out = [x.argsort(dim, descending=down) for down in (False, True)]
    for k in sorted({1, min(3, n), (n + 1) // 2, n}):
        out.append(x.kthvalue(k, dim).indices)
        ways: tuple[dict[str, bool], ...] = ({}, {"largest": False}, {"sorted": False})
        out += [x.topk(k, dim, **flags).indices for flags in ways]
    return out


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_equal_elements_come_as_in_eager_execution(dtype: str) -> None:
    for seed, shape in enumerate([(3, 300), (17, 60), (1000,), (40, 24), (2, 3, 64), (5, 7), (2,)]):
        x = drawn(dtype, shape, "special" if dtype == "float32" and seed % 2 else "equal", seed)
        dim = seed % len(shape)
        with CONTEXT.having(reference=True):
            want = selections(x, dim)
        for k, (g, w) in enumerate(
            zip(compiled(lambda x: selections(x, dim), x), want, strict=True)  # noqa: B023
        ):
            np.testing.assert_array_equal(g.numpy(), w.numpy(), err_msg=f"{shape}, result {k}")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "uint8"])
def test_large_eager_order_is_the_table_s(dtype: str) -> None:
    """Fragments, also of operands that do not lie in rows."""
    base = drawn(dtype, (60, 70), "special" if dtype in FLOATS else "equal", 3)
    for x in (base, base.t(), base[::2], base.flip(0), base.reshape(4, 15, 70).transpose(0, 2)):

        def results(x: Any = x) -> list[Any]:
            pairs = [
                x.sort(0),
                x.topk(4, -1),
                x.kthvalue(5, 0),
                x.median(-1),
                x.sort(descending=True),
            ]
            rest = x.unique(return_inverse=True, return_counts=True)
            return [*(r for pair in pairs for r in pair), x.median(), x.nanmedian(), *rest]

        got = results()
        with CONTEXT.having(reference=True):
            want = results()
        for g, w in zip(got, want, strict=True):
            assert g.dtype is w.dtype
            assert g.stride() == w.stride()
            wide = (t.to(ad.float64).numpy() for t in (g, w))
            np.testing.assert_array_equal(*wide)


@pytest.mark.parametrize("seed", range(20))
def test_values_and_positions_of_one_fragment_are_those_of_the_table(seed: int) -> None:
    """Any shape, layout, dimension and number: the same positions, and the bits that lie there."""
    rng = np.random.default_rng(seed)
    dtype = [*FLOATS, *INTEGERS][seed % 9]
    shape = tuple(int(n) for n in rng.integers(9, 40, int(rng.integers(2, 4))))
    how = ["different", "equal", "special"][int(rng.integers(3 if dtype in FLOATS else 2))]
    x = drawn(dtype, shape, how, seed).permute(*[int(d) for d in rng.permutation(len(shape))])
    dim, down, stable = int(rng.integers(x.ndim)), *(bool(b) for b in rng.integers(2, size=2))
    k = int(rng.integers(0, x.shape[dim] + 1))

    def results() -> list[Any]:
        pairs = (x.sort(dim, down, stable), x.topk(k, dim, down, stable), x.topk(1, dim, down))
        return [result for pair in pairs for result in pair]

    actual = results()
    with CONTEXT.having(reference=True):
        expected = results()
    for mine, theirs in zip(actual, expected, strict=True):
        assert (mine.dtype, mine.stride()) == (theirs.dtype, theirs.stride())
        assert mine.contiguous().view(ad.uint8).tolist() == (
            theirs.contiguous().view(ad.uint8).tolist()
        )
    assert not any(result.requires_grad for result in actual)


def test_gradients_go_to_the_elements_that_were_chosen() -> None:
    x = drawn("float64", (40, 50), "different", 5).requires_grad_()
    weights = ad.arange(2000.0, dtype=ad.float64).reshape(40, 50)
    (x.sort(1).values * weights).sum().backward()
    ranks = np.argsort(np.argsort(x.detach().numpy(), axis=1), axis=1)
    np.testing.assert_array_equal(x.grad.numpy(), np.take_along_axis(weights.numpy(), ranks, 1))  # type: ignore[union-attr]


def test_sizes_of_one_program_may_change() -> None:
    """A plan made for dynamic sizes gives each size its own order of equals."""
    step = ad.compile(
        lambda x: (x.argsort(-1), x.topk(2).indices, x.median(0).indices), dynamic=True
    )
    for seed, shape in enumerate([(30, 70), (31, 80), (9, 20), (64, 200), (8, 17), (3, 400)]):
        x = drawn("float32", shape, "equal", seed)
        with CONTEXT.having(reference=True):
            want = (x.argsort(-1), x.topk(2).indices, x.median(0).indices)
        for g, w in zip(step(x), want, strict=True):
            np.testing.assert_array_equal(g.numpy(), w.numpy())


def test_a_validated_program_checks_its_order() -> None:
    step = ad.compile(lambda x: x.sort(0), options={"validate": True})
    x = drawn("float32", (70, 30), "special", 1)
    np.testing.assert_array_equal(step(x).values.numpy(), np.sort(x.numpy(), axis=0))


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_the_median_of_nothing_is_what_nan_is_in_its_dtype(dtype: str) -> None:
    x = ad.empty(0, 3, dtype=getattr(ad, dtype))
    want = ad.tensor(math.nan, dtype=ad.float64).to(x.dtype)
    for call in (lambda t: t.median(), lambda t: t.nanmedian()):
        for got in (call(x), ad.compile(call)(x)):
            assert got.dtype is want.dtype
            assert str(got.item()) == str(want.item())


@pytest.mark.parametrize("name", ["kthvalue", "topk"])
@pytest.mark.parametrize("k", [1.0, 1.5, "1", None])
def test_a_count_is_an_integer(name: str, k: Any) -> None:
    x = ad.tensor([[3.0, 1.0, 2.0]])
    for fn in (getattr(ad, name), ad.compile(getattr(ad, name))):
        with pytest.raises(TypeError, match=f"{name}.*'k' must be int, not {type(k).__name__}"):
            fn(x, k)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, "bool"])
@pytest.mark.parametrize("how", ["equal", "special"])
def test_the_largest_and_smallest_along_a_dimension(dtype: str, how: str) -> None:
    """The first of those that are equal; NaN is larger and smaller than all."""
    how = how if dtype in FLOATS else "equal"
    for seed, shape in enumerate([(5, 7), (40, 24), (2, 3, 9), (1, 1)]):
        for given in (drawn(dtype, shape, how, seed), drawn(dtype, shape, how, seed).mT):
            for dim in range(-given.ndim, given.ndim):
                values = given.to(ad.float64).numpy()
                for name, best in (("max", np.argmax), ("min", np.argmin)):
                    at = np.expand_dims(best(values, axis=dim), dim)
                    got = getattr(given, name)(dim, keepdim=True)
                    np.testing.assert_array_equal(got.indices.numpy(), at)
                    want = np.take_along_axis(values, at, dim)
                    np.testing.assert_array_equal(got.values.to(ad.float64).numpy(), want)
                    assert got.values.dtype is given.dtype
                    flat = getattr(given, name)(dim)
                    assert flat.indices.tolist() == at.squeeze(dim).tolist()
