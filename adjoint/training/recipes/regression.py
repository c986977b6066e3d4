"""A small network that learns a curve from noisy points."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import adjoint as ad
from adjoint import nn
from adjoint.data import TensorDataset
from adjoint.training.pictures import curve_picture
from adjoint.training.recipes import _common

NOISE = 0.1


def network() -> nn.Module:
    """One number in, one number out."""
    return nn.Sequential(
        nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
    )


def main(arguments: Sequence[str] = ()) -> int:
    """Train on 2,000 points of a wave and draw what was learnt."""
    parser = _common.options("regression", __doc__, epochs=40, batch=100, lr=1e-2)
    chosen = _common.begin(parser, arguments, "regression")
    x = 6 * ad.rand(2000, 1) - 3
    y = (2 * x).sin() + 0.3 * x + NOISE * ad.randn(2000, 1)
    train, test = TensorDataset(x[:1600], y[:1600]), TensorDataset(x[1600:], y[1600:])
    trainer = _common.fit(network(), nn.MSELoss(), train, test, chosen)
    grid = ad.linspace(-3, 3, 200).unsqueeze(1)
    line = trainer.predict([grid])
    picture = curve_picture(
        Path(chosen.folder) / "regression.png", trainer.history,
        x[1600:, 0].tolist(), y[1600:, 0].tolist(), (grid[:, 0].tolist(), line[:, 0].tolist()),
    )  # fmt: skip
    error = trainer.history[-1]["validation_loss"]
    _common.finish(
        f"mean squared error {error:.4f} on points it has not seen (noise alone: {NOISE**2:g})",
        chosen.folder,
        picture,
        ["adjoint train csv FILE --target COLUMN: a table of your own"],
    )
    return 0
