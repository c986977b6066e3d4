"""Memory filled, copied or joined by all workers: each takes an equal part of it, or of its rows.

Elements are written and copied by lines of the cache, each as many registers as the processor needs
for one. One core writes about half of what two can. These kernels only move bytes, so what they
leave behind is what one thread would.
"""

from __future__ import annotations

import threading
from array import array
from functools import cache, lru_cache

from adjoint.engine.backends.array.memory.filling import FilledRows
from adjoint.engine.backends.llvm.runtime import library
from adjoint.engine.backends.llvm.runtime.jit import LinkedCode
from adjoint.engine.backends.llvm.runtime.peeking import quick_address
from adjoint.engine.backends.llvm.runtime.pool import DriverStep, DriverTable, the_pool
from adjoint.engine.backends.threads import present_threads
from adjoint.engine.core.operations.record import HOOKS

PART = 1 << 16  # bytes that are worth a worker: handing it a part takes some microseconds
LINE = 64  # parts begin at multiples of it, so that each begins with a whole pattern
PATTERN = 16  # bytes that are written again and again
LINE_OF_PATTERNS = f"<8 x i32> <{', '.join(f'i32 {k % 2}' for k in range(8))}>"
WORDS = 13  # of the kernel that takes most
PIECE = 4  # words of a piece: where from, how far to its next row, bytes of a row, where in a row

