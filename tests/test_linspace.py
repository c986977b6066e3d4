"""Evenly spaced doubles are rounded once, as PyTorch's are."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjoint as ad

ENDS = st.integers(-(10**9), 10**9).map(lambda whole: whole / 1000)


def exactly(start: float, end: float, count: int) -> list[float]:
    """Multiples of the step from the nearer end, by fractions."""
    step = Fraction((end - start) / (count - 1))
    rising = [Fraction(start) + step * place for place in range(count // 2)]
    falling = [Fraction(end) - step * (count - 1 - place) for place in range(count // 2, count)]
    return [float(number) for number in rising + falling]


@given(ENDS, ENDS, st.integers(2, 200))
def test_doubles_between_two_ends_are_rounded_once(start: float, end: float, count: int) -> None:
    spaced = ad.linspace(start, end, count, dtype=ad.float64)
    assert spaced.tolist() == exactly(start, end, count)


def test_ends_too_large_to_split_are_kept() -> None:
    assert ad.linspace(0, 1e308, 3, dtype=ad.float64).tolist() == [0.0, 5e307, 1e308]


def test_one_whole_number_is_the_power_itself() -> None:
    for start in (-0.5, 0.5, 1.5, 2.0):
        for base in (2.0, 3.0, 10.0):
            assert ad.logspace(start, 9, 1, base, dtype=ad.int64).tolist() == [int(base**start)]


@pytest.mark.parametrize("make", [ad.linspace, ad.logspace])
@pytest.mark.parametrize(
    ("dtype", "end"),
    [
        (ad.uint8, 256),
        (ad.uint8, -256),
        (ad.uint8, -1.5),
        (ad.int8, 128),
        (ad.int8, -129),
        (ad.int16, 1e5),
        (ad.int32, 2**31),
        (ad.int64, 1e19),
        (ad.int64, float("nan")),
        (ad.int32, float("inf")),
        (ad.float16, 7e4),
        (ad.float32, 1e39),
        (ad.complex64, 1e39j),
    ],
    ids=str,
)
def test_ends_without_room_in_the_dtype_are_refused(
    make: Callable[..., Any], dtype: ad.dtype, end: complex
) -> None:
    for ends in ((0, end), (end, 0)):
        for steps in (2, 5):
            with pytest.raises(RuntimeError, match="without overflow"):
                make(*ends, steps, dtype=dtype)
        assert make(*ends, 0, dtype=dtype).tolist() == []
    assert make(0, end, 1, dtype=dtype).tolist() == [float(make is ad.logspace)]


def test_negative_ends_of_unsigned_numbers_count_from_the_top() -> None:
    assert ad.linspace(-1, 3, 5, dtype=ad.uint8).tolist() == [255, 192, 129, 66, 3]


def test_truths_are_not_spaced() -> None:
    with pytest.raises(NotImplementedError, match="not implemented for bool"):
        ad.linspace(0, 1, 3, dtype=ad.bool)
