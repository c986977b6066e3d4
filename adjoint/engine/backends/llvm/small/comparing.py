"""Native text that compares operands with what a listed program wants of them (Note [meeting])."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint.engine.backends.llvm.runtime.peeking import HEAD
from adjoint.engine.core.object_layout import type_offset
from adjoint.engine.core.operations.listing import PART_AT, part_of
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.rng import Generator

DIMENSIONS = 6  # of an operand at most
# What is wanted of operands: how many there are, how many have slots, the part of a list that it is
# in (Note [listed programs]); then of each its slot (0: a literal), which earlier one it is (-1:
# any), dtype, rank (or what number it is), sizes, strides, and what else arrays of its kind have.
FIRST, WANTED = PART_AT + 1, 4 + 2 * DIMENSIONS
# In the place of a rank: any whole number, whose low 64 bits go into the slot; any number, as the
# bits of a double; any object of the class that is in the place of a dtype, nothing in its slot.
NUMBER, REAL, OBJECT = -1, -2, -3
# The classes and singletons that comparisons know, by their place among the words of the world.
TENSOR, NDARRAY, FLOAT, INT, STR, TUPLE, SPEC, SIZE, LIST, ARRAY_AT, NONE = range(11)
DEVICE_ARRAY = NONE + 1  # the class of a GPU's, where there is one (Note [met launches])


@dataclass(frozen=True, slots=True)
class ArrayText:
    """How native code looks at arrays of one class: lines of text that define values by name."""

    type: int  # their class, by its place among the words of the world
    wanted: int  # words of an operand: `WANTED`, and those that `also` looks at
    rank: str  # %rank of %array
    kind: str  # %dtype of %array
    sizes_and_strides: str  # addresses of those of %array
    address: str  # %data, the address of the elements of %held
    also: str = "true"  # what else must hold, defined by `kind_and_rank` of %array and %wanted


def wanted_of(
    operands: Sequence[Any],
    params: dict[str, Any],
    slots: dict[int, int],
    more: Callable[[Any], Sequence[int]] = lambda array: (),
    wanted: int = WANTED,
) -> Any:
    """What a program wants of operands: `slots` by position, of tensors and numbers.

    `more` tells what else is wanted of an array; all is `wanted` words long.
    """
    words = [len(operands), len(slots), part_of(sizes_of(operands), params.values())]
    seen: dict[int, int] = {}
    for k, x in enumerate(operands):
        if k not in slots:
            words += [0] * wanted
        elif is_passed_on(x):
            words += [slots[k], -1, id(type(x)), OBJECT, *[0] * (wanted - 4)]
        elif not is_tensor(x):
            words += [slots[k], -1, 0, REAL if type(x) is float else NUMBER, *[0] * (wanted - 4)]
        else:
            array = x._array
            pad = [0] * (DIMENSIONS - array.ndim)
            first = seen.setdefault(id(x), k)
            words += [slots[k], first if first != k else -1, id(array.dtype), array.ndim]
            words += [*array.shape, *pad, *array.strides, *pad, *more(array)]
    return np.array(words, np.int64)


def sizes_of(operands: Sequence[Any]) -> list[Any]:
    """What of operands decides the part: shapes of tensors, and what is no number."""
    shapes = [tuple(x._array.shape) if is_tensor(x) else x for x in operands]
    return [x for x in shapes if type(x) is not int]


def is_passed_on(x: Any) -> bool:
    """Whether an operand is given to a program's function as it is, whichever one it is."""
    return isinstance(x, Generator)


def text(arrays: ArrayText) -> str:
    """The functions that compare objects, and operands that are arrays of a class."""
    return "\n".join((objects_text(), layout_text(arrays), operands_text(arrays)))


