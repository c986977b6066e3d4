"""Optimal transport by POT on tensors."""

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


def pot():
    """Pot."""
    import ot

    x, y = (picture(6, 2), picture(5, 2).flip(0) + 0.1)
    M = ot.dist(x, y)
    a = torch.full((6,), 1 / 6)
    b = torch.full((5,), 1 / 5)
    x.requires_grad_()
    l = ot.sinkhorn2(a, b, ot.dist(x, y), 0.5)
    l.backward()
    e = ot.emd2(a, b, M)
    sw = ot.sliced_wasserstein_distance(x.detach(), y, n_projections=10, seed=0)
    return [
        l.detach(),
        x.grad,
        e,
        ot.emd(a, b, M),
        ot.gromov_wasserstein2(ot.dist(x.detach(), x.detach()), ot.dist(y, y), a, b),
        ot.unbalanced.sinkhorn_unbalanced2(a, b, M, 0.5, 1.0),
        ot.barycenter(torch.stack([a, a], 1), ot.dist(x.detach(), x.detach()), 0.5),
    ]


found = []
for part in (pot,):
    torch.manual_seed(0)
    found += flat(part())
say(*found)
