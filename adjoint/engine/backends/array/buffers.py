"""Making, reading and writing array buffers: what the tensor layer asks of the backend."""

from __future__ import annotations

import os
import sys
from ctypes import c_size_t
from functools import cache, lru_cache
from math import copysign, prod
from operator import iadd
from sys import getrefcount
from typing import Any

import ml_dtypes
import numpy as np

from adjoint.engine.backends.array.devices import cupy, full_device, library
from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.backends.array.gpu.device_memory import POOLS
from adjoint.engine.backends.array.gpu.driver import filling, word_of
from adjoint.engine.backends.array.gpu.transfers import copy_across, is_pinned, pin, transfer
from adjoint.engine.backends.array.memory.filling import copy, fill, unharmed
from adjoint.engine.backends.array.memory.strides import element_strides, span, strided
from adjoint.engine.backends.array.quiet import QUIET, quietly, restore, silence
from adjoint.engine.backends.array.table import kernel_for
from adjoint.engine.core.device import CPU, CURRENT_INDEX
from adjoint.engine.core.dtype import bfloat16, float16, float32, float64
from adjoint.engine.core.errors import DeviceError, FileError
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.public import PUBLIC
from adjoint.engine.core.operations.record import HOOKS, Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.core.state.late_faults import UNSEEN, settle
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE
from adjoint.engine.core.state.structure_version import STRUCTURE_VERSION
from adjoint.engine.tensor.meta import META, blank
from adjoint.engine.tensor.tensor import DTYPE_OF, Tensor, wrap
from adjoint.engine.tensor.writing.mutation import leak_message

Array = Any


def copy_into(target: Array, source: Array) -> None:
    """Overwrite an array's elements."""
    if target.__class__ is source.__class__ is np.ndarray and source.dtype is target.dtype:
        copy(target, source)  # nothing is converted, so nothing is to be hushed
        return
    if isinstance(target, np.ndarray) and target.__class__ not in DEVICE_LAYOUTS:
        if source.__class__ is int or source.__class__ is float:
            quietly(fill, (target, source), {})
            return
        if source.__class__ is np.ndarray:
            source = unharmed(target, source)
        quietly(np.copyto, (target, source), {"casting": "unsafe"})
        return
    if UNSEEN:
        settle()
    is_number = source.__class__ in (int, float) and target.__class__ in DEVICE_LAYOUTS
    if is_number and target.dtype in FILLED and not target.flags.c_contiguous:
        quietly(target.fill, (source,), {})  # what `copyto` comes to, without the way there
        return
    if (
        copied_at_once(target, source)
        or zeroed_at_once(target, source)
        or filled_at_once(target, source)
    ):
        return
    xp = library(wrap(target).device)
    quietly(xp.copyto, as_they_lie(target, source), {"casting": "unsafe"})


def move_towards(running: Array, new: Array, momentum: float, scale: float | None) -> None:
    """Move a running statistic towards that of a batch, in its own memory.

    It is running * (1 - momentum) + new * scale * momentum. Products and sum are rounded as those
    of the operations are, one by one.
    """
    token = silence[QUIET]
    try:
        new = new.reshape(running.shape)
        share = new * momentum if scale is None else new * scale * momentum
        running *= 1 - momentum
        running += share
    finally:
        restore(token)


def copied_at_once(target: Array, source: Array) -> bool:
    """Copy an array of the current GPU as bytes, if both are in one piece and lie apart.

    The driver is asked at once, where CuPy would look for a kernel that copies elements.
    """
    if target.__class__ not in DEVICE_LAYOUTS or source.__class__ is not target.__class__:
        return False
    alike = target.dtype == source.dtype and target.shape == source.shape
    if not alike or not (target.flags.c_contiguous and source.flags.c_contiguous):
        return False
    to, given, size = target.data, source.data, target.nbytes
    here = to.device_id == given.device_id == CURRENT_INDEX["cuda"]()
    if not here or abs(to.ptr - given.ptr) < size:
        return False
    to.copy_from_device_async(given, size)
    return True


