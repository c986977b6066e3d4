"""Tensors from Python data, NumPy, DLPack and buffers, and back; without copies where possible."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy import ndarray

from adjoint.engine.backends.array.buffers import Buffers, to_host
from adjoint.engine.backends.array.devices import cupy, full_device
from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.backends.array.gpu.transfers import transfer
from adjoint.engine.backends.array.quiet import quietly
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.device import CPU, Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import (
    DeviceError,
    DTypeError,
    DTypeTypeError,
    DTypeValueError,
    ShapeValueError,
)
from adjoint.engine.core.numeric_limits import iinfo
from adjoint.engine.core.operations.dispatch import mark_birth, mark_for_inference
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.overrides import having
from adjoint.engine.core.operations.public import method, prop, public
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.spec import Size, Spec
from adjoint.engine.core.state.context import CONTEXT, concrete
from adjoint.engine.core.state.late_faults import look
from adjoint.engine.core.state.placement import chosen
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE
from adjoint.engine.tensor.memory import UntypedStorage
from adjoint.engine.tensor.meta import META, blank
from adjoint.engine.tensor.reading.item import known, unknown
from adjoint.engine.tensor.storage import FOREIGN, Window
from adjoint.engine.tensor.tensor import DTYPE_OF, Tensor, wrap
from adjoint.engine.tensor.watching import show

Array = Any


def _shape_error(data: Any, expected: int, dim: int) -> Exception:
    return ValueError(
        f"tensor: expected sequence of length {expected} at dim {dim} (got {len(data)})"
    )


def _check_regular(data: Any, dim: int = 0) -> None:
    """Name the place where nested sequences differ in length or depth."""
    if not isinstance(data, (list, tuple)) or not data:
        return
    first = data[0]
    if isinstance(first, (list, tuple)):
        for item in data:
            if type(item) in _NUMBERS:
                raise TypeError(
                    f"tensor: not a sequence: {item!r} beside sequences of length {len(first)} at "
                    f"dim {dim + 1}"
                )
            if not isinstance(item, (list, tuple)) or len(item) != len(first):
                raise _shape_error(item if hasattr(item, "__len__") else [], len(first), dim + 1)
            _check_regular(item, dim + 1)
    elif type(first) in _NUMBERS:
        for item in data:
            if isinstance(item, (list, tuple)):
                raise TypeError(
                    f"tensor: {type(item).__name__!r} object cannot be interpreted as a number, "
                    f"as {first!r} beside it is at dim {dim}"
                )


def no_such_dtype(name: str, dtype: Any) -> Exception:
    """The error for NumPy's arrays of a type that no tensor has."""
    if not dtype.isnative and dtype.newbyteorder("=") in DTYPE_OF:
        return ValueError(
            f"{name}: given numpy array has byte order different from the native byte order, "
            f"received {dtype}. Convert it with array.astype(array.dtype.newbyteorder('='))."
        )
    return DTypeTypeError(
        f"{name}: can't convert np.ndarray of type {dtype}. The supported types "
        f"are: {', '.join(d.name for d in dt.DTYPES)}."
    )


def _leaf_dtypes(data: Any) -> set[DType]:
    """The dtypes of the numbers in nested sequences: Python's count as the default dtypes."""
    if isinstance(data, (list, tuple)):
        kinds = set(map(type, data))
        if kinds <= _NUMBERS:
            return {dt.of_scalar(kind()) for kind in kinds}
        if data and isinstance(data[0], str):
            raise ValueError("tensor: too many dimensions 'str': letters are no numbers")
        return set().union(*map(_leaf_dtypes, data))
    if isinstance(data, (np.ndarray, np.generic)):
        if data.dtype not in DTYPE_OF:
            raise no_such_dtype("tensor", data.dtype)
        return {DTYPE_OF[data.dtype]}
    if is_tensor(data):
        return {data.dtype}
    if isinstance(data, (bool, int, float, complex)):
        return {dt.of_scalar(data)}
    if isinstance(data, (str, bytes)):
        raise TypeError(f"tensor: invalid data type {type(data).__name__!r}")
    if isinstance(data, Sequence) or hasattr(data, "__array__"):  # a range, a data frame's column
        return _leaf_dtypes(list(data))
    raise DTypeError(f"tensor: could not infer dtype of {type(data).__name__}")


