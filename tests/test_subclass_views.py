"""`as_subclass` of a leaf is a view of it: gradients by the leaf pass through it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import adjoint as ad


class Labelled(ad.Tensor):
    """A class of the user's."""


def squares(x: Any) -> Any:
    return (x.as_subclass(Labelled) ** 2).as_subclass(ad.Tensor)


def test_gradients_by_a_leaf() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = x.as_subclass(Labelled)
    assert type(y) is Labelled
    assert y.requires_grad
    assert not y.is_leaf
    assert y.data_ptr() == x.data_ptr()
    (grad,) = ad.autograd.grad((y**2).sum(), x)
    assert grad.tolist() == [2, 4]
    squares(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2, 4]


@pytest.mark.parametrize("transform", ["jacrev", "jacfwd", "jacobian", "compiled"])
def test_jacobians(transform: str) -> None:
    take: dict[str, Any] = {
        "jacrev": lambda x: ad.func.jacrev(squares)(x),
        "jacfwd": lambda x: ad.func.jacfwd(squares)(x),
        "jacobian": lambda x: ad.autograd.functional.jacobian(squares, x),
        "compiled": ad.compile(lambda x: ad.func.jacrev(squares)(x)),
    }
    assert take[transform](ad.tensor([1.0, 2.0])).tolist() == [[2, 0], [0, 4]]


def test_grad_of_one_and_of_many() -> None:
    x = ad.tensor([1.0, 2.0])
    grad = ad.func.grad(lambda p: squares(p).sum())
    assert grad(x).tolist() == [2, 4]
    assert ad.func.vmap(grad)(x[:, None]).tolist() == [[2], [4]]


def test_a_leaf_without_a_tape_and_copies_stay_leaves() -> None:
    x = ad.ones(2, requires_grad=True)
    with ad.no_grad():
        y = x.as_subclass(Labelled)
    assert y.is_leaf
    leaf = ad.ones(2).as_subclass(Labelled).requires_grad_()
    for again in (copy.copy(leaf), copy.deepcopy(leaf)):
        assert type(again) is Labelled
        assert again.is_leaf
        assert again.requires_grad
