"""A feed-forward layer divided by columns and rows: `adjoint launch --nproc-per-node=2 FILE`."""

import adjoint as ad
import adjoint.distributed as dist
from adjoint import nn
from adjoint.distributed.device_mesh import init_device_mesh
from adjoint.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

dist.init_process_group("gloo")
ad.manual_seed(0)  # every process begins with the same parameters and sees the same data
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model = nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 1))
parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
optimizer = ad.optim.AdamW(model.parameters(), lr=1e-2)
x = ad.randn(256, 8)
for _ in range(50):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), x.prod(1, keepdim=True))
    loss.backward()
    optimizer.step()
if dist.get_rank() == 0:
    print(f"loss {loss.item():.4f}; the first layer here is {tuple(model[0].weight.shape)}")
dist.destroy_process_group()
