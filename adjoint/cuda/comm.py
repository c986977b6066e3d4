"""Copies between the GPUs of one process: the same to all, sums of all, pieces to each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from adjoint.engine.backends.array.gpu.cuda import current_device, index_of
from adjoint.engine.core.device import Device
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.ops.shape.join import cat


def _device(device: Any) -> Device:
    return Device("cuda", index_of(device))


def broadcast(tensor: Any, devices: Any = None, *, out: Any = None) -> Any:
    """A tensor on each of several GPUs, or in each of several tensors."""
    if (devices is None) == (out is None):
        raise RuntimeError("comm.broadcast: exactly one of 'devices' and 'out' must be specified")
    if out is not None:
        for target in out:
            target.copy_(tensor)
        return tuple(out)
    return tuple(tensor.to(_device(d)) for d in devices)


def broadcast_coalesced(
    tensors: Sequence[Any], devices: Sequence[Any], buffer_size: int = 10485760
) -> tuple[tuple[Any, ...], ...]:
    """Several tensors on each of several GPUs."""
    return tuple(tuple(x.to(_device(d)) for x in tensors) for d in devices)


def reduce_add(inputs: Sequence[Any], destination: Any = None) -> Any:
    """The sum of tensors of several GPUs, on one of them."""
    if not inputs:
        raise RuntimeError("reduce_add expects at least one input")
    shapes = [tuple(x.shape) for x in inputs]
    if len(set(shapes)) > 1:
        raise ShapeValueError(f"input shapes must match, got {shapes}")
    where = _device(current_device() if destination is None else destination)
    return reduce(lambda a, b: a + b, [x.to(where) for x in inputs])


def reduce_add_coalesced(
    inputs: Sequence[Sequence[Any]], destination: Any = None, buffer_size: int = 10485760
) -> tuple[Any, ...]:
    """`reduce_add` of the first of each list, the second of each, and so on."""
    return tuple(reduce_add(list(tensors), destination) for tensors in zip(*inputs, strict=True))


def scatter(
    tensor: Any,
    devices: Any = None,
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Any = None,
    *,
    out: Any = None,
) -> Any:
    """Pieces of a tensor along a dimension, one to each GPU or into each of several tensors."""
    if out is not None:
        pieces = tensor.split([x.shape[dim] for x in out], dim)
        for target, piece in zip(out, pieces, strict=True):
            target.copy_(piece)
        return tuple(out)
    given = list(devices)
    pieces = (
        tensor.chunk(len(given), dim) if chunk_sizes is None else tensor.split(chunk_sizes, dim)
    )
    return tuple(p.to(_device(d)) for p, d in zip(pieces, given, strict=False))


def gather(
    tensors: Sequence[Any], dim: int = 0, destination: Any = None, *, out: Any = None
) -> Any:
    """Tensors of several GPUs joined along a dimension, on one device."""
    if out is not None:
        out.copy_(cat([x.to(out.device) for x in tensors], dim))
        return out
    if destination == "cpu" or (isinstance(destination, int) and destination == -1):
        where = Device("cpu")
    elif isinstance(destination, Device) and destination.type == "cpu":
        where = destination
    else:
        where = _device(current_device() if destination is None else destination)
    return cat([x.to(where) for x in tensors], dim)
