"""`testing.assert_close` and `make_tensor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.testing import assert_allclose, assert_close, make_tensor

SAME: list[tuple[Any, Any]] = [
    (ad.ones(3), ad.ones(3) + 1e-7),
    (1.0, 1.0 + 1e-9),
    ([ad.ones(2), {"a": 3}], [ad.ones(2), {"a": 3}]),
    (np.arange(3), np.arange(3)),
    (ad.tensor([1 + 2j]), ad.tensor([1 + 2j])),
    (ad.tensor([float("inf")]), ad.tensor([float("inf")])),
    (None, None),
]
APART: list[tuple[Any, Any, str]] = [
    (ad.ones(3), ad.ones(2), "'shape' do not match"),
    (ad.ones(3), ad.ones(3).double(), "'dtype' do not match"),
    (ad.tensor([1, 2]), ad.tensor([1, 3]), "Tensor-likes are not equal"),
    (ad.tensor([0.0, 2.0]), ad.tensor([0.0, 1.0]), r"Mismatched elements: 1 / 2 \(50.0%\)"),
    (1.0, 2.0, "Scalars are not close"),
    ([1.0], [1.0, 2.0], "length of the sequences mismatch: 1 != 2"),
    ({"a": 1}, {"b": 1}, "keys of the mappings do not match"),
    ([ad.ones(1), ad.zeros(1)], [ad.ones(1), ad.ones(1)], r"for item \[1\]"),
    (ad.tensor([float("nan")]), ad.tensor([float("nan")]), "not close"),
    (ad.tensor([float("inf")]), ad.tensor([1.0]), "Greatest absolute difference: inf"),
]


@pytest.mark.parametrize(("actual", "expected"), SAME)
def test_close_values_pass(actual: Any, expected: Any) -> None:
    assert_close(actual, expected)


@pytest.mark.parametrize(("actual", "expected", "message"), APART)
def test_others_say_what_differs(actual: Any, expected: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_close(actual, expected)


def test_options() -> None:
    assert_close(ad.ones(1), ad.ones(1).double(), check_dtype=False)
    assert_close(ad.tensor([float("nan")]), ad.tensor([float("nan")]), equal_nan=True)
    assert_close(ad.ones(1), ad.ones(1) * 1.1, rtol=0.2, atol=0.0)
    assert_allclose(ad.ones(1), np.ones(1))
    with pytest.raises(ValueError, match="rtol is given but atol is not"):
        assert_close(ad.ones(1), ad.ones(1), rtol=0.1)
    with pytest.raises(AssertionError, match="^mine$"):
        assert_close(ad.ones(1), ad.zeros(1), msg="mine")
    with pytest.raises(TypeError, match="no comparison"):
        assert_close(ad.ones(1), np.ones(1))


@pytest.mark.parametrize(
    "dtype", [ad.float32, ad.bfloat16, ad.int64, ad.uint8, ad.bool, ad.complex64]
)
def test_made_tensors(dtype: Any) -> None:
    x = make_tensor((3, 4), dtype=dtype, noncontiguous=True)
    assert x.shape == (3, 4)
    assert x.dtype is dtype
    assert not x.is_contiguous()


def test_bounds_hold() -> None:
    x = make_tensor(1000, dtype=ad.int64, low=2, high=4)
    assert set(x.tolist()) == {2, 3}
    with pytest.raises(ValueError, match="low must not be above high"):
        make_tensor(1, dtype=ad.float32, low=2, high=1)


def test_zero_can_be_excluded() -> None:
    make: Callable[..., Any] = make_tensor
    assert not (make(50, dtype=ad.int64, low=0, high=2, exclude_zero=True) == 0).any()
