"""Structured pruning by dependency graphs."""

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


def pruning():
    """Pruning."""
    import torch_pruning as tp

    m = fill(
        nn.Sequential(
            nn.Conv2d(3, 8, 3),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 3),
        )
    )
    ex = picture(1, 3, 16, 16)
    p = tp.pruner.MagnitudePruner(
        m,
        ex,
        importance=tp.importance.MagnitudeImportance(p=2),
        pruning_ratio=0.5,
        ignored_layers=[m[6]],
    )
    p.step()
    return [
        m(picture(2, 3, 16, 16)).sum(),
        sum((q.numel() for q in m.parameters())),
        *tp.utils.count_ops_and_params(m, ex),
    ]


def pruning_resnet():
    """Pruning resnet."""
    import torch_pruning as tp, torchvision

    m = fill(torchvision.models.resnet18(num_classes=3)).eval()
    ex = picture(1, 3, 32, 32)
    p = tp.pruner.MagnitudePruner(
        m,
        ex,
        importance=tp.importance.GroupMagnitudeImportance(),
        pruning_ratio=0.5,
        ignored_layers=[m.fc],
    )
    p.step()
    return [m(ex).sum(), sum((q.numel() for q in m.parameters()))]


found = []
for part in (pruning, pruning_resnet):
    torch.manual_seed(0)
    found += flat(part())
say(*found)
