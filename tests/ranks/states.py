"""Sharded models whose parameters were moved, replaced or loaded go on as an unsharded one does."""

from __future__ import annotations

import copy
import itertools
import os
import random
import sys
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from adjoint.distributed.fsdp import FullyShardedDataParallel, fully_shard
from adjoint.distributed.tensor import Replicate, distribute_tensor
from adjoint.nn.parallel import DistributedDataParallel as DDP
from tests.ranks.checks import run, same


class Tied(nn.Module):
    """One weight under two names, with a layer that is a unit of its own between them."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(5, 7, bias=False)
        self.inner = nn.Linear(7, 7)
        self.head = nn.Linear(5, 7)
        self.head.weight = self.embed.weight

    def forward(self, x: Any) -> Any:
        y = self.embed(x).tanh()
        return self.head((self.inner(y) @ self.embed.weight).tanh())


def pair(make: Any, *inner: str) -> tuple[Any, Any]:
    """A model, and the same sharded: `inner` modules are units of their own."""
    ad.manual_seed(3)
    alone = make()
    model = copy.deepcopy(alone)
    for name in inner:
        fully_shard(model.get_submodule(name))
    return alone, fully_shard(model)


def whole(value: Any) -> Any:
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def same_gradients(alone: Any, model: Any) -> None:
    ours, theirs = dict(model.named_parameters()), dict(alone.named_parameters())
    assert list(ours) == list(theirs)
    for name, p in theirs.items():
        q = ours[name]
        assert (p.grad is None) == (q.grad is None), name
        if p.grad is not None:
            same(p.grad, whole(q.grad), 1e-5)


def step(alone: Any, model: Any, x: Any) -> None:
    """A forward, a backward and an update by hand of both, which must agree."""
    for net in (alone, model):
        net.zero_grad()
        (net(x) ** 2).sum().backward()
    same_gradients(alone, model)
    with ad.no_grad():
        for net in (alone, model):
            for p in net.parameters():
                if p.grad is not None:
                    p -= 0.05 * p.grad


def parts_of(alone: Any, model: Any) -> dict[str, Any]:
    """The unsharded model's state as the sharded one keeps it."""
    own = model.state_dict()
    return {
        name: distribute_tensor(value.clone(), own[name].device_mesh, own[name].placements)
        for name, value in alone.state_dict().items()
    }


def to_empty(alone: Any, model: Any) -> None:
    model.to_empty(device="cpu")
    model.load_state_dict(parts_of(alone, model))


def through_meta(alone: Any, model: Any) -> None:
    state = parts_of(alone, model)
    model.to_empty(device="meta")
    model.load_state_dict(state, assign=True)


def loaded(alone: Any, model: Any) -> None:
    changed(alone)
    model.load_state_dict(parts_of(alone, model))


def assigned(alone: Any, model: Any) -> None:
    changed(alone)
    model.load_state_dict(parts_of(alone, model), assign=True)


def moved(alone: Any, model: Any) -> None:
    model.to("cpu").double().float()


def frozen(alone: Any, model: Any) -> None:
    for net in (alone, model):
        for name, p in net.named_parameters():
            p.requires_grad_("bias" in name)


def thawed(alone: Any, model: Any) -> None:
    for net in (alone, model):
        net.requires_grad_(True)


def written(alone: Any, model: Any) -> None:
    for net in (alone, model):
        changed(net)


def changed(net: Any) -> None:
    with ad.no_grad():
        for p in net.parameters():
            p *= 0.75


CHANGES = (to_empty, through_meta, loaded, assigned, moved, frozen, thawed, written)
MODELS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "layers": (
        lambda: nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3), nn.Tanh()),
        ("0", "2"),
    ),
    "one unit": (lambda: nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)), ()),
    "tied": (Tied, ("inner",)),
}


def check_changes_between_steps(rank: int, size: int) -> None:
    """Each change followed by each other (by the next of them in quick runs), with steps between."""
    pairs = list(itertools.product(CHANGES, CHANGES))
    if "EVERY_MODEL" not in os.environ:
        pairs = list(zip(CHANGES, [*CHANGES[1:], CHANGES[0]], strict=True))
    for (make, inner), changes in itertools.product(MODELS.values(), pairs):
        alone, model = pair(make, *inner)
        x = ad.randn(2, 5)
        step(alone, model, x)
        for change in changes:
            change(alone, model)
            step(alone, model, x)


