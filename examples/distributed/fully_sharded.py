"""A small GPT whose parameters are divided: `adjoint launch --nproc-per-node=2 FILE`."""

import adjoint as ad
import adjoint.distributed as dist
from adjoint.distributed.fsdp import fully_shard
from adjoint.models import GPT2, GPT2Config
from adjoint.nn import functional as F

dist.init_process_group("gloo")
ad.manual_seed(0)
model = GPT2(GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2, dropout=0.0))
whole = sum(p.numel() for p in model.parameters())
for block in model.transformer["h"]:
    fully_shard(block)
fully_shard(model)
optimizer = ad.optim.AdamW(model.parameters(), lr=3e-3)
tokens = (ad.arange(33) * 7 % 64).repeat(4, 1)
for _ in range(20):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(tokens[:, :-1]).reshape(-1, 64), tokens[:, 1:].reshape(-1))
    loss.backward()
    ad.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
if dist.get_rank() == 0:
    own_elements = sum(p.numel() for p in model.parameters())
    print(f"loss {loss.item():.4f}; {own_elements} of {whole} parameters are kept here")
dist.destroy_process_group()
