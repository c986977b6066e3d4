"""The native code that finds and runs a small call (Note [small calls]).

It compares as `meeting` does. Besides, no operand may be on the tape where that is on; results are
tensors; and a program that has no rows is a function of arrays or of tensors, which is called; a
generator among the operands is given to it as it is. `meet_into` has rows write their result to the
first operand (Note [small writes]): it gives True where they did, and what is to be written where a
function was called.

Note [asked first]
    Whether a public function's call may be met at all takes Python longer to ask than native code
    takes to meet it. So `meet_public` asks: that nobody overrides or listens, that the context is
    plain, that new tensors are the CPU's, that the tape follows no first operand of a function that
    has no programs on it. Then it does as `meet_call`; where the tape follows an operand, as
    `meet_taped` (Note [one operation]). What it does not know (inference mode, an
    argument by name that is a tensor, a device that is told) it leaves to `call_small`, which
    asks all of it again.
"""

from __future__ import annotations

from adjoint.engine.backends.llvm.runtime.peeking import HEAD
from adjoint.engine.backends.llvm.small.comparing import LIST, NONE, OBJECT, TENSOR, TUPLE
from adjoint.engine.backends.llvm.small.searching import OPERANDS, PARAMETERS, search
from adjoint.engine.core.device import CPU
from adjoint.engine.core.object_layout import slot_offset
from adjoint.engine.core.operations.met_calls import MOST_OPERANDS
from adjoint.engine.core.operations.overrides import OVERRIDES
from adjoint.engine.core.operations.small_calls import SmallCalls
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.tensor.tensor import Tensor


def computed(of_tensors: str) -> str:
    """Text that has %arrays by a program's rows, or where it %is.called by its function.

    An error, and None, are handed on; a label %hand is there for more of it.
    """
    return f"""
  br i1 %is.called, label %call, label %walk
call:
  %function = call ptr @PyTuple_GetItem(ptr %program, i64 6)
  %computed = call ptr @called(ptr %program, ptr %function, ptr %operands, i1 {of_tensors})
  br label %results.all
walk:
  %walked = call ptr @results_of(ptr %program, ptr %operands, ptr %slots)
  br label %results.all
results.all:
  %arrays = phi ptr [%computed, %call], [%walked, %walk]
  %error = icmp eq ptr %arrays, null
  %nothing.there = icmp eq ptr %arrays, %absent
  %as.is = or i1 %error, %nothing.there
  br i1 %as.is, label %hand, label %wrap
hand:
  ret ptr %arrays
wrap:"""


# What has no words is a function, of tensors or of arrays; what is on the tape is none's.
RUN = (
    """
  %words = call ptr @PyTuple_GetItem(ptr %program, i64 0)
  %is.viewed = icmp eq ptr %words, @false
  br i1 %is.viewed, label %view, label %taping
view:
  %views = call ptr @show_views(ptr %program, ptr %operands, ptr %taped)
  ret ptr %views
taping:
  %untaped = icmp eq ptr %taped, @false
  br i1 %untaped, label %compute, label %look
look:
  %free = call i1 @all_free(ptr %program, ptr %operands)
  br i1 %free, label %compute, label %none
compute:
  %of.arrays = icmp eq ptr %words, %absent
  %of.tensors = icmp eq ptr %words, @true
  %is.called = or i1 %of.arrays, %of.tensors"""
    + computed("%of.tensors")
    + """
  %tensors = call ptr @as_tensors(ptr %program, ptr %arrays)
  ret ptr %tensors"""
)

