"""Finding the operation that a public function's call on the tape comes to (Note [one operation]).

`meet_taped` searches as `meet_call` does, and asks which operands the tape follows. The operation's
operands are made of the call's, and what it gives, and its node, is `meet_noted`'s affair; where it
has no program, neither has the call. The node is Python's where native code does not know it.
"""

from __future__ import annotations

import sys

from adjoint.engine.backends.llvm.small.comparing import INT, OBJECT, TENSOR
from adjoint.engine.backends.llvm.small.searching import OPERANDS, PARAMETERS, search
from adjoint.engine.backends.llvm.small.viewing import RAISED, UNKNOWN

# The parts of a step: a record, its operands, its parameters, and which of its results are given.
RECORD, SOURCES, PARAMS, PICKS = range(4)
FOLLOWED = ("", "call i1 @followed_as(ptr %program, ptr %operands)")
RUN = """
  %step = call ptr @PyTuple_GetItem(ptr %program, i64 6)
  %out = call ptr @done_as(ptr %step, ptr %operands)
  ret ptr %out"""
ATTRIBUTES = [sys.intern(name) for name in ("small", "tape")]  # of a record


def symbols() -> dict[str, int]:
    """What the text names, beside what `noting` does."""
    return {f"record_{name}": id(name) for name in ATTRIBUTES}


