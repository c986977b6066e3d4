"""Tensors from Python data, NumPy, DLPack and buffers; without copies where possible."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.engine.backends.array.buffers import Buffers
from adjoint.engine.backends.array.devices import cupy
from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.backends.array.gpu.transfers import transfer
from adjoint.engine.backends.array.sequences import no_such_dtype, to_array
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.device import CPU, Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import DeviceError
from adjoint.engine.core.operations.dispatch import mark_birth, mark_for_inference
from adjoint.engine.core.operations.overrides import having
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.spec import Size, Spec
from adjoint.engine.core.state.context import CONTEXT, concrete
from adjoint.engine.core.state.placement import chosen
from adjoint.engine.tensor.memory import UntypedStorage
from adjoint.engine.tensor.meta import META, blank
from adjoint.engine.tensor.storage import FOREIGN
from adjoint.engine.tensor.tensor import DTYPE_OF, Tensor, wrap
from adjoint.engine.tensor.watching import show

Array = Any


@public(numbers="elements")
def tensor(
    data: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new tensor holding a copy of `data`: numbers, nested sequences, or an array.

    >>> import adjoint as ad
    >>> ad.tensor([[1, 2], [3, 4]]).dtype
    adjoint.int64

    A storage is no data but memory: as in PyTorch, the tensor shares it.
    """
    if isinstance(data, UntypedStorage):
        out = _of_storage(data, dtype, dt.int64).to(device=device)
    elif is_tensor(data):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach()."
            "clone() or sourceTensor.detach().clone().requires_grad_(True), rather than "
            "tensor(sourceTensor).",
            stacklevel=2,
        )
        with having(subclasses=False):  # it is a plain one
            out = data.detach().clone().to(dtype=dtype, device=device)
    else:
        out = _from_array(to_array(data, dtype), device)
    return out.requires_grad_() if requires_grad else out


def _of_storage(storage: UntypedStorage, dtype: DType | None, untyped: DType) -> Tensor:
    """The whole elements that lie in a storage, of its own dtype where it has one."""
    show(storage._storage)
    array = storage._storage.buffer
    if type(storage) is UntypedStorage or (dtype is not None and NUMPY_OF[dtype] != array.dtype):
        element = NUMPY_OF[dtype or untyped]
        memory = HOOKS.array.as_bytes(array)
        array = memory[: len(memory) // element.itemsize * element.itemsize].view(element)
    return _shared(array.reshape(-1))


def _from_array(array: Array, device: Any) -> Tensor:
    where = chosen(device)
    if where is META:
        return blank(Spec(array.shape, DTYPE_OF[array.dtype]))
    out = wrap(array if where is CPU else transfer(array, where))
    if not CONTEXT.plain:
        mark_birth(out._storage)
    return out if CONTEXT.capture is None else CONTEXT.capture.constant(out)


@public(numbers="elements")
def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """A tensor sharing `data`'s memory where it can (tensors and NumPy arrays), else a copy.

    Example:
        >>> import adjoint as ad
        >>> ad.as_tensor([1, 2])
        tensor([1, 2])
    """
    if is_tensor(data):
        return data if dtype is device is None else data.to(dtype=dtype, device=device)
    if data.__class__ in (list, tuple, float, int, bool):
        return _from_array(to_array(data, dtype), device)
    if isinstance(data, np.ndarray) and data.dtype in DTYPE_OF:
        shared = from_numpy(data)
        return shared if dtype is device is None else shared.to(dtype=dtype, device=device)
    if hasattr(data, "__cuda_array_interface__"):
        return _shared(cupy().asarray(data)).to(dtype=dtype, device=device)
    return tensor(data, dtype=dtype, device=device)


@public(numbers="elements")
def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """A tensor from a tensor, array, buffer, DLPack object or sequence; shared unless `copy`.

    It stays on the tape where a tensor was, unless `requires_grad` is False.
    """
    if not is_tensor(obj) and not isinstance(obj, np.ndarray) and hasattr(obj, "__dlpack__"):
        tensor = from_dlpack(obj).to(dtype=dtype, device=device)
    elif isinstance(obj, UntypedStorage):
        tensor = _of_storage(obj, dtype, dt.uint8).to(device=device)
    elif isinstance(obj, (bytes, bytearray, memoryview)):
        tensor = frombuffer(obj, dtype=dtype or dt.get_default_dtype()).to(device=device)
    else:
        tensor = as_tensor(obj, dtype=dtype, device=device)
    if copy:
        tensor = tensor.clone()
    elif copy is False and isinstance(obj, (list, tuple, int, float, complex)):
        raise ValueError("asarray: can't alias arbitrary sequence into a tensor")
    if requires_grad is None or requires_grad == tensor.requires_grad:
        return tensor
    return tensor.requires_grad_(requires_grad) if tensor.is_leaf else tensor.detach()


@public()
def from_numpy(ndarray: Array) -> Tensor:
    """A tensor sharing memory with a NumPy array.

    Example:
        >>> import adjoint as ad
        >>> import numpy as np
        >>> array = np.zeros(2)
        >>> tensor = ad.from_numpy(array)
        >>> array[0] = 1
        >>> tensor
        tensor([1., 0.], dtype=adjoint.float64)
    """
    made: Tensor | None = HOOKS.from_memory(ndarray)
    if made is not None:
        FOREIGN.seen = True
        return made
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"from_numpy: expected np.ndarray (got {type(ndarray).__name__})")
    if ndarray.dtype not in DTYPE_OF:
        raise no_such_dtype("from_numpy", ndarray.dtype)
    strides, size = ndarray.strides, ndarray.itemsize
    if strides and min(strides) < 0:
        raise ValueError(
            "from_numpy: at least one stride is negative, which tensors do not support. "
            "Pass array.copy()."
        )
    if size > 1 and any([s % size for s in strides]):  # noqa: C419, quicker than a generator
        raise ValueError(
            f"from_numpy: strides of {ndarray.strides} bytes are no multiples of the "
            f"{ndarray.itemsize} bytes of an element, as in a field of a structured array. "
            "Pass array.copy()."
        )
    return _shared(ndarray)