# The same of what is written to the first operand, the result's slot is then its.
WRITE = f"""
  %wordsObject = call ptr @PyTuple_GetItem(ptr %program, i64 0)
  %untaped = icmp eq ptr %taped, @false
  br i1 %untaped, label %compute, label %look
look:
  %free = call i1 @all_free(ptr %program, ptr %operands)
  br i1 %free, label %compute, label %none
compute:
  %is.called = icmp eq ptr %wordsObject, %absent
  br i1 %is.called, label %call, label %walk
call:
  %function = call ptr @PyTuple_GetItem(ptr %program, i64 6)
  %computed = call ptr @called(ptr %program, ptr %function, ptr %operands, i1 false)
  %error = icmp eq ptr %computed, null
  br i1 %error, label %failed, label %wrap
failed:
  ret ptr null
wrap:
  %tensor = call ptr @as_tensors(ptr %program, ptr %computed)
  ret ptr %tensor
walk:
  %wordsAt = getelementptr i8, ptr %wordsObject, i64 {HEAD}
  %words = load ptr, ptr %wordsAt
  %wanted = call ptr @words_of(ptr %program, i64 1)
  %tensorsAt = getelementptr i64, ptr %wanted, i64 1
  %tensors = load i64, ptr %tensorsAt
  %resultSlot = add i64 %tensors, 1
  %targetAt = getelementptr i64, ptr %slots, i64 1
  %target = load i64, ptr %targetAt
  %resultAt = getelementptr i64, ptr %slots, i64 %resultSlot
  store i64 %target, ptr %resultAt
  %filled = add i64 %tensors, 2
  %wrong = call i64 @carry_out(ptr %words, ptr %slots, i64 %filled)
  %fine = icmp eq i64 %wrong, 0
  br i1 %fine, label %done, label %none
done:
  call void @Py_IncRef(ptr @true)
  ret ptr @true"""


def offsets() -> tuple[int, int] | None:
    """Where tensors keep whether they need a gradient, and what they are views of."""
    requires_grad, base = (
        slot_offset(Tensor.__dict__[name]) for name in ("_requires_grad", "_base")
    )
    return None if requires_grad is None or base is None else (requires_grad, base)


# What `meet_public` reads of a function's programs, and of those who take functions over.
ASKED = ("small", "taped", "joins", "off_tape", "unfollowed")
# Of the context, by name: what it is where a thread has set nothing is in `Context`.
FIELDS = ("plain", "grad_enabled", "device")


def places_asked() -> dict[str, int] | None:
    """Where those are, and whether anybody overrides."""
    places = {name: slot_offset(SmallCalls.__dict__[name]) for name in ASKED}
    places["active"] = slot_offset(type(OVERRIDES).__dict__["active"])
    known = {name: at for name, at in places.items() if at is not None}
    return known if len(known) == len(places) else None


def asked_symbols() -> dict[str, int]:
    """What its text names. All of it lives as long as Python does."""
    names = {f"{name}_name": id(name) for name in FIELDS}
    return {
        **names, "fields_name": id(FIELDS_NAME), "context": id(CONTEXT), "cpu": id(CPU),
        "overrides": id(OVERRIDES), "listeners": id(LISTENERS),
    }  # fmt: skip


FIELDS_NAME = "__dict__"