def zeroed_at_once(target: Array, source: Any) -> bool:
    """Set an array of the current GPU that is in one piece to zero, if that is what is written."""
    if source.__class__ not in (int, float) or source or copysign(1.0, source) < 0:
        return False
    if target.__class__ not in DEVICE_LAYOUTS or not target.flags.c_contiguous or not target.size:
        return False
    memory = target.data
    if memory.device_id != CURRENT_INDEX["cuda"]():
        return False
    memory.memset_async(0, target.nbytes)
    return True


FILLED = frozenset(NUMPY_OF[d] for d in (bfloat16, float16, float32, float64))


def filling_word(value: float, dtype: Any) -> tuple[int, int] | None:
    """The word that fills memory with a number, and its bytes; None where no one word does."""
    return word_of(quietly(np.array, (value, dtype), {}).tobytes())


known_word = lru_cache(maxsize=256)(filling_word)  # not of zeros, whose signs it does not tell


def filled_at_once(target: Array, source: Any) -> bool:
    """Set an array of the current GPU that is in one piece to a number, if one word fills it.

    The driver is asked at once, where CuPy would look for a kernel that writes elements.
    """
    if source.__class__ not in (int, float) or target.__class__ not in DEVICE_LAYOUTS:
        return False
    if target.dtype not in FILLED or not target.flags.c_contiguous or not target.size:
        return False
    memory = target.data
    if memory.device_id != CURRENT_INDEX["cuda"]():
        return False
    dtype = target.dtype
    found = known_word(source, dtype) if source else filling_word(source, dtype)
    if found is None:
        return False
    width, word = found
    try:
        fill = filling(width)
    except DeviceError:
        return False
    stream = cupy().cuda.get_current_stream().ptr
    return bool(fill(memory.ptr, word, target.nbytes // width, stream) == 0)


def add_into(target: Array, source: Array) -> None:
    """Add to an array in place."""
    quietly(iadd, as_they_lie(target, source), {})


def as_they_lie(target: Array, source: Any) -> tuple[Array, Any]:
    """Arrays of one layout with their dimensions in the order in which these lie in memory.

    CuPy takes what is then contiguous as one row; in any other order it is thirty times slower.
    """
    if (
        target.flags.c_contiguous
        or source.__class__ is not target.__class__
        or source.shape != target.shape
        or source.strides != target.strides
        or target.dtype.itemsize != source.dtype.itemsize
    ):
        return target, source
    strides = target.strides
    order = sorted(range(len(strides)), key=lambda d: -strides[d])
    return target.transpose(order), source.transpose(order)


def take_over(target: Tensor, value: Tensor) -> bool:
    """Give a tensor the memory of a result that would be copied into its own, on a GPU.

    Only where nobody else can tell: all that refers to its own memory is this tensor. What is saved
    of the result for its derivative is then the tensor's memory, as in PyTorch, and a later write
    to it is found out.
    """
    old, new = target._array, value._array
    storage, other = target._storage, value._storage
    if (
        old.__class__ not in DEVICE_LAYOUTS
        or new.__class__ is not old.__class__
        or target._chain
        or value._chain
        or target._base is not None
        or value._node is None
        or storage.buffer is not old
        or other.buffer is not new
        or STREAM_CAPTURE.graph is not None
        or (old.dtype, old.shape, old.strides, old.data.device_id)
        != (new.dtype, new.shape, new.strides, new.data.device_id)
        or getrefcount(storage) > HELD
        or getrefcount(old) > HELD + 1  # the tensor and its storage hold it
        or not is_alone(old)
    ):
        return False
    if UNSEEN:
        settle()
    target._array, target._storage = new, other
    return True


def _references() -> int:
    """How many references there are to what one object holds and a name stands for."""
    holder = [object()]
    held = holder[0]
    return getrefcount(held)


HELD = _references()  # as counted by this version of Python


def is_alone(array: Array) -> bool:
    """Whether no other array shows the memory of one of CuPy's, but what it is a view of."""
    base, pointer = array.base, array.data
    memory = getattr(pointer, "mem", None)
    if memory is None or getrefcount(memory) > HELD:
        return False
    if base is None:
        return getrefcount(pointer) <= HELD
    return base.base is None and getrefcount(base) <= HELD and getrefcount(pointer) <= HELD + 1


def check_overlap(array: Any) -> None:
    """Refuse to write where one location of an array (or a window) shows more than once."""
    if (
        array.size
        and 0 in array.strides
        and any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True))
    ):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )


