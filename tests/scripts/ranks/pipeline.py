"""The pipelining tutorial: manual stages, GPipe and 1F1B, and a traced split."""

import os
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.pipelining import (
    pipeline,
    SplitPoint,
    PipelineStage,
    ScheduleGPipe,
    Schedule1F1B,
)
from common import fill, data


class Transformer(nn.Module):
    def __init__(self, n_layers=8, dim=6):
        super().__init__()
        self.tok_embeddings = nn.Embedding(20, dim)
        self.layers = nn.ModuleDict(
            {
                str(i): nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.Tanh())
                for i in range(n_layers)
            }
        )
        self.norm = nn.LayerNorm(dim)
        self.output = nn.Linear(dim, 20)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens) if self.tok_embeddings else tokens
        for layer in self.layers.values():
            h = layer(h)
        h = self.norm(h) if self.norm else h
        return self.output(h) if self.output else h


def manual_model_split(model, stage_index, num_stages, device):
    per = 8 // num_stages
    for i in range(8):
        if i // per != stage_index:
            del model.layers[str(i)]
    if stage_index != 0:
        model.tok_embeddings = None
    if stage_index != num_stages - 1:
        model.norm = None
        model.output = None
    return PipelineStage(model, stage_index, num_stages, device)


def tokenwise_loss_fn(outputs, targets):
    return nn.CrossEntropyLoss()(outputs.reshape(-1, 20), targets.reshape(-1))


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    device = torch.device("cpu")
    pp_group = dist.new_group()
    for kind in (ScheduleGPipe, Schedule1F1B):
        stage = manual_model_split(fill(Transformer()), rank, size, device)
        schedule = kind(stage, n_microbatches=4, loss_fn=tokenwise_loss_fn)
        optimizer = torch.optim.SGD(stage.submod.parameters(), lr=0.5)
        for step in range(3):
            x = (torch.arange(8 * 5).view(8, 5) * (step + 1)) % 20
            y = (x * 3 + 1) % 20
            optimizer.zero_grad()
            if rank == 0:
                schedule.step(x)
            elif rank == size - 1:
                losses = []
                output = schedule.step(target=y, losses=losses)
                print(
                    f"{kind.__name__} {step} {torch.stack(losses).mean().item():.5f} {tuple(output.shape)}",
                    flush=True,
                )
            else:
                schedule.step()
            optimizer.step()
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
