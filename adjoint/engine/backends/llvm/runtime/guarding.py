"""Looking at all that a recording depends on, as native code that walks a table of rows.

A row (`capture.python.guards.rows`) says what to look at: a key of a dict, a field of an object, a
length, what is in a container. Through Python a look at one takes half a microsecond, and a small
step has hundreds. What is there is compared by identity, which holds on most calls;
the number of the first row that is otherwise goes back to Python, which knows what else is as good.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from adjoint.engine.backends.llvm.runtime import fastcall, library
from adjoint.engine.backends.llvm.runtime.peeking import COUNTED
from adjoint.engine.capture.python.guards.class_versions import version_of, version_offset
from adjoint.engine.capture.python.guards.dict_versions import dict_version, dict_version_offset
from adjoint.engine.capture.python.guards.rows import (
    CLASS,
    DICT,
    KINDS,
    LENGTH,
    NOT_FOUND,
    NOT_SOUGHT,
    WORDS,
    keys_kind,
    row_of,
)
from adjoint.engine.capture.python.guards.table import HELD, HELD_IN_DETAIL, Check
from adjoint.engine.capture.python.locations import Contents, Item, Kind, Length, Location, Table
from adjoint.engine.core.object_layout import type_offset

_BLOCKS = """
class:
  %class.p = getelementptr i8, ptr %owner, i64 VERSION
  %class.v = load i32, ptr %class.p
  %class.w = zext i32 %class.v to i64
  %class.e = icmp eq i64 %class.w, %wanted
  br i1 %class.e, label %class.same, label %class.other
class.same:
  %class.i = add i64 %i, 1
  %class.next = add i64 %class.i, %word
  br label %loop
class.other:
  %class.n = icmp slt i64 %wanted, 0
  br i1 %class.n, label %good, label %class.note
class.note:
  store i64 HELD_IN_DETAIL, ptr %outcome
  br label %good
dict:
  %dict.p = getelementptr i8, ptr %owner, i64 CHANGES
  %dict.v = load i64, ptr %dict.p
  %dict.e = icmp eq i64 %dict.v, %wanted
  br i1 %dict.e, label %dict.same, label %dict.other
dict.same:
  %dict.i = add i64 %i, 1
  %dict.next = add i64 %dict.i, %word
  br label %loop
dict.other:
  %dict.n = icmp slt i64 %wanted, 0
  br i1 %dict.n, label %good, label %class.note
item:
  %item.h = load i64, ptr %p4
  %item.u = icmp slt i64 %item.h, 0
  br i1 %item.u, label %item.look, label %item.known
item.known:
  %item.s = call i1 @plain_keys(ptr %owner)
  br i1 %item.s, label %item.next, label %item.look
item.next:
  store i64 %item.h, ptr %at
  %item.m = call i32 @PyDict_Next(ptr %owner, ptr %at, ptr %k, ptr %v)
  %item.k = load ptr, ptr %k
  %item.q = load i64, ptr %v
  %item.r = icmp ne i32 %item.m, 0
  %item.e = icmp eq ptr %item.k, %key
  %item.o = and i1 %item.r, %item.e
  br i1 %item.o, label %judge, label %item.lost
item.lost:
  store i64 NOT_FOUND, ptr %p4
  br label %item.look
item.look:
  %item.v = call ptr @PyDict_GetItemWithError(ptr %owner, ptr %key)
  %item.w = ptrtoint ptr %item.v to i64
  %item.n = icmp eq i64 %item.w, 0
  br i1 %item.n, label %doubt, label %item.there
item.there:
  %item.f = icmp eq i64 %item.h, NOT_SOUGHT
  br i1 %item.f, label %item.seek, label %judge
item.seek:
  %item.at = call i64 @seek(ptr %owner, ptr %key)
  store i64 %item.at, ptr %p4
  br label %judge
item_kind:
  %kind.v = call ptr @PyDict_GetItemWithError(ptr %owner, ptr %key)
  %kind.n = icmp eq ptr %kind.v, null
  br i1 %kind.n, label %clear, label %kind.there
kind.there:
  %kind.p = getelementptr i8, ptr %kind.v, i64 TYPE
  %kind.w = load i64, ptr %kind.p
  br label %judge
field:
  %field.p = getelementptr i8, ptr %owner, i64 %word
  %field.w = load i64, ptr %field.p
  br label %judge
