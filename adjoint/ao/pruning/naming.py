"""Modules and tensors by the path that leads to them in a network."""

from __future__ import annotations

from typing import Any

from adjoint.nn.modules.module import Module


def module_to_fqn(model: Module, module: Module, prefix: str = "") -> str | None:
    """The path of a module in a network; None where it is not part of it."""
    for name, found in model.named_modules():
        if found is module:
            return f"{prefix}{name}"
    return None


def fqn_to_module(model: Module | None, path: str) -> Module | None:
    """The module at a path; None where there is none."""
    found: Any = model
    for name in filter(None, path.split(".")):
        found = getattr(found, name, None)
    return found if isinstance(found, Module) else None


def get_arg_info_from_tensor_fqn(model: Module, tensor_fqn: str) -> dict[str, Any]:
    """The module, its path and the name of a tensor in it, from the tensor's path."""
    module_fqn, _, tensor_name = tensor_fqn.rpartition(".")
    return {
        "module_fqn": module_fqn,
        "module": fqn_to_module(model, module_fqn),
        "tensor_name": tensor_name,
        "tensor_fqn": tensor_fqn,
    }
