"""Both profilers say of the same model that the same kind of operation dominates."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import adjoint as ad

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.compare

KINDS = {
    "product": ("mm", "addmm", "bmm", "matmul", "linear", "baddbmm"),
    "convolution": ("conv", "mkldnn", "thnn", "slow_conv"),
}


def kind_of(name: str) -> str:
    plain = name.removeprefix("aten::")
    for kind, names in KINDS.items():
        if plain in names or (kind == "convolution" and any(n in plain for n in names)):
            return kind
    return "other"


def dominating(fw: Any, model: Any, x: Any) -> str:
    for _ in range(2):
        model(x).sum().backward()
    with fw.profiler.profile(activities=[fw.profiler.ProfilerActivity.CPU]) as seen:
        for _ in range(3):
            model(x).sum().backward()
    found: Counter[str] = Counter()
    for row in seen.key_averages():
        if row.key.startswith("aten::"):
            found[kind_of(row.key)] += int(row.self_cpu_time_total)
    return found.most_common(1)[0][0]


def mlp(fw: Any) -> tuple[Any, Any]:
    nn = fw.nn
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
    return model, fw.randn(512, 512)


def cnn(fw: Any) -> tuple[Any, Any]:
    nn = fw.nn
    model = nn.Sequential(nn.Conv2d(8, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU())
    return model, fw.randn(8, 8, 32, 32)


@pytest.mark.parametrize(("make", "kind"), [(mlp, "product"), (cnn, "convolution")])
def test_the_same_operations_dominate(make: Any, kind: str) -> None:
    assert dominating(torch, *make(torch)) == kind
    assert dominating(ad, *make(ad)) == kind
