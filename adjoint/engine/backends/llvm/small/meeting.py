"""Finding the program of a small operation, natively: which of several its operands fit.

Note [meeting]
    To write down of what kind operands are takes Python longer than the operation. So the programs
    of a record, or of a rule, that are walked lie in a list, and native code compares: classes and
    layouts of the operands' arrays, literals, parameters, all with their types. What it cannot
    compare safely does not fit, and is looked for in Python. Where one fits, it is run at once.

    Making the results may have the collector run, and with it any Python code, which may give an
    operand other memory. So operands are looked at once more when the results are there.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from adjoint.engine.backends.llvm.runtime.peeking import (
    DTYPE,
    HEAD,
    RANK,
    SIZES,
    STRIDES,
    arrays_are_laid_out,
)
from adjoint.engine.backends.llvm.small import comparing, searching
from adjoint.engine.backends.llvm.small.comparing import NDARRAY, NONE, WANTED, ArrayText
from adjoint.engine.backends.llvm.small.searching import OPERANDS, PARAMETERS, REST, search
from adjoint.engine.core.object_layout import word_at
from adjoint.engine.core.spec import Size, Spec
from adjoint.engine.tensor.tensor import Tensor, wrap

# How arrays of NumPy are looked at.
ARRAYS = ArrayText(
    NDARRAY,
    WANTED,
    rank=f"""
  %rankAt = getelementptr i8, ptr %array, i64 {RANK}
  %rank32 = load i32, ptr %rankAt
  %rank = sext i32 %rank32 to i64""",
    kind=f"""
  %dtypeAt = getelementptr i8, ptr %array, i64 {DTYPE}
  %dtype = load i64, ptr %dtypeAt""",
    sizes_and_strides=f"""
  %sizesAt = getelementptr i8, ptr %array, i64 {SIZES}
  %sizes = load ptr, ptr %sizesAt
  %stridesAt = getelementptr i8, ptr %array, i64 {STRIDES}
  %strides = load ptr, ptr %stridesAt""",
    address=f"""
  %dataAt = getelementptr i8, ptr %held, i64 {HEAD}
  %data = load i64, ptr %dataAt""",
)

RUN = """
  %wordsObject = call ptr @PyTuple_GetItem(ptr %program, i64 0)
  %unwritten = icmp eq ptr %wordsObject, %absent
  br i1 %unwritten, label %none, label %written
written:
  %out = call ptr @results_of(ptr %program, ptr %operands, ptr %slots)
  ret ptr %out"""


def array_offset() -> int | None:
    """Where tensors keep their arrays, tried."""
    samples = [wrap(np.zeros(k)) for k in range(3)]
    offsets = [
        offset
        for offset in range(HEAD, Tensor.__basicsize__, 8)
        if all(word_at(id(t) + offset) == id(t._array) for t in samples)
    ]
    return offsets[0] if len(offsets) == 1 else None


@cache
def world() -> Any:
    """The words of the world; None where objects are laid out otherwise."""
    offset = array_offset()
    if offset is None or not arrays_are_laid_out():
        return None
    known = (Tensor, np.ndarray, float, int, str, tuple, Spec, Size, list)
    return np.array([*map(id, known), offset, id(None), 0], np.int64)


def text() -> str:
    """The functions."""
    return f"""{comparing.text(ARRAYS)}{searching.text(ARRAYS)}
define ptr @results_of(ptr %program, ptr %operands, ptr %slots) {{
entry:
  %words = call ptr @words_of(ptr %program, i64 0)
  %wanted = call ptr @words_of(ptr %program, i64 1)
  %tensorsAt = getelementptr i64, ptr %wanted, i64 1
  %tensors = load i64, ptr %tensorsAt
  %firstSlot = add i64 %tensors, 1
  %makers = call ptr @PyTuple_GetItem(ptr %program, i64 6)
  %noneAt = getelementptr ptr, ptr @world, i64 {NONE}
  %none = load ptr, ptr %noneAt
  %count = call i64 @PyTuple_Size(ptr %makers)
  %results = call ptr @PyTuple_New(i64 %count)
  %failed = icmp eq ptr %results, null
  br i1 %failed, label %error, label %next
next:
  %k = phi i64 [0, %entry], [%kNext, %gap], [%kNext, %keep]
  %slot = phi i64 [%firstSlot, %entry], [%slot, %gap], [%slotNext, %keep]
  %kNext = add i64 %k, 1
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %run
each:
  %maker = call ptr @PyTuple_GetItem(ptr %makers, i64 %k)
  %is.gap = icmp eq ptr %maker, %none
  br i1 %is.gap, label %gap, label %make
gap:
  call void @Py_IncRef(ptr %none)
  %g = call i32 @PyTuple_SetItem(ptr %results, i64 %k, ptr %none)
  br label %next
make:
  %function = call ptr @PyTuple_GetItem(ptr %maker, i64 0)
  %given = call ptr @PyTuple_GetItem(ptr %maker, i64 1)
  %made = call ptr @PyObject_Call(ptr %function, ptr %given, ptr null)
  %is.made = icmp ne ptr %made, null
  br i1 %is.made, label %keep, label %drop
keep:
  %dataAt = getelementptr i8, ptr %made, i64 {HEAD}
  %data = load i64, ptr %dataAt
  %slotAt = getelementptr i64, ptr %slots, i64 %slot
  store i64 %data, ptr %slotAt
  %slotNext = add i64 %slot, 1
  %h = call i32 @PyTuple_SetItem(ptr %results, i64 %k, ptr %made)
  br label %next
run:
  %still = call i1 @operands_fit(ptr %program, ptr %operands, ptr %slots)
  br i1 %still, label %walk, label %unknown
walk:
  %wrong = call i64 @carry_out(ptr %words, ptr %slots, i64 %slot)
  %fine = icmp eq i64 %wrong, 0
  br i1 %fine, label %done, label %unknown
done:
  ret ptr %results
unknown:
  call void @Py_DecRef(ptr %results)
  call void @Py_IncRef(ptr %none)
  ret ptr %none
drop:
  call void @Py_DecRef(ptr %results)
  br label %error
error:
  ret ptr null
}}
{search("meet", (OPERANDS, PARAMETERS, REST), RUN)}"""
