"""A multi-layer perceptron on handwritten digits, the training loop written out.

python examples/digits_mlp.py [--quick]
"""

from __future__ import annotations

import argparse

import adjoint as ad
from adjoint.datasets import digits
from adjoint.models import MLP
from adjoint.utils.data import DataLoader, TensorDataset, random_split


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a few epochs only")
    quick = parser.parse_args().quick

    ad.manual_seed(0)
    images, labels = digits()
    data = TensorDataset(images.reshape(-1, 64) / 16, labels)
    train, test = random_split(data, [1400, 397])
    model = MLP([64, 128, 10])
    optimizer = ad.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    accuracy = 0.0
    for epoch in range(1, 6 if quick else 31):
        for x, y in DataLoader(train, batch_size=50, shuffle=True):
            loss = ad.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with ad.no_grad():
            x, y = next(iter(DataLoader(test, batch_size=len(test))))
            accuracy = (model(x).argmax(1) == y).float().mean().item()
        print(f"epoch {epoch:2d}  loss {loss.item():.4f}  test accuracy {accuracy:.1%}")
    assert accuracy > 0.9


if __name__ == "__main__":
    main()
