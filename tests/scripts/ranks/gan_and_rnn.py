"""Two networks under DDP in turn, and a recurrent language model with truncated backpropagation."""

import os, argparse
import even
import torch, torch.nn as nn, torch.nn.functional as F
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def weights_init(m):
    name = m.__class__.__name__
    if name.find("Conv") != -1:
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif name.find("BatchNorm") != -1:
        nn.init.constant_(m.weight, 1.02)
        nn.init.zeros_(m.bias)


def gan(rank, world):
    even.manual_seed(0)
    G = nn.Sequential(
        nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(True),
        nn.ConvTranspose2d(16, 1, 4, 2, 1, bias=False),
        nn.Tanh(),
    )
    D = nn.Sequential(
        nn.Conv2d(1, 16, 4, 2, 1, bias=False),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(16, 1, 4, 1, 0, bias=False),
        nn.Flatten(0),
    )
    G.apply(weights_init)
    D.apply(weights_init)
    even.fill(G)
    even.fill(D)
    G, D = DistributedDataParallel(G), DistributedDataParallel(D, broadcast_buffers=False)
    og, od = (torch.optim.Adam(n.parameters(), lr=2e-4, betas=(0.5, 0.999)) for n in (G, D))
    bce = nn.BCEWithLogitsLoss()
    g = even.Generator().manual_seed(7)
    data = TensorDataset(even.randn(32, 1, 8, 8, generator=g))
    sampler = DistributedSampler(data, num_replicas=world, rank=rank, shuffle=False)
    even.manual_seed(50 + rank)
    for epoch in range(2):
        for i, (real,) in enumerate(DataLoader(data, batch_size=4, sampler=sampler)):
            od.zero_grad()
            err_real = bce(D(real), torch.ones(4))
            err_real.backward()
            fake = G(even.randn(4, 8, 1, 1))
            err_fake = bce(D(fake.detach()), torch.zeros(4))
            err_fake.backward()
            od.step()
            og.zero_grad()
            err_g = bce(D(fake), torch.ones(4))
            err_g.backward()
            og.step()
            t = torch.stack([err_real, err_fake, err_g]).detach()
            dist.reduce(t, 0)
            if rank == 0:
                print(f"gan {epoch} {i}", [f"{v:.4f}" for v in (t / world).tolist()])


class RNN(nn.Module):
    def __init__(self, kind, vocab=30, emb=16, hid=24, layers=2):
        super().__init__()
        self.drop = nn.Dropout(0.0)
        self.encoder = nn.Embedding(vocab, emb)
        self.rnn = getattr(nn, kind)(emb, hid, layers, dropout=0.0)
        self.decoder = nn.Linear(hid, vocab)
        self.kind, self.hid, self.layers, self.vocab = kind, hid, layers, vocab

    def forward(self, x, hidden):
        out, hidden = self.rnn(self.drop(self.encoder(x)), hidden)
        return F.log_softmax(self.decoder(out).view(-1, self.vocab), 1), hidden

    def init_hidden(self, b):
        w = next(self.parameters())
        z = lambda: w.new_zeros(self.layers, b, self.hid)
        return (z(), z()) if self.kind == "LSTM" else z()


def repackage(h):
    return h.detach() if isinstance(h, torch.Tensor) else tuple(repackage(v) for v in h)


def language(rank, world, kind):
    even.manual_seed(1)
    model = DistributedDataParallel(even.fill(RNN(kind)))
    opt = torch.optim.SGD(model.parameters(), lr=1.0)
    sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.25, patience=0)
    g = even.Generator().manual_seed(11)
    corpus = even.randint(0, 30, (world, 25, 4), generator=g)[rank]
    for epoch in range(2):
        hidden, total = model.module.init_hidden(4), 0.0
        for i in range(0, 24, 6):
            model.zero_grad()
            hidden = repackage(hidden)
            out, hidden = model(corpus[i : i + 6], hidden)
            loss = F.nll_loss(out, corpus[i + 1 : i + 7].reshape(-1))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            opt.step()
            total += loss.item()
        t = torch.tensor(total, dtype=torch.float64)
        dist.all_reduce(t, dist.ReduceOp.SUM)
        sched.step(t.item())
        if rank == 0:
            print(f"{kind} {epoch} {t.item() / world / 4:.4f} lr {opt.param_groups[0]['lr']}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument(
        "--local-rank", "--local_rank", type=int, default=int(os.environ.get("LOCAL_RANK", 0))
    )
    args = p.parse_args()
    assert dist.is_available() and not dist.is_initialized() and dist.is_torchelastic_launched()
    dist.init_process_group(backend="cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    gan(rank, world)
    for kind in ("LSTM", "GRU"):
        language(rank, world, kind)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
