"""A digits network in int8: trained in floats, calibrated, then trained feeling the rounding.

python examples/quantize_digits.py [--quick] [--folds 5]

With folds every image is read by networks that have not seen it, which tells a loss from chance
better than the 360 last images do.
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


def right(model: nn.Module, x: Any, y: Any) -> int:
    """How many images are read right."""
    model.eval()
    with ad.no_grad():
        return int((model(x).argmax(-1) == y).sum())


def calibrated(model: nn.Module, x: Any) -> tuple[nn.Module, nn.Module]:
    """A model of floats with its layers fused, and the same in int8 by the ranges it was in."""
    fused = q.fuse_modules(model.eval(), FUSED)
    fused.qconfig = q.get_default_qconfig("onednn")
    prepared = q.prepare(fused)
    with ad.no_grad():
        prepared(x[:512])
    return fused, q.convert(prepared)


def trained_further(model: nn.Module, x: Any, y: Any, epochs: int) -> nn.Module:
    """The same in int8, trained on feeling the rounding."""
    training = q.fuse_modules_qat(model.train(), FUSED)
    training.qconfig = q.get_default_qat_qconfig("onednn")
    training = q.prepare_qat(training)
    train(training, x, y, epochs, 1e-3)
    training.apply(q.disable_observer)
    return q.convert(training.eval())


def three(x: Any, y: Any, quick: bool) -> dict[str, nn.Module]:
    """A network of floats and what it becomes in int8 either way."""
    model = Net()
    train(model, x, y, 2 if quick else 20, 2e-3)
    fused, static = calibrated(model, x)
    aware = trained_further(model, x, y, 1 if quick else 20)
    return {"floats": fused, "int8, static": static, "int8, trained": aware}


def folded(images: Any, labels: Any, folds: int, quick: bool) -> None:
    """Each part of the images is read by networks that were trained on the others."""
    totals: dict[str, int] = {}
    for k in range(folds):
        first, last = k * len(images) // folds, (k + 1) * len(images) // folds
        rest = ad.cat([ad.arange(0, first), ad.arange(last, len(images))])
        for name, model in three(images[rest], labels[rest], quick).items():
            count = right(model, images[first:last], labels[first:last])
            totals[name] = totals.get(name, 0) + count
    for name, count in totals.items():
        print(f"{name:15} {count} of {len(images)}: {count / len(images):.4f}")


def main(arguments: list[str]) -> None:
    quick = "--quick" in arguments
    ad.manual_seed(0)
    images, labels = digits()
    images = (images / 16).unsqueeze(1)
    if "--folds" in arguments:
        folded(images, labels, int(arguments[arguments.index("--folds") + 1]), quick)
        return
    models = three(images[:TRAINED], labels[:TRAINED], quick)
    for name, model in models.items():
        count = right(model, images[TRAINED:], labels[TRAINED:])
        print(f"{name:15} {count / (len(images) - TRAINED):.4f}")
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, f"{name}.safetensors") for name in ("floats", "int8")]
        ad.io.safetensors.save_file(models["floats"].state_dict(), paths[0])
        q.save_quantized(models["int8, static"], paths[1])
        sizes = [os.path.getsize(path) for path in paths]
    print(f"files           {sizes[0]} and {sizes[1]} bytes: {sizes[0] / sizes[1]:.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