def asked_text(at: dict[str, int]) -> str:
    """The function that asks before it meets (Note [asked first]), after those of `noting`."""
    return f"""
@context = external global i8
@overrides = external global i8
@listeners = external global i8
@cpu = external global i8
@fields_name = external global i8
@plain_name = external global i8
@grad_enabled_name = external global i8
@device_name = external global i8
declare ptr @PyObject_GetAttr(ptr, ptr)

define i1 @is_field(ptr %fields, ptr %name, ptr %wanted, ptr %otherwise) {{
entry:
  %value = call ptr @PyDict_GetItemWithError(ptr %fields, ptr %name)
  %unset = icmp eq ptr %value, null
  %first = icmp eq ptr %value, %wanted
  %second = icmp eq ptr %value, %otherwise
  %either = or i1 %first, %second
  %known = or i1 %unset, %either
  ret i1 %known
}}
define ptr @spread(ptr %operands, i64 %count) {{
entry:
  %none.there = icmp eq i64 %count, 0
  br i1 %none.there, label %same, label %look
same:
  call void @Py_IncRef(ptr %operands)
  ret ptr %operands
look:
  %list = call ptr @PyTuple_GetItem(ptr %operands, i64 0)
  %class = call ptr @class_of(ptr %list)
  %is.list = call i1 @is_a(ptr %class, i64 {LIST})
  %is.tuple = call i1 @is_a(ptr %class, i64 {TUPLE})
  %is.group = or i1 %is.list, %is.tuple
  br i1 %is.group, label %group, label %same
group:
  %many = call i64 @size_of(ptr %list, i1 %is.list)
  %all = add i64 %many, %count
  %few = icmp sle i64 %all, {MOST_OPERANDS}
  br i1 %few, label %make, label %refuse
make:
  %length = call ptr @PyLong_FromLongLong(i64 %many)
  %joined = call ptr @PyTuple_New(i64 %all)
  %no.length = icmp eq ptr %length, null
  %no.joined = icmp eq ptr %joined, null
  %unmade = or i1 %no.length, %no.joined
  br i1 %unmade, label %drop, label %put
drop:
  call void @Py_DecRef(ptr %length)
  call void @Py_DecRef(ptr %joined)
  br label %refuse
refuse:
  call void @PyErr_Clear()
  ret ptr null
put:
  %put.length = call i32 @PyTuple_SetItem(ptr %joined, i64 0, ptr %length)
  br label %next
next:
  %k = phi i64 [0, %put], [%kNext, %each]
  %more = icmp slt i64 %k, %many
  br i1 %more, label %each, label %rest
each:
  %item = call ptr @item_of(ptr %list, i64 %k, i1 %is.list)
  call void @Py_IncRef(ptr %item)
  %kNext = add i64 %k, 1
  %a = call i32 @PyTuple_SetItem(ptr %joined, i64 %kNext, ptr %item)
  br label %next
rest:
  %j = phi i64 [1, %next], [%jNext, %eachRest]
  %moreRest = icmp slt i64 %j, %count
  br i1 %moreRest, label %eachRest, label %done
eachRest:
  %x = call ptr @PyTuple_GetItem(ptr %operands, i64 %j)
  call void @Py_IncRef(ptr %x)
  %to = add i64 %j, %many
  %b = call i32 @PyTuple_SetItem(ptr %joined, i64 %to, ptr %x)
  %jNext = add i64 %j, 1
  br label %rest
done:
  ret ptr %joined
}}
define ptr @meet_public(ptr %self, ptr %args, i64 %given) {{
entry:
  %asked = alloca [4 x ptr]
  %noneAt = getelementptr ptr, ptr @world, i64 {NONE}
  %absent = load ptr, ptr %noneAt
  %small = load ptr, ptr %args
  %givenAt = getelementptr ptr, ptr %args, i64 1
  %positional = load ptr, ptr %givenAt
  %paramsAt = getelementptr ptr, ptr %args, i64 2
  %params = load ptr, ptr %paramsAt
  %active = call ptr @held(ptr @overrides, i64 {at["active"]})
  %nobody = icmp eq ptr %active, @false
  %listening = call i64 @PyList_Size(ptr @listeners)
  %quiet = icmp eq i64 %listening, 0
  %alone = and i1 %nobody, %quiet
  br i1 %alone, label %look, label %none
look:
  %fields = call ptr @PyObject_GetAttr(ptr @context, ptr @fields_name)
  %no.fields = icmp eq ptr %fields, null
  br i1 %no.fields, label %clear, label %state
clear:
  call void @PyErr_Clear()
  br label %none
none:
  call void @Py_IncRef(ptr %absent)
  ret ptr %absent
state:
  %plain = call i1 @is_field(ptr %fields, ptr @plain_name, ptr @true, ptr @true)
  %here = call i1 @is_field(ptr %fields, ptr @device_name, ptr %absent, ptr @cpu)
  %off = call ptr @PyDict_GetItemWithError(ptr %fields, ptr @grad_enabled_name)
  call void @Py_DecRef(ptr %fields)
  %fine = and i1 %plain, %here
  br i1 %fine, label %tape, label %none
tape:
  %is.off = icmp eq ptr %off, @false
  %unfollowed = call ptr @held(ptr %small, i64 {at["unfollowed"]})
  %is.unfollowed = icmp eq ptr %unfollowed, @true
  %untaped = or i1 %is.off, %is.unfollowed
  %taped = select i1 %untaped, ptr @false, ptr @true
  %count = call i64 @PyTuple_Size(ptr %positional)
  %few = icmp sle i64 %count, {MOST_OPERANDS}
  br i1 %few, label %join, label %none
join:
  %joins = call ptr @held(ptr %small, i64 {at["joins"]})
  %is.joining = icmp eq ptr %joins, @true
  %first.of = select i1 %is.joining, i64 %count, i64 0
  %operands = call ptr @spread(ptr %positional, i64 %first.of)
  %no.operands = icmp eq ptr %operands, null
  br i1 %no.operands, label %none, label %joined
joined:
  %all = call i64 @PyTuple_Size(ptr %operands)
  %off.tape = call ptr @held(ptr %small, i64 {at["off_tape"]})
  %must.be.free = icmp eq ptr %off.tape, @true
  %where = zext i1 %is.joining to i64
  %is.first = icmp sgt i64 %all, %where
  %looks = and i1 %must.be.free, %is.first
  %asks = xor i1 %untaped, true
  %looked.at = and i1 %looks, %asks
  br i1 %looked.at, label %followed, label %meet
followed:
  %x = call ptr @PyTuple_GetItem(ptr %operands, i64 %where)
  %class = call ptr @class_of(ptr %x)
  %is.tensor = call i1 @is_a(ptr %class, i64 {TENSOR})
  br i1 %is.tensor, label %tensor, label %meet
tensor:
  %free = call i1 @is_free(ptr %x, i1 false)
  br i1 %free, label %meet, label %taken
meet:
  %listed = call ptr @held(ptr %small, i64 {at["small"]})
  call void @Py_IncRef(ptr %listed)
  %operandsAt = getelementptr ptr, ptr %asked, i64 1
  %namedAt = getelementptr ptr, ptr %asked, i64 2
  %tapedAt = getelementptr ptr, ptr %asked, i64 3
  store ptr %listed, ptr %asked
  store ptr %operands, ptr %operandsAt
  store ptr %params, ptr %namedAt
  store ptr %taped, ptr %tapedAt
  %met = call ptr @meet_call(ptr %self, ptr %asked, i64 4)
  call void @Py_DecRef(ptr %listed)
  %unmet = icmp eq ptr %met, %absent
  %again = and i1 %unmet, %looked.at
  br i1 %again, label %again.taken, label %done
again.taken:
  call void @Py_DecRef(ptr %met)
  br label %taken
taken:
  %known = call ptr @held(ptr %small, i64 {at["taped"]})
  %many = call i64 @PyTuple_Size(ptr %known)
  %unknown = icmp eq i64 %many, 0
  br i1 %unknown, label %drop, label %meet.taped
drop:
  call void @Py_DecRef(ptr %operands)
  br label %none
meet.taped:
  call void @Py_IncRef(ptr %known)
  %tapedOperandsAt = getelementptr ptr, ptr %asked, i64 1
  %tapedNamedAt = getelementptr ptr, ptr %asked, i64 2
  %tapedRestAt = getelementptr ptr, ptr %asked, i64 3
  store ptr %known, ptr %asked
  store ptr %operands, ptr %tapedOperandsAt
  store ptr %params, ptr %tapedNamedAt
  store ptr %absent, ptr %tapedRestAt
  %found = call ptr @meet_taped(ptr %self, ptr %asked, i64 4)
  call void @Py_DecRef(ptr %known)
  br label %done
done:
  %out = phi ptr [%met, %meet], [%found, %meet.taped]
  call void @Py_DecRef(ptr %operands)
  ret ptr %out
}}"""


