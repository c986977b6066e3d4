"""Data parallelism in one process: for one device it is the module itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.core.device import Device
from adjoint.nn.modules.module import Module


class DataParallel(Module):
    """Wraps a module as PyTorch's class does, parameters under `module.`; for at most one GPU.

    Args:
        module: the module to call.
        device_ids: the GPU to call it on; the module stays where it is without one.
        output_device: where results are gathered, the same GPU.
        dim: the dimension inputs would be split along.

    Example:
        >>> import adjoint as ad
        >>> net = ad.nn.DataParallel(ad.nn.Linear(2, 1))
        >>> list(net.state_dict())
        ['module.weight', 'module.bias']
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[int | Device] | None = None,
        output_device: int | Device | None = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise NotImplementedError(
                f"DataParallel: splitting over {len(device_ids)} devices is not supported. Pass "
                "one device id, or train with one process per device."
            )
        self.module = module
        self.device_ids = list(device_ids or ())
        self.dim = dim
        self.output_device = output_device
        if self.device_ids:
            first = self.device_ids[0]
            self.module.to(Device("cuda", first) if isinstance(first, int) else first)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[int | Device] | None = None,
    output_device: int | Device | None = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call a module as `DataParallel` would."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*given, **(module_kwargs or {}))
