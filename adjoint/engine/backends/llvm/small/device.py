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

    Results are put on the tape where a record is given whose plans say how (Note [noting]); what
    native code does not put there `attach` does.

    A program's results may be put into arrays that are there already (`x.add_(y)`, a draw into a
    tensor), if those lie as the results would and begin at multiples of 64 bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.engine.backends.llvm.runtime import fastcall, library
from adjoint.engine.backends.llvm.runtime.objects import object_new, objects
from adjoint.engine.backends.llvm.runtime.peeking import COUNTED, slow_address
from adjoint.engine.backends.llvm.small import comparing, meeting, noting, searching
from adjoint.engine.backends.llvm.small.comparing import (
    DEVICE_ARRAY,
    DIMENSIONS,
    NONE,
    TUPLE,
    WANTED,
    ArrayText,
)
from adjoint.engine.backends.llvm.small.noted_tensors import NotedArrays, listed
from adjoint.engine.backends.llvm.small.searching import (
    OPERANDS,
    PARAMETERS,
    REST,
    SLOTS,
    search,
)
from adjoint.engine.backends.llvm.small.viewing import RAISED, UNKNOWN
from adjoint.engine.core.dtype import FLOAT
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.tensor.tensor import DTYPE_OF

# How arrays are looked at: after their layout, the device and whether the address of elements is no
# multiple of 64 are wanted.
ARRAYS = ArrayText(
    DEVICE_ARRAY,
    WANTED + 2,
    rank="""
  %rank = call i64 @rank_of(ptr %array)""",
    kind=f"""
  %dtype = call i64 @dtype_of(ptr %array)
  %device = call i64 @device_of(ptr %array)
  %deviceWantedAt = getelementptr i64, ptr %wanted, i64 {WANTED}
  %deviceWanted = load i64, ptr %deviceWantedAt
  %c = icmp eq i64 %device, %deviceWanted
  %place = call i64 @place_of(ptr %array)
  %low = and i64 %place, 63
  %is.astray = icmp ne i64 %low, 0
  %astray = zext i1 %is.astray to i64
  %astrayWantedAt = getelementptr i64, ptr %wanted, i64 {WANTED + 1}
  %astrayWanted = load i64, ptr %astrayWantedAt
  %d = icmp eq i64 %astray, %astrayWanted
  %cd = and i1 %c, %d""",
    sizes_and_strides="""
  %sizes = call ptr @sizes_of(ptr %array)
  %strides = call ptr @steps_of(ptr %array)""",
    address="""
  %data = call i64 @place_of(ptr %held)""",
    also="%cd",
)
UNUSED = SLOTS - 1  # a slot that no launch reads
# What a program is launched by, and the slots of what is made for it.
DEVICE, FUNCTION, RECORD, ROOM, WORKSPACE, CALL, RESULTS = range(7)
MADE = {"room": ROOM, "workspace": WORKSPACE, "slot": CALL}
RECORD_SLOT, STREAM_SLOT, GIVEN_SLOT = range(3)
PAGE = 256  # bytes that memory between kernels begins at a multiple of
TARGETS = 11  # where an entry has the layouts of its results
TAPE = sys.intern("tape")  # where a record has its plans

# What is given besides; programs of the current device; what is done with the one that fits.
GIVEN = """
  %recordAt = getelementptr ptr, ptr %args, i64 7
  %record = load ptr, ptr %recordAt
  %device = call i64 @number_at(ptr %args, i64 4)
  %stream = call i64 @number_at(ptr %args, i64 5)
  %workspace = call i64 @number_at(ptr %args, i64 6)"""
