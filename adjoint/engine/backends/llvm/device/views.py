"""Views of a GPU's arrays by native code.

Note [native views]
    CuPy's views take one to five microseconds each: indices are read, shapes and steps are made of
    them, and flags of these. Where calls lie as those before them did (Note [calls heard before]),
    all of that is known: a view is a copy of a template (Note [native pieces]) at an address so
    many bytes further on, in the same memory, and keeps the array it is a view of as CuPy's do.

    What is not exactly CuPy's array is shown by the function that it was learned from. Views of
    pieces are hidden from the collector as pieces are; memory of others may be part of a cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.engine.backends.array.gpu.array_layout import PieceLayout
from adjoint.engine.backends.llvm.runtime import fastcall
from adjoint.engine.backends.llvm.runtime.peeking import HEAD
from adjoint.engine.core.object_layout import word_at

# Words of what shows arrays of one kind.
AHEAD, TEMPLATE, VECTOR, SLOW, DTYPE, SHAPE, STEPS = range(7)
WORDS = 7


def measured(layout: PieceLayout, vector: int, shape: int, steps: int) -> str:
    """Text that ends a function by its array %made, which gets shape and steps: where these are,
    and how many bytes each has, is in these of %words."""
    return f"""  %bytes = call i64 @at(ptr %words, i64 {vector})
  %flat = icmp eq i64 %bytes, 0
  br i1 %flat, label %done, label %measure
measure:
  %shape = call ptr @pointed(ptr %words, i64 {shape})
  %steps = call ptr @pointed(ptr %words, i64 {steps})
  call void @vector(ptr %made, i64 {layout.array[0]}, ptr %shape, i64 %bytes)
  call void @vector(ptr %made, i64 {layout.array[1]}, ptr %steps, i64 %bytes)
  br label %done
done:
  ret ptr %made"""


def text(layout: PieceLayout, class_at: int, plain: str) -> str:
    """The function, after those of pieces; `plain` copies %template's own words to %made."""
    pointer, array = layout.pointer, layout.array
    return f"""
define ptr @view(ptr %self, ptr %source) {{
entry:
  %keep = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %wordsArray = call ptr @PyTuple_GetItem(ptr %keep, i64 0)
  %words = call ptr @held(ptr %wordsArray, i64 {HEAD})
  %kind = call ptr @held(ptr %source, i64 {class_at})
  %is.array = icmp eq ptr %kind, @Array
  br i1 %is.array, label %look, label %slow
look:
  %data = call ptr @held(ptr %source, i64 {array[3]})
  %memory = call ptr @held(ptr %data, i64 {pointer[2]})
  %memoryKind = call ptr @held(ptr %memory, i64 {class_at})
  %is.piece = icmp eq ptr %memoryKind, @Block
  %fromAt = getelementptr i8, ptr %data, i64 {pointer[0]}
  %from = load i64, ptr %fromAt
  %ahead = call i64 @at(ptr %words, i64 {AHEAD})
  %address = add i64 %from, %ahead
  %deviceAt = getelementptr i8, ptr %data, i64 {pointer[1]}
  %half = load i32, ptr %deviceAt
  %device = zext i32 %half to i64
  %pointer = call ptr @pointer_new(ptr @Pointer, ptr @no_arguments, ptr null)
  %no.pointer = icmp eq ptr %pointer, null
  br i1 %no.pointer, label %error, label %point
point:
  call void @Py_IncRef(ptr %memory)
  call void @take(ptr %pointer, i64 {pointer[2]}, ptr %memory)
  call void @put(ptr %pointer, i64 {pointer[0]}, i64 %address)
  call void @put_half(ptr %pointer, i64 {pointer[1]}, i64 %device)
  %made = call ptr @array_new(ptr @Array, ptr @no_arguments, ptr null)
  %no.array = icmp eq ptr %made, null
  br i1 %no.array, label %drop, label %describe
drop:
  call void @Py_DecRef(ptr %pointer)
  br label %error
describe:
  call void @take(ptr %made, i64 {array[3]}, ptr %pointer)
  %dtype = call ptr @pointed(ptr %words, i64 {DTYPE})
  call void @Py_IncRef(ptr %dtype)
  call void @take(ptr %made, i64 {array[2]}, ptr %dtype)
  %above = call ptr @held(ptr %source, i64 {layout.base})
  %unset = icmp eq ptr %above, null
  %nobody = icmp eq ptr %above, @nothing
  %owns = or i1 %unset, %nobody
  %base = select i1 %owns, ptr %source, ptr %above
  call void @Py_IncRef(ptr %base)
  call void @take(ptr %made, i64 {layout.base}, ptr %base)
  %template = call ptr @pointed(ptr %words, i64 {TEMPLATE})
{plain}
  br i1 %is.piece, label %hide, label %size
hide:
  call void @PyObject_GC_UnTrack(ptr %pointer)
  call void @PyObject_GC_UnTrack(ptr %made)
  br label %size
size:
{measured(layout, VECTOR, SHAPE, STEPS)}
slow:
  %function = call ptr @pointed(ptr %words, i64 {SLOW})
  %answer = call ptr @PyObject_CallOneArg(ptr %function, ptr %source)
  ret ptr %answer
error:
  ret ptr null
}}"""


