"""The names a file may use, and the plain values each of them builds."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import cache
from math import prod
from pickle import UnpicklingError
from typing import Any

import numpy as np

from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DTYPES, NAMED_ONLY, STORAGE_DTYPES, DType, int64
from adjoint.engine.core.files.budget import Budget
from adjoint.engine.core.layout import CONSTANTS, Layout, jagged, sparse_coo, strided
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.spec import Size
from adjoint.engine.tensor.identity import recast
from adjoint.engine.tensor.memory import TypedStorage
from adjoint.engine.tensor.tensor import Tensor
from adjoint.io import objects
from adjoint.io.locations import assembled, restored_device
from adjoint.io.names import DTYPE_OF_STORAGE, parameter_class
from adjoint.io.other_tensors import QUANTIZED_STORAGES, quantized, rebuild_nested_tensor
from adjoint.io.rebuilding import (
    rebuild_device_tensor_from_cpu_tensor,
    rebuild_meta_tensor_no_storage,
)
from adjoint.io.storages import Stored, marks, require_elements

_KINDS = "biufcSU"  # of NumPy's dtypes: those whose elements hold no references
_RANK = 64  # NumPy's bound
_TENSOR = 4096  # a tensor without its elements, and the time it takes
_PAIR = 80  # an entry of a dict or set


class Builder:
    """Something in the fixed table that a file may call, given the file's budget first."""

    __slots__ = ("build", "name")

    def __init__(self, name: str, build: Callable[..., Any]) -> None:
        self.name = name
        self.build = build

    def __repr__(self) -> str:
        return self.name


class ClassName:
    """A class a file may mention, but not call."""

    __slots__ = ("kind", "name")

    def __init__(self, name: str, kind: Any) -> None:
        self.name = name
        self.kind = kind

    def __repr__(self) -> str:
        return self.name


def _stored(storage: Any) -> Stored:
    """What tensors are built on, of a storage in the file."""
    source = getattr(storage, "_read_by", None) if type(storage) is TypedStorage else None
    if not isinstance(source, Stored):
        raise TypeError(f"expected a storage, found {type(storage).__name__}")
    return source