table:
  %table.v = call ptr @PyObject_GenericGetDict(ptr %owner, ptr null)
  br label %given
cell:
  %cell.v = call ptr @PyCell_Get(ptr %owner)
  br label %given
call:
  %call.v = call ptr @PyObject_CallObject(ptr %owner, ptr %key)
  br label %given
given:  ; a reference that is ours to give back
  %given.v = phi ptr [ %table.v, %table ], [ %cell.v, %cell ], [ %call.v, %call ]
  %given.w = ptrtoint ptr %given.v to i64
  %given.n = icmp eq ptr %given.v, null
  br i1 %given.n, label %doubt, label %given.there
given.there:
  call void @Py_DecRef(ptr %given.v)
  br label %judge
length:
  %length.w = call i64 @PyObject_Size(ptr %owner)
  %length.n = icmp slt i64 %length.w, 0
  br i1 %length.n, label %clear, label %judge
member:
  %member.c = call i32 @PySequence_Contains(ptr %owner, ptr %key)
  %member.w = sext i32 %member.c to i64
  %member.n = icmp slt i64 %member.w, 0
  br i1 %member.n, label %clear, label %judge
index:
  %index.s = call i64 @PyList_Size(ptr %owner)
  %index.n = icmp slt i64 %word, 0
  %index.f = add i64 %word, %index.s
  %index.i = select i1 %index.n, i64 %index.f, i64 %word
  %index.v = call ptr @PyList_GetItem(ptr %owner, i64 %index.i)
  %index.w = ptrtoint ptr %index.v to i64
  %index.m = icmp eq ptr %index.v, null
  br i1 %index.m, label %clear, label %judge
list:
  %list.s = call i64 @PyList_Size(ptr %owner)
  %list.e = icmp eq i64 %list.s, %wanted
  br i1 %list.e, label %list.loop, label %clear
list.loop:
  %list.i = phi i64 [ 0, %list ], [ %list.next, %list.same ]
  %list.over = icmp eq i64 %list.i, %wanted
  br i1 %list.over, label %good, label %list.look
list.look:
  %list.v = call ptr @PyList_GetItem(ptr %owner, i64 %list.i)
  %list.p = getelementptr ptr, ptr %key, i64 %list.i
  %list.x = load ptr, ptr %list.p
  %list.ok = icmp eq ptr %list.v, %list.x
  br i1 %list.ok, label %list.same, label %clear
list.same:
  %list.next = add i64 %list.i, 1
  br label %list.loop
items:
  %items.s = call i64 @PyDict_Size(ptr %owner)
  %items.e = icmp eq i64 %items.s, %wanted
  store i64 0, ptr %at
  br i1 %items.e, label %items.loop, label %clear
items.loop:
  %items.i = phi i64 [ 0, %items ], [ %items.next, %items.same ]
  %items.more = call i32 @PyDict_Next(ptr %owner, ptr %at, ptr %k, ptr %v)
  %items.over = icmp eq i32 %items.more, 0
  br i1 %items.over, label %items.end, label %items.look
items.look:
  %items.k = load ptr, ptr %k
  %items.p = getelementptr ptr, ptr %key, i64 %items.i
  %items.x = load ptr, ptr %items.p
  %items.a = icmp eq ptr %items.k, %items.x
  br i1 %items.a, label %items.value, label %clear
items.value:
  %items.v = load ptr, ptr %v
  %items.f = add i64 %items.i, %wanted
  %items.q = getelementptr ptr, ptr %key, i64 %items.f
  %items.y = load ptr, ptr %items.q
  %items.b = icmp eq ptr %items.v, %items.y
  br i1 %items.b, label %items.same, label %clear
items.same:
  %items.next = add i64 %items.i, 1
  br label %items.loop
items.end:
  br label %judge
keys:
  %keys.s = call i64 @PyDict_Size(ptr %owner)
  %keys.e = icmp eq i64 %keys.s, %wanted
  store i64 0, ptr %at
  br i1 %keys.e, label %keys.loop, label %clear
keys.loop:
  %keys.i = phi i64 [ 0, %keys ], [ %keys.next, %keys.same ]
  %keys.more = call i32 @PyDict_Next(ptr %owner, ptr %at, ptr %k, ptr null)
  %keys.over = icmp eq i32 %keys.more, 0
  br i1 %keys.over, label %keys.end, label %keys.look
