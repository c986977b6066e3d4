"""Views made natively, and put on the tape (Note [noting]).

What `tensor.window` and `tensor.mark_view` come to: one more link in the chain of a window, and the
root it is a view of, at the node that the root has now. Long chains, which may become shorter, and
views of what is no root, are left to Python, as is what native code does not put on the tape.
"""

from __future__ import annotations

from adjoint.engine.tensor.tensor import LONG

# What `@noted` tells: that nothing was done, that nothing is left to do, that an error is set.
UNKNOWN, DONE, RAISED = range(3)


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
