"""The DDP tutorial: mp.spawn, gloo, a saved checkpoint that all ranks load."""

import os
import sys
import tempfile
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.optim as optim
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP
from common import fill, data


def setup(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = os.environ.get("SPAWN_PORT", "12355")
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


def cleanup():
    dist.destroy_process_group()


class ToyModel(nn.Module):
    def __init__(self):
        super(ToyModel, self).__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def demo_basic(rank, world_size):
    setup(rank, world_size)
    ddp_model = DDP(fill(ToyModel()))
    loss_fn = nn.MSELoss()
    optimizer = optim.SGD(ddp_model.parameters(), lr=0.01)
    for step in range(5):
        optimizer.zero_grad()
        outputs = ddp_model(data(20, 10, seed=rank))
        loss = loss_fn(outputs, data(20, 5, seed=7))
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        if rank == 0:
            print(f"basic {step} {total.item() / world_size:.5f}", flush=True)
    cleanup()


def demo_checkpoint(rank, world_size):
    setup(rank, world_size)
    model = fill(ToyModel())
    ddp_model = DDP(model)
    CHECKPOINT_PATH = tempfile.gettempdir() + f"/model_{os.getppid()}.checkpoint"
    if rank == 0:
        torch.save(ddp_model.state_dict(), CHECKPOINT_PATH)
    dist.barrier()
    ddp_model.load_state_dict(torch.load(CHECKPOINT_PATH, map_location="cpu", weights_only=True))
    loss_fn = nn.MSELoss()
    optimizer = optim.SGD(ddp_model.parameters(), lr=0.001)
    optimizer.zero_grad()
    outputs = ddp_model(data(20, 10))
    loss_fn(outputs, data(20, 5)).backward()
    optimizer.step()
    dist.barrier()
    if rank == 0:
        os.remove(CHECKPOINT_PATH)
        print(f"checkpoint {sum(p.sum().item() for p in ddp_model.parameters()):.4f}", flush=True)
    cleanup()


def run_demo(demo_fn, world_size):
    mp.spawn(demo_fn, args=(world_size,), nprocs=world_size, join=True)


if __name__ == "__main__":
    world_size = int(sys.argv[1])
    run_demo(demo_basic, world_size)
    run_demo(demo_checkpoint, world_size)
