"""Schedulers of rates that are tensors, and their state dicts, beside PyTorch's.

Rates, momenta and counts are in `tests/recorded/schedules.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from tests.recorded.schedules import OPTIONS, SCHEDULERS, optimizer_of, seen

torch: Any = pytest.importorskip("torch")
pytestmark = [pytest.mark.compare, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("name", SCHEDULERS)
def test_state_dicts_have_the_same_keys(name: str, kind: str) -> None:
    ours, theirs = (
        SCHEDULERS[name](lib.optim.lr_scheduler, optimizer_of(lib, kind)).state_dict()
        for lib in (ad, torch)
    )
    apart = ("_scale_fn_ref", "anneal_func")
    assert sorted(k for k in ours if k not in apart) == sorted(k for k in theirs if k not in apart)


@pytest.mark.parametrize("name", [n for n in SCHEDULERS if "custom" not in n])
def test_tensor_rates(name: str) -> None:
    runs = []
    for lib in (torch, ad):
        given = tuple(lib.tensor(rate, dtype=lib.float64) for rate in (0.1, 0.05))
        optimizer = optimizer_of(lib, "SGD", given)
        held = [g["lr"] for g in optimizer.param_groups]
        scheduler = SCHEDULERS[name](lib.optim.lr_scheduler, optimizer)
        rates = []
        for _ in range(20):
            optimizer.step()
            scheduler.step()
            rates.append(seen(optimizer))
        assert all(g["lr"] is h for g, h in zip(optimizer.param_groups, held, strict=True))
        runs.append(rates)
    for g, w in zip(runs[1], runs[0], strict=True):
        assert g == pytest.approx(w, rel=1e-6, abs=1e-9)
