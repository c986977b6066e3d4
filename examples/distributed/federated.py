"""Federated averaging: each process trains on data only it has, then parameters are averaged.

`adjoint launch --nproc-per-node=2 FILE`
"""

import adjoint as ad
import adjoint.distributed as dist
from adjoint import nn

dist.init_process_group("gloo")
rank = dist.get_rank()
ad.manual_seed(0)
model = nn.Linear(4, 1)
ad.manual_seed(1 + rank)
x = ad.randn(32 * (rank + 1), 4) + rank  # of different size and distribution
y = x.sum(1, keepdim=True)
weight = ad.tensor([float(len(x))])
total = weight.clone()
dist.all_reduce(total)
for _ in range(10):
    optimizer = ad.optim.SGD(model.parameters(), lr=0.02)
    for _ in range(5):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    with ad.no_grad():
        for p in model.parameters():
            p.mul_(weight / total)
            dist.all_reduce(p)
if rank == 0:
    print(f"loss {loss.item():.4f}")
dist.destroy_process_group()
