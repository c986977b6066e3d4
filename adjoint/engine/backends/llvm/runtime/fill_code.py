"""Filling in a call's addresses and numbers, as native code that walks a table.

It does what the function of `program.filling` does that is written for the task, where inputs are
arrays of NumPy's own class and floats, and nobody holds the arrays that results go into. Where
something is otherwise it says so, and that function does all of it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from adjoint.engine.backends.llvm.runtime import fastcall, library
from adjoint.engine.backends.llvm.runtime.peeking import COUNTED, HEAD, quick_address, slow_address
from adjoint.engine.core.object_layout import type_offset

UNHELD = 2  # references to an array that only its bank holds: two lists'
# The table: the address of the words, how many inputs, floats, arrays of results and words for
# those there are. Then each input: its number, how often it is put, then where and how far on; each
# float: its number, how often, where; the arrays; where their addresses go; the addresses.
_COUNTS = 5
_TEXT = """
declare ptr @PyList_GetItem(ptr, i64)
declare ptr @PyTuple_GetItem(ptr, i64)
declare double @PyFloat_AsDouble(ptr)
declare void @Py_IncRef(ptr)
@true = external global i8
@false = external global i8
@ndarray = external global i8
@float = external global i8
define internal i64 @word(ptr %words, i64 %k) alwaysinline {
  %at = getelementptr i64, ptr %words, i64 %k
  %word = load i64, ptr %at
  ret i64 %word
}
define internal ptr @class_of(ptr %x) alwaysinline {
  %at = getelementptr i8, ptr %x, i64 TYPE
  %class = load ptr, ptr %at
  ret ptr %class
}
define internal i1 @fill(ptr %table, ptr %inputs) {
entry:
  %wordsAt = call i64 @word(ptr %table, i64 0)
  %words = inttoptr i64 %wordsAt to ptr
  %inputCount = call i64 @word(ptr %table, i64 1)
  %floatCount = call i64 @word(ptr %table, i64 2)
  %arrayCount = call i64 @word(ptr %table, i64 3)
  %wordCount = call i64 @word(ptr %table, i64 4)
  %arrays = getelementptr i64, ptr %table, i64 COUNTS
  %places = getelementptr i64, ptr %arrays, i64 %arrayCount
  %values = getelementptr i64, ptr %places, i64 %wordCount
  %first = getelementptr i64, ptr %values, i64 %wordCount
  br label %held.next
held.next:
  %h = phi i64 [0, %entry], [%hNext, %held.each]
  %held.more = icmp slt i64 %h, %arrayCount
  br i1 %held.more, label %held.each, label %input.next
held.each:
  %hNext = add i64 %h, 1
  %arrayWord = call i64 @word(ptr %arrays, i64 %h)
  %array = inttoptr i64 %arrayWord to ptr
  %references = load i32, ptr %array
  %unheld = icmp eq i32 %references, UNHELD
  br i1 %unheld, label %held.next, label %no
input.next:
  %i = phi i64 [0, %held.next], [%iNext, %put.next]
  %row = phi ptr [%first, %held.next], [%put.row, %put.next]
  %input.more = icmp slt i64 %i, %inputCount
  br i1 %input.more, label %input.each, label %float.next
input.each:
  %iNext = add i64 %i, 1
  %number = call i64 @word(ptr %row, i64 0)
  %times = call i64 @word(ptr %row, i64 1)
  %puts = getelementptr i64, ptr %row, i64 2
  %x = call ptr @PyList_GetItem(ptr %inputs, i64 %number)
  %class = call ptr @class_of(ptr %x)
  %isArray = icmp eq ptr %class, @ndarray
  br i1 %isArray, label %input.put, label %no
input.put:
  %dataAt = getelementptr i8, ptr %x, i64 HEAD
  %data = load i64, ptr %dataAt
  br label %put.next
put.next:
  %p = phi i64 [0, %input.put], [%pNext, %put.each]
  %put.row = phi ptr [%puts, %input.put], [%put.after, %put.each]
  %put.more = icmp slt i64 %p, %times
  br i1 %put.more, label %put.each, label %input.next
put.each:
  %pNext = add i64 %p, 1
  %put.at = call i64 @word(ptr %put.row, i64 0)
  %shift = call i64 @word(ptr %put.row, i64 1)
  %put.after = getelementptr i64, ptr %put.row, i64 2
  %address = add i64 %data, %shift
  %put.place = getelementptr i64, ptr %words, i64 %put.at
  store i64 %address, ptr %put.place
  br label %put.next
float.next:
  %f = phi i64 [0, %input.next], [%fNext, %set.next]
  %float.row = phi ptr [%row, %input.next], [%set.row, %set.next]
  %float.more = icmp slt i64 %f, %floatCount
  br i1 %float.more, label %float.each, label %result.next
float.each:
  %fNext = add i64 %f, 1
  %float.number = call i64 @word(ptr %float.row, i64 0)
  %float.times = call i64 @word(ptr %float.row, i64 1)
  %sets = getelementptr i64, ptr %float.row, i64 2
  %y = call ptr @PyList_GetItem(ptr %inputs, i64 %float.number)
  %float.class = call ptr @class_of(ptr %y)
  %isFloat = icmp eq ptr %float.class, @float
  br i1 %isFloat, label %float.set, label %no
float.set:
  %double = call double @PyFloat_AsDouble(ptr %y)
  br label %set.next
set.next:
  %s = phi i64 [0, %float.set], [%sNext, %set.each]
  %set.row = phi ptr [%sets, %float.set], [%set.after, %set.each]
  %set.more = icmp slt i64 %s, %float.times
  br i1 %set.more, label %set.each, label %float.next
set.each:
  %sNext = add i64 %s, 1
  %set.at = call i64 @word(ptr %set.row, i64 0)
  %set.after = getelementptr i64, ptr %set.row, i64 1
  %set.place = getelementptr double, ptr %words, i64 %set.at
  store double %double, ptr %set.place
  br label %set.next
result.next:
  %r = phi i64 [0, %float.next], [%rNext, %result.each]
  %result.more = icmp slt i64 %r, %wordCount
  br i1 %result.more, label %result.each, label %yes
result.each:
  %rNext = add i64 %r, 1
  %result.at = call i64 @word(ptr %places, i64 %r)
  %result.value = call i64 @word(ptr %values, i64 %r)
  %result.place = getelementptr i64, ptr %words, i64 %result.at
  store i64 %result.value, ptr %result.place
  br label %result.next
yes:
  ret i1 true
no:
  ret i1 false
}
define ptr @fills(ptr %self, ptr %inputs) {
  %kept = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %array = call ptr @PyTuple_GetItem(ptr %kept, i64 0)
  %tableAt = getelementptr i8, ptr %array, i64 HEAD
  %table = load ptr, ptr %tableAt
  %filled = call i1 @fill(ptr %table, ptr %inputs)
  %answer = select i1 %filled, ptr @true, ptr @false
  call void @Py_IncRef(ptr %answer)
  ret ptr %answer
}
"""


class FilledInputs(NamedTuple):
    """Where inputs go: by number the words of an array and how far on, and those of a float."""

    arrays: dict[int, Sequence[tuple[int, int]]]
    floats: dict[int, Sequence[int]]


class FillTable:
    """What native code walks for one bank of results."""

    __slots__ = ("words",)

    def __init__(self, inputs: FilledInputs, at: Any, arrays: int, words: Any) -> None:
        rows: list[int] = []
        for number, puts in inputs.arrays.items():
            rows += [number, len(puts), *[word for put in puts for word in put]]
        for number, sets in inputs.floats.items():
            rows += [number, len(sets), *sets]
        counts = [words.ctypes.data, len(inputs.arrays), len(inputs.floats), arrays, len(at)]
        results = [*[0] * arrays, *at.tolist(), *[0] * len(at)]
        self.words = np.array([*counts, *results, *rows], np.int64)

    def hold(self, arrays: Sequence[Any], values: Any) -> None:
        """Note which arrays results go into, and what their words are; the caller keeps them."""
        count = len(arrays)
        self.words[_COUNTS : _COUNTS + count] = [id(array) for array in arrays]
        start = _COUNTS + count + len(values)
        self.words[start : start + len(values)] = values

    def function(self) -> Callable[[list[Any]], bool]:
        """Fills in what a call's inputs and results are; False where something is otherwise."""
        code = _code()
        keep = (self.words, code)
        return fastcall.builtin(code.address("fills"), name="fills", keep=keep)


