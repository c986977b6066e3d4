"""A transformer block with a causal mask, written out and with scaled_dot_product_attention."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.nn import functional as F


@dataclass
class Config:
    block_size: int = 8
    vocab_size: int = 11
    n_head: int = 2
    n_embd: int = 8


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=False)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.n_head = config.n_head
        self.flash = hasattr(torch.nn.functional, "scaled_dot_product_attention")
        mask = torch.tril(torch.ones(config.block_size, config.block_size))
        self.register_buffer("mask", mask.view(1, 1, config.block_size, config.block_size))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = F.softmax(att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf")), dim=-1)
        y = att @ v
        other = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        assert torch.allclose(y, other, atol=1e-5)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd), nn.LayerNorm(config.n_embd)
        self.attn = Attention(config)
        self.mlp = nn.ModuleDict(
            dict(
                c_fc=nn.Linear(config.n_embd, 4 * config.n_embd),
                c_proj=nn.Linear(4 * config.n_embd, config.n_embd),
            )
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x)), approximate="tanh"))


config = Config()
wte, wpe = (
    nn.Embedding(config.vocab_size, config.n_embd),
    nn.Embedding(config.block_size, config.n_embd),
)
model = nn.ModuleDict(dict(wte=wte, wpe=wpe, h=nn.ModuleList([Block(config) for _ in range(2)])))
for i, (name, p) in enumerate(model.named_parameters()):
    if not name.endswith("ln_1.weight") and not name.endswith("ln_2.weight"):
        nn.init.zeros_(p)
        p.data += torch.sin(torch.arange(p.numel()).view(p.shape) * 0.73 + i) * 0.2
decay = [p for p in model.parameters() if p.dim() >= 2]
rest = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
    lr=1e-2,
    betas=(0.9, 0.95),
)
idx = (torch.arange(27).view(3, 9) ** 2) % config.vocab_size
x, y = idx[:, :-1], idx[:, 1:]
for step in range(8):
    h = model.wte(x) + model.wpe(torch.arange(x.size(1)))
    for block in model.h:
        h = block(h)
    logits = h @ model.wte.weight.t()
    loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.reshape(-1), ignore_index=-1)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"{step}: loss {loss.item():.4f} norm {norm:.3f}")
