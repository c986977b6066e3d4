"""Contrastive learning: features gathered with gradients; object collectives for metrics; subgroups."""

import os
import even
import torch, torch.nn as nn, torch.nn.functional as F
import torch.distributed as dist
import torch.distributed.nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Pairs(Dataset):
    def __init__(self, n=50):
        g = even.Generator().manual_seed(0)
        self.x = even.randn(n, 20, generator=g)
        self.noise = 0.1 * even.randn(2, n, 20, generator=g)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i] + self.noise[0, i], self.x[i] + self.noise[1, i], i


class GatherLayer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(out, x)
        return tuple(out)

    @staticmethod
    def backward(ctx, *grads):
        grads = torch.stack(grads)
        dist.all_reduce(grads)
        return grads[dist.get_rank()]


def info_nce(a, b, t=0.2):
    a, b = F.normalize(a, dim=1), F.normalize(b, dim=1)
    logits = a @ b.T / t
    return F.cross_entropy(logits, torch.arange(len(a)))


def main():
    dist.init_process_group("gloo", init_method="env://")
    rank, world = dist.get_rank(), dist.get_world_size()
    for way in ("function", "nn"):
        even.manual_seed(4)
        net = DDP(even.fill(nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 8))))
        opt = torch.optim.Adam(net.parameters(), lr=1e-2)
        data = Pairs()
        sampler = DistributedSampler(data, shuffle=False, seed=3, drop_last=True)
        loader = DataLoader(data, batch_size=5, sampler=sampler, drop_last=True, num_workers=0)
        for epoch in range(2):
            sampler.set_epoch(epoch)
            seen, losses = [], []
            for u, v, i in loader:
                zu, zv = net(u), net(v)
                gather = (
                    GatherLayer.apply
                    if way == "function"
                    else torch.distributed.nn.functional.all_gather
                )
                loss = info_nce(torch.cat(gather(zu)), torch.cat(gather(zv)))
                opt.zero_grad()
                loss.backward()
                opt.step()
                seen += i.tolist()
                losses.append(loss.item())
            rows = [None] * world
            dist.all_gather_object(rows, {"rank": rank, "seen": seen})
            if rank == 0:
                everything = sorted(sum((r["seen"] for r in rows), []))
                print(
                    way, epoch, [f"{l:.4f}" for l in losses], len(set(everything)), sum(everything)
                )
    # objects
    cfg = [{"lr": 0.1, "names": ["a", "b"]}, "x"] if rank == 0 else [None, None]
    dist.broadcast_object_list(cfg, src=0)
    got = [None]
    dist.scatter_object_list(got, [f"for {r}" for r in range(world)] if rank == 0 else None, src=0)
    gathered = [None] * world if rank == world - 1 else None
    dist.gather_object((rank, got[0], cfg[0]["lr"]), gathered, dst=world - 1)
    if rank == world - 1:
        print(gathered)
    # subgroups, send and recv, ring
    evens = dist.new_group(list(range(0, world, 2)))
    if rank % 2 == 0:
        t = torch.tensor([rank + 1.0])
        dist.all_reduce(t, op=dist.ReduceOp.PRODUCT, group=evens)
    x, y = torch.full((3,), float(rank)), torch.empty(3)
    ops = [
        dist.P2POp(dist.isend, x, (rank + 1) % world),
        dist.P2POp(dist.irecv, y, (rank - 1) % world),
    ]
    for r in dist.batch_isend_irecv(ops):
        r.wait()
    assert y[0].item() == (rank - 1) % world
    out = torch.empty(world * 2)
    dist.all_gather_into_tensor(out, torch.tensor([rank, -rank], dtype=torch.float32))
    rs = torch.empty(2)
    dist.reduce_scatter_tensor(rs, out)
    a2a = torch.empty(world, dtype=torch.int64)
    dist.all_to_all_single(a2a, torch.arange(world) + 10 * rank)
    works = [dist.all_reduce(torch.ones(4) * k, async_op=True) for k in range(5)]
    [w.wait() for w in works]
    dist.monitored_barrier()
    print_in_turn(
        rank,
        world,
        f"{out.tolist()} {rs.tolist()} {a2a.tolist()} {[w.is_completed() for w in works][:1]}",
    )
    # gradients through collectives
    p = torch.tensor([float(rank + 1)], requires_grad=True)
    (torch.distributed.nn.functional.all_reduce(p * p) * (rank + 1)).sum().backward()
    q = torch.tensor([float(rank + 1)], requires_grad=True)
    torch.distributed.nn.functional.reduce_scatter(
        torch.zeros(1), [q * (k + 1) for k in range(world)]
    ).sum().backward()
    print_in_turn(rank, world, f"{p.grad.item()} {q.grad.item()}")
    dist.destroy_process_group()


def print_in_turn(rank, world, text):
    for r in range(world):
        if r == rank:
            print(rank, text, flush=True)
        dist.barrier()


if __name__ == "__main__":
    main()