_NUMBERS = {bool, int, float, complex}


def _unwrap(data: Any) -> Any:
    """Nested sequences with tensors of one element in them replaced by their numbers."""
    if is_tensor(data):
        if data.numel() != 1:
            raise ShapeValueError(
                "tensor: only one element tensors can be converted to Python scalars, received "
                f"{data._spec} in a sequence. Use stack or cat to join tensors."
            )
        return data.item()
    if isinstance(data, (list, tuple)):
        return [_unwrap(x) for x in data]
    return data


_SEQUENCES, _FLOATS, _INTS = {list, tuple}, {float}, {int}


def _kinds(data: Any) -> set[type]:
    """The classes of what is in nested lists and tuples."""
    kinds = set(map(type, data))
    return kinds.union(*map(_kinds, data)) - _SEQUENCES if kinds and kinds <= _SEQUENCES else kinds


def _of_numbers(data: Any, dtype: DType | None) -> Array | None:
    """The same of nested sequences of Python's floats, or of whole numbers, alone; None of others,
    or where something is to be said of them."""
    kinds = _kinds(data)
    try:
        if kinds == _FLOATS:
            target = dtype or dt.get_default_dtype()
            if target in (dt.float32, dt.float64):  # narrower ones might be rounded twice
                return quietly(np.array, (data, NUMPY_OF[target]), {})
        elif kinds == _INTS and (dtype is None or dtype is dt.int64):
            array = np.array(data)
            return array if array.dtype == np.int64 else None
    except ValueError:
        pass
    return None


def to_array(data: Any, dtype: DType | None) -> Array:
    """A NumPy array of `data` with PyTorch's choice of dtype; a copy.

    Without `dtype`, it is what all the numbers in `data` promote to.
    """
    if data.__class__ is list or data.__class__ is tuple:
        array = _of_numbers(data, dtype)
        if array is not None:
            return array
    dtypes = _leaf_dtypes(data)
    if isinstance(data, (list, tuple)) and _holds_tensor(data):
        data = _unwrap(data)
    target = dtype or reduce(dt.promote_types, dtypes or {dt.get_default_dtype()})
    try:
        array = np.array(data)
    except ValueError:
        _check_regular(data)
        raise
    if (
        array.dtype.kind == "f"
        and dtypes
        and all(leaf_dtype.category == dt.INT for leaf_dtype in dtypes)
    ):
        array = np.array(data, object)  # NumPy rounds whole numbers of which some are large
    if not isinstance(data, (np.ndarray, np.generic)):
        _check_overflow(array, target)
    if array.dtype == NUMPY_OF[target]:
        return array
    if array.dtype.kind == "O" and target.category == dt.FLOAT:
        array = array.astype(np.float64)  # narrow dtypes take no whole numbers beyond 64 bits
    return quietly(array.astype, (NUMPY_OF[target],), {"copy": False})


def _check_overflow(array: Array, target: DType) -> None:
    """Refuse numbers that an integer dtype, or a real one, does not hold."""
    if array.dtype.kind == "c" and target.category < dt.COMPLEX and target is not dt.bool_:
        raise TypeError(f"tensor: can't convert complex to {target.name}")
    if target.category != dt.INT or not array.size or array.dtype == NUMPY_OF[target]:
        return
    limits = iinfo(target)
    low = limits.min if array.dtype.kind == "f" else min(limits.min, -limits.max)
    # NaN compares false with everything.
    if not (low <= array.min() and array.max() <= limits.max):
        beyond = array.dtype.kind in "uO" and (array.min() < -(2**63) or array.max() >= 2**63)
        raise (DTypeValueError if beyond else DTypeError)(
            f"tensor: value cannot be converted to type {target.name} without overflow; received "
            f"numbers from {array.min()} to {array.max()}. Choose a wider dtype."
        )