@cache
def _code() -> Any:
    numbers = {"TYPE": type_offset(), "HEAD": HEAD, "COUNTS": _COUNTS, "UNHELD": UNHELD}
    pattern = rf"\b({'|'.join(numbers)})\b"
    text = re.sub(pattern, lambda name: str(numbers[name[0]]), _TEXT)
    symbols = fastcall.interpreter() | {
        "true": id(True), "false": id(False), "ndarray": id(np.ndarray), "float": id(float),
    }  # fmt: skip
    return library.linked("fill_code", text, symbols)


@cache
def can_fill() -> bool:
    """Whether objects are laid out as expected, tried on a few."""
    if not COUNTED or type_offset() is None or quick_address() is slow_address:
        return False
    words, result, given = np.zeros(4, np.int64), np.zeros(2), np.ones(3)
    inputs = FilledInputs({0: [(0, 0), (1, 8)]}, {1: [2]})
    table = FillTable(inputs, np.array([3]), 1, words)
    fills, held, twice = table.function(), [result], [result]
    address = slow_address(result)
    table.hold(held, np.array([address + 16]))
    del result
    before = [sys.getrefcount(x) for x in (given, *held)]
    if not fills([given, 0.5]) or fills([given, 1]) or fills([None, 0.5]):
        return False
    start = slow_address(given)
    right = words.tolist() == [start, start + 8, np.float64(0.5).view(np.int64), address + 16]
    twice.append(held[0])  # now somebody holds it
    right = right and not fills([given, 0.5])
    twice.pop()
    return right and before == [sys.getrefcount(x) for x in (given, *held)]
