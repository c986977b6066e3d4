"""Sharded units: hooks around them, ties between them, and what is done to their parameters."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import adjoint as ad
import adjoint.distributed as dist
from adjoint import nn
from adjoint.autograd.graph import save_on_cpu, saved_tensors_hooks
from adjoint.distributed.fsdp import fully_shard
from adjoint.utils.checkpoint import checkpoint
from tests.ranks.checks import same


class Counted(nn.Module):
    """Some layers, and how often they were run."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 4), nn.Sigmoid())
        self.runs = 0

    def forward(self, x: Any) -> Any:
        self.runs += 1
        return self.layers(x)


def gradients(net: nn.Module) -> list[Any]:
    return [getattr(p.grad, "full_tensor", lambda p=p: p.grad)() for p in net.parameters()]


def check_hooks_around_units(rank: int, size: int) -> None:
    """They keep what units compute, but no whole parameters; checkpoints run units again."""
    ad.manual_seed(1)
    alone = nn.Sequential(Counted(), Counted())
    model = copy.deepcopy(alone)
    for inner in model:
        fully_shard(inner)
    fully_shard(model)
    x = ad.arange(12.0).view(3, 4).sin()
    (alone(x) ** 2).sum().backward()
    wanted = gradients(alone)
    kept: list[Any] = []

    def pack(tensor: Any) -> Any:
        kept.append(tensor)
        return tensor.numpy()

    def plain() -> Any:
        with saved_tensors_hooks(pack, ad.from_numpy):
            return model(x)

    def on_cpu() -> Any:
        with save_on_cpu():
            return model(x)

    def again(reentrant: bool) -> Any:
        return checkpoint(model, x.clone().requires_grad_(), use_reentrant=reentrant)

    for run, times in (
        (plain, 1),
        (on_cpu, 1),
        (lambda: again(False), 2),
        (lambda: again(True), 2),
    ):
        model.zero_grad()
        before = model[1].runs
        (run() ** 2).sum().backward()
        assert model[1].runs == before + times
        for a, b in zip(gradients(model), wanted, strict=True):
            same(a, b, 1e-6)
    shapes = [tuple(t.shape) for t in kept]
    assert shapes.count((3, 5)) >= 2, shapes  # what tanh gave
    assert not {(5, 4), (4, 5)} & set(shapes), shapes


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.last.weight = self.first.weight

    def forward(self, x: Any) -> Any:
        return self.last(self.first(x).tanh())


def check_ties_across_units(rank: int, size: int) -> None:
    """One parameter in two units is one, also after each name was loaded with a tensor."""
    ad.manual_seed(2)
    alone = Tied()
    model = copy.deepcopy(alone)
    fully_shard(model.first)
    fully_shard(model)
    assert model.first.weight is model.last.weight
    state = {key: value.detach().clone() for key, value in model.state_dict().items()}
    model.load_state_dict(state, assign=True)
    assert model.first.weight is model.last.weight
    assert len(list(model.parameters())) == 2
    x = ad.arange(8.0).view(2, 4).cos()
    for net in (alone, model):
        optimizer = ad.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (net(x) ** 2).sum().backward()
            optimizer.step()
    for a, b in zip(alone.parameters(), model.parameters(), strict=True):
        same(a, b.full_tensor(), 1e-5)
    halves = dist.init_device_mesh("cpu", (size // 2, 2))
    other = Tied()
    fully_shard(other.first)
    with pytest.raises(NotImplementedError, match="different meshes"):
        fully_shard(other, mesh=halves)


def check_late_parameters(rank: int, size: int) -> None:
    model = fully_shard(nn.Sequential(nn.Linear(3, 3), nn.Tanh()))
    model[1].register_parameter("fixed", nn.Parameter(ad.ones(2), requires_grad=False))
    model(ad.ones(2, 3)).sum().backward()
    model[1].register_parameter("scale", nn.Parameter(ad.ones(2)))
    with pytest.raises(RuntimeError, match="'scale' of Tanh was added after"):
        model(ad.ones(2, 3))


class Writing(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.weight, self.how = nn.Parameter(ad.ones(4, 3)), how

    def forward(self, x: Any) -> Any:
        with ad.no_grad():
            if self.how == "in place":
                self.weight.mul_(2)
            elif self.how == "data":
                self.weight.view(-1).data[:2].zero_()
            elif self.how == "replaced":
                self.weight = nn.Parameter(ad.zeros(4, 3))
        return x @ self.weight.t()


def check_writes_of_forward(rank: int, size: int) -> None:
    """They would be lost, so they are refused; the parts stay as they were."""
    hows = [("in place", False), ("in place", True), ("data", False), ("replaced", False)]
    for how, compiled in hows:
        model = fully_shard(Writing(how))
        call = ad.compile(model) if compiled else model
        with pytest.raises(RuntimeError, match="wrote to parameter 'weight'"):
            call(ad.ones(2, 3))
        same(model.weight.full_tensor(), ad.ones(4, 3))
        model.how = ""
        same(model(ad.ones(2, 3)), ad.full((2, 4), 3.0))