def check_frozen_units(rank: int, size: int) -> None:
    """A unit without gradients of its own is gathered anew for each backward."""
    alone, model = pair(MODELS["layers"][0], "0", "2")
    for net in (alone, model):
        net[2].requires_grad_(False)
    x = ad.randn(2, 5)
    for _ in range(3):
        step(alone, model, x)
        written(alone, model)


def check_gradients_of_inputs(rank: int, size: int) -> None:
    """Backwards that reach no parameter, or but some, leave nothing behind."""
    alone, model = pair(MODELS["one unit"][0])
    for _ in range(3):
        x = ad.randn(2, 5)
        grads = []
        for net in (alone, model):
            given = x.clone().requires_grad_()
            (grad,) = ad.autograd.grad((net(given) ** 2).sum(), [given])
            (other,) = ad.autograd.grad((net(given) ** 2).sum(), [net[2].bias])
            grads.append((grad, whole(other)))
        for mine, wanted in zip(grads[1], grads[0], strict=True):
            same(mine, wanted, 1e-5)
        written(alone, model)
    for net in (alone, model):  # twice by one tape
        loss = (net(x) ** 2).sum()
        loss.backward(retain_graph=True)
        loss.backward()
    same_gradients(alone, model)


def check_changes_before_backward(rank: int, size: int) -> None:
    """What forward used and backward would not find any more is refused."""
    for change in (written, loaded, to_empty, assigned):
        alone, model = pair(MODELS["one unit"][0])
        loss = (model(ad.randn(2, 5)) ** 2).sum()
        change(alone, model)
        with pytest.raises(RuntimeError, match="changed between forward and backward"):
            loss.backward()
        step(alone, model, ad.randn(2, 5)) if change is not written else None
    alone, model = pair(MODELS["one unit"][0])  # as it is with whole parameters
    loss = (alone(ad.randn(2, 5)) ** 2).sum()
    changed(alone)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def check_parts_that_lie_otherwise(rank: int, size: int) -> None:
    alone, model = pair(MODELS["one unit"][0])
    mesh = model[0].weight.device_mesh
    state = {k: distribute_tensor(v, mesh, [Replicate()]) for k, v in alone.state_dict().items()}
    with pytest.raises(RuntimeError, match="Shard"):
        model.load_state_dict(state, assign=True)
    alone, model = pair(MODELS["one unit"][0])
    with pytest.raises(RuntimeError, match="plain tensor"):
        model.load_state_dict(alone.state_dict(), assign=True)
    with pytest.raises(AssertionError, match="deepcopy"):
        copy.deepcopy(model)


def check_ties(rank: int, size: int) -> None:
    """A parameter under two names is one part, one gradient and one entry of an optimizer."""
    for change in (None, *CHANGES):
        alone, model = pair(Tied, "inner")
        if change is not None:
            change(alone, model)
        assert model.head.weight is model.embed.weight, change
        assert len(list(model.parameters())) == 4
        optimizers = [ad.optim.SGD(net.parameters(), lr=0.01) for net in (alone, model)]
        for _ in range(2):
            for net, optimizer in zip((alone, model), optimizers, strict=True):
                optimizer.zero_grad()
                (net(ad.ones(2, 5)) ** 2).sum().backward()
                optimizer.step()
            same_gradients(alone, model)
        for name, value in alone.state_dict().items():
            same(value, whole(model.state_dict()[name]), 1e-5)
    alone, model = pair(Tied)
    model.head.load_state_dict(  # below the unit: joined again when it is gathered
        {k: v.clone() for k, v in model.head.state_dict().items()}, assign=True
    )
    step(alone, model, ad.ones(2, 5))
    assert model.head.weight is model.embed.weight
    state = parts_of(alone, model)
    state["head.weight"] = state["head.weight"] * 2
    with pytest.raises(RuntimeError, match="differ"):
        model.load_state_dict(state, assign=True)


def check_hooks_of_parameters(rank: int, size: int) -> None:
    """Hooks that a program put on parameters stay, as they do on whole ones that are moved."""
    for change in (to_empty, moved):
        alone, model = pair(Tied, "inner")
        heard: dict[str, list[str]] = {"alone": [], "model": []}
        for key, net in (("alone", alone), ("model", model)):
            for name, p in net.named_parameters():
                p.register_hook(lambda g, h=heard[key], n=name: h.append(n))
                p.register_post_accumulate_grad_hook(lambda p, h=heard[key], n=name: h.append(n))
        change(alone, model)
        step(alone, model, ad.ones(2, 5))
        assert sorted(heard["model"]) == sorted(heard["alone"])
        assert len(heard["model"]) == 8


