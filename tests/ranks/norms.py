"""Norms, limits and scales of gradients that processes have parts of, beside one process."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest

import adjoint as ad
import adjoint.distributed as dist
from adjoint import nn
from adjoint.distributed.fsdp import fully_shard
from adjoint.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from adjoint.distributed.tensor.placement import _StridedShard
from adjoint.nn.utils import clip_grad_norm_, get_total_norm
from tests.ranks.checks import same


def line() -> Any:
    return dist.init_device_mesh("cpu", (dist.get_world_size(),))


def check_norms_of_several(rank: int, size: int) -> None:
    """Small tensors, which could share a vector, of all placements, beside whole ones."""
    wholes = [ad.arange(6.0).view(3, 2), ad.ones(5) * 3, ad.full((1,), -4.0), ad.ones(2, 2)]
    sums = DTensor.from_local(wholes[2] / size, line(), [Partial()])
    parts = [
        distribute_tensor(wholes[0], line(), [Shard(1)]),
        distribute_tensor(wholes[1], line(), [Shard(0)]),
        sums,
        distribute_tensor(wholes[3], line(), [Replicate()]),
    ]
    for order, foreach in itertools.product((0.5, 1.0, 2.0, 3.0, float("inf")), (None, False)):
        for count in range(1, 5):
            wanted = get_total_norm(wholes[:count], order, foreach=foreach)
            got: Any = get_total_norm(parts[:count], order, foreach=foreach)
            same(wanted, got.full_tensor(), 1e-5)
            mixed: Any = get_total_norm([*wholes[:count], *parts], order, foreach=foreach)
            wanted = get_total_norm([*wholes[:count], *wholes], order, foreach=foreach)
            same(wanted, mixed.full_tensor(), 1e-5)
    with pytest.raises(NotImplementedError, match="positive order"):
        get_total_norm(parts, 0.0)
    with pytest.raises(RuntimeError, match="non-finite"):
        get_total_norm([parts[0] / 0], error_if_nonfinite=True)


def check_norms_of_halves(rank: int, size: int) -> None:
    """A norm that a half can hold, whose powers it cannot."""
    for scale, order in itertools.product((300.0, 1e-4), (2.0, 3.0)):
        whole = nn.Parameter(ad.ones(6, 2, dtype=ad.float16))
        part: Any = distribute_tensor(whole.detach(), line(), [Shard(0)]).requires_grad_()
        for p in (whole, part):
            p.grad = ad.full_like(p.detach(), scale)
        wanted, got = (clip_grad_norm_([p], scale, order) for p in (whole, part))
        assert 0 < wanted < float("inf")
        same(wanted, got.full_tensor(), 1e-2)
        same(whole.grad, part.grad.full_tensor(), 1e-2)


def check_scaled_losses(rank: int, size: int) -> None:
    """A gradient that is not finite on one process only keeps all from stepping."""
    ad.manual_seed(4)
    alone = nn.Sequential(nn.Linear(3, 2 * size), nn.Tanh(), nn.Linear(2 * size, 2))
    model = fully_shard(copy.deepcopy(alone))
    nets = (alone, model)
    scalers = [ad.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2) for _ in nets]
    optimizers = [ad.optim.SGD(net.parameters(), lr=0.1) for net in nets]
    rows = [None, 0, 2 * size - 1, None, None, 1, None]  # whose gradient is spoiled, if any
    for at in rows:
        x = ad.randn(4, 3)
        for net, scaler, optimizer in zip(nets, scalers, optimizers, strict=True):
            optimizer.zero_grad()
            scaler.scale((net(x) ** 2).sum()).backward()
            if at is not None:
                spoil = ad.ones(2 * size, 3)
                spoil[at, 0] = float("inf")
                grad = net[0].weight.grad
                if isinstance(grad, DTensor):
                    spoil = distribute_tensor(spoil, grad.device_mesh, grad.placements)
                grad.mul_(spoil)
            scaler.step(optimizer)
            scaler.update()
        assert scalers[0].get_scale() == scalers[1].get_scale()
        for p, q in zip(*(net.parameters() for net in nets), strict=True):
            same(p, q.full_tensor(), 1e-5)


def check_lists_of_parts(rank: int, size: int) -> None:
    """PyTorch's functions on lists, of parts whose shapes agree and whose places do not."""
    grid = dist.init_device_mesh("cpu", (size // 2, 2))
    strided = [_StridedShard(0, split_factor=2), Shard(0)]
    layouts: list[Any] = [
        *([Shard(0), Shard(1)], [Shard(1), Shard(0)], strided, [Shard(0), Shard(0)]),
        [Replicate(), Shard(0)],
    ]
    x, y = ad.arange(64.0).view(8, 8), ad.arange(64.0).view(8, 8).sin()
    for a, b in itertools.product(layouts, layouts):
        for name, given in (("_foreach_add_", y), ("_foreach_copy_", y), ("_foreach_mul_", 2.0)):
            wholes = [x.clone(), x[:4].clone(), x.clone()]
            parts: Any = [distribute_tensor(w, grid, a) for w in wholes]
            alike: Any = [given] * 3
            if given is y:
                alike = [y, y[:4], y]
            placed = [distribute_tensor(t, grid, b) if given is y else t for t in alike]
            getattr(ad, name)(wholes, alike)
            getattr(ad, name)(parts, placed)
            for wanted, part in zip(wholes, parts, strict=True):
                same(wanted, part.full_tensor(), 1e-6)
        for name in ("_foreach_abs", "_foreach_exp", "_foreach_norm"):
            parts = [distribute_tensor(w, grid, a) for w in (y, y[:4])]
            got = getattr(ad, name)(parts)
            for wanted, part in zip(getattr(ad, name)([y, y[:4]]), got, strict=True):
                same(wanted, part.full_tensor(), 1e-6)
