"""Cases of tests as libraries write them: `testing._internal.common_utils`."""

# ruff: noqa: PT009  # its assertions are what is tested
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.testing._internal.common_utils import (
    TestCase,
    freeze_rng_state,
    instantiate_parametrized_tests,
    parametrize,
    subtest,
)

ones = ad.ones(2)
EQUAL = [
    (ones, ad.tensor([1.0, 1.0 + 1e-7])),
    (ones, [1.0, 1.0]),
    ([1, 1], ad.ones(2, dtype=ad.int64)),
    (ones, np.ones(2, np.float32)),
    (ad.tensor([2.0]), 2),
    (np.float32(2.0), 2.0),
    (float("nan"), float("nan")),
    ({"x": [ones, "a", None]}, {"x": (ones, "a", None)}),
    ({1, 2}, {2, 1}),
    (ad.float32, ad.float32),
    (ones.shape, (2,)),
]
UNEQUAL = [
    (ones, ad.tensor([1.0, 1.1])),
    (ones, ad.ones(3)),
    (ones, ad.ones(2, dtype=ad.float64)),
    (1.0, 1.001),
    ([1, 2], [1, 2, 3]),
    ({"x": 1}, {"y": 1}),
    (ones, None),
    ("a", "b"),
    (ad.float32, ad.float64),
]


@pytest.mark.parametrize(("x", "y"), EQUAL)
def test_what_is_equal(x: Any, y: Any) -> None:
    case = TestCase()
    case.assertEqual(x, y)
    with pytest.raises(AssertionError, match="equals"):
        case.assertNotEqual(x, y)


@pytest.mark.parametrize(("x", "y"), UNEQUAL)
def test_what_is_not(x: Any, y: Any) -> None:
    case = TestCase()
    case.assertNotEqual(x, y)
    with pytest.raises(AssertionError, match="of this test"):
        case.assertEqual(x, y, "of this test")


def test_tolerances_and_dtypes() -> None:
    case = TestCase()
    case.assertEqual(ones, ones + 0.01, atol=0.02)
    case.assertEqual(ones, ones + 0.01, rtol=0.02)
    case.assertEqual(ones, ones.double(), exact_dtype=False)
    case.precision = 0.02
    case.assertEqual(ones, ones + 0.01)


def test_a_test_for_each_of_some_values() -> None:
    seen = []

    class Cases(TestCase):
        @parametrize("dtype", [ad.float32, ad.int64])
        @parametrize("a,b", [(1, 2), subtest((3, 4), name="large")])
        def test_sum(self, dtype: Any, a: int, b: int) -> None:
            seen.append((dtype, a, b))

        def test_other(self) -> None:
            seen.append(ad.rand(2))

    instantiate_parametrized_tests(Cases)
    names = sorted(name for name in vars(Cases) if name.startswith("test_"))
    ends = [f"{t}_{e}" for t in ("float32", "int64") for e in ("a_1_b_2", "large")]
    assert names == ["test_other", *(f"test_sum_{end}" for end in ends)]
    for name in names[1:]:
        getattr(Cases(name), name)()
    assert seen == [(t, *v) for t in (ad.float32, ad.int64) for v in ((1, 2), (3, 4))]


def test_draws_are_drawn_again() -> None:
    with freeze_rng_state():
        first = ad.rand(3)
    assert ad.equal(first, ad.rand(3))
