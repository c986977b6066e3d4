"""Views made natively, and put on the tape (Note [noting]).

What `tensor.window` and `tensor.mark_view` come to: one more link in the chain of a window, and the
root it is a view of, at the node that the root has now. Long chains, which may become shorter, and
views of what is no root, are left to Python, as is what native code does not put on the tape.

Note [views by words]
    A public function that gives views has programs of which the views are known: of each the
    operand that it shows and its links, and of each link how the array lies that shows it: rank,
    bytes from where the array before begins, sizes, strides. All that differs between calls is
    where the operand begins. So the array is made by NumPy's own function for that, which is told
    all of it, and the tensor as above. What a kernel gives was looked at once, of an operand that
    lies as all others do that the program fits. Where it gave no view of memory that may be
    written, the program is a function of Python's.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from numpy import ndarray

from adjoint.engine.backends.array.executor import find_kernel
from adjoint.engine.backends.llvm.runtime.peeking import DTYPE, HEAD, slow_address
from adjoint.engine.backends.llvm.small.comparing import TUPLE
from adjoint.engine.core.object_layout import word_at
from adjoint.engine.core.operations.record import Record
from adjoint.engine.tensor.tensor import LONG

# What `@noted` tells: that nothing was done, that nothing is left to do, that an error is set.
UNKNOWN, DONE, RAISED = range(3)
FLAGS = DTYPE + HEAD // 2  # where arrays keep what may be done with them
WRITEABLE = 0x400  # of which this says that elements may be written
# The numbers of two functions in NumPy's C interface, since 1.7.
NEW_FROM_DTYPE, SET_BASE = 94, 282
ONE_OF_A_KIND = (1, 2)  # dtypes that are one object each: NumPy's own, and those it was told of
Links = Sequence[tuple[Record, dict[str, Any]]]
Shown = tuple[int, Links]  # which operand a view is of, and its links


def text(at: dict[str, int], arrays: int) -> str:
    """The functions, after those that look into objects and the one that makes nodes.

    Views are arrays of the class at this place among the words of the world.
    """
    return f"""
