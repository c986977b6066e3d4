"""An in-place activation may follow any layer whose derivative does not need its own output."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F

IMAGE, ROWS = (2, 4, 6, 6), (3, 8)
LAYERS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "Linear": (lambda: nn.Linear(8, 5), ROWS),
    "Conv2d": (lambda: nn.Conv2d(4, 3, 3), IMAGE),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 3, 3), IMAGE),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(4), IMAGE),
    "BatchNorm2d eval": (lambda: nn.BatchNorm2d(4).eval(), IMAGE),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4), IMAGE),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), IMAGE),
    "LayerNorm": (lambda: nn.LayerNorm(8), ROWS),
    "RMSNorm": (lambda: nn.RMSNorm(8), ROWS),
    "AvgPool2d": (lambda: nn.AvgPool2d(2), IMAGE),
    "MaxPool2d": (lambda: nn.MaxPool2d(2), IMAGE),
    "Dropout": (lambda: nn.Dropout(0.5), ROWS),
    "GELU": (lambda: nn.GELU(), ROWS),
    "SiLU": (lambda: nn.SiLU(), ROWS),
    "Upsample": (lambda: nn.Upsample(scale_factor=2), IMAGE),
    "residual": (lambda: lambda x: x + x * 2, ROWS),
}


@pytest.mark.parametrize("name", LAYERS)
def test_relu_in_place_after(name: str) -> None:
    make, shape = LAYERS[name]
    layer = make()
    x = ad.tensor(np.random.default_rng(0).normal(size=shape), dtype=ad.float32)

    def gradient(inplace: bool) -> Any:
        ad.manual_seed(0)
        leaf = x.clone().requires_grad_()
        (F.relu(layer(leaf), inplace=inplace) ** 2).sum().backward()
        return leaf.grad.numpy()

    np.testing.assert_array_equal(gradient(True), gradient(False))
