# A decoder block with rotary positions, shared key heads, a cache, and a mixture of experts.
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def rotations(dim, length, theta=10000.0):
    rates = 1.0 / (theta ** (torch.arange(0, dim, 2).float() / dim))
    angles = torch.outer(torch.arange(length).float(), rates)
    return torch.polar(torch.ones_like(angles), angles)


def rotate(x, by):
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * by[None, :, None, :]).flatten(3).type_as(x)


class Experts(nn.Module):
    def __init__(self, dim, count):
        super().__init__()
        self.gate = nn.Linear(dim, count, bias=False)
        self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(count))

    def forward(self, x):
        flat = x.reshape(-1, x.size(-1))
        weights, chosen = torch.topk(
            F.softmax(self.gate(flat), dim=1, dtype=torch.float), 2, dim=-1
        )
        weights /= weights.sum(dim=-1, keepdim=True)
        out = torch.zeros_like(flat)
        mask = F.one_hot(chosen, num_classes=len(self.experts)).permute(2, 1, 0)
        for i, expert in enumerate(self.experts):
            slot, rows = torch.where(mask[i])
            out.index_add_(0, rows, expert(flat[rows]) * weights[rows, slot, None])
        return out.view_as(x)


class Block(nn.Module):
    def __init__(self, dim=8, heads=4, shared=2):
        super().__init__()
        self.heads, self.shared, self.size = heads, shared, dim // heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * shared * self.size, bias=False)
        self.norm = nn.RMSNorm(dim)
        self.mix = Experts(dim, 3)
        self.register_buffer("turns", rotations(self.size, 16), persistent=False)
        self.cache = None

    def forward(self, x, start=0, use_cache=False):
        b, t, _ = x.shape
        h = self.norm(x)
        q = self.q(h).view(b, t, self.heads, self.size)
        k, v = self.kv(h).view(b, t, 2 * self.shared, self.size).chunk(2, dim=2)
        q, k = (rotate(y, self.turns[start : start + t]) for y in (q, k))
        if use_cache:
            if self.cache is not None:
                k = torch.cat([self.cache[0], k], 1)
                v = torch.cat([self.cache[1], v], 1)
            self.cache = (k, v)
        k, v = (y.repeat_interleave(self.heads // self.shared, dim=2) for y in (k, v))
        q, k, v = (y.transpose(1, 2) for y in (q, k, v))
        mask = torch.full((t, k.size(2)), float("-inf")).triu(diagonal=start + 1)
        scores = q @ k.transpose(2, 3) / math.sqrt(self.size) + mask
        x = x + (F.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(b, t, -1)
        return x + self.mix(x)


block = Block()
with torch.no_grad():
    for i, p in enumerate(block.parameters()):
        if p.dim() > 1:
            p.copy_(torch.sin(torch.arange(p.numel()) * 0.9 + i).view_as(p) * 0.5)
        else:
            p.fill_(1.0)
x = torch.sin(torch.arange(2 * 6 * 8.0) * 0.37).view(2, 6, 8)
optimizer = torch.optim.AdamW(block.parameters(), lr=0.01, fused=False)
for step in range(4):
    loss = (block(x) - x.flip(1)).pow(2).mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(block.parameters(), 1.0)
    optimizer.step()
    print("%.4f %.3f" % (loss.item(), norm.item()))
with torch.inference_mode():
    whole = block(x)
    parts = [block(x[:, :4], 0, True), block(x[:, 4:5], 4, True), block(x[:, 5:], 5, True)]
print(torch.allclose(whole, torch.cat(parts, 1), atol=1e-5), sorted(block.state_dict()))
