"""Arrays of a GPU made of kept pieces, and pieces that go back, by native code.

Note [native pieces]
    An eager step makes and lets go of some hundred arrays. What Python does for each (Note [kept
    pieces], Note [counted memory]) is a matter of a few words: a piece is taken off a list and
    counted, a block, a pointer and an array are made around it; when the block ends, it is counted
    off and put back. CuPy's constructors read shape, steps and dtype anew each time, which takes as
    long as all the rest; here an array is a copy of one that CuPy has made (the template), with
    memory of its own. Where its objects keep what they say was tried (`array_layout`), and what is
    made here is compared with what CuPy makes before anything is left to it (`alike`).

    Whatever is not usual is Python's: the first array on a stream, a list that is empty, memory
    that waits for other streams, lines that are noted, another allocator, a piece of another size.

    None of these objects can be part of a cycle, so they are hidden from Python's collector.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.engine.backends.array.gpu.array_layout import PieceLayout, piece_layout
from adjoint.engine.backends.array.gpu.memory_counts import (
    CURRENT_BYTES,
    CURRENT_PIECES,
    TOP_BYTES,
    TOP_PIECES,
    TOTAL_BYTES,
    TOTAL_PIECES,
    DeviceCounts,
    Piece,
    Room,
)
from adjoint.engine.backends.llvm.device import views
from adjoint.engine.backends.llvm.device.views import measured
from adjoint.engine.backends.llvm.runtime import fastcall, library
from adjoint.engine.backends.llvm.runtime.peeking import COUNTED, HEAD
from adjoint.engine.core.object_layout import slot_offset, type_offset, word_at

_NEW = 65  # the interpreter's number of a class's `__new__`: Py_tp_new
# Words of what makes arrays of one kind.
STREAM, ROOMS, WHOLE, PIECE, TEMPLATE, VECTOR, SLOW, DTYPE, SHAPE, STEPS = range(10)
WORDS = 10
ADDRESS_IN, SIZE_IN, DEVICE_IN, COUNTS_IN, ROOMS_IN, WORDS_IN = 1, 2, 3, 4, 5, 6  # of a `Room`


class PieceCode:
    """What takes pieces and puts them back, for pools (`device_memory.NativePieces`)."""

    def __init__(self, code: Any, hold: Any, layout: PieceLayout, let_go: Any) -> None:
        self.code, self.hold, self.layout, self.let_go = code, hold, layout, let_go
        self.views = False  # whether it has been seen to make views as CuPy does

    def viewer(self, like: Any, show: views.Show, template: Callable[..., Any]) -> views.Show:
        if not self.views:
            return show
        return views.learned(self.code, self.layout, like, show, template) or show

    def maker(
        self, template: Any, piece: Piece, slow: Callable[[int], Any]
    ) -> tuple[Callable[[int], Any], Any]:
        words = np.zeros(WORDS, np.int64)
        shape, steps, *_ = self.layout.array
        words[STREAM] = -1  # of no stream
        words[WHOLE], words[PIECE], words[TEMPLATE] = piece[0], id(piece), id(template)
        words[VECTOR], words[SLOW], words[DTYPE] = 8 * template.ndim, id(slow), id(template.dtype)
        words[SHAPE], words[STEPS] = (word_at(id(template) + at) for at in (shape, steps))
        keep = (words, template, piece, slow, template.dtype, self.hold)
        return fastcall.builtin(self.code.address("make"), name="make", keep=keep), words

    @staticmethod
    def remember(words: Any, stream: int, rooms: list[Room]) -> None:
        words[STREAM], words[ROOMS] = stream, id(rooms)


def text(layout: PieceLayout, room_at: int, on_at: int, history_at: int, live_at: int) -> str:
    """The functions."""
    block, pointer, array = layout.block, layout.pointer, layout.array
    counted = "\n".join(
        _more(total, current, top, much)
        for total, current, top, much in (
            (TOTAL_PIECES, CURRENT_PIECES, TOP_PIECES, "1"),
            (TOTAL_BYTES, CURRENT_BYTES, TOP_BYTES, "%whole"),
        )
    )
    class_at = type_offset()
    plain = "\n".join(
        f"""  %from{at} = getelementptr i8, ptr %template, i64 {at}
  %word{at} = load i64, ptr %from{at}
  %to{at} = getelementptr i8, ptr %made, i64 {at}
  store i64 %word{at}, ptr %to{at}"""
        for at in layout.plain
    )
    more = "" if None in (class_at, layout.base) else views.text(layout, class_at, plain)  # type: ignore[arg-type]
    return f"""