keys.look:
  %keys.k = load ptr, ptr %k
  %keys.p = getelementptr ptr, ptr %key, i64 %keys.i
  %keys.x = load ptr, ptr %keys.p
  %keys.a = icmp eq ptr %keys.k, %keys.x
  br i1 %keys.a, label %keys.same, label %clear
keys.same:
  %keys.next = add i64 %keys.i, 1
  br label %keys.loop
keys.end:
  br label %judge
"""


# Where a key is among the entries of a dict, if all keys are plain strings and there are not many.
_SEEK = """
define internal i1 @plain_keys(ptr %table) {
  %p = getelementptr i8, ptr %table, i64 KEYS_POINTER
  %keys = load ptr, ptr %p
  %q = getelementptr i8, ptr %keys, i64 KEYS_KIND
  %kind = load i8, ptr %q
  %plain = icmp ne i8 %kind, 0
  ret i1 %plain
}
define internal i64 @seek(ptr %table, ptr %key) {
entry:
  %at = alloca i64
  %k = alloca ptr
  store i64 0, ptr %at
  %plain = call i1 @plain_keys(ptr %table)
  br i1 %plain, label %loop, label %lost
loop:
  %before = load i64, ptr %at
  %far = icmp sgt i64 %before, MANY
  br i1 %far, label %lost, label %look
look:
  %more = call i32 @PyDict_Next(ptr %table, ptr %at, ptr %k, ptr null)
  %over = icmp eq i32 %more, 0
  br i1 %over, label %lost, label %compare
compare:
  %x = load ptr, ptr %k
  %same = icmp eq ptr %x, %key
  br i1 %same, label %found, label %loop
found:
  ret i64 %before
lost:
  ret i64 NOT_FOUND
}
"""
_NO_SEEK = """
define internal i1 @plain_keys(ptr %table) { ret i1 0 }
define internal i64 @seek(ptr %table, ptr %key) { ret i64 NOT_FOUND }
"""
_MANY = 4096  # entries that are gone through to find a key's


@cache
def guard_walk() -> Check | None:
    """What walks rows of guards; None where objects are not laid out as expected."""
    where = type_offset()
    if sys.implementation.name != "cpython" or not COUNTED or where is None:
        return None
    code = library.linked("guarding", text(where), fastcall.interpreter())
    flags = fastcall.METH_FASTCALL
    guard: Check = fastcall.builtin(code.address("guard"), name="guard", flags=flags, keep=code)
    return guard if right(guard) else None


def text(class_at: int) -> str:
    """The IR of `guard(rows, first, count)`, which gives the first row that does not hold."""
    kinds = keys_kind()
    numbers = {
        "TYPE": class_at,
        "VERSION": version_offset() or 0,  # without one no row asks for it
        "CHANGES": dict_version_offset() or 0,
        "HELD_IN_DETAIL": HELD_IN_DETAIL,
        "NOT_SOUGHT": NOT_SOUGHT,
        "NOT_FOUND": NOT_FOUND,
        "KEYS_POINTER": kinds[0] if kinds else 0,
        "KEYS_KIND": kinds[1] if kinds else 0,
        "MANY": _MANY,
    }
    source = _walk() + (_NO_SEEK if kinds is None else _SEEK)
    return re.sub("|".join(numbers), lambda name: str(numbers[name[0]]), source)


def _walk() -> str:
    cases = " ".join(f"i64 {number}, label %{name}" for number, name in enumerate(KINDS))
    return f"""
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare i64 @PyDict_Size(ptr)
declare ptr @PyObject_GenericGetDict(ptr, ptr)
declare i64 @PyObject_Size(ptr)
declare ptr @PyCell_Get(ptr)
declare i32 @PySequence_Contains(ptr, ptr)
declare i64 @PyList_Size(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare ptr @PyObject_CallObject(ptr, ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare void @Py_DecRef(ptr)
declare i64 @PyLong_AsLongLong(ptr)
define ptr @guard(ptr %self, ptr %args, i64 %given) {{
  %a1 = getelementptr ptr, ptr %args, i64 1
  %a2 = getelementptr ptr, ptr %args, i64 2
  %o0 = load ptr, ptr %args
  %o1 = load ptr, ptr %a1
  %o2 = load ptr, ptr %a2
  %rows = call i64 @PyLong_AsLongLong(ptr %o0)
  %first = call i64 @PyLong_AsLongLong(ptr %o1)
  %count = call i64 @PyLong_AsLongLong(ptr %o2)
  %row.number = call i64 @walk(i64 %rows, i64 %first, i64 %count)
  %out = call ptr @PyLong_FromLongLong(i64 %row.number)
  ret ptr %out
}}
define internal i64 @walk(i64 %rows, i64 %first, i64 %count) {{
entry:
  %at = alloca i64
  %k = alloca ptr
  %v = alloca ptr
  %outcome = alloca i64
  store i64 {HELD}, ptr %outcome
  br label %loop
loop:
  %i = phi i64 [ %first, %entry ], [ %next, %good ], [ %class.next, %class.same ],
    [ %dict.next, %dict.same ]
  %over = icmp sge i64 %i, %count
  br i1 %over, label %held, label %row
held:
  %held.how = load i64, ptr %outcome
  ret i64 %held.how
row:
  %skip = mul i64 %i, {8 * WORDS}
  %place = add i64 %rows, %skip
  %p0 = inttoptr i64 %place to ptr
  %p1 = getelementptr i64, ptr %p0, i64 1
  %p2 = getelementptr i64, ptr %p0, i64 2
  %p3 = getelementptr i64, ptr %p0, i64 3
  %p4 = getelementptr i64, ptr %p0, i64 4
  %kind = load i64, ptr %p0
  %owner = load ptr, ptr %p1
  %word = load i64, ptr %p2
  %key = inttoptr i64 %word to ptr
  %wanted = load i64, ptr %p3
  switch i64 %kind, label %bad [ {cases} ]
{_BLOCKS}
doubt:  ; nothing is there, or there was an error
  %error = call ptr @PyErr_Occurred()
  %none = icmp eq ptr %error, null
  br i1 %none, label %judge, label %clear
judge:
  %found = phi i64 [ %item.q, %item.next ], [ %item.w, %item.there ], [ %item.w, %item.seek ],
    [ %kind.w, %kind.there ], [ %field.w, %field ],
    [ %given.w, %given.there ], [ %length.w, %length ], [ %member.w, %member ],
    [ %index.w, %index ], [ %items.i, %items.end ], [ %keys.i, %keys.end ], [ 0, %doubt ]
  %same = icmp eq i64 %found, %wanted
  br i1 %same, label %good, label %bad
good:
  %next = add i64 %i, 1
  br label %loop
clear:
  call void @PyErr_Clear()
  br label %bad
bad:
  ret i64 %i
}}"""


class _Sample:
    pass


def right(guard: Check) -> bool:
    """Whether rows are walked as expected: tried on a few places, as they are and otherwise."""
    thing, listed = _Sample(), [1, 2]
    own = thing.__dict__
    own["a"] = 1
    places: list[Location] = [
        Item(own, "a"), Item(own, "b"), Kind(thing), Table(thing), Length(own),
        Contents(own, "items"), Contents(listed),
    ]  # fmt: skip
    for place in places:
        values: list[Any] = [place.now()]
        row = row_of(place, values[0], values)
        if row is None:
            return False
        rows = array("q", [*row, NOT_SOUGHT, *row[:-1], row[-1] + 1, NOT_SOUGHT])
        address = rows.buffer_info()[0]
        for _ in range(3):  # first a key is sought, then it is known where it is
            if [guard(address, 0, 1), guard(address, 0, 2), guard(address, 1, 2)] != [HELD, 1, 1]:
                return False
    cls: Any = type("Sample", (), {})
    if version_offset() is not None:
        change = partial(setattr, cls, "size")
        if not _versions_right(guard, CLASS, cls, partial(version_of, cls), change):
            return False
    if dict_version_offset() is None:
        return True
    change = partial(own.__setitem__, "size")
    return _versions_right(guard, DICT, own, partial(dict_version, own), change)


def _versions_right(
    guard: Check, kind: int, thing: Any, version: Callable[[], int], change: Callable[[Any], None]
) -> bool:
    """Whether the row behind a class's or dict's is left out while that has its version."""
    empty: list[Any] = []
    answers = []
    for wanted in (1, 0):  # a row that does not hold, and one that does
        row = (kind, id(thing), 1, version(), NOT_SOUGHT)
        rows = array("q", [*row, LENGTH, id(empty), 0, wanted, NOT_SOUGHT])
        answers.append(guard(rows.buffer_info()[0], 0, 2))
        change(wanted)
        answers.append(guard(rows.buffer_info()[0], 0, 2))
    return answers == [HELD, 1, HELD, HELD_IN_DETAIL]
