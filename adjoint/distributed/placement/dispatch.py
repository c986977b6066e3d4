"""Putting a model where a plan says, and its inputs where the next part is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adjoint.distributed.placement.plan import PlacementPlan
from adjoint.engine.core.device import Device
from adjoint.engine.core.tree import flatten, unflatten
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module


def dispatch_model(model: Module, device_map: PlacementPlan | Mapping[str, Any]) -> Module:
    """Move the parts of a model to devices; each then has its inputs brought to it.

    A part on the CPU computes there. Gradients follow the same way back.

    Args:
        model: the model, changed in place.
        device_map: a plan of `infer_device_map`, or device by name of module: an inner module has
            the device of the longest name it begins with, `""` is the rest, and `"name.*"` are a
            module's own tensors.

    Example:
        >>> import adjoint as ad
        >>> net = ad.nn.Sequential(ad.nn.Linear(2, 2), ad.nn.Linear(2, 2))
        >>> dispatch_model(net, {"": "cpu", "1": "meta"})(ad.ones(1, 2)).device
        device(type='meta')
    """
    given = device_map.device_map if isinstance(device_map, PlacementPlan) else device_map
    places = {name: Device(device) for name, device in given.items()}
    names = dict(model.named_modules())
    for name in places:
        if name.removesuffix("*").removesuffix(".") not in names:
            raise ValueError(f"dispatch_model: the model has no module {name!r}")
    homes: dict[int, tuple[str, Device]] = {}
    for name, module in names.items():
        own = [
            t for t in (*module._parameters.values(), *module._buffers.values()) if t is not None
        ]
        star = f"{name}.*" if name else "*"
        device = places.get(star, _device(name, places))
        for tensor in own:
            if device is None:
                raise ValueError(
                    f"dispatch_model: {name or 'the model'!r} has tensors and no device. Add it, "
                    'or "" for all the rest.'
                )
            before = homes.setdefault(id(tensor), (name, device))
            if before[1] is not device:
                raise ValueError(
                    f"dispatch_model: {before[0]!r} on {before[1]} and {name!r} on {device} share "
                    "a tensor; put both on one device"
                )
    moved: dict[int, Any] = {}
    for name, module in names.items():
        device = _device(name, places)
        own_device = places.get(f"{name}.*" if name else "*", device)
        if own_device is not None:
            _move_own(module, own_device, moved)
        if device is not None and not list(module.children()):
            module.register_forward_pre_hook(_bring(device), with_kwargs=True)
        elif name in places and name:
            module.register_forward_pre_hook(_bring(places[name]), with_kwargs=True)
    return model


def _device(name: str, places: Mapping[str, Device]) -> Device | None:
    while True:
        if name in places:
            return places[name]
        if not name:
            return None
        name = name.rpartition(".")[0]


def _move_own(module: Module, device: Device, moved: dict[int, Any]) -> None:
    """Move a module's own tensors; one that several have is moved once."""
    for table in (module._parameters, module._buffers):
        for key, tensor in list(table.items()):
            if tensor is None:
                continue
            if id(tensor) not in moved:
                gone = tensor.detach().to(device)
                replacement: Any = gone
                if table is module._parameters:
                    replacement = type(tensor)(gone, requires_grad=tensor.requires_grad)
                moved[id(tensor)] = (tensor, replacement)
            table[key] = moved[id(tensor)][1]


def _bring(device: Device) -> Any:
    def hook(module: Module, args: Any, kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs))
        brought = [
            x.to(device) if isinstance(x, Tensor) and x.device is not device else x for x in leaves
        ]
        return unflatten(structure, brought)

    return hook
