"""Habits of DDP users: accumulation, static graph, bucket views, hooks, sync batch norm, buffers, unused, mixed precision."""

import contextlib, os
import even
import torch, torch.nn as nn, torch.nn.functional as F
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks as default
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self, unused=False):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6)
        self.a, self.b = nn.Linear(6 * 36, 32), nn.Linear(32, 10)
        self.extra = nn.Linear(32, 10) if unused else None
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x, use_extra=False):
        self.seen += x.shape[0]
        x = F.relu(self.bn(self.conv(x))).flatten(1)
        x = F.dropout(self.a(x), 0.0)
        return self.extra(x) if use_extra else self.b(x)


def loop(tag, wrap, make=Net, accumulate=1, amp=False, steps=4, alternate=False, noise=0):
    rank, world = dist.get_rank(), dist.get_world_size()
    even.manual_seed(0)
    model = even.fill(make())
    ddp = wrap(model)
    opt = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    even.manual_seed(rank + 1)
    for step in range(steps):
        opt.zero_grad()
        total = 0.0
        for micro in range(accumulate):
            x, y = even.randn(8, 1, 8, 8), even.randint(0, 10, (8,))
            last = micro == accumulate - 1
            with contextlib.nullcontext() if last else ddp.no_sync():
                with torch.autocast("cpu", torch.bfloat16, enabled=amp):
                    out = ddp(x, use_extra=bool(step % 2)) if alternate else ddp(x)
                    loss = F.cross_entropy(out, y) / accumulate
                loss.backward()
            total += loss.detach()
        gn = nn.utils.clip_grad_norm_(ddp.parameters(), 5.0)
        opt.step()
        t = total.clone().float()
        dist.all_reduce(t)
        if rank == 0:
            d = 2 if amp else 4
            print(f"{tag} {step} {t.item() / world:.{d}f} {gn.item():.{d - 1}f}")
    return ddp


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    loop("plain", lambda m: DDP(m))
    loop("accumulate", lambda m: DDP(m), accumulate=3)
    loop("static", lambda m: DDP(m, static_graph=True))
    loop("views", lambda m: DDP(m, gradient_as_bucket_view=True, bucket_cap_mb=0.01))
    loop("no buffers", lambda m: DDP(m, broadcast_buffers=False))
    loop(
        "unused",
        lambda m: DDP(m, find_unused_parameters=True),
        make=lambda: Net(True),
        alternate=True,
    )
    loop("amp", lambda m: DDP(m), amp=True, steps=2)

    def fp16(m):
        d = DDP(m)
        d.register_comm_hook(None, default.fp16_compress_hook)
        return d

    def powered(m):
        d = DDP(m)
        d.register_comm_hook(
            power.PowerSGDState(
                process_group=None, matrix_approximation_rank=1, start_powerSGD_iter=2
            ),
            power.powerSGD_hook,
        )
        return d

    def own(m):
        d = DDP(m)

        def hook(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
            state["calls"] += 1
            t = bucket.buffer().div_(world)
            fut = dist.all_reduce(t, async_op=True).get_future()
            return fut.then(lambda f: f.value()[0])

        d.state = {"calls": 0}
        d.register_comm_hook(d.state, hook)
        return d

    loop("fp16", fp16, steps=2)
    loop("power", powered, steps=2)
    d = loop("own", own)
    assert d.state["calls"] >= 4
    with d.join():
        for i in range(2 + rank):
            d(torch.ones(2, 1, 8, 8)).sum().backward()
    data = d._get_ddp_logging_data()
    if rank == 0:
        print(
            data["world_size"],
            data["module_name"],
            data["num_parameter_tensors"],
            data["backend_name"],
            data["has_sync_bn"],
            data["broadcast_buffers"],
            data["find_unused_parameters"],
            data["gradient_as_bucket_view"],
            data["bucket_cap_bytes"],
            data["total_parameter_size_bytes"],
            data["rank"],
            data.get("comm_hook") and 1,
        )
        print(f"seen {d.module.seen.item()}")
    sd = {k: v for k, v in d.state_dict().items()}
    print(list(sd)[:3]) if rank == 0 else None
    dist.barrier()
    dist.destroy_process_group()


main()