# Words: where to, how many bytes, where from (a copy), one byte or -1 (a fill), the pattern. To
# join: where to, how far to the next row, rows, pieces, where these are told of. To fill rows:
# where to, how far to the next row, rows of a matrix, how far to the next matrix, matrices, one
# byte or -1, the pattern, bytes of a row, and where in the first row of a matrix writing begins and
# ends, each with how much further on it is from row to row.
_TEXT = f"""
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)

define internal {{ ptr, i64, i64 }} @part(ptr %words, i64 %worker, i64 %workers) {{
  %to = load ptr, ptr %words
  %bytes.p = getelementptr i64, ptr %words, i64 1
  %bytes = load i64, ptr %bytes.p
  %each = udiv i64 %bytes, %workers
  %next = add i64 %each, {LINE}
  %whole = and i64 %next, -{LINE}
  %reached = mul i64 %whole, %worker
  %beyond = icmp ugt i64 %reached, %bytes
  %begin = select i1 %beyond, i64 %bytes, i64 %reached
  %left = sub i64 %bytes, %begin
  %short = icmp ult i64 %left, %whole
  %size = select i1 %short, i64 %left, i64 %whole
  %at = getelementptr i8, ptr %to, i64 %begin
  %a = insertvalue {{ ptr, i64, i64 }} poison, ptr %at, 0
  %b = insertvalue {{ ptr, i64, i64 }} %a, i64 %size, 1
  %c = insertvalue {{ ptr, i64, i64 }} %b, i64 %begin, 2
  ret {{ ptr, i64, i64 }} %c
}}

define void @copy(ptr %words, i64 %worker, i64 %workers) {{
  %part = call {{ ptr, i64, i64 }} @part(ptr %words, i64 %worker, i64 %workers)
  %to = extractvalue {{ ptr, i64, i64 }} %part, 0
  %size = extractvalue {{ ptr, i64, i64 }} %part, 1
  %begin = extractvalue {{ ptr, i64, i64 }} %part, 2
  %from.p = getelementptr i64, ptr %words, i64 2
  %from = load ptr, ptr %from.p
  %source = getelementptr i8, ptr %from, i64 %begin
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %source, i64 %size, i1 false)
  ret void
}}

define internal void @put_pattern(ptr %to, i64 %from, i64 %size, ptr %pattern.p) {{
entry:
  %pattern = load <2 x i64>, ptr %pattern.p, align 8
  %length = sub i64 %size, %from
  %several = and i64 %length, -{PATTERN}
  %last = add i64 %from, %several
  br label %line
line:
  %i = phi i64 [%from, %entry], [%i1, %write]
  %more = icmp ult i64 %i, %last
  br i1 %more, label %write, label %rest
write:
  %p = getelementptr i8, ptr %to, i64 %i
  store <2 x i64> %pattern, ptr %p, align 1
  %i1 = add i64 %i, {PATTERN}
  br label %line
rest:
  %j = phi i64 [%last, %line], [%j1, %single]
  %some = icmp ult i64 %j, %size
  br i1 %some, label %single, label %end
single:
  %within = and i64 %j, {PATTERN - 1}
  %b.p = getelementptr i8, ptr %pattern.p, i64 %within
  %b = load i8, ptr %b.p
  %q = getelementptr i8, ptr %to, i64 %j
  store i8 %b, ptr %q
  %j1 = add i64 %j, 1
  br label %rest
end:
  ret void
}}

define void @fill(ptr %words, i64 %worker, i64 %workers) {{
entry:
  %part = call {{ ptr, i64, i64 }} @part(ptr %words, i64 %worker, i64 %workers)
  %to = extractvalue {{ ptr, i64, i64 }} %part, 0
  %size = extractvalue {{ ptr, i64, i64 }} %part, 1
  %one.p = getelementptr i64, ptr %words, i64 2
  %one = load i64, ptr %one.p
  %pattern.p = getelementptr i64, ptr %words, i64 3
  %alike = icmp sge i64 %one, 0
  br i1 %alike, label %bytes, label %lines
bytes:
  %byte = trunc i64 %one to i8
  call void @llvm.memset.p0.i64(ptr %to, i8 %byte, i64 %size, i1 false)
  ret void
lines:
  %pattern = load <2 x i64>, ptr %pattern.p, align 8
  %pattern.line = shufflevector <2 x i64> %pattern, <2 x i64> poison, {LINE_OF_PATTERNS}
  %place = ptrtoint ptr %to to i64
  %before = sub i64 0, %place
  %head.bytes = and i64 %before, {LINE - 1}
  %within = and i64 %before, {PATTERN - 1}
  %whole = icmp eq i64 %within, 0
  %head.size = call i64 @llvm.smin.i64(i64 %head.bytes, i64 %size)
  %head = select i1 %whole, i64 %head.size, i64 0
  call void @put_pattern(ptr %to, i64 0, i64 %head, ptr %pattern.p)
  %after = sub i64 %size, %head
  %lined = and i64 %after, -{LINE}
  %last = add i64 %head, %lined
  br label %line
line:
  %i = phi i64 [%head, %lines], [%i1, %write]
  %more = icmp ult i64 %i, %last
  br i1 %more, label %write, label %rest
write:
  %p = getelementptr i8, ptr %to, i64 %i
  store <8 x i64> %pattern.line, ptr %p, align 1
  %i1 = add i64 %i, {LINE}
  br label %line
rest:
  call void @put_pattern(ptr %to, i64 %last, i64 %size, ptr %pattern.p)
  ret void
}}

define void @fill_rows(ptr %words, i64 %worker, i64 %workers) {{
entry:
  %to = load ptr, ptr %words
  %step.p = getelementptr i64, ptr %words, i64 1
  %step = load i64, ptr %step.p
  %rows.p = getelementptr i64, ptr %words, i64 2
  %rows = load i64, ptr %rows.p
  %apart.p = getelementptr i64, ptr %words, i64 3
  %apart = load i64, ptr %apart.p
  %matrices.p = getelementptr i64, ptr %words, i64 4
  %matrices = load i64, ptr %matrices.p
  %one.p = getelementptr i64, ptr %words, i64 5
  %one = load i64, ptr %one.p
  %pattern.p = getelementptr i64, ptr %words, i64 6
  %width.p = getelementptr i64, ptr %words, i64 8
  %width = load i64, ptr %width.p
  %begin.p = getelementptr i64, ptr %words, i64 9
  %begin = load i64, ptr %begin.p
  %later.p = getelementptr i64, ptr %words, i64 10
  %later = load i64, ptr %later.p
  %end.p = getelementptr i64, ptr %words, i64 11
  %end = load i64, ptr %end.p
  %longer.p = getelementptr i64, ptr %words, i64 12
  %longer = load i64, ptr %longer.p
  %all = mul i64 %rows, %matrices
  %alike = icmp sge i64 %one, 0
  %byte = trunc i64 %one to i8
  br label %row
row:
  %r = phi i64 [%worker, %entry], [%r1, %next.row]
  %more.rows = icmp ult i64 %r, %all
  br i1 %more.rows, label %in.row, label %done
in.row:
  %matrix = udiv i64 %r, %rows
  %before = mul i64 %matrix, %rows
  %i = sub i64 %r, %before
  %to.matrix = mul i64 %matrix, %apart
  %to.row = mul i64 %i, %step
  %offset = add i64 %to.matrix, %to.row
  %further = mul i64 %i, %later
  %first.any = add i64 %begin, %further
  %first.least = call i64 @llvm.smax.i64(i64 %first.any, i64 0)
  %longest = mul i64 %i, %longer
  %last.any = add i64 %end, %longest
  %last = call i64 @llvm.smin.i64(i64 %last.any, i64 %width)
  %some = icmp slt i64 %first.least, %last
  br i1 %some, label %write.row, label %next.row
write.row:
  %size = sub i64 %last, %first.least
  %place = add i64 %offset, %first.least
  %at = getelementptr i8, ptr %to, i64 %place
  br i1 %alike, label %bytes, label %lines
bytes:
  call void @llvm.memset.p0.i64(ptr %at, i8 %byte, i64 %size, i1 false)
  br label %next.row
lines:
  call void @put_pattern(ptr %at, i64 0, i64 %size, ptr %pattern.p)
  br label %next.row
next.row:
  %r1 = add i64 %r, %workers
  br label %row
done:
  ret void
}}

define void @join(ptr %words, i64 %worker, i64 %workers) {{
entry:
  %to = load ptr, ptr %words
  %step.p = getelementptr i64, ptr %words, i64 1
  %step = load i64, ptr %step.p
  %rows.p = getelementptr i64, ptr %words, i64 2
  %rows = load i64, ptr %rows.p
  %pieces.p = getelementptr i64, ptr %words, i64 3
  %pieces = load i64, ptr %pieces.p
  %table.p = getelementptr i64, ptr %words, i64 4
  %table = load ptr, ptr %table.p
  %most = add i64 %rows, %workers
  %up = sub i64 %most, 1
  %each = udiv i64 %up, %workers
  %begin = mul i64 %each, %worker
  %reach = add i64 %begin, %each
  %beyond = icmp ugt i64 %reach, %rows
  %last = select i1 %beyond, i64 %rows, i64 %reach
  br label %row
row:
  %r = phi i64 [%begin, %entry], [%r1, %next.row]
  %more.rows = icmp ult i64 %r, %last
  br i1 %more.rows, label %in.row, label %end
in.row:
  %row.offset = mul i64 %r, %step
  %row.to = getelementptr i8, ptr %to, i64 %row.offset
  br label %piece
piece:
  %k = phi i64 [0, %in.row], [%k1, %next.piece]
  %more.pieces = icmp ult i64 %k, %pieces
  br i1 %more.pieces, label %in.piece, label %next.row
in.piece:
  %at = mul i64 %k, {PIECE}
  %from.p = getelementptr i64, ptr %table, i64 %at
  %from = load ptr, ptr %from.p
  %own.p = getelementptr i64, ptr %from.p, i64 1
  %own = load i64, ptr %own.p
  %size.p = getelementptr i64, ptr %from.p, i64 2
  %size = load i64, ptr %size.p
  %place.p = getelementptr i64, ptr %from.p, i64 3
  %place = load i64, ptr %place.p
  %from.offset = mul i64 %r, %own
  %source = getelementptr i8, ptr %from, i64 %from.offset
  %target = getelementptr i8, ptr %row.to, i64 %place
  %wide = and i64 %size, -16
  %lines = and i64 %size, -{LINE}
  br label %by.line
by.line:
  %l = phi i64 [0, %in.piece], [%l1, %copy.line]
  %more.lines = icmp ult i64 %l, %lines
  br i1 %more.lines, label %copy.line, label %by.16
copy.line:
  %sl = getelementptr i8, ptr %source, i64 %l
  %tl = getelementptr i8, ptr %target, i64 %l
  %vl = load <8 x i64>, ptr %sl, align 1
  store <8 x i64> %vl, ptr %tl, align 1
  %l1 = add i64 %l, {LINE}
  br label %by.line
by.16:
  %i = phi i64 [%lines, %by.line], [%i1, %copy.16]
  %more.16 = icmp ult i64 %i, %wide
  br i1 %more.16, label %copy.16, label %if.8
copy.16:
  %s16 = getelementptr i8, ptr %source, i64 %i
  %t16 = getelementptr i8, ptr %target, i64 %i
  %v16 = load <2 x i64>, ptr %s16, align 1
  store <2 x i64> %v16, ptr %t16, align 1
  %i1 = add i64 %i, 16
  br label %by.16
if.8:
  %half = and i64 %size, 8
  %has.8 = icmp ne i64 %half, 0
  br i1 %has.8, label %copy.8, label %if.4
copy.8:
  %s8 = getelementptr i8, ptr %source, i64 %wide
  %t8 = getelementptr i8, ptr %target, i64 %wide
  %v8 = load i64, ptr %s8, align 1
  store i64 %v8, ptr %t8, align 1
  br label %if.4
if.4:
  %done.8 = add i64 %wide, %half
  %quarter = and i64 %size, 4
  %has.4 = icmp ne i64 %quarter, 0
  br i1 %has.4, label %copy.4, label %by.1
copy.4:
  %s4 = getelementptr i8, ptr %source, i64 %done.8
  %t4 = getelementptr i8, ptr %target, i64 %done.8
  %v4 = load i32, ptr %s4, align 1
  store i32 %v4, ptr %t4, align 1
  br label %by.1
by.1:
  %done.4 = add i64 %done.8, %quarter
  br label %byte
byte:
  %j = phi i64 [%done.4, %by.1], [%j1, %copy.1]
  %more.1 = icmp ult i64 %j, %size
  br i1 %more.1, label %copy.1, label %next.piece
copy.1:
  %s1 = getelementptr i8, ptr %source, i64 %j
  %t1 = getelementptr i8, ptr %target, i64 %j
  %v1 = load i8, ptr %s1
  store i8 %v1, ptr %t1
  %j1 = add i64 %j, 1
  br label %byte
next.piece:
  %k1 = add i64 %k, 1
  br label %piece
next.row:
  %r1 = add i64 %r, 1
  br label %row
end:
  ret void
}}
"""


