"""Uneven inputs: the join tutorial with DDP and ZeRO together, and a Joinable of its own."""

import torch, torch.distributed as dist, torch.nn as nn
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.distributed.optim import ZeroRedundancyOptimizer as ZeRO
from torch.nn.parallel import DistributedDataParallel as DDP
from common import fill

dist.init_process_group("gloo")
rank = dist.get_rank()
NUM = 5
model = DDP(fill(nn.Linear(1, 1)))
optim = ZeRO(model.parameters(), torch.optim.Adam, lr=0.01)
inputs = [torch.tensor([1.0]).float() for _ in range(NUM + rank)]
n = 0
with Join([model, optim]):
    for x in inputs:
        n += 1
        loss = model(x).sum()
        loss.backward()
        optim.step()
print_ = lambda *a: print(*a, flush=True) if rank == 0 else None
w = model.module.weight.detach().clone()
ws = [torch.zeros_like(w) for _ in range(2)]
dist.all_gather(ws, w)
cnt = [None, None]
dist.all_gather_object(cnt, n)
print_(cnt, round(ws[0].item(), 4), torch.equal(ws[0], ws[1]))


class CounterJoinHook(JoinHook):
    def __init__(s, c, sync):
        s.counter = c
        s.sync = sync

    def main_hook(s):
        dist.all_reduce(torch.zeros(1))

    def post_hook(s, is_last):
        if s.sync:
            r_ = s.counter.find_common_rank(s.counter.rank, is_last)
            if s.counter.rank == r_:
                s.counter.max_count = s.counter.count.detach().clone()
            dist.broadcast(s.counter.max_count, src=r_)


class Counter(Joinable):
    def __init__(s, dev, pg):
        super().__init__()
        s.dev = dev
        s.pg = pg
        s.rank = dist.get_rank(pg)
        s.world_size = dist.get_world_size(pg)
        s.count = torch.tensor([0]).float()
        s.max_count = torch.tensor([0]).float()

    def __call__(s):
        Join.notify_join_context(s)
        t = torch.ones(1).float()
        dist.all_reduce(t)
        s.count += t

    def join_hook(s, **kw):
        return CounterJoinHook(s, kw.get("sync_max_count"))

    @property
    def join_device(s):
        return s.dev

    @property
    def join_process_group(s):
        return s.pg

    def find_common_rank(s, rank, consider):
        c = torch.tensor([rank if consider else -1])
        dist.all_reduce(c, op=dist.ReduceOp.MAX)
        return int(c.item())


c = Counter(torch.device("cpu"), dist.group.WORLD)
with Join([c], sync_max_count=True):
    for _ in range(NUM + rank):
        c()
print_(int(c.count.item()), int(c.max_count.item()))
m = DDP(fill(nn.Linear(2, 1)))
with m.join(divide_by_initial_world_size=False):
    for i in range(2 + rank):
        m(torch.ones(1, 2) * (rank + 1)).sum().backward()
print_("ok")
dist.destroy_process_group()
