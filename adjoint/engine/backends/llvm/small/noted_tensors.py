"""Tensors whose operations native code puts on the tape: what it reads of them (Note [noting])."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint.engine.backends.llvm.runtime.peeking import DTYPE, RANK, SAME_WORDS, SIZES
from adjoint.engine.backends.llvm.small.comparing import FLOAT, INT, NDARRAY

CARRIES, SILENT, UNUSUAL = range(3)  # what a result is to gradients


@dataclass(frozen=True, slots=True)
class NotedArrays:
    """How native code looks at the arrays of tensors that it puts on the tape."""

    type: int  # their class, by its place among the words of the world
    # @kind_in, @rank_in and @sizes_in of an array: its dtype, rank, and the address of its sizes.
    layout: str
    # Words: how many dtypes there are whose results carry gradients, and which; the same of those
    # whose do not. Of others Python asks.
    carrying: Any
    silent: Any


def listed(dtypes: Sequence[Any]) -> Any:
    """How many dtypes there are, and which."""
    return np.array([len(dtypes), *map(id, dtypes)], np.int64)


# NumPy's own.
ON_HOST = NotedArrays(
    NDARRAY,
    f"""
define ptr @kind_in(ptr %array) alwaysinline {{
  %kind = call ptr @held(ptr %array, i64 {DTYPE})
  ret ptr %kind
}}
define i64 @rank_in(ptr %array) alwaysinline {{
  %at = getelementptr i8, ptr %array, i64 {RANK}
  %short = load i32, ptr %at
  %rank = sext i32 %short to i64
  ret i64 %rank
}}
define ptr @sizes_in(ptr %array) alwaysinline {{
  %sizes = call ptr @held(ptr %array, i64 {SIZES})
  ret ptr %sizes
}}""",
    listed((np.dtype("float32"), np.dtype("float64"))),
    listed((np.dtype("int64"), np.dtype("bool"))),
)


def tensors_text(at: dict[str, int], arrays: NotedArrays) -> str:
    """Functions of tensors: where their gradients go, windows on them, how their arrays lie."""
    return f"""
