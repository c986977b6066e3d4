"""Spreading arguments over devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor

__all__ = ["gather", "scatter", "scatter_kwargs"]


def is_namedtuple(obj: Any) -> bool:
    """Whether a value is a named tuple."""
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


_is_namedtuple = is_namedtuple  # PyTorch's other name


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list[Any]:
    """Parts of the tensors in a structure, one structure for each device."""
    if isinstance(inputs, Tensor):
        parts = inputs.chunk(len(target_gpus), dim)
        return [part.to(device) for part, device in zip(parts, target_gpus, strict=False)]
    if isinstance(inputs, (tuple, list)) and len(inputs) > 0:
        columns = [scatter(part, target_gpus, dim) for part in inputs]
        kind = (lambda row: type(inputs)(*row)) if hasattr(inputs, "_fields") else type(inputs)
        return [kind(row) for row in zip(*columns, strict=False)]
    if isinstance(inputs, dict) and inputs:
        values = [scatter(part, target_gpus, dim) for part in inputs.values()]
        return [type(inputs)(zip(inputs, row, strict=True)) for row in zip(*values, strict=False)]
    return [inputs for _ in target_gpus]


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """The same of positional and keyword arguments; the shorter is filled up."""
    rows = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    rows += [()] * (len(named) - len(rows))
    named += [{}] * (len(rows) - len(named))
    return tuple(rows), tuple(named)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """Results of several devices joined on one."""
    first = outputs[0]
    if isinstance(first, Tensor):
        return cat([output.to(target_device) for output in outputs], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)((k, gather([d[k] for d in outputs], target_device, dim)) for k in first)
    return type(first)(gather(row, target_device, dim) for row in zip(*outputs, strict=True))
