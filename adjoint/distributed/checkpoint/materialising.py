"""Tensors of a model on the meta device, made where they are to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.distributed.checkpoint.spreading import device_of_messages
from adjoint.distributed.sharded.offload import computing_device
from adjoint.distributed.tensor.dtensor import DTensor
from adjoint.engine.core.device import CPU, Device
from adjoint.engine.ops.create.creation import empty_like
from adjoint.nn.modules.module import Module


def materialise(model: Module, wanted: Callable[[str], bool]) -> None:
    """Make a model's tensors without elements real, those that are wanted by name.

    Parameters stay the objects they are, so that ties and optimizers keep hold of them.
    """
    offloaded = any(m._unit.offload for m in model.modules() if hasattr(m, "_unit"))
    for prefix, owner in list(model.named_modules()):
        chosen = {
            id(tensor)
            for name, tensor in (*owner._parameters.items(), *owner._buffers.items())
            if tensor is not None
            and tensor.device.type == "meta"
            and wanted(f"{prefix}.{name}" if prefix else name)
        }
        if not chosen:
            continue

        def real(tensor: Any, chosen: set[int] = chosen) -> Any:
            if id(tensor) not in chosen:
                return tensor
            return empty_like(tensor, device=_place_of(model, tensor, offloaded))

        owner._apply(real, recurse=False)


def _place_of(model: Module, tensor: Any, offloaded: bool) -> Device:
    if offloaded:
        return CPU
    if isinstance(tensor, DTensor):
        return computing_device(tensor.device_mesh)
    others = (*model.parameters(), *model.buffers())
    devices = {t.device for t in others if t.device.type != "meta"}
    if len(devices) > 1:
        raise ValueError(
            f"Multiple devices found: {sorted(map(str, devices))}. Call to_empty(device=...) first."
        )
    return devices.pop() if devices else device_of_messages()
