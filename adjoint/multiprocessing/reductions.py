"""How `multiprocessing` pickles tensors: as a descriptor of shared memory and a window on it."""

from __future__ import annotations

from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

from adjoint.engine.backends.array.memory.sharing import SharedMapping, block_of
from adjoint.engine.core.device import CPU
from adjoint.engine.core.errors import DeviceError
from adjoint.engine.tensor.copying import reduce_ex
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import Tensor, wrap
from adjoint.nn.parameter import Buffer, Parameter


def reduce_tensor(tensor: Tensor) -> tuple[Any, ...]:
    """What rebuilds a tensor in another process, on the same memory."""
    if type(tensor._array) is Window:
        return reduce_ex(tensor, 2)  # refused, with a reason
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "multiprocessing: a tensor with a grad_fn cannot be sent between processes, since "
            "gradients do not go from one to another. Send tensor.detach()."
        )
    if tensor.device is not CPU:
        raise DeviceError(
            f"multiprocessing: a tensor on {tensor.device} cannot be sent between processes. "
            "Send tensor.cpu()."
        )
    shared = tensor
    if not tensor.is_shared():
        shared = tensor.detach().clone() if tensor._chain else tensor
        shared.share_memory_()
    block = block_of(shared._array)
    assert block is not None
    array = shared._array
    start = array.__array_interface__["data"][0] - block.__array_interface__["data"][0]
    layout = (start, array.shape, array.strides, array.dtype)
    attributes = dict(tensor.__dict__)
    return rebuild, (
        type(tensor), DupFd(block.fd), block.size, layout, tensor.requires_grad, attributes,
    )  # fmt: skip


def rebuild(
    cls: type[Tensor],
    descriptor: Any,
    size: int,
    layout: tuple[Any, ...],
    requires_grad: bool,
    attributes: dict[str, Any],
) -> Tensor:
    """A tensor on memory that another process shares."""
    block = SharedMapping(descriptor.detach(), size)
    start, shape, strides, dtype = layout
    out = wrap(block.array(shape, dtype, strides, start))
    if cls is not Tensor:
        out = out.as_subclass(cls)
    if requires_grad:
        out.requires_grad_()
    out.__dict__.update(attributes)
    return out


def register() -> None:
    """Have `multiprocessing` pickle tensors so, in this process."""
    for kind in (Tensor, Parameter, Buffer):
        ForkingPickler.register(kind, reduce_tensor)