HERE = (
    f"""
  %about = call ptr @words_of(ptr %program, i64 0)
  %home = call i64 @at(ptr %about, i64 {DEVICE})""",
    "icmp eq i64 %home, %device",
)
LAUNCH = f"""
  call void @set(ptr %slots, i64 {STREAM_SLOT}, i64 %stream)
  %workspaceSlot = call i64 @at(ptr %about, i64 {WORKSPACE})
  %works = icmp ne i64 %workspaceSlot, 0
  br i1 %works, label %work, label %aim
work:
  call void @set(ptr %slots, i64 %workspaceSlot, i64 %workspace)
  %lacking = icmp eq i64 %workspace, 0
  br i1 %lacking, label %none, label %aim
aim:
  %has.target = icmp sgt i64 %given, 8
  br i1 %has.target, label %targeted, label %launch
targeted:
  %targetAt = getelementptr ptr, ptr %args, i64 8
  %into = load ptr, ptr %targetAt
  br label %launch
launch:
  %target = phi ptr [null, %aim], [%into, %targeted]
  %streamAt = getelementptr ptr, ptr %args, i64 5
  %streamObject = load ptr, ptr %streamAt
  %out = call ptr @launched(
    ptr %program, ptr %operands, ptr %slots, ptr %streamObject, ptr %target
  )
  %followed = call ptr @followed(ptr %record, ptr %operands, ptr %params, ptr %out)
  ret ptr %followed"""
CALL_STRAIGHT = """
  %function = call ptr @PyTuple_GetItem(ptr %program, i64 6)
  %out = call ptr @PyObject_Call(ptr %function, ptr %operands, ptr null)
  ret ptr %out"""


