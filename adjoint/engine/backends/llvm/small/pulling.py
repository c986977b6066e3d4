"""Backward's turn of a node, natively: its rules, and cotangents sent on (Note [pulled nodes]).

Note [pulled nodes]
    Where the rules of an operation on few elements have a program, Python would look at the node to
    tell that (`RecordNode.apply`): which way it goes, whether what it saved was written to since,
    what native code is to compare. Native code does all of this: it takes what the node saved, if
    that is tensors of their saved versions and numbers, and looks for the program (`meet_rules`).
    An operation that hands its cotangent on as it is has no program, and needs none. Whatever else
    a node is, is left as it was, for `apply`, which knows everything and refuses in its own words.

    The caller sees to it that nobody looks on: no levels, captures, listeners, hooks of the node.

    Cotangents are sent on (`pass_on`) where that is a matter of putting the first one that comes to
    a node beside it, and the node in the queue. Sums, leaves and missing cotangents are Python's,
    which is given those edges, in order.
"""

from __future__ import annotations

from heapq import heappush

from adjoint.engine.autodiff.tape.node import BackwardNode
from adjoint.engine.autodiff.tape.tape import RecordNode
from adjoint.engine.backends.llvm.small.comparing import FLOAT, INT, LIST, TUPLE

NAMES = ("pull", "pass_on")  # the functions that Python calls


def symbols() -> dict[str, int]:
    """Addresses that the text names."""
    classes = {"RecordNode": id(RecordNode), "BackwardNode": id(BackwardNode)}
    return {**classes, "heappush": id(heappush)}


