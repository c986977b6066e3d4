"""Copies between devices under the names that PyTorch's own differentiable functions have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.cuda import Stream
from adjoint.engine.core.device import Device
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.parallel import comm


class Broadcast:
    """Tensors on each of several devices; gradients are summed where the tensors were."""

    @staticmethod
    def apply(target_gpus: Sequence[Any], *inputs: Tensor) -> tuple[Tensor, ...]:
        """All tensors for the first device, then all for the second, ..."""
        rows = comm.broadcast_coalesced(inputs, target_gpus) if inputs else []
        return tuple([tensor for row in rows for tensor in row])


class ReduceAddCoalesced:
    """The sums of tensors over devices."""

    @staticmethod
    def apply(destination: Any, num_inputs: int, *grads: Tensor) -> tuple[Tensor, ...]:
        """One sum for each of the `num_inputs` tensors that every device gives."""
        rows = [grads[i : i + num_inputs] for i in range(0, len(grads), num_inputs)]
        return comm.reduce_add_coalesced(rows, destination)


class Gather:
    """Tensors of several devices joined on one."""

    @staticmethod
    def apply(target_device: Any, dim: int, *inputs: Tensor) -> Tensor:
        """Scalars are joined to a vector."""
        flat = [x.unsqueeze(0) if x.ndim == 0 else x for x in inputs]
        place = -1 if target_device == "cpu" else target_device
        return comm.gather(flat, dim if inputs[0].ndim else 0, place)


class Scatter:
    """Parts of a tensor, one for each device."""

    @staticmethod
    def apply(
        target_gpus: Sequence[Any], chunk_sizes: Sequence[int] | None, dim: int, input: Tensor
    ) -> tuple[Tensor, ...]:
        """As `comm.scatter`."""
        return comm.scatter(input, target_gpus, chunk_sizes, dim)


_streams: dict[Device, Stream] = {}


def _get_stream(device: Any) -> Stream | None:
    """The stream that copies to a GPU go by; None for the CPU."""
    place = comm._on(device)
    if place.type == "cpu":
        return None
    if place not in _streams:
        _streams[place] = Stream(place)
    return _streams[place]