def check_what_hooks_see(rank: int, size: int) -> None:
    """Hooks of parts and `autograd.grad` see gradients of whole parameters."""
    alone, model = pair(MODELS["one unit"][0])
    for net in (alone, model):
        for p in net.parameters():
            p.register_hook(lambda g, p=p: g / (1 + g.norm()) + 0.1 * p.detach())
    step(alone, model, ad.ones(2, 5))
    hooked = model[0].weight.register_hook(lambda g: g.full_tensor())
    with pytest.raises(RuntimeError, match="placed otherwise"):
        model(ad.ones(2, 5)).sum().backward()
    hooked.remove()
    grads = [ad.autograd.grad(net(ad.ones(2, 5)).sum(), net[2].bias)[0] for net in (alone, model)]
    assert grads[1].placements == model[2].bias.placements
    same(grads[0], whole(grads[1]), 1e-5)


def check_steps_inside_backward(rank: int, size: int) -> None:
    """Optimizers that step as soon as a gradient is whole."""
    alone, model = pair(MODELS["layers"][0], "0", "2")
    for net in (alone, model):
        for p in net.parameters():
            optimizer = ad.optim.SGD([p], lr=0.05)

            def update(p: Any, optimizer: Any = optimizer) -> None:
                optimizer.step()
                p.grad = None

            p.register_post_accumulate_grad_hook(update)
    for _ in range(3):
        x = ad.randn(2, 5)
        for net in (alone, model):
            (net(x) ** 2).sum().backward()
    for p, q in zip(alone.parameters(), model.parameters(), strict=True):
        same(p, whole(q), 1e-5)


def trained(net: Any, steps: int = 2) -> Any:
    """An optimizer that has made some steps."""
    inner = [p for n, p in net.named_parameters() if "inner" in n]
    others = [p for n, p in net.named_parameters() if "inner" not in n]
    optimizer: Any = ad.optim.AdamW(
        [{"params": inner, "lr": 0.02}, {"params": others, "betas": (0.8, 0.9)}], lr=0.01
    )
    for _ in range(steps):
        advance(net, optimizer)
    return optimizer


def advance(net: Any, optimizer: Any) -> None:
    optimizer.zero_grad()
    (net(ad.arange(10.0).view(2, 5).sin()) ** 2).sum().backward()
    optimizer.step()


WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)


def check_states_from_the_first(rank: int, size: int) -> None:
    """The first process's states, flat or not, given to models on meta and others."""
    for make, inner in ((Tied, ("inner",)), (Tied, ())):
        ad.manual_seed(3)
        alone = make()
        ours = trained(alone)
        for flat, kind in itertools.product((False, True), ("sharded", "meta", "whole", "ddp")):
            options = StateDictOptions(
                full_state_dict=True, broadcast_from_rank0=True, flatten_optimizer_state_dict=flat
            )
            states: Any = ({}, {})
            if rank == 0:
                taken = StateDictOptions(flatten_optimizer_state_dict=flat)
                states = get_state_dict(alone, ours, options=taken)
            ad.manual_seed(4 + rank)
            with ad.device("meta" if kind == "meta" else "cpu"):
                model = make()
            if kind == "ddp":
                model = DDP(model)
            elif kind != "whole":
                for name in inner:
                    fully_shard(model.get_submodule(name))
                fully_shard(model)
            theirs = trained(model, 0)
            set_state_dict(
                model, theirs, model_state_dict=states[0], optim_state_dict=states[1],
                options=options,
            )  # fmt: skip
            again = copy.deepcopy(alone)
            optimizer = trained(again, 0)
            optimizer.load_state_dict(copy.deepcopy(ours.state_dict()))
            for net, its in ((again, optimizer), (model, theirs)):
                assert [g["lr"] for g in its.param_groups] == [0.02, 0.01]
                assert its.param_groups[1]["betas"] == (0.8, 0.9)
                advance(net, its)
            got = get_state_dict(model, theirs, options=WHOLE)
            wanted = get_state_dict(again, optimizer)
            if rank:
                assert got == ({}, {})
                continue
            same_trees(got, wanted)


def same_trees(got: Any, wanted: Any) -> None:
    if isinstance(wanted, dict):
        assert list(got) == list(wanted)
        for key in wanted:
            same_trees(got[key], wanted[key])
    elif isinstance(wanted, (list, tuple)):
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            same_trees(one, other)
    elif isinstance(wanted, ad.Tensor):
        same(wanted, got, 1e-5)
    else:
        assert got == wanted


