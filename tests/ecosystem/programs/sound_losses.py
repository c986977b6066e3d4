"""Filters, spectra and losses of sound; cosine transforms."""

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


def julius():
    """Julius."""
    import julius

    x = picture(1, 1, 2000)
    return [
        julius.resample_frac(x, 4, 5).abs().sum(),
        julius.lowpass_filter(x, 0.1).abs().sum(),
        julius.split_bands(x, 1000, n_bands=3),
        julius.fft_conv1d(x, picture(1, 1, 64)).abs().sum(),
        julius.highpass_filter(x, 0.1).abs().sum(),
    ]


def aura():
    """Aura."""
    import auraloss

    # All frequencies one after the other: a logarithm of what a pure tone has besides is rounding.
    rising = torch.sin(torch.arange(8000.0).pow(2) * 2e-4).reshape(2, 1, 4000)
    a, b = rising.clone().requires_grad_(), rising.flip(2)
    out = []
    for L in (
        auraloss.freq.STFTLoss(fft_size=256, hop_size=64, win_length=256),
        auraloss.freq.MultiResolutionSTFTLoss(
            fft_sizes=[256, 128], hop_sizes=[64, 32], win_lengths=[256, 128]
        ),
        auraloss.time.SISDRLoss(),
        auraloss.time.ESRLoss(),
        auraloss.time.LogCoshLoss(),
        auraloss.time.SNRLoss(),
        auraloss.time.SDSDRLoss(),
    ):
        a.grad = None
        l = L(a, b)
        l.backward()
        out += [l.detach(), a.grad.abs().sum()]
    return out


def dct():
    """Dct."""
    import torch_dct as d

    x = picture(3, 8).requires_grad_()
    l = d.dct(x)
    l.pow(3).sum().backward()
    return [
        l.detach().sum(),
        x.grad.sum(),
        d.idct(l).sum().detach(),
        d.dct_2d(picture(4, 4)),
        d.dct1(picture(8)),
    ]


found = []
for part in (julius, aura, dct):
    torch.manual_seed(0)
    found += flat(part())
say(*found)
