"""Helpers of training loops: searches of learning rates, warm-ups, Poutyne, ensembles, Prodigy."""

import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from common import fill, flat, picture, say, train
from torch import nn


def data(n=16, d=4):
    """Points and their classes."""
    x = picture(n, d)
    return x, (x.sum(1) > 0).long()


def lr_finder():
    """Lr finder."""
    from torch_lr_finder import LRFinder
    from torch.utils.data import DataLoader, TensorDataset

    x, y = data()
    m = fill(nn.Linear(4, 2))
    o = torch.optim.SGD(m.parameters(), lr=0.001)
    f = LRFinder(m, o, nn.CrossEntropyLoss(), device="cpu")
    f.range_test(DataLoader(TensorDataset(x, y), batch_size=4), end_lr=1, num_iter=8)
    h = f.history
    f.reset()
    return h["loss"] + h["lr"] + [m.weight.sum()]


def warmup():
    """Warmup."""
    import pytorch_warmup as W

    m = fill(nn.Linear(4, 2))
    o = torch.optim.AdamW(m.parameters(), lr=0.1)
    s = torch.optim.lr_scheduler.CosineAnnealingLR(o, 20)
    out = []
    for K in (
        W.LinearWarmup(o, 5),
        W.ExponentialWarmup(o, 5),
        W.UntunedLinearWarmup(o),
        W.RAdamWarmup(o),
    ):
        for _ in range(4):
            o.zero_grad()
            m(picture(3, 4)).pow(2).sum().backward()
            o.step()
            with K.dampening():
                s.step()
            out.append(o.param_groups[0]["lr"])
    return out + [m.weight.sum()]


def poutyne():
    """Poutyne."""
    from poutyne import Model, Experiment, EarlyStopping, ModelCheckpoint, CSVLogger

    x, y = data()
    m = fill(nn.Linear(4, 2))
    o = Model(
        m,
        torch.optim.SGD(m.parameters(), 0.1),
        "cross_entropy",
        batch_metrics=["accuracy"],
        epoch_metrics=["f1"],
    )
    with tempfile.TemporaryDirectory() as d:
        h = o.fit(
            x.numpy(),
            y.numpy(),
            validation_data=(x.numpy(), y.numpy()),
            epochs=3,
            batch_size=16,
            verbose=False,
            callbacks=[
                EarlyStopping(patience=2),
                ModelCheckpoint(d + "/m.pt"),
                CSVLogger(d + "/l.csv"),
            ],
        )
        o.load_weights(d + "/m.pt")
    return [v for e in h for k, v in e.items() if k != "time"] + [
        o.evaluate(x.numpy(), y.numpy(), verbose=False)[0],
        o.predict(x.numpy(), verbose=False).sum(),
    ]


def ensembles():
    """Ensembles."""
    from torchensemble import VotingClassifier, FusionClassifier, SnapshotEnsembleClassifier
    from torch.utils.data import DataLoader, TensorDataset

    class B(nn.Module):
        def __init__(s):
            super().__init__()
            s.l = nn.Linear(4, 2)
            fill(s)

        def forward(s, x):
            return s.l(x)

    x, y = data()
    dl = DataLoader(TensorDataset(x, y), batch_size=8)
    out = []
    for K in (FusionClassifier,):
        e = K(B, 3, cuda=False)
        e.set_optimizer("SGD", lr=0.1)
        e.fit(dl, epochs=2, log_interval=100, save_model=False)
        out.append(e.predict(x).sum())
        out.append(e.evaluate(dl))
    return out


def prodigy():
    """Prodigy."""
    from prodigyopt import Prodigy

    m = fill(nn.Linear(4, 2))
    o = Prodigy(m.parameters(), lr=1.0)
    out = []
    for _ in range(4):
        o.zero_grad()
        l = m(picture(5, 4)).pow(2).mean()
        l.backward()
        o.step()
        out.append(l.detach())
    return out


def tcn():
    """Tcn."""
    from pytorch_tcn import TCN

    m = fill(
        TCN(
            num_inputs=3,
            num_channels=[4, 4],
            kernel_size=3,
            dropout=0.0,
            causal=True,
            use_norm="weight_norm",
            activation="relu",
            use_skip_connections=True,
        )
    )
    return train(m, lambda: m(picture(2, 3, 10)).pow(2).mean())


found = []
for part in (lr_finder, warmup, poutyne, ensembles, prodigy, tcn):
    torch.manual_seed(0)
    found += flat(part())
say(*found)
