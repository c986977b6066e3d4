"""A table of one's own: a CSV file is written, read, learnt and asked.

python examples/own_table.py [--quick]
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import adjoint as ad
from adjoint import nn
from adjoint.data import DataLoader, TensorDataset
from adjoint.data.readers import CSVDataset
from adjoint.training import Trainer


def write_table(path: Path, rows: int) -> None:
    """Prices of flats: so much a square metre, less far from the centre."""
    draw = random.Random(0)
    lines = ["size,rooms,distance,price"]
    for _ in range(rows):
        size, rooms, distance = draw.uniform(20, 120), draw.randint(1, 5), draw.uniform(0, 15)
        price = 4 * size + 10 * rooms - 8 * distance + draw.gauss(0, 10)
        lines.append(f"{size:.1f},{rooms},{distance:.2f},{price:.1f}")
    path.write_text("\n".join(lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a few epochs only")
    epochs = 5 if parser.parse_args().quick else 60

    ad.manual_seed(0)
    path = Path("flats.csv")
    write_table(path, 800)
    data = CSVDataset(path, target="price")
    assert data.targets is not None
    # Scaled by rows to learn from alone: those to test on must tell nothing.
    seen = data.features[:600]
    x = (data.features - seen.mean(0)) / seen.std(0)
    mean, spread = data.targets[:600].mean(), data.targets[:600].std()
    y = ((data.targets - mean) / spread).unsqueeze(1)
    model = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = ad.optim.Adam(model.parameters(), lr=1e-2)
    trainer = Trainer(model, optimizer, nn.MSELoss(), compile=True, progress=False)
    train = TensorDataset(x[:600], y[:600])
    trainer.fit(DataLoader(train, batch_size=50, shuffle=True), epochs=epochs)
    guess = trainer.predict(x[600:]) * spread + mean
    error = (guess[:, 0] - data.targets[600:]).abs().mean().item()
    print(f"mean error {error:.1f} where prices differ by {float(spread):.1f}")


if __name__ == "__main__":
    main()
