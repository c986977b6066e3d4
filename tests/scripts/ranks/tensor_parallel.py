"""The tensor-parallel tutorial: a 2D mesh, parallelize_module with sequence parallel, DTensor."""

import sys
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import (
    DTensor,
    Replicate,
    Shard,
    Partial,
    distribute_tensor,
    distribute_module,
)
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from common import fill, data


class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n_heads, self.head = heads, dim // heads
        self.wq, self.wk, self.wv = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (
            w(x).view(b, t, -1, self.head).transpose(1, 2) for w in (self.wq, self.wk, self.wv)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).contiguous().view(b, t, -1))


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention, self.feed_forward = Attention(dim, 4), FeedForward(dim, 4 * dim)

    def forward(self, x):
        h = x + self.attention(self.attention_norm(x))
        return h + self.feed_forward(self.ffn_norm(h))


class Model(nn.Module):
    def __init__(self, dim=16, vocab=24):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleDict({str(i): Block(dim) for i in range(2)})
        self.norm = nn.LayerNorm(dim)
        self.output = nn.Linear(dim, vocab)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        for layer in self.layers.values():
            h = layer(h)
        return self.output(self.norm(h))


def run(dp, tp):
    mesh = init_device_mesh("cpu", (dp, tp), mesh_dim_names=("dp", "tp"))
    tp_mesh, dp_mesh = mesh["tp"], mesh["dp"]
    model = fill(Model())
    model = parallelize_module(
        model,
        tp_mesh,
        {
            "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        },
    )
    for layer in model.layers.values():
        plan = {
            "attention_norm": SequenceParallel(),
            "attention": PrepareModuleInput(
                input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
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
        parallelize_module(layer, tp_mesh, plan)
    if dp > 1:
        for layer in model.layers.values():
            fully_shard(layer, mesh=dp_mesh)
        fully_shard(model, mesh=dp_mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=True)
    for step in range(4):
        tokens = (torch.arange(2 * 8).view(2, 8) * (step + 3) + dp_mesh.get_local_rank()) % 24
        optimizer.zero_grad()
        out = model(tokens)
        loss = F.cross_entropy(out.flatten(0, 1), tokens.roll(-1, 1).flatten())
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            print(f"{dp}x{tp} step {step} {total.item() / dist.get_world_size():.4f}", flush=True)
    w = model.layers["0"].feed_forward.w1.weight
    if dist.get_rank() == 0:
        print(type(w).__name__, tuple(w.shape), w.placements[-1])


def tensors(size):
    mesh = init_device_mesh("cpu", (size,))
    big = data(10, 12)
    rows = distribute_tensor(big, mesh, [Shard(0)])
    columns = distribute_tensor(data(12, 7), mesh, [Shard(1)])
    assert rows.shape == (10, 12)
    product = rows @ columns.redistribute(mesh, [Replicate()])
    torch.testing.assert_close(product.full_tensor(), big @ data(12, 7))
    partial = DTensor.from_local(torch.ones(3) * (dist.get_rank() + 1), mesh, [Partial()])
    print(
        partial.redistribute(placements=[Replicate()]).to_local().tolist()
    ) if dist.get_rank() == 0 else partial.full_tensor()
    total = rows.sum()
    torch.testing.assert_close(total.full_tensor(), big.sum())
    leaf = distribute_tensor(big, mesh, [Shard(0)]).requires_grad_()
    (leaf.relu() * 2).sum().backward()
    torch.testing.assert_close(leaf.grad.full_tensor(), (big > 0).float() * 2)
    local = rows.to_local()
    back = DTensor.from_local(local, mesh, [Shard(0)], shape=rows.shape, stride=rows.stride())
    torch.testing.assert_close(back.full_tensor(), big)
    if dist.get_rank() == 0:
        print("tensors", tuple(total.shape), rows.placements, tuple(local.shape))


if __name__ == "__main__":
    dist.init_process_group("gloo")
    size = dist.get_world_size()
    tensors(size)
    run(1, size)
    if size == 4:
        run(2, 2)
    dist.destroy_process_group()
