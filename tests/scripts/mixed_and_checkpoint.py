"""Accumulation, checkpointing, autocast, cosine schedule, files on disk."""

import os
import tempfile

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

net = nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.LayerNorm(8), nn.Linear(8, 1))
for i, p in enumerate(net.parameters()):
    p.data = torch.sin(torch.arange(p.numel()) + i).reshape(p.shape) * 0.5
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, nesterov=True, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)
x = torch.cos(torch.arange(32.0)).reshape(8, 4)
y = x.mean(1, keepdim=True)
for step in range(6):
    optimizer.zero_grad()
    for part_x, part_y in zip(x.chunk(2), y.chunk(2)):
        out = checkpoint(net, part_x, use_reentrant=False)
        (nn.functional.smooth_l1_loss(out, part_y) / 2).backward()
    optimizer.step()
    scheduler.step()
    print(step, f"{scheduler.get_last_lr()[0]:.5f}")
with torch.autocast("cpu", dtype=torch.bfloat16):
    print(net(x).dtype, (x @ x.t()).dtype)
path = os.path.join(tempfile.mkdtemp(), "model.pt")
torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict(), "step": 6}, path)
loaded = torch.load(path, map_location="cpu", weights_only=True)
net.load_state_dict(loaded["model"])
optimizer.load_state_dict(loaded["optimizer"])
print(
    loaded["step"],
    optimizer.param_groups[0]["momentum"],
    f"{nn.functional.mse_loss(net(x), y).item():.5f}",
)
