"""DDP under torch.compile, a learning-rate schedule, and autocast, as in nanoGPT's train.py."""

import os
from contextlib import nullcontext
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed import init_process_group, destroy_process_group
from torch.nn.parallel import DistributedDataParallel as DDP
from common import fill, data

gradient_accumulation_steps = 4
ddp = int(os.environ.get("RANK", -1)) != -1
if ddp:
    init_process_group(backend="gloo")
    ddp_rank = int(os.environ["RANK"])
    ddp_local_rank = int(os.environ["LOCAL_RANK"])
    ddp_world_size = int(os.environ["WORLD_SIZE"])
    master_process = ddp_rank == 0
    seed_offset = ddp_rank
    assert gradient_accumulation_steps % ddp_world_size == 0
    gradient_accumulation_steps //= ddp_world_size
else:
    master_process, seed_offset, ddp_world_size, ddp_rank = True, 0, 1, 0
torch.manual_seed(1337 + seed_offset)
ctx = nullcontext()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 12), nn.Linear(12, 3)

    def forward(self, x, y):
        logits = self.b(F.gelu(self.a(x)))
        return logits, F.cross_entropy(logits, y)


model = fill(Net())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95))
scaler = torch.amp.GradScaler("cpu", enabled=False)
model = torch.compile(model)
if ddp:
    model = DDP(model)
raw_model = model.module if ddp else model
for iter_num in range(5):
    for group in optimizer.param_groups:
        group["lr"] = 1e-2 * (iter_num + 1) / 5
    for micro_step in range(gradient_accumulation_steps):
        if ddp:
            model.require_backward_grad_sync = micro_step == gradient_accumulation_steps - 1
        number = micro_step * ddp_world_size + ddp_rank
        with ctx:
            logits, loss = model(data(4, 6, seed=number + iter_num), (torch.arange(4) + number) % 3)
            loss = loss / gradient_accumulation_steps
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    if ddp:
        dist.all_reduce(loss.data)
    if master_process:
        print(
            f"iter {iter_num}: loss {loss.item() * gradient_accumulation_steps / ddp_world_size:.4f}"
        )
if ddp:
    destroy_process_group()
