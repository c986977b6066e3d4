"""Evenly spaced doubles are rounded once, as PyTorch's are."""

from __future__ import annotations

from fractions import Fraction

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
