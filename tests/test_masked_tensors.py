"""Masked tensors: what counts is computed with, what does not is left out."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint.masked import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

DATA = ad.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
MASK = ad.tensor([[True, False, True], [False, False, True]])


def made(requires_grad: bool = False) -> MaskedTensor:
    return masked_tensor(DATA, MASK, requires_grad)


# Name -> the function and what is expected, None where nothing counts.
FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "neg": (lambda x: -x, [[-1.0, None, -3.0], [None, None, 6.0]]),
    "radd": (lambda x: 1 + x, [[2.0, None, 4.0], [None, None, -5.0]]),
    "mul": (lambda x: x * x, [[1.0, None, 9.0], [None, None, 36.0]]),
    "row": (lambda x: x * ad.arange(3.0), [[0.0, None, 6.0], [None, None, -12.0]]),
    "add_": (lambda x: x.add_(1), [[2.0, None, 4.0], [None, None, -5.0]]),
    "compare": (lambda x: x > 0, [[True, None, True], [None, None, False]]),
    "isfinite": (
        lambda x: ad.isfinite(x / ad.tensor([1.0, 1.0, 0.0])),
        [[True, None, False], [None, None, False]],
    ),
    "isinf": (lambda x: (x / 0).isinf(), [[True, None, True], [None, None, True]]),
    "isreal": (lambda x: x.isreal(), [[True, None, True], [None, None, True]]),
    "isclose": (
        lambda x: ad.isclose(x, x + ad.tensor([0.1, 0.0, 0.3]), atol=0.2, rtol=0.0),
        [[True, None, False], [None, None, False]],
    ),
    "copy_": (lambda x: x.clone().copy_(x * 2), [[2.0, None, 6.0], [None, None, -12.0]]),
    "sum": (lambda x: x.sum(), -2.0),
    "sum rows": (lambda x: x.sum(1), [4.0, -6.0]),
    "sum columns": (lambda x: x.sum(dim=0, keepdim=True), [[1.0, None, -3.0]]),
    "mean": (lambda x: x.mean(1), [2.0, -6.0]),
    "amax": (lambda x: x.amax(), 3.0),
    "prod": (lambda x: x.prod(0), [1.0, None, -18.0]),
    "all": (lambda x: (x > 0).all(1), [True, False]),
    "transpose": (lambda x: x.t(), [[1.0, None], [None, None], [3.0, -6.0]]),
    "index": (lambda x: x[0, 1:], [None, 3.0]),
    "cat": (lambda x: ad.cat([x, x], 1)[1], [None, None, -6.0, None, None, -6.0]),
    "where": (
        lambda x: ad.where(DATA > 0, x, ad.zeros(2, 3)),
        [[1.0, 0.0, 3.0], [None, None, 0.0]],
    ),
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions(name: str) -> None:
    function, want = FUNCTIONS[name]
    got = function(made())
    assert is_masked_tensor(got)
    assert got.tolist() == want


def test_gradients_have_the_mask() -> None:
    x = made(requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [[2.0, None, 6.0], [None, None, -12.0]]
    plain = DATA.clone().requires_grad_()
    as_masked_tensor(plain, MASK).mean().backward()
    ad.testing.assert_close(plain.grad, MASK / 3)


def test_what_does_not_count_does_not_spoil_gradients() -> None:
    x = masked_tensor(ad.tensor([4.0, 0.0]), ad.tensor([True, False]), requires_grad=True)
    x.sqrt().sum().backward()
    assert x.grad.tolist() == [0.25, None]


def test_a_copy_is_written_where_the_data_are() -> None:
    plain = ad.zeros(2, 3, dtype=ad.float64)
    target = as_masked_tensor(plain, MASK)
    assert target.copy_(made()) is target
    assert target.dtype is ad.float64
    ad.testing.assert_close(plain, DATA.double())
    assert target.copy_(ad.arange(3.0)).tolist() == [[0.0, None, 2.0], [None, None, 2.0]]


def test_text_and_values() -> None:
    assert repr(made()[0]) == "MaskedTensor(\n  [  1.0000,       --,   3.0000]\n)"
    assert repr(made().sum()) == "MaskedTensor( -2.0000, True)"
    assert made().to_tensor(9).tolist() == [[1.0, 9.0, 3.0], [9.0, 9.0, -6.0]]
    assert ad.equal(made().get_data(), DATA)
    assert ad.equal(made().get_mask(), MASK)


def test_refusals() -> None:
    cases: list[tuple[Any, type[Exception]]] = [
        (lambda: masked_tensor([1.0], MASK), TypeError),
        (lambda: masked_tensor(DATA, DATA), TypeError),
        (lambda: masked_tensor(DATA, MASK[0]), ValueError),
        (lambda: made() + masked_tensor(DATA, ~MASK), ValueError),
        (lambda: made().copy_(masked_tensor(DATA, ~MASK)), ValueError),
        (lambda: DATA.clone().copy_(made()), RuntimeError),
        (lambda: ad.isclose(made(), masked_tensor(DATA, ~MASK)), ValueError),
        (lambda: made().sort(), NotImplementedError),
        (lambda: made()[0, 1].item(), ValueError),
    ]
    for bad, error in cases:
        with pytest.raises(error):
            bad()
