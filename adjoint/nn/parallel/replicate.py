"""A network's copies on several devices, whose gradients reach the one they were made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from adjoint.nn.modules.module import Module
from adjoint.nn.parallel.comm import _on

__all__ = ["replicate"]
M = TypeVar("M", bound=Module)


def _copied(module: Module, device: Any, detach: bool, made: dict[int, Any]) -> Any:
    if id(module) in made:
        return made[id(module)]
    replica = module._replicate_for_data_parallel()
    made[id(module)] = replica
    moved = {}
    for name, parameter in module._parameters.items():
        if parameter is not None:
            moved[name] = (parameter.detach() if detach else parameter).to(device)
    # Not parameters: gradients go on to those of the network.
    replica.__dict__["_parameters"] = {n: None for n in module._parameters if n not in moved}
    replica.__dict__["_buffers"] = {
        name: None if buffer is None else buffer.to(device)
        for name, buffer in module._buffers.items()
    }
    replica.__dict__["_modules"] = {
        name: None if child is None else _copied(child, device, detach, made)
        for name, child in module._modules.items()
    }
    for name, tensor in moved.items():
        replica.__dict__[name] = tensor
    return replica


def replicate(network: M, devices: Sequence[Any], detach: bool = False) -> list[M]:
    """Copies of a module, one for each device, that share what they compute with.

    Their parameters are plain tensors: what is differentiated through a copy adds to the gradients
    of the network's own parameters, unless `detach`.

    Example:
        >>> import adjoint as ad
        >>> net = ad.nn.Linear(1, 1)
        >>> first, second = replicate(net, ["cpu", "cpu"])
        >>> (first(ad.ones(1)) + second(ad.ones(1))).backward()
        >>> net.bias.grad
        tensor([2.])
    """
    return [_copied(network, _on(device), detach, {}) for device in devices]
