"""The pipelining tutorial with stages that are cut out of one traced model."""

import torch, torch.nn as nn, torch.distributed as dist
from torch.distributed.pipelining import (
    pipeline,
    SplitPoint,
    ScheduleGPipe,
    Schedule1F1B,
    pipe_split,
    ScheduleInterleaved1F1B,
)
from common import fill


class Tr(nn.Module):
    def __init__(s, n=8, d=6):
        super().__init__()
        s.tok = nn.Embedding(20, d)
        s.layers = nn.ModuleDict(
            {str(i): nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.Tanh()) for i in range(n)}
        )
        s.norm = nn.LayerNorm(d)
        s.output = nn.Linear(d, 20)

    def forward(s, t):
        h = s.tok(t)
        for l in s.layers.values():
            h = l(h) + h
        return s.output(s.norm(h))


dist.init_process_group("gloo")
rank, ws = dist.get_rank(), dist.get_world_size()


def lf(o, t):
    return nn.functional.cross_entropy(o.flatten(0, 1), t.flatten())


for kind, splits in (
    (ScheduleGPipe, ["layers.4"]),
    (Schedule1F1B, ["layers.4"]),
    (ScheduleInterleaved1F1B, ["layers.2", "layers.4", "layers.6"]),
):
    m = fill(Tr())
    ex = torch.zeros(2, 5, dtype=torch.long)
    pipe = pipeline(module=m, mb_args=(ex,), split_spec={k: SplitPoint.BEGINNING for k in splits})
    n = pipe.num_stages
    st = [pipe.build_stage(i, torch.device("cpu"), dist.group.WORLD) for i in range(rank, n, ws)]
    sch = kind(st if n > 2 else st[0], n_microbatches=4, loss_fn=lf)
    mods = [s.submod for s in st]
    opt = torch.optim.SGD([p for q in mods for p in q.parameters()], lr=0.5)
    for step in range(3):
        x = (torch.arange(40).view(8, 5) * (step + 1)) % 20
        y = (x * 3 + 1) % 20
        opt.zero_grad()
        if rank == 0:
            sch.step(x)
        else:
            ls = []
            out = sch.step(target=y, losses=ls)
            print(
                kind.__name__,
                n,
                step,
                round(torch.stack(ls).mean().item(), 4),
                tuple(out.shape),
                flush=True,
            )
        opt.step()
    names = [None, None]
    dist.all_gather_object(names, [sorted(k for k in q.state_dict()) for q in mods])
    if rank == 1:
        print(len(names[0][0]), names[0][0][:2], names[1][-1][:2], flush=True)
    dist.barrier()
dist.destroy_process_group()
