"""A state that the first process has, sent to all, one tensor at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from adjoint.distributed.communication.collectives import broadcast
from adjoint.distributed.communication.objects import broadcast_object_list
from adjoint.distributed.tensor.dtensor import DTensor
from adjoint.engine.core.device import CPU, Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.state.processes import STATE
from adjoint.engine.ops.create.creation import empty
from adjoint.engine.tensor.tensor import Tensor

Path = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Announced:
    """A tensor that is to come."""

    shape: tuple[int, ...]
    dtype: DType


def map_leaves(tree: Any, function: Callable[[Path, Any], Any], path: Path = ()) -> Any:
    """Dicts and lists anew, with a function of the path to each leaf and the leaf.

    >>> map_leaves({"a": [1, 2]}, lambda path, leaf: (path, leaf))
    {'a': [(('a', 0), 1), (('a', 1), 2)]}
    """
    if isinstance(tree, Mapping):
        return {key: map_leaves(value, function, (*path, key)) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        items = [map_leaves(value, function, (*path, i)) for i, value in enumerate(tree)]
        return type(tree)(items)
    return function(path, tree)


def announce(state: Any) -> Any:
    """On every process: the first one's state, with what is known of each tensor in its place."""
    if STATE.group is None or STATE.group.size() == 1:
        return state

    def about(path: Path, leaf: Any) -> Any:
        if isinstance(leaf, DTensor):
            where = ".".join(map(str, path))
            raise TypeError(
                f"broadcast_from_rank0: expected whole tensors, received a DTensor as {where!r}. "
                "Take the state with full_state_dict=True."
            )
        return Announced(tuple(leaf.shape), leaf.dtype) if isinstance(leaf, Tensor) else leaf

    # What cannot be sent is an error on all: the others wait for this message.
    told: list[Any] = [None]
    if STATE.group.rank() == 0:
        try:
            told = [map_leaves(state, about)]
        except TypeError as error:
            told = [error]
    broadcast_object_list(told, src=0)
    if isinstance(told[0], TypeError):
        raise told[0]
    return told[0]


def receive(announced: Any, state: Any, fit: Callable[[Path, Any], Any], device: Device) -> Any:
    """The state itself: each tensor is sent, and made what this process keeps of it.

    Args:
        announced: what `announce` gave.
        state: the first process's state; of no interest on others.
        fit: what a process keeps of the tensor at a path.
        device: where messages are sent from and received.
    """
    group = STATE.group
    if group is None or group.size() == 1:
        return map_leaves(
            state, lambda path, leaf: fit(path, leaf) if isinstance(leaf, Tensor) else leaf
        )

    def sent(path: Path, leaf: Any) -> Any:
        if not isinstance(leaf, Announced):
            return leaf
        if group.rank() == 0:
            value = state
            for key in path:
                value = value[key]
            value = value.detach().to(device).contiguous()
        else:
            value = empty(leaf.shape, dtype=leaf.dtype, device=device)
        broadcast(value, src=0)
        return fit(path, value)

    return map_leaves(announced, sent)


def device_of_messages() -> Device:
    """Where tensors lie that all processes exchange: on GPUs if nothing carries the host's."""
    group = STATE.group
    if group is None or "gloo" in group.backend or "mpi" in group.backend:
        return CPU
    from adjoint.engine.backends.array.gpu.cuda import current_device, is_available

    return Device("cuda", current_device()) if is_available() else CPU