def _tensor(
    budget: Budget,
    stored: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    source = _stored(stored)
    out = source.tensor(*_geometry(budget, size, stride), offset)
    out = _as_marked(budget, source, out, metadata)
    return out.requires_grad_() if requires_grad is True else out


def _tensor_of_dtype(
    budget: Budget,
    stored: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    if not isinstance(dtype, DType):
        raise TypeError(f"expected a dtype, found {brief(dtype)}")
    source = _stored(stored)
    out = source.tensor(*_geometry(budget, size, stride), offset, dtype)
    out = _as_marked(budget, source, out, metadata)
    return out.requires_grad_() if requires_grad is True else out


def _as_marked(budget: Budget, source: Stored, tensor: Tensor, metadata: Any) -> Tensor:
    if any(marks(metadata)):  # copies, which may be larger than what is stored
        budget.spend(4 * tensor.numel() * tensor.element_size(), "a tensor")
    return source.marked(tensor, metadata)


def _parameter(budget: Budget, data: Any, requires_grad: Any = True, hooks: Any = None) -> Any:
    if not isinstance(data, Tensor):
        raise TypeError(f"expected a tensor, found {type(data).__name__}")
    budget.spend(_TENSOR, "a parameter")
    return parameter_class()(data, requires_grad is True)


def _parameter_with_state(
    budget: Budget, data: Any, requires_grad: Any, hooks: Any, state: Any
) -> Any:
    return _with_attributes(budget, _parameter(budget, data, requires_grad), state)


def _from_type(budget: Budget, rebuild: Any, kind: Any, args: Any, state: Any) -> Any:
    """A tensor with attributes, or of a subclass: Parameter, or one declared safe."""
    if not isinstance(rebuild, Builder) or not isinstance(kind, (ClassName, type)):
        raise TypeError(
            f"expected a rebuilding function and a class, found {brief(rebuild)}, {brief(kind)}"
        )
    if isinstance(kind, type) and not issubclass(kind, Tensor):
        raise TypeError(f"{brief(kind)} is no class of tensors")
    if rebuild.build is _from_type or not isinstance(args, tuple):
        raise TypeError(f"{rebuild.name} cannot rebuild a tensor from a {type(args).__name__}")
    tensor = rebuild.build(budget, *args)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{rebuild.name} rebuilds no tensor")
    if isinstance(kind, type):  # one that the program declared safe
        if type(tensor) is not kind:
            tensor = recast(tensor, kind)
        if isinstance(state, dict):
            budget.spend(_PAIR * len(state), "a tensor's attributes")
        objects.set_state(tensor, state)
        return tensor
    if kind.name == "torch.nn.parameter.Parameter" and type(tensor) is Tensor:
        tensor = _parameter(budget, tensor, tensor.requires_grad)
    return _with_attributes(budget, tensor, state)


def _wrapper(
    budget: Budget, cls: Any, dtype: Any, size: Any, stride: Any, offset: Any, layout: Any,
    device: Any, requires_grad: Any,
) -> Any:  # fmt: skip
    """A tensor of a class with `__torch_dispatch__`, without its attributes."""
    if not isinstance(cls, type) or not issubclass(cls, Tensor) or not isinstance(dtype, DType):
        raise TypeError(f"expected a class of tensors and a dtype, found {brief(cls)}")
    shape, strides = _geometry(budget, size, stride)
    place = restored_device(device)
    tensor = HOOKS.load_wrappers().make(cls, shape, strides, dtype=dtype, device=place)
    return tensor.requires_grad_(requires_grad is True)


def _with_attributes(budget: Budget, tensor: Any, state: Any) -> Any:
    if isinstance(state, tuple) and len(state) == 2:
        state = state[0]
    if isinstance(state, dict):
        budget.spend(_PAIR * len(state), "a tensor's attributes")
        for name, value in state.items():
            if isinstance(name, str) and not name.startswith("__"):
                tensor.__dict__[name] = value
    return tensor


def _sparse(budget: Budget, layout: Any, data: Any) -> Tensor:
    if not isinstance(layout, Layout) or not isinstance(data, tuple):
        raise TypeError(f"tensors of layout {brief(layout)} are not loaded")
    *tensors, size = data[:3] if layout is sparse_coo else data
    if not all(isinstance(t, Tensor) and t.layout is strided for t in tensors):
        raise TypeError("expected tensors for the parts of a sparse tensor")
    budget.spend(2 * _TENSOR + 4 * sum(t.numel() * t.element_size() for t in tensors), "a tensor")
    coalesced = layout is sparse_coo and len(data) > 3 and data[3] is True
    shape = _sizes(budget, size)
    tensor: Tensor = assembled(layout, tensors, shape, coalesced)
    return tensor


def _quantized(
    budget: Budget, stored: Any, offset: Any, size: Any, stride: Any, steps: Any,
    requires_grad: Any = False, hooks: Any = None,
) -> Any:  # fmt: skip
    return quantized(_tensor(budget, stored, offset, size, stride), steps)


def _nested(budget: Budget, elements: Any, sizes: Any, strides: Any, places: Any) -> Any:
    parts = (elements, sizes, strides, places)
    if not all(isinstance(t, Tensor) and t.layout is strided for t in parts):
        raise TypeError("expected tensors for the parts of a nested tensor")
    if any(t.dtype is not int64 for t in parts[1:]) or [t.ndim for t in parts] != [1, 2, 2, 1]:
        raise TypeError("expected whole numbers for shapes, strides and places")
    require_elements("a nested tensor", *parts)
    budget.spend(_TENSOR * (1 + len(sizes)), "a nested tensor")
    count = sum(prod(shape) for shape in sizes.tolist())  # rows may be the same elements
    budget.spend(4 * abs(count) * elements.element_size(), "a nested tensor")
    return rebuild_nested_tensor(*parts)


def _meta(budget: Budget, dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
    if not isinstance(dtype, DType):
        raise TypeError(f"expected a dtype, found {brief(dtype)}")
    return rebuild_meta_tensor_no_storage(dtype, *_geometry(budget, size, stride), requires_grad)


def _of_device(budget: Budget, data: Any, dtype: Any, device: Any, requires_grad: Any) -> Tensor:
    if not isinstance(data, Tensor) or not isinstance(dtype, DType):
        raise TypeError(f"expected a tensor and a dtype, found {brief(data)}, {brief(dtype)}")
    budget.spend(_TENSOR + 4 * data.numel() * dtype.itemsize, "a tensor")
    return rebuild_device_tensor_from_cpu_tensor(data, dtype, str(device), requires_grad)


def _layout(budget: Budget, name: Any) -> Layout:
    for layout in CONSTANTS.values():
        if isinstance(layout, Layout) and layout is not jagged and name == f"torch.{layout.name}":
            return layout
    raise TypeError(f"tensors of layout {brief(name)} are not loaded")


def _encode(budget: Budget, text: Any, encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "utf-8"):
        raise TypeError(f"cannot encode {type(text).__name__} as {brief(encoding)}")
    budget.spend(4 * len(text) + 64, "encoded text")
    return text.encode(encoding)


def _device(budget: Budget, kind: Any, index: Any = None) -> Device:
    if not isinstance(kind, str) or not (index is None or isinstance(index, int)):
        raise TypeError(f"expected a device, found {brief(kind)}, {brief(index)}")
    budget.spend(256, "a device")
    return Device(kind, index)


def _empty_array(budget: Budget, cls: Any, shape: Any, code: Any) -> Any:
    budget.spend(256, "a NumPy array")
    return np.ndarray((0,), "b")  # its state follows, see `set_numpy_state`


def _numpy_dtype(budget: Budget, code: Any, align: Any = False, copy: Any = False) -> Any:
    if not isinstance(code, str) or re.fullmatch(r"[<>=|]?[?biufcSUOVmM]\d{0,9}", code) is None:
        raise TypeError(f"{brief(code)} is no NumPy dtype")
    budget.spend(256, "a NumPy dtype")
    dtype = np.dtype(code)
    if dtype.kind not in _KINDS:
        raise TypeError(f"NumPy arrays of {dtype} are not loaded")
    return np.dtype(dtype.str, False, True)


def _numpy_scalar(budget: Budget, dtype: Any, data: Any) -> Any:
    if not isinstance(dtype, np.dtype) or dtype.kind not in _KINDS:
        raise TypeError(f"expected a NumPy dtype, found {type(dtype).__name__}")
    raw = _plain_bytes(budget, data)
    if len(raw) != dtype.itemsize:
        raise ValueError(f"{len(raw)} bytes for a number of {dtype}")
    return np.frombuffer(raw, dtype, 1)[0]


def set_numpy_state(target: Any, state: Any, budget: Budget) -> bool:
    """Give a NumPy array or dtype its pickled state; False if that is not what it is."""
    try:
        if type(target) is np.ndarray:
            target.__setstate__(_array_state(state, budget))
            return True
        if isinstance(target, np.dtype):
            target.__setstate__(_dtype_state(target, state))  # type: ignore[attr-defined]
            return True
    except (TypeError, ValueError, OverflowError) as error:
        raise UnpicklingError(
            f"{budget.what}: refused: the state of a NumPy {type(target).__name__}: {error}"
        ) from error
    return False


def _array_state(state: Any, budget: Budget) -> Any:
    """What NumPy may be given as the state of an array: it believes the sizes."""
    if type(state) is not tuple or len(state) != 5:
        raise ValueError("expected a version, shape, dtype, order and data")
    version, shape, dtype, fortran, data = state
    if type(version) is not int or version != 1 or type(fortran) not in (bool, int):
        raise ValueError(f"version {brief(version)}, order {brief(fortran)}")
    if not isinstance(dtype, np.dtype) or dtype.kind not in _KINDS:
        raise ValueError(f"elements of {brief(dtype)}")
    sizes = _sizes(budget, shape)
    raw = _plain_bytes(budget, data)
    if prod(sizes) * dtype.itemsize != len(raw) or prod(n or 1 for n in sizes) >= 1 << 62:
        raise ValueError(f"{len(raw)} bytes for shape {sizes} of {dtype}")
    budget.spend(2 * len(raw), "a NumPy array")
    return 1, sizes, dtype, bool(fortran), raw


def _dtype_state(target: Any, state: Any) -> Any:
    """What NumPy may be given as the state of a dtype: each field as the dtype itself has it."""
    if type(state) is not tuple or len(state) not in (8, 9):
        raise ValueError("expected 8 fields")
    version, order, *structure, size, alignment, flags = state[:8]
    if type(version) is not int or version not in (3, 4):
        raise ValueError(f"version {brief(version)}")
    if not isinstance(order, str) or order not in ("<", ">", "|", "="):
        raise ValueError(f"byte order {brief(order)}")
    if any(part is not None for part in (*structure, *state[8:])):
        raise ValueError("fields, subarrays and metadata are not loaded")
    given = target.kind in "SU"  # the others say -1, which is "as always"
    wanted = (target.itemsize, target.alignment, target.flags) if given else (-1, -1, 0)
    if any(type(n) is not int for n in (size, alignment, flags)):
        raise ValueError("size, alignment and flags must be whole numbers")
    if (size, alignment, flags) != wanted:
        raise ValueError(
            f"size {brief(size)}, alignment {brief(alignment)} and flags {brief(flags)}, where "
            f"{target} has {wanted[0]}, {wanted[1]} and {wanted[2]}"
        )
    return 3, order, None, None, None, *wanted


def brief(value: Any) -> str:
    """A value in a message: what files hold may be long, deep or endless."""
    if isinstance(value, (Builder, ClassName, DType)) or value is None or type(value) is bool:
        return repr(value)
    if type(value) is int:
        return str(value) if value.bit_length() < 128 else "a number of many digits"
    return repr(value[:80]) if type(value) is str else f"a {type(value).__name__}"


def _sizes(budget: Budget, sizes: Any) -> tuple[int, ...]:
    """A shape, or strides: a few whole numbers."""
    if not isinstance(sizes, (tuple, list)) or len(sizes) > _RANK:
        raise ValueError(f"expected at most {_RANK} sizes, found {brief(sizes)}")
    if not all(type(n) is int and 0 <= n < 1 << 62 for n in sizes):
        raise ValueError(f"sizes must be whole numbers from 0, found {[brief(n) for n in sizes]}")
    budget.spend(64, "a shape")
    return tuple(sizes)


def _geometry(budget: Budget, size: Any, stride: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    budget.spend(_TENSOR, "a tensor")
    return _sizes(budget, size), _sizes(budget, stride)


def _set_of(kind: Callable[..., Any]) -> Callable[..., Any]:
    def build(budget: Budget, items: Any = ()) -> Any:
        if not isinstance(items, (list, tuple)):
            raise TypeError(f"expected a list, found {type(items).__name__}")
        budget.spend(_PAIR * len(items) + 224, "a set")
        for item in items:
            budget.check_key(item)
        return kind(items)

    return build


def _ordered(budget: Budget, pairs: Any = ()) -> Any:
    if not isinstance(pairs, (list, tuple)):
        raise TypeError(f"expected a list of pairs, found {type(pairs).__name__}")
    budget.spend(2 * _PAIR * len(pairs) + 256, "an OrderedDict")
    ordered: OrderedDict[Any, Any] = OrderedDict()
    for key, value in pairs:
        budget.check_key(key)
        ordered[key] = value
    return ordered


def _counter(budget: Budget, counts: Any = None) -> Any:
    if counts is not None and type(counts) is not dict:
        raise TypeError(f"expected a dict, found {type(counts).__name__}")
    budget.spend(_PAIR * len(counts or ()) + 256, "a Counter")
    return Counter(counts)


def _complex(budget: Budget, real: Any = 0.0, imaginary: Any = 0.0) -> complex:
    if not all(isinstance(x, (int, float)) for x in (real, imaginary)):
        raise TypeError("expected two numbers")
    budget.spend(48, "a number")
    return complex(real, imaginary)


def _size(budget: Budget, sizes: Any = ()) -> Size:
    budget.spend(256, "a shape")
    return Size(_sizes(budget, sizes))


def _plain_bytes(budget: Budget, value: Any = b"", encoding: Any = "latin1") -> bytes:
    if isinstance(value, str):
        return _encode(budget, value, encoding)
    if not isinstance(value, (bytes, bytearray, list)):
        raise TypeError(f"expected bytes, found {type(value).__name__}")
    budget.spend(2 * len(value) + 64, "bytes")
    return bytes(value)


def _builders() -> dict[str, Callable[..., Any]]:
    table: dict[str, Callable[..., Any]] = {
        "collections.OrderedDict": _ordered,
        "collections.Counter": _counter,
        "builtins.set": _set_of(set),
        "builtins.frozenset": _set_of(frozenset),
        "builtins.complex": _complex,
        "builtins.bytes": _plain_bytes,
        "builtins.bytearray": lambda budget, *args: bytearray(_plain_bytes(budget, *args)),
        "_codecs.encode": _encode,
        "torch.Size": _size,
        "torch.device": _device,
        "torch._utils._rebuild_tensor": _tensor,
        "torch._utils._rebuild_tensor_v2": _tensor,
        "torch._utils._rebuild_tensor_v3": _tensor_of_dtype,
        "torch._utils._rebuild_parameter": _parameter,
        "torch._utils._rebuild_parameter_with_state": _parameter_with_state,
        "torch._tensor._rebuild_from_type_v2": _from_type,
        "torch._utils._rebuild_sparse_tensor": _sparse,
        "torch._utils._rebuild_qtensor": _quantized,
        "torch._utils._rebuild_nested_tensor": _nested,
        "torch._utils._rebuild_wrapper_subclass": _wrapper,
        "torch._utils._rebuild_meta_tensor_no_storage": _meta,
        "torch._utils._rebuild_device_tensor_from_cpu_tensor": _of_device,
        "torch.serialization._get_layout": _layout,
        "numpy.dtype": _numpy_dtype,
    }
    for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
        table[f"{module}._reconstruct"] = _empty_array
        table[f"{module}.scalar"] = _numpy_scalar
    return table


@cache
def names() -> dict[str, Any]:
    """Every name a file may use."""
    known: dict[str, Any] = {name: Builder(name, fn) for name, fn in _builders().items()}
    known |= {f"torch.{d.name}": d for d in (*DTYPES, *STORAGE_DTYPES)}
    known |= {f"torch.{name}": d for name, d in NAMED_ONLY.items()}
    whole_numbers = {name: dtype for dtype, name in QUANTIZED_STORAGES.items()}
    for name, dtype in (DTYPE_OF_STORAGE | whole_numbers).items():
        known[f"torch.{name}"] = known[f"torch.cuda.{name}"] = ClassName(f"torch.{name}", dtype)
    untyped = ClassName("torch.storage.UntypedStorage", None)
    for name in ("storage.UntypedStorage", "UntypedStorage", "storage.TypedStorage"):
        known[f"torch.{name}"] = untyped
    known["numpy.ndarray"] = ClassName("numpy.ndarray", np.ndarray)
    for name in ("torch.Tensor", "torch.nn.parameter.Parameter"):
        known[name] = ClassName(name, None)
    return known
