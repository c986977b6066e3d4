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

from adjoint.engine.backends.llvm.runtime import fastcall, library
from adjoint.engine.backends.llvm.runtime.peeking import COUNTED
from adjoint.engine.core.object_layout import slot_offset
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import Tensor, wrap

CountWrites = Callable[[tuple[Storage, ...], tuple[int, ...]], None]
WrapPlaces = Callable[[list[Any], tuple[int, ...]], list[Tensor]]
_NEW = 65  # the interpreter's number of a class's `__new__`: Py_tp_new

_TEXT = """
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
@none = external global i8
define ptr @tensor_of(ptr %array) {
entry:
  %t = call ptr @object_new(ptr @Tensor, ptr @no_arguments, ptr null)
  %t.none = icmp eq ptr %t, null
  br i1 %t.none, label %refuse, label %fill
refuse:
  ret ptr null
fill:
TENSOR_SLOTS
  %s = call ptr @object_new(ptr @Storage, ptr @no_arguments, ptr null)
  %s.none = icmp eq ptr %s, null
  br i1 %s.none, label %fail, label %storage
storage:
  %t.storage = getelementptr i8, ptr %t, i64 STORAGE_AT
  store ptr %s, ptr %t.storage
STORAGE_SLOTS
  call void @PyObject_GC_UnTrack(ptr %s)
  ret ptr %t
fail:
  call void @Py_DecRef(ptr %t)
  ret ptr null
}
define ptr @wrap_places(ptr %self, ptr %args, i64 %given) {
entry:
  %a1 = getelementptr ptr, ptr %args, i64 1
  %results = load ptr, ptr %args
  %places = load ptr, ptr %a1
  %count = call i64 @PyTuple_Size(ptr %places)
  %made = call ptr @PyList_New(i64 %count)
  %full = icmp eq ptr %made, null
  br i1 %full, label %refuse, label %loop
refuse:
  ret ptr null
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %put ]
  %over = icmp sge i64 %i, %count
  br i1 %over, label %done, label %look
done:
  ret ptr %made
look:
  %number = call ptr @PyTuple_GetItem(ptr %places, i64 %i)
  %place = call i64 @PyLong_AsLongLong(ptr %number)
  %array = call ptr @PyList_GetItem(ptr %results, i64 %place)
  %none.there = icmp eq ptr %array, null
  br i1 %none.there, label %fail, label %tensor
tensor:
  %t = call ptr @tensor_of(ptr %array)
  %t.none = icmp eq ptr %t, null
  br i1 %t.none, label %fail, label %put
put:
  %set = call i32 @PyList_SetItem(ptr %made, i64 %i, ptr %t)
  %next = add i64 %i, 1
  br label %loop
fail:
  call void @Py_DecRef(ptr %made)
  ret ptr null
}
define ptr @count_writes(ptr %self, ptr %args, i64 %given) {
entry:
  %a1 = getelementptr ptr, ptr %args, i64 1
  %storages = load ptr, ptr %args
  %counts = load ptr, ptr %a1
  %count = call i64 @PyTuple_Size(ptr %storages)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %store ]
  %over = icmp sge i64 %i, %count
  br i1 %over, label %done, label %look
done:
  call void @Py_IncRef(ptr @none)
  ret ptr @none
look:
  %storage = call ptr @PyTuple_GetItem(ptr %storages, i64 %i)
  %number = call ptr @PyTuple_GetItem(ptr %counts, i64 %i)
  %by = call i64 @PyLong_AsLongLong(ptr %number)
  %slot = getelementptr i8, ptr %storage, i64 VERSION_AT
  %before = load ptr, ptr %slot
  %version = call i64 @PyLong_AsLongLong(ptr %before)
  %sum = add i64 %version, %by
  %error = icmp eq i64 %version, -1
  br i1 %error, label %doubt, label %number.made
doubt:
  %raised = call ptr @PyErr_Occurred()
  %wrong = icmp ne ptr %raised, null
  br i1 %wrong, label %fail, label %number.made
number.made:
  %after = call ptr @PyLong_FromLongLong(i64 %sum)
  %after.none = icmp eq ptr %after, null
  br i1 %after.none, label %fail, label %store
store:
  store ptr %after, ptr %slot
  call void @Py_DecRef(ptr %before)
  %next = add i64 %i, 1
  br label %loop
fail:
  ret ptr null
}
"""


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
    text = _TEXT.replace(
        "TENSOR_SLOTS", _slots("t", "@sample_tensor", tensor, "_array", "_storage")
    )
    text = text.replace("STORAGE_SLOTS", _slots("s", "@sample_storage", storage, "buffer"))
    text = text.replace("STORAGE_AT", str(tensor["_storage"]))
    text = text.replace("VERSION_AT", str(storage["version"]))
    symbols = fastcall.interpreter() | {
        "Tensor": id(Tensor), "Storage": id(Storage), "no_arguments": id(()), "none": id(None),
        "sample_tensor": id(sample), "sample_storage": id(sample._storage),
        "object_new": object_new(),
    }  # fmt: skip
    keep = (library.linked("objects", text, symbols), sample)
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


def _slots(
    name_of_object: str, sample: str, offsets: dict[str, int], array: str, *others: str
) -> str:
    """Lines that fill an object's slots: one with the array, the rest as a sample's are."""
    lines: list[str] = []
    for name, offset in offsets.items():
        if name in others:
            continue
        value = f"%{name_of_object}.{name}" if name != array else "%array"
        if name != array:
            lines.append(f"  {value}.from = getelementptr i8, ptr {sample}, i64 {offset}")
            lines.append(f"  {value} = load ptr, ptr {value}.from")
        lines.append(f"  call void @Py_IncRef(ptr {value})")
        lines.append(
            f"  %{name_of_object}.{name}.to = getelementptr i8, ptr %{name_of_object}, i64 {offset}"
        )
        lines.append(f"  store ptr {value}, ptr %{name_of_object}.{name}.to")
    return "\n".join(lines)


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
