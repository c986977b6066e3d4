"""A digits network in int8: trained in floats, calibrated, then trained feeling the rounding.

python examples/quantize_digits.py [--quick]
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

import adjoint as ad
import adjoint.quantization as q
from adjoint import nn
from adjoint.datasets import digits
from adjoint.nn import functional as F

TRAINED = 1437  # the first so many; other people wrote the rest
FUSED = [["conv1", "norm1", "relu1"], ["conv2", "norm2", "relu2"], ["hidden", "relu3"]]


class Net(nn.Module):
    """Two convolutions and two linear layers, between stubs."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = q.QuantStub(), q.DeQuantStub()
        self.conv1, self.norm1 = nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.conv2, self.norm2 = nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64)
        self.relu1, self.relu2, self.relu3 = nn.ReLU(), nn.ReLU(), nn.ReLU()
        self.hidden, self.last = nn.Linear(64 * 4, 128), nn.Linear(128, 10)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(self.relu1(self.norm1(self.conv1(self.quant(x)))), 2)
        x = F.max_pool2d(self.relu2(self.norm2(self.conv2(x))), 2)
        x = self.relu3(self.hidden(ad.flatten(x, 1)))
        return self.dequant(self.last(x))


def train(model: nn.Module, x: Any, y: Any, epochs: int, lr: float) -> None:
    """AdamW on batches of 64, compiled."""
    optimizer = ad.optim.AdamW(model.parameters(), lr=lr)
    model.train()

    def step(images: Any, labels: Any) -> Any:
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    run = ad.compile(step)
    for _ in range(epochs):
        order = ad.randperm(len(x))
        for start in range(0, len(x) - 63, 64):
            chosen = order[start : start + 64]
            run(x[chosen], y[chosen])


def accuracy(model: nn.Module, x: Any, y: Any) -> float:
    """The share of images read right."""
    model.eval()
    with ad.no_grad():
        return float((model(x).argmax(-1) == y).float().mean())


def main(quick: bool) -> None:
    ad.manual_seed(0)
    images, labels = digits()
    images = (images / 16).unsqueeze(1)
    x, y, held_x, held_y = (
        images[:TRAINED], labels[:TRAINED], images[TRAINED:], labels[TRAINED:],
    )  # fmt: skip
    model = Net()
    train(model, x, y, 2 if quick else 20, 2e-3)
    print(f"floats          {accuracy(model, held_x, held_y):.4f}")

    fused = q.fuse_modules(model.eval(), FUSED)
    fused.qconfig = q.get_default_qconfig("onednn")
    prepared = q.prepare(fused)
    with ad.no_grad():
        prepared(x[:512])
    static = q.convert(prepared)
    print(f"int8, static    {accuracy(static, held_x, held_y):.4f}")

    training = q.fuse_modules_qat(model.train(), FUSED)
    training.qconfig = q.get_default_qat_qconfig("onednn")
    training = q.prepare_qat(training)
    train(training, x, y, 1 if quick else 20, 1e-3)
    training.apply(q.disable_observer)
    aware = q.convert(training.eval())
    print(f"int8, trained   {accuracy(aware, held_x, held_y):.4f}")

    with tempfile.TemporaryDirectory() as folder:
        sizes = []
        for name, save in (("floats", fused.state_dict()), ("int8", None)):
            path = os.path.join(folder, f"{name}.safetensors")
            if save is None:
                q.save_quantized(static, path)
            else:
                ad.io.safetensors.save_file(save, path)
            sizes.append(os.path.getsize(path))
    print(f"files           {sizes[0]} and {sizes[1]} bytes: {sizes[0] / sizes[1]:.2f}")


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
