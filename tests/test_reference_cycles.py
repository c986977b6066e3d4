"""What a step leaves behind goes at once, without Python's search for objects that hold one another."""

from __future__ import annotations

import gc
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import adjoint as ad
from adjoint.utils._pytree import tree_flatten_with_path
from adjoint.utils.checkpoint import checkpoint

W = ad.tensor([[0.5, -1.0, 0.25], [1.5, 0.75, -0.5], [0.0, 2.0, 1.0]])
X = ad.tensor([1.0, -2.0, 0.5])
MODEL = ad.nn.Sequential(ad.nn.Linear(3, 4), ad.nn.ReLU(), ad.nn.Linear(4, 2))
PARAMETERS = dict(MODEL.named_parameters())
OPTIMIZER = ad.optim.Adam(MODEL.parameters())


def _vector(x: ad.Tensor) -> ad.Tensor:
    return ad.tanh(W @ x) * x


def _number(x: ad.Tensor) -> ad.Tensor:
    return _vector(x).sum()


def _loss(parameters: dict[str, ad.Tensor], x: ad.Tensor) -> ad.Tensor:
    return ad.func.functional_call(MODEL, parameters, (x,)).pow(2).sum()


def _trained() -> None:
    OPTIMIZER.zero_grad()
    MODEL(W).pow(2).mean().backward()
    OPTIMIZER.step()


def _penalty() -> None:
    x = W.clone().requires_grad_()
    (slope,) = ad.autograd.grad(MODEL(x).sum(), x, create_graph=True)
    slope.norm(dim=1).sub(1).pow(2).mean().backward()


def _written() -> None:
    x = X.clone().requires_grad_()
    y = x.clone()
    window = y[1:]
    window.mul_(3)
    y[0].exp_()
    (y[1:] * window).sum().backward()


def _hooked() -> None:
    x = X.clone().requires_grad_()
    y = x * 2
    y.register_hook(lambda g: g * 2)
    y.retain_grad()
    x.register_post_accumulate_grad_hook(lambda t: None)
    y.sum().backward()


def _loaded() -> None:
    file = io.BytesIO()
    ad.save(MODEL.state_dict(), file)
    file.seek(0)
    ad.load(file)


STEPS: dict[str, Callable[[], Any]] = {
    "grad": lambda: ad.func.grad(_number)(X),
    "vmap": lambda: ad.func.vmap(_vector)(W),
    "jvp": lambda: ad.func.jvp(_vector, (X,), (X,)),
    "vjp": lambda: ad.func.vjp(_vector, X)[1](X),
    "jacrev": lambda: ad.func.jacrev(_vector)(X),
    "jacfwd": lambda: ad.func.jacfwd(_vector)(X),
    "hessian": lambda: ad.func.hessian(_number)(X),
    "gradients of samples": lambda: ad.func.vmap(ad.func.grad(_loss), (None, 0))(PARAMETERS, W),
    "functional.hessian": lambda: ad.autograd.functional.hessian(_number, X),
    "training": _trained,
    "second derivatives": _penalty,
    "checkpoint": lambda: checkpoint(MODEL, W, use_reentrant=False).sum().backward(),
    "writes to views": _written,
    "hooks": _hooked,
    "multi_dot": lambda: ad.linalg.multi_dot([W, W, W, X]),
    "trees with paths": lambda: tree_flatten_with_path({"a": (X, [W])}),
    "load": _loaded,
}


@pytest.fixture(scope="module")
def collecting_by_hand() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    gc.collect()
    gc.freeze()  # what was there before is not looked at, here and later: it would take long
    yield
    if enabled:
        gc.enable()


@pytest.mark.usefixtures("collecting_by_hand")
@pytest.mark.parametrize("name", STEPS)
def test_steps_leave_no_cycles(name: str) -> None:
    # The first calls make programs, whose graphs are cycles; how many do is not asked here.
    def left() -> int:
        STEPS[name]()
        return gc.collect()

    assert any(left() == 0 for _ in range(60))