define ptr @chained(ptr %chain, ptr %record, ptr %params) {{
entry:
  %count = call i64 @PyTuple_Size(ptr %chain)
  %more.links = add i64 %count, 1
  %long = icmp sge i64 %more.links, {LONG}
  br i1 %long, label %refuse, label %begin
refuse:
  ret ptr null
begin:
  call void @Py_IncRef(ptr %chain)
  %link = call ptr @PyTuple_New(i64 2)
  %links = call ptr @PyTuple_New(i64 %more.links)
  %no.link = icmp eq ptr %link, null
  %no.links = icmp eq ptr %links, null
  %failed = or i1 %no.link, %no.links
  br i1 %failed, label %drop, label %fill
drop:
  call void @Py_DecRef(ptr %chain)
  call void @Py_DecRef(ptr %link)
  call void @Py_DecRef(ptr %links)
  br label %refuse
fill:
  call void @Py_IncRef(ptr %record)
  call void @Py_IncRef(ptr %params)
  %a = call i32 @PyTuple_SetItem(ptr %link, i64 0, ptr %record)
  %b = call i32 @PyTuple_SetItem(ptr %link, i64 1, ptr %params)
  br label %next
next:
  %k = phi i64 [0, %fill], [%kNext, %each]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %last
each:
  %item = call ptr @PyTuple_GetItem(ptr %chain, i64 %k)
  call void @Py_IncRef(ptr %item)
  %c = call i32 @PyTuple_SetItem(ptr %links, i64 %k, ptr %item)
  %kNext = add i64 %k, 1
  br label %next
last:
  %d = call i32 @PyTuple_SetItem(ptr %links, i64 %count, ptr %link)
  call void @Py_DecRef(ptr %chain)
  ret ptr %links
}}
define ptr @show(ptr %self, ptr %args, i64 %given) {{
entry:
  %source = load ptr, ptr %args
  %arrayAt = getelementptr ptr, ptr %args, i64 1
  %array = load ptr, ptr %arrayAt
  %recordAt = getelementptr ptr, ptr %args, i64 2
  %record = load ptr, ptr %recordAt
  %paramsAt = getelementptr ptr, ptr %args, i64 3
  %params = load ptr, ptr %paramsAt
  %plansAt = getelementptr ptr, ptr %args, i64 4
  %plans = load ptr, ptr %plansAt
  %is.tensor = call i1 @is_tensor(ptr %source)
  %arrayClass = call ptr @class_of(ptr %array)
  %is.array = call i1 @is_a(ptr %arrayClass, i64 {arrays})
  %known = and i1 %is.tensor, %is.array
  br i1 %known, label %begin, label %unlike
unlike:
  call void @PyErr_Clear()
  call void @Py_IncRef(ptr @nothing)
  ret ptr @nothing
begin:
  %followed = icmp ne ptr %plans, @nothing
  %base = call ptr @held(ptr %source, i64 {at["tensor._base"]})
  %own = icmp eq ptr %base, @nothing
  br i1 %own, label %rooted, label %view
view:
  %first = call ptr @PyTuple_GetItem(ptr %base, i64 0)
  %then = call ptr @PyTuple_GetItem(ptr %base, i64 1)
  %above = call ptr @held(ptr %first, i64 {at["tensor._base"]})
  %is.root = icmp eq ptr %above, @nothing
  br i1 %is.root, label %rooted, label %unlike
rooted:
  %root = phi ptr [%source, %begin], [%first, %view]
  %marked = phi ptr [@nothing, %begin], [%then, %view]
  %node.now = call ptr @held(ptr %root, i64 {at["tensor._node"]})
  %unmarked = icmp ne ptr %marked, @no_grad
  %on = and i1 %followed, %unmarked
  %mark = select i1 %on, ptr %node.now, ptr @no_grad
  call void @Py_IncRef(ptr %root)
  call void @Py_IncRef(ptr %mark)
  %of = call ptr @PyTuple_New(i64 2)
  %no.of = icmp eq ptr %of, null
  br i1 %no.of, label %unheld, label %based
unheld:
  call void @Py_DecRef(ptr %root)
  call void @Py_DecRef(ptr %mark)
  br label %unlike
based:
  %a = call i32 @PyTuple_SetItem(ptr %of, i64 0, ptr %root)
  %b = call i32 @PyTuple_SetItem(ptr %of, i64 1, ptr %mark)
  %chain = call ptr @held(ptr %source, i64 {at["tensor._chain"]})
  %links = call ptr @chained(ptr %chain, ptr %record, ptr %params)
  %no.links = icmp eq ptr %links, null
  br i1 %no.links, label %unbased, label %linked
unbased:
  call void @Py_DecRef(ptr %of)
  br label %unlike
linked:
  %storage = call ptr @held(ptr %source, i64 {at["tensor._storage"]})
  %t = call ptr @window_on(ptr %array, ptr %storage, ptr %links, ptr %of)
  call void @Py_DecRef(ptr %links)
  call void @Py_DecRef(ptr %of)
  %no.t = icmp eq ptr %t, null
  br i1 %no.t, label %unlike, label %made
made:
  br i1 %followed, label %follow, label %done
done:
  ret ptr %t
follow:
  %operands = call ptr @PyTuple_New(i64 1)
  %no.operands = icmp eq ptr %operands, null
  br i1 %no.operands, label %drop, label %put
put:
  call void @Py_IncRef(ptr %source)
  %c = call i32 @PyTuple_SetItem(ptr %operands, i64 0, ptr %source)
  %told = call i32 @noted_one(ptr %plans, ptr %operands, ptr %params, ptr %t)
  call void @Py_DecRef(ptr %operands)
  switch i32 %told, label %done [ i32 {UNKNOWN}, label %drop i32 {RAISED}, label %raise ]
raise:
  call void @Py_DecRef(ptr %t)
  ret ptr null
drop:
  call void @Py_DecRef(ptr %t)
  br label %unlike
}}"""


@cache
def array_makers() -> dict[str, int] | None:
    """NumPy's functions that make an array of memory and have it keep another; None: not found.

    >>> sorted(array_makers())
    ['new_array', 'set_base']
    """
    try:
        interface = sys.modules["numpy._core._multiarray_umath"]._ARRAY_API
    except (KeyError, AttributeError):
        return None
    samples = np.zeros(3), np.zeros((2, 3)).T
    samples[1].flags.writeable = False
    for array in samples:
        flags = ctypes.c_int.from_address(id(array) + FLAGS).value
        if bool(flags & WRITEABLE) != array.flags.writeable:
            return None
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = get(interface, None)
    word = ctypes.sizeof(ctypes.c_void_p)
    return {
        "new_array": word_at(table + NEW_FROM_DTYPE * word),
        "set_base": word_at(table + SET_BASE * word),
    }


def shower(
    views: Sequence[Shown], arrays: dict[int, Any], follow: Callable[..., Any]
) -> tuple[Any, ...] | Callable[..., Any]:
    """What native code makes views by (Note [views by words]), the arrays by operands; `follow`,
    which shows the tensors among the operands so, where it cannot."""
    chains = []
    for place, links in views:
        array, steps = arrays[place], []
        if array.__class__ is not ndarray or not array.flags.writeable:
            return follow
        for record, params in links:
            seen = partial(find_kernel(record), **params)(array)
            if seen.__class__ is not ndarray or not seen.flags.writeable or not seen.size:
                return follow
            if not np.may_share_memory(seen, array) or seen.dtype.isbuiltin not in ONE_OF_A_KIND:
                return follow
            ahead = slow_address(seen) - slow_address(array)
            words = np.array([seen.ndim, ahead, *seen.shape, *seen.strides], np.int64)
            steps.append((words, seen.dtype, record, params, record.tape))
            array = seen
        chains.append((place, tuple(steps)))
    return (tuple(chains), follow)


def followed_text() -> str:
    """The functions that show operands by words, after the others here and those of `calling`."""
    return f"""
