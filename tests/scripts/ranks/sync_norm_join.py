"""SyncBatchNorm, uneven inputs with join, the Join context, a communication hook, elastic's record."""

import os
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks as default
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel as DDP
from common import fill, data


def report(name, value):
    if dist.get_rank() == 0:
        print(f"{name} {value:.5f}", flush=True)


@record
def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2)
    )
    sync = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert any(isinstance(m, nn.SyncBatchNorm) for m in sync.modules())
    if torch.cuda.is_available():
        DDP(sync.cuda())
    # uneven inputs: rank r has 5 + r batches
    model = DDP(fill(nn.Linear(1, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = [torch.tensor([float(i + 1)]) for i in range(5 + rank)]
    seen = 0
    with model.join():
        for x in inputs:
            seen += 1
            loss = model(x).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    print(f"rank {rank} has seen {seen}", flush=True) if rank == size - 1 else None
    dist.barrier()
    report("join", sum(p.sum().item() for p in model.parameters()))
    model = DDP(fill(nn.Linear(1, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    with Join([model]):
        for x in inputs:
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    report("Join", sum(p.sum().item() for p in model.parameters()))
    model = DDP(fill(nn.Linear(4, 2)))
    model.register_comm_hook(None, default.allreduce_hook)
    model(data(3, 4, seed=rank)).square().sum().backward()
    report("hook", model.module.weight.grad.sum().item())
    frozen = fill(nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)}))

    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = frozen

        def forward(self, x, which):
            return self.parts[which](x)

    branches = DDP(Branches(), find_unused_parameters=True)
    branches(data(2, 2), "a" if rank else "b").sum().backward()
    report("unused", branches.module.parts["a"].weight.grad.sum().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