def text(at: dict[str, int]) -> str:
    """The functions, after those that look into objects and those that search."""
    return f"""
@RecordNode = external global i8
@BackwardNode = external global i8
@heappush = external global i8
declare i32 @PyList_Append(ptr, ptr)
define ptr @handed_on(ptr %handed, ptr %g) {{
entry:
  %count = call i64 @PyTuple_Size(ptr %handed)
  %results = call ptr @PyTuple_New(i64 %count)
  %failed = icmp eq ptr %results, null
  br i1 %failed, label %done, label %next
next:
  %k = phi i64 [0, %entry], [%kNext, %each]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %done
each:
  %there = call ptr @PyTuple_GetItem(ptr %handed, i64 %k)
  %is.there = icmp eq ptr %there, @true
  %value = select i1 %is.there, ptr %g, ptr @nothing
  call void @Py_IncRef(ptr %value)
  %set = call i32 @PyTuple_SetItem(ptr %results, i64 %k, ptr %value)
  %kNext = add i64 %k, 1
  br label %next
done:
  ret ptr %results
}}
define i1 @unwritten(ptr %x, ptr %version) {{
entry:
  %class = call ptr @class_of(ptr %x)
  %is.tensor = icmp eq ptr %class, @Tensor
  br i1 %is.tensor, label %tensor, label %number
tensor:
  %storage = call ptr @held(ptr %x, i64 {at["tensor._storage"]})
  %now = call ptr @held(ptr %storage, i64 {at["storage.version"]})
  %identical = icmp eq ptr %now, %version
  br i1 %identical, label %yes, label %compare
compare:
  %a = call i64 @PyLong_AsLongLong(ptr %now)
  %b = call i64 @PyLong_AsLongLong(ptr %version)
  %same = icmp eq i64 %a, %b
  ret i1 %same
number:
  %is.float = call i1 @is_a(ptr %class, i64 {FLOAT})
  %is.int = call i1 @is_a(ptr %class, i64 {INT})
  %is.none = icmp eq ptr %x, @nothing
  %plain = or i1 %is.float, %is.int
  %known = or i1 %plain, %is.none
  ret i1 %known
yes:
  ret i1 true
}}
define ptr @kept_and_given(ptr %saved, ptr %versions, ptr %grads) {{
entry:
  %savedClass = call ptr @class_of(ptr %saved)
  %versionsClass = call ptr @class_of(ptr %versions)
  %s.list = call i1 @is_a(ptr %savedClass, i64 {LIST})
  %v.list = call i1 @is_a(ptr %versionsClass, i64 {LIST})
  %kept = call i64 @size_of(ptr %saved, i1 %s.list)
  %numbered = call i64 @size_of(ptr %versions, i1 %v.list)
  %given = call i64 @PyList_Size(ptr %grads)
  %alike = icmp eq i64 %kept, %numbered
  br i1 %alike, label %make, label %refuse
refuse:
  ret ptr null
make:
  %count = add i64 %kept, %given
  %values = call ptr @PyTuple_New(i64 %count)
  %failed = icmp eq ptr %values, null
  br i1 %failed, label %refuse, label %next
next:
  %k = phi i64 [0, %make], [%kNext, %keep]
  %more = icmp slt i64 %k, %kept
  br i1 %more, label %each, label %nextGiven
each:
  %x = call ptr @item_of(ptr %saved, i64 %k, i1 %s.list)
  %version = call ptr @item_of(ptr %versions, i64 %k, i1 %v.list)
  %is.known = call i1 @unwritten(ptr %x, ptr %version)
  br i1 %is.known, label %keep, label %drop
keep:
  call void @Py_IncRef(ptr %x)
  %set = call i32 @PyTuple_SetItem(ptr %values, i64 %k, ptr %x)
  %kNext = add i64 %k, 1
  br label %next
nextGiven:
  %n = phi i64 [0, %next], [%nNext, %give]
  %moreGiven = icmp slt i64 %n, %given
  br i1 %moreGiven, label %eachGiven, label %done
eachGiven:
  %g = call ptr @PyList_GetItem(ptr %grads, i64 %n)
  %class = call ptr @class_of(ptr %g)
  %is.tensor = icmp eq ptr %class, @Tensor
  br i1 %is.tensor, label %give, label %drop
give:
  call void @Py_IncRef(ptr %g)
  %place = add i64 %kept, %n
  %put = call i32 @PyTuple_SetItem(ptr %values, i64 %place, ptr %g)
  %nNext = add i64 %n, 1
  br label %nextGiven
done:
  ret ptr %values
drop:
  call void @Py_DecRef(ptr %values)
  br label %refuse
}}
define ptr @pull(ptr %self, ptr %args, i64 %given) {{
entry:
  %arguments = alloca [4 x ptr]
  %node = load ptr, ptr %args
  %gradsAt = getelementptr ptr, ptr %args, i64 1
  %grads = load ptr, ptr %gradsAt
  %class = call ptr @class_of(ptr %node)
  %is.recorded = call i32 @PyType_IsSubtype(ptr %class, ptr @RecordNode)
  %other = icmp eq i32 %is.recorded, 0
  br i1 %other, label %none, label %look
none:
  call void @PyErr_Clear()
  call void @Py_IncRef(ptr @nothing)
  ret ptr @nothing
look:
  %plan = call ptr @held(ptr %node, i64 {at["node.plan"]})
  %saved = call ptr @held(ptr %node, i64 {at["node.saved"]})
  %versions = call ptr @held(ptr %node, i64 {at["node.versions"]})
  %specs = call ptr @held(ptr %node, i64 {at["node.specs"]})
  %outSpecs = call ptr @held(ptr %node, i64 {at["node.out_specs"]})
  %params = call ptr @held(ptr %node, i64 {at["node.params"]})
  %savedClass = call ptr @class_of(ptr %saved)
  %is.kept = call i1 @is_either(ptr %savedClass)
  br i1 %is.kept, label %which, label %none
which:
  %handed = call ptr @held(ptr %plan, i64 {at["plan.handed"]})
  %computes = icmp eq ptr %handed, @nothing
  br i1 %computes, label %program, label %hand
hand:
  %fits = icmp eq ptr %specs, @nothing
  br i1 %fits, label %on, label %none
on:
  %g = call ptr @PyList_GetItem(ptr %grads, i64 0)
  %handedOn = call ptr @handed_on(ptr %handed, ptr %g)
  ret ptr %handedOn
program:
  %small = call ptr @held(ptr %plan, i64 {at["plan.small"]})
  %many = call i64 @PyTuple_Size(ptr %small)
  %none.there = icmp sle i64 %many, 0
  br i1 %none.there, label %none, label %hold
hold:
  call void @Py_IncRef(ptr %small)
  call void @Py_IncRef(ptr %params)
  call void @Py_IncRef(ptr %specs)
  call void @Py_IncRef(ptr %outSpecs)
  call void @Py_IncRef(ptr %saved)
  call void @Py_IncRef(ptr %versions)
  %values = call ptr @kept_and_given(ptr %saved, ptr %versions, ptr %grads)
  call void @Py_DecRef(ptr %saved)
  call void @Py_DecRef(ptr %versions)
  %unknown = icmp eq ptr %values, null
  br i1 %unknown, label %leave, label %rest
rest:
  %others = call ptr @PyTuple_New(i64 3)
  %no.others = icmp eq ptr %others, null
  br i1 %no.others, label %unmade, label %meet
unmade:
  call void @Py_DecRef(ptr %values)
  br label %leave
leave:
  call void @Py_DecRef(ptr %small)
  call void @Py_DecRef(ptr %params)
  call void @Py_DecRef(ptr %specs)
  call void @Py_DecRef(ptr %outSpecs)
  br label %none
meet:
  call void @Py_IncRef(ptr @nothing)
  %a = call i32 @PyTuple_SetItem(ptr %others, i64 0, ptr %specs)
  %b = call i32 @PyTuple_SetItem(ptr %others, i64 1, ptr %outSpecs)
  %c = call i32 @PyTuple_SetItem(ptr %others, i64 2, ptr @nothing)
  store ptr %small, ptr %arguments
  %valuesAt = getelementptr ptr, ptr %arguments, i64 1
  store ptr %values, ptr %valuesAt
  %paramsAt = getelementptr ptr, ptr %arguments, i64 2
  store ptr %params, ptr %paramsAt
  %othersAt = getelementptr ptr, ptr %arguments, i64 3
  store ptr %others, ptr %othersAt
  %results = call ptr @meet_rules(ptr %self, ptr %arguments, i64 4)
  call void @Py_DecRef(ptr %values)
  call void @Py_DecRef(ptr %others)
  call void @Py_DecRef(ptr %params)
  call void @Py_DecRef(ptr %small)
  ret ptr %results
}}
{sending(at)}"""