def text() -> str:
    """The functions, after those that compare and those of a layout."""
    return f"""
declare ptr @tensor_of(ptr)
declare ptr @PyObject_CallObject(ptr, ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
@tape = external global i8
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
define i1 @placed(ptr %program, ptr %targets, ptr %slots) {{
entry:
  %about = call ptr @words_of(ptr %program, i64 0)
  %wantedObject = call ptr @PyTuple_GetItem(ptr %program, i64 {TARGETS})
  %noneAt = getelementptr ptr, ptr @world, i64 {NONE}
  %none = load ptr, ptr %noneAt
  %has.none = icmp eq ptr %wantedObject, %none
  br i1 %has.none, label %no, label %count
count:
  %many = call i64 @PyTuple_Size(ptr %wantedObject)
  %given = call i64 @PyTuple_Size(ptr %targets)
  %as.many = icmp eq i64 %many, %given
  br i1 %as.many, label %next, label %no
next:
  %k = phi i64 [0, %count], [%kNext, %put]
  %more = icmp slt i64 %k, %many
  br i1 %more, label %look, label %yes
look:
  %target = call ptr @PyTuple_GetItem(ptr %targets, i64 %k)
  %class = call ptr @class_of(ptr %target)
  %is.array = call i1 @is_a(ptr %class, i64 {DEVICE_ARRAY})
  br i1 %is.array, label %compare, label %no
compare:
  %wanted = call ptr @words_of(ptr %wantedObject, i64 %k)
  %lies = call i1 @lies_so(ptr %target, ptr %wanted)
  br i1 %lies, label %put, label %no
put:
  %n = add i64 %k, {RESULTS}
  %slot = call i64 @at(ptr %about, i64 %n)
  %place = call i64 @place_of(ptr %target)
  call void @set(ptr %slots, i64 %slot, i64 %place)
  %kNext = add i64 %k, 1
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}}
define ptr @launched(
  ptr %program, ptr %operands, ptr %slots, ptr %stream, ptr %target
) {{
entry:
  %about = call ptr @words_of(ptr %program, i64 0)
  %is.given = icmp ne ptr %target, null
  %makers = call ptr @PyTuple_GetItem(ptr %program, i64 6)
  %roomMaker = call ptr @PyTuple_GetItem(ptr %program, i64 7)
  %single = call ptr @PyTuple_GetItem(ptr %program, i64 8)
  %noneAt = getelementptr ptr, ptr @world, i64 {NONE}
  %none = load ptr, ptr %noneAt
  %many = call i64 @PyTuple_Size(ptr %makers)
  %count = select i1 %is.given, i64 0, i64 %many
  %results = call ptr @PyTuple_New(i64 %count)
  %failed = icmp eq ptr %results, null
  br i1 %failed, label %error, label %begin
begin:
  br i1 %is.given, label %put, label %next
put:
  %placed = call i1 @placed(ptr %program, ptr %target, ptr %slots)
  br i1 %placed, label %between, label %unknown
next:
  %k = phi i64 [0, %begin], [%kNext, %gap], [%kNext, %keep]
  %n = phi i64 [{RESULTS}, %begin], [%n, %gap], [%nNext, %keep]
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
  %made = call ptr @PyObject_CallOneArg(ptr %maker, ptr %stream)
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
  %room = call ptr @PyObject_CallOneArg(ptr %roomMaker, ptr %stream)
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
  br i1 %is.given, label %yes, label %made.hand
yes:
  call void @Py_DecRef(ptr %results)
  call void @Py_IncRef(ptr @true)
  ret ptr @true
made.hand:
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
define ptr @followed(ptr %record, ptr %operands, ptr %params, ptr %out) {{
entry:
  %failed = icmp eq ptr %out, null
  %unfit = icmp eq ptr %out, @nothing
  %untaped = icmp eq ptr %record, @nothing
  %none = or i1 %failed, %unfit
  %as.is = or i1 %none, %untaped
  br i1 %as.is, label %hand, label %look
hand:
  ret ptr %out
look:
  %plans = call ptr @PyObject_GetAttr(ptr %record, ptr @tape)
  %no.plans = icmp eq ptr %plans, null
  br i1 %no.plans, label %drop, label %kind
kind:
  %class = call ptr @class_of(ptr %out)
  %several = call i1 @is_a(ptr %class, i64 {TUPLE})
  br i1 %several, label %all, label %one
one:
  %told.one = call i32 @noted_one(ptr %plans, ptr %operands, ptr %params, ptr %out)
  br label %told.which
all:
  %told.all = call i32 @noted_all(ptr %plans, ptr %operands, ptr %params, ptr %out)
  br label %told.which
told.which:
  %told = phi i32 [%told.one, %one], [%told.all, %all]
  call void @Py_DecRef(ptr %plans)
  switch i32 %told, label %hand [ i32 {UNKNOWN}, label %ask i32 {RAISED}, label %drop ]
ask:
  %fine = call i1 @attached(ptr %record, ptr %operands, ptr %params, ptr %out)
  br i1 %fine, label %hand, label %drop
drop:
  call void @Py_DecRef(ptr %out)
  ret ptr null
}}
define i64 @number_at(ptr %args, i64 %k) {{
  %place = getelementptr ptr, ptr %args, i64 %k
  %object = load ptr, ptr %place
  %value = call i64 @PyLong_AsLongLong(ptr %object)
  ret i64 %value
}}
{search("meet_on_device", (OPERANDS, HERE, PARAMETERS, REST), LAUNCH, begin=GIVEN)}
{search("meet_straight", (OPERANDS, PARAMETERS, REST), CALL_STRAIGHT)}"""


NAMES = ("meet_on_device", "meet_straight", "note", "show")  # the functions that Python calls
# How tensors are looked at that are put on the tape.
NOTED_LAYOUT = """
define ptr @kind_in(ptr %array) alwaysinline {
  %word = call i64 @dtype_of(ptr %array)
  %kind = inttoptr i64 %word to ptr
  ret ptr %kind
}
define i64 @rank_in(ptr %array) alwaysinline {
  %rank = call i64 @rank_of(ptr %array)
  ret i64 %rank
}
define ptr @sizes_in(ptr %array) alwaysinline {
  %sizes = call ptr @sizes_of(ptr %array)
  ret ptr %sizes
}"""


