"""The FSDP2 tutorial: fully_shard from a meta device, DTensor state dicts, DCP, clipping."""

import os
import sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn as nn
from torch.distributed.checkpoint.state_dict import (
    _init_optim_state,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    get_state_dict,
    set_state_dict,
    StateDictOptions,
)
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.fsdp import fully_shard, FSDPModule, MixedPrecisionPolicy
from torch.distributed.tensor import distribute_tensor, DTensor, Shard
from common import fill, data


class FeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.w1 = nn.Linear(dim, 4 * dim)
        self.w2 = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.w2(torch.relu(self.w1(self.norm(x))))


class Transformer(nn.Module):
    def __init__(self, dim=9, layers=3):
        super().__init__()
        self.layers = nn.ModuleList([FeedForward(dim) for _ in range(layers)])
        self.output = nn.Linear(dim, 3, bias=False)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.output(x)


class AppState(Stateful):
    def __init__(self, model, optimizer=None):
        self.model, self.optimizer = model, optimizer

    def state_dict(self):
        model_state_dict, optimizer_state_dict = get_state_dict(self.model, self.optimizer)
        return {"model": model_state_dict, "optim": optimizer_state_dict}

    def load_state_dict(self, state_dict):
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state_dict["model"],
            optim_state_dict=state_dict["optim"],
        )


def inspect_model(model):
    assert isinstance(model, FSDPModule)
    for param in model.parameters():
        assert param.placements == (Shard(0),)
        assert param.dtype == torch.float32
        assert isinstance(param, DTensor) and isinstance(param, nn.Parameter)
    if dist.get_rank() == 0:
        print(
            type(model).__name__,
            [tuple(p.shape) for p in model.parameters()][:3],
            [tuple(p.to_local().shape) for p in model.parameters()][:3],
        )


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    reference = fill(Transformer())
    full_sd = reference.state_dict()
    with torch.device("meta"):
        model = Transformer()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    for at, layer in enumerate(model.layers):
        layer.set_modules_to_forward_prefetch(list(model.layers[at + 1 : at + 2]))
    inspect_model(model)
    # DTensor APIs, as the tutorial loads a full state dict
    meta_sharded_sd = model.state_dict()
    sharded_sd = {}
    for param_name, full_tensor in full_sd.items():
        sharded_meta_param = meta_sharded_sd.get(param_name)
        sharded_tensor = distribute_tensor(
            full_tensor, sharded_meta_param.device_mesh, sharded_meta_param.placements
        )
        sharded_sd[param_name] = nn.Parameter(sharded_tensor)
    model.load_state_dict(sharded_sd, assign=True)
    optim = torch.optim.Adam(model.parameters(), lr=1e-2)

    def steps(n, first=0):
        for step in range(first, first + n):
            optim.zero_grad()
            loss = (
                (model(data(6, 9, seed=step + 10 * rank)) - data(6, 3, seed=rank)).square().mean()
            )
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            if isinstance(norm, DTensor):
                norm = norm.full_tensor()
            optim.step()
            total = loss.detach().clone()
            dist.all_reduce(
                total, op=dist.ReduceOp.AVG if dist.get_backend() == "nccl" else dist.ReduceOp.SUM
            )
            if rank == 0:
                print(
                    f"step {step} {total.item() / dist.get_world_size():.5f} norm {norm.item():.4f}",
                    flush=True,
                )

    steps(3)
    for p in model.parameters():
        assert isinstance(p.grad, DTensor) and p.grad.placements == p.placements
    state = optim.state[next(iter(model.parameters()))]
    assert isinstance(state["exp_avg"], DTensor), type(state["exp_avg"])
    sharded = model.state_dict()
    cpu_state_dict = {}
    for name, param in sharded.items():
        full = param.full_tensor()
        if rank == 0:
            cpu_state_dict[name] = full.cpu()
    if rank == 0:
        print(
            len(cpu_state_dict),
            f"{sum(v.double().sum().item() for v in cpu_state_dict.values()):.4f}",
        )
    CHECKPOINT_DIR = os.environ["CHECKPOINTS"] + "/fsdp2"
    dcp.save({"app": AppState(model, optim)}, checkpoint_id=CHECKPOINT_DIR)
    steps(2, 3)
    dcp.load({"app": AppState(model, optim)}, checkpoint_id=CHECKPOINT_DIR)
    steps(2, 3)
    whole = get_model_state_dict(
        model, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
    )
    if rank == 0:
        print(len(whole), f"{sum(v.double().sum().item() for v in whole.values()):.4f}")
    set_model_state_dict(
        model, full_sd, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    )
    optimizer_whole = get_optimizer_state_dict(
        model, optim, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
    )
    if rank == 0:
        print(len(optimizer_whole["state"]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
