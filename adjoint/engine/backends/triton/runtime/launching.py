"""All launches of a program of eager mode by one call of native code.

Note [native launches]
    A call through ctypes converts eleven arguments, and each word that a launch is told is stored
    by Python: as long as the driver itself takes. So where all launches of a program are plain,
    native code is handed the addresses alone. It has a record of the launches: their functions,
    sizes and words, and where in these which address goes. It copies the words to its own stack, so
    threads need no lock, and returns the driver's error with the number of the launch.

    A product is a launch too: of cuBLASLt's function, whose arguments are its words. Where it adds
    a bias, the library is told the bias's address by the product's description, which others may
    be using: the description is the record's own then, and the interpreter's lock is kept.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from adjoint.engine.core.operations.record import HOOKS

MOST = 62  # addresses that a call is given
WIDEST = 264  # words of a launch
SPARE = 2  # words after a kernel's arguments that Triton's kernels have besides
Works = list[tuple[str, Any, int, int]]  # name, work, where its words begin, how many
Patches = list[tuple[int, int, int]]  # of each address: its number, a word, what is added there
HEAD = 8  # words of a launch in a record, before what is put into its words
FUNCTION, ACROSS, DOWN, THREADS, SHARED, COUNT, PATCHES, TOLD = range(HEAD)  # which they are
KEEPS = 1  # word of a record: whether the interpreter's lock is kept
# The words of a product: addresses of operands, result, bias and memory to work in; then what does
# not change. Such a launch is of no threads.
BIAS, ROOM = 3, 4
HANDLE, DESCRIPTION, ONE, LEFT, RIGHT, ZERO, OUT, ALGORITHM = range(5, 13)
ROOM_SIZE, SET, ATTRIBUTE = range(13, 16)  # how much memory; what tells the bias, if there is one

TEXT = f"""
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyErr_Occurred()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @cuLaunchKernel(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr)
define i64 @word(ptr %at, i64 %k) alwaysinline {{
  %place = getelementptr i64, ptr %at, i64 %k
  %value = load volatile i64, ptr %place
  ret i64 %value
}}
define i32 @narrow(ptr %at, i64 %k) alwaysinline {{
  %wide = call i64 @word(ptr %at, i64 %k)
  %value = trunc i64 %wide to i32
  ret i32 %value
}}
define void @put(ptr %at, i64 %k, i64 %value) alwaysinline {{
  %place = getelementptr i64, ptr %at, i64 %k
  store i64 %value, ptr %place
  ret void
}}
define ptr @place(ptr %at, i64 %k) alwaysinline {{
  %value = call i64 @word(ptr %at, i64 %k)
  %place = inttoptr i64 %value to ptr
  ret ptr %place
}}
define i64 @launch_record(ptr %given) {{
start:
  %words = alloca [{WIDEST} x i64]
  %size = alloca i64
  %extra = alloca [5 x i64]
  %record_at = call i64 @word(ptr %given, i64 0)
  %record = inttoptr i64 %record_at to ptr
  %stream_at = call i64 @word(ptr %given, i64 1)
  %stream = inttoptr i64 %stream_at to ptr
  %launches = call i64 @word(ptr %record, i64 0)
  %keeps = call i64 @word(ptr %record, i64 {KEEPS})
  %kept = icmp ne i64 %keeps, 0
  %first = getelementptr i64, ptr %record, i64 {KEEPS + 1}
  %words_at = ptrtoint ptr %words to i64
  %size_at = ptrtoint ptr %size to i64
  call void @put(ptr %extra, i64 0, i64 1)
  call void @put(ptr %extra, i64 1, i64 %words_at)
  call void @put(ptr %extra, i64 2, i64 2)
  call void @put(ptr %extra, i64 3, i64 %size_at)
  call void @put(ptr %extra, i64 4, i64 0)
  br i1 %kept, label %begin, label %release
release:
  %saved = call ptr @PyEval_SaveThread()
  br label %begin
begin:
  %thread = phi ptr [ null, %start ], [ %saved, %release ]
  br label %launch
launch:
  %n = phi i64 [ 0, %begin ], [ %n1, %next ]
  %at = phi ptr [ %first, %begin ], [ %end, %next ]
  %function_at = call i64 @word(ptr %at, i64 0)
  %function = inttoptr i64 %function_at to ptr
  %across = call i32 @narrow(ptr %at, i64 1)
  %down = call i32 @narrow(ptr %at, i64 2)
  %threads = call i32 @narrow(ptr %at, i64 3)
  %shared = call i32 @narrow(ptr %at, i64 4)
  %wide = call i64 @word(ptr %at, i64 5)
  %patches = call i64 @word(ptr %at, i64 6)
  %template_at = call i64 @word(ptr %at, i64 7)
  %template = inttoptr i64 %template_at to ptr
  %bytes = mul i64 %wide, 8
  store i64 %bytes, ptr %size
  br label %copy
copy:
  %c = phi i64 [ 0, %launch ], [ %c1, %copied ]
  %copying = icmp ult i64 %c, %wide
  br i1 %copying, label %copied, label %patch
copied:
  %v = call i64 @word(ptr %template, i64 %c)
  call void @put(ptr %words, i64 %c, i64 %v)
  %c1 = add i64 %c, 1
  br label %copy
patch:
  %q = phi i64 [ 0, %copy ], [ %q1, %patched ]
  %w = phi i64 [ {HEAD}, %copy ], [ %w3, %patched ]
  %patching = icmp ult i64 %q, %patches
  br i1 %patching, label %patched, label %go
patched:
  %w1 = add i64 %w, 1
  %w2 = add i64 %w, 2
  %w3 = add i64 %w, 3
  %where = call i64 @word(ptr %at, i64 %w)
  %which = call i64 @word(ptr %at, i64 %w1)
  %shift = call i64 @word(ptr %at, i64 %w2)
  %address = call i64 @word(ptr %given, i64 %which)
  %moved = add i64 %address, %shift
  call void @put(ptr %words, i64 %where, i64 %moved)
  %q1 = add i64 %q, 1
  br label %patch
go:
  %end = getelementptr i64, ptr %at, i64 %w
  %is_product = icmp eq i32 %threads, 0
  br i1 %is_product, label %product, label %kernel
product:
  %product_code = call i32 @multiply(ptr %function, ptr %words, ptr %stream)
  br label %looked
kernel:
  %kernel_code = call i32 @cuLaunchKernel(ptr %function, i32 %across, i32 %down, i32 1, i32 %threads, i32 1, i32 1, i32 %shared, ptr %stream, ptr null, ptr %extra)
  br label %looked
looked:
  %code = phi i32 [ %product_code, %product ], [ %kernel_code, %kernel ]
  %failed = icmp ne i32 %code, 0
  br i1 %failed, label %fault, label %next
next:
  %n1 = add i64 %n, 1
  %left = icmp ult i64 %n1, %launches
  br i1 %left, label %launch, label %done
fault:
  %code_wide = zext i32 %code to i64
  %number = shl i64 %n, 32
  %told = or i64 %number, %code_wide
  br label %done
done:
  %result = phi i64 [ 0, %next ], [ %told, %fault ]
  br i1 %kept, label %over, label %restore
restore:
  call void @PyEval_RestoreThread(ptr %thread)
  br label %over
over:
  ret i64 %result
}}
define i32 @multiply(ptr %function, ptr %w, ptr %stream) {{
start:
  %a = call ptr @place(ptr %w, i64 0)
  %b = call ptr @place(ptr %w, i64 1)
  %c = call ptr @place(ptr %w, i64 2)
  %handle = call ptr @place(ptr %w, i64 {HANDLE})
  %description = call ptr @place(ptr %w, i64 {DESCRIPTION})
  %one = call ptr @place(ptr %w, i64 {ONE})
  %left = call ptr @place(ptr %w, i64 {LEFT})
  %right = call ptr @place(ptr %w, i64 {RIGHT})
  %zero = call ptr @place(ptr %w, i64 {ZERO})
  %out = call ptr @place(ptr %w, i64 {OUT})
  %algorithm = call ptr @place(ptr %w, i64 {ALGORITHM})
  %room = call ptr @place(ptr %w, i64 {ROOM})
  %size = call i64 @word(ptr %w, i64 {ROOM_SIZE})
  %set = call ptr @place(ptr %w, i64 {SET})
  %biased = icmp ne ptr %set, null
  br i1 %biased, label %bias, label %run
bias:
  %attribute = call i32 @narrow(ptr %w, i64 {ATTRIBUTE})
  %bias_at = getelementptr i64, ptr %w, i64 {BIAS}
  %refused = call i32 %set(ptr %description, i32 %attribute, ptr %bias_at, i64 8)
  %bad = icmp ne i32 %refused, 0
  br i1 %bad, label %told, label %run
told:
  ret i32 %refused
run:
  %code = call i32 %function(ptr %handle, ptr %description, ptr %one, ptr %b, ptr %left, ptr %a, ptr %right, ptr %zero, ptr %c, ptr %out, ptr %c, ptr %out, ptr %algorithm, ptr %room, i64 %size, ptr %stream)
  ret i32 %code
}}
define ptr @entry(ptr %self, ptr %args, i64 %count) {{
start:
  %given = alloca [{MOST + 2} x i64]
  %asked = icmp eq i64 %count, 0
  br i1 %asked, label %tell, label %look
tell:
  %function_at = ptrtoint ptr @launch_record to i64
  %function = call ptr @PyLong_FromLongLong(i64 %function_at)
  ret ptr %function
look:
  %fits = icmp ule i64 %count, {MOST + 2}
  br i1 %fits, label %read, label %bad
read:
  %k = phi i64 [ 0, %look ], [ %k1, %kept ]
  %p = getelementptr ptr, ptr %args, i64 %k
  %o = load ptr, ptr %p
  %x = call i64 @PyLong_AsLongLong(ptr %o)
  %m = icmp eq i64 %x, -1
  br i1 %m, label %doubt, label %kept
doubt:
  %e = call ptr @PyErr_Occurred()
  %b = icmp ne ptr %e, null
  br i1 %b, label %bad, label %kept
bad:
  ret ptr null
kept:
  call void @put(ptr %given, i64 %k, i64 %x)
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, %count
  br i1 %more, label %read, label %run
run:
  %code = call i64 @launch_record(ptr %given)
  %told = call ptr @PyLong_FromLongLong(i64 %code)
  ret ptr %told
}}"""  # noqa: E501


@dataclass(frozen=True, slots=True)
class PlainLaunch:
    """A launch: a kernel's function, its sizes, and its words."""

    function: int
    across: int
    down: int
    threads: int  # 0: a product
    shared: int
    words: Sequence[int]
    hold: Any = None  # what its words are addresses of

    @property
    def is_product(self) -> bool:
        return not self.threads

    @property
    def is_biased(self) -> bool:
        return self.is_product and self.words[SET] != 0


