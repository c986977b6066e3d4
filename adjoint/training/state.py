"""Small helpers around a model, its metrics and its batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.tree import flatten


def metric_state(metric: Any) -> dict[str, Any]:
    """What a metric has gathered so far; a copy, since metrics may gather in place."""
    return deepcopy(vars(metric))


def set_metric_state(metric: Any, state: Mapping[str, Any]) -> None:
    """Put it back."""
    vars(metric).update(deepcopy(dict(state)))


def require_same_metrics(metrics: Sequence[Any], states: Sequence[Mapping[str, Any]]) -> None:
    """Raise unless these are the metrics that gave the states."""
    names = [state.get("name", metric.name) for metric, state in zip(metrics, states, strict=False)]
    kinds = all(vars(m).keys() == s.keys() for m, s in zip(metrics, states, strict=False))
    if len(metrics) != len(states) or not kinds or names != [m.name for m in metrics]:
        raise ValueError(
            "Trainer: the checkpoint stands inside an epoch and has gathered for other metrics "
            f"than {[m.name for m in metrics]}. Pass the same ones, in the same order."
        )


def size_of(target: Any) -> int:
    """How many samples a batch has: as many as the first tensor among its targets is long."""
    tensor = next((leaf for leaf in flatten(target)[0] if is_tensor(leaf) and leaf.ndim), None)
    return len(target if tensor is None else tensor)


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
