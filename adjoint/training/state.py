"""Small helpers around a model, its metrics and its batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any


def metric_state(metric: Any) -> dict[str, Any]:
    """What a metric has gathered so far; a copy, since metrics may gather in place."""
    return deepcopy(vars(metric))


def set_metric_state(metric: Any, state: Mapping[str, Any]) -> None:
    """Put it back."""
    vars(metric).update(deepcopy(dict(state)))


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode for a block, each module's own mode restored after it."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def to_device(data: Any, device: Any) -> Any:
    """A batch, nested as it may be, on a device."""
    if device is None:
        return data
    if hasattr(data, "to"):
        return data.to(device)
    if isinstance(data, Mapping):
        return {key: to_device(value, device) for key, value in data.items()}
    if isinstance(data, (tuple, list)):
        return type(data)(to_device(value, device) for value in data)
    return data