define ptr @held(ptr %x, i64 %at) alwaysinline {{
  %slot = getelementptr i8, ptr %x, i64 %at
  %value = load ptr, ptr %slot
  ret ptr %value
}}
define void @hold(ptr %x, i64 %at, ptr %value) alwaysinline {{
  call void @Py_IncRef(ptr %value)
  %slot = getelementptr i8, ptr %x, i64 %at
  store ptr %value, ptr %slot
  ret void
}}
define void @take(ptr %x, i64 %at, ptr %value) alwaysinline {{
  %slot = getelementptr i8, ptr %x, i64 %at
  store ptr %value, ptr %slot
  ret void
}}
define i1 @is_tensor(ptr %x) {{
entry:
  %class = call ptr @class_of(ptr %x)
  %exact = icmp eq ptr %class, @Tensor
  br i1 %exact, label %yes, label %derived
derived:
  %sub = call i32 @PyType_IsSubtype(ptr %class, ptr @Tensor)
  %is.sub = icmp ne i32 %sub, 0
  ret i1 %is.sub
yes:
  ret i1 true
}}
define ptr @edge_of(ptr %x) {{
entry:
  %is.tensor = call i1 @is_tensor(ptr %x)
  br i1 %is.tensor, label %tensor, label %number
number:
  %class = call ptr @class_of(ptr %x)
  %is.float = call i1 @is_a(ptr %class, i64 {FLOAT})
  %is.int = call i1 @is_a(ptr %class, i64 {INT})
  %is.number = or i1 %is.float, %is.int
  %is.nothing = icmp eq ptr %x, @nothing
  %plain = or i1 %is.number, %is.nothing
  br i1 %plain, label %none, label %unknown
tensor:
  %base = call ptr @held(ptr %x, i64 {at["tensor._base"]})
  %own = icmp eq ptr %base, @nothing
  br i1 %own, label %asked, label %view
view:
  %root = call ptr @PyTuple_GetItem(ptr %base, i64 0)
  %then = call ptr @PyTuple_GetItem(ptr %base, i64 1)
  %now = call ptr @held(ptr %root, i64 {at["tensor._node"]})
  %current = icmp eq ptr %now, %then
  br i1 %current, label %asked, label %unknown
asked:
  %needed = call ptr @held(ptr %x, i64 {at["tensor._requires_grad"]})
  %is.needed = icmp eq ptr %needed, @true
  br i1 %is.needed, label %follow, label %none
follow:
  %node = call ptr @held(ptr %x, i64 {at["tensor._node"]})
  %number.of = call ptr @held(ptr %x, i64 {at["tensor._nr"]})
  %is.leaf = icmp eq ptr %node, @nothing
  %target = select i1 %is.leaf, ptr %x, ptr %node
  %nr = select i1 %is.leaf, ptr @zero, ptr %number.of
  call void @Py_IncRef(ptr %target)
  call void @Py_IncRef(ptr %nr)
  %pair = call ptr @PyTuple_New(i64 2)
  %failed = icmp eq ptr %pair, null
  br i1 %failed, label %drop, label %put
drop:
  call void @Py_DecRef(ptr %target)
  call void @Py_DecRef(ptr %nr)
  br label %unknown
put:
  %a = call i32 @PyTuple_SetItem(ptr %pair, i64 0, ptr %target)
  %b = call i32 @PyTuple_SetItem(ptr %pair, i64 1, ptr %nr)
  ret ptr %pair
none:
  call void @Py_IncRef(ptr @nothing)
  ret ptr @nothing
unknown:
  ret ptr null
}}
{SAME_WORDS}
define i1 @alike(ptr %one, ptr %other) {{
entry:
  %oneKind = call ptr @kind_in(ptr %one)
  %otherKind = call ptr @kind_in(ptr %other)
  %kind = icmp eq ptr %oneKind, %otherKind
  %oneRank = call i64 @rank_in(ptr %one)
  %otherRank = call i64 @rank_in(ptr %other)
  %rank = icmp eq i64 %oneRank, %otherRank
  %both = and i1 %kind, %rank
  br i1 %both, label %sized, label %no
sized:
  %oneSizes = call ptr @sizes_in(ptr %one)
  %otherSizes = call ptr @sizes_in(ptr %other)
  %same = call i1 @same_words(ptr %oneSizes, ptr %otherSizes, i64 %oneRank)
  ret i1 %same
no:
  ret i1 false
}}
define i1 @is_among(ptr %kind, ptr %listed) {{
entry:
  %count = load i64, ptr %listed
  br label %next
next:
  %k = phi i64 [0, %entry], [%kNext, %each]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %no
each:
  %kNext = add i64 %k, 1
  %at = getelementptr ptr, ptr %listed, i64 %kNext
  %known = load ptr, ptr %at
  %it = icmp eq ptr %kind, %known
  br i1 %it, label %yes, label %next
yes:
  ret i1 true
no:
  ret i1 false
}}
define i32 @carried(ptr %x) {{
entry:
  %is.tensor = call i1 @is_tensor(ptr %x)
  br i1 %is.tensor, label %look, label %unknown
look:
  %array = call ptr @held(ptr %x, i64 {at["tensor._array"]})
  %class = call ptr @class_of(ptr %array)
  %is.array = call i1 @is_a(ptr %class, i64 {arrays.type})
  br i1 %is.array, label %typed, label %unknown
typed:
  %kind = call ptr @kind_in(ptr %array)
  %carries = call i1 @is_among(ptr %kind, ptr @carrying)
  br i1 %carries, label %yes, label %other
other:
  %silent = call i1 @is_among(ptr %kind, ptr @silent)
  br i1 %silent, label %no, label %unknown
yes:
  ret i32 {CARRIES}
no:
  ret i32 {SILENT}
unknown:
  ret i32 {UNUSUAL}
}}
define ptr @window_on(ptr %array, ptr %storage, ptr %chain, ptr %base) {{
entry:
  call void @Py_IncRef(ptr %array)
  call void @Py_IncRef(ptr %storage)
  call void @Py_IncRef(ptr %chain)
  call void @Py_IncRef(ptr %base)
  %t = call ptr @object_new(ptr @Tensor, ptr @no_arguments, ptr null)
  %failed = icmp eq ptr %t, null
  br i1 %failed, label %refuse, label %fill
refuse:
  call void @Py_DecRef(ptr %array)
  call void @Py_DecRef(ptr %storage)
  call void @Py_DecRef(ptr %chain)
  call void @Py_DecRef(ptr %base)
  ret ptr null
fill:
  call void @take(ptr %t, i64 {at["tensor._array"]}, ptr %array)
  call void @take(ptr %t, i64 {at["tensor._storage"]}, ptr %storage)
  call void @take(ptr %t, i64 {at["tensor._chain"]}, ptr %chain)
  call void @take(ptr %t, i64 {at["tensor._base"]}, ptr %base)
  call void @hold(ptr %t, i64 {at["tensor._requires_grad"]}, ptr @false)
  call void @hold(ptr %t, i64 {at["tensor._node"]}, ptr @nothing)
  call void @hold(ptr %t, i64 {at["tensor._nr"]}, ptr @zero)
  call void @hold(ptr %t, i64 {at["tensor._grad_meta"]}, ptr @nothing)
  ret ptr %t
}}
define ptr @same_window(ptr %x) {{
  %array = call ptr @held(ptr %x, i64 {at["tensor._array"]})
  %storage = call ptr @held(ptr %x, i64 {at["tensor._storage"]})
  %chain = call ptr @held(ptr %x, i64 {at["tensor._chain"]})
  %t = call ptr @window_on(ptr %array, ptr %storage, ptr %chain, ptr @nothing)
  ret ptr %t
}}
{arrays.layout}"""
