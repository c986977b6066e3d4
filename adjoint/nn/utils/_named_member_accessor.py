"""Exchanging a module's tensors by name, under PyTorch's address."""

from __future__ import annotations

from typing import Any

from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module

_MISSING: Any = object()


def swap_tensor(
    module: Module, name: str, tensor: Tensor | None, allow_missing: bool = False
) -> Any:
    """Put a tensor in the place of one of the module's, which is returned.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.Linear(2, 1)
        >>> before = swap_tensor(layer, "weight", ad.zeros(1, 2))
        >>> layer.weight
        tensor([[0., 0.]])
    """
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if tensor is not _MISSING and tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    if "." in name or not name:
        raise KeyError(f"tensor name can't be empty or contain '.', received {name!r}")
    for holder in (module._parameters, module._buffers):
        if name in holder:
            before = holder[name]
            if tensor is _MISSING:
                del holder[name]
            else:
                holder[name] = tensor  # type: ignore[assignment]
            return before
    before = module.__dict__.get(name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{type(module).__name__} has no attribute {name!r}")
    if tensor is _MISSING:
        module.__dict__.pop(name, None)
    else:
        setattr(module, name, tensor)
    return before


def set_tensor(module: Module, name: str, tensor: Tensor) -> None:
    """Put a tensor in the place of one of the module's."""
    swap_tensor(module, name, tensor, allow_missing=True)


class NamedMemberAccessor:
    """The tensors of a module and of those inside it, by their full names."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def _owner(self, name: str) -> tuple[Module, str]:
        prefix, _, last = name.rpartition(".")
        return self.module.get_submodule(prefix), last

    def get_tensor(self, name: str) -> Any:
        """One of them."""
        owner, last = self._owner(name)
        tensor = getattr(owner, last)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"{name} is not an instance of torch.Tensor")
        return tensor

    def set_tensor(self, name: str, value: Tensor) -> None:
        """Exchange one."""
        owner, last = self._owner(name)
        set_tensor(owner, last, value)

    def swap_tensor(self, name: str, value: Tensor, allow_missing: bool = False) -> Any:
        """Exchange one, and return what was there."""
        owner, last = self._owner(name)
        return swap_tensor(owner, last, value, allow_missing)
