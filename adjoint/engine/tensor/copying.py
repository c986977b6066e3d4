"""Pickling and copying: what is shared stays shared."""

from __future__ import annotations

import copy
from typing import Any

from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.layout import is_dense
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.tensor.identity import recast
from adjoint.engine.tensor.meta import META, blank, is_meta
from adjoint.engine.tensor.storage import Storage, Window
from adjoint.engine.tensor.tensor import Tensor, alias_noted, meta_of, wrap
from adjoint.engine.tensor.watching import show


def rebuild_storage(array: Any, places: tuple[int, ...] | None = None) -> Storage:
    """A storage on the CPU from a pickled array, whose dimensions go to these places."""
    return Storage(array if places is None else array.transpose(places))


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
    out = root if window is None else _show(root, *window)
    if device != "cpu":
        out = out.to(device)
    return _finished(out, cls, requires_grad, attributes)


def rebuild_meta(
    cls: type[Tensor],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: DType,
    requires_grad: bool,
    attributes: dict[str, Any],
) -> Tensor:
    """A tensor of the meta device, which has no elements to pickle."""
    out = blank(Spec(shape, dtype, META), strides)
    return _finished(out, cls, requires_grad, attributes)


def _finished(
    out: Tensor, cls: type[Tensor], requires_grad: bool, attributes: dict[str, Any]
) -> Tensor:
    """A new tensor, no view of another, of its class and with its flag and attributes."""
    out._base = None
    if cls is not Tensor:
        out = recast(out, cls)
    if requires_grad:
        out.requires_grad_()
    out.__dict__.update(attributes)
    return out


def _shown(tensor: Tensor) -> tuple[Any, ...] | None:
    """The window on the storage, or None for all of it."""
    buffer = tensor._storage.buffer
    if not tensor._chain and (buffer is None or _lies_dense(buffer)):
        return None
    place = tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset()
    return (*place, tensor.dtype)


def _show(root: Tensor, shape: Any, stride: Any, offset: int, dtype: Any = None) -> Tensor:
    """What a window shows of a storage, given as a tensor of all of it."""
    if dtype is not None and dtype is not root.dtype:  # a view of its bytes as another dtype
        room = HOOKS.array.room(root)
        room -= room % max(1, dtype.itemsize // root.dtype.itemsize)
        root = root.as_strided((room,), (1,), 0).view(dtype)
    return root.as_strided(shape, stride, offset)


def _lies_dense(buffer: Any) -> bool:
    """Whether an array's elements lie side by side in memory, in any order of dimensions."""
    return buffer.flags.c_contiguous or is_dense(buffer.shape, wrap(buffer).stride())


def _whole(storage: Storage) -> Tensor:
    """All of a storage: the tensor it was made for, or what lies between its elements as well.

    Windows name places in memory, so a copy has to lie as the storage does.
    """
    whole = wrap(storage.buffer)
    whole._storage = storage
    if _lies_dense(storage.buffer):
        return whole
    with CONTEXT.having(grad_enabled=False):
        return whole.as_strided((HOOKS.array.room(whole),), (1,), 0)


def reduce_storage(storage: Storage) -> tuple[Any, ...]:
    """Pickle a storage as a host array, row after row."""
    show(storage)  # whoever calls this has the array
    whole = _whole(storage)
    array, strides = whole._array, whole.stride()
    if array.flags.c_contiguous:
        return (rebuild_storage, (HOOKS.array.to_host(array),))
    order = sorted(range(array.ndim), key=lambda d: -strides[d])
    places = tuple(order.index(d) for d in range(array.ndim))
    return (rebuild_storage, (HOOKS.array.to_host(array.transpose(order)), places))


# What is said of results of operations on the tape.
NO_DEEPCOPY = (
    "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
    "protocol at the moment. Copy tensor.detach() instead."
)


def reduce_ex(self: Tensor, protocol: int) -> tuple[Any, ...]:
    """Pickle the storage and the window on it; what is read is a leaf, as in PyTorch."""
    if is_meta(self):
        about = tuple(self.shape), tuple(self.stride()), self.dtype
        return (rebuild_meta, (type(self), *about, self._requires_grad, dict(self.__dict__)))
    if type(self._array) is Window:
        raise CaptureError("a traced tensor cannot be pickled: it has no elements")
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
        raise RuntimeError(NO_DEEPCOPY)
    if is_meta(self):
        return _copy_of_meta(self, memo)
    if HOOKS.wrappers is not None and HOOKS.wrappers.among((self,)):
        return _with_its_own(HOOKS.wrappers.cloned(self), self, memo)
    key = ("storage", id(self._storage))
    root = memo.get(key)  # type: ignore[call-overload]
    if root is None:
        root = _copied(self) if CONTEXT.capture is None else _copy_recorded(self)
        memo[key] = root  # type: ignore[index]
        memo.setdefault(id(memo), []).append(self._storage)  # keep ids unique
    window = _shown(self)
    with CONTEXT.having(grad_enabled=False):
        shown = root.detach() if window is None else _show(root, *window)
    return _with_its_own(_finished(shown, type(self), self._requires_grad, {}), self, memo)


def _with_its_own(out: Tensor, source: Tensor, memo: dict[int, Any]) -> Tensor:
    """A copy of a tensor, with copies of its gradient and attributes."""
    out._requires_grad = source._requires_grad
    memo[id(source)] = out
    grad = source.grad
    if grad is not None:
        meta_of(out).grad = copy.deepcopy(grad, memo)
    out.__dict__.update(copy.deepcopy(source.__dict__, memo))
    return out


def _copied(tensor: Tensor) -> Tensor:
    """A copy of the whole storage of a tensor, that lies in memory as it does."""
    return wrap(_whole(tensor._storage)._array.copy(order="K"))


def _copy_recorded(tensor: Tensor) -> Tensor:
    """The same while a function is recorded: each call copies what is there then."""
    if tensor._storage.buffer is None:
        root: Tensor = CONTEXT.capture.root_tensor(tensor._storage)
        return root
    whole = _whole(tensor._storage) if tensor._chain else tensor.detach()
    return whole.clone()


def _copy_of_meta(self: Tensor, memo: dict[int, Any]) -> Tensor:
    with CONTEXT.having(grad_enabled=False):
        out: Tensor = self.detach().clone()
    if type(self) is not Tensor:
        out = recast(out, type(self))
    return _with_its_own(out, self, memo)


def shallow(self: Tensor) -> Tensor:
    """Another tensor on the same elements."""
    out = alias_noted(self)
    out._node, out._nr, out._requires_grad = self._node, self._nr, self._requires_grad
    if type(self) is not Tensor:
        out = recast(out, type(self))
    out.__dict__.update(self.__dict__)
    return out


def install_copying() -> None:
    """Put pickling and copying on Tensor."""
    setattr(Tensor, "__reduce_ex__", reduce_ex)  # noqa: B010
    setattr(Tensor, "__deepcopy__", deepcopy)  # noqa: B010
    setattr(Tensor, "__copy__", shallow)  # noqa: B010
    setattr(Storage, "__reduce__", reduce_storage)  # noqa: B010
