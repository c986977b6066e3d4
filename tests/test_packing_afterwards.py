"""What `saved_tensors_hooks` are shown and give back (Note [packing afterwards]): against packing
as operations are put on the tape by Python."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.operations import dispatch

STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, y: x + y,
    "product": lambda x, y: x * y,
    "square": lambda x, y: x * x,
    "matrices": lambda x, y: x @ y.t(),
    "root": lambda x, y: (x * x + 1).sqrt(),
    "softmax": lambda x, y: x.softmax(-1) + y,
    "norm": lambda x, y: ad.nn.functional.layer_norm(x, (3,)) * y,
    "largest": lambda x, y: x.max(1).values[:, None] * y,
    "rows": lambda x, y: ad.cat([x[1:] * 2, y[:1]]),
    "written": lambda x, y: (x * 1.0).mul_(y).sin_(),
    "a part written": lambda x, y: part_written(x, y),
    "kept aside": lambda x, y: x.detach() * y,
    "twice": lambda x, y: x.exp() * x.exp(),
    "sorted": lambda x, y: x.sort(-1).values * y,
}


def part_written(x: Any, y: Any) -> Any:
    z = x * 1.0
    z[0] *= y[1]
    z[1] = 0.5
    return z


def outcome(seed: int, copies: bool) -> list[Any]:
    """What was packed, in order, what was unpacked, and the gradients."""
    chosen, rng = random.Random(seed), np.random.default_rng(seed)
    x, y = (ad.from_numpy(rng.standard_normal((3, 3))) for _ in "xy")
    x.requires_grad_()
    y.requires_grad_(chosen.random() < 0.5)
    told: list[Any] = []

    def pack(t: Any) -> Any:
        told.append(("packed", t.shape, t.tolist(), t.requires_grad))
        return t.numpy().copy() if copies else t

    def unpack(kept: Any) -> Any:
        told.append("unpacked")
        return ad.from_numpy(kept) if copies else kept

    a, b = x, y
    with ad.autograd.graph.saved_tensors_hooks(pack, unpack):
        for _ in range(6):
            a, b = STEPS[chosen.choice([*STEPS])](a, b), a
        loss = (a * b.cos()).sum() + (x * x).sum()
    told.append(type(loss.grad_fn))
    leaves = [z for z in (x, y) if z.requires_grad]
    first = ad.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
    total = sum((g * g).sum() for g in first if g is not None)
    if isinstance(total, ad.Tensor) and total.requires_grad:
        second = ad.autograd.grad(total, leaves, allow_unused=True)
    else:
        second = ()
    return [*told, *[None if g is None else g.detach().tolist() for g in (*first, *second)]]


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_hooks_see_what_they_saw(seed: int, copies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    got = outcome(seed, copies)
    monkeypatch.setattr(dispatch, "is_packed_alone", lambda record: False)
    assert got == outcome(seed, copies)


def test_nodes_from_before_are_left_alone() -> None:
    x = ad.ones(3, requires_grad=True)
    y = x.exp()
    packed: list[Any] = []
    with ad.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t), lambda _: ad.zeros(3)):
        z = y.contiguous() + y[:]
    assert not packed
    z.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(np.ones(3)), rtol=1e-6)


def test_an_error_leaves_the_hooks_on() -> None:
    x = ad.ones(3, requires_grad=True)
    packed: list[Any] = []
    with ad.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t), lambda t: t):
        with pytest.raises(RuntimeError):
            x * ad.ones(4)
        x * x
    assert len(packed) == 2
    x * x
    assert len(packed) == 2