def check_parts_of_states(rank: int, size: int) -> None:
    """States of submodules, of several optimizers, and those that lack something."""
    alone, model = pair(Tied, "inner")
    for net in (alone, model):
        net.ours = [ad.optim.Adam(net.inner.parameters()), ad.optim.SGD([net.embed.weight], 0.1)]
        advance(net, net.ours[0])
        net.ours[1].step()
    for flat in (False, True):
        options = StateDictOptions(full_state_dict=True, flatten_optimizer_state_dict=flat)
        got, wanted = (get_state_dict(net, net.ours, options=options) for net in (model, alone))
        same_trees(got, wanted)
        with pytest.warns(FutureWarning):
            part = get_model_state_dict(
                model, submodules={model.inner},
                options=StateDictOptions(full_state_dict=True, keep_submodule_prefixes=False),
            )  # fmt: skip
        same_trees(part, dict(alone.inner.state_dict()))
        other = pair(Tied, "inner")[1]
        written(other, other)
        with pytest.warns(FutureWarning):
            result = set_model_state_dict(
                other, {other.inner: part}, options=StateDictOptions(strict=False)
            )
        assert not result.unexpected_keys
        assert result.missing_keys == ["embed.weight", "head.weight", "head.bias"]
        same(alone.inner.weight, whole(other.inner.weight), 1e-6)
        with pytest.raises(RuntimeError, match="missing"):
            set_model_state_dict(other, {"inner.bias": part["bias"]})
        optimizer = ad.optim.Adam(other.parameters())
        with pytest.raises(
            RuntimeError, match="Missing optimizer state|All the parameters|options differ"
        ):
            set_optimizer_state_dict(other, optimizer, got[1])
    with pytest.raises(TypeError if size > 1 else RuntimeError, match="whole tensors"):
        set_model_state_dict(
            model, model.state_dict(),
            options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True),
        )  # fmt: skip


class Holder(nn.Module):
    """A program's own `module`, with a wrapper below it."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Sequential(nn.Linear(5, 7))
        self.inner = nn.Linear(7, 7)
        self.register_buffer("count", ad.zeros(()))

    def forward(self, x: Any) -> Any:
        return self.inner(self.module(x))


def check_names_without_wrappers(rank: int, size: int) -> None:
    plain = list(Holder().state_dict())
    wrapped = Holder()
    wrapped.module = DDP(wrapped.module)
    in_units = Holder()
    in_units.module = FullyShardedDataParallel(in_units.module)
    whole_unit = FullyShardedDataParallel(Holder())
    for model in (Holder(), DDP(Holder()), wrapped, fully_shard(Holder()), in_units, whole_unit):
        state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
        assert sorted(state) == sorted(plain), type(model)
        optimizer = ad.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        optim_state = get_optimizer_state_dict(model, optimizer)
        assert sorted(optim_state["state"]) == sorted(set(plain) - {"count"})
        other = {key: value * 2 for key, value in state.items()}
        set_model_state_dict(model, other)
        set_optimizer_state_dict(model, optimizer, optim_state)
        again = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
        same_trees({key: again[key] for key in other}, other)
    with pytest.raises(RuntimeError, match="unexpected"):
        set_model_state_dict(Holder().module, {"module.0.weight": ad.ones(7, 5)})


def check_random_programs(rank: int, size: int) -> None:
    """Random orders of steps, changes, inputs' gradients and accumulated backwards."""
    for seed in range(12):
        draw = random.Random(seed)
        make, inner = draw.choice(list(MODELS.values()))
        alone, model = pair(make, *(inner if draw.random() < 0.7 else ()))
        for _ in range(6):
            x = ad.randn(2, 5)
            match draw.randrange(4):
                case 0:
                    draw.choice(CHANGES)(alone, model)
                case 1:
                    step(alone, model, x)
                case 2:
                    losses = [[(net(x * k) ** 2).sum() for k in (1, 2)] for net in (alone, model)]
                    order = draw.sample((0, 1), 2)
                    for net, loss in zip((alone, model), losses, strict=True):
                        net.zero_grad()
                        for k in order:
                            loss[k].backward()
                    same_gradients(alone, model)
                case 3:
                    given = [x.clone().requires_grad_() for _ in range(2)]
                    for net, z in zip((alone, model), given, strict=True):
                        net.zero_grad()
                        (grad,) = ad.autograd.grad(net(z).sum(), [z])
                        z.grad = grad
                    same(given[0].grad, given[1].grad, 1e-5)


if __name__ == "__main__":
    run(sys.modules[__name__])
