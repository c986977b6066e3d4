"""Losses and heads of lightly, learning without labels."""

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


def lightly_losses():
    """Lightly losses."""
    from lightly.loss import (
        NTXentLoss,
        BarlowTwinsLoss,
        VICRegLoss,
        NegativeCosineSimilarity,
        DCLLoss,
        SwaVLoss,
        DINOLoss,
    )

    a, b = (picture(6, 8).requires_grad_(), picture(6, 8).flip(0))
    out = []
    for L in (NTXentLoss(), BarlowTwinsLoss(), VICRegLoss(), NegativeCosineSimilarity(), DCLLoss()):
        a.grad = None
        l = L(a, b)
        l.backward()
        out += [l.detach(), a.grad.abs().sum()]
    d = DINOLoss(output_dim=8, warmup_teacher_temp_epochs=2)
    out.append(d([b, b], [a, a, a], epoch=1).detach())
    return out


def lightly_heads():
    """Lightly heads."""
    from lightly.models.modules import (
        SimCLRProjectionHead,
        BYOLPredictionHead,
        SwaVPrototypes,
        DINOProjectionHead,
    )
    from lightly.models.utils import deactivate_requires_grad, update_momentum

    h = fill(SimCLRProjectionHead(8, 16, 4))
    x = picture(6, 8)
    r = train(h, lambda: h(x).pow(2).mean())
    d = fill(DINOProjectionHead(8, 16, 4, 12))
    r += train(d, lambda: d(x).pow(2).mean())
    s = fill(SwaVPrototypes(8, 5))
    r.append(s(x).sum())
    s.normalize()
    r.append(s(x).sum())
    return r


found = []
for part in (lightly_losses, lightly_heads):
    torch.manual_seed(0)
    found += flat(part())
say(*found)
