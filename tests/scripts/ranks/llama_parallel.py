"""Tensor and sequence parallel with FSDP over a 2D mesh, on a Llama-like model."""

import os, sys
import even
import torch, torch.nn as nn, torch.nn.functional as F
import torch.distributed as dist
from torch.distributed._tensor import Replicate, Shard
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
    loss_parallel,
)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight

    def reset_parameters(self):
        torch.nn.init.ones_(self.weight)


def rope(x, cos, sin):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n_heads, self.head_dim = heads, dim // heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        q = q.view(b, t, -1, self.head_dim).transpose(1, 2)
        k = k.view(b, t, -1, self.head_dim).transpose(1, 2)
        v = v.view(b, t, -1, self.head_dim).transpose(1, 2)
        y = F.scaled_dot_product_attention(rope(q, cos, sin), rope(k, cos, sin), v, is_causal=True)
        return self.wo(y.transpose(1, 2).contiguous().view(b, t, -1))


class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1, self.w3 = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention, self.feed_forward = Attention(dim, heads), FeedForward(dim, 4 * dim)
        self.attention_norm, self.ffn_norm = RMSNorm(dim), RMSNorm(dim)

    def forward(self, x, cos, sin):
        h = x + self.attention(self.attention_norm(x), cos, sin)
        return h + self.feed_forward(self.ffn_norm(h))


class Llama(nn.Module):
    def __init__(self, vocab=64, dim=32, heads=4, layers=2, length=16):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm, self.output = RMSNorm(dim), nn.Linear(dim, vocab, bias=False)
        hd = dim // heads
        f = torch.outer(
            torch.arange(length).float(), 1.0 / (10000 ** (torch.arange(0, hd, 2).float() / hd))
        )
        self.register_buffer("cos", f.cos(), persistent=False)
        self.register_buffer("sin", f.sin(), persistent=False)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        t = tokens.shape[1]
        for layer in self.layers:
            h = layer(h, self.cos[:t], self.sin[:t])
        return self.output(self.norm(h))


def apply_tp(model, mesh, use_loss_parallel):
    parallelize_module(
        model,
        mesh,
        {
            "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "output": ColwiseParallel(
                input_layouts=Shard(1),
                output_layouts=Shard(-1) if use_loss_parallel else Replicate(),
                use_local_output=not use_loss_parallel,
            ),
        },
    )
    plan = {
        "attention_norm": SequenceParallel(),
        "attention": PrepareModuleInput(
            input_layouts=(Shard(1), None, None), desired_input_layouts=(Replicate(), None, None)
        ),
        "attention.wq": ColwiseParallel(),
        "attention.wk": ColwiseParallel(),
        "attention.wv": ColwiseParallel(),
        "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
        "ffn_norm": SequenceParallel(),
        "feed_forward": PrepareModuleInput(
            input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
        ),
        "feed_forward.w1": ColwiseParallel(),
        "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
        "feed_forward.w3": ColwiseParallel(),
    }
    for block in model.layers:
        parallelize_module(block, mesh, plan)


def main():
    world = int(os.environ["WORLD_SIZE"])
    tp = 2
    mesh = init_device_mesh("cpu", (world // tp, tp), mesh_dim_names=("dp", "tp"))
    rank = dist.get_rank()
    tp_mesh, dp_mesh = mesh["tp"], mesh["dp"]
    dp_rank = dp_mesh.get_local_rank()
    for lp in (False, True):
        even.manual_seed(1)
        model = even.fill(Llama())
        apply_tp(model, tp_mesh, lp)
        if dp_mesh.size() > 1:
            for block in model.layers:
                fully_shard(block, mesh=dp_mesh)
            fully_shard(model, mesh=dp_mesh)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=True)
        even.manual_seed(100 + dp_rank)
        for step in range(4):
            x = even.randint(64, (4, 16))
            if lp:
                with loss_parallel():
                    out = model(x)
                    loss = F.cross_entropy(out.flatten(0, 1), x.roll(-1, 1).flatten())
                    loss.backward()
            else:
                out = model(x)
                loss = F.cross_entropy(out.flatten(0, 1), x.roll(-1, 1).flatten())
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            value = loss.full_tensor() if hasattr(loss, "full_tensor") else loss
            t = value.detach().clone()
            dist.all_reduce(t)
            if rank == 0:
                print(f"loss_parallel={lp} step {step} {t.item() / world:.4f}")
    if rank == 0:
        w = model.layers[0].attention.wq.weight
        print(tuple(w.shape), w.placements, mesh.mesh_dim_names)
    dist.destroy_process_group()


main()
