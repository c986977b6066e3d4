"""One model over several devices: plans, models that are put where plans say, moved operands."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

import adjoint as ad
from adjoint.distributed.placement import (
    DeviceLimit,
    dispatch_model,
    infer_device_map,
    measure_units,
    move_operands,
)
from adjoint.distributed.placement.units import find_units


class Tied(ad.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = ad.nn.Embedding(8, 4)
        self.scale = ad.nn.Parameter(ad.ones(4))
        self.middle = ad.nn.Sequential(ad.nn.Linear(4, 4), ad.nn.Linear(4, 4))
        self.head = ad.nn.Linear(4, 8, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x: Any) -> Any:
        return self.head(self.middle(self.table(x) * self.scale))


def chain(*widths: int) -> Any:
    pairs = itertools.pairwise(widths)
    return ad.nn.Sequential(*(ad.nn.Linear(a, b, bias=False) for a, b in pairs))


def test_devices_are_filled_in_order() -> None:
    net = chain(4, 4, 4, 4)  # 64 bytes each
    found = infer_device_map(net, {"meta": 130, "cpu": 64})
    assert found.device_map == {"0": "meta", "1": "meta", "2": "cpu"}
    assert found.used == {"meta": 128, "cpu": 64}
    assert "meta" in str(found)
    with pytest.raises(RuntimeError, match="192 bytes.*'2'.*add a device"):
        infer_device_map(net, {"meta": 130, "cpu": 63})
    with pytest.raises(ValueError, match="'order' or 'cost'"):
        infer_device_map(net, {"cpu": 1000}, by="luck")


def test_units_that_must_not_be_split() -> None:
    names = [u.name for u in find_units(Tied())]
    assert names == ["*", "table", "middle.0", "middle.1", "head"]
    assert [u.name for u in find_units(Tied(), ["Sequential"])][2:] == ["middle", "head"]


def test_tied_tensors_stay_together() -> None:
    found = infer_device_map(Tied(), {"meta": 16 + 128, "cpu": 1000})
    assert found.device_map["table"] == found.device_map["head"] == "meta"
    assert found.device_map["middle.0"] == "cpu"
    assert found.used == {"meta": 144, "cpu": 160}


@pytest.mark.parametrize("seed", range(20))
def test_the_cost_model_finds_the_least(seed: int) -> None:
    draw = random.Random(seed)
    net = chain(*(draw.randint(1, 6) for _ in range(6)))
    limits = [
        DeviceLimit(
            d, draw.randint(40, 300), flops=draw.uniform(1, 9), bandwidth=draw.uniform(1, 9)
        )
        for d in ("cpu", "meta", "cuda:0")
    ]
    units = find_units(net)
    plans = []
    for places in itertools.product(range(3), repeat=len(units)):
        stretches = [k for k, _ in itertools.groupby(places)]
        held = [sum(u.size for u, p in zip(units, places, strict=True) if p == d) for d in range(3)]
        if len(set(stretches)) < len(stretches) or any(
            h > d.memory for h, d in zip(held, limits, strict=True)
        ):
            continue
        compute = sum(u.flops / limits[p].flops for u, p in zip(units, places, strict=True))
        moves = sum(
            5.0 / min(limits[a].bandwidth, limits[b].bandwidth)
            for a, b in itertools.pairwise(stretches)
        )
        plans.append(compute + moves)
    if not plans:
        with pytest.raises(RuntimeError, match="the devices allow"):
            infer_device_map(net, limits, by="cost", boundary_bytes=5.0)
        return
    found = infer_device_map(net, limits, by="cost", boundary_bytes=5.0)
    assert found.seconds == pytest.approx(min(plans))


def test_measured_times_decide() -> None:
    net = chain(4, 4, 4)
    seconds = measure_units(net, ad.ones(2, 4))
    assert seconds.keys() == {"0", "1"}
    limits = [DeviceLimit("cpu", 1000, slowness=3.0), DeviceLimit("meta", 64)]
    found = infer_device_map(net, limits, by="cost", seconds={"0": 1.0, "1": 5.0})
    assert found.device_map == {"0": "cpu", "1": "meta"}
    assert found.seconds == pytest.approx(8.0)


def test_a_model_on_two_devices() -> None:
    net = dispatch_model(Tied(), {"": "cpu", "middle.1": "meta"})
    devices = {n: str(p.device) for n, p in net.named_parameters()}
    assert devices.pop("middle.1.weight") == devices.pop("middle.1.bias") == "meta"
    assert set(devices.values()) == {"cpu"}
    assert net.head.weight is net.table.weight
    with pytest.raises(RuntimeError, match="meta"):  # no elements can come back from there
        net(ad.tensor([1, 2]))
    shapes = dispatch_model(Tied(), {"": "meta"})(ad.tensor([1, 2]))
    assert (shapes.device.type, tuple(shapes.shape)) == ("meta", (2, 8))
    with pytest.raises(ValueError, match="share a tensor"):
        dispatch_model(Tied(), {"": "cpu", "head": "meta"})
    with pytest.raises(ValueError, match="no module 'tail'"):
        dispatch_model(Tied(), {"": "cpu", "tail": "cpu"})
    with pytest.raises(ValueError, match="no device"):
        dispatch_model(Tied(), {"table": "cpu", "head": "cpu"})


def test_operands_are_moved_only_on_request() -> None:
    here, there = ad.ones(2, 3), ad.ones(3, device="meta")
    with pytest.raises(RuntimeError, match="same device"):
        here * there
    with move_operands() as moved:
        out = here * there + here
    assert out.device.type == "meta"
    assert moved.times == {("mul", "cpu", "meta"): 1, ("add", "cpu", "meta"): 1}
    assert moved.bytes["mul", "cpu", "meta"] == 24
    assert "mul" in str(moved)
    with pytest.raises(RuntimeError, match="same device"):
        here * there
