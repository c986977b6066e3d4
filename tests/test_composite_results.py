"""Results of operations that end in a view of their own memory are written to as any others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

F = ad.nn.functional
MADE: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
    "dot": ((4,), lambda x: ad.dot(x, x)),
    "vectors": ((4,), lambda x: x @ x),
    "inner": ((4,), lambda x: ad.inner(x, x)),
    "tensordot": ((4,), lambda x: ad.tensordot(x, x, 1)),
    "group_norm": ((1, 4, 3, 3), lambda x: F.group_norm(x, 2)),
    "pixel_shuffle": ((1, 4, 2, 2), lambda x: F.pixel_shuffle(x, 2)),
    "addmm": ((4, 4), lambda x: ad.addmm(x[0], x, x)),
    "linear": ((2, 3, 4), lambda x: F.linear(x, x[0])),
}
WRITES: dict[str, Callable[[Any], Any]] = {
    "mul": lambda y: y.mul_(3),
    "relu": lambda y: y.relu_(),
    "part": lambda y: y.view(-1)[:1].mul_(2),
    "unsqueeze": lambda y: y.unsqueeze_(0),
}
INSTEAD: dict[str, Callable[[Any], Any]] = {
    "mul": lambda y: y * 3,
    "relu": lambda y: y.relu(),
    "part": lambda y: ad.cat([y.reshape(-1)[:1] * 2, y.reshape(-1)[1:]]).reshape(y.shape),
    "unsqueeze": lambda y: y.unsqueeze(0),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("made", MADE)
def test_writes_to_results(made: str, write: str) -> None:
    shape, make = MADE[made]
    values = np.random.default_rng(3).standard_normal(shape)
    for _ in range(5):  # native code takes over
        x, z = (ad.from_numpy(values.copy()).requires_grad_() for _ in range(2))
        y = make(x)
        WRITES[write](y)
        other = INSTEAD[write](make(z))
        y.sin().sum().backward()
        other.sin().sum().backward()
        np.testing.assert_allclose(y.detach().numpy(), other.detach().numpy(), rtol=1e-12)
        assert x.grad is not None
        assert z.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), z.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_a_layer_in_place_after_group_norm() -> None:
    model = ad.nn.Sequential(ad.nn.GroupNorm(2, 4), ad.nn.ReLU(inplace=True))
    x = ad.randn(2, 4, 3, 3, requires_grad=True)
    for _ in range(5):
        model(x).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