class MemoryMoves(threading.local):
    """The kernels with argument words of one thread's own: a call lets go of the GIL."""

    def __init__(self) -> None:
        self.words = array("q", [0] * WORDS)
        code, where = _code(), self.words.buffer_info()[0]
        self.fill = DriverTable([DriverStep(code.address("fill"), where)])
        self.fill_rows = DriverTable([DriverStep(code.address("fill_rows"), where)])
        self.copy = DriverTable([DriverStep(code.address("copy"), where)])
        self.join = DriverTable([DriverStep(code.address("join"), where)])
        if HOOKS.address is None:
            HOOKS.address = quick_address()  # of arrays to be moved, in a twentieth of the time

    def run(self, table: DriverTable, size: int) -> None:
        """Walk one of the tables with as many workers as its bytes are worth."""
        workers = max(1, min(present_threads(), size // PART))
        the_pool().run(table.address, table.count, workers)


@cache
def _code() -> LinkedCode:
    return library.linked("moves", _TEXT)


_moves = MemoryMoves()


@lru_cache(maxsize=1 << 6)
def pattern_words(element: bytes) -> array[int]:
    """The byte that all bytes of an element are, or -1, and the pattern of many of it."""
    alike = element.count(element[:1]) == len(element)
    words = array("q", [element[0] if alike else -1])
    words.frombytes(element * (PATTERN // len(element)))
    return words


def fill_memory(address: int, size: int, element: bytes) -> None:
    """Write the bytes of one element, whose number divides 16, again and again."""
    words = _moves.words
    words[0], words[1] = address, size
    words[2:5] = pattern_words(element)
    _moves.run(_moves.fill, size)


def fill_rows(address: int, rows: FilledRows, element: bytes) -> None:
    """Write the bytes of one element, whose number divides 16, in parts of rows."""
    words = _moves.words
    words[0], words[1], words[2] = address, rows.step, rows.rows
    words[3], words[4] = rows.apart, rows.matrices
    words[5:8] = pattern_words(element)
    words[8], words[9], words[10] = rows.width, rows.begin, rows.later
    words[11] = rows.width if rows.end is None else rows.end
    words[12] = rows.longer
    _moves.run(_moves.fill_rows, rows.width * rows.rows * rows.matrices)


def copy_memory(to: int, given: int, size: int) -> None:
    """Copy bytes to where others are."""
    words = _moves.words
    words[0], words[1], words[2] = to, size, given
    _moves.run(_moves.copy, size)


def join_memory(to: int, step: int, rows: int, pieces: array[int]) -> None:
    """Write rows of bytes, each of a row of every piece (`PIECE` words each), side by side."""
    words = _moves.words
    words[0], words[1], words[2] = to, step, rows
    words[3], words[4] = len(pieces) // PIECE, pieces.buffer_info()[0]
    _moves.run(_moves.join, step * rows)