Show = Callable[[Any], Any]


def viewer(code: Any, layout: PieceLayout, template: Any, ahead: int, slow: Show) -> Show:
    """What gives views like a template, which begin so many bytes further on than their array."""
    words = np.zeros(WORDS, np.int64)
    shape, steps, *_ = layout.array
    words[AHEAD], words[TEMPLATE], words[VECTOR] = ahead, id(template), 8 * template.ndim
    words[SLOW], words[DTYPE] = id(slow), id(template.dtype)
    words[SHAPE], words[STEPS] = (word_at(id(template) + at) for at in (shape, steps))
    keep = (words, template, slow, template.dtype, code)
    return fastcall.builtin(code.address("view"), name="view", keep=keep)


def told(array: Any) -> tuple[Any, ...]:
    """All that an array says of itself but where it is."""
    flags = [line for line in str(array.flags).splitlines() if "OWNDATA" not in line]
    return array.shape, array.strides, array.dtype, array.size, flags, array.nbytes


def learned(
    code: Any, layout: PieceLayout, like: Any, show: Show, template: Callable[..., Any]
) -> Show | None:
    """What shows all arrays that lie as `like` does the way `show` does; None: they are not views
    of that array, or not as CuPy's are.
    """
    if layout.base is None or not like.size:
        return None
    seen = show(like)
    memory = like.data.mem
    if type(seen) is not type(like) or seen is like or seen.data.mem is not memory:
        return None
    own = template(seen.shape, seen.dtype, seen.strides)
    root = like if like.base is None else like.base
    if told(own) != told(seen) or own.base is not None or seen.base is not root:
        return None
    return viewer(code, layout, own, seen.data.ptr - like.data.ptr, show)


# Views that are compared: of what, and which.
Case = tuple[tuple[int, ...], str, tuple[int, ...] | None, Show]
CASES: tuple[Case, ...] = (
    ((4, 6), "f4", None, lambda x: x[1:3, ::2]),
    ((4, 6), "f2", (2, 8), lambda x: x[3, 5, ...]),
    ((2, 3, 5), "i8", None, lambda x: x[:, None, 1]),
    ((9,), "?", None, lambda x: x[...]),
)


def alike(code: Any, layout: PieceLayout, template: Callable[..., Any]) -> bool:
    """Whether views come out as CuPy makes them, those of views too."""
    for shape, kind, strides, show in CASES:
        like = template(shape, np.dtype(kind), strides)
        for source in (like, like[...]):
            make = learned(code, layout, source, show, template)
            if make is None:
                return False
            made, want = make(source), show(source)
            data, wanted = made.data, want.data
            if type(made) is not type(want) or told(made) != told(want):
                return False
            if made.base is not like or data.mem is not wanted.mem:
                return False
            if (data.ptr, data.device_id) != (wanted.ptr, wanted.device_id):
                return False
    return True
