"""What a tensor can be asked that neither its signature nor its value says: guarded where it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from adjoint.engine.capture.program.sharing import base_of
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.watching import show


def _base(tensor: Tensor) -> Any:
    return base_of(tensor)


def _is_view(tensor: Tensor) -> bool:
    return tensor._base is not None


def _version(tensor: Tensor) -> int:
    return tensor._storage.version


def _offset(tensor: Tensor) -> Any:
    return tensor.storage_offset()


def _memory(tensor: Tensor) -> Any:
    """Where the storage begins, and how long it is."""
    buffer = tensor._storage.buffer
    return None if buffer is None else (HOOKS.array.address(buffer), buffer.nbytes)


def _address(tensor: Tensor) -> Any:
    array = tensor._array
    show(tensor._storage)  # the function has the address
    return HOOKS.array.address(array) if array.size else 0


def _node(tensor: Tensor) -> Any:
    """The kind of node that made it, and which of its results it is."""
    node = tensor.grad_fn
    return None if node is None else (node.name(), tensor._nr)


def _is_leaf(tensor: Tensor) -> bool:
    return tensor.is_leaf


def _retains(tensor: Tensor) -> Any:
    meta = tensor._grad_meta
    return meta is not None and meta.retains_grad is not None


def hook_tables(tensor: Tensor) -> list[dict[int, Any]]:
    """The tables of hooks that a backward calls with a tensor's gradient."""
    meta = tensor._grad_meta
    if meta is None:
        return []
    extra = meta.leaf_extra
    behind = () if extra is None else (extra.node_prehooks, extra.hooks)
    tables = (meta.hooks, meta.accumulate_hooks, *behind)
    return [table for table in tables if isinstance(table, dict)]


def hooks_of(tensor: Tensor) -> tuple[Any, ...]:
    """The hooks that a backward calls with a tensor's gradient, table after table."""
    if tensor._grad_meta is None:  # asked of most arguments at each call
        return ()
    return tuple([tuple(table.values()) for table in hook_tables(tensor) if table])


@dataclass(frozen=True, slots=True)
class Has:
    """Whether a tensor has an attribute of the user's."""

    name: str

    def __call__(self, tensor: Tensor) -> bool:
        return self.name in tensor.__dict__


LOOKS: dict[str, Callable[[Tensor], Any]] = {
    "_base": _base,
    "_is_view": _is_view,
    "_version": _version,
    "is_inference": _version,
    "storage_offset": _offset,
    "untyped_storage": _memory,
    "storage": _memory,
    "data_ptr": _address,
    "const_data_ptr": _address,
    "grad_fn": _node,
    "is_leaf": _is_leaf,
    "output_nr": _node,
    "retains_grad": _retains,
}
