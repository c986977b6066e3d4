"""Rows added to a table in its own memory, of any sizes: one function for each dtype.

A program is planned for its sizes, and gives back a table of its own. Where few rows of a long
table change (a sparse gradient, `index_add_`), copying it would take most of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from adjoint.engine.backends.llvm.runtime import fastcall, library
from adjoint.engine.backends.llvm.runtime.peeking import address_of
from adjoint.engine.backends.llvm.templates.rows.kernel import (
    PART,
    IndexWords,
    PutWords,
    rows_text,
)
from adjoint.engine.core.dtype import named

_FIRST = PutWords.word_count()
_WORDS = _FIRST + IndexWords.word_count()


def add_rows(tables: Any, rows: Any, index: Any, wrap: bool) -> bool:
    """Add row k to row index[k] of each table; False, and nothing is done, if one is out of bounds.

    Arrays of three dimensions and one, row after row in memory of their own, of a dtype that is
    `NATIVELY_ADDED`; each table has rows of its own.
    """
    count, size, length = tables.shape
    places = [address_of(a) for a in (tables, rows, index)]
    return _function(tables.dtype)(*places, len(index), length, size, int(wrap), count) == 0


@cache
def _function(dtype: Any) -> Callable[..., int]:
    kernel, declarations = rows_text("rows", named(dtype.name), 1, accumulate=True)
    text = "\n".join([*sorted(declarations), kernel, _entry(dtype)])
    code = library.linked("added rows", text)
    return fastcall.from_integers(code.address("added"), 8, name="add_rows", keep=code)


def _entry(dtype: Any) -> str:
    """All indices are looked at before anything is written. Rows of one element need no loops."""
    floats = dtype.kind == "f"
    kind = {4: "float", 8: "double"}[dtype.itemsize] if floats else f"i{8 * dtype.itemsize}"
    add = "fadd" if floats else "add"
    words = PutWords(
        out="%out", values="%values", count="%count", length="%length", parts="%parts",
        wrap="%wrap", status="%stated",
    ).listed()  # fmt: skip
    out_at, values_at = words.index("%out"), words.index("%values")
    words += IndexWords(index="%index", size="%size", fault="1").listed()
    stores = "\n".join(
        f"  %w{k} = getelementptr i64, ptr %words, i64 {k}\n  store i64 {word}, ptr %w{k}"
        for k, word in enumerate(words)
    )
    names = "out values index count length size wrap tables"
    arguments = ", ".join(f"i64 %{n}" for n in names.split())
    return f"""
define i64 @added({arguments}) {{
entry:
  %words = alloca [{_WORDS} x i64]
  %status = alloca i64
  %picks = inttoptr i64 %index to ptr
  %wraps = icmp ne i64 %wrap, 0
  %turn = select i1 %wraps, i64 %size, i64 0
  %most = add i64 %size, %turn
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %look, label %fine
look:
  %n = phi i64 [ 0, %entry ], [ %next, %inside ]
  %at = getelementptr i64, ptr %picks, i64 %n
  %given = load i64, ptr %at
  %from = add i64 %given, %turn
  %good = icmp ult i64 %from, %most
  br i1 %good, label %inside, label %bad
inside:
  %next = add i64 %n, 1
  %again = icmp slt i64 %next, %count
  br i1 %again, label %look, label %fine
bad:
  ret i64 1
fine:
  %alone = icmp eq i64 %length, 1
  %apart = mul i64 %size, %length
  %given.apart = mul i64 %count, %length
  store i64 0, ptr %status
  %stated = ptrtoint ptr %status to i64
  %over = add i64 %length, {PART - 1}
  %parts = udiv i64 %over, {PART}
{stores}
  br label %table.next
table.next:
  %t = phi i64 [ 0, %fine ], [ %t.next, %table.done ]
  %t.more = icmp slt i64 %t, %tables
  br i1 %t.more, label %table.each, label %done
table.each:
  %t.next = add i64 %t, 1
  %t.offset = mul i64 %t, %apart
  %t.given = mul i64 %t, %given.apart
  %whole = inttoptr i64 %out to ptr
  %whole.values = inttoptr i64 %values to ptr
  %table = getelementptr {kind}, ptr %whole, i64 %t.offset
  %given.values = getelementptr {kind}, ptr %whole.values, i64 %t.given
  br i1 %alone, label %element, label %rows
element:
  %e = phi i64 [ 0, %table.each ], [ %e.next, %each ]
  %e.more = icmp slt i64 %e, %count
  br i1 %e.more, label %each, label %table.done
each:
  %e.at = getelementptr i64, ptr %picks, i64 %e
  %e.pick = load i64, ptr %e.at
  %e.below = icmp slt i64 %e.pick, 0
  %e.turn = select i1 %e.below, i64 %size, i64 0
  %e.place = add i64 %e.pick, %e.turn
  %e.to = getelementptr {kind}, ptr %table, i64 %e.place
  %e.from = getelementptr {kind}, ptr %given.values, i64 %e
  %e.old = load {kind}, ptr %e.to
  %e.new = load {kind}, ptr %e.from
  %e.sum = {add} {kind} %e.old, %e.new
  store {kind} %e.sum, ptr %e.to
  %e.next = add i64 %e, 1
  br label %element
rows:
  %table.word = ptrtoint ptr %table to i64
  %values.word = ptrtoint ptr %given.values to i64
  store i64 %table.word, ptr %w{out_at}
  store i64 %values.word, ptr %w{values_at}
  call void @rows(ptr %words, i64 0, i64 1)
  br label %table.done
table.done:
  br label %table.next
done:
  ret i64 0
}}"""