ADDRESS_AT = object.__basicsize__  # of an array of NumPy's, after what every object begins with


@cache
def arrays_begin_with_addresses() -> bool:
    """Whether arrays have the address of their elements where it is expected."""
    samples: list[Array] = [np.arange(6), np.zeros((2, 3))[:, 1:], np.ones((), np.float32)]
    return sys.implementation.name == "cpython" and all(
        c_size_t.from_address(id(a) + ADDRESS_AT).value == a.__array_interface__["data"][0]
        for a in samples
    )


def address(array: Array) -> int:
    """The address of the first element."""
    if array.__class__ is np.ndarray and arrays_begin_with_addresses():
        return c_size_t.from_address(id(array) + ADDRESS_AT).value  # NumPy takes 2 us to tell it
    if isinstance(array, np.ndarray):
        return int(array.__array_interface__["data"][0])
    return int(array.data.ptr)


def offset_in(array: Array, buffer: Array) -> int:
    """The position of an array's first element in its storage, in elements."""
    return (address(array) - address(buffer)) // int(array.dtype.itemsize)


def on_device(array: Array, device: Any) -> Array:
    """A host array on a device."""
    return array if device is CPU else transfer(array, device)


def room(tensor: Tensor) -> int:
    """How many elements of its dtype a tensor's storage has room for."""
    storage = tensor._storage
    buffer, trace = storage.buffer, storage.trace
    if buffer is None and trace is not None and trace is CONTEXT.capture:
        spec = trace.cell(tensor).value.spec
        return prod(spec.shape) * spec.dtype.itemsize // tensor.dtype.itemsize
    if buffer is None:
        return sys.maxsize  # a value of a transform: checked when it is computed
    return span(buffer.shape, element_strides(buffer)) * buffer.itemsize // tensor.dtype.itemsize


def grow(tensor: Tensor, length: int) -> None:
    """Give a tensor a longer storage of its own that begins with the elements of the old one."""
    buffer = tensor._storage.buffer
    if buffer is None:
        raise RuntimeError(leak_message())
    xp = library(tensor.device)
    have = span(buffer.shape, element_strides(buffer))
    longer = xp.zeros(length, tensor._array.dtype)
    if have:
        old = strided(xp, buffer, (have,), (1,)).view(longer.dtype)
        longer[: len(old)] = old
    fresh = wrap(longer)
    fresh._storage.version = tensor._storage.version
    tensor._array, tensor._storage, tensor._chain = longer, fresh._storage, ()
    tensor._base = None
    STRUCTURE_VERSION.count += 1


def _has_hosts(values: Any) -> bool:
    """Whether numbers of the host are in nested lists: each call has others."""
    if isinstance(values, (list, tuple)):
        return any(map(_has_hosts, values))
    return type(values) is HostScalar


