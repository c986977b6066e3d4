"""Tensors copied to several devices, spread over them, summed and joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.core.device import Device
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor

__all__ = [
    "broadcast",
    "broadcast_coalesced",
    "gather",
    "reduce_add",
    "reduce_add_coalesced",
    "scatter",
]


def _on(device: Any) -> Device:
    """The device a number (of a GPU) or a name means."""
    return Device("cuda", device) if isinstance(device, int) else Device(device)


def _one_of(name: str, devices: Any, out: Any) -> None:
    if (devices is None) == (out is None):
        raise RuntimeError(f"{name}: exactly one of 'devices' and 'out' must be given")


def broadcast(
    tensor: Tensor, devices: Sequence[Any] | None = None, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """A tensor on each of several devices: itself first, where it is there, and copies."""
    _one_of("broadcast", devices, out)
    if out is not None:
        return tuple([target.copy_(tensor) for target in out])
    first, *others = [_on(device) for device in devices or ()]
    return (tensor.to(first), *[tensor.to(device, copy=True) for device in others])


def broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Sequence[Any], buffer_size: int = 10485760
) -> list[tuple[Tensor, ...]]:
    """Several tensors on each of several devices: a tuple of them for each device."""
    columns = [broadcast(tensor, devices) for tensor in tensors]
    return [tuple(row) for row in zip(*columns, strict=True)]


def reduce_add(inputs: Sequence[Tensor], destination: Any = None) -> Tensor:
    """The sum of tensors of one shape from several devices, on one of them."""
    if not inputs:
        raise RuntimeError("reduce_add expects inputs, received none")
    place = inputs[0].device if destination is None else _on(destination)
    total = inputs[0].to(place)
    for other in inputs[1:]:
        if other.shape != inputs[0].shape:
            raise ValueError(
                f"reduce_add: expected tensors of one shape {tuple(inputs[0].shape)}, received "
                f"{tuple(other.shape)}"
            )
        total = total + other.to(place)
    return total if len(inputs) > 1 else total.clone()


def reduce_add_coalesced(
    inputs: Sequence[Sequence[Tensor]], destination: Any = None, buffer_size: int = 10485760
) -> tuple[Tensor, ...]:
    """The sums of several tensors over devices, each of which gave a list of them."""
    return tuple([reduce_add(column, destination) for column in zip(*inputs, strict=True)])


def scatter(
    tensor: Tensor,
    devices: Sequence[Any] | None = None,
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Any = None,
    *,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """Parts of a tensor along a dimension, one for each device.

    Args:
        tensor: what is spread.
        devices: where the parts go.
        chunk_sizes: how long each part is; as equal as can be unless given.
        dim: the dimension.
        streams: accepted as PyTorch has it.
        out: tensors that the parts are written to, instead of `devices`.
    """
    _one_of("scatter", devices, out)
    if out is not None:
        parts = tensor.split([target.shape[dim] for target in out], dim)
        return tuple([target.copy_(part) for target, part in zip(out, parts, strict=True)])
    places = [_on(device) for device in devices or ()]
    cut = tensor.chunk(len(places), dim) if chunk_sizes is None else tensor.split(chunk_sizes, dim)
    return tuple([part.to(place) for part, place in zip(cut, places, strict=False)])


def gather(
    tensors: Sequence[Tensor], dim: int = 0, destination: Any = None, *, out: Any = None
) -> Tensor:
    """Tensors of several devices joined along a dimension on one of them."""
    if out is not None:
        if destination is not None:
            raise RuntimeError("gather: 'destination' must not be given where 'out' is")
        joined: Tensor = out.copy_(cat([tensor.to(out.device) for tensor in tensors], dim))
        return joined
    if destination is None:
        place = tensors[0].device
    else:
        place = Device("cpu") if destination == -1 else _on(destination)
    return cat([tensor.to(place) for tensor in tensors], dim)
