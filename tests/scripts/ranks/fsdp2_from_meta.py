"""FSDP2 as its tutorial has it: meta init, mixed precision, prefetch, broadcast of a full state, DCP round trip."""

import os, shutil, tempfile
import even
import torch, torch.nn as nn, torch.nn.functional as F
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor


class Args:
    dim, heads, layers, vocab, length = 32, 4, 3, 64, 16


class Attention(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.heads, self.hd = a.heads, a.dim // a.heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(a.dim, a.dim, bias=False) for _ in range(4))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (
            w(x).view(b, t, self.heads, self.hd).transpose(1, 2)
            for w in (self.wq, self.wk, self.wv)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).contiguous().view(b, t, c))


class Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.attn_norm, self.ffn_norm = nn.LayerNorm(a.dim), nn.LayerNorm(a.dim)
        self.attn = Attention(a)
        self.ffn = nn.Sequential(
            nn.Linear(a.dim, 4 * a.dim), nn.GELU(), nn.Linear(4 * a.dim, a.dim)
        )

    def forward(self, x):
        x = x + self.attn(self.attn_norm(x))
        return x + self.ffn(self.ffn_norm(x))


class Transformer(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.tok, self.pos = nn.Embedding(a.vocab, a.dim), nn.Embedding(a.length, a.dim)
        self.layers = nn.ModuleList(Block(a) for _ in range(a.layers))
        self.norm, self.output = nn.LayerNorm(a.dim), nn.Linear(a.dim, a.vocab, bias=False)

    def forward(self, tokens):
        h = self.tok(tokens) + self.pos(torch.arange(tokens.size(1), device=tokens.device))
        for layer in self.layers:
            h = layer(h)
        return self.output(self.norm(h)).float()


class AppState(Stateful):
    def __init__(self, model, optimizer=None):
        self.model, self.optimizer = model, optimizer

    def state_dict(self):
        m, o = get_state_dict(self.model, self.optimizer)
        return {"model": m, "optim": o}

    def load_state_dict(self, state):
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optim"],
        )


def build(seed_state, mp=None, mesh=None):
    with torch.device("meta"):
        model = Transformer(Args)
    kw = {"mesh": mesh} if mesh is not None else {}
    if mp is not None:
        kw["mp_policy"] = mp
    for layer in model.layers:
        fully_shard(layer, **kw)
    fully_shard(model, **kw)
    assert isinstance(model, FSDPModule) and isinstance(model.layers[0], FSDPModule)
    for p in model.parameters():
        assert isinstance(p, DTensor)
    for i, layer in enumerate(model.layers[:-1]):
        layer.set_modules_to_forward_prefetch([model.layers[i + 1]])
    model.to_empty(device="cpu")
    set_model_state_dict(
        model,
        dict(seed_state),
        options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True),
    )
    return model


def train(model, optim, steps, rank, world, tag, seed=5):
    g = even.Generator().manual_seed(seed)
    for step in range(steps):
        x = even.randint(0, Args.vocab, (4 * world, Args.length), generator=g)
        mine = x[rank::world]
        loss = F.cross_entropy(model(mine[:, :-1]).flatten(0, 1), mine[:, 1:].flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        if isinstance(norm, DTensor):
            norm = norm.full_tensor()
        optim.step()
        optim.zero_grad()
        t = loss.detach().clone()
        dist.all_reduce(t, op=dist.ReduceOp.AVG) if dist.get_backend() == "nccl" else (
            dist.all_reduce(t),
            t.div_(world),
        )
        if rank == 0:
            digits = 2 if tag == "bf16" else 4
            print(f"{tag} {step} loss {t.item():.{digits}f} norm {norm.item():.{digits}f}")


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    even.manual_seed(0)
    full = even.fill(Transformer(Args)).state_dict() if rank == 0 else {}
    model = build(full)
    optim = torch.optim.AdamW(model.parameters(), lr=1e-2)
    train(model, optim, 4, rank, world, "plain")
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    dcp.save({"app": AppState(model, optim)}, checkpoint_id=os.path.join(folder[0], "step4"))
    train(model, optim, 2, rank, world, "went on", seed=9)
    other = build(full)
    other_optim = torch.optim.AdamW(other.parameters(), lr=1e-2)
    state = {"app": AppState(other, other_optim)}
    dcp.load(state, checkpoint_id=os.path.join(folder[0], "step4"))
    train(other, other_optim, 2, rank, world, "again  ", seed=9)
    whole = get_model_state_dict(
        other, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
    )
    if rank == 0:
        print(len(whole), f"{sum(v.double().abs().sum().item() for v in whole.values()):.1f}")
    else:
        assert not whole
    w = other.layers[0].attn.wq.weight
    print(w.placements, tuple(w.shape), tuple(w.to_local().shape)) if rank == 0 else None
    full_w = w.full_tensor()
    assert full_w.shape == (32, 32)
    if world >= 4:
        mesh = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicate", "shard"))
        hsdp = build(full, mesh=mesh)
        train(hsdp, torch.optim.AdamW(hsdp.parameters(), lr=1e-2), 4, rank, world, "hsdp")
    half = build(
        full, mp=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    )
    train(half, torch.optim.SGD(half.parameters(), lr=0.05), 1, rank, world, "bf16")
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder[0])
    dist.destroy_process_group()


main()
