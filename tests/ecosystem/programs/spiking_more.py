"""Neurons of snntorch over time."""

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


def snn_more():
    """Snn more."""
    import snntorch as snn

    out = []
    x = picture(5, 3, 4).abs() * 2
    for L in (
        snn.Synaptic(alpha=0.9, beta=0.8),
        snn.Lapicque(beta=0.5),
        snn.Alpha(alpha=0.9, beta=0.8),
        snn.RLeaky(beta=0.9, linear_features=4),
        snn.SLSTM(4, 4),
    ):
        if any((True for _ in L.parameters())):
            fill(L)
        st = None
        for t in range(5):
            try:
                o = L(x[t]) if st is None else L(x[t], *st)
            except TypeError:
                o = L(x[t])
            st = o[1:]
        out.append(o[-1].sum())
    return out


found = []
for part in (snn_more,):
    torch.manual_seed(0)
    found += flat(part())
say(*found)