@ndarray = external global i8
declare ptr @new_array(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare i32 @set_base(ptr, ptr)
define ptr @seen(ptr %array, ptr %link) {{
entry:
  %told = call ptr @PyTuple_GetItem(ptr %link, i64 0)
  %dtype = call ptr @PyTuple_GetItem(ptr %link, i64 1)
  %words = call ptr @held(ptr %told, i64 {HEAD})
  %rank = load i64, ptr %words
  %aheadAt = getelementptr i64, ptr %words, i64 1
  %ahead = load i64, ptr %aheadAt
  %sizes = getelementptr i64, ptr %words, i64 2
  %strides = getelementptr i64, ptr %sizes, i64 %rank
  %begin = call ptr @held(ptr %array, i64 {HEAD})
  %data = getelementptr i8, ptr %begin, i64 %ahead
  %flagsAt = getelementptr i8, ptr %array, i64 {FLAGS}
  %flags = load i32, ptr %flagsAt
  %writeable = and i32 %flags, {WRITEABLE}
  %short = trunc i64 %rank to i32
  call void @Py_IncRef(ptr %dtype)
  %made = call ptr @new_array(ptr @ndarray, ptr %dtype, i32 %short, ptr %sizes, ptr %strides,
                              ptr %data, i32 %writeable, ptr null)
  %unmade = icmp eq ptr %made, null
  br i1 %unmade, label %refuse, label %base
refuse:
  ret ptr null
base:
  call void @Py_IncRef(ptr %array)
  %set = call i32 @set_base(ptr %made, ptr %array)
  %unset = icmp slt i32 %set, 0
  br i1 %unset, label %drop, label %done
drop:
  call void @Py_DecRef(ptr %made)
  br label %refuse
done:
  ret ptr %made
}}
define ptr @follow(ptr %source, ptr %first, ptr %links, ptr %taped) {{
entry:
  %given = alloca [5 x ptr]
  %arrayAt = getelementptr ptr, ptr %given, i64 1
  %recordAt = getelementptr ptr, ptr %given, i64 2
  %paramsAt = getelementptr ptr, ptr %given, i64 3
  %plansAt = getelementptr ptr, ptr %given, i64 4
  %untaped = icmp eq ptr %taped, @false
  %count = call i64 @PyTuple_Size(ptr %links)
  call void @Py_IncRef(ptr %source)
  br label %next
next:
  %k = phi i64 [0, %entry], [%kNext, %shown]
  %x = phi ptr [%source, %entry], [%view, %shown]
  %array = phi ptr [%first, %entry], [%shows, %shown]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %done
done:
  ret ptr %x
each:
  %link = call ptr @PyTuple_GetItem(ptr %links, i64 %k)
  %shows = call ptr @seen(ptr %array, ptr %link)
  %unseen = icmp eq ptr %shows, null
  br i1 %unseen, label %fail, label %show
fail:
  call void @Py_DecRef(ptr %x)
  ret ptr null
show:
  %record = call ptr @PyTuple_GetItem(ptr %link, i64 2)
  %params = call ptr @PyTuple_GetItem(ptr %link, i64 3)
  %tape = call ptr @PyTuple_GetItem(ptr %link, i64 4)
  %plans = select i1 %untaped, ptr @nothing, ptr %tape
  store ptr %x, ptr %given
  store ptr %shows, ptr %arrayAt
  store ptr %record, ptr %recordAt
  store ptr %params, ptr %paramsAt
  store ptr %plans, ptr %plansAt
  %view = call ptr @show(ptr null, ptr %given, i64 5)
  call void @Py_DecRef(ptr %shows)
  %wrong = icmp eq ptr %view, null
  %unknown = icmp eq ptr %view, @nothing
  %neither = or i1 %wrong, %unknown
  br i1 %neither, label %leave, label %shown
leave:
  call void @Py_DecRef(ptr %x)
  ret ptr %view
shown:
  call void @Py_DecRef(ptr %x)
  %kNext = add i64 %k, 1
  br label %next
}}
define ptr @follow_of(ptr %chain, ptr %operands, ptr %taped) {{
  %number = call ptr @PyTuple_GetItem(ptr %chain, i64 0)
  %links = call ptr @PyTuple_GetItem(ptr %chain, i64 1)
  %place = call i64 @PyLong_AsLongLong(ptr %number)
  %source = call ptr @PyTuple_GetItem(ptr %operands, i64 %place)
  %array = call ptr @array_in(ptr %source)
  call void @Py_IncRef(ptr %array)
  %view = call ptr @follow(ptr %source, ptr %array, ptr %links, ptr %taped)
  call void @Py_DecRef(ptr %array)
  ret ptr %view
}}
define ptr @show_views(ptr %program, ptr %operands, ptr %taped) {{
entry:
  %shower = call ptr @PyTuple_GetItem(ptr %program, i64 6)
  %class = call ptr @class_of(ptr %shower)
  %by.words = call i1 @is_a(ptr %class, i64 {TUPLE})
  br i1 %by.words, label %native, label %function
function:
  %called = call ptr @called(ptr %program, ptr %shower, ptr %operands, i1 true)
  ret ptr %called
native:
  %chains = call ptr @PyTuple_GetItem(ptr %shower, i64 0)
  %single = call ptr @PyTuple_GetItem(ptr %program, i64 5)
  %is.several = icmp eq ptr %single, @false
  br i1 %is.several, label %several, label %one
one:
  %chain = call ptr @PyTuple_GetItem(ptr %chains, i64 0)
  %view = call ptr @follow_of(ptr %chain, ptr %operands, ptr %taped)
  %unknown = icmp eq ptr %view, @nothing
  br i1 %unknown, label %left, label %hand
hand:
  ret ptr %view
several:
  %count = call i64 @PyTuple_Size(ptr %chains)
  %views = call ptr @PyTuple_New(i64 %count)
  %unmade = icmp eq ptr %views, null
  br i1 %unmade, label %refuse, label %fits
refuse:
  ret ptr null
fits:
  %slots = alloca [64 x i64]
  %still = call i1 @operands_fit(ptr %program, ptr %operands, ptr %slots)
  br i1 %still, label %next, label %changed
changed:
  call void @Py_DecRef(ptr %views)
  call void @Py_IncRef(ptr @nothing)
  ret ptr @nothing
next:
  %k = phi i64 [0, %fits], [%kNext, %put]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %all
all:
  ret ptr %views
each:
  %own = call ptr @PyTuple_GetItem(ptr %chains, i64 %k)
  %part = call ptr @follow_of(ptr %own, ptr %operands, ptr %taped)
  %failed = icmp eq ptr %part, null
  br i1 %failed, label %drop, label %known
known:
  %is.unknown = icmp eq ptr %part, @nothing
  br i1 %is.unknown, label %forget, label %put
put:
  %set = call i32 @PyTuple_SetItem(ptr %views, i64 %k, ptr %part)
  %kNext = add i64 %k, 1
  br label %next
drop:
  call void @Py_DecRef(ptr %views)
  br label %refuse
forget:
  call void @Py_DecRef(ptr %views)
  br label %left
left:
  call void @Py_DecRef(ptr @nothing)
  %follow = call ptr @PyTuple_GetItem(ptr %shower, i64 1)
  %followed = call ptr @called(ptr %program, ptr %follow, ptr %operands, i1 true)
  ret ptr %followed
}}"""
