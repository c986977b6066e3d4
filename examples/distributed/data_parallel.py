"""Digits by several processes, each on its share: `adjoint launch --nproc-per-node=2 FILE`."""

import adjoint as ad
import adjoint.distributed as dist
from adjoint import nn
from adjoint.data import DataLoader, DistributedSampler, TensorDataset
from adjoint.datasets import digits
from adjoint.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
ad.manual_seed(0)
images, labels = digits()
data = TensorDataset(images.reshape(-1, 64).float(), labels.long())
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)))
optimizer = ad.optim.AdamW(model.parameters(), lr=1e-2)
sampler = DistributedSampler(data)
for epoch in range(3):
    sampler.set_epoch(epoch)
    total = ad.zeros(2)
    for x, y in DataLoader(data, batch_size=32, sampler=sampler):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += ad.tensor([loss.item(), 1.0])
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        print(f"epoch {epoch}: loss {total[0] / total[1]:.4f}")
dist.destroy_process_group()
