"""Tensors around results, and counts of writes, as native code: once a call, for all of them.

In Python a tensor takes half a microsecond, most of it in setting thirteen slots; a small training
step makes ten and counts the writes to thirty. Slots are set where their descriptors say they are,
which is tried once; where it comes out otherwise, Python's own functions are used.

Note [storages without the collector]
    A forward pass makes thousands of objects that live until the backward, and Python's collector
    goes through them again and again in search of cycles. A storage of an array is in none: it
    holds the array and nothing that leads back. So those that are made here are hidden from the
    collector. One that is lifted into a transform, whose values may lead anywhere, is shown to it
    again (`tensor.storage.track`).
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from adjoint.engine.backends.llvm.ir.object_functions import FIELDS, ObjectFunction
from adjoint.engine.backends.llvm.runtime import fastcall, library
from adjoint.engine.backends.llvm.runtime.peeking import COUNTED
from adjoint.engine.backends.registers.vector import V
from adjoint.engine.core.object_layout import slot_offset
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import Tensor, wrap

CountWrites = Callable[[tuple[Storage, ...], tuple[int, ...]], None]
WrapPlaces = Callable[[list[Any], tuple[int, ...]], list[Tensor]]
_NEW = 65  # the interpreter's number of a class's `__new__`: Py_tp_new

_OUTSIDE = """
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyList_New(i64)
declare ptr @PyList_GetItem(ptr, i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyErr_Occurred()
declare void @PyObject_GC_UnTrack(ptr)
declare ptr @object_new(ptr, ptr, ptr)
@Tensor = external global i8
@Storage = external global i8
@sample_tensor = external global i8
@sample_storage = external global i8
@no_arguments = external global i8
@none = external global i8"""


def _text(at: dict[str, int]) -> str:
    """The functions, for objects that keep their fields `at` these places."""
    return "\n".join((_OUTSIDE, FIELDS, _tensor_of(at), _wrap_places(), _count_writes(at)))


def _tensor_of(at: dict[str, int]) -> str:
    """A tensor on an array, and its storage; all but the array is as in samples of both."""
    f = ObjectFunction("tensor_of", "array", at=at)
    failed = f.ending("failed", None)
    tensor = f.made("object_new", "@Tensor", "@no_arguments", None, otherwise=failed)
    for name in at:
        if name.startswith("tensor.") and name != "tensor._storage":
            value = "%array" if name == "tensor._array" else f.field("@sample_tensor", name)
            f.fill(tensor, name, value)
    storage = f.made("object_new", "@Storage", "@no_arguments", None, otherwise=failed)
    for name in at:
        if name.startswith("storage."):
            value = "%array" if name == "storage.buffer" else f.field("@sample_storage", name)
            f.fill(storage, name, value)
    f.do("PyObject_GC_UnTrack", storage)  # Note [storages without the collector]
    f.fill(tensor, "tensor._storage", storage)
    f.tell(tensor)
    return f.text()


def _wrap_places() -> str:
    """Tensors on those results that places say."""
    f = ObjectFunction("wrap_places", "self", "args", "i64 given")
    failed = f.ending("failed", None)
    results, places = f.arguments(2)
    count = f.number("PyTuple_Size", places)
    tensors = f.made("PyList_New", count, otherwise=failed)

    def put(k: V) -> None:
        place = f.number("PyLong_AsLongLong", f.item(places, k))
        array = f.call("PyList_GetItem", results, place)
        f.refuse(f.is_null(array), failed)
        f.put_in_list(tensors, k, f.made("tensor_of", array, otherwise=failed))

    f.each(count, put)
    f.tell(tensors)
    return f.text()


def _count_writes(at: dict[str, int]) -> str:
    """Have storages know of so many more writes."""
    f = ObjectFunction("count_writes", "self", "args", "i64 given", at=at)
    failed = f.ending("failed", None)
    storages, counts = f.arguments(2)

    def count(k: V) -> None:
        storage = f.item(storages, k)
        by = f.number("PyLong_AsLongLong", f.item(counts, k))
        before = f.field(storage, "storage.version")
        version = f.number("PyLong_AsLongLong", before)
        f.when(version.eq(-1), lambda: f.check(f.is_null(f.call("PyErr_Occurred")), failed))
        after = f.made("PyLong_FromLongLong", version + by, otherwise=failed)
        f.fill(storage, "storage.version", after)
        f.do("Py_DecRef", before)

    f.each(f.number("PyTuple_Size", storages), count)
    f.tell_held("@none")
    return f.text()


class ObjectCode(NamedTuple):
    """`count_writes` and `wrap_places` as native code."""

    count_writes: CountWrites
    wrap_places: WrapPlaces
    tensor_of: int  # the address of what makes a tensor of an array, natively


@cache
def objects() -> ObjectCode | None:
    """That code, if objects are laid out as expected.

    >>> count, wrap_places, _ = objects()
    >>> (tensor,) = wrap_places([None, np.ones(2, np.float32)], (1,))
    >>> tensor
    tensor([1., 1.])
    >>> count((tensor._storage,), (3,))
    >>> tensor._version
    3
    """
    sample = wrap(np.zeros(1))
    tensor, storage = _offsets(sample), _offsets(sample._storage)
    if sys.implementation.name != "cpython" or not COUNTED or tensor is None or storage is None:
        return None
    at = {f"tensor.{name}": place for name, place in tensor.items()}
    at |= {f"storage.{name}": place for name, place in storage.items()}
    symbols = fastcall.interpreter() | {
        "Tensor": id(Tensor), "Storage": id(Storage), "no_arguments": id(()), "none": id(None),
        "sample_tensor": id(sample), "sample_storage": id(sample._storage),
        "object_new": object_new(),
    }  # fmt: skip
    keep = (library.linked("objects", _text(at), symbols), sample)
    flags, code = fastcall.METH_FASTCALL, keep[0]
    count: CountWrites = fastcall.builtin(
        code.address("count_writes"), name="count_writes", flags=flags, keep=keep
    )
    places: WrapPlaces = fastcall.builtin(
        code.address("wrap_places"), name="wrap_places", flags=flags, keep=keep
    )
    if not _right(count, places):
        return None
    return ObjectCode(count, places, code.address("tensor_of"))


def object_new() -> int:
    """The address of what makes an object of a class, with nothing in its slots."""
    find = ctypes.pythonapi.PyType_GetSlot
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    address: int = find(object, _NEW)
    return address


def _filled(thing: Any) -> list[str]:
    """The slots of an object that hold something."""
    names = [name for name in type(thing).__slots__ if not name.startswith("__")]
    return [name for name in names if hasattr(thing, name)]


def _offsets(thing: Any) -> dict[str, int] | None:
    """Where an object keeps what is in its slots."""
    offsets = {name: slot_offset(type(thing).__dict__[name]) for name in _filled(thing)}
    known = {name: offset for name, offset in offsets.items() if offset is not None}
    return known if len(known) == len(offsets) else None


def _right(count: CountWrites, places: WrapPlaces) -> bool:
    """Whether tensors come out as Python makes them, and versions as it counts them."""
    arrays = [np.arange(3), np.zeros((2, 2), np.float32)]
    before = [sys.getrefcount(array) for array in arrays]
    tensors, wanted = places([*arrays, None], (1, 0)), [wrap(arrays[1]), wrap(arrays[0])]
    alike = all(
        type(a) is Tensor
        and gc.is_tracked(a)
        and _same(a, b)
        and _same(a._storage, b._storage)
        and not gc.is_tracked(a._storage)
        for a, b in zip(tensors, wanted, strict=True)
    )
    count((tensors[0]._storage, tensors[1]._storage), (1, 3))
    counted = [t._storage.version for t in tensors] == [1, 3] and tensors[0].__dict__ == {}
    del tensors, wanted
    return alike and counted and before == [sys.getrefcount(array) for array in arrays]


def _same(one: Any, other: Any) -> bool:
    """Whether the same slots of two objects hold the same."""
    names: Iterable[str] = _filled(one)
    apart = ("_storage",)  # each has its own
    return names == _filled(other) and all(
        getattr(one, name) is getattr(other, name) for name in names if name not in apart
    )
