"""A variational autoencoder of digits, and digits it imagines.

python examples/vae.py [--quick]
"""

from __future__ import annotations

import argparse

import adjoint as ad
from adjoint.datasets import digits
from adjoint.models import VAE


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a few epochs only")
    quick = parser.parse_args().quick

    ad.manual_seed(0)
    x = digits()[0].reshape(-1, 64) / 16
    model = VAE(64, 128, 8)
    optimizer = ad.optim.Adam(model.parameters(), lr=2e-3)
    losses = []
    for epoch in range(1, 4 if quick else 41):
        total = 0.0
        for rows in ad.randperm(len(x)).split(64):
            loss = model.loss(x[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        losses.append(total / len(x))
        print(f"epoch {epoch:2d}  loss {losses[-1]:.2f}")
    with ad.no_grad():
        images = model.decode(ad.randn(4, 8)).sigmoid().view(4, 8, 8)
    for row in range(8):
        line = images[:, row].tolist()
        print("   ".join("".join(" .:*#"[min(int(v * 5), 4)] for v in part) for part in line))
    assert losses[-1] < losses[0]


if __name__ == "__main__":
    main()
