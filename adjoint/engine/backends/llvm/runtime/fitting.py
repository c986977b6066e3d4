"""Whether the arguments of a call are like those of a recording, as native code.

In Python the look at a tensor takes a microsecond: NumPy makes tuples of an array's sizes and
strides each time it is asked. Here the words of the objects themselves are compared. It says yes
only where the test in Python does (`capture.signature.Arguments`, `capture.program.straight`); what
it does not know (views, tensors that need gradients, equal numbers that are two objects) it leaves
to that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from adjoint.engine.backends.llvm.runtime import fastcall, library
from adjoint.engine.backends.llvm.runtime.peeking import (
    COUNTED,
    DTYPE,
    HEAD,
    OWNER,
    RANK,
    SAME_WORDS,
    SIZES,
    STRIDES,
    arrays_are_laid_out,
)
from adjoint.engine.core.object_layout import slot_offset, type_offset
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import Tensor

Fits = Callable[[tuple[Any, ...]], bool]
MOST = 16  # tensors among the arguments
# The table begins with how many arguments there are, then how many buffers, tensors and owners of
# memory no argument may be or have, and these; then comes each argument: of a tensor its class,
# dtype, rank, whether it must not have been asked for gradients, sizes and strides; of anything
# else 0 and the object.
_COUNTS = 4
_TEXT = (
    SAME_WORDS
    + """
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PyLong_AsLongLong(ptr)
declare void @Py_IncRef(ptr)
@true = external global i8
@false = external global i8
@none = external global i8
@ndarray = external global i8
@Storage = external global i8
define internal i1 @among(i64 %word, ptr %words, i64 %count) {
entry:
  br label %next
next:
  %k = phi i64 [0, %entry], [%kNext, %each]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %no
each:
  %at = getelementptr i64, ptr %words, i64 %k
  %other = load i64, ptr %at
  %kNext = add i64 %k, 1
  %same = icmp eq i64 %word, %other
  br i1 %same, label %yes, label %next
yes:
  ret i1 true
no:
  ret i1 false
}
define internal ptr @slot(ptr %x, i64 %offset) alwaysinline {
  %at = getelementptr i8, ptr %x, i64 %offset
  %held = load ptr, ptr %at
  ret ptr %held
}
define internal i1 @fit(ptr %table, ptr %args) {
entry:
  %memories = alloca [MOST x i64]
  %count = load i64, ptr %table
  %statesAt = getelementptr i64, ptr %table, i64 1
  %states = load i64, ptr %statesAt
  %apartAt = getelementptr i64, ptr %table, i64 2
  %apart = load i64, ptr %apartAt
  %ownersAt = getelementptr i64, ptr %table, i64 3
  %owners = load i64, ptr %ownersAt
  %stateWords = getelementptr i64, ptr %table, i64 COUNTS
  %apartWords = getelementptr i64, ptr %stateWords, i64 %states
  %ownerWords = getelementptr i64, ptr %apartWords, i64 %apart
  %first = getelementptr i64, ptr %ownerWords, i64 %owners
  %size = call i64 @PyTuple_Size(ptr %args)
  %sized = icmp eq i64 %size, %count
  br i1 %sized, label %next, label %no
next:
  %k = phi i64 [0, %entry], [%kNext, %literal], [%kNext, %keep]
  %row = phi ptr [%first, %entry], [%afterLiteral, %literal], [%afterTensor, %keep]
  %tensors = phi i64 [0, %entry], [%tensors, %literal], [%tensorsNext, %keep]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %yes
each:
  %kNext = add i64 %k, 1
  %x = call ptr @PyTuple_GetItem(ptr %args, i64 %k)
  %class = load i64, ptr %row
  %afterLiteral = getelementptr i64, ptr %row, i64 2
  %is.literal = icmp eq i64 %class, 0
  br i1 %is.literal, label %literal, label %tensor
literal:
  %wantedAt = getelementptr i64, ptr %row, i64 1
  %wanted = load ptr, ptr %wantedAt
  %it = icmp eq ptr %wanted, %x
  br i1 %it, label %next, label %no
tensor:
  %classOfX = call ptr @slot(ptr %x, i64 TYPE)
  %classWord = ptrtoint ptr %classOfX to i64
  %classed = icmp eq i64 %classWord, %class
  br i1 %classed, label %plain, label %no
plain:
  %needs = call ptr @slot(ptr %x, i64 REQUIRES_GRAD)
  %base = call ptr @slot(ptr %x, i64 BASE)
  %array = call ptr @slot(ptr %x, i64 ARRAY)
  %storage = call ptr @slot(ptr %x, i64 STORAGE)
  %isFree = icmp eq ptr %needs, @false
  %isRoot = icmp eq ptr %base, @none
  %hasArray = icmp ne ptr %array, null
  %hasStorage = icmp ne ptr %storage, null
  %p0 = and i1 %isFree, %isRoot
  %p1 = and i1 %hasArray, %hasStorage
  %p2 = and i1 %p0, %p1
  br i1 %p2, label %laid, label %no
laid:
  %dtypeAt = getelementptr i64, ptr %row, i64 1
  %dtype = load ptr, ptr %dtypeAt
  %rankAt = getelementptr i64, ptr %row, i64 2
  %rank = load i64, ptr %rankAt
  %unaskedAt = getelementptr i64, ptr %row, i64 3
  %unasked = load i64, ptr %unaskedAt
  %sizes = getelementptr i64, ptr %row, i64 4
  %strides = getelementptr i64, ptr %sizes, i64 %rank
  %afterTensor = getelementptr i64, ptr %strides, i64 %rank
  %classOfArray = call ptr @slot(ptr %array, i64 TYPE)
  %classOfStorage = call ptr @slot(ptr %storage, i64 TYPE)
  %isArray = icmp eq ptr %classOfArray, @ndarray
  %isStorage = icmp eq ptr %classOfStorage, @Storage
  %l0 = and i1 %isArray, %isStorage
  br i1 %l0, label %kind, label %no
kind:
  %dtypeNow = call ptr @slot(ptr %array, i64 DTYPE)
  %rankNowAt = getelementptr i8, ptr %array, i64 RANK
  %rankNow32 = load i32, ptr %rankNowAt
  %rankNow = sext i32 %rankNow32 to i64
  %meta = call ptr @slot(ptr %x, i64 GRAD_META)
  %isDtype = icmp eq ptr %dtypeNow, %dtype
  %isRank = icmp eq i64 %rankNow, %rank
  %isUnasked = icmp eq ptr %meta, @none
  %mayBe = icmp eq i64 %unasked, 0
  %asked = or i1 %isUnasked, %mayBe
  %k0 = and i1 %isDtype, %isRank
  %k1 = and i1 %k0, %asked
  br i1 %k1, label %layout, label %no
layout:
  %sizesNow = call ptr @slot(ptr %array, i64 SIZES)
  %stridesNow = call ptr @slot(ptr %array, i64 STRIDES)
  %isSized = call i1 @same_words(ptr %sizes, ptr %sizesNow, i64 %rank)
  %isLaid = call i1 @same_words(ptr %strides, ptr %stridesNow, i64 %rank)
  %y0 = and i1 %isSized, %isLaid
  br i1 %y0, label %memory, label %no
memory:
  %buffer = call ptr @slot(ptr %storage, i64 BUFFER)
  %version = call ptr @slot(ptr %storage, i64 VERSION)
  %hasBuffer = icmp ne ptr %buffer, null
  %hasVersion = icmp ne ptr %version, null
  %symbolic = icmp ne ptr %buffer, @none
  %m0 = and i1 %hasBuffer, %hasVersion
  %m1 = and i1 %m0, %symbolic
  br i1 %m1, label %apartness, label %no
apartness:
  %xWord = ptrtoint ptr %x to i64
  %bufferWord = ptrtoint ptr %buffer to i64
  %count.written = call i64 @PyLong_AsLongLong(ptr %version)
  %isOld = icmp slt i64 %count.written, 0
  %isState = call i1 @among(i64 %bufferWord, ptr %stateWords, i64 %states)
  %isReached = call i1 @among(i64 %xWord, ptr %apartWords, i64 %apart)
  %isGiven = call i1 @among(i64 %bufferWord, ptr %memories, i64 %tensors)
  %a0 = or i1 %isState, %isReached
  %a1 = or i1 %a0, %isGiven
  %a2 = or i1 %a1, %isOld
  br i1 %a2, label %no, label %owner
owner:
  %part = call ptr @slot(ptr %array, i64 OWNER)
  %whole = icmp eq ptr %part, null
  br i1 %whole, label %owned, label %partial
partial:
  %classOfPart = call ptr @slot(ptr %part, i64 TYPE)
  %isPart = icmp eq ptr %classOfPart, @ndarray
  br i1 %isPart, label %further, label %no
further:
  %further.part = call ptr @slot(ptr %part, i64 OWNER)
  %isEnd = icmp eq ptr %further.part, null
  br i1 %isEnd, label %owned, label %no
owned:
  %root = phi ptr [%array, %owner], [%part, %further]
  %rootWord = ptrtoint ptr %root to i64
  %isOwner = call i1 @among(i64 %rootWord, ptr %ownerWords, i64 %owners)
  br i1 %isOwner, label %no, label %keep
keep:
  %place = getelementptr i64, ptr %memories, i64 %tensors
  store i64 %bufferWord, ptr %place
  %tensorsNext = add i64 %tensors, 1
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}
define ptr @fits(ptr %self, ptr %args) {
  %kept = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %array = call ptr @PyTuple_GetItem(ptr %kept, i64 0)
  %table = call ptr @slot(ptr %array, i64 HEAD)
  %fit = call i1 @fit(ptr %table, ptr %args)
  %answer = select i1 %fit, ptr @true, ptr @false
  call void @Py_IncRef(ptr %answer)
  ret ptr %answer
}
"""
)


@cache
def _code() -> Any:
    """The native code; None where objects are laid out otherwise than it expects."""
    where = type_offset()
    names = ("_requires_grad", "_base", "_array", "_storage", "_grad_meta")
    found = [slot_offset(Tensor.__dict__[name]) for name in names]
    found += [slot_offset(Storage.__dict__[name]) for name in ("buffer", "version")]
    words = "REQUIRES_GRAD BASE ARRAY STORAGE GRAD_META BUFFER VERSION".split()
    offsets = {word: at for word, at in zip(words, found, strict=True) if at is not None}
    if not COUNTED or where is None or len(offsets) < len(words) or not arrays_are_laid_out():
        return None
    numbers = {"TYPE": where, "MOST": MOST, "COUNTS": _COUNTS, "HEAD": HEAD} | offsets
    numbers |= {"RANK": RANK, "SIZES": SIZES, "STRIDES": STRIDES, "OWNER": OWNER, "DTYPE": DTYPE}
    pattern = rf"\b({'|'.join(numbers)})\b"
    text = re.sub(pattern, lambda name: str(numbers[name[0]]), _TEXT)
    symbols = fastcall.interpreter() | {
        "true": id(True), "false": id(False), "none": id(None), "ndarray": id(np.ndarray),
        "Storage": id(Storage),
    }  # fmt: skip
    return library.linked("fitting", text, symbols)


def make_fits(
    wanted: Sequence[tuple[Any, ...]],
    states: frozenset[int],
    apart: frozenset[int],
    owners: frozenset[int],
    unasked: frozenset[int],
) -> Fits | None:
    """The test for arguments like `wanted` (`Arguments.wanted`); None where it would always fail.

    Args:
        wanted: of each argument its class, sizes, strides, dtype, flag and class of array.
        states: buffers that no argument may have, by identity.
        apart: tensors that no argument may be.
        owners: owners of memory of which no argument may be a part.
        unasked: positions of tensors that must never have had a gradient or hook.
    """
    code = _code()
    tensors = [row for row in wanted if row[5] is not None]
    if code is None or len(tensors) > MOST:
        return None
    if any(row[4] or row[5] is not np.ndarray for row in tensors):
        return None
    words = [len(wanted), len(states), len(apart), len(owners), *states, *apart, *owners]
    for i, (kind, shape, strides, dtype, _, on) in enumerate(wanted):
        if on is None:
            words += [0, id(shape)]
        else:
            words += [id(kind), id(dtype), len(shape), i in unasked, *shape, *strides]
    keep = (np.array(words, np.int64), code, tuple(wanted))
    return fastcall.builtin(code.address("fits"), name="fits", keep=keep)
