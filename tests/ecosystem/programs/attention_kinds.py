"""Attention of several kinds, and learning from two views."""

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


def byol():
    """Byol."""
    from byol_pytorch import BYOL
    import torchvision

    net = torchvision.models.resnet18(num_classes=4)
    l = BYOL(
        net,
        image_size=64,
        hidden_layer="avgpool",
        projection_size=8,
        projection_hidden_size=16,
        augment_fn=lambda x: x,
        augment_fn2=lambda x: x.flip(3),
    )
    fill(net)
    fill(l.online_encoder.projector) if l.online_encoder.projector is not None else None
    fill(l.online_predictor)
    l.target_encoder = None
    views = picture(8, 3, 64, 64)  # statistics of fewer numbers make rounding large
    return train(l, lambda: l(views), steps=2, lr=0.01)


def perceiver():
    """Perceiver."""
    from perceiver_pytorch import Perceiver, PerceiverIO

    m = fill(
        Perceiver(
            input_channels=3,
            input_axis=2,
            num_freq_bands=3,
            max_freq=10.0,
            depth=2,
            num_latents=8,
            latent_dim=16,
            cross_heads=1,
            latent_heads=2,
            cross_dim_head=8,
            latent_dim_head=8,
            num_classes=3,
            weight_tie_layers=True,
        )
    )
    return train(m, lambda: F.cross_entropy(m(picture(2, 8, 8, 3)), torch.tensor([0, 1])))


def performer():
    """Performer."""
    from performer_pytorch import PerformerLM

    m = fill(
        PerformerLM(
            num_tokens=40,
            max_seq_len=32,
            dim=16,
            depth=1,
            heads=2,
            dim_head=8,
            causal=False,
            generalized_attention=True,
            nb_features=8,
        )
    )
    i = torch.arange(32).reshape(1, 32)
    for mod in m.modules():
        if hasattr(mod, "projection_matrix"):
            mod.projection_matrix.copy_(picture(*mod.projection_matrix.shape))
    return train(m, lambda: F.cross_entropy(m(i)[0, :-1], i[0, 1:]), steps=2)


def linformer():
    """Linformer."""
    from linformer import LinformerLM

    m = fill(LinformerLM(num_tokens=40, dim=16, seq_len=16, depth=1, heads=2, k=4))
    i = torch.arange(16).reshape(1, 16)
    return train(m, lambda: F.cross_entropy(m(i)[0], i[0]), steps=2)


found = []
for part in (byol, perceiver, performer, linformer):
    torch.manual_seed(0)
    found += flat(part())
say(*found)
