"""Averages of models and their schedule, beside PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch: Any = pytest.importorskip("torch")
pytestmark = [pytest.mark.compare, pytest.mark.filterwarnings("ignore")]

AVERAGES: dict[str, Any] = {
    "default": lambda s: {},
    "ema": lambda s: {"multi_avg_fn": s.get_ema_multi_avg_fn(0.9)},
    "ema_single": lambda s: {"avg_fn": s.get_ema_avg_fn(0.9)},
    "swa": lambda s: {"multi_avg_fn": s.get_swa_multi_avg_fn()},
    "swa_single": lambda s: {"avg_fn": s.get_swa_avg_fn(), "use_buffers": True},
}


@pytest.mark.parametrize("name", AVERAGES)
def test_averaged_model(name: str) -> None:
    runs = []
    for lib in (torch, ad):
        swa = lib.optim.swa_utils
        model = lib.nn.Sequential(lib.nn.Linear(3, 2), lib.nn.BatchNorm1d(2))
        with lib.no_grad():
            for i, p in enumerate(model.parameters()):
                p.copy_(lib.arange(p.numel()).reshape(p.shape) * 0.1 + i)
        average = swa.AveragedModel(model, **AVERAGES[name](swa))
        optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
        batches = [
            lib.tensor(np.random.default_rng(i).normal(size=(5, 3)).astype(np.float32).tolist())
            for i in range(4)
        ]
        for x in batches:
            optimizer.zero_grad()
            (model(x) * x[:, :2]).tanh().mean().backward()
            optimizer.step()
            average.update_parameters(model)
        swa.update_bn(batches, average)
        runs.append({k: v.numpy() for k, v in average.state_dict().items()})
    assert list(runs[0]) == list(runs[1])
    for key, want in runs[0].items():
        np.testing.assert_allclose(runs[1][key], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 7])
def test_swa_rates(strategy: str, epochs: int) -> None:
    runs = []
    for lib in (torch, ad):
        optimizer = lib.optim.SGD([lib.ones(1, requires_grad=True)], lr=1.0)
        scheduler = lib.optim.swa_utils.SWALR(optimizer, 0.1, epochs, strategy)
        rates = []
        for _ in range(12):
            optimizer.step()
            scheduler.step()
            rates += scheduler.get_last_lr()
        runs.append((rates, sorted(scheduler.state_dict())))
    assert runs[1][0] == pytest.approx(runs[0][0], rel=1e-12)
    assert runs[1][1] == runs[0][1]
