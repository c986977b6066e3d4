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

from adjoint.engine.backends.llvm.ir.object_functions import ObjectFunction
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
from adjoint.engine.backends.registers.vector import V
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
    meet = search("meet", (OPERANDS, PARAMETERS, REST), RUN)
    return "\n".join((comparing.text(ARRAYS), searching.text(ARRAYS), _results_of(), meet))


def _results_of() -> str:
    """What a program's rows write to new arrays; None where operands are others by then, or a row
    fails."""
    f = ObjectFunction("results_of", "program", "operands", "slots")
    none = f.pointer("@world", NONE)
    failed, unknown = f.ending("failed", None), f.ending("unknown", none)
    words, wanted = (f.call("words_of", "%program", k) for k in (0, 1))
    makers = f.item("%program", 6)
    count = f.number("PyTuple_Size", makers)
    results = f.made("PyTuple_New", count, otherwise=failed)

    def put(k: V, slot: V) -> list[V]:
        maker = f.item(makers, k)

        def gap() -> list[V]:
            f.put(results, k, none)
            return [slot]

        def make() -> list[V]:
            array = f.made(
                "PyObject_Call", f.item(maker, 0), f.item(maker, 1), None, otherwise=failed
            )
            f.point("%slots", slot, f.pointer(f.place("i8", array, HEAD), 0))
            f.put(results, k, array)
            return [slot + 1]

        return f.choose(f.same(maker, none), gap, make)

    (slots,) = f.each(count, put, f.word(wanted, 1) + 1)
    f.check(f.truth("operands_fit", "%program", "%operands", "%slots"), unknown)
    f.check(f.number("carry_out", words, "%slots", slots).eq(0), unknown)
    f.tell(results)
    return f.text()
