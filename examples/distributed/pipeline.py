"""A model in stages, one per process: `adjoint launch --nproc-per-node=2 FILE`."""

import adjoint as ad
import adjoint.distributed as dist
from adjoint import nn
from adjoint.distributed.pipelining import PipelineStage, Schedule1F1B

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
ad.manual_seed(rank)
part = nn.Sequential(nn.Linear(8, 8), nn.Tanh()) if rank < size - 1 else nn.Linear(8, 1)
schedule = Schedule1F1B(PipelineStage(part, rank, size), 4, nn.functional.mse_loss)
optimizer = ad.optim.AdamW(part.parameters(), lr=1e-2)
x = ad.randn(64, 8, generator=ad.Generator().manual_seed(1))
losses: list[ad.Tensor] = []
for _ in range(50):
    optimizer.zero_grad()
    given = (x,) if rank == 0 else ()
    schedule.step(
        *given, target=x.sum(1, keepdim=True) if rank == size - 1 else None, losses=losses
    )
    optimizer.step()
if rank == size - 1:
    print(f"loss {ad.stack(losses).mean():.4f}")
dist.destroy_process_group()
