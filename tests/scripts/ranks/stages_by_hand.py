"""Pipelines by hand: stages, GPipe and 1F1B, with data parallel beside."""

import os
import even
import torch, torch.nn as nn, torch.nn.functional as F
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import (
    PipelineStage,
    ScheduleGPipe,
    Schedule1F1B,
    ScheduleInterleaved1F1B,
)


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(3 * d, d)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, d=16, n=4, vocab=20):
        super().__init__()
        self.tok = nn.Embedding(vocab, d)
        self.layers = nn.ModuleDict({str(i): Layer(d) for i in range(n)})
        self.norm, self.output = nn.LayerNorm(d), nn.Linear(d, vocab)

    def forward(self, t):
        h = self.tok(t) if self.tok is not None else t
        for layer in self.layers.values():
            h = layer(h)
        h = self.norm(h) if self.norm is not None else h
        return self.output(h) if self.output is not None else h


def cut(model, stage, stages):
    per = 4 // stages
    for i in range(4):
        if i // per != stage:
            del model.layers[str(i)]
    if stage != 0:
        model.tok = None
    if stage != stages - 1:
        model.norm = model.output = None
    return model


def loss_fn(out, y):
    return F.cross_entropy(out.reshape(-1, 20), y.reshape(-1))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cpu")
    for kind in (ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B):
        many = kind is ScheduleInterleaved1F1B
        if many and world != 2:
            continue
        stages_total = 4 if many else world
        mine = [rank, rank + world] if many else [rank]
        parts = []
        for s in mine:
            even.manual_seed(0)
            parts.append(cut(even.fill(Model()), s, stages_total))
        stages = [PipelineStage(m, s, stages_total, device) for m, s in zip(parts, mine)]
        schedule = kind(stages if many else stages[0], n_microbatches=4, loss_fn=loss_fn)
        opts = [torch.optim.Adam(m.parameters(), lr=1e-2) for m in parts]
        for step in range(4):
            g = even.Generator().manual_seed(step)
            x, y = (
                even.randint(0, 20, (8, 6), generator=g),
                even.randint(0, 20, (8, 6), generator=g),
            )
            losses = []
            for o in opts:
                o.zero_grad()
            args = (x,) if rank == 0 else ()
            if rank == world - 1:
                out = schedule.step(*args, target=y, losses=losses)
            else:
                schedule.step(*args)
            for o in opts:
                o.step()
            if rank == world - 1:
                print(f"{kind.__name__} {step} {torch.stack(losses).mean().item():.5f}", flush=True)
        dist.barrier()
    dist.destroy_process_group()


main()