def noted_arrays() -> NotedArrays:
    """A GPU's arrays, as noting looks at them: of every dtype that there is."""
    carrying = [kind for kind, dtype in DTYPE_OF.items() if dtype.category >= FLOAT]
    silent = [kind for kind, dtype in DTYPE_OF.items() if dtype.category < FLOAT]
    return NotedArrays(DEVICE_ARRAY, NOTED_LAYOUT, listed(carrying), listed(silent))


def meeting_on(arrays: type, layout: str) -> Sequence[Callable[..., Any]] | None:
    """What finds and launches, for arrays of a class, by the text of their layout.

    The first is given programs, operands, parameters, what else there is to compare, the current
    device and stream, memory that products work in, the record whose tape is followed or None and,
    if results are to be put into them, a tuple of arrays: then it returns True where that was done.
    The second finds functions of tensors, and calls them (Note [calls heard before]). Both return
    None where no program fits, or where one could not be launched. The others put a result on the
    tape and make a view, as `noting` has them. None where objects may not be laid out as they
    expect, or threads run at once.
    """
    world, tensors, places = meeting.world(), objects(), noting.offsets()
    if not COUNTED or world is None or tensors is None or places is None:
        return None
    words = world.copy()
    words[DEVICE_ARRAY] = id(arrays)
    noted = noted_arrays()
    symbols = {
        **fastcall.interpreter(), **noting.symbols(object_new(), noted), "true": id(True),
        "world": slow_address(words), "false": id(False), "tensor_of": tensors.tensor_of,
        "tape": id(TAPE),
    }  # fmt: skip
    texts = [comparing.text(ARRAYS), searching.text(ARRAYS), layout, noting.DECLARED]
    code = library.linked(
        "met launches", "\n".join([*texts, noting.text(places, noted), text()]), symbols
    )
    keep = (code, words, tensors, arrays, noted)
    return [
        fastcall.builtin(code.address(name), name=name, flags=fastcall.METH_FASTCALL, keep=keep)
        for name in NAMES
    ]


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
    wanted = comparing.wanted_of(operands, params, slots, call.place, ARRAYS.wanted)
    literals = tuple([None if k in slots else x for k, x in enumerate(operands)])
    makers = iter(call.results)
    results = tuple([next(makers) if there else None for there in gaps])
    alive = (call, [a.dtype for a in arrays])
    return (
        np.array(about, np.int64), wanted, literals, (*params,), (*params.values(),), rest, results,
        call.room, single, call.noted, alive, targets_of(call) if all(gaps) else None,
    )  # fmt: skip


def straight_entry(function: Callable[..., Any], owned: Any) -> tuple[Any, ...] | None:
    """What native code finds a function of a call's operands by (Note [calls heard before])."""
    _, operands, params, rest = owned
    tensors = [k for k, x in enumerate(operands) if is_tensor(x)]
    arrays = [operands[k]._array for k in tensors]
    if any(a.ndim > DIMENSIONS for a in arrays):
        return None
    slots = dict.fromkeys(tensors, UNUSED)
    tell = DEVICE_LAYOUTS[arrays[0].__class__]
    wanted = comparing.wanted_of(operands, params, slots, tell, ARRAYS.wanted)
    literals = tuple([None if k in slots else x for k, x in enumerate(operands)])
    alive = [a.dtype for a in arrays]
    return None, wanted, literals, (*params,), (*params.values(),), rest, function, alive


def targets_of(call: Any) -> tuple[Any, ...] | None:
    """How arrays lie that a program's results may be put into; None where there are none."""
    if len(call.layouts) != len(call.results):
        return None
    if any(len(shape) > DIMENSIONS for shape, _, _ in call.layouts):
        return None
    pads = [[0] * (DIMENSIONS - len(shape)) for shape, _, _ in call.layouts]
    return tuple(
        [
            # As `wanted_of` says of operands: on this device, at a multiple of 64 bytes.
            np.array(
                [0, -1, id(dtype), len(shape), *shape, *pad, *strides, *pad, call.device, 0],
                np.int64,
            )
            for (shape, strides, dtype), pad in zip(call.layouts, pads, strict=True)
        ]
    )
