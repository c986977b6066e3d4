"""Sharded, tensor-parallel and pipelined training follow one process."""

from __future__ import annotations

import copy
import itertools
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
import adjoint.distributed as dist
import adjoint.distributed.checkpoint as dcp
from adjoint import nn
from adjoint.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from adjoint.distributed.device_mesh import DeviceMesh, init_device_mesh
from adjoint.distributed.fsdp import (
    CPUOffload,
    CPUOffloadPolicy,
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from adjoint.distributed.optim import ZeroRedundancyOptimizer
from adjoint.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from adjoint.distributed.tensor import Replicate
from adjoint.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from adjoint.nn import functional as F
from adjoint.nn.parallel import DistributedDataParallel as DDP
from adjoint.utils.checkpoint import checkpoint
from tests.ranks.checks import run, same, usual
from tests.ranks.norms import check_lists_of_parts as check_lists_of_parts
from tests.ranks.norms import check_norms_of_halves as check_norms_of_halves
from tests.ranks.norms import check_norms_of_several as check_norms_of_several
from tests.ranks.norms import check_scaled_losses as check_scaled_losses
from tests.ranks.pipelines import check_a_traced_gpt as check_a_traced_gpt
from tests.ranks.pipelines import check_refused_pipelines as check_refused_pipelines
from tests.ranks.pipelines import check_traced_pipelines as check_traced_pipelines
from tests.ranks.tensor_parallel import check_compiled_layers as check_compiled_layers
from tests.ranks.tensor_parallel import check_divided_losses as check_divided_losses
from tests.ranks.training import CASES, mlp, train
from tests.ranks.units import check_hooks_around_units as check_hooks_around_units
from tests.ranks.units import check_late_parameters as check_late_parameters
from tests.ranks.units import check_ties_across_units as check_ties_across_units
from tests.ranks.units import check_writes_of_forward as check_writes_of_forward


def shard(model: Any) -> Any:
    for inner in model.transformer["h"] if hasattr(model, "transformer") else model.children():
        if list(inner.parameters()):
            fully_shard(inner)
    return fully_shard(model)


def sharded_case(name: str, **options: Any) -> tuple[Any, Any, Any, Any]:
    make, draw, loss_of = CASES[name]
    ad.manual_seed(5)
    alone, model, batches = make(), make(), draw()
    model.load_state_dict(alone.state_dict())
    if name == "cnn":  # statistics of the whole batch, as one process takes them
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    return alone, model, batches, loss_of


def check_sharded_follows(rank: int, size: int) -> None:
    for name in usual(CASES, "mlp", "gpt"):
        alone, model, batches, loss_of = sharded_case(name)
        total = sum(p.numel() for p in alone.parameters())
        shard(model)
        count = len(list(model.parameters()))
        kept = sum(p.to_local().numel() for p in model.parameters())
        rows = sum(p[0].numel() for p in alone.parameters())  # each may be one row beyond its share
        assert kept <= total / size + rows
        assert count == len(list(alone.parameters()))
        wanted = train(alone, batches, loss_of)
        share = 8 // size
        mine = ad.tensor(train(model, batches[:, rank * share : (rank + 1) * share], loss_of))
        dist.all_reduce(mine, dist.ReduceOp.AVG)
        same(mine, wanted, 2e-5)
        whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
        for key, value in alone.state_dict().items():
            same(value, whole[key], 1e-3)


def check_compiled_sharded(rank: int, size: int) -> None:
    for name in usual(CASES, "mlp"):
        alone, model, batches, loss_of = sharded_case(name)
        shard(model)
        wanted = train(alone, batches, loss_of)
        share = 8 // size
        mine = train(model, batches[:, rank * share : (rank + 1) * share], loss_of, compiled=True)
        total = ad.tensor(mine)
        dist.all_reduce(total, dist.ReduceOp.AVG)
        same(total, wanted, 2e-5)
        whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
        for key, value in alone.state_dict().items():
            same(value, whole[key], 1e-3)


def check_one_element_each(rank: int, size: int) -> None:
    """Parameters of which every process has one element, or some have none."""
    for width in (1, size, size + 1):
        alone = nn.Sequential(nn.Linear(3, width), nn.LayerNorm(width))
        with ad.no_grad():
            alone[1].bias += ad.arange(float(width))
        model = copy.deepcopy(alone)
        fully_shard(model[1])
        fully_shard(model)
        x = ad.arange(6.0).view(2, 3).sin()
        for net in (alone, model):
            (net(x) ** 3).sum().backward()
        for p, q in zip(alone.parameters(), model.parameters(), strict=True):
            same(p.grad, q.grad.full_tensor(), 1e-5)


def check_clipping(rank: int, size: int) -> None:
    alone, model, batches, _ = sharded_case("mlp")
    shard(model)
    (alone(batches[0]) ** 2).sum().backward()
    (model(batches[0]) ** 2).sum().backward()
    for order in (2.0, float("inf")):
        same(
            nn.utils.clip_grad_norm_(model.parameters(), 1e9, order).full_tensor(),
            nn.utils.clip_grad_norm_(alone.parameters(), 1e9, order),
            1e-5,
        )


def check_wrapper(rank: int, size: int) -> None:
    alone, model, batches, loss_of = sharded_case("mlp")
    wrapped = FullyShardedDataParallel(
        model, auto_wrap_policy=lambda module, recurse, nonwrapped_numel: nonwrapped_numel > 50
    )
    assert train(wrapped, batches, loss_of) == pytest.approx(train(alone, batches, loss_of), 1e-5)
    for key, value in alone.state_dict().items():
        same(value, wrapped.state_dict()[key], 1e-3)
    with FullyShardedDataParallel.summon_full_params(wrapped):
        assert wrapped.module[0].weight.shape == (16, 6)
    half = shard_in_half(mlp())
    out = half(ad.ones(2, 6))
    assert out.dtype is ad.bfloat16
    out.sum().backward()
    assert all(p.grad.dtype is ad.float32 for p in half.parameters())


def shard_in_half(model: Any) -> Any:
    return fully_shard(model, mp_policy=MixedPrecisionPolicy(ad.bfloat16, ad.float32))


def check_offload(rank: int, size: int) -> None:
    """Parts on the host: on CPUs they are there already, and nothing differs by a bit."""
    losses = []
    for policy in (None, CPUOffloadPolicy()):
        _, model, batches, loss_of = sharded_case("mlp")
        for inner in (model[0], model):
            fully_shard(inner, offload_policy=policy)
        losses.append(train(model, batches, loss_of))
        assert all(p.device.type == p.grad.device.type == "cpu" for p in model.parameters())
    _, model, batches, loss_of = sharded_case("mlp")
    wrapped = FullyShardedDataParallel(model, cpu_offload=CPUOffload(offload_params=True))
    losses.append(train(wrapped, batches, loss_of))
    assert losses[0] == losses[1] == losses[2]
    with pytest.raises(NotImplementedError, match="offload_policy"):
        fully_shard(mlp(), offload_policy="cpu")


def check_recomputed_blocks(rank: int, size: int) -> None:
    """Checkpoints inside and around a unit see whole parameters when they are computed again."""
    for reentrant in (False, True):
        grads = []
        for sharded in (False, True):
            ad.manual_seed(4)
            inner = nn.Sequential(nn.Linear(5, 5), nn.Tanh())
            outer = Recomputed(inner, reentrant)
            net = nn.Sequential(nn.Linear(5, 5), outer, nn.Linear(5, 1))
            if sharded:
                fully_shard(outer)
                fully_shard(net)
            x = ad.ones(3, 5).requires_grad_()
            net(x).sum().backward()
            grads.append(
                [getattr(p.grad, "full_tensor", lambda p=p: p.grad)() for p in net.parameters()]
            )
        for a, b in zip(*grads, strict=True):
            same(a, b, 1e-6)


class Recomputed(nn.Module):
    def __init__(self, inner: Any, reentrant: bool) -> None:
        super().__init__()
        self.inner, self.reentrant = inner, reentrant

    def forward(self, x: Any) -> Any:
        return checkpoint(self.inner, x, use_reentrant=self.reentrant)


def check_divided_optimizer(rank: int, size: int) -> None:
    alone, model, batches, loss_of = sharded_case("mlp")
    model = DDP(model)
    ours: Any = ZeroRedundancyOptimizer(model.parameters(), ad.optim.AdamW, lr=0.01)
    theirs = ad.optim.AdamW(alone.parameters(), lr=0.01)
    for x in batches:
        for net, optimizer in ((model, ours), (alone, theirs)):
            optimizer.zero_grad()
            loss_of(net, x).backward()
            optimizer.step()
    for a, b in zip(alone.parameters(), model.parameters(), strict=True):
        same(a, b, 1e-5)
    assert len(ours.optim.state) < 4
    for to in range(size):
        ours.consolidate_state_dict(to)
        if rank != to:
            with pytest.raises(RuntimeError, match="not been consolidated on this rank"):
                ours.state_dict()
            continue
        saved = ours.state_dict()
        same(saved["state"][0]["exp_avg"], theirs.state_dict()["state"][0]["exp_avg"], 1e-5)
        ours.load_state_dict(saved)


def check_compiled_divided_optimizer(rank: int, size: int) -> None:
    """A compiled step sees what schedulers and programs set between calls, and groups they add."""

    def played(wrap: Any) -> list[Any]:
        weights = [nn.Parameter(ad.full((n,), 1.0 + n)) for n in (3, 2, 2)]
        optimizer: Any = ZeroRedundancyOptimizer(weights[:2], ad.optim.SGD, lr=0.1, momentum=0.9)
        schedule = ad.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

        def step(x: Any) -> None:
            optimizer.zero_grad()
            (x * sum((w * w).sum() for w in weights)).backward()
            optimizer.step()

        options, seen, run_step = optimizer.param_groups[0], [], wrap(step)
        for change in (
            lambda: None,
            lambda: None,
            lambda: options.update(lr=0.01),
            schedule.step,
            lambda: options.update(momentum=0.1),
            lambda: options.update(nesterov=True),
            lambda: optimizer.add_param_group({"params": weights[2:], "lr": 0.2}),
            schedule.step,
        ):
            change()
            run_step(ad.tensor(0.1))
            seen.append([w.tolist() for w in weights])
        return seen

    wanted = played(lambda step: step)
    for dynamic in (False, True):
        compiled = played(partial(ad.compile, fullgraph=True, dynamic=dynamic))
        for mine, theirs in zip(compiled, wanted, strict=True):
            for a, b in zip(mine, theirs, strict=True):
                same(ad.tensor(a), b, 1e-5)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.head = nn.Linear(6, 16), nn.Linear(16, 6), nn.Linear(6, 8)

    def forward(self, x: Any) -> Any:
        return self.head(x + self.down(F.gelu(self.up(x))))


def check_tensor_parallel(rank: int, size: int) -> None:
    ad.manual_seed(2)
    alone, model, x = Block(), Block(), ad.randn(5, 6)
    model.load_state_dict(alone.state_dict())
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("tp",))
    plan = {
        "up": ColwiseParallel(),
        "down": RowwiseParallel(),
        "head": ColwiseParallel(output_layouts=Replicate()),
    }
    parallelize_module(model, mesh["tp"], plan)
    assert model.up.weight.shape == (16, 6)
    assert model.up.weight.to_local().shape == (16 // size, 6)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    for net, given in zip((alone, model), inputs, strict=True):
        optimizer = ad.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (net(given) ** 2).mean().backward()
            optimizer.step()
    same(alone(x), model(x), 1e-5)
    same(inputs[0].grad, inputs[1].grad, 1e-5)
    same(
        nn.utils.clip_grad_norm_([model.up.weight], 1e9).full_tensor(),
        nn.utils.clip_grad_norm_([alone.up.weight], 1e9),
        1e-5,
    )
    with pytest.raises(ValueError, match="no inner module"):
        parallelize_module(Block(), mesh, {"middle": ColwiseParallel()})


def check_mesh(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("dp", "tp"))
    assert mesh.shape == (size // 2, 2)
    assert mesh.get_coordinate() == (rank // 2, rank % 2)
    x = ad.full((1,), float(rank))
    dist.all_reduce(x, group=mesh.get_group("tp"))
    assert x.item() == 4 * (rank // 2) + 1
    assert mesh["dp"].size() == size // 2
    flat = mesh["dp", "tp"]._flatten("all")
    assert flat.mesh.tolist() == mesh["all"].mesh.tolist() == list(range(size))
    y = ad.ones(1)
    dist.all_reduce(y, group=flat.get_group())
    assert y.item() == size
    cube = init_device_mesh("cpu", (1, size // 2, 2), mesh_dim_names=("replicate", "shard", "tp"))
    data = cube["replicate", "shard"]._flatten("data")
    assert data.mesh.tolist() == list(range(rank % 2, size, 2))
    assert cube["data", "tp"].shape == (size // 2, 2)
    y = ad.full((1,), float(rank))
    dist.all_reduce(y, group=cube["data"].get_group())
    assert y.item() == sum(range(rank % 2, size, 2))
    with pytest.raises(ValueError, match="already"):
        cube["shard", "tp"]._flatten("data")
    named = {2: "(dp=1, tp=2), 'cpu', stride=((), 1)", 4: "(dp=2, tp=2), 'cpu', stride=(2, 1)"}
    assert repr(mesh) == f"DeviceMesh({named[size]})"
    assert repr(mesh["tp"]) == "DeviceMesh((tp=2), 'cpu', stride=(1,))"
    assert DeviceMesh.from_group(dist.group.WORLD, "cpu").size() == size


class Spoken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 2)

    def speak(self, x: Any) -> Any:
        return self.inner(x)


def check_other_methods(rank: int, size: int) -> None:
    """A method that is registered sees whole parameters, and its backward averages."""
    alone = Spoken()
    model = fully_shard(copy.deepcopy(alone))
    register_fsdp_forward_method(model, "speak")
    x = ad.full((2, 3), float(rank + 1))
    same(model.speak(x), alone.speak(x), 1e-6)
    model.speak(x).sum().backward()
    same(model.inner.weight.grad.full_tensor(), ad.full((2, 3), float(size + 1)), 1e-6)
    with pytest.raises(ValueError, match="does not have a method"):
        register_fsdp_forward_method(model, "sing")


def check_pipeline(rank: int, size: int) -> None:
    ad.manual_seed(3)
    layers = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(size)]
    x, y = ad.randn(8, 4), ad.randn(8, 4)
    whole = nn.Sequential(*layers)
    F.mse_loss(whole(x), y).backward()
    wanted = [p.grad.clone() for p in layers[rank].parameters()]
    for kind, compiled in itertools.product((ScheduleGPipe, Schedule1F1B), (False, True)):
        whole.zero_grad()
        mine = ad.compile(layers[rank]) if compiled else layers[rank]
        stage = PipelineStage(mine, rank, size)
        schedule = kind(stage, 4, F.mse_loss)
        losses: list[Any] = []
        if rank == 0:
            schedule.step(x)
        elif rank == size - 1:
            out = schedule.step(target=y, losses=losses)
            assert out.shape == (8, 4)
            assert len(losses) == 4
        else:
            schedule.step()
        for p, grad in zip(layers[rank].parameters(), wanted, strict=True):
            same(p.grad, grad, 1e-5)


def check_checkpoints(rank: int, size: int) -> None:
    """Written by all, read by all, and by one process: the same model and the same optimizer."""
    folder = Path(os.environ["CHECKPOINTS"]) / f"of{size}"
    alone, model, batches, loss_of = sharded_case("mlp")
    shard(model)
    optimizer = ad.optim.AdamW(model.parameters(), lr=0.01)
    for x in batches:
        optimizer.zero_grad()
        loss_of(model, x).backward()
        optimizer.step()
    states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
    dcp.save({**states, "epoch": 3}, checkpoint_id=folder)
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    dcp.load({"model": alone.state_dict()}, checkpoint_id=folder)  # as one process would
    for key, value in alone.state_dict().items():
        same(value, whole[key])
    other = shard(mlp())
    again = ad.optim.AdamW(other.parameters(), lr=0.5)
    for net, optim_ in ((other, again),):
        loss_of(net, batches[0]).backward()
        optim_.step()
        model_state, optim_state = get_state_dict(net, optim_)
        read = {"model": model_state, "optimizer": optim_state, "epoch": 0}
        dcp.load(read, checkpoint_id=folder)
        assert read["epoch"] == 3
        set_state_dict(net, optim_, model_state_dict=model_state, optim_state_dict=optim_state)
    for net, optim_ in ((model, optimizer), (other, again)):
        optim_.zero_grad()
        loss_of(net, batches[1]).backward()
        optim_.step()
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        same(a.to_local(), b.to_local())
    with pytest.raises(dist.DistBackendError, match="differs between rank 0 and rank 1"):
        dcp.save({"x": ad.full((2,), float(rank))}, checkpoint_id=folder)


if __name__ == "__main__":
    run(sys.modules[__name__])
