"""Finding the program of a small operation, natively: which of several its operands fit.

Note [meeting]
    To write down of what kind operands are takes Python longer than the operation. So the programs
    of a record, or of a rule, that are walked lie in a list, and native code compares: classes and
    layouts of the operands' arrays, literals, parameters, all with their types. What it cannot
    compare safely does not fit, and is looked for in Python. Where one fits, it is run at once.

    Making the results may have the collector run, and with it any Python code, which may give an
    operand other memory. So operands are looked at once more when the results are there.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from adjoint.engine.backends.llvm.runtime.peeking import HEAD
from adjoint.engine.capture.python.guards.rows import type_offset, word_at
from adjoint.engine.core.spec import Size, Spec
from adjoint.engine.tensor.tensor import Tensor, wrap

DIMENSIONS = 6  # of an operand at most
OPERANDS = 16  # at most
# An array, after the head of every object: address, number of dimensions, sizes, strides, what it
# is a part of, dtype.
RANK, SIZES, STRIDES, DTYPE = HEAD + 8, HEAD + 16, HEAD + 24, HEAD + 40
# What is wanted of operands: how many there are, how many have slots; then of each its slot (0: a
# literal), which earlier one it is (-1: any), dtype, rank (or `NUMBER`), sizes, strides.
FIRST, WANTED = 2, 4 + 2 * DIMENSIONS
NUMBER = -1  # in the place of a rank: any whole number, whose low 64 bits go into the slot
# The classes and singletons that comparisons know, by their place among the words of the world.
TENSOR, NDARRAY, FLOAT, INT, STR, TUPLE, SPEC, SIZE, LIST, ARRAY_AT, NONE = range(11)
DEVICE_ARRAY = NONE + 1  # the class of a GPU's, where there is one (Note [met launches])


def array_offset() -> int | None:
    """Where tensors keep their arrays, tried."""
    samples = [wrap(np.zeros(k)) for k in range(3)]
    offsets = [
        offset
        for offset in range(HEAD, Tensor.__basicsize__, 8)
        if all(word_at(id(t) + offset) == id(t._array) for t in samples)
    ]
    return offsets[0] if len(offsets) == 1 else None


@cache
def world() -> Any:
    """The words of the world; None where objects are laid out otherwise."""
    offset = array_offset()
    if offset is None or not arrays_are_laid_out():
        return None
    known = (Tensor, np.ndarray, float, int, str, tuple, Spec, Size, list)
    return np.array([*map(id, known), offset, id(None), 0], np.int64)


def arrays_are_laid_out() -> bool:
    """Whether arrays have their layout where it is expected."""
    for array in (np.zeros((2, 3), np.float32), np.zeros((4, 5, 6))[:, 1:, ::2], np.ones(())):
        rank = ctypes.c_int.from_address(id(array) + RANK).value
        if rank != array.ndim or word_at(id(array) + DTYPE) != id(array.dtype):
            return False
        for at, expected in ((SIZES, array.shape), (STRIDES, array.strides)):
            words = (ctypes.c_ssize_t * rank).from_address(word_at(id(array) + at)) if rank else ()
            if tuple(words) != expected:
                return False
    return True


def wanted_of(operands: Any, slots: dict[int, int], firsts: dict[int, int]) -> Any:
    """What a program wants of operands: `slots` by position, of tensors and numbers, `firsts`."""
    words = [len(operands), len(slots)]
    for k, x in enumerate(operands):
        if k not in slots:
            words += [0] * WANTED
            continue
        if not isinstance(x, Tensor):
            words += [slots[k], -1, 0, NUMBER, *[0] * (WANTED - 4)]
            continue
        array = x._array
        pad = [0] * (DIMENSIONS - array.ndim)
        words += [slots[k], firsts.get(k, -1), id(array.dtype), array.ndim]
        words += [*array.shape, *pad, *array.strides, *pad]
    return np.array(words, np.int64)


def comparing_text() -> str:
    """The functions that compare objects."""
    at = type_offset()
    return f"""
