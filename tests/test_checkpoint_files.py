"""Training checkpoints: interrupted and resumed equals uninterrupted, bit for bit."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.io import CheckpointManager, load_checkpoint, rng_state, save_checkpoint, set_rng_state
from adjoint.utils.data import DataLoader, TensorDataset


class Run:
    """A small training run with noise from every generator."""

    def __init__(self, seed: int, workers: int) -> None:
        ad.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        x = ad.arange(40.0).reshape(20, 2) / 40
        self.model = ad.nn.Linear(2, 1)
        self.optimizer = ad.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.loader: DataLoader[Any] = DataLoader(
            TensorDataset(x, x.sum(1, keepdim=True)), 3, shuffle=True, num_workers=workers
        )
        self.losses: list[float] = []

    def parts(self) -> dict[str, Any]:
        return {"model": self.model, "optimizer": self.optimizer, "loader": self.loader}

    def train(self, steps: int, save_at: int | None = None, path: Path | None = None) -> None:
        while steps:
            for x, y in self.loader:
                noise = ad.randn(1).item() + random.random() + np.random.rand()
                loss = ((self.model(x + 0.01 * noise) - y) ** 2).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.losses.append(loss.item())
                steps -= 1
                if path is not None and len(self.losses) == save_at:
                    save_checkpoint(path, step=save_at, **self.parts())
                if not steps:
                    break


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("stop", [1, 4, 7, 10])
def test_resumed_equals_uninterrupted(tmp_path: Path, stop: int, workers: int) -> None:
    path = tmp_path / "last.pt"
    whole = Run(0, workers)
    whole.train(16, stop, path)
    resumed = Run(1, workers)
    assert load_checkpoint(path, **resumed.parts()) == {"step": stop}
    resumed.train(16 - stop)
    assert resumed.losses == whole.losses[stop:]
    assert (resumed.model.weight == whole.model.weight).all()


def test_generators_come_back() -> None:
    state = rng_state()
    drawn = [ad.rand(1).item(), random.gauss(0, 1), random.random(), np.random.randn()]
    set_rng_state(state)
    assert drawn == [ad.rand(1).item(), random.gauss(0, 1), random.random(), np.random.randn()]


def test_manager_keeps_the_last_and_the_best(tmp_path: Path) -> None:
    model = ad.nn.Linear(1, 1)
    manager = CheckpointManager(tmp_path, keep=2, mode="max")
    for step, metric in enumerate([0.1, 0.9, 0.3, 0.4, 0.5]):
        manager.save(step, metric, model=model)
    assert manager.steps() == [1, 3, 4]
    assert manager.best() == 1
    reopened = CheckpointManager(tmp_path, keep=2, mode="max")
    assert (reopened.best(), reopened.latest()) == (1, 4)
    assert reopened.restore(model=model) == {"step": 4}
    with pytest.raises(KeyError, match="optimizer"):
        reopened.restore(optimizer=model)
    with pytest.raises(FileNotFoundError):
        CheckpointManager(tmp_path / "none").restore()


def test_other_files_are_not_checkpoints(tmp_path: Path) -> None:
    ad.save([1], tmp_path / "a.pt")
    with pytest.raises(RuntimeError, match="not a training checkpoint"):
        load_checkpoint(tmp_path / "a.pt")