NUMBERS = frozenset((bool, int, float, complex))


def _holds_tensor(data: Any) -> bool:
    if NUMBERS.issuperset(map(type, data)):  # a million of them are asked in no time
        return False
    return any(is_tensor(x) or (isinstance(x, (list, tuple)) and _holds_tensor(x)) for x in data)


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


@method
def __dlpack__(self: Tensor, *args: Any, **kwargs: Any) -> Any:
    """The tensor's memory as a DLPack capsule."""
    _check_exportable(self, "__dlpack__")
    _see_faults(self)
    show(self._storage)
    return self._array.__dlpack__(*args, **kwargs)


@method
def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    """Where DLPack finds the memory."""
    return self._array.__dlpack_device__()


@prop
def __cuda_array_interface__(self: Tensor) -> Any:
    """The CUDA array interface, for tensors on a GPU."""
    if self.device.type != "cuda":
        raise AttributeError(
            f"can't get __cuda_array_interface__ on a tensor on {self.device}; use .cuda() first"
        )
    _see_faults(self)
    return self._array.__cuda_array_interface__


def _see_faults(self: Tensor) -> None:
    """Raise what a GPU has found, before memory it may have left unwritten is another library's."""
    if self._array.__class__ in DEVICE_LAYOUTS and STREAM_CAPTURE.graph is None:
        look()


def _check_exportable(self: Tensor, name: str) -> None:
    level = self._storage.level is not None
    if level or CONTEXT.capture is not None or type(self._array) is Window:
        raise unknown(
            self,
            name,
            "Keep the computation in tensor operations, return the tensor and convert it outside, "
            "or pass the value in as an argument.",
        )
    # As in PyTorch, who switched gradients off may look at the elements.
    if self.requires_grad and (CONTEXT.grad_enabled or name != "numpy"):
        raise RuntimeError(
            f"{name}: can't be called on a tensor that requires grad. Use tensor.detach() first."
        )


@method
def numpy(self: Tensor, *, force: bool = False) -> Array:
    """The elements as a NumPy array sharing memory.

    >>> import adjoint as ad
    >>> ad.ones(2).numpy()
    array([1., 1.], dtype=float32)
    """
    if CONTEXT.capture is not None:
        constant = known(self)
        if constant is not None:
            return to_host(constant).copy()
    if force and type(self._array) is not Window:
        show(self._storage)
        return to_host(self.detach()._array)
    _check_exportable(self, "numpy")
    if not isinstance(self._array, np.ndarray):
        raise TypeError(
            f"numpy: can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to "
            "copy the tensor to host memory first."
        )
    show(self._storage)
    return self._array.view()  # a new shape or flags of it are not the tensor's


@method
def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Array:
    """NumPy's protocol: the elements as an array."""
    array = numpy(self)
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype)
    return array.copy() if copy else array


@method
def __array_wrap__(self: Tensor, array: Array, context: Any = None, return_scalar: Any = 0) -> Any:
    """NumPy's protocol: what a NumPy function made of the elements, as a tensor again."""
    array = np.asarray(array)
    return from_numpy(array) if array.dtype in DTYPE_OF else array


@method
def data_ptr(self: Tensor) -> int:
    """The address of the first element."""
    known = HOOKS.data_address(self)
    if known is not None:
        return known
    array = self._array
    show(self._storage)
    if array.__class__ is ndarray and CONTEXT.plain:
        address = HOOKS.address
        if address is not None and array.size:
            return address(array)
        return Buffers.address(array) if array.size else 0
    if self.is_meta:
        return 0
    _check_exportable(self.detach(), "data_ptr")
    return Buffers.address(array) if array.size else 0


@method
def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor on the CPU."""
    return self if self._array.__class__ is np.ndarray else self.to(CPU)


@method
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """The tensor on a GPU."""
    target = Device("cuda", device) if isinstance(device, int) else Device(device or "cuda")
    return self.to(full_device(target), non_blocking=non_blocking)


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