def objects_text() -> str:
    """Objects of known classes: whether they are the same, and parameters of a call."""
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
define i1 @is_group(ptr %class) alwaysinline {{
  %is.list = call i1 @is_a(ptr %class, i64 {LIST})
  %is.tuple = call i1 @is_a(ptr %class, i64 {TUPLE})
  %is.spec = call i1 @is_a(ptr %class, i64 {SPEC})
  %is.size = call i1 @is_a(ptr %class, i64 {SIZE})
  %plain = or i1 %is.list, %is.tuple
  %own = or i1 %is.spec, %is.size
  %any = or i1 %plain, %own
  ret i1 %any
}}
define ptr @words_of(ptr %program, i64 %k) alwaysinline {{
  %held = call ptr @PyTuple_GetItem(ptr %program, i64 %k)
  %at = getelementptr i8, ptr %held, i64 {HEAD}
  %words = load ptr, ptr %at
  ret ptr %words
}}
define ptr @array_in(ptr %tensor) alwaysinline {{
  %offsetAt = getelementptr i64, ptr @world, i64 {ARRAY_AT}
  %offset = load i64, ptr %offsetAt
  %at = getelementptr i8, ptr %tensor, i64 %offset
  %array = load ptr, ptr %at
  ret ptr %array
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
  %is.group = call i1 @is_group(ptr %class)
  br i1 %is.group, label %groups, label %no
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


def layout_text(arrays: ArrayText) -> str:
    """What is wanted of an operand, and whether an array lies so."""
    return f"""
define ptr @operand_in(ptr %wanted, i64 %k) alwaysinline {{
  %away = mul i64 %k, {arrays.wanted}
  %at = add i64 %away, {FIRST}
  %own = getelementptr i64, ptr %wanted, i64 %at
  ret ptr %own
}}
define i1 @lies_so(ptr %array, ptr %wanted) {{
entry:
{arrays.rank}
{arrays.kind}
  %dtypeWantedAt = getelementptr i64, ptr %wanted, i64 2
  %dtypeWanted = load i64, ptr %dtypeWantedAt
  %rankWantedAt = getelementptr i64, ptr %wanted, i64 3
  %rankWanted = load i64, ptr %rankWantedAt
  %a = icmp eq i64 %dtype, %dtypeWanted
  %b = icmp eq i64 %rank, %rankWanted
  %ab = and i1 %a, %b
  %all = and i1 %ab, {arrays.also}
  br i1 %all, label %layout, label %no
layout:
{arrays.sizes_and_strides}
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
}}"""


def operands_text(arrays: ArrayText) -> str:
    """Whether operands are what is wanted; their addresses and numbers go into slots."""
    return f"""
define i1 @operands_fit(ptr %program, ptr %operands, ptr %slots) {{
entry:
  %wanted = call ptr @words_of(ptr %program, i64 1)
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
  %k = phi i64 [0, %sized], [%kNext, %literal], [%kNext, %place], [%kNext, %whole], [%kNext, %real],
    [%kNext, %object]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %yes
each:
  %kNext = add i64 %k, 1
  %x = call ptr @item_of(ptr %operands, i64 %k, i1 %is.list)
  %own = call ptr @operand_in(ptr %wanted, i64 %k)
  %slot = load i64, ptr %own
  %is.literal = icmp eq i64 %slot, 0
  br i1 %is.literal, label %literal, label %given
literal:
  %wantedLiteral = call ptr @PyTuple_GetItem(ptr %literals, i64 %k)
  %equal = call i1 @same(ptr %x, ptr %wantedLiteral)
  br i1 %equal, label %next, label %no
given:
  %classOfX = call ptr @class_of(ptr %x)
  %rankAt = getelementptr i64, ptr %own, i64 3
  %rank = load i64, ptr %rankAt
  switch i64 %rank, label %classed [
    i64 {NUMBER}, label %number i64 {REAL}, label %float i64 {OBJECT}, label %object
  ]
object:
  %classWantedAt = getelementptr i64, ptr %own, i64 2
  %classWanted = load ptr, ptr %classWantedAt
  %is.wanted = icmp eq ptr %classOfX, %classWanted
  br i1 %is.wanted, label %next, label %no
number:
  %is.int = call i1 @is_a(ptr %classOfX, i64 {INT})
  br i1 %is.int, label %whole, label %no
whole:
  %value = call i64 @PyLong_AsUnsignedLongLongMask(ptr %x)
  %valueAt = getelementptr i64, ptr %slots, i64 %slot
  store i64 %value, ptr %valueAt
  br label %next
float:
  %is.float = call i1 @is_a(ptr %classOfX, i64 {FLOAT})
  br i1 %is.float, label %real, label %no
real:
  %double = call double @PyFloat_AsDouble(ptr %x)
  %bits = bitcast double %double to i64
  %bitsAt = getelementptr i64, ptr %slots, i64 %slot
  store i64 %bits, ptr %bitsAt
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
  %held = call ptr @array_in(ptr %x)
  %absent = icmp eq ptr %held, null
  br i1 %absent, label %no, label %kind
kind:
  %classOfArray = call ptr @class_of(ptr %held)
  %is.array = call i1 @is_a(ptr %classOfArray, i64 {arrays.type})
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
{arrays.address}
  %slotAt = getelementptr i64, ptr %slots, i64 %slot
  store i64 %data, ptr %slotAt
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}}"""
