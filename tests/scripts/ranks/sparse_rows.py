import torch, torch.nn as nn, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
R, W = dist.get_rank(), dist.get_world_size()


class Net(nn.Module):
    def __init__(s, bag):
        super().__init__()
        s.emb = (
            nn.EmbeddingBag(12, 3, sparse=True, mode="sum")
            if bag
            else nn.Embedding(12, 3, sparse=True)
        )
        s.lin = nn.Linear(3, 2)
        with torch.no_grad():
            for p in s.parameters():
                p.copy_(torch.arange(p.numel()).reshape(p.shape).float().sin())

    def forward(s, x):
        h = s.emb(x)
        return s.lin(h if h.dim() == 2 else h.mean(1))


for bag in (False, True):
    m = DDP(Net(bag))
    dense = torch.optim.SGD(m.module.lin.parameters(), 0.1)
    sp = torch.optim.SparseAdam(list(m.module.emb.parameters()), 0.05)
    for i in range(4):
        x = torch.tensor([[R, (R + i) % 12, 3], [7, 7, i]]) if R == 0 else torch.tensor([[R, 5, 5]])
        if i == 2:
            with m.no_sync():
                m(x).pow(2).sum().backward()
        l = m(x).pow(2).sum()
        l.backward()
        g = m.module.emb.weight.grad
        if R == 0:
            print(
                bag,
                i,
                g.is_sparse,
                g.is_coalesced(),
                g.coalesce().indices().tolist(),
                f"{g.to_dense().sum().item():.4f} {l.item():.4f}",
            )
        dense.step()
        sp.step()
        dense.zero_grad()
        sp.zero_grad()
    s = m.module.emb.weight.detach().sum()
    t = s.clone()
    dist.broadcast(t, 0)
    assert abs(s - t) < 1e-6
    if R == 0:
        print(f"{s.item():.5f}")
dist.destroy_process_group()
