"""torch.compile around DDP, with the backward and the optimizer outside of it."""

import torch, torch.distributed as dist, torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from common import data, fill

dist.init_process_group("gloo")
rank = dist.get_rank()
m = fill(nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 2)))
m = DDP(m)
m = torch.compile(m, backend="eager")
opt = torch.optim.AdamW(m.parameters(), lr=0.01)
for i in range(4):
    opt.zero_grad()
    l = m(data(4, 6, seed=rank * 5 + i)).square().mean()
    l.backward()
    opt.step()
    t = l.detach().clone()
    dist.all_reduce(t)
    if rank == 0:
        print(i, round(t.item(), 4))
from torch.distributed.checkpoint.state_dict import get_model_state_dict

k = get_model_state_dict(m)
if rank == 0:
    print(sorted(k)[:2])
dist.destroy_process_group()
