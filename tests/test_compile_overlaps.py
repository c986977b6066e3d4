"""Tensors that overlap in memory without sharing a storage: written in place, they are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

Pair = tuple[Any, Any]


def _array() -> Any:
    return np.zeros(8, np.float32)


def _slices() -> Pair:
    a = _array()
    return ad.from_numpy(a[:6]), ad.from_numpy(a[2:])


def _whole_and_slice() -> Pair:
    a = _array()
    return ad.from_numpy(a), ad.from_numpy(a[2:])


def _capsule() -> Pair:
    a = _array()
    return ad.from_numpy(a), ad.from_dlpack(a)


def _back_from_numpy() -> Pair:
    t = ad.zeros(8)
    return t, ad.from_numpy(t.numpy())


def _bytes() -> Pair:
    memory = bytearray(32)
    return tuple(ad.frombuffer(memory, dtype=ad.float32, offset=k) for k in (0, 4))  # type: ignore[return-value]


def _interleaved() -> Pair:
    a = _array()
    return ad.from_numpy(a[::2]), ad.from_numpy(a[1::2])


def _beside() -> Pair:
    a = _array()
    return ad.from_numpy(a[:4]), ad.from_numpy(a[4:])


def _one_array() -> Pair:
    a = _array()
    return ad.from_numpy(a), ad.from_numpy(a)


OVERLAPPING = [_slices, _whole_and_slice, _capsule, _back_from_numpy, _bytes]
FINE = [_interleaved, _beside, _one_array]


def _both_given(x: Any, y: Any, wrap: Any) -> Any:
    step = wrap(lambda x, y: (x.add_(1), y * 1)[1])
    step(x.clone(), y.clone())  # recorded for tensors that are apart
    return step(x, y)


def _state_written(x: Any, y: Any, wrap: Any) -> Any:
    step = wrap(lambda y: (x.add_(1), y * 1)[1])
    step(y.clone())
    return step(y)


def _argument_written(x: Any, y: Any, wrap: Any) -> Any:
    step = wrap(lambda x: (x.add_(1), y * 1)[1])
    step(x.clone())
    return step(x)


def _both_reached(x: Any, y: Any, wrap: Any) -> Any:
    return wrap(lambda: (x.add_(1), y * 1)[1])()


WAYS = [_both_given, _state_written, _argument_written, _both_reached]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", OVERLAPPING)
def test_a_write_that_would_not_be_seen_is_refused(
    make: Callable[[], Pair], way: Callable[..., Any]
) -> None:
    x, y = make()
    with pytest.raises(RuntimeError, match="overlaps in memory"):
        way(x, y, ad.compile)
    once = 1.0 if way is _state_written else 0.0  # the call with a clone
    assert x.tolist() == [once] * len(x)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", FINE)
def test_neighbours_and_tensors_of_one_array_are_as_in_eager_execution(
    make: Callable[[], Pair], way: Callable[..., Any]
) -> None:
    eager, native = make(), make()
    assert ad.equal(way(*native, ad.compile), way(*eager, lambda f: f))
    assert all(ad.equal(a, b) for a, b in zip(native, eager, strict=True))


def test_reading_overlapping_tensors_is_fine() -> None:
    w = ad.ones(3)
    a = np.arange(6, dtype=np.float32)

    @ad.compile
    def step(x: Any, y: Any) -> Any:
        w.add_(1)
        return (x * y * w).sum()

    for k in range(3):  # next-token pairs of a text
        found = step(ad.from_numpy(a[k : k + 3]), ad.from_numpy(a[k + 1 : k + 4]))
        assert float(found) == (a[k : k + 3] * a[k + 1 : k + 4]).sum() * (k + 2)
