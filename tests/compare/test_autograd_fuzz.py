"""Random programs of views, writes, detachments and modes: the same gradients as PyTorch's."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import adjoint

torch: Any = pytest.importorskip("torch")
pytestmark = [pytest.mark.compare, pytest.mark.filterwarnings("ignore")]

VIEWS: list[Any] = [
    lambda a: a[0] if a.ndim > 1 else a[1:],
    lambda a: a[..., 1:] if a.shape[-1] > 1 else a[...],
    lambda a: a.t() if a.ndim == 2 else a.unsqueeze(0),
    lambda a: a.reshape(-1),
    lambda a: a.unsqueeze(-1).expand(*a.shape, 2),
    lambda a: a[..., ::2],
    lambda a: a.view_as(a),
    lambda a: a.squeeze(),
    lambda a: a.diagonal() if a.ndim == 2 else a[:1],
    lambda a: a.narrow(0, 0, 1) if a.ndim else a.view(1),
]
FRESH: list[Any] = [
    lambda a, b: a * b.sum(),
    lambda a, b: a.sin() + b.mean(),
    lambda a, b: a.exp() * 0.1,
    lambda a, b: a.clone(),
    lambda a, b: a.softmax(-1) if a.ndim else a * 2,
    lambda a, b: a / (1 + b.pow(2).sum()),
    lambda a, b: a + a.mean(),
    lambda a, b: a.where(a > 0.0123, b.sum() * a),
]
WRITES: list[Any] = [
    lambda a, b: a.mul_(2.0),
    lambda a, b: a.add_(b.sum()),
    lambda a, b: a.mul_(b.mean()),
    lambda a, b: a.sin_(),
    lambda a, b: a.zero_() if 0 not in a.stride() else a.sin(),
    lambda a, b: a.copy_(b.sum().expand(a.shape)),
    lambda a, b: a.fill_(0.5) if 0 not in a.stride() else a.sin(),
    lambda a, b: a.__setitem__(0, b.sum()) if a.ndim else a.add_(1),
    lambda a, b: a.__setitem__((..., slice(None, 1)), b.mean()) if a.ndim else a.mul_(3),
    lambda a, b: a.div_(2).sub_(0.1),
    lambda a, b: a.masked_fill_(a > 0.3123, 0.2) if 0 not in a.stride() else a.sin(),
]


def run(lib: Any, seed: int) -> Any:
    """A program's result and gradients; the choices depend on the seed alone."""
    rng = random.Random(seed)
    leaves = [
        lib.tensor(np.linspace(0.1, 0.9, 6).reshape(2, 3).tolist(), dtype=lib.float64),
        lib.tensor([0.3, -0.2, 0.7], dtype=lib.float64),
    ]
    for x in leaves:
        x.requires_grad_()
    pool = [leaves[0] * 1, leaves[1] * 1, lib.zeros(2, 3, dtype=lib.float64)]
    plain = True
    for _ in range(rng.randint(3, 14)):
        kind = rng.choice("vvvfffwwwwdn")
        a, b = rng.choice(pool), rng.choice(pool)
        if kind == "v":
            pool.append(rng.choice(VIEWS)(a))
        elif kind == "f":
            pool.append(rng.choice(FRESH)(a, b))
        elif kind == "w":
            rng.choice(WRITES)(a, b)
        elif kind == "d":
            pool.append(a.detach())
        else:
            with lib.no_grad():
                choice = rng.randrange(2)
                if choice:
                    # PyTorch says of such a view that it requires grad, though none flows.
                    plain = False
                    pool.append(rng.choice(VIEWS)(a))
                else:
                    rng.choice(WRITES)(a, b)
    total = sum((p * p).sum() for p in pool)
    flags = [p.requires_grad for p in pool] if plain else []
    if not total.requires_grad:
        return [[p.detach().numpy() for p in pool], flags, []]
    grads = lib.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
    second = [None] * len(leaves)
    live = [g.sum() for g in grads if g is not None and g.requires_grad]
    if live:
        second = lib.autograd.grad(sum(live), leaves, allow_unused=True)
    found = [None if g is None else g.detach().numpy() for g in (*grads, *second)]
    return [[p.detach().numpy() for p in pool], flags, found]


@pytest.mark.parametrize("block", range(4))
def test_random_programs(block: int) -> None:
    compared = 0
    for seed in range(block * 250, block * 250 + 250):
        try:
            theirs = run(torch, seed)
        except (RuntimeError, IndexError, ValueError):
            continue  # Adjoint may know more: an in-place result kept apart from what was saved
        ours = run(adjoint, seed)
        compared += 1
        assert ours[1] == theirs[1], f"seed {seed}: requires_grad"
        for a, b in zip(ours[0] + ours[2], theirs[0] + theirs[2], strict=True):
            if (a is None) != (b is None):  # a structural zero on one side only
                other = b if a is None else a
                assert not np.any(other), f"seed {seed}: {other} against None"
                continue
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9, err_msg=f"seed {seed}")
    assert compared > 50