@world = external global [{DEVICE_ARRAY + 1} x i64]
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare double @PyFloat_AsDouble(ptr)
declare i64 @PyLong_AsUnsignedLongLongMask(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare i64 @PyList_Size(ptr)
declare i64 @PyDict_Size(ptr)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare i32 @PyType_IsSubtype(ptr, ptr)
declare ptr @PyObject_Call(ptr, ptr, ptr)
declare void @PyErr_Clear()
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)

define ptr @class_of(ptr %x) alwaysinline {{
  %at = getelementptr i8, ptr %x, i64 {at}
  %class = load ptr, ptr %at
  ret ptr %class
}}
define i1 @is_a(ptr %class, i64 %which) alwaysinline {{
  %at = getelementptr ptr, ptr @world, i64 %which
  %known = load ptr, ptr %at
  %same = icmp eq ptr %class, %known
  ret i1 %same
}}
define i64 @size_of(ptr %x, i1 %is_list) {{
  br i1 %is_list, label %list, label %tuple
list:
  %a = call i64 @PyList_Size(ptr %x)
  ret i64 %a
tuple:
  %b = call i64 @PyTuple_Size(ptr %x)
  ret i64 %b
}}
define ptr @item_of(ptr %x, i64 %k, i1 %is_list) {{
  br i1 %is_list, label %list, label %tuple
list:
  %a = call ptr @PyList_GetItem(ptr %x, i64 %k)
  ret ptr %a
tuple:
  %b = call ptr @PyTuple_GetItem(ptr %x, i64 %k)
  ret ptr %b
}}
define i1 @same(ptr %a, ptr %b) {{
entry:
  %identical = icmp eq ptr %a, %b
  br i1 %identical, label %yes, label %look
look:
  %class = call ptr @class_of(ptr %a)
  %other = call ptr @class_of(ptr %b)
  %alike = icmp eq ptr %class, %other
  br i1 %alike, label %float, label %no
float:
  %is.float = call i1 @is_a(ptr %class, i64 {FLOAT})
  br i1 %is.float, label %floats, label %int
floats:
  %x = call double @PyFloat_AsDouble(ptr %a)
  %y = call double @PyFloat_AsDouble(ptr %b)
  %xBits = bitcast double %x to i64
  %yBits = bitcast double %y to i64
  %bits = icmp eq i64 %xBits, %yBits
  ret i1 %bits
int:
  %is.int = call i1 @is_a(ptr %class, i64 {INT})
  %is.str = call i1 @is_a(ptr %class, i64 {STR})
  %simple = or i1 %is.int, %is.str
  br i1 %simple, label %compare, label %group
compare:
  %equal = call i32 @PyObject_RichCompareBool(ptr %a, ptr %b, i32 2)
  %bad = icmp slt i32 %equal, 0
  br i1 %bad, label %clear, label %told
clear:
  call void @PyErr_Clear()
  ret i1 false
told:
  %is.equal = icmp eq i32 %equal, 1
  ret i1 %is.equal
group:
  %is.list = call i1 @is_a(ptr %class, i64 {LIST})
  %is.tuple = call i1 @is_a(ptr %class, i64 {TUPLE})
  %is.spec = call i1 @is_a(ptr %class, i64 {SPEC})
  %is.size = call i1 @is_a(ptr %class, i64 {SIZE})
  %g0 = or i1 %is.list, %is.tuple
  %g1 = or i1 %g0, %is.spec
  %g2 = or i1 %g1, %is.size
  br i1 %g2, label %groups, label %no
groups:
  %n = call i64 @size_of(ptr %a, i1 %is.list)
  %m = call i64 @size_of(ptr %b, i1 %is.list)
  %long = icmp eq i64 %n, %m
  br i1 %long, label %next, label %no
next:
  %k = phi i64 [0, %groups], [%kNext, %each]
  %more = icmp slt i64 %k, %n
  br i1 %more, label %each, label %yes
each:
  %p = call ptr @item_of(ptr %a, i64 %k, i1 %is.list)
  %q = call ptr @item_of(ptr %b, i64 %k, i1 %is.list)
  %kNext = add i64 %k, 1
  %fine = call i1 @same(ptr %p, ptr %q)
  br i1 %fine, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}
define i1 @parameters_fit(ptr %program, ptr %params) {{
entry:
  %position = alloca i64
  %keyAt = alloca ptr
  %valueAt = alloca ptr
  store i64 0, ptr %position
  %keys = call ptr @PyTuple_GetItem(ptr %program, i64 3)
  %values = call ptr @PyTuple_GetItem(ptr %program, i64 4)
  %count = call i64 @PyTuple_Size(ptr %keys)
  %size = call i64 @PyDict_Size(ptr %params)
  %many = icmp eq i64 %count, %size
  br i1 %many, label %next, label %no
next:
  %k = phi i64 [0, %entry], [%kNext, %value]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %yes
each:
  %found = call i32 @PyDict_Next(ptr %params, ptr %position, ptr %keyAt, ptr %valueAt)
  %is.found = icmp ne i32 %found, 0
  br i1 %is.found, label %key, label %no
key:
  %given = load ptr, ptr %keyAt
  %wantedKey = call ptr @PyTuple_GetItem(ptr %keys, i64 %k)
  %named = icmp eq ptr %given, %wantedKey
  br i1 %named, label %value, label %no
value:
  %held = load ptr, ptr %valueAt
  %wantedValue = call ptr @PyTuple_GetItem(ptr %values, i64 %k)
  %kNext = add i64 %k, 1
  %equal = call i1 @same(ptr %held, ptr %wantedValue)
  br i1 %equal, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}"""


def text() -> str:
    """The functions."""
    return f"""{comparing_text()}
define i1 @lies_so(ptr %array, ptr %wanted) {{
entry:
  %dtypeAt = getelementptr i8, ptr %array, i64 {DTYPE}
  %dtype = load i64, ptr %dtypeAt
  %dtypeWantedAt = getelementptr i64, ptr %wanted, i64 2
  %dtypeWanted = load i64, ptr %dtypeWantedAt
  %rankAt = getelementptr i8, ptr %array, i64 {RANK}
  %rank32 = load i32, ptr %rankAt
  %rank = sext i32 %rank32 to i64
  %rankWantedAt = getelementptr i64, ptr %wanted, i64 3
  %rankWanted = load i64, ptr %rankWantedAt
  %a = icmp eq i64 %dtype, %dtypeWanted
  %b = icmp eq i64 %rank, %rankWanted
  %ab = and i1 %a, %b
  br i1 %ab, label %layout, label %no
layout:
  %sizesAt = getelementptr i8, ptr %array, i64 {SIZES}
  %sizes = load ptr, ptr %sizesAt
  %stridesAt = getelementptr i8, ptr %array, i64 {STRIDES}
  %strides = load ptr, ptr %stridesAt
  %sizesWanted = getelementptr i64, ptr %wanted, i64 4
  %stridesWanted = getelementptr i64, ptr %wanted, i64 {4 + DIMENSIONS}
  br label %next
next:
  %k = phi i64 [0, %layout], [%kNext, %each]
  %more = icmp slt i64 %k, %rank
  br i1 %more, label %each, label %yes
each:
  %sAt = getelementptr i64, ptr %sizes, i64 %k
  %s = load i64, ptr %sAt
  %tAt = getelementptr i64, ptr %strides, i64 %k
  %t = load i64, ptr %tAt
  %sWantedAt = getelementptr i64, ptr %sizesWanted, i64 %k
  %sWanted = load i64, ptr %sWantedAt
  %tWantedAt = getelementptr i64, ptr %stridesWanted, i64 %k
  %tWanted = load i64, ptr %tWantedAt
  %sSame = icmp eq i64 %s, %sWanted
  %tSame = icmp eq i64 %t, %tWanted
  %kNext = add i64 %k, 1
  %fine = and i1 %sSame, %tSame
  br i1 %fine, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}
define i1 @operands_fit(ptr %program, ptr %operands, ptr %slots) {{
entry:
  %wantedObject = call ptr @PyTuple_GetItem(ptr %program, i64 1)
  %wantedAt = getelementptr i8, ptr %wantedObject, i64 {HEAD}
  %wanted = load ptr, ptr %wantedAt
  %literals = call ptr @PyTuple_GetItem(ptr %program, i64 2)
  %count = load i64, ptr %wanted
  %class = call ptr @class_of(ptr %operands)
  %is.list = call i1 @is_a(ptr %class, i64 {LIST})
  %is.tuple = call i1 @is_a(ptr %class, i64 {TUPLE})
  %either = or i1 %is.list, %is.tuple
  br i1 %either, label %sized, label %no
sized:
  %size = call i64 @size_of(ptr %operands, i1 %is.list)
  %many = icmp eq i64 %size, %count
  br i1 %many, label %next, label %no
next:
  %k = phi i64 [0, %sized], [%kNext, %literal], [%kNext, %place], [%kNext, %whole]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %yes
each:
  %kNext = add i64 %k, 1
  %x = call ptr @item_of(ptr %operands, i64 %k, i1 %is.list)
  %away = mul i64 %k, {WANTED}
  %at = add i64 %away, {FIRST}
  %own = getelementptr i64, ptr %wanted, i64 %at
  %slot = load i64, ptr %own
  %is.literal = icmp eq i64 %slot, 0
  br i1 %is.literal, label %literal, label %tensor
literal:
  %wantedLiteral = call ptr @PyTuple_GetItem(ptr %literals, i64 %k)
  %equal = call i1 @same(ptr %x, ptr %wantedLiteral)
  br i1 %equal, label %next, label %no
tensor:
  %classOfX = call ptr @class_of(ptr %x)
  %rankAt = getelementptr i64, ptr %own, i64 3
  %rank = load i64, ptr %rankAt
  %is.number = icmp eq i64 %rank, {NUMBER}
  br i1 %is.number, label %number, label %classed
number:
  %is.int = call i1 @is_a(ptr %classOfX, i64 {INT})
  br i1 %is.int, label %whole, label %no
whole:
  %value = call i64 @PyLong_AsUnsignedLongLongMask(ptr %x)
  %valueAt = getelementptr i64, ptr %slots, i64 %slot
  store i64 %value, ptr %valueAt
  br label %next
classed:
  %base = load ptr, ptr @world
  %exact = icmp eq ptr %classOfX, %base
  br i1 %exact, label %array, label %derived
derived:
  %sub = call i32 @PyType_IsSubtype(ptr %classOfX, ptr %base)
  %is.tensor = icmp ne i32 %sub, 0
  br i1 %is.tensor, label %array, label %no
array:
  %offsetAt = getelementptr i64, ptr @world, i64 {ARRAY_AT}
  %offset = load i64, ptr %offsetAt
  %heldAt = getelementptr i8, ptr %x, i64 %offset
  %held = load ptr, ptr %heldAt
  %absent = icmp eq ptr %held, null
  br i1 %absent, label %no, label %kind
kind:
  %classOfArray = call ptr @class_of(ptr %held)
  %is.array = call i1 @is_a(ptr %classOfArray, i64 {NDARRAY})
  br i1 %is.array, label %layout, label %no
layout:
  %lies = call i1 @lies_so(ptr %held, ptr %own)
  br i1 %lies, label %earlier, label %no
earlier:
  %firstAt = getelementptr i64, ptr %own, i64 1
  %first = load i64, ptr %firstAt
  %any = icmp slt i64 %first, 0
  br i1 %any, label %place, label %again
again:
  %before = call ptr @item_of(ptr %operands, i64 %first, i1 %is.list)
  %it = icmp eq ptr %before, %x
  br i1 %it, label %place, label %no
place:
  %dataAt = getelementptr i8, ptr %held, i64 {HEAD}
  %data = load i64, ptr %dataAt
  %slotAt = getelementptr i64, ptr %slots, i64 %slot
  store i64 %data, ptr %slotAt
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}}
define ptr @results_of(ptr %program, ptr %operands, ptr %slots) {{
entry:
  %wordsObject = call ptr @PyTuple_GetItem(ptr %program, i64 0)
  %wordsAt = getelementptr i8, ptr %wordsObject, i64 {HEAD}
  %words = load ptr, ptr %wordsAt
  %wantedObject = call ptr @PyTuple_GetItem(ptr %program, i64 1)
  %wantedAt = getelementptr i8, ptr %wantedObject, i64 {HEAD}
  %wanted = load ptr, ptr %wantedAt
  %tensorsAt = getelementptr i64, ptr %wanted, i64 1
  %tensors = load i64, ptr %tensorsAt
  %firstSlot = add i64 %tensors, 1
  %makers = call ptr @PyTuple_GetItem(ptr %program, i64 6)
  %noneAt = getelementptr ptr, ptr @world, i64 {NONE}
  %none = load ptr, ptr %noneAt
  %count = call i64 @PyTuple_Size(ptr %makers)
  %results = call ptr @PyTuple_New(i64 %count)
  %failed = icmp eq ptr %results, null
  br i1 %failed, label %error, label %next
next:
  %k = phi i64 [0, %entry], [%kNext, %gap], [%kNext, %keep]
  %slot = phi i64 [%firstSlot, %entry], [%slot, %gap], [%slotNext, %keep]
  %kNext = add i64 %k, 1
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %run
each:
  %maker = call ptr @PyTuple_GetItem(ptr %makers, i64 %k)
  %is.gap = icmp eq ptr %maker, %none
  br i1 %is.gap, label %gap, label %make
gap:
  call void @Py_IncRef(ptr %none)
  %g = call i32 @PyTuple_SetItem(ptr %results, i64 %k, ptr %none)
  br label %next
make:
  %function = call ptr @PyTuple_GetItem(ptr %maker, i64 0)
  %given = call ptr @PyTuple_GetItem(ptr %maker, i64 1)
  %made = call ptr @PyObject_Call(ptr %function, ptr %given, ptr null)
  %is.made = icmp ne ptr %made, null
  br i1 %is.made, label %keep, label %drop
keep:
  %dataAt = getelementptr i8, ptr %made, i64 {HEAD}
  %data = load i64, ptr %dataAt
  %slotAt = getelementptr i64, ptr %slots, i64 %slot
  store i64 %data, ptr %slotAt
  %slotNext = add i64 %slot, 1
  %h = call i32 @PyTuple_SetItem(ptr %results, i64 %k, ptr %made)
  br label %next
run:
  %still = call i1 @operands_fit(ptr %program, ptr %operands, ptr %slots)
  br i1 %still, label %walk, label %unknown
walk:
  %wrong = call i64 @carry_out(ptr %words, ptr %slots, i64 %slot)
  %fine = icmp eq i64 %wrong, 0
  br i1 %fine, label %done, label %unknown
done:
  ret ptr %results
unknown:
  call void @Py_DecRef(ptr %results)
  call void @Py_IncRef(ptr %none)
  ret ptr %none
drop:
  call void @Py_DecRef(ptr %results)
  br label %error
error:
  ret ptr null
}}
define ptr @meet(ptr %self, ptr %args, i64 %count) {{
entry:
  %slots = alloca [64 x i64]
  %programs = load ptr, ptr %args
  %operandsAt = getelementptr ptr, ptr %args, i64 1
  %operands = load ptr, ptr %operandsAt
  %paramsAt = getelementptr ptr, ptr %args, i64 2
  %params = load ptr, ptr %paramsAt
  %restAt = getelementptr ptr, ptr %args, i64 3
  %rest = load ptr, ptr %restAt
  %many = call i64 @PyTuple_Size(ptr %programs)
  br label %next
next:
  %k = phi i64 [0, %entry], [%kNext, %each], [%kNext, %parameters], [%kNext, %others]
  %kNext = add i64 %k, 1
  %more = icmp slt i64 %k, %many
  br i1 %more, label %each, label %none
each:
  %program = call ptr @PyTuple_GetItem(ptr %programs, i64 %k)
  %a = call i1 @operands_fit(ptr %program, ptr %operands, ptr %slots)
  br i1 %a, label %parameters, label %next
parameters:
  %b = call i1 @parameters_fit(ptr %program, ptr %params)
  br i1 %b, label %others, label %next
others:
  %wantedRest = call ptr @PyTuple_GetItem(ptr %program, i64 5)
  %c = call i1 @same(ptr %rest, ptr %wantedRest)
  br i1 %c, label %run, label %next
run:
  %out = call ptr @results_of(ptr %program, ptr %operands, ptr %slots)
  ret ptr %out
none:
  %nothingAt = getelementptr ptr, ptr @world, i64 {NONE}
  %nothing = load ptr, ptr %nothingAt
  call void @Py_IncRef(ptr %nothing)
  ret ptr %nothing
}}"""
