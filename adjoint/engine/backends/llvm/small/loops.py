"""The function that walks rows of words, and those that find what to walk.

All of it is one module of native code, the same for every program, kept on disk; inner loops that
NumPy does not have are families beside it (`inner_loops.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from adjoint.engine.backends.llvm.runtime import fastcall, jit, library
from adjoint.engine.backends.llvm.runtime.objects import object_new, objects
from adjoint.engine.backends.llvm.runtime.peeking import (
    COUNTED,
    HEAD,
    quick_address,
    slow_address,
    steps,
)
from adjoint.engine.backends.llvm.runtime.shared_words import MAX_WORKERS
from adjoint.engine.backends.llvm.small import (
    calling,
    inner_loops,
    looking,
    meeting,
    noting,
    pulling,
    taped,
    viewing,
)
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state import forks

ARGUMENTS = 6  # pointers that an inner loop is given at most
OUTER = 3  # dimensions that rows go through around an inner loop
DIMS, STEPS = 4, 11  # words of an inner loop's sizes and steps: those of singular values
SLOTS = 32  # arrays of a program, and one for absolute addresses
# The words of a program: how many rows, whether one failed, then which low bits of each array's
# address must be zero; then the rows.
ROWS_AT, FAILED_AT, MASKS_AT = 0, 1, 2
NOTE_FAILURE = -1  # as a row's data: the address of that word
FIRST_ROW = MASKS_AT + SLOTS
# The words of a row: function, its data, how many arguments; sizes; for each argument the slot, the
# offset from it and the steps of outer dimensions.
SIZES_AT = 3
DIMS_AT = SIZES_AT + OUTER
STEPS_AT = DIMS_AT + DIMS
ARGUMENTS_AT = STEPS_AT + STEPS
ARGUMENT = 2 + OUTER
ROW = ARGUMENTS_AT + ARGUMENTS * ARGUMENT

# `@carry_out` runs the rows on arrays whose addresses are in slots, and tells whether one failed.
WALK = f"""
declare ptr @PyLong_FromLongLong(i64)
define i64 @carry_out(ptr %table, ptr %slots, i64 %count) {{
entry:
  %given = alloca [{ARGUMENTS} x ptr]
  store i64 0, ptr %slots
  %failedAt = getelementptr i64, ptr %table, i64 {FAILED_AT}
  store i64 0, ptr %failedAt
  %rows = load i64, ptr %table
  br label %arrays
arrays:
  %k = phi i64 [1, %entry], [%kNext, %array]
  %bits = phi i64 [0, %entry], [%bitsNext, %array]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %array, label %looked
array:
  %slotAt = getelementptr i64, ptr %slots, i64 %k
  %data = load i64, ptr %slotAt
  %maskIndex = add i64 %k, {MASKS_AT}
  %maskAt = getelementptr i64, ptr %table, i64 %maskIndex
  %mask = load i64, ptr %maskAt
  %low = and i64 %data, %mask
  %bitsNext = or i64 %bits, %low
  %kNext = add i64 %k, 1
  br label %arrays
looked:
  %astray = icmp ne i64 %bits, 0
  br i1 %astray, label %bad, label %begin
bad:
  ret i64 1
begin:
  %first = getelementptr i64, ptr %table, i64 {FIRST_ROW}
  br label %row
row:
  %r = phi i64 [0, %begin], [%rNext, %rowEnd]
  %words.r = phi ptr [%first, %begin], [%rowNext, %rowEnd]
  %left = icmp slt i64 %r, %rows
  br i1 %left, label %read, label %done
read:
  %fn = load ptr, ptr %words.r
  %ownAt = getelementptr i64, ptr %words.r, i64 1
  %own = load ptr, ptr %ownAt
  %manyAt = getelementptr i64, ptr %words.r, i64 2
  %many = load i64, ptr %manyAt
  %aAt = getelementptr i64, ptr %words.r, i64 {SIZES_AT}
  %a = load i64, ptr %aAt
  %bAt = getelementptr i64, ptr %words.r, i64 {SIZES_AT + 1}
  %b = load i64, ptr %bAt
  %cAt = getelementptr i64, ptr %words.r, i64 {SIZES_AT + 2}
  %c = load i64, ptr %cAt
  %dims = getelementptr i64, ptr %words.r, i64 {DIMS_AT}
  %steps = getelementptr i64, ptr %words.r, i64 {STEPS_AT}
  %argsAt = getelementptr i64, ptr %words.r, i64 {ARGUMENTS_AT}
  br label %outer
outer:
  %i = phi i64 [0, %read], [%iNext, %innerEnd]
  %j = phi i64 [0, %read], [%jNext, %innerEnd]
  %l = phi i64 [0, %read], [%lNext, %innerEnd]
  br label %argument
argument:
  %n = phi i64 [0, %outer], [%nNext, %argument]
  %base = mul i64 %n, {ARGUMENT}
  %argAt = getelementptr i64, ptr %argsAt, i64 %base
  %slot = load i64, ptr %argAt
  %offsetAt = getelementptr i64, ptr %argAt, i64 1
  %offset = load i64, ptr %offsetAt
  %s0At = getelementptr i64, ptr %argAt, i64 2
  %s0 = load i64, ptr %s0At
  %s1At = getelementptr i64, ptr %argAt, i64 3
  %s1 = load i64, ptr %s1At
  %s2At = getelementptr i64, ptr %argAt, i64 4
  %s2 = load i64, ptr %s2At
  %heldAt = getelementptr i64, ptr %slots, i64 %slot
  %held = load i64, ptr %heldAt
  %t0 = mul i64 %i, %s0
  %t1 = mul i64 %j, %s1
  %t2 = mul i64 %l, %s2
  %p0 = add i64 %held, %offset
  %p1 = add i64 %p0, %t0
  %p2 = add i64 %p1, %t1
  %p3 = add i64 %p2, %t2
  %placeAt = getelementptr i64, ptr %given, i64 %n
  store i64 %p3, ptr %placeAt
  %nNext = add i64 %n, 1
  %further = icmp slt i64 %nNext, %many
  br i1 %further, label %argument, label %inner
inner:
  call void %fn(ptr %given, ptr %dims, ptr %steps, ptr %own)
  %l1 = add i64 %l, 1
  %lEnd = icmp sge i64 %l1, %c
  %lNext = select i1 %lEnd, i64 0, i64 %l1
  %lCarry = zext i1 %lEnd to i64
  %j1 = add i64 %j, %lCarry
  %jEnd = icmp sge i64 %j1, %b
  %jNext = select i1 %jEnd, i64 0, i64 %j1
  %jCarry = zext i1 %jEnd to i64
  %iNext = add i64 %i, %jCarry
  br label %innerEnd
innerEnd:
  %again = icmp slt i64 %iNext, %a
  br i1 %again, label %outer, label %rowLast
rowLast:
  %wrongNow = load i64, ptr %failedAt
  %wrong = icmp ne i64 %wrongNow, 0
  br i1 %wrong, label %done, label %rowEnd
rowEnd:
  %rNext = add i64 %r, 1
  %rowNext = getelementptr i64, ptr %words.r, i64 {ROW}
  br label %row
done:
  %failed = load i64, ptr %failedAt
  ret i64 %failed
}}
define ptr @walk(ptr %self, ptr %args, i64 %count) {{
entry:
  %slots = alloca [{SLOTS} x i64]
  %words = load ptr, ptr %args
  %wordsAt = getelementptr i8, ptr %words, i64 {HEAD}
  %table = load ptr, ptr %wordsAt
  br label %arrays
arrays:
  %k = phi i64 [1, %entry], [%kNext, %array]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %array, label %looked
array:
  %objectAt = getelementptr ptr, ptr %args, i64 %k
  %object = load ptr, ptr %objectAt
  %dataAt = getelementptr i8, ptr %object, i64 {HEAD}
  %data = load i64, ptr %dataAt
  %slotAt = getelementptr i64, ptr %slots, i64 %k
  store i64 %data, ptr %slotAt
  %kNext = add i64 %k, 1
  br label %arrays
looked:
  %failed = call i64 @carry_out(ptr %table, ptr %slots, i64 %count)
  %out = call ptr @PyLong_FromLongLong(i64 %failed)
  ret ptr %out
}}
"""


# What a fragment's rows call (Note [met fragments]): `put_address` adds to an array's address and
# stores it, for each place of a list; `launch_all` makes the launches of a table, `launch_shared`
# has all workers walk one, of which there are as many as Python says now. `keep_apart` fails where
# two arrays share memory.
LAUNCHES = (
    f"""
