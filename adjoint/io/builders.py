"""The names a file may use, and the plain values each of them builds."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DTYPES, DType
from adjoint.engine.core.layout import Layout, sparse_coo, sparse_csr, strided
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.spec import Size
from adjoint.engine.tensor.tensor import Tensor
from adjoint.io.names import DTYPE_OF_STORAGE, parameter_class
from adjoint.io.storages import Stored


class Builder:
    """Something in the fixed table that a file may call."""

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


def _tensor(
    stored: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    if not isinstance(stored, Stored):
        raise TypeError(f"expected a storage, found {type(stored).__name__}")
    out = stored.tensor(tuple(size), tuple(stride), offset)
    return out.requires_grad_() if requires_grad is True else out


def _tensor_of_dtype(
    stored: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    if not isinstance(stored, Stored) or not isinstance(dtype, DType):
        raise TypeError(f"expected a storage and a dtype, found {type(stored).__name__}, {dtype!r}")
    out = stored.tensor(tuple(size), tuple(stride), offset, dtype)
    return out.requires_grad_() if requires_grad is True else out


def _parameter(data: Any, requires_grad: Any = True, hooks: Any = None) -> Any:
    if not isinstance(data, Tensor):
        raise TypeError(f"expected a tensor, found {type(data).__name__}")
    return parameter_class()(data, requires_grad is True)


def _parameter_with_state(data: Any, requires_grad: Any, hooks: Any, state: Any) -> Any:
    return _with_attributes(_parameter(data, requires_grad), state)


def _from_type(rebuild: Any, kind: Any, args: Any, state: Any) -> Any:
    """A tensor with attributes, or of a subclass; of subclasses only Parameter is known."""
    if not isinstance(rebuild, Builder) or not isinstance(kind, ClassName):
        raise TypeError(f"expected a rebuilding function and a class, found {rebuild!r}, {kind!r}")
    made = rebuild.build(*args)
    if kind.name == "torch.nn.parameter.Parameter" and type(made) is Tensor:
        made = _parameter(made, made.requires_grad)
    return _with_attributes(made, state)


def _with_attributes(tensor: Any, state: Any) -> Any:
    if isinstance(state, tuple) and len(state) == 2:
        state = state[0]
    if isinstance(state, dict):
        for name, value in state.items():
            if isinstance(name, str) and not name.startswith("__"):
                tensor.__dict__[name] = value
    return tensor


def _sparse(layout: Any, data: Any) -> Tensor:
    if not isinstance(layout, Layout) or not isinstance(data, tuple):
        raise TypeError(f"tensors of layout {layout!r} are not loaded")
    *tensors, size = data[:3] if layout is sparse_coo else data
    if not all(isinstance(t, Tensor) for t in tensors):
        raise TypeError("expected tensors for the parts of a sparse tensor")
    coalesced = layout is sparse_coo and data[3:] == (True,)
    made: Tensor = HOOKS.load_sparse().assemble(layout, tensors, tuple(size), coalesced)
    return made


def _layout(name: Any) -> Layout:
    for layout in (strided, sparse_coo, sparse_csr):
        if name == f"torch.{layout.name}":
            return layout
    raise TypeError(f"tensors of layout {name!r} are not loaded")


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "utf-8"):
        raise TypeError(f"cannot encode {type(text).__name__} as {encoding!r}")
    return text.encode(encoding)


def _device(kind: Any, index: Any = None) -> Device:
    if not isinstance(kind, str) or not (index is None or isinstance(index, int)):
        raise TypeError(f"expected a device, found {kind!r}, {index!r}")
    return Device(kind, index)


def _empty_array(cls: Any, shape: Any, code: Any) -> Any:
    return np.ndarray((0,), "b")  # its state follows, see `set_array_state`


def _numpy_dtype(code: Any, align: Any = False, copy: Any = False) -> Any:
    made = np.dtype(str(code))
    if made.kind not in "biufcSU":
        raise TypeError(f"NumPy arrays of {made} are not loaded")
    return np.dtype(made.str, False, True)


def _numpy_scalar(dtype: Any, data: Any) -> Any:
    if not isinstance(dtype, np.dtype):
        raise TypeError(f"expected a NumPy dtype, found {type(dtype).__name__}")
    if isinstance(data, str):
        data = data.encode("latin1")
    return np.frombuffer(data, dtype, 1)[0]


def set_numpy_state(target: Any, state: Any) -> bool:
    """Give a NumPy array or dtype its pickled state; False if that is not what it is."""
    if not isinstance(state, tuple):
        return False
    if type(target) is np.ndarray and len(state) == 5:
        version, shape, dtype, fortran, data = state
        if isinstance(dtype, np.dtype) and dtype.kind in "biufcSU":
            packed: Any = (int(version), tuple(shape), dtype, bool(fortran), _plain_bytes(data))
            target.__setstate__(packed)
            return True
    plain = len(state) >= 8 and state[2:5] == (None, None, None)
    if isinstance(target, np.dtype) and plain and state[1] in ("<", ">", "|", "="):
        target.__setstate__(state)  # type: ignore[attr-defined]
        return True
    return False


def _builders() -> dict[str, Callable[..., Any]]:
    table: dict[str, Callable[..., Any]] = {
        "collections.OrderedDict": OrderedDict,
        "collections.Counter": Counter,
        "builtins.set": set,
        "builtins.frozenset": frozenset,
        "builtins.complex": complex,
        "builtins.bytes": lambda *args: b"".join(_plain_bytes(a) for a in args[:1]),
        "builtins.bytearray": lambda *args: bytearray(*[_plain_bytes(a) for a in args[:1]]),
        "_codecs.encode": _encode,
        "torch.Size": lambda sizes=(): Size(int(n) for n in sizes),
        "torch.device": _device,
        "torch._utils._rebuild_tensor": _tensor,
        "torch._utils._rebuild_tensor_v2": _tensor,
        "torch._utils._rebuild_tensor_v3": _tensor_of_dtype,
        "torch._utils._rebuild_parameter": _parameter,
        "torch._utils._rebuild_parameter_with_state": _parameter_with_state,
        "torch._tensor._rebuild_from_type_v2": _from_type,
        "torch._utils._rebuild_sparse_tensor": _sparse,
        "torch.serialization._get_layout": _layout,
        "numpy.dtype": _numpy_dtype,
    }
    for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
        table[f"{module}._reconstruct"] = _empty_array
        table[f"{module}.scalar"] = _numpy_scalar
    return table


def _plain_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("latin1")
    if not isinstance(value, (bytes, bytearray, list)):
        raise TypeError(f"expected bytes, found {type(value).__name__}")
    return bytes(value)


@cache
def names() -> dict[str, Any]:
    """Every name a file may use."""
    found: dict[str, Any] = {name: Builder(name, fn) for name, fn in _builders().items()}
    found |= {f"torch.{d.name}": d for d in DTYPES}
    for name, dtype in DTYPE_OF_STORAGE.items():
        found[f"torch.{name}"] = found[f"torch.cuda.{name}"] = ClassName(f"torch.{name}", dtype)
    untyped = ClassName("torch.storage.UntypedStorage", None)
    found["torch.storage.UntypedStorage"] = found["torch.UntypedStorage"] = untyped
    found["numpy.ndarray"] = ClassName("numpy.ndarray", np.ndarray)
    for name in ("torch.Tensor", "torch.nn.parameter.Parameter"):
        found[name] = ClassName(name, None)
    return found
