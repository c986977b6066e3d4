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


# Loaders say where an epoch stands by one, and continue there by the other: ours, torchdata's.
_POSITIONS = (("position", "continue_from"), ("state_dict", "load_state_dict"))


def position_of(loader: Any) -> Any:
    """Where the epoch of a loader stands; None where it cannot say."""
    for ask, _ in _POSITIONS:
        if hasattr(loader, ask):
            return getattr(loader, ask)()
    return None


def continue_from(loader: Any, position: Any) -> bool:
    """Have a loader continue there; whether it can."""
    for _, go in _POSITIONS:
        if hasattr(loader, go):
            getattr(loader, go)(position)
            return True
    return False


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
