"""Tensors from what a pickle says of them: the functions PyTorch's files call by name.

Files that are read with `weights_only=True` go through `builders`, which spends from a budget and
calls nothing else; these are for pickles that run, PyTorch's and a program's own.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.dtype import DType
from adjoint.engine.core.layout import CONSTANTS, Layout
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.spec import Spec
from adjoint.engine.tensor.identity import recast
from adjoint.engine.tensor.memory import UntypedStorage
from adjoint.engine.tensor.meta import META, blank
from adjoint.engine.tensor.tensor import Tensor, wrap
from adjoint.io.locations import assembled, restored_device
from adjoint.io.names import parameter_class
from adjoint.io.other_tensors import quantized, rebuild_nested_tensor
from adjoint.io.storages import Stored, as_marked


def rebuild_tensor(storage: Any, storage_offset: Any, size: Any, stride: Any) -> Tensor:
    """A tensor on a storage."""
    return _window(storage, storage_offset, size, stride, None)


def rebuild_tensor_v2(
    storage: Any,
    storage_offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    backward_hooks: Any,
    metadata: Any = None,
) -> Tensor:
    """The same, with the flag."""
    out = _window(storage, storage_offset, size, stride, None, metadata)
    return out.requires_grad_() if requires_grad else out


def rebuild_tensor_v3(
    storage: Any,
    storage_offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    backward_hooks: Any,
    dtype: DType,
    metadata: Any = None,
) -> Tensor:
    """The same, of a dtype that has no storages."""
    out = _window(storage, storage_offset, size, stride, dtype, metadata)
    return out.requires_grad_() if requires_grad else out


def _window(
    storage: Any, offset: Any, size: Any, stride: Any, dtype: DType | None, metadata: Any = None
) -> Tensor:
    geometry = (tuple(map(int, size)), tuple(map(int, stride)), int(offset))
    source = getattr(storage, "_read_by", storage)
    if isinstance(source, Stored):
        return source.marked(source.tensor(*geometry, dtype), metadata)
    if not isinstance(storage, UntypedStorage):
        raise TypeError(f"expected a storage, received {type(storage).__name__}")
    if storage._storage.buffer is None:
        kind = dtype or storage.dtype  # type: ignore[attr-defined]
        return blank(Spec(geometry[0], kind, META), geometry[1])
    root = wrap(storage._storage.buffer)
    root._storage = storage._storage
    if dtype is not None and root.dtype is not dtype:
        root = root.view(dtype)
    out = root.as_strided(*geometry)
    out._base = None  # a leaf of its own, on shared memory
    return as_marked(out, metadata)


def rebuild_parameter(data: Tensor, requires_grad: Any, backward_hooks: Any) -> Any:
    """A parameter on a tensor's elements."""
    return parameter_class()(data, bool(requires_grad))


def rebuild_parameter_with_state(
    data: Tensor, requires_grad: Any, backward_hooks: Any, state: Any
) -> Any:
    """The same, with attributes."""
    return set_attributes(rebuild_parameter(data, requires_grad, backward_hooks), state)


def rebuild_from_type_v2(func: Any, new_type: Any, args: Any, state: Any) -> Any:
    """A tensor of a subclass, or with attributes."""
    out = func(*args)
    if type(out) is not new_type:
        out = recast(out, new_type)
    if getattr(type(out), "__setstate__", None) is not getattr(Tensor, "__setstate__", None):
        out.__setstate__(state)
        return out
    return set_attributes(out, state)


def set_attributes(target: Any, state: Any) -> Any:
    """Give an object its pickled attributes: a dict of them, or that and one of slots."""
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    for name, value in {**(attributes or {}), **(slots or {})}.items():
        setattr(target, name, value)
    return target


def rebuild_sparse_tensor(layout: Layout, data: Any) -> Tensor:
    """A sparse tensor from its parts, its shape and whether it is coalesced."""
    coo = layout.name == "sparse_coo"
    *tensors, size = data[:3] if coo else data
    coalesced = coo and len(data) > 3 and data[3] is True
    out: Tensor = assembled(layout, tensors, tuple(size), coalesced)
    return out


def rebuild_qtensor(
    storage: Any, storage_offset: Any, size: Any, stride: Any, quantizer_params: Any,
    requires_grad: Any, backward_hooks: Any,
) -> Any:  # fmt: skip
    """A quantised tensor on a storage."""
    return quantized(rebuild_tensor(storage, storage_offset, size, stride), quantizer_params)


def rebuild_wrapper_subclass(
    cls: Any,
    dtype: DType,
    size: Any,
    stride: Any,
    storage_offset: Any,
    layout: Any,
    device: Any,
    requires_grad: Any,
) -> Any:
    """A tensor of a class with `__torch_dispatch__`, without its attributes."""
    place = restored_device(device)
    out = HOOKS.load_wrappers().make(cls, tuple(size), tuple(stride), dtype=dtype, device=place)
    return out.requires_grad_(bool(requires_grad))


def rebuild_meta_tensor_no_storage(
    dtype: DType, size: Any, stride: Any, requires_grad: Any
) -> Tensor:
    """A tensor of the meta device."""
    out = blank(Spec(tuple(size), dtype, META), tuple(stride))
    return out.requires_grad_(bool(requires_grad))


def rebuild_device_tensor_from_cpu_tensor(
    data: Tensor, dtype: DType, device: Any, requires_grad: Any
) -> Tensor:
    """A tensor of a device whose storages are not in files, from its elements on the CPU."""
    out = data.to(device=restored_device(device), dtype=dtype)
    return out.requires_grad_(bool(requires_grad))


def rebuild_device_tensor_from_numpy(
    data: Any, dtype: DType, device: Any, requires_grad: Any
) -> Tensor:
    """The same, from a NumPy array."""
    return rebuild_device_tensor_from_cpu_tensor(wrap(data.copy()), dtype, device, requires_grad)


def get_layout(name: str) -> Layout:
    """A layout by its name.

    >>> get_layout("torch.strided").name
    'strided'
    """
    for layout in CONSTANTS.values():
        if isinstance(layout, Layout) and name == f"torch.{layout.name}":
            return layout
    raise TypeError(f"there is no layout {name!r}")


# By the names files use.
REBUILDERS: dict[str, Any] = {
    "torch._utils._rebuild_tensor": rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": rebuild_tensor_v3,
    "torch._utils._rebuild_parameter": rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": rebuild_parameter_with_state,
    "torch._utils._rebuild_sparse_tensor": rebuild_sparse_tensor,
    "torch._utils._rebuild_qtensor": rebuild_qtensor,
    "torch._utils._rebuild_nested_tensor": rebuild_nested_tensor,
    "torch._utils._rebuild_wrapper_subclass": rebuild_wrapper_subclass,
    "torch._utils._rebuild_meta_tensor_no_storage": rebuild_meta_tensor_no_storage,
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": rebuild_device_tensor_from_cpu_tensor,
    "torch._utils._rebuild_device_tensor_from_numpy": rebuild_device_tensor_from_numpy,
    "torch._tensor._rebuild_from_type_v2": rebuild_from_type_v2,
    "torch.tensor._rebuild_from_type_v2": rebuild_from_type_v2,
    "torch.serialization._get_layout": get_layout,
}
