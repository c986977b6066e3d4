"""Operands that do not fit are refused, whatever their number and in compiled functions too.

A secondary operand (a bias, a weight, an index) never enlarges a result or decides its dtype
where PyTorch refuses it. `python -m tests.compare.operands` looks for such cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
import adjoint.nn.functional as F

ones = ad.ones
FEW, MANY = 2, 9000  # by NumPy, and as one program

# What is called, and a part of its error.
REFUSED: dict[str, tuple[Callable[[int], Any], str]] = {
    "a bias longer than one feature": (
        lambda n: F.linear(ones(n, 3), ones(1, 3), ones(3)),
        r"a bias \(3,\) does not fit",
    ),
    "a bias of more dimensions": (
        lambda n: F.linear(ones(n, 3), ones(4, 3), ones(2, 1, 4)),
        r"a bias \(2, 1, 4\) does not fit",
    ),
    "a bias of another dtype": (
        lambda n: F.linear(ones(n, 3), ones(4, 3), ones(4, dtype=ad.float64)),
        "input and bias must have the same dtype, but got float32 and float64",
    ),
    "a bias of integers": (
        lambda n: F.linear(ones(n, 3), ones(4, 3), ones(4, dtype=ad.int64)),
        "input and bias must have the same dtype, but got float32 and int64",
    ),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, count: int, compiled: bool) -> None:
    call, message = REFUSED[name]
    with pytest.raises((RuntimeError, TypeError, ValueError, IndexError), match=message):
        (ad.compile(call) if compiled else call)(count)


@pytest.mark.parametrize("shape", [(4,), (1,), (), (2, 4), (2, 1)])
def test_a_bias_that_fits(shape: tuple[int, ...]) -> None:
    x, weight, bias = ad.randn(2, 3), ad.randn(4, 3), ad.randn(shape)
    for linear in (F.linear, ad.compile(F.linear)):
        assert ad.allclose(linear(x, weight, bias), x @ weight.T + bias)
