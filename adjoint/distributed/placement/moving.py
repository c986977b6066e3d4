"""A mode in which operands on different devices are brought to one of them, and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from adjoint.engine.core.device import Device
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.tensor.tensor import Tensor


@dataclass(slots=True)
class MovedOperands:
    """What was moved: how often and how many bytes, by operation and devices."""

    times: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    bytes: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def __str__(self) -> str:
        if not self.times:
            return "no operand was moved"
        lines = [f"{'operation':<20}{'from':<10}{'to':<10}{'times':>8}{'bytes':>14}"]
        for (name, source, to), times in self.times.most_common():
            moved = self.bytes[name, source, to]
            lines.append(f"{name:<20}{source:<10}{to:<10}{times:>8}{moved:>14}")
        return "\n".join(lines)


@contextmanager
def move_operands() -> Iterator[MovedOperands]:
    """Bring operands on different devices to the device of the largest, instead of an error.

    Without it such operations are refused, since moves are slow and mostly a mistake. Gradients go
    back the same way. What the block moved is counted in what it gives. A tensor on `meta` has no
    elements that could be moved, so others are brought to it. Compiled functions are not concerned:
    their operands are on one device.

    Example:
        >>> import adjoint as ad
        >>> with move_operands() as moved:
        ...     y = ad.ones(2, 3) + ad.ones(3, device="meta")
        >>> y.device, sum(moved.times.values())
        (device(type='meta'), 1)
    """
    report = MovedOperands()

    def take(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        tensors = [x for x in operands if isinstance(x, Tensor)]
        if len({t.device for t in tensors}) > 1:
            operands = _on_one(record.name, operands, _chosen(tensors), report)
        return record(*operands, **params)

    CONTEXT.set(takers=(*CONTEXT.takers, take))
    try:
        yield report
    finally:
        CONTEXT.set(takers=tuple(t for t in CONTEXT.takers if t is not take))


def _chosen(tensors: list[Tensor]) -> Device:
    for tensor in tensors:
        if tensor.device.type == "meta":
            return tensor.device
    return max(tensors, key=lambda t: t.numel() * t.element_size()).device


def _on_one(
    name: str, operands: tuple[Any, ...], device: Device, report: MovedOperands
) -> tuple[Any, ...]:
    results = []
    for operand in operands:
        if isinstance(operand, Tensor) and operand.device is not device:
            key = (name, str(operand.device), str(device))
            report.times[key] += 1
            report.bytes[key] += operand.numel() * operand.element_size()
            operand = operand.to(device)
        results.append(operand)
    return tuple(results)
