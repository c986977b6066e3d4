"""Looks at Python objects that calls take all the time, as native code.

Through Python, the address of an array's elements costs 2 us (NumPy describes the whole array to
tell it) and its strides in elements 1; a small step has thirty to spend. Where the interpreter or
NumPy lay out objects otherwise than expected, which is tried once, they are done in Python.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from adjoint.engine.backends.llvm.runtime import fastcall, library
from adjoint.engine.core.object_layout import type_offset, word_at

HEAD = object.__basicsize__  # what every object begins with
# Where threads run at once, lists may change under our eyes, and reference counts mean less.
COUNTED: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
# An array, after the head of every object: address of its elements, number of dimensions, sizes,
# strides, what it is a part of, dtype.
RANK, SIZES, STRIDES, OWNER, DTYPE = HEAD + 8, HEAD + 16, HEAD + 24, HEAD + 32, HEAD + 40
TEXT = f"""
declare ptr @PyLong_FromLongLong(i64)
define ptr @address(ptr %self, ptr %array) {{
  %place = getelementptr i8, ptr %array, i64 {HEAD}
  %data = load i64, ptr %place
  %out = call ptr @PyLong_FromLongLong(i64 %data)
  ret ptr %out
}}
"""

# Strides in elements, of an array and the bytes of one; None where a size or a stride is zero, or a
# stride is negative or no whole number of elements.
STEPS_TEXT = f"""
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
@none = external global i8
define ptr @entry(ptr %self, ptr %args, i64 %count) {{
entry:
  %array = load ptr, ptr %args
  %bytesAt = getelementptr ptr, ptr %args, i64 1
  %bytesObject = load ptr, ptr %bytesAt
  %bytes = call i64 @PyLong_AsLongLong(ptr %bytesObject)
  %is.sized = icmp sgt i64 %bytes, 0
  br i1 %is.sized, label %begin, label %unknown
begin:
  %rankAt = getelementptr i8, ptr %array, i64 {RANK}
  %rank32 = load i32, ptr %rankAt
  %rank = sext i32 %rank32 to i64
  %sizesAt = getelementptr i8, ptr %array, i64 {SIZES}
  %sizes = load ptr, ptr %sizesAt
  %stridesAt = getelementptr i8, ptr %array, i64 {STRIDES}
  %strides = load ptr, ptr %stridesAt
  %out = call ptr @PyTuple_New(i64 %rank)
  %failed = icmp eq ptr %out, null
  br i1 %failed, label %error, label %next
next:
  %k = phi i64 [0, %begin], [%kNext, %put]
  %more = icmp slt i64 %k, %rank
  br i1 %more, label %each, label %done
each:
  %kNext = add i64 %k, 1
  %sizeAt = getelementptr i64, ptr %sizes, i64 %k
  %size = load i64, ptr %sizeAt
  %strideAt = getelementptr i64, ptr %strides, i64 %k
  %stride = load i64, ptr %strideAt
  %step = sdiv i64 %stride, %bytes
  %over = srem i64 %stride, %bytes
  %has.size = icmp ne i64 %size, 0
  %forward = icmp sgt i64 %step, 0
  %whole = icmp eq i64 %over, 0
  %a = and i1 %has.size, %forward
  %usual = and i1 %a, %whole
  br i1 %usual, label %make, label %drop
make:
  %number = call ptr @PyLong_FromLongLong(i64 %step)
  %unmade = icmp eq ptr %number, null
  br i1 %unmade, label %lost, label %put
put:
  %set = call i32 @PyTuple_SetItem(ptr %out, i64 %k, ptr %number)
  br label %next
done:
  ret ptr %out
drop:
  call void @Py_DecRef(ptr %out)
  br label %unknown
unknown:
  call void @Py_IncRef(ptr @none)
  ret ptr @none
lost:
  call void @Py_DecRef(ptr %out)
  br label %error
error:
  ret ptr null
}}
"""

Address = Callable[[Any], int]
Steps = Callable[[Any, int], tuple[int, ...] | None]
# Whether so many words are the same at two places, as text: shapes, or strides.
SAME_WORDS = """
define internal i1 @same_words(ptr %a, ptr %b, i64 %count) {
entry:
  br label %next
next:
  %k = phi i64 [0, %entry], [%kNext, %each]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %yes
each:
  %p = getelementptr i64, ptr %a, i64 %k
  %q = getelementptr i64, ptr %b, i64 %k
  %x = load i64, ptr %p
  %y = load i64, ptr %q
  %kNext = add i64 %k, 1
  %same = icmp eq i64 %x, %y
  br i1 %same, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}
"""


def slow_address(array: Any) -> int:
    """Where an array's elements begin, by NumPy's own account."""
    where: int = array.__array_interface__["data"][0]
    return where


def address_of(array: Any) -> int:
    """Where an array's elements begin, the quick way if it is NumPy's own."""
    return quick_address()(array) if array.__class__ is np.ndarray else slow_address(array)


@cache
def quick_address() -> Address:
    """`address(array)`, for arrays of NumPy's own class.

    >>> address = quick_address()
    >>> array = np.arange(3)
    >>> address(array) == array.__array_interface__["data"][0]
    True
    """
    if sys.implementation.name != "cpython" or not COUNTED or type_offset() is None:
        return slow_address
    code = library.linked("peeking", TEXT, fastcall.interpreter())
    address: Address = fastcall.builtin(code.address("address"), name="address", keep=code)
    return address if _right(address) else slow_address


@cache
def steps() -> Steps | None:
    """`steps(array, bytes of an element)`, for arrays of NumPy's own class; None: it cannot be.

    >>> steps()(np.zeros((2, 3))[:, ::2], 8)
    (3, 2)
    """
    if sys.implementation.name != "cpython" or not COUNTED or not arrays_are_laid_out():
        return None
    return fastcall.entry("steps", STEPS_TEXT, {"none": id(None)})


def _right(address: Address) -> bool:
    """Whether arrays are laid out as expected. Only memory of the objects' own is read."""
    arrays = [np.arange(6), np.zeros((2, 3))[:, 1:], np.ones((), np.float32)]
    return all(address(a) == slow_address(a) for a in arrays)


@cache
def arrays_are_laid_out() -> bool:
    """Whether arrays have their layout where it is expected."""
    for array in (np.zeros((2, 3), np.float32), np.zeros((4, 5, 6))[:, 1:, ::2], np.ones(())):
        rank = ctypes.c_int.from_address(id(array) + RANK).value
        owner = 0 if array.base is None else id(array.base)
        if rank != array.ndim or word_at(id(array) + DTYPE) != id(array.dtype):
            return False
        if word_at(id(array) + OWNER) != owner:
            return False
        for at, expected in ((SIZES, array.shape), (STRIDES, array.strides)):
            words = (ctypes.c_ssize_t * rank).from_address(word_at(id(array) + at)) if rank else ()
            if tuple(words) != expected:
                return False
    return True