def sending(at: dict[str, int]) -> str:
    """The functions that send cotangents on. What they tell: done, left to Python, an error."""
    return f"""
define i32 @sent(ptr %buffers, ptr %queue, ptr %edge, ptr %grad) {{
entry:
  %no.grad = icmp eq ptr %grad, @nothing
  br i1 %no.grad, label %leave, label %follow
leave:
  ret i32 1
follow:
  %target = call ptr @PyTuple_GetItem(ptr %edge, i64 0)
  %class = call ptr @class_of(ptr %target)
  %is.node = call i32 @PyType_IsSubtype(ptr %class, ptr @BackwardNode)
  %other = icmp eq i32 %is.node, 0
  br i1 %other, label %leave, label %look
look:
  %outputs = call ptr @held(ptr %target, i64 {at["node.outputs"]})
  %many = call i64 @PyLong_AsLongLong(ptr %outputs)
  %single = icmp eq i64 %many, 1
  br i1 %single, label %find, label %leave
find:
  %buffer = call ptr @PyDict_GetItemWithError(ptr %buffers, ptr %target)
  %is.new = icmp eq ptr %buffer, null
  br i1 %is.new, label %numbered, label %leave
numbered:
  %turn = call ptr @held(ptr %target, i64 {at["node.sequence"]})
  %turnClass = call ptr @class_of(ptr %turn)
  %is.whole = call i1 @is_a(ptr %turnClass, i64 {INT})
  br i1 %is.whole, label %make, label %leave
make:
  call void @Py_IncRef(ptr %target)
  %number = call i64 @PyLong_AsLongLong(ptr %turn)
  %negative = sub i64 0, %number
  %first = call ptr @PyLong_FromLongLong(i64 %negative)
  %item = call ptr @PyTuple_New(i64 2)
  %given = call ptr @PyTuple_New(i64 2)
  %grads = call ptr @PyList_New(i64 1)
  %a = icmp eq ptr %first, null
  %b = icmp eq ptr %item, null
  %c = icmp eq ptr %given, null
  %d = icmp eq ptr %grads, null
  %ab = or i1 %a, %b
  %cd = or i1 %c, %d
  %failed = or i1 %ab, %cd
  br i1 %failed, label %drop, label %fill
drop:
  call void @Py_DecRef(ptr %first)
  call void @Py_DecRef(ptr %item)
  call void @Py_DecRef(ptr %given)
  call void @Py_DecRef(ptr %grads)
  call void @Py_DecRef(ptr %target)
  ret i32 2
fill:
  call void @Py_IncRef(ptr %grad)
  call void @Py_IncRef(ptr %queue)
  %e = call i32 @PyTuple_SetItem(ptr %item, i64 0, ptr %first)
  %f = call i32 @PyTuple_SetItem(ptr %item, i64 1, ptr %target)
  %g = call i32 @PyTuple_SetItem(ptr %given, i64 0, ptr %queue)
  %h = call i32 @PyTuple_SetItem(ptr %given, i64 1, ptr %item)
  %i = call i32 @PyList_SetItem(ptr %grads, i64 0, ptr %grad)
  %set = call i32 @PyDict_SetItem(ptr %buffers, ptr %target, ptr %grads)
  call void @Py_DecRef(ptr %grads)
  %unset = icmp slt i32 %set, 0
  br i1 %unset, label %wrong, label %push
wrong:
  call void @Py_DecRef(ptr %given)
  ret i32 2
push:
  %pushed = call ptr @PyObject_Call(ptr @heappush, ptr %given, ptr null)
  call void @Py_DecRef(ptr %given)
  %unpushed = icmp eq ptr %pushed, null
  br i1 %unpushed, label %raised, label %done
raised:
  ret i32 2
done:
  call void @Py_DecRef(ptr %pushed)
  ret i32 0
}}
define ptr @put_aside(ptr %left, ptr %edge, ptr %grad) {{
entry:
  call void @Py_IncRef(ptr %edge)
  call void @Py_IncRef(ptr %grad)
  %none.yet = icmp eq ptr %left, null
  br i1 %none.yet, label %make, label %pair
make:
  %new = call ptr @PyList_New(i64 0)
  br label %pair
pair:
  %list = phi ptr [%left, %entry], [%new, %make]
  %two = call ptr @PyTuple_New(i64 2)
  %a = icmp eq ptr %list, null
  %b = icmp eq ptr %two, null
  %failed = or i1 %a, %b
  br i1 %failed, label %drop, label %fill
drop:
  call void @Py_DecRef(ptr %edge)
  call void @Py_DecRef(ptr %grad)
  br label %wrong
fill:
  %c = call i32 @PyTuple_SetItem(ptr %two, i64 0, ptr %edge)
  %d = call i32 @PyTuple_SetItem(ptr %two, i64 1, ptr %grad)
  %added = call i32 @PyList_Append(ptr %list, ptr %two)
  %unadded = icmp slt i32 %added, 0
  br i1 %unadded, label %wrong, label %done
wrong:
  call void @Py_DecRef(ptr %two)
  call void @Py_DecRef(ptr %list)
  ret ptr null
done:
  call void @Py_DecRef(ptr %two)
  ret ptr %list
}}
define i1 @is_either(ptr %class) {{
  %is.list = call i1 @is_a(ptr %class, i64 {LIST})
  %is.tuple = call i1 @is_a(ptr %class, i64 {TUPLE})
  %either = or i1 %is.list, %is.tuple
  ret i1 %either
}}
define ptr @pass_on(ptr %self, ptr %args, i64 %given) {{
entry:
  %buffers = load ptr, ptr %args
  %queueAt = getelementptr ptr, ptr %args, i64 1
  %queue = load ptr, ptr %queueAt
  %edgesAt = getelementptr ptr, ptr %args, i64 2
  %edges = load ptr, ptr %edgesAt
  %gradsAt = getelementptr ptr, ptr %args, i64 3
  %grads = load ptr, ptr %gradsAt
  %edgesClass = call ptr @class_of(ptr %edges)
  %gradsClass = call ptr @class_of(ptr %grads)
  %e.known = call i1 @is_either(ptr %edgesClass)
  %g.known = call i1 @is_either(ptr %gradsClass)
  %known = and i1 %e.known, %g.known
  br i1 %known, label %sized, label %unknown
unknown:
  call void @Py_IncRef(ptr @false)
  ret ptr @false
sized:
  %e.list = call i1 @is_a(ptr %edgesClass, i64 {LIST})
  %g.list = call i1 @is_a(ptr %gradsClass, i64 {LIST})
  br label %next
next:
  %k = phi i64 [0, %sized], [%kNext, %go.on]
  %left = phi ptr [null, %sized], [%leftNext, %go.on]
  %m = call i64 @size_of(ptr %edges, i1 %e.list)
  %n = call i64 @size_of(ptr %grads, i1 %g.list)
  %fewer = icmp slt i64 %m, %n
  %count = select i1 %fewer, i64 %m, i64 %n
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %end
each:
  %edge = call ptr @item_of(ptr %edges, i64 %k, i1 %e.list)
  %grad = call ptr @item_of(ptr %grads, i64 %k, i1 %g.list)
  %nowhere = icmp eq ptr %edge, @nothing
  br i1 %nowhere, label %go.on, label %send
send:
  call void @Py_IncRef(ptr %edge)
  call void @Py_IncRef(ptr %grad)
  %told = call i32 @sent(ptr %buffers, ptr %queue, ptr %edge, ptr %grad)
  switch i32 %told, label %raised [ i32 0, label %sent.on i32 1, label %aside ]
aside:
  %list = call ptr @put_aside(ptr %left, ptr %edge, ptr %grad)
  %lost = icmp eq ptr %list, null
  call void @Py_DecRef(ptr %edge)
  call void @Py_DecRef(ptr %grad)
  br i1 %lost, label %fail, label %go.on
sent.on:
  call void @Py_DecRef(ptr %edge)
  call void @Py_DecRef(ptr %grad)
  br label %go.on
go.on:
  %leftNext = phi ptr [%left, %each], [%list, %aside], [%left, %sent.on]
  %kNext = add i64 %k, 1
  br label %next
raised:
  call void @Py_DecRef(ptr %edge)
  call void @Py_DecRef(ptr %grad)
  call void @Py_DecRef(ptr %left)
  br label %fail
fail:
  ret ptr null
end:
  %all = icmp eq ptr %left, null
  br i1 %all, label %all.sent, label %some.left
all.sent:
  call void @Py_IncRef(ptr @nothing)
  ret ptr @nothing
some.left:
  ret ptr %left
}}"""
