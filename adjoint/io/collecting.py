"""Storages on their way into a file: those of the tensors in a value, while it is pickled."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from io import BytesIO
from typing import Any

from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.layout import jagged, strided
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.spec import Size
from adjoint.engine.tensor.memory import TypedStorage, UntypedStorage
from adjoint.engine.tensor.meta import is_meta
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import Tensor, wrap
from adjoint.io.locations import location_tag
from adjoint.io.names import STORAGES, parameter_class
from adjoint.io.object_pickler import ObjectPickler, foreign_pickler
from adjoint.io.objects import global_name
from adjoint.io.other_tensors import QUANTIZED_STORAGES, is_quantized, parts_of, steps_of
from adjoint.io.pickler import Global, Persistent, Pickler
from adjoint.io.storages import memory_of


def pickled_value(
    value: Any,
    pickles: bool,
    pickle_module: Any = None,
    protocol: int = 2,
    legacy: bool = False,
) -> tuple[bytes, list[tuple[Any, int]]]:
    """A value as a pickle, and the storages it refers to: flat arrays and counts, by their keys."""
    collector, file = StorageCollector(legacy), BytesIO()
    parts = (collector.reduce, collector.persistent)
    if not pickles:
        Pickler(file.write, *parts).dump(value)
    elif pickle_module in (None, pickle):
        ObjectPickler(file, protocol, *parts).dump(value)
    else:
        foreign_pickler(pickle_module, file, protocol, *parts).dump(value)
    return file.getvalue(), collector.storages


class StorageCollector:
    """Collects the storages of the tensors in a value while it is pickled.

    Args:
        legacy: whether ids are those of the layout before PyTorch 1.6.
    """

    def __init__(self, legacy: bool = False) -> None:
        self.view: tuple[None, ...] = (None,) if legacy else ()  # no part of another storage
        # Flat arrays and how many elements files say they have, in the order of their keys.
        self.storages: list[tuple[Any, int]] = []
        self._keys: dict[int, tuple[str, Any]] = {}
        self._alive: list[Any] = []

    def reduce(self, tensor: Tensor) -> tuple[str, tuple[Any, ...]]:
        """How a tensor is written: the name that rebuilds it, and the arguments."""
        if is_quantized(tensor):
            return "torch._utils _rebuild_qtensor", self._quantized(tensor)
        if tensor.layout is jagged:
            return "torch._utils _rebuild_nested_tensor", parts_of(tensor)
        if tensor.layout is not strided:
            size, *others = tensor.rest()  # type: ignore[attr-defined]
            parts = tensor.detach().tensors()  # type: ignore[attr-defined]
            data = (*parts, Size(size), *others)
            return "torch._utils _rebuild_sparse_tensor", (tensor.layout, data)
        if HOOKS.wrappers is not None and HOOKS.wrappers.among((tensor,)):
            return self._wrapper(tensor)
        if is_meta(tensor):
            look = (tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))
            name = "torch._utils _rebuild_meta_tensor_no_storage"
            return self._dressed(tensor, name, (*look, bool(tensor.requires_grad)))
        if type(tensor._array) is Window or tensor._storage.buffer is None:
            raise CaptureError("save: a traced tensor cannot be saved: it has no elements")
        if hasattr(tensor, "full_tensor"):
            raise TypeError(
                f"save: cannot save a tensor of class {type(tensor).__name__}. Save "
                "tensor.full_tensor(), or use distributed.checkpoint."
            )
        if issubclass(type(tensor), parameter_class()):  # of a subclass, too: as PyTorch has it
            args: Any = (tensor.detach(), bool(tensor.requires_grad), OrderedDict())
            if not tensor.__dict__:
                return "torch._utils _rebuild_parameter", args
            state = dict(tensor.__dict__)
            return "torch._utils _rebuild_parameter_with_state", (*args, state)
        plain, name = self._plain(tensor), "torch._utils _rebuild_tensor_v2"
        if tensor.dtype not in STORAGES:  # PyTorch has no storage class for it, and names the dtype
            plain, name = (*plain, tensor.dtype), "torch._utils _rebuild_tensor_v3"
        return self._dressed(tensor, name, plain)

    def _dressed(self, tensor: Tensor, name: str, args: Any) -> tuple[str, tuple[Any, ...]]:
        """With class and attributes, where there are any."""
        if type(tensor) is Tensor and not tensor.__dict__:
            return name, args
        plain = type(tensor) is Tensor
        kind = Global("torch Tensor" if plain else global_name(type(tensor)))
        state = dict(tensor.__dict__)
        return "torch._tensor _rebuild_from_type_v2", (Global(name), kind, args, state)

    def _wrapper(self, tensor: Tensor) -> tuple[str, tuple[Any, ...]]:
        """A tensor that stands for others: its class, what it looks like, its attributes."""
        kind = Global(global_name(type(tensor)))
        look = (
            kind, tensor.dtype, Size(tensor.shape), tuple(tensor.stride()), 0, strided,
            tensor.device, bool(tensor.requires_grad),
        )  # fmt: skip
        rebuild = Global("torch._utils _rebuild_wrapper_subclass")
        return (
            "torch._tensor _rebuild_from_type_v2",
            (rebuild, kind, look, dict(tensor.__dict__)),
        )

    def _quantized(self, tensor: Any) -> tuple[Any, ...]:
        """A tensor that is no `Tensor`: whole numbers, and what they stand for."""
        ints = tensor.int_repr()
        named, *others = steps_of(tensor)
        steps = (Global(f"torch {named.name}"), *others)
        place = self._place(ints, QUANTIZED_STORAGES[ints.dtype])
        return (*place, steps, False, OrderedDict())

    def _plain(self, tensor: Tensor) -> tuple[Any, ...]:
        place = self._place(tensor, STORAGES.get(tensor.dtype))
        return (*place, bool(tensor.requires_grad), OrderedDict())

    def _place(self, tensor: Tensor, typed: str | None) -> tuple[Any, ...]:
        """Where a tensor is in its storage, of which files say the class."""
        flat, offset = memory_of(tensor.detach())
        shown = UntypedStorage(tensor._storage, tensor.device)
        pid = self._pid(shown, flat, tensor.dtype, typed)
        return Persistent(pid), offset, tuple(tensor.shape), tuple(tensor.stride())

    def persistent(self, storage: UntypedStorage) -> tuple[Any, ...]:
        """What stands for a storage that a value holds itself."""
        if storage._storage.buffer is None:
            raise TypeError("save: a storage of the meta device cannot be saved: it has no bytes")
        flat, _ = memory_of(wrap_whole(storage))
        dtype = wrap(flat).dtype
        typed = isinstance(storage, TypedStorage)
        return self._pid(storage, flat, dtype, STORAGES.get(dtype) if typed else None)

    def _pid(
        self, storage: UntypedStorage, flat: Any, dtype: Any, typed: str | None
    ) -> tuple[Any, ...]:
        key, known = self._keys.get(id(storage._storage), ("", None))
        count = flat.nbytes if typed is None else len(flat)
        if not key:
            key = str(len(self.storages))
            self._keys[id(storage._storage)] = key, dtype
            self.storages.append((flat, count))
            self._alive.append(storage._storage)
        elif known is not dtype:
            raise RuntimeError(
                "save: cannot save multiple tensors that view the same data as different types "
                f"({known} and {dtype}). Save a clone of one of them."
            )
        kind = Global("torch.storage UntypedStorage" if typed is None else f"torch {typed}")
        return ("storage", kind, key, location_tag(storage), count, *self.view)


def wrap_whole(storage: UntypedStorage) -> Tensor:
    """A tensor that shows all of a storage."""
    whole = wrap(storage._storage.buffer)
    whole._storage = storage._storage
    return whole