def index_tensor(values: Any, device: Any) -> Tensor:
    """A list, NumPy array or bool used as an index, as a tensor."""
    if _has_hosts(values):
        tensor: Tensor = PUBLIC["", "tensor"].fn(values, device=device)
        return tensor
    array = np.array(values)
    if array.size == 0 and not isinstance(values, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype not in DTYPE_OF:
        raise IndexError(f"an index must hold integers or booleans, received {values!r}")
    return _placed(array, device)


def from_list(values: list[Any], like: Tensor) -> Tensor:
    """Python numbers as a tensor of `like`'s shape, dtype and device."""
    array = np.array(values).astype(NUMPY_OF[like.dtype]).reshape(like.shape)
    return _placed(array, like.device)


def _placed(array: Array, device: Any) -> Tensor:
    """A host array as a tensor of a device."""
    if device is META:
        return blank(Spec(array.shape, DTYPE_OF[array.dtype]))
    return wrap(on_device(array, device))


def to_host(array: Array) -> Array:
    """The elements as a NumPy array."""
    return array if isinstance(array, np.ndarray) else transfer(array, CPU)


def to_list(tensor: Tensor) -> Any:
    """The elements as nested lists of Python numbers."""
    array = to_host(tensor._array)
    if array.dtype == ml_dtypes.bfloat16:
        array = array.astype(np.float32)
    return array.tolist()


def as_bytes(array: Array) -> Array:
    """The memory of a whole buffer, byte by byte."""
    return array.reshape(-1).view(np.uint8)


def new_bytes(given: Any) -> Array:
    """So many bytes, zeros, or the bytes of a sequence."""
    if isinstance(given, int):
        if given < 0:
            raise RuntimeError(f"UntypedStorage: the size must not be negative, received {given}")
        return np.zeros(given, np.uint8)
    return np.array(given, np.uint8).reshape(-1)


def map_file(filename: str, shared: bool, nbytes: int) -> Array:
    """The bytes of a file, mapped; a private map copies the pages that are written."""
    if nbytes < 0:
        raise ValueError(f"UntypedStorage.from_file: nbytes must not be negative, not {nbytes}")
    size = os.path.getsize(filename) if os.path.exists(filename) else 0
    length = nbytes or size
    if length > size and not shared:
        raise FileError(
            f"UntypedStorage.from_file: {filename} has {size} bytes, {length} were asked for. Pass "
            "shared=True to lengthen it."
        )
    if length > size:
        with open(filename, "ab") as file:
            file.truncate(length)
    if length == 0:
        return np.zeros(0, np.uint8)
    return np.asarray(np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(length,)))


def used_by(array: Array, stream: Any) -> None:
    """Have a GPU array's memory stay until a stream is done with it."""
    POOLS[0].used_by(array, stream.wrapped, stream.device_index)


def computed(record: Record, arrays: list[Array], **params: Any) -> Tensor:
    """What a record's kernel makes of NumPy's arrays that fit it, new, and nothing else."""
    return wrap(kernel_for(record)(*arrays, **params))  # type: ignore[misc]


class Buffers:
    """The backend's face to the tensor layer (`HOOKS.array`)."""

    add_into = staticmethod(add_into)
    address = staticmethod(address)
    take_over = staticmethod(take_over)
    check_overlap = staticmethod(check_overlap)
    computed = staticmethod(computed)
    full_device = staticmethod(full_device)
    copy_across = staticmethod(copy_across)
    copy_into = staticmethod(copy_into)
    move_towards = staticmethod(move_towards)
    room = staticmethod(room)
    grow = staticmethod(grow)
    is_pinned = staticmethod(is_pinned)
    as_bytes = staticmethod(as_bytes)
    map_file = staticmethod(map_file)
    new_bytes = staticmethod(new_bytes)
    pin = staticmethod(pin)
    index_tensor = staticmethod(index_tensor)
    from_list = staticmethod(from_list)
    offset_in = staticmethod(offset_in)
    to_host = staticmethod(to_host)
    to_list = staticmethod(to_list)
    used_by = staticmethod(used_by)
    wrap = staticmethod(wrap)
    fill_where: Any  # backends.array.indexing
    put_where: Any
    chosen_there: Any
    put_into: Any
    add_into_at: Any
    add_slices: Any
    write_slices: Any
    part_of: Any  # backends.array.view_chains
    restrided: Any  # the same
    taken_apart: Any


HOOKS.array = Buffers