def _shared(array: Array) -> Tensor:
    """A tensor on memory of somebody else's."""
    FOREIGN.seen = True
    out = wrap(array)
    show(out._storage)
    if CONTEXT.inference:
        mark_for_inference(out, ())
    return out


@public()
def frombuffer(
    buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A 1-D tensor on the memory of an object with the buffer protocol."""
    if len(memoryview(buffer)) == 0 or count == 0:
        raise ValueError("frombuffer: both buffer length and count must not be 0")
    array = np.frombuffer(buffer, dtype=NUMPY_OF[dtype], count=count, offset=offset)
    out = _shared(array)
    return out.requires_grad_() if requires_grad else out


@public()
def from_file(
    filename: str,
    shared: bool = False,
    size: int = 0,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A 1-D tensor of `size` elements on a file, mapped; written through to it where `shared`.

    A file that is shared is lengthened if need be.
    """
    if device is not None and Device(device) != CPU:
        raise DeviceError(f"from_file: a file is mapped on the CPU, not on {device}. Move it then.")
    kind = NUMPY_OF[dtype or dt.get_default_dtype()]
    if size < 0:
        raise ValueError(f"from_file: size must not be negative, received {size}")
    if size == 0:
        return wrap(np.zeros(0, kind))
    return _shared(Buffers.map_file(str(filename), bool(shared), size * kind.itemsize).view(kind))


class _Capsule:
    """Memory on the CPU handed over as DLPack's capsule alone."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def array(self) -> Array:
        """The memory as an array that can be written, as in PyTorch.

        A capsule of the first kind does not say whether it can be; NumPy takes it as one that
        cannot.
        """
        shown = np.from_dlpack(self)
        if shown.flags.writeable or not shown.size:
            return shown
        reach = zip(shown.shape, shown.strides, strict=True)
        length = sum((size - 1) * stride for size, stride in reach) + shown.itemsize
        memory = (ctypes.c_byte * length).from_address(shown.ctypes.data)
        memory.shown = shown  # holds the memory
        return np.ndarray(shown.shape, shown.dtype, memory, strides=shown.strides)


@public()
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of any object that speaks DLPack, or of a capsule of one."""
    if type(ext_tensor).__name__ == "PyCapsule":
        out = _shared(_Capsule(ext_tensor).array())
    else:
        library = np if ext_tensor.__dlpack_device__()[0] == 1 else cupy()
        out = _shared(library.from_dlpack(ext_tensor))
    out = out.clone() if copy else out
    return out if device is None else out.to(device)


# Where the old constructor makes tensors: the default tensor type says, not the default device.
OF_TYPE = {"device": "cpu"}


def legacy_constructor(
    cls: type[Tensor], *args: Any, dtype: DType | None = None, device: Any = None
) -> Any:
    """`Tensor(2, 3)`, `Tensor([1, 2])`, `Tensor(other)`: PyTorch's old constructor.

    Without arguments it has one dimension, of size 0, so that others can be joined to it.
    """
    dtype = dtype or dt.get_default_dtype()
    device = OF_TYPE["device"] if device is None else device
    if CONTEXT.capture is None:
        tensor = _of_legacy_arguments(args, dtype, device)
    else:
        with concrete():
            tensor = _of_legacy_arguments(args, dtype, device)
    return tensor if cls is Tensor else tensor.as_subclass(cls)


def _of_legacy_arguments(args: tuple[Any, ...], dtype: DType, device: Any) -> Tensor:
    if len(args) == 1 and is_tensor(args[0]):
        return args[0].detach()
    if len(args) == 1 and isinstance(args[0], UntypedStorage):
        tensor = _of_storage(args[0], None, dtype)
        if tensor.dtype is not dtype:
            raise TypeError(
                f"expected a storage of {dtype.name}, received one of {tensor.dtype.name}"
            )
        return tensor
    if (
        len(args) == 1
        and isinstance(args[0], (Sequence, np.ndarray))
        and not isinstance(args[0], Size)
    ):
        return _from_array(to_array(args[0], dtype), device)
    given = args or (0,)
    shape = tuple(given[0]) if len(given) == 1 and isinstance(given[0], tuple) else given
    return _from_array(np.zeros(shape, NUMPY_OF[dtype]), device)


Buffers.tensor = staticmethod(tensor)  # type: ignore[attr-defined]
Buffers.legacy_constructor = staticmethod(legacy_constructor)  # type: ignore[attr-defined]