def text(requires_grad_at: int, base_at: int) -> str:
    """The functions."""
    return f"""
@false = external global i8
@true = external global i8
declare ptr @tensor_of(ptr)

define i1 @is_free(ptr %x, i1 %is.root) {{
entry:
  %neededAt = getelementptr i8, ptr %x, i64 {requires_grad_at}
  %needed = load ptr, ptr %neededAt
  %free = icmp eq ptr %needed, @false
  br i1 %free, label %look, label %no
look:
  %noneAt = getelementptr ptr, ptr @world, i64 {NONE}
  %none = load ptr, ptr %noneAt
  %baseAt = getelementptr i8, ptr %x, i64 {base_at}
  %base = load ptr, ptr %baseAt
  %own = icmp eq ptr %base, %none
  br i1 %own, label %yes, label %view
view:
  br i1 %is.root, label %no, label %root
root:
  %of = call ptr @PyTuple_GetItem(ptr %base, i64 0)
  %is.none = icmp eq ptr %of, null
  br i1 %is.none, label %clear, label %follow
clear:
  call void @PyErr_Clear()
  ret i1 false
follow:
  %rootFree = call i1 @is_free(ptr %of, i1 true)
  ret i1 %rootFree
yes:
  ret i1 true
no:
  ret i1 false
}}
define i1 @all_free(ptr %program, ptr %operands) {{
entry:
  %wanted = call ptr @words_of(ptr %program, i64 1)
  %count = load i64, ptr %wanted
  br label %next
next:
  %k = phi i64 [0, %entry], [%kNext, %each], [%kNext, %tensor]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %yes
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
  br i1 %free, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}
define ptr @called(ptr %program, ptr %function, ptr %operands, i1 %of.tensors) {{
entry:
  %wanted = call ptr @words_of(ptr %program, i64 1)
  %count = load i64, ptr %wanted
  %tensorsAt = getelementptr i64, ptr %wanted, i64 1
  %tensors = load i64, ptr %tensorsAt
  %given = call ptr @PyTuple_New(i64 %tensors)
  %failed = icmp eq ptr %given, null
  br i1 %failed, label %error, label %next
next:
  %k = phi i64 [0, %entry], [%kNext, %each], [%kNext, %put]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %run
each:
  %kNext = add i64 %k, 1
  %own = call ptr @operand_in(ptr %wanted, i64 %k)
  %slot = load i64, ptr %own
  %is.literal = icmp eq i64 %slot, 0
  br i1 %is.literal, label %next, label %tensor
tensor:
  %x = call ptr @PyTuple_GetItem(ptr %operands, i64 %k)
  %rankAt = getelementptr i64, ptr %own, i64 3
  %rank = load i64, ptr %rankAt
  %is.object = icmp eq i64 %rank, {OBJECT}
  %as.is = or i1 %of.tensors, %is.object
  br i1 %as.is, label %put, label %shown
shown:
  %held = call ptr @array_in(ptr %x)
  br label %put
put:
  %argument = phi ptr [%x, %tensor], [%held, %shown]
  call void @Py_IncRef(ptr %argument)
  %place = sub i64 %slot, 1
  %set = call i32 @PyTuple_SetItem(ptr %given, i64 %place, ptr %argument)
  br label %next
run:
  %out = call ptr @PyObject_Call(ptr %function, ptr %given, ptr null)
  call void @Py_DecRef(ptr %given)
  ret ptr %out
error:
  ret ptr null
}}
define ptr @as_tensors(ptr %program, ptr %arrays) {{
entry:
  %single = call ptr @PyTuple_GetItem(ptr %program, i64 5)
  %several = icmp eq ptr %single, @false
  br i1 %several, label %all, label %one
one:
  %first = call ptr @PyTuple_GetItem(ptr %arrays, i64 0)
  %tensor = call ptr @tensor_of(ptr %first)
  call void @Py_DecRef(ptr %arrays)
  ret ptr %tensor
all:
  %results = call ptr @all_as_tensors(ptr %arrays)
  ret ptr %results
}}
define ptr @all_as_tensors(ptr %arrays) {{
entry:
  %noneAt = getelementptr ptr, ptr @world, i64 {NONE}
  %none = load ptr, ptr %noneAt
  %count = call i64 @PyTuple_Size(ptr %arrays)
  %results = call ptr @PyTuple_New(i64 %count)
  %failed = icmp eq ptr %results, null
  br i1 %failed, label %done, label %next
next:
  %k = phi i64 [0, %entry], [%kNext, %put]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %done
each:
  %array = call ptr @PyTuple_GetItem(ptr %arrays, i64 %k)
  %is.gap = icmp eq ptr %array, %none
  br i1 %is.gap, label %gap, label %tensor
gap:
  call void @Py_IncRef(ptr %none)
  br label %put
tensor:
  %t = call ptr @tensor_of(ptr %array)
  %t.none = icmp eq ptr %t, null
  br i1 %t.none, label %drop, label %put
put:
  %value = phi ptr [%none, %gap], [%t, %tensor]
  %set = call i32 @PyTuple_SetItem(ptr %results, i64 %k, ptr %value)
  %kNext = add i64 %k, 1
  br label %next
drop:
  call void @Py_DecRef(ptr %results)
  br label %done
done:
  %all = phi ptr [null, %entry], [%results, %next], [null, %drop]
  call void @Py_DecRef(ptr %arrays)
  ret ptr %all
}}
{search("meet_call", (OPERANDS, PARAMETERS), RUN, fourth="taped")}
{search("meet_into", (OPERANDS, PARAMETERS), WRITE, fourth="taped")}"""
