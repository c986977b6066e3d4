"""minGPT-ddp: a GPT, gradient accumulation under no_sync, clipping, snapshots, ZeRO."""

import io
import math
import os
import sys
from dataclasses import dataclass, asdict
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn import functional as F
from torch.distributed import init_process_group, destroy_process_group
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler
from common import fill


@dataclass
class GPTConfig:
    block_size: int = 16
    vocab_size: int = 32
    n_layer: int = 2
    n_head: int = 2
    n_embd: int = 16


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.n_head, self.n_embd = config.n_head, config.n_embd
        self.register_buffer(
            "mask",
            torch.tril(torch.ones(config.block_size, config.block_size)).view(
                1, 1, config.block_size, config.block_size
            ),
        )

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(config.n_embd), CausalSelfAttention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd)
        self.mlp = nn.Sequential(
            nn.Linear(config.n_embd, 4 * config.n_embd),
            nn.GELU(),
            nn.Linear(4 * config.n_embd, config.n_embd),
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tok_emb = nn.Embedding(config.vocab_size, config.n_embd)
        self.pos_emb = nn.Parameter(torch.zeros(1, config.block_size, config.n_embd))
        self.blocks = nn.Sequential(*[Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)

    def forward(self, idx, targets=None):
        b, t = idx.size()
        logits = self.head(self.ln_f(self.blocks(self.tok_emb(idx) + self.pos_emb[:, :t, :])))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(
                logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1
            )
        return logits, loss


class CharDataset(Dataset):
    def __init__(self, text, block_size):
        chars = sorted(set(text))
        self.stoi = {ch: i for i, ch in enumerate(chars)}
        self.block_size, self.data = block_size, text

    def __len__(self):
        return len(self.data) - self.block_size

    def __getitem__(self, idx):
        dix = [self.stoi[s] for s in self.data[idx : idx + self.block_size + 1]]
        return torch.tensor(dix[:-1], dtype=torch.long), torch.tensor(dix[1:], dtype=torch.long)


@dataclass
class Snapshot:
    model_state: dict
    finished_epoch: int


def main():
    init_process_group(backend="gloo")
    rank = int(os.environ["RANK"])
    config = GPTConfig()
    text = "the quick brown fox jumps over the lazy dog and runs away from it all day. "
    dataset = CharDataset(text, config.block_size)
    model = fill(GPT(config))
    loader = DataLoader(
        dataset,
        batch_size=4,
        num_workers=0,
        shuffle=False,
        sampler=DistributedSampler(dataset, shuffle=False),
    )
    ddp = DDP(model, find_unused_parameters=False, gradient_as_bucket_view=True)
    optimizer = ZeroRedundancyOptimizer(
        ddp.parameters(), optimizer_class=torch.optim.AdamW, lr=3e-3
    )
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        total = torch.zeros(1)
        for i, (x, y) in enumerate(loader):
            accumulate = i % 2 == 0 and i + 1 < len(loader)
            if accumulate:
                with ddp.no_sync():
                    _, loss = ddp(x, y)
                    loss.backward()
            else:
                _, loss = ddp(x, y)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            total += loss.detach()
        dist.reduce(total, dst=0)
        if rank == 0:
            print(
                f"epoch {epoch} {total.item() / len(loader) / dist.get_world_size():.4f}",
                flush=True,
            )
    snapshot = asdict(Snapshot(ddp.module.state_dict(), 2))
    buffer = io.BytesIO()
    torch.save(snapshot, buffer)
    buffer.seek(0)
    back = torch.load(buffer, map_location="cpu", weights_only=False)
    model.load_state_dict(back["model_state"])
    optimizer.consolidate_state_dict(to=0)
    if rank == 0:
        state = optimizer.state_dict()
        print("states", len(state["state"]), back["finished_epoch"])
    destroy_process_group()


if __name__ == "__main__":
    main()
