"""Activation checkpoints under DDP and inside modules that FSDP shards."""

import torch, torch.nn as nn, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    checkpoint_wrapper,
    apply_activation_checkpointing,
    CheckpointImpl,
)
from torch.distributed.fsdp import fully_shard
from common import data, fill

dist.init_process_group("gloo")
rank = dist.get_rank()


class B(nn.Module):
    def __init__(s):
        super().__init__()
        s.f = nn.Linear(5, 5)

    def forward(s, x):
        return torch.tanh(s.f(x))


class N(nn.Module):
    def __init__(s):
        super().__init__()
        s.bs = nn.ModuleList(B() for _ in range(3))

    def forward(s, x):
        for b in s.bs:
            x = checkpoint(b, x, use_reentrant=False)
        return x


res = []
m = DDP(fill(N()))
for i in range(2):
    m.zero_grad()
    m(data(3, 5, seed=rank)).sum().backward()
res.append(round(m.module.bs[0].f.weight.grad.sum().item(), 4))
n = fill(nn.Sequential(B(), B(), B()))
apply_activation_checkpointing(n, check_fn=lambda q: isinstance(q, B))
for q in n:
    fully_shard(q)
fully_shard(n)
n(data(3, 5, seed=rank)).sum().backward()
g = list(n.parameters())[0].grad.full_tensor()
res.append(round(g.sum().item(), 4))
if rank == 0:
    print(res)
dist.destroy_process_group()