define void @launch_shared(ptr %args, ptr %dims, ptr %steps, ptr %own) {{
entry:
  %tableAt = getelementptr ptr, ptr %own, i64 1
  %table = load ptr, ptr %tableAt
  %countAt = getelementptr i64, ptr %own, i64 2
  %count = load i64, ptr %countAt
  %poolAt = getelementptr ptr, ptr %own, i64 3
  %pool = load ptr, ptr %poolAt
  %runAt = getelementptr ptr, ptr %own, i64 4
  %run = load ptr, ptr %runAt
  %numberAt = getelementptr ptr, ptr %own, i64 5
  %number = load ptr, ptr %numberAt
  %wanted = load i64, ptr %number
  %many = icmp sgt i64 %wanted, {MAX_WORKERS}
  %workers = select i1 %many, i64 {MAX_WORKERS}, i64 %wanted
  %status = call i64 %run(ptr %pool, ptr %table, i64 %count, i64 %workers, i64 0)
  %failed = icmp ne i64 %status, 0
  br i1 %failed, label %fail, label %end
fail:
  %noteAt = load ptr, ptr %own
  store i64 1, ptr %noteAt
  br label %end
end:
  ret void
}}
"""
    """
define void @keep_apart(ptr %args, ptr %dims, ptr %steps, ptr %own) {
entry:
  %otherAt = getelementptr i64, ptr %args, i64 1
  %oneSizeAt = getelementptr i64, ptr %own, i64 1
  %otherSizeAt = getelementptr i64, ptr %own, i64 2
  %one = load i64, ptr %args
  %other = load i64, ptr %otherAt
  %oneSize = load i64, ptr %oneSizeAt
  %otherSize = load i64, ptr %otherSizeAt
  %oneEnd = add i64 %one, %oneSize
  %otherEnd = add i64 %other, %otherSize
  %before = icmp ule i64 %oneEnd, %other
  %after = icmp ule i64 %otherEnd, %one
  %apart = or i1 %before, %after
  br i1 %apart, label %end, label %fail
fail:
  %noteAt = load ptr, ptr %own
  store i64 1, ptr %noteAt
  br label %end
end:
  ret void
}
define void @put_address(ptr %args, ptr %dims, ptr %steps, ptr %own) {
entry:
  %data = load i64, ptr %args
  %count = load i64, ptr %own
  %first = getelementptr i64, ptr %own, i64 1
  br label %next
next:
  %k = phi i64 [0, %entry], [%kNext, %one]
  %p = phi ptr [%first, %entry], [%pNext, %one]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %one, label %end
one:
  %to = load ptr, ptr %p
  %shiftAt = getelementptr i64, ptr %p, i64 1
  %shift = load i64, ptr %shiftAt
  %value = add i64 %data, %shift
  store i64 %value, ptr %to
  %kNext = add i64 %k, 1
  %pNext = getelementptr i64, ptr %p, i64 2
  br label %next
end:
  ret void
}
define void @launch_all(ptr %args, ptr %dims, ptr %steps, ptr %own) {
entry:
  %tableAt = getelementptr ptr, ptr %own, i64 1
  %table = load ptr, ptr %tableAt
  %countAt = getelementptr i64, ptr %own, i64 2
  %count = load i64, ptr %countAt
  store atomic i64 0, ptr %table monotonic, align 8
  %first = getelementptr i64, ptr %table, i64 1
  br label %next
next:
  %k = phi i64 [0, %entry], [%kNext, %looked]
  %p = phi ptr [%first, %entry], [%pNext, %looked]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %one, label %end
one:
  %function = load ptr, ptr %p
  %wordsAt = getelementptr ptr, ptr %p, i64 1
  %words = load ptr, ptr %wordsAt
  call void %function(ptr %words, i64 0, i64 1)
  %status = load atomic i64, ptr %table monotonic, align 8
  %failed = icmp ne i64 %status, 0
  br i1 %failed, label %fail, label %looked
looked:
  %kNext = add i64 %k, 1
  %pNext = getelementptr i64, ptr %p, i64 2
  br label %next
fail:
  %noteAt = load ptr, ptr %own
  store i64 1, ptr %noteAt
  ret void
end:
  ret void
}
"""
)


class SmallCode(NamedTuple):
    """What small programs are run with."""

    walk: Callable[..., int]
    meet: Callable[..., Any]
    address: Callable[[str], int]  # of an inner loop of ours, or of what launches
    meet_call: Callable[..., Any] | None = None  # of public functions, where tensors are native
    meet_into: Callable[..., Any] | None = None  # of their in-place forms


_lock = forks.lock(forks.LockOrder.LIBRARY)


def native() -> SmallCode | None:
    """The walker; None where objects may not be laid out as it expects, or threads run at once.

    There is one: what another thread's had written would point to code that is gone.
    """
    with _lock:
        return _native()


@cache
def _native() -> SmallCode | None:
    address = quick_address()
    world = meeting.world()
    if not COUNTED or address is slow_address or world is None:
        return None
    parts = [WALK, LAUNCHES, meeting.text()]
    symbols = {**fastcall.interpreter(), "world": slow_address(world)}
    tensors, offsets, places = objects(), calling.offsets(), noting.offsets()
    asked, makers = calling.places_asked(), viewing.array_makers()
    names, seen = ["walk", "meet"], None
    if tensors and offsets and places and asked and makers:
        parts += [calling.text(*offsets), noting.text(places), noting.calls_text()]
        parts += [pulling.text(places), calling.asked_text(asked), viewing.followed_text()]
        parts.append(taped.text())
        seen = looking.places()
        symbols |= {"tensor_of": tensors.tensor_of, "false": id(False), "true": id(True), **makers}
        symbols |= noting.symbols(object_new()) | pulling.symbols() | calling.asked_symbols()
        symbols |= taped.symbols()
        symbols["ndarray"] = id(np.ndarray)
        names += ["meet_call", "meet_into", *noting.NAMES, *pulling.NAMES, "meet_public"]
        if seen:
            parts.append(looking.text(places | seen))
            symbols |= looking.symbols()
    code = library.linked("small rows", "\n".join(parts), symbols)
    walk, meet, *calls = (
        fastcall.builtin(
            code.address(name), name=name, flags=fastcall.METH_FASTCALL, keep=(code, world, tensors)
        )
        for name in names
    )
    HOOKS.meet, HOOKS.small_code = meet, True
    if calls:
        HOOKS.note, HOOKS.show, HOOKS.meet_noted, HOOKS.meet_rules = calls[2:6]
        HOOKS.pull, HOOKS.pass_on, HOOKS.meet_public = calls[6:]
        (HOOKS.meet_call, HOOKS.meet_into_small), HOOKS.small_call_code = calls[:2], True
    HOOKS.address, HOOKS.steps = address, steps()
    if seen:
        looking.install({
            name: fastcall.builtin(code.address(name), name=name, keep=(code, world, tensors))
            for name in looking.NAMES
        })  # fmt: skip

    def address_of(name: str) -> int:
        family = inner_loops.family_of(name)
        return (code if family is None else _family(family)).address(name)

    return SmallCode(walk, meet, address_of, *calls[:2])


def _family(name: str) -> jit.LinkedCode:
    """Inner loops that are assembled together, when one of them is first wanted: all of them would
    take the better part of a second."""
    with _lock:
        return _loaded_family(name)


@cache
def _loaded_family(name: str) -> jit.LinkedCode:
    return library.linked(f"small {name}", inner_loops.text_of(name))


def mask_of(dtype: np.dtype[Any]) -> int:
    """Which low bits of an address are zero where elements of a dtype are aligned."""
    return max(dtype.alignment, 1) - 1
