"""Data parallelism of a module in place, at PyTorch's path."""

from __future__ import annotations

from typing import Any

from adjoint.nn.modules.module import Module
from adjoint.nn.parallel import DistributedDataParallel


def replicate(module: Module, ignored_modules: Any = None, **options: Any) -> Module:
    """Have a module average its gradients over processes, as `DistributedDataParallel` does.

    The module stays what it is: its names, its parameters and its class.

    Args:
        module: the module.
        ignored_modules: not supported.
        options: those of `DistributedDataParallel`.

    Example:
        >>> import adjoint as ad, adjoint.distributed as dist
        >>> dist.init_process_group("gloo")
        >>> list(replicate(ad.nn.Linear(2, 1)).state_dict())
        ['weight', 'bias']
        >>> dist.destroy_process_group()
    """
    if ignored_modules:
        raise NotImplementedError("replicate: ignored_modules is not supported")
    if hasattr(module, "_replica"):
        raise ValueError("replicate: this module is replicated already")
    replica = DistributedDataParallel(module, **options)
    object.__setattr__(replica, "_stand_in", module.forward)
    object.__setattr__(module, "_replica", replica)

    def forward(*inputs: Any, **kwargs: Any) -> Any:
        replica.training = module.training
        return replica.forward(*inputs, **kwargs)

    object.__setattr__(module, "forward", forward)
    return module