@cache
def launch_all(launch_kernel: int) -> Callable[..., int]:
    """What launches all of a record: given its address, a stream and addresses.

    Given nothing, it tells where native code finds the same: a function of these words.
    """
    return HOOKS.native_entry("adjoint_launches", TEXT, {"cuLaunchKernel": launch_kernel})


def by_work(works: Works, patches: Patches) -> list[Patches]:
    """Of each launch what is put into its words: a word, which address, what is added to it."""
    starts = [start for _, _, start, _ in works]
    into: list[Patches] = [[] for _ in works]
    for which, at, plus in patches:
        n = bisect_right(starts, at) - 1
        into[n].append((at - starts[n], which, plus))
    return into


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """Launches in memory, as native code reads them (Note [native launches])."""

    words: Any  # int64s: launches one after the other, then what each is told
    launches: Sequence[PlainLaunch]  # which hold what words are addresses of
    heads: tuple[int, ...]  # where each launch begins
    told: tuple[int, ...]  # where what it is told begins

    @property
    def address(self) -> int:
        """Where it is."""
        return int(self.words.ctypes.data)

    def settle(self) -> None:
        """Have launches know where in memory what they are told is."""
        words, address = self.words, self.address
        for head, at in zip(self.heads, self.told, strict=True):
            words[head + TOLD] = address + 8 * at

    def patches(self, n: int) -> list[list[int]]:
        """What is put into the words of a launch: a word, which address, what is added to it."""
        start = self.heads[n] + HEAD
        end = start + 3 * int(self.words[start - HEAD + PATCHES])
        return self.words[start:end].reshape(-1, 3).tolist()


class NativeLaunches(NamedTuple):
    """What launches all of a program's kernels."""

    run: Callable[..., int]  # given the record's address, a stream and addresses: an error, or 0
    record: LaunchRecord
    refused: Callable[[int, Callable[[], int]], None]  # what deals with an error; tries again


def recorded(launches: Sequence[PlainLaunch], patches: Sequence[Patches]) -> LaunchRecord:
    """A record of launches: of each also (word, which address, what is added to it)."""
    words = [len(launches), int(any(launch.is_biased for launch in launches))]
    heads, told = [], []
    for launch, into in zip(launches, patches, strict=True):
        heads.append(len(words))
        words += [launch.function, launch.across, launch.down, launch.threads, launch.shared]
        words += [len(launch.words), len(into), 0]
        for word, which, shift in into:
            words += [word, which + 2, shift]  # after the record and the stream
    for launch in launches:
        told.append(len(words))
        words += launch.words
    record = LaunchRecord(np.array(words, np.int64), launches, tuple(heads), tuple(told))
    record.settle()
    return record


def kernel_address(function: Any) -> int:
    """Where a function of a library's is."""
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)
