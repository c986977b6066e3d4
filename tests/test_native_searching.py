"""Searches, histograms, choices and modes in compiled programs, without calls from Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.program import native

DTYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64"]


def some(rng: Any, dtype: str, *shape: int) -> Any:
    """Numbers of which many are equal; among floats also infinities and NaN."""
    array = rng.integers(-6, 7, shape).astype(dtype)
    if dtype.startswith("float"):
        array = np.where(rng.random(shape) < 0.1, np.inf, array)
        array = np.where(rng.random(shape) < 0.1, np.nan, array).astype(dtype)
    return array


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_places_are_eager_mode_s(dtype: str, right: bool, programs: list[native.Native]) -> None:
    rng = np.random.default_rng([len(dtype), right])
    search = lambda s, v: ad.searchsorted(s, v, right=right)
    compiled = ad.compile(search)
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((1,), (3,)), ((17,), (4, 5)), ((8,), ()), ((3, 9), (3, 4)), ((2, 2, 5), (2, 2, 1)),
    ]  # fmt: skip
    for one, other in shapes:
        sequence = ad.from_numpy(np.sort(some(rng, dtype, *one), axis=-1))
        values = ad.from_numpy(np.asarray(some(rng, dtype, *other)))
        want, got = search(sequence, values), compiled(sequence, values)
        assert got.dtype is want.dtype
        np.testing.assert_array_equal(got.numpy(), want.numpy())
    assert programs
    assert not any(program.calls_eager for program in programs)


def halved(sequence: Any, value: Any, right: bool) -> int:
    """The place that PyTorch's halving comes to, whatever the sequence."""
    low, high = 0, len(sequence)
    while low < high:
        middle = low + (high - low) // 2
        if sequence[middle] > value or (sequence[middle] == value and not right):
            high = middle
        else:
            low = middle + 1
    return low


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64"])
@pytest.mark.parametrize("length", [1, 7, 40, 5000])
def test_sequences_with_nans_and_without_order(dtype: str, length: int, right: bool) -> None:
    rng = np.random.default_rng([len(dtype), length])
    for sequence in (some(rng, dtype, length), np.sort(some(rng, dtype, length))):
        values = some(rng, dtype, 24)
        want = [halved(sequence, value, right) for value in values]
        search = lambda s, v: ad.searchsorted(s, v, right=right)
        for given in (ad.from_numpy(sequence), ad.from_numpy(np.repeat(sequence, 2))[::2]):
            assert search(given, ad.from_numpy(values)).tolist() == want
            assert search(given, ad.from_numpy(np.tile(values, 300))).tolist() == want * 300
        assert ad.compile(search)(ad.from_numpy(sequence), ad.from_numpy(values)).tolist() == want
        many = search(ad.from_numpy(sequence[None]), ad.from_numpy(values[None]))
        assert many.tolist() == [want]


def test_two_dtypes(programs: list[native.Native]) -> None:
    edges, x = ad.arange(7), ad.tensor([-1.0, 0.0, 2.5, 6.0, 9.0])
    want, got = ad.searchsorted(edges, x), ad.compile(ad.searchsorted)(edges, x)
    np.testing.assert_array_equal(got.numpy(), want.numpy())
    assert not any(program.calls_eager for program in programs)


def test_edges_that_lie_apart() -> None:
    edges, x = ad.arange(12.0).reshape(6, 2)[:, 0], ad.arange(20.0).reshape(4, 5).T
    want, got = ad.bucketize(x, edges), ad.compile(ad.bucketize)(x, edges)
    np.testing.assert_array_equal(got.numpy(), want.numpy())


# -- counts and choices ---------------------------------------------------------------------------


def chosen(x: Any, count: int, replacement: bool) -> Any:
    ad.manual_seed(5)
    return ad.multinomial(x.abs().nan_to_num(1, 1, 1) + 0.1, count, replacement)


def in_a_loop(x: Any) -> Any:
    """Of what was chosen the next choice is made."""
    ad.manual_seed(6)
    weights = x.abs().nan_to_num(1, 1, 1) + 0.1
    body = lambda at, row: ((at + ad.multinomial(row.roll(1), 1)[0]) % 5, at)
    return ad.scan(body, ad.tensor(0), weights)[1]


COUNTED: dict[str, Callable[[Any], Any]] = {
    "histc": lambda x: ad.histc(x, 7, -3, 3),
    "histc of its own range": lambda x: ad.histc(x.nan_to_num(0, 0, 0), 10),
    "histogram": lambda x: ad.histogram(x.nan_to_num(0, 0, 0), 6)[0],
    "weighed": lambda x: ad.histogram(
        x.reshape(-1), ad.arange(-4.0, 5.0).to(x.dtype), weight=x.reshape(-1).nan_to_num(1, 1, 1)
    )[0],
    "mode": lambda x: tuple(ad.mode(x, 1)),
    "mode of columns": lambda x: tuple(ad.mode(x, 0, keepdim=True)),
    "mode of whole numbers": lambda x: tuple(ad.mode(x.nan_to_num(0, 0, 0).to(ad.int32))),
    "choices": lambda x: chosen(x, 9, replacement=True),
    "choices without replacement": lambda x: chosen(x, min(3, x.shape[-1]), replacement=False),
    "choices in a loop": in_a_loop,
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", COUNTED)
def test_counts_and_choices_are_eager_mode_s(
    name: str, dtype: str, programs: list[native.Native]
) -> None:
    rng = np.random.default_rng(len(name))
    fn = COUNTED[name]
    for shape in [(6, 5), (int(rng.integers(1, 9)), int(rng.integers(1, 9)))]:
        x = ad.from_numpy(some(rng, dtype, *shape))
        want, got = fn(x), ad.compile(fn)(x)
        for one, other in zip(
            *[r if isinstance(r, tuple) else (r,) for r in (want, got)], strict=True
        ):
            assert one.dtype is other.dtype
            np.testing.assert_array_equal(one.numpy(), other.numpy())
    assert programs
    assert not any(program.calls_eager for program in programs)


@pytest.mark.parametrize("weights", [[1.0, -1.0], [1.0, np.nan], [np.inf, 1.0], [0.0, 0.0]])
def test_what_is_no_distribution_is_refused_as_ever(weights: list[float]) -> None:
    wrong = ad.tensor([[1.0, 2.0], weights])
    choose = ad.compile(lambda p: ad.multinomial(p, 1))
    choose(ad.ones(2, 2))
    with pytest.raises(RuntimeError) as eager:
        ad.multinomial(wrong, 1)
    with pytest.raises(RuntimeError) as told:
        choose(wrong)
    assert str(told.value) == str(eager.value)


def test_a_range_that_is_not_finite_is_refused() -> None:
    count = ad.compile(lambda x: ad.histc(x, 4))
    count(ad.arange(4.0))
    with pytest.raises(RuntimeError, match="not finite"):
        count(ad.tensor([0.0, np.inf]))
