"""Which device each part of a model goes to.

Note [placement]
    A forward goes through the units one after the other, so a plan is a list of stretches, each on
    one device, and its time is the sum of the units' times and of the moves between stretches.
    `order` fills the devices as they are given; `cost` finds the least time among all plans that
    use each device for one stretch and fit its memory. The CPU takes what fits nowhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adjoint.distributed.placement.units import PlacedUnit, find_units
from adjoint.engine.core.device import Device
from adjoint.nn.modules.module import Module

MOST_DEVICES = 6  # that all orders are tried of


@dataclass(frozen=True, slots=True)
class DeviceLimit:
    """A device, what may be put there, and how fast it is."""

    device: Any
    memory: float  # bytes
    flops: float = 1e12  # floating-point operations per second
    bandwidth: float = 1e10  # bytes per second to and from other devices
    slowness: float = 1.0  # by which measured times are multiplied


@dataclass(frozen=True, slots=True)
class PlacementPlan:
    """Where each unit goes, and what that needs and takes."""

    device_map: dict[str, str]
    used: dict[str, int]  # bytes by device
    limits: dict[str, float]
    seconds: float

    def __str__(self) -> str:
        lines = [f"{'device':<10}{'MiB':>12}{'of':>12}  modules"]
        for device, limit in self.limits.items():
            names = [n for n, d in self.device_map.items() if d == device]
            shown = ", ".join(names) if len(names) < 5 else f"{names[0]} ... {names[-1]}"
            used = self.used.get(device, 0) / 2**20
            lines.append(f"{device:<10}{used:>12.2f}{limit / 2**20:>12.2f}  {shown or '-'}")
        return "\n".join([*lines, f"estimated forward: {self.seconds * 1e3:.3f} ms"])


def infer_device_map(
    model: Module,
    max_memory: Mapping[Any, float] | Sequence[DeviceLimit],
    *,
    by: str = "order",
    no_split_module_classes: Collection[str] = (),
    seconds: dict[str, float] | None = None,
    tokens: int = 1,
    boundary_bytes: float = 0.0,
) -> PlacementPlan:
    """Choose a device for each part of a model.

    Args:
        model: the model, on any device; on `meta` it takes no memory while this is decided.
        max_memory: bytes by device, in the order of preference, or `DeviceLimit`s.
        by: "order" fills the devices in their order; "cost" takes the least time.
        no_split_module_classes: names of classes whose modules stay in one piece.
        seconds: measured times of units, from `measure_units`; estimated unless given.
        tokens: how many rows a forward sees, for estimates.
        boundary_bytes: what moves from one stretch to the next.

    Example:
        >>> import adjoint as ad
        >>> net = ad.nn.Sequential(ad.nn.Linear(4, 4), ad.nn.Linear(4, 4))
        >>> infer_device_map(net, {"meta": 100, "cpu": 1000}).device_map
        {'0': 'meta', '1': 'cpu'}
    """
    limits = list(_limits(max_memory))
    units = find_units(model, no_split_module_classes, seconds, tokens)
    match by:
        case "order":
            chosen = _fill(units, limits)
        case "cost":
            chosen = _cheapest(units, limits, boundary_bytes)
        case _:
            raise ValueError(f"infer_device_map: by must be 'order' or 'cost', received {by!r}")
    chosen = _together(units, chosen)
    return _described(units, chosen, limits, boundary_bytes)


def _limits(given: Any) -> Iterator[DeviceLimit]:
    if isinstance(given, Mapping):
        given = [DeviceLimit(device, memory) for device, memory in given.items()]
    if not given:
        raise ValueError("infer_device_map: expected at least one device in max_memory")
    for limit in given:
        yield DeviceLimit(
            Device(limit.device), limit.memory, limit.flops, limit.bandwidth, limit.slowness
        )


def _fill(units: list[PlacedUnit], limits: list[DeviceLimit]) -> list[int]:
    chosen, at, left = [], 0, limits[0].memory
    counted: set[int] = set()
    for unit in units:
        size = 0 if set(unit.tensors) <= counted and unit.tensors else unit.size
        counted |= set(unit.tensors)
        while size > left:
            at += 1
            if at == len(limits):
                raise RuntimeError(_no_room(units, limits, unit))
            left = limits[at].memory
        left -= size
        chosen.append(at)
    return chosen


def _no_room(
    units: list[PlacedUnit], limits: list[DeviceLimit], unit: PlacedUnit | None = None
) -> str:
    total = sum(u.size for u in units)
    room = ", ".join(f"{d.device} {d.memory:g}" for d in limits)
    what = f" {unit.name!r} ({unit.size} bytes) has no place left." if unit is not None else ""
    return (
        f"infer_device_map: the model has {total} bytes, the devices allow {room}.{what} Allow "
        "more, add a device (such as 'cpu'), or name fewer classes that must not be split."
    )


def _time(unit: PlacedUnit, limit: DeviceLimit) -> float:
    if unit.seconds is not None:
        return unit.seconds * limit.slowness
    return unit.flops / limit.flops


def _cheapest(units: list[PlacedUnit], limits: list[DeviceLimit], boundary: float) -> list[int]:
    """The plan of least time: by the number of units placed, the devices used, and the last one."""
    if len(limits) > MOST_DEVICES:
        raise ValueError(
            f"infer_device_map: by='cost' takes at most {MOST_DEVICES} devices, received "
            f"{len(limits)}; use by='order'"
        )
    best: dict[tuple[int, int, int], tuple[float, list[int]]] = {(0, 0, -1): (0.0, [])}
    for start in range(len(units)):
        for (_, used, last), (spent, chosen) in [
            item for item in best.items() if item[0][0] == start
        ]:
            for at, limit in enumerate(limits):
                if used >> at & 1:
                    continue
                seconds, size = spent, 0
                if last >= 0:
                    seconds += boundary / min(limits[last].bandwidth, limit.bandwidth)
                for stop in range(start, len(units)):
                    size += units[stop].size
                    if size > limit.memory:
                        break
                    seconds += _time(units[stop], limit)
                    key = (stop + 1, used | 1 << at, at)
                    if key not in best or seconds < best[key][0]:
                        best[key] = (seconds, chosen + [at] * (stop + 1 - start))
    ends = [plan_so_far for key, plan_so_far in best.items() if key[0] == len(units)]
    if not ends:
        raise RuntimeError(_no_room(units, limits))
    return min(ends, key=lambda plan_so_far: plan_so_far[0])[1]


def _together(units: list[PlacedUnit], chosen: list[int]) -> list[int]:
    """The plan with units that share a tensor on one device: the first one's."""
    home: dict[int, int] = {}
    fixed = []
    for unit, at in zip(units, chosen, strict=True):
        place = next((home[t] for t in unit.tensors if t in home), at)
        for t in unit.tensors:
            home.setdefault(t, place)
        fixed.append(place)
    return fixed


def _described(
    units: list[PlacedUnit], chosen: list[int], limits: list[DeviceLimit], boundary: float
) -> PlacementPlan:
    used: dict[str, int] = {}
    counted: set[int] = set()
    seconds, before = 0.0, None
    for unit, at in zip(units, chosen, strict=True):
        name = str(limits[at].device)
        if not unit.tensors or not set(unit.tensors) <= counted:
            used[name] = used.get(name, 0) + unit.size
        counted |= set(unit.tensors)
        seconds += _time(unit, limits[at])
        if before is not None and before != at:
            seconds += boundary / min(limits[before].bandwidth, limits[at].bandwidth)
        before = at
    device_map = {u.name: str(limits[at].device) for u, at in zip(units, chosen, strict=True)}
    return PlacementPlan(device_map, used, {str(d.device): d.memory for d in limits}, seconds)
