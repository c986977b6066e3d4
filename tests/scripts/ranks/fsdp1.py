"""The FSDP tutorial: auto_wrap_policy, mixed precision off, state dict types, a saved model."""

import argparse
import functools
import os
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import TensorDataset
from torch.utils.data.distributed import DistributedSampler
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.fully_sharded_data_parallel import CPUOffload, BackwardPrefetch
from torch.distributed.fsdp import (
    MixedPrecision,
    ShardingStrategy,
    StateDictType,
    FullStateDictConfig,
    FullOptimStateDictConfig,
    ShardedStateDictConfig,
    LocalStateDictConfig,
    ShardedOptimStateDictConfig,
)
from torch.distributed.fsdp.wrap import (
    size_based_auto_wrap_policy,
    enable_wrap,
    wrap,
    transformer_auto_wrap_policy,
    ModuleWrapPolicy,
)
from common import fill, data


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, 1)
        self.conv2 = nn.Conv2d(8, 16, 3, 1)
        self.fc1 = nn.Linear(64, 33)
        self.fc2 = nn.Linear(33, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = torch.flatten(F.max_pool2d(x, 2), 1)
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


def train(args, model, rank, world_size, train_loader, optimizer, epoch, sampler=None):
    model.train()
    ddp_loss = torch.zeros(2)
    if sampler:
        sampler.set_epoch(epoch)
    for batch_idx, (x, target) in enumerate(train_loader):
        optimizer.zero_grad()
        output = model(x)
        loss = F.nll_loss(output, target, reduction="sum")
        loss.backward()
        norm = model.clip_grad_norm_(5.0)
        optimizer.step()
        ddp_loss[0] += loss.item()
        ddp_loss[1] += len(x)
    dist.all_reduce(ddp_loss, op=dist.ReduceOp.SUM)
    if rank == 0:
        print(
            "Train Epoch: {} \tLoss: {:.5f} norm {:.4f}".format(
                epoch, ddp_loss[0] / ddp_loss[1], norm
            ),
            flush=True,
        )


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    dataset = TensorDataset(data(40, 1, 8, 8), torch.arange(40) % 10)
    sampler = DistributedSampler(dataset, rank=rank, num_replicas=world_size, shuffle=False)
    loader = torch.utils.data.DataLoader(dataset, batch_size=5, sampler=sampler)
    my_auto_wrap_policy = functools.partial(size_based_auto_wrap_policy, min_num_params=200)
    model = FSDP(
        fill(Net()),
        auto_wrap_policy=my_auto_wrap_policy,
        device_id=torch.device("cpu"),
        use_orig_params=True,
        sharding_strategy=ShardingStrategy.FULL_SHARD,
        backward_prefetch=BackwardPrefetch.BACKWARD_PRE,
    )
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(1, 4):
        train(None, model, rank, world_size, loader, optimizer, epoch, sampler=sampler)
        scheduler.step()
    dist.barrier()
    save_policy = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, save_policy):
        states = model.state_dict()
        optim_states = FSDP.optim_state_dict(model, optimizer)
    if rank == 0:
        print({k: tuple(v.shape) for k, v in states.items()})
        print(
            sorted(optim_states["state"])[:3],
            f"{sum(v.double().sum().item() for v in states.values()):.3f}",
        )
    else:
        print("others have", len(states)) if len(states) else None
    FSDP.set_state_dict_type(
        model,
        StateDictType.SHARDED_STATE_DICT,
        ShardedStateDictConfig(),
        ShardedOptimStateDictConfig(),
    )
    sharded = model.state_dict()
    import torch.distributed.checkpoint as dcp

    dcp.save({"model": sharded}, checkpoint_id=os.environ["CHECKPOINTS"] + "/fsdp1")
    with torch.no_grad():
        with FSDP.summon_full_params(model):
            for p in model.parameters():
                p.zero_()
    again = {"model": model.state_dict()}
    dcp.load(again, checkpoint_id=os.environ["CHECKPOINTS"] + "/fsdp1")
    model.load_state_dict(again["model"])
    train(None, model, rank, world_size, loader, optimizer, 4, sampler=sampler)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
