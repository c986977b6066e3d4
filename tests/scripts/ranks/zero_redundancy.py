import os, copy
import even
import torch, torch.nn as nn
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP


def example(rank, world_size, use_zero, opt, bucket_view=False, **kw):
    even.manual_seed(0)
    model = even.fill(nn.Sequential(*[nn.Linear(48, 48) for _ in range(6)]))
    ddp = DDP(model, gradient_as_bucket_view=bucket_view)
    loss_fn = nn.MSELoss()
    if use_zero:
        optimizer = ZeroRedundancyOptimizer(
            ddp.parameters(), optimizer_class=opt, parameters_as_bucket_view=bucket_view, **kw
        )
    else:
        optimizer = opt(ddp.parameters(), **kw)
    sched = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    even.manual_seed(10 + rank)
    for step in range(5):
        optimizer.zero_grad()
        loss = loss_fn(ddp(even.randn(20, 48)), even.randn(20, 48))
        loss.backward()
        optimizer.step()
        sched.step()
        t = loss.detach().clone()
        dist.all_reduce(t, op=dist.ReduceOp.SUM)
        if rank == 0:
            print(
                f"{opt.__name__} zero={use_zero} view={bucket_view} {step} {t.item() / world_size:.4f} lr {sched.get_last_lr()[0]:.4f}"
            )
    if use_zero:
        optimizer.consolidate_state_dict(to=0)
        if rank == 0:
            sd = optimizer.state_dict()
            print(
                sorted(sd),
                len(sd["state"]),
                sorted(sd["state"][0]),
                [len(g["params"]) for g in sd["param_groups"]],
            )
    s = sum(p.detach().sum() for p in ddp.parameters())
    print_all(rank, f"sum {s.item():.2f}")
    return ddp


def print_all(rank, text):
    for r in range(dist.get_world_size()):
        if r == rank:
            print(f"[{rank}] {text}", flush=True)
        dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    for zero in (False, True):
        example(rank, world, zero, torch.optim.Adam, lr=0.01)
        example(rank, world, zero, torch.optim.SGD, lr=0.01, momentum=0.9, weight_decay=1e-3)
        example(rank, world, zero, torch.optim.AdamW, bucket_view=True, lr=0.01, amsgrad=True)
    # state goes round: gather on each rank in turn, load back
    even.manual_seed(0)
    m = even.fill(nn.Linear(7, 3))
    z = ZeroRedundancyOptimizer(
        [{"params": [m.weight], "lr": 0.1}, {"params": [m.bias], "lr": 0.5}],
        torch.optim.RMSprop,
        lr=0.01,
    )
    for i in range(3):
        z.zero_grad(set_to_none=True)
        m(torch.ones(2, 7)).pow(2).sum().backward()
        z.step(closure=None)
    z.consolidate_state_dict(to=world - 1)
    if rank == world - 1:
        print(
            f"last has {[g['lr'] for g in z.state_dict()['param_groups']]} {m.weight.sum().item():.5f}"
        )
    try:
        if rank != world - 1:
            z.state_dict()
    except RuntimeError as e:
        print_all(rank, "RuntimeError") if world == 1 else None
    dist.destroy_process_group()
