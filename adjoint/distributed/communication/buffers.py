"""Between tensors and what an engine reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.distributed.communication.progress import refuse_recorded
from adjoint.engine.backends.array.gpu.transfers import transfer
from adjoint.engine.core.device import CPU
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.watching import show

Finish = Callable[[], None] | None


def describe(tensor: Tensor) -> str:
    """Shape and dtype, as members compare them."""
    return f"{tuple(tensor.shape)} {tensor.dtype}"


def require_tensor(name: str, tensor: Any) -> None:
    """Refuse what has no elements to send."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name}: expected a Tensor, received {type(tensor).__name__}")
    if tensor.is_sparse:
        raise NotImplementedError(f"{name}: sparse tensors cannot be sent; call to_dense() first")
    if type(tensor._array) is Window:
        refuse_recorded(name)
        raise RuntimeError(
            f"{name}: the tensor has no elements here (it is on the meta device, or inside a "
            "transform). Call it on a plain tensor."
        )


def read(tensor: Tensor) -> Any:
    """A tensor's elements as a contiguous host array, its own memory where possible."""
    return np.ascontiguousarray(HOOKS.array.to_host(tensor._array)).reshape(tuple(tensor.shape))


def written(tensor: Tensor) -> tuple[Any, Finish]:
    """A contiguous host array to write results in, and what brings them to the tensor."""
    array = tensor._array
    HOOKS.array.check_overlap(array)
    tensor._storage.version += 1
    show(tensor._storage)  # it may be written to later
    if isinstance(array, np.ndarray) and array.flags.c_contiguous and array.flags.writeable:
        return array, None
    host = read(tensor)
    if host is array or not host.flags.writeable or np.shares_memory(host, array):
        host = host.copy()
    return host, lambda: put(tensor, host)


def put(tensor: Tensor, host: Any) -> None:
    """Write a host array's elements into a tensor."""
    array = tensor._array
    given = host.reshape(array.shape)
    HOOKS.array.copy_into(array, given if tensor.device is CPU else transfer(given, tensor.device))


def parts(
    tensors: Sequence[Tensor], whole: Any, put: Callable[[Tensor, Any], None]
) -> Callable[[], None]:
    """What distributes an array's rows to tensors."""

    def finish() -> None:
        for tensor, row in zip(tensors, whole, strict=True):
            put(tensor, row)

    for tensor in tensors:
        tensor._storage.version += 1
        show(tensor._storage)
    return finish