@waiting = external global i8
@serve = external global i8
@allocator = external global i8
@uses = external global i8
@tracking = external global i8
@Block = external global i8
@Pointer = external global i8
@Array = external global i8
@let_go_slowly = external global i8
@no_arguments = external global i8
@false = external global i8
@nothing = external global i8
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PyList_Size(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare i32 @PyList_SetSlice(ptr, i64, i64, ptr)
declare i32 @PyList_Append(ptr, ptr)
declare i64 @PyDict_Size(ptr)
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare i32 @PyDict_DelItem(ptr, ptr)
declare i64 @PyObject_Size(ptr)
declare ptr @PyObject_CallObject(ptr, ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare void @PyObject_GC_UnTrack(ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @block_new(ptr, ptr, ptr)
declare ptr @pointer_new(ptr, ptr, ptr)
declare ptr @array_new(ptr, ptr, ptr)
declare ptr @vector_new(i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define i64 @at(ptr %words, i64 %k) alwaysinline {{
  %place = getelementptr i64, ptr %words, i64 %k
  %value = load i64, ptr %place
  ret i64 %value
}}
define ptr @pointed(ptr %words, i64 %k) alwaysinline {{
  %word = call i64 @at(ptr %words, i64 %k)
  %pointer = inttoptr i64 %word to ptr
  ret ptr %pointer
}}
define ptr @held(ptr %object, i64 %offset) alwaysinline {{
  %at = getelementptr i8, ptr %object, i64 %offset
  %value = load ptr, ptr %at
  ret ptr %value
}}
define void @put(ptr %object, i64 %offset, i64 %word) alwaysinline {{
  %at = getelementptr i8, ptr %object, i64 %offset
  store i64 %word, ptr %at
  ret void
}}
define void @put_half(ptr %object, i64 %offset, i64 %word) alwaysinline {{
  %at = getelementptr i8, ptr %object, i64 %offset
  %half = trunc i64 %word to i32
  store i32 %half, ptr %at
  ret void
}}
define void @take(ptr %object, i64 %offset, ptr %value) alwaysinline {{
  %at = getelementptr i8, ptr %object, i64 %offset
  %before = load ptr, ptr %at
  store ptr %value, ptr %at
  call void @Py_DecRef(ptr %before)
  ret void
}}
define void @vector(ptr %object, i64 %offset, ptr %from, i64 %bytes) {{
  %new = call ptr @vector_new(i64 %bytes)
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %from, i64 %bytes, i1 false)
  %first = ptrtoint ptr %new to i64
  %last = add i64 %first, %bytes
  %second = add i64 %offset, 8
  %third = add i64 %offset, 16
  call void @put(ptr %object, i64 %offset, i64 %first)
  call void @put(ptr %object, i64 %second, i64 %last)
  call void @put(ptr %object, i64 %third, i64 %last)
  ret void
}}
define i64 @number_in(ptr %room, i64 %k) {{
  %object = call ptr @PyTuple_GetItem(ptr %room, i64 %k)
  %number = call i64 @PyLong_AsLongLong(ptr %object)
  ret i64 %number
}}
define ptr @live_of(ptr %room) {{
  %counts = call ptr @PyTuple_GetItem(ptr %room, i64 {COUNTS_IN})
  %live = call ptr @held(ptr %counts, i64 {live_at})
  ret ptr %live
}}
define ptr @make(ptr %self, ptr %stream) {{
entry:
  %keep = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %wordsArray = call ptr @PyTuple_GetItem(ptr %keep, i64 0)
  %words = call ptr @held(ptr %wordsArray, i64 {HEAD})
  %asked = call i64 @PyLong_AsLongLong(ptr %stream)
  %known = call i64 @at(ptr %words, i64 {STREAM})
  %same = icmp eq i64 %asked, %known
  br i1 %same, label %wait, label %slow
wait:
  %waits = call i64 @PyObject_Size(ptr @waiting)
  %none.waits = icmp eq i64 %waits, 0
  %on = call ptr @held(ptr @tracking, i64 {on_at})
  %off = icmp eq ptr %on, @false
  %quiet = and i1 %none.waits, %off
  br i1 %quiet, label %ask, label %slow
ask:
  %current = call ptr @PyObject_CallObject(ptr @allocator, ptr null)
  %unknown = icmp eq ptr %current, null
  br i1 %unknown, label %error, label %compare
compare:
  call void @Py_DecRef(ptr %current)
  %ours = icmp eq ptr %current, @serve
  br i1 %ours, label %look, label %slow
look:
  %rooms = call ptr @pointed(ptr %words, i64 {ROOMS})
  %many = call i64 @PyList_Size(ptr %rooms)
  %some = icmp sgt i64 %many, 0
  br i1 %some, label %see, label %slow
see:
  %last = sub i64 %many, 1
  %room = call ptr @PyList_GetItem(ptr %rooms, i64 %last)
  %much = call i64 @number_in(ptr %room, i64 {SIZE_IN})
  %whole = call i64 @at(ptr %words, i64 {WHOLE})
  %as.large = icmp eq i64 %much, %whole
  br i1 %as.large, label %pick, label %slow
pick:
  call void @Py_IncRef(ptr %room)
  %cut = call i32 @PyList_SetSlice(ptr %rooms, i64 %last, i64 %many, ptr null)
  %uncut = icmp slt i32 %cut, 0
  br i1 %uncut, label %drop, label %live
live:
  %dict = call ptr @live_of(ptr %room)
  %addressObject = call ptr @PyTuple_GetItem(ptr %room, i64 {ADDRESS_IN})
  %piece = call ptr @pointed(ptr %words, i64 {PIECE})
  %set = call i32 @PyDict_SetItem(ptr %dict, ptr %addressObject, ptr %piece)
  %unset = icmp slt i32 %set, 0
  br i1 %unset, label %give, label %count
give:
  %given = call i32 @PyList_Append(ptr %rooms, ptr %room)
  br label %drop
drop:
  call void @Py_DecRef(ptr %room)
  br label %error
count:
  %address = call i64 @PyLong_AsLongLong(ptr %addressObject)
  %device = call i64 @number_in(ptr %room, i64 {DEVICE_IN})
  %countsAt = call i64 @number_in(ptr %room, i64 {WORDS_IN})
  %counts = inttoptr i64 %countsAt to ptr
{counted}
  %block = call ptr @block_new(ptr @Block, ptr @no_arguments, ptr null)
  %no.block = icmp eq ptr %block, null
  br i1 %no.block, label %uncount, label %fill
uncount:
  %uncounted = call ptr @ended(ptr %room)
  %nowhere = icmp eq ptr %uncounted, null
  br i1 %nowhere, label %drop, label %forget
forget:
  call void @Py_DecRef(ptr %uncounted)
  br label %drop
fill:
  call void @PyObject_GC_UnTrack(ptr %block)
  call void @take(ptr %block, i64 {room_at}, ptr %room)
  call void @put(ptr %block, i64 {block[0]}, i64 %address)
  call void @put(ptr %block, i64 {block[1]}, i64 %whole)
  call void @put_half(ptr %block, i64 {block[2]}, i64 %device)
  %pointer = call ptr @pointer_new(ptr @Pointer, ptr @no_arguments, ptr null)
  %no.pointer = icmp eq ptr %pointer, null
  br i1 %no.pointer, label %drop.block, label %point
drop.block:
  call void @Py_DecRef(ptr %block)
  br label %error
point:
  call void @PyObject_GC_UnTrack(ptr %pointer)
  call void @take(ptr %pointer, i64 {pointer[2]}, ptr %block)
  call void @put(ptr %pointer, i64 {pointer[0]}, i64 %address)
  call void @put_half(ptr %pointer, i64 {pointer[1]}, i64 %device)
  %made = call ptr @array_new(ptr @Array, ptr @no_arguments, ptr null)
  %no.array = icmp eq ptr %made, null
  br i1 %no.array, label %drop.pointer, label %describe
drop.pointer:
  call void @Py_DecRef(ptr %pointer)
  br label %error
describe:
  call void @PyObject_GC_UnTrack(ptr %made)
  call void @take(ptr %made, i64 {array[3]}, ptr %pointer)
  %dtype = call ptr @pointed(ptr %words, i64 {DTYPE})
  call void @Py_IncRef(ptr %dtype)
  call void @take(ptr %made, i64 {array[2]}, ptr %dtype)
  %template = call ptr @pointed(ptr %words, i64 {TEMPLATE})
{plain}
{measured(layout, VECTOR, SHAPE, STEPS)}
slow:
  %function = call ptr @pointed(ptr %words, i64 {SLOW})
  %answer = call ptr @PyObject_CallOneArg(ptr %function, ptr %stream)
  ret ptr %answer
error:
  ret ptr null
}}
define ptr @ended(ptr %room) {{
entry:
  %dict = call ptr @live_of(ptr %room)
  %address = call ptr @PyTuple_GetItem(ptr %room, i64 {ADDRESS_IN})
  %gone = call i32 @PyDict_DelItem(ptr %dict, ptr %address)
  %lost = icmp slt i32 %gone, 0
  br i1 %lost, label %error, label %count
count:
  %much = call i64 @number_in(ptr %room, i64 {SIZE_IN})
  %countsAt = call i64 @number_in(ptr %room, i64 {WORDS_IN})
  %counts = inttoptr i64 %countsAt to ptr
  %pieces = call i64 @at(ptr %counts, i64 {CURRENT_PIECES})
  %fewer = sub i64 %pieces, 1
  call void @put(ptr %counts, i64 {8 * CURRENT_PIECES}, i64 %fewer)
  %bytes = call i64 @at(ptr %counts, i64 {CURRENT_BYTES})
  %less = sub i64 %bytes, %much
  call void @put(ptr %counts, i64 {8 * CURRENT_BYTES}, i64 %less)
  %rooms = call ptr @PyTuple_GetItem(ptr %room, i64 {ROOMS_IN})
  %nowhere = icmp eq ptr %rooms, @nothing
  br i1 %nowhere, label %done, label %keep
keep:
  %kept = call i32 @PyList_Append(ptr %rooms, ptr %room)
  %unkept = icmp slt i32 %kept, 0
  br i1 %unkept, label %error, label %done
done:
  call void @Py_IncRef(ptr @nothing)
  ret ptr @nothing
error:
  ret ptr null
}}
define ptr @let_go(ptr %block, ptr %unused) {{
entry:
  %room = call ptr @held(ptr %block, i64 {room_at})
  %unset = icmp eq ptr %room, null
  %emptied = icmp eq ptr %room, @nothing
  %never = or i1 %unset, %emptied
  br i1 %never, label %none, label %look
none:
  call void @Py_IncRef(ptr @nothing)
  ret ptr @nothing
look:
  %others = call i64 @PyDict_Size(ptr @uses)
  %alone = icmp eq i64 %others, 0
  %history = call ptr @held(ptr @tracking, i64 {history_at})
  %unheard = icmp eq ptr %history, @nothing
  %quick = and i1 %alone, %unheard
  br i1 %quick, label %end, label %slow
end:
  %ended = call ptr @ended(ptr %room)
  ret ptr %ended
slow:
  %answer = call ptr @PyObject_CallOneArg(ptr @let_go_slowly, ptr %block)
  ret ptr %answer
}}{more}"""


def _more(total: int, current: int, top: int, much: str) -> str:
    """Text that counts so much more, among %counts."""
    return f"""  %total{total} = call i64 @at(ptr %counts, i64 {total})
  %totalNow{total} = add i64 %total{total}, {much}
  call void @put(ptr %counts, i64 {8 * total}, i64 %totalNow{total})
  %held{current} = call i64 @at(ptr %counts, i64 {current})
  %heldNow{current} = add i64 %held{current}, {much}
  call void @put(ptr %counts, i64 {8 * current}, i64 %heldNow{current})
  %top{top} = call i64 @at(ptr %counts, i64 {top})
  %higher{top} = icmp sgt i64 %heldNow{current}, %top{top}
  %topNow{top} = select i1 %higher{top}, i64 %heldNow{current}, i64 %top{top}
  call void @put(ptr %counts, i64 {8 * top}, i64 %topNow{top})"""


def new_of(kind: type) -> int:
    """The address of what makes a blank object of a class."""
    find = ctypes.pythonapi.PyType_GetSlot
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    address: int = find(kind, _NEW)
    return address


def vector_new() -> int | None:
    """The address of C++'s `operator new`, by which vectors of CuPy's take memory."""
    for name in (None, "libstdc++.so.6"):
        try:
            found = ctypes.cast(ctypes.CDLL(name)._Znwm, ctypes.c_void_p).value
        except (OSError, AttributeError):
            continue
        if found:
            return found
    return None


def native_pieces(pools: Any, tracking: Any, slowly: Callable[[Any], None]) -> PieceCode | None:
    """What takes pieces of pools and puts them back; None where objects may be laid out otherwise.

    `slowly` is what Python does at a block's end.
    """
    cupy, block = pools.cupy, pools.block
    base, allocate = cupy.ndarray.__base__, vector_new()
    offsets = [  # found anew: what is kept of a class would hold it, and the pools with it
        slot_offset.__wrapped__(vars(kind).get(name))
        for kind, name in (
            (block, "room"), (type(tracking), "on"), (type(tracking), "history"),
            (DeviceCounts, "live"),
        )
    ]  # fmt: skip
    if not COUNTED or allocate is None or None in offsets or pools.quick[0] is None:
        return None
    layout = piece_layout(cupy)
    if layout is None:
        return None
    pointer = cupy.cuda.memory.MemoryPointer
    things = (
        pools.others.waiting, pools.serve, cupy.cuda.get_allocator, pools.others.uses, tracking,
        block, pointer, cupy.ndarray, slowly,
    )  # fmt: skip
    names = (
        "waiting", "serve", "allocator", "uses", "tracking", "Block", "Pointer", "Array",
        "let_go_slowly",
    )  # fmt: skip
    symbols = {
        **fastcall.interpreter(), **dict(zip(names, map(id, things), strict=True)),
        "no_arguments": id(()), "false": id(False), "nothing": id(None),
        "block_new": new_of(block), "pointer_new": new_of(pointer), "array_new": new_of(base),
        "vector_new": allocate,
    }  # fmt: skip
    code = library.linked("native pieces", text(layout, *offsets), symbols)  # type: ignore[arg-type]
    hold = (code, things)
    let_go = fastcall.method(block, code.address("let_go"), name="__del__", keep=hold)
    made = PieceCode(code, hold, layout, let_go)
    if not alike(pools, made):
        return None
    made.views = layout.base is not None and views.alike(code, layout, pools.template)
    return made


# Kinds of arrays that are compared.
KINDS: Sequence[tuple[tuple[int, ...], str, tuple[int, ...] | None]] = (
    ((2, 3), "f4", None), ((2, 3), "f4", (4, 8)), ((), "i8", None), ((1, 5, 1, 7, 2), "f2", None),
    ((4, 3, 5, 5), "f4", (300, 4, 60, 12)), ((9,), "?", None),
)  # fmt: skip


def alike(pools: Any, made: PieceCode) -> bool:
    """Whether arrays come out as CuPy makes them, and pieces come back."""
    counts, index = DeviceCounts(), 3
    rooms: list[Room] = []
    address, size = 1 << 33, 1 << 12
    room: Room = (None, address, size, index, counts, rooms, counts.address)

    def slow(stream: int) -> Any:
        return None

    for shape, kind, strides in KINDS:
        dtype = np.dtype(kind)
        template = pools.template(shape, dtype, strides)
        make, words = made.maker(template, (size, 7, None), slow)
        made.remember(words, 5, rooms)
        rooms[:] = [room]
        array = make(5)
        if array is None:
            return False
        block = array.data.mem
        told, want = (
            (x.shape, x.strides, x.dtype, x.size, x.base, str(x.flags), x.nbytes)
            for x in (array, template)
        )
        place = array.data.ptr, block.ptr, array.data.device_id, block.device_id, block.size
        if type(array) is not pools.cupy.ndarray or type(block) is not pools.block:
            return False
        if told != want or place != (address, address, index, index, size) or rooms:
            return False
        if block.room is not room or counts.live != {address: (size, 7, None)}:
            return False
        if (counts.blocks.current, counts.used.current) != (1, size):
            return False
        made.let_go(block)
        block.room = None  # it has ended
        if rooms != [room] or counts.live or counts.blocks.current or counts.used.current:
            return False
        del array, block
    return counts.blocks.peak == 1 and counts.used.allocated == size * len(KINDS)
