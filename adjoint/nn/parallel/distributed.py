"""A module trained by the processes of a group: gradients would be averaged over them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from adjoint.engine.core.state.processes import default_group
from adjoint.nn.modules.module import Module


class DistributedDataParallel(Module):
    """Wraps a module, its parameters under `module.`; the group has one process at present.

    Args:
        module: the module to call.
        device_ids: the device the module is on.
        output_device: where results go, the same device.
        options: PyTorch's further options, which concern what travels between processes.

    Example:
        >>> import adjoint as ad, adjoint.distributed as dist
        >>> dist.init_process_group("gloo")
        >>> net = ad.nn.parallel.DistributedDataParallel(ad.nn.Linear(2, 1))
        >>> list(net.state_dict())
        ['module.weight', 'module.bias']
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        **options: Any,
    ) -> None:
        super().__init__()
        default_group()
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter "
                "that requires a gradient."
            )
        self.module = module
        self.device_ids = device_ids
        self.output_device = output_device
        self.dim = dim
        self.broadcast_buffers = broadcast_buffers
        self.require_backward_grad_sync = True

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Leave gradients of this process as they are inside a `with` block."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before
