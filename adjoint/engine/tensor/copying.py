"""Pickling and copying: what is shared stays shared."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.tensor.meta import is_meta
from adjoint.engine.tensor.storage import Storage, Window
from adjoint.engine.tensor.tensor import Tensor, alias_noted, meta_of, wrap


def rebuild_storage(array: Any) -> Storage:
    """A storage on the CPU from a pickled array."""
    return Storage(array)


def rebuild(
    cls: type[Tensor],
    storage: Storage,
    window: tuple[Any, ...] | None,
    device: str,
    requires_grad: bool,
    attributes: dict[str, Any],
) -> Tensor:
    """A tensor on a pickled storage; two that shared a storage share it again."""
    root = wrap(storage.buffer)
    root._storage = storage
    out = root if window is None else root.as_strided(*window)
    out._base = None
    if device != "cpu":
        out = out.to(device)
    if cls is not Tensor:
        out = out.as_subclass(cls)
    if requires_grad:
        out.requires_grad_()
    out.__dict__.update(attributes)
    return out


def _shown(tensor: Tensor) -> tuple[Any, ...] | None:
    """The window on the storage, or None for all of it."""
    if not tensor._chain:
        return None
    return (tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())


def reduce_storage(storage: Storage) -> tuple[Any, ...]:
    """Pickle a storage as a host array."""
    return (rebuild_storage, (HOOKS.array.to_host(storage.buffer),))


def reduce_ex(self: Tensor, protocol: int) -> tuple[Any, ...]:
    """Pickle the storage and the window on it."""
    if type(self._array) is Window:
        raise CaptureError("a traced tensor cannot be pickled: it has no elements")
    if self.requires_grad and self._node is not None:
        raise RuntimeError(
            "cannot pickle a tensor that is part of a graph (it has a grad_fn). "
            "Pickle tensor.detach() instead."
        )
    return (
        rebuild,
        (
            type(self),
            self._storage,
            _shown(self),
            str(self.device),
            self._requires_grad,
            dict(self.__dict__),
        ),
    )


def deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """A copy of the whole storage, once per storage, and the same window on it."""
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment. Copy tensor.detach() instead."
        )
    if is_meta(self):
        return _copy_of_meta(self, memo)
    key = ("storage", id(self._storage))
    storage = memo.get(key)  # type: ignore[call-overload]
    if storage is None:
        storage = Storage(self._storage.buffer.copy())
        memo[key] = storage  # type: ignore[index]
        memo.setdefault(id(memo), []).append(self._storage)  # keep ids unique
    out = rebuild(type(self), storage, _shown(self), "cpu", self._requires_grad, {})
    memo[id(self)] = out
    if self._grad_meta is not None and self._grad_meta.grad is not None:
        meta_of(out).grad = deepcopy(self._grad_meta.grad, memo)
    import copy

    out.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return out


def _copy_of_meta(self: Tensor, memo: dict[int, Any]) -> Tensor:
    out: Tensor = self.detach().clone()
    if type(self) is not Tensor:
        out = out.as_subclass(type(self))
    memo[id(self)] = out.requires_grad_(self._requires_grad)
    return out


def shallow(self: Tensor) -> Tensor:
    """Another tensor on the same elements."""
    out = alias_noted(self)
    out._node, out._nr, out._requires_grad = self._node, self._nr, self._requires_grad
    out.__dict__.update(self.__dict__)
    return out if type(self) is Tensor else out.as_subclass(type(self))


def install_copying() -> None:
    """Put pickling and copying on Tensor."""
    setattr(Tensor, "__reduce_ex__", reduce_ex)  # noqa: B010
    setattr(Tensor, "__deepcopy__", deepcopy)  # noqa: B010
    setattr(Tensor, "__copy__", shallow)  # noqa: B010
    setattr(Storage, "__reduce__", reduce_storage)  # noqa: B010
