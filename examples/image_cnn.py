"""A convolutional network with batch norm, dropout and adaptive pooling, compiled, on digits.

python examples/image_cnn.py [--quick]
"""

from __future__ import annotations

import argparse

import adjoint as ad
from adjoint import nn
from adjoint.datasets import digits
from adjoint.nn import functional as F


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(256, 10),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="two epochs only")
    epochs = 2 if parser.parse_args().quick else 15

    ad.manual_seed(0)
    images, labels = digits()
    images = (images / 16).unsqueeze(1)
    train, test = (images[:1400], labels[:1400]), (images[1400:], labels[1400:])
    model = network()
    optimizer = ad.optim.AdamW(model.parameters(), lr=3e-3)

    @ad.compile
    def step(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for epoch in range(1, epochs + 1):
        model.train()
        batches = ad.randperm(1400).split(70)
        losses = [step(train[0][rows], train[1][rows]).item() for rows in batches]
        model.eval()
        with ad.no_grad():
            right = (model(test[0]).argmax(1) == test[1]).float().mean().item()
        print(f"epoch {epoch:2d}  loss {sum(losses) / len(losses):.3f}  test accuracy {right:.1%}")


if __name__ == "__main__":
    main()
