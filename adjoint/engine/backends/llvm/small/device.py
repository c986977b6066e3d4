"""Fragments on a GPU, found and launched by native code.

Note [met launches]
    A kernel on a few elements takes a GPU two microseconds and the driver as long again to launch;
    Python takes three times that to write down the kind of the operands, look it up, and fill in
    addresses. So a fragment that is called often is listed with its record or rules, and native
    code compares operands with the listed ones as it does on the CPU (Note [meeting]), makes the
    results, and has all launches made (Note [native launches]). Nothing of the fragment is written
    anew: its launches, their words and what makes results are its own.

    How a GPU's arrays are laid out is told by who has them, as functions of an array: @sizes_of and
    @steps_of give addresses, @rank_of, @dtype_of, @place_of (of its elements) and @device_of words.
    Where kernels can fail, Python is asked for the number of the call, and notes its line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.engine.backends.llvm.runtime import fastcall, library
from adjoint.engine.backends.llvm.runtime.objects import objects
from adjoint.engine.backends.llvm.runtime.peeking import COUNTED, HEAD, slow_address
from adjoint.engine.backends.llvm.small import meeting
from adjoint.engine.backends.llvm.small.meeting import DEVICE_ARRAY, FLOAT, INT, LIST, NONE, TUPLE
from adjoint.engine.core.operations.record import is_tensor

DIMENSIONS = meeting.DIMENSIONS
# What is wanted of an operand: its slot (0: a literal), which earlier one it is (-1: any), dtype,
# rank (or what number it is), sizes, steps, device, whether its address is no multiple of 64.
FIRST, WANTED = 2, 6 + 2 * DIMENSIONS
NUMBER, REAL = -1, -2  # in the place of a rank: any whole number, any number as a double's bits
SLOTS = 64
UNUSED = SLOTS - 1  # a slot that no launch reads
# What a program is launched by, and the slots of what is made for it.
DEVICE, FUNCTION, RECORD, ROOM, WORKSPACE, CALL, RESULTS = range(7)
MADE = {"room": ROOM, "workspace": WORKSPACE, "slot": CALL}
RECORD_SLOT, STREAM_SLOT, GIVEN_SLOT = range(3)
PAGE = 256  # bytes that memory between kernels begins at a multiple of


def text() -> str:
    """The functions, after those that compare and those of a layout."""
    last = DIMENSIONS + 4
    return f"""
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @tensor_of(ptr)
declare ptr @PyObject_CallObject(ptr, ptr)
@true = external global i8
define i64 @at(ptr %words, i64 %k) alwaysinline {{
  %place = getelementptr i64, ptr %words, i64 %k
  %value = load i64, ptr %place
  ret i64 %value
}}
define void @set(ptr %words, i64 %k, i64 %value) alwaysinline {{
  %place = getelementptr i64, ptr %words, i64 %k
  store i64 %value, ptr %place
  ret void
}}
define ptr @words_of(ptr %program, i64 %which) alwaysinline {{
  %object = call ptr @PyTuple_GetItem(ptr %program, i64 %which)
  %wordsAt = getelementptr i8, ptr %object, i64 {HEAD}
  %words = load ptr, ptr %wordsAt
  ret ptr %words
}}
define i1 @lies_there(ptr %array, ptr %wanted) {{
entry:
  %dtype = call i64 @dtype_of(ptr %array)
  %dtypeWanted = call i64 @at(ptr %wanted, i64 2)
  %rank = call i64 @rank_of(ptr %array)
  %rankWanted = call i64 @at(ptr %wanted, i64 3)
  %device = call i64 @device_of(ptr %array)
  %deviceWanted = call i64 @at(ptr %wanted, i64 {last + DIMENSIONS})
  %place = call i64 @place_of(ptr %array)
  %low = and i64 %place, 63
  %is.astray = icmp ne i64 %low, 0
  %astray = zext i1 %is.astray to i64
  %astrayWanted = call i64 @at(ptr %wanted, i64 {last + DIMENSIONS + 1})
  %a = icmp eq i64 %dtype, %dtypeWanted
  %b = icmp eq i64 %rank, %rankWanted
  %c = icmp eq i64 %device, %deviceWanted
  %d = icmp eq i64 %astray, %astrayWanted
  %ab = and i1 %a, %b
  %cd = and i1 %c, %d
  %all = and i1 %ab, %cd
  br i1 %all, label %layout, label %no
layout:
  %sizes = call ptr @sizes_of(ptr %array)
  %steps = call ptr @steps_of(ptr %array)
  br label %next
next:
  %k = phi i64 [0, %layout], [%kNext, %each]
  %more = icmp slt i64 %k, %rank
  br i1 %more, label %each, label %yes
each:
  %kNext = add i64 %k, 1
  %sizeIndex = add i64 %k, 4
  %stepIndex = add i64 %k, {last}
  %s = call i64 @at(ptr %sizes, i64 %k)
  %t = call i64 @at(ptr %steps, i64 %k)
  %sWanted = call i64 @at(ptr %wanted, i64 %sizeIndex)
  %tWanted = call i64 @at(ptr %wanted, i64 %stepIndex)
  %sSame = icmp eq i64 %s, %sWanted
  %tSame = icmp eq i64 %t, %tWanted
  %fine = and i1 %sSame, %tSame
  br i1 %fine, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}
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
  %k = phi i64 [0, %sized], [%kNext, %literal], [%kNext, %place], [%kNext, %whole], [%kNext, %real]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %yes
each:
  %kNext = add i64 %k, 1
  %x = call ptr @item_of(ptr %operands, i64 %k, i1 %is.list)
  %away = mul i64 %k, {WANTED}
  %begin = add i64 %away, {FIRST}
  %own = getelementptr i64, ptr %wanted, i64 %begin
  %slot = load i64, ptr %own
  %is.literal = icmp eq i64 %slot, 0
  br i1 %is.literal, label %literal, label %given
literal:
  %wantedLiteral = call ptr @PyTuple_GetItem(ptr %literals, i64 %k)
  %equal = call i1 @same(ptr %x, ptr %wantedLiteral)
  br i1 %equal, label %next, label %no
given:
  %classOfX = call ptr @class_of(ptr %x)
  %rank = call i64 @at(ptr %own, i64 3)
  switch i64 %rank, label %classed [ i64 {NUMBER}, label %number i64 {REAL}, label %float ]
number:
  %is.int = call i1 @is_a(ptr %classOfX, i64 {INT})
  br i1 %is.int, label %whole, label %no
whole:
  %value = call i64 @PyLong_AsUnsignedLongLongMask(ptr %x)
  call void @set(ptr %slots, i64 %slot, i64 %value)
  br label %next
float:
  %is.float = call i1 @is_a(ptr %classOfX, i64 {FLOAT})
  br i1 %is.float, label %real, label %no
real:
  %double = call double @PyFloat_AsDouble(ptr %x)
  %bits = bitcast double %double to i64
  call void @set(ptr %slots, i64 %slot, i64 %bits)
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
  %offset = call i64 @at(ptr @world, i64 {meeting.ARRAY_AT})
  %heldAt = getelementptr i8, ptr %x, i64 %offset
  %held = load ptr, ptr %heldAt
  %absent = icmp eq ptr %held, null
  br i1 %absent, label %no, label %kind
kind:
  %classOfArray = call ptr @class_of(ptr %held)
  %is.array = call i1 @is_a(ptr %classOfArray, i64 {DEVICE_ARRAY})
  br i1 %is.array, label %layout, label %no
layout:
  %lies = call i1 @lies_there(ptr %held, ptr %own)
  br i1 %lies, label %earlier, label %no
earlier:
  %first = call i64 @at(ptr %own, i64 1)
  %any = icmp slt i64 %first, 0
  br i1 %any, label %place, label %again
again:
  %before = call ptr @item_of(ptr %operands, i64 %first, i1 %is.list)
  %it = icmp eq ptr %before, %x
  br i1 %it, label %place, label %no
place:
  %data = call i64 @place_of(ptr %held)
  call void @set(ptr %slots, i64 %slot, i64 %data)
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}}
define ptr @made_by(ptr %maker) {{
  %function = call ptr @PyTuple_GetItem(ptr %maker, i64 0)
  %given = call ptr @PyTuple_GetItem(ptr %maker, i64 1)
  %made = call ptr @PyObject_Call(ptr %function, ptr %given, ptr null)
  ret ptr %made
}}
define ptr @launched(ptr %program, ptr %operands, ptr %slots) {{
entry:
  %about = call ptr @words_of(ptr %program, i64 0)
  %makers = call ptr @PyTuple_GetItem(ptr %program, i64 6)
  %roomMaker = call ptr @PyTuple_GetItem(ptr %program, i64 7)
  %single = call ptr @PyTuple_GetItem(ptr %program, i64 8)
  %noneAt = getelementptr ptr, ptr @world, i64 {NONE}
  %none = load ptr, ptr %noneAt
  %count = call i64 @PyTuple_Size(ptr %makers)
  %results = call ptr @PyTuple_New(i64 %count)
  %failed = icmp eq ptr %results, null
  br i1 %failed, label %error, label %next
next:
  %k = phi i64 [0, %entry], [%kNext, %gap], [%kNext, %keep]
  %n = phi i64 [{RESULTS}, %entry], [%n, %gap], [%nNext, %keep]
  %kNext = add i64 %k, 1
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %between
each:
  %maker = call ptr @PyTuple_GetItem(ptr %makers, i64 %k)
  %is.gap = icmp eq ptr %maker, %none
  br i1 %is.gap, label %gap, label %make
gap:
  call void @Py_IncRef(ptr %none)
  %g = call i32 @PyTuple_SetItem(ptr %results, i64 %k, ptr %none)
  br label %next
make:
  %made = call ptr @made_by(ptr %maker)
  %is.made = icmp ne ptr %made, null
  br i1 %is.made, label %wrap, label %drop
wrap:
  %tensor = call ptr @tensor_of(ptr %made)
  %data = call i64 @place_of(ptr %made)
  call void @Py_DecRef(ptr %made)
  %is.wrapped = icmp ne ptr %tensor, null
  br i1 %is.wrapped, label %keep, label %drop
keep:
  %slot = call i64 @at(ptr %about, i64 %n)
  call void @set(ptr %slots, i64 %slot, i64 %data)
  %nNext = add i64 %n, 1
  %h = call i32 @PyTuple_SetItem(ptr %results, i64 %k, ptr %tensor)
  br label %next
between:
  %is.roomy = icmp ne ptr %roomMaker, %none
  br i1 %is.roomy, label %makeRoom, label %check
makeRoom:
  %room = call ptr @made_by(ptr %roomMaker)
  %has.room = icmp ne ptr %room, null
  br i1 %has.room, label %roomy, label %drop
roomy:
  %roomAt = call i64 @place_of(ptr %room)
  %roomPlus = add i64 %roomAt, {PAGE - 1}
  %roomPlace = and i64 %roomPlus, {-PAGE}
  %roomSlot = call i64 @at(ptr %about, i64 {ROOM})
  call void @set(ptr %slots, i64 %roomSlot, i64 %roomPlace)
  br label %check
check:
  %held = phi ptr [null, %between], [%room, %roomy]
  %note = call ptr @PyTuple_GetItem(ptr %program, i64 9)
  %can.fail = icmp ne ptr %note, %none
  br i1 %can.fail, label %noting, label %looking
noting:
  %number = call ptr @PyObject_CallObject(ptr %note, ptr null)
  %is.noted = icmp ne ptr %number, null
  br i1 %is.noted, label %noted, label %unnoted
unnoted:
  %had = icmp ne ptr %held, null
  br i1 %had, label %letGo, label %drop
letGo:
  call void @Py_DecRef(ptr %held)
  br label %drop
noted:
  %callNumber = call i64 @PyLong_AsLongLong(ptr %number)
  call void @Py_DecRef(ptr %number)
  %callSlot = call i64 @at(ptr %about, i64 {CALL})
  call void @set(ptr %slots, i64 %callSlot, i64 %callNumber)
  br label %looking
looking:
  %still = call i1 @operands_fit(ptr %program, ptr %operands, ptr %slots)
  br i1 %still, label %run, label %unfit
run:
  %record = call i64 @at(ptr %about, i64 {RECORD})
  call void @set(ptr %slots, i64 {RECORD_SLOT}, i64 %record)
  %functionAt = getelementptr ptr, ptr %about, i64 {FUNCTION}
  %function = load ptr, ptr %functionAt
  %ran = call i64 %function(ptr %slots)
  br label %done
unfit:
  br label %done
done:
  %code = phi i64 [%ran, %run], [1, %unfit]
  %has = icmp ne ptr %held, null
  br i1 %has, label %let, label %look
let:
  call void @Py_DecRef(ptr %held)
  br label %look
look:
  %fine = icmp eq i64 %code, 0
  br i1 %fine, label %hand, label %unknown
hand:
  %is.single = icmp eq ptr %single, @true
  br i1 %is.single, label %one, label %all
one:
  %only = call ptr @PyTuple_GetItem(ptr %results, i64 0)
  call void @Py_IncRef(ptr %only)
  call void @Py_DecRef(ptr %results)
  ret ptr %only
all:
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
define i64 @number_at(ptr %args, i64 %k) {{
  %place = getelementptr ptr, ptr %args, i64 %k
  %object = load ptr, ptr %place
  %value = call i64 @PyLong_AsLongLong(ptr %object)
  ret i64 %value
}}
define ptr @meet_on_device(ptr %self, ptr %args, i64 %given) {{
entry:
  %slots = alloca [{SLOTS} x i64]
  %programs = load ptr, ptr %args
  %operandsAt = getelementptr ptr, ptr %args, i64 1
  %operands = load ptr, ptr %operandsAt
  %paramsAt = getelementptr ptr, ptr %args, i64 2
  %params = load ptr, ptr %paramsAt
  %restAt = getelementptr ptr, ptr %args, i64 3
  %rest = load ptr, ptr %restAt
  %device = call i64 @number_at(ptr %args, i64 4)
  %stream = call i64 @number_at(ptr %args, i64 5)
  %workspace = call i64 @number_at(ptr %args, i64 6)
  %many = call i64 @PyTuple_Size(ptr %programs)
  br label %next
next:
  %k = phi i64 [0, %entry], [%kNext, %each], [%kNext, %there], [%kNext, %named], [%kNext, %others]
  %kNext = add i64 %k, 1
  %more = icmp slt i64 %k, %many
  br i1 %more, label %each, label %none
each:
  %program = call ptr @PyTuple_GetItem(ptr %programs, i64 %k)
  %a = call i1 @operands_fit(ptr %program, ptr %operands, ptr %slots)
  br i1 %a, label %there, label %next
there:
  %about = call ptr @words_of(ptr %program, i64 0)
  %home = call i64 @at(ptr %about, i64 {DEVICE})
  %current = icmp eq i64 %home, %device
  br i1 %current, label %named, label %next
named:
  %b = call i1 @parameters_fit(ptr %program, ptr %params)
  br i1 %b, label %others, label %next
others:
  %wantedRest = call ptr @PyTuple_GetItem(ptr %program, i64 5)
  %c = call i1 @same(ptr %rest, ptr %wantedRest)
  br i1 %c, label %room, label %next
room:
  call void @set(ptr %slots, i64 {STREAM_SLOT}, i64 %stream)
  %workspaceSlot = call i64 @at(ptr %about, i64 {WORKSPACE})
  %works = icmp ne i64 %workspaceSlot, 0
  br i1 %works, label %work, label %run
work:
  call void @set(ptr %slots, i64 %workspaceSlot, i64 %workspace)
  %lacking = icmp eq i64 %workspace, 0
  br i1 %lacking, label %none, label %run
run:
  %out = call ptr @launched(ptr %program, ptr %operands, ptr %slots)
  ret ptr %out
none:
  %nothingAt = getelementptr ptr, ptr @world, i64 {NONE}
  %nothing = load ptr, ptr %nothingAt
  call void @Py_IncRef(ptr %nothing)
  ret ptr %nothing
}}"""


def meeting_on(arrays: type, layout: str) -> Callable[..., Any] | None:
    """What finds and launches, for arrays of a class, by the text of their layout.

    It is given programs, operands, parameters, what else there is to compare, the current device
    and stream, and memory that products work in.
    None where objects may not be laid out as it expects, or threads run at once. It returns None
    where no program fits, or where one could not be launched.
    """
    world, tensors = meeting.world(), objects()
    if not COUNTED or world is None or tensors is None:
        return None
    words = world.copy()
    words[DEVICE_ARRAY] = id(arrays)
    symbols = {
        **fastcall.interpreter(), "world": slow_address(words), "true": id(True),
        "tensor_of": tensors.tensor_of,
    }  # fmt: skip
    code = library.linked(
        "met launches", "\n".join([meeting.comparing_text(), layout, text()]), symbols
    )
    return fastcall.builtin(
        code.address("meet_on_device"),
        name="meet_on_device",
        flags=fastcall.METH_FASTCALL,
        keep=(code, words, tensors, arrays),
    )


def entry_of(
    call: Any, places: Sequence[int], given: type, owned: Any, gaps: Sequence[bool], single: bool
) -> tuple[Any, ...] | None:
    """What native code finds a fragment by; None where it could not launch it.

    `call` says what launches are given (`NativeCall`). `owned` is the record or rules, and what
    they were given: tensors and, of the type `given`, numbers, of which some (`places`, numbers
    after tensors) are the program's inputs. `gaps` tells which results are there.
    """
    _, operands, params, rest = owned
    tensors = [k for k, x in enumerate(operands) if is_tensor(x)]
    numbers = [k for k, x in enumerate(operands) if type(x) is given]
    slots = dict.fromkeys([*tensors, *numbers], UNUSED)
    about = [call.device, call.function, call.record, 0, 0, 0, *[0] * len(call.results)]
    for at, (what, which) in enumerate(call.given, GIVEN_SLOT):
        if what in ("input", "float", "whole"):
            slots[[*tensors, *numbers][places[which]]] = at
        elif what == "result":
            about[RESULTS + which] = at
        elif what in MADE:
            about[MADE[what]] = at
        else:
            return None
    arrays = [operands[k]._array for k in tensors]
    made = [which for what, which in call.given if what == "result"]
    if len(call.results) != sum(gaps) or made != [*range(len(made))]:
        return None
    if GIVEN_SLOT + len(call.given) > UNUSED or any(a.ndim > DIMENSIONS for a in arrays):
        return None
    wanted = wanted_of(operands, slots, call.place)
    literals = tuple([None if k in slots else x for k, x in enumerate(operands)])
    makers = iter(call.results)
    results = tuple([next(makers) if there else None for there in gaps])
    alive = (call, [a.dtype for a in arrays])
    return (
        np.array(about, np.int64), wanted, literals, (*params,), (*params.values(),), rest, results,
        call.room, single, call.noted, alive,
    )  # fmt: skip


def wanted_of(
    operands: Sequence[Any], slots: dict[int, int], place: Callable[[Any], tuple[int, bool]]
) -> Any:
    """What a program wants of operands; `place` tells an array's device, and if it lies astray."""
    words = [len(operands), len(slots)]
    seen: dict[int, int] = {}
    for k, x in enumerate(operands):
        if k not in slots:
            words += [0] * WANTED
        elif not is_tensor(x):
            rank = REAL if type(x) is float else NUMBER
            words += [slots[k], -1, 0, rank, *[0] * (WANTED - 4)]
        else:
            array = x._array
            pad = [0] * (DIMENSIONS - array.ndim)
            first = seen.setdefault(id(x), k)
            words += [slots[k], first if first != k else -1, id(array.dtype), array.ndim]
            words += [*array.shape, *pad, *array.strides, *pad, *map(int, place(array))]
    return np.array(words, np.int64)