def text() -> str:
    """The functions."""
    return f"""
@record_small = external global i8
@record_tape = external global i8
define i1 @followed_as(ptr %program, ptr %operands) {{
entry:
  %wanted = call ptr @words_of(ptr %program, i64 1)
  %count = load i64, ptr %wanted
  %pattern = call ptr @PyTuple_GetItem(ptr %program, i64 5)
  %asked = call i64 @PyLong_AsLongLong(ptr %pattern)
  br label %next
next:
  %k = phi i64 [0, %entry], [%kNext, %each], [%kNext, %tensor]
  %bits = phi i64 [1, %entry], [%bits, %each], [%bitsNext, %tensor]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %done
each:
  %kNext = add i64 %k, 1
  %own = call ptr @operand_in(ptr %wanted, i64 %k)
  %slot = load i64, ptr %own
  %rankAt = getelementptr i64, ptr %own, i64 3
  %rank = load i64, ptr %rankAt
  %is.literal = icmp eq i64 %slot, 0
  %is.object = icmp eq i64 %rank, {OBJECT}
  %is.none = or i1 %is.literal, %is.object
  br i1 %is.none, label %next, label %tensor
tensor:
  %x = call ptr @PyTuple_GetItem(ptr %operands, i64 %k)
  %free = call i1 @is_free(ptr %x, i1 false)
  %followed = xor i1 %free, true
  %bit = zext i1 %followed to i64
  %twice = shl i64 %bits, 1
  %bitsNext = or i64 %twice, %bit
  br label %next
done:
  %same = icmp eq i64 %bits, %asked
  ret i1 %same
}}
define ptr @given_by(ptr %sources, ptr %operands) {{
entry:
  %count = call i64 @PyTuple_Size(ptr %sources)
  %given = call ptr @PyTuple_New(i64 %count)
  %unmade = icmp eq ptr %given, null
  br i1 %unmade, label %done, label %next
next:
  %k = phi i64 [0, %entry], [%kNext, %put]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %done
each:
  %source = call ptr @PyTuple_GetItem(ptr %sources, i64 %k)
  %flag = call ptr @PyTuple_GetItem(ptr %source, i64 0)
  %value = call ptr @PyTuple_GetItem(ptr %source, i64 1)
  %is.operand = icmp eq ptr %flag, @true
  br i1 %is.operand, label %operand, label %put
operand:
  %place = call i64 @PyLong_AsLongLong(ptr %value)
  %x = call ptr @PyTuple_GetItem(ptr %operands, i64 %place)
  br label %put
put:
  %item = phi ptr [%value, %each], [%x, %operand]
  call void @Py_IncRef(ptr %item)
  %set = call i32 @PyTuple_SetItem(ptr %given, i64 %k, ptr %item)
  %kNext = add i64 %k, 1
  br label %next
done:
  ret ptr %given
}}
define ptr @picked(ptr %results, ptr %picks) {{
entry:
  %class = call ptr @class_of(ptr %picks)
  %is.one = call i1 @is_a(ptr %class, i64 {INT})
  br i1 %is.one, label %one, label %several
one:
  %which = call i64 @PyLong_AsLongLong(ptr %picks)
  %result = call ptr @PyTuple_GetItem(ptr %results, i64 %which)
  call void @Py_IncRef(ptr %result)
  ret ptr %result
several:
  %count = call i64 @PyTuple_Size(ptr %picks)
  %out = call ptr @PyTuple_New(i64 %count)
  %unmade = icmp eq ptr %out, null
  br i1 %unmade, label %done, label %next
next:
  %k = phi i64 [0, %several], [%kNext, %each]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %done
each:
  %number = call ptr @PyTuple_GetItem(ptr %picks, i64 %k)
  %place = call i64 @PyLong_AsLongLong(ptr %number)
  %item = call ptr @PyTuple_GetItem(ptr %results, i64 %place)
  call void @Py_IncRef(ptr %item)
  %set = call i32 @PyTuple_SetItem(ptr %out, i64 %k, ptr %item)
  %kNext = add i64 %k, 1
  br label %next
done:
  ret ptr %out
}}
define i1 @is_attached(ptr %record, ptr %given, ptr %params, ptr %plans, ptr %results) {{
entry:
  %many = call i64 @PyTuple_Size(ptr %results)
  %is.one = icmp eq i64 %many, 1
  br i1 %is.one, label %one, label %note
one:
  %single = call ptr @PyTuple_GetItem(ptr %results, i64 0)
  br label %ask
note:
  %told = call i32 @noted_all(ptr %plans, ptr %given, ptr %params, ptr %results)
  switch i32 %told, label %yes [ i32 {UNKNOWN}, label %ask i32 {RAISED}, label %no ]
ask:
  %out = phi ptr [%single, %one], [%results, %note]
  %fine = call i1 @attached(ptr %record, ptr %given, ptr %params, ptr %out)
  br i1 %fine, label %yes, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}
define ptr @done_as(ptr %step, ptr %operands) {{
entry:
  %asked = alloca [4 x ptr]
  %record = call ptr @PyTuple_GetItem(ptr %step, i64 {RECORD})
  %sources = call ptr @PyTuple_GetItem(ptr %step, i64 {SOURCES})
  %params = call ptr @PyTuple_GetItem(ptr %step, i64 {PARAMS})
  %picks = call ptr @PyTuple_GetItem(ptr %step, i64 {PICKS})
  %given = call ptr @given_by(ptr %sources, ptr %operands)
  %no.given = icmp eq ptr %given, null
  br i1 %no.given, label %refuse, label %programs
refuse:
  ret ptr null
programs:
  %listed = call ptr @PyObject_GetAttr(ptr %record, ptr @record_small)
  %no.programs = icmp eq ptr %listed, null
  br i1 %no.programs, label %drop.given, label %plan
drop.given:
  call void @Py_DecRef(ptr %given)
  br label %refuse
plan:
  %plans = call ptr @PyObject_GetAttr(ptr %record, ptr @record_tape)
  %no.plans = icmp eq ptr %plans, null
  br i1 %no.plans, label %drop.programs, label %meet
drop.programs:
  call void @Py_DecRef(ptr %listed)
  br label %drop.given
meet:
  %givenAt = getelementptr ptr, ptr %asked, i64 1
  %paramsAt = getelementptr ptr, ptr %asked, i64 2
  %plansAt = getelementptr ptr, ptr %asked, i64 3
  store ptr %listed, ptr %asked
  store ptr %given, ptr %givenAt
  store ptr %params, ptr %paramsAt
  store ptr %plans, ptr %plansAt
  %out = call ptr @meet_noted(ptr null, ptr %asked, i64 4)
  call void @Py_DecRef(ptr %listed)
  %wrong = icmp eq ptr %out, null
  %unknown = icmp eq ptr %out, @nothing
  %neither = or i1 %wrong, %unknown
  br i1 %neither, label %hand, label %look
look:
  %class = call ptr @class_of(ptr %out)
  %is.tensor = call i1 @is_a(ptr %class, i64 {TENSOR})
  br i1 %is.tensor, label %hand, label %arrays
arrays:
  %results = call ptr @all_as_tensors(ptr %out)
  %no.results = icmp eq ptr %results, null
  br i1 %no.results, label %fail, label %attach
attach:
  %fine = call i1 @is_attached(ptr %record, ptr %given, ptr %params, ptr %plans, ptr %results)
  br i1 %fine, label %pick, label %lose
pick:
  %all = call ptr @picked(ptr %results, ptr %picks)
  call void @Py_DecRef(ptr %results)
  br label %hand
lose:
  call void @Py_DecRef(ptr %results)
  br label %fail
fail:
  br label %hand
hand:
  %found = phi ptr [%out, %meet], [%out, %look], [%all, %pick], [null, %fail]
  call void @Py_DecRef(ptr %plans)
  call void @Py_DecRef(ptr %given)
  ret ptr %found
}}
{search("meet_taped", (OPERANDS, PARAMETERS, FOLLOWED), RUN)}"""
