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
    text = "\n".join([*sorted(declarations), kernel, _entry()])
    code = library.linked("added rows", text)
    return fastcall.from_integers(code.address("added"), 8, name="add_rows", keep=code)


def _entry() -> str:
    """What looks at all indices before anything is written."""
    words = PutWords(
        out="%out", values="%values", count="%count", length="%length", parts="%parts",
        tables="%tables", wrap="%wrap", status="%stated",
    ).listed()  # fmt: skip
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
  %words = alloca [{len(words)} x i64]
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
  store i64 0, ptr %status
  %stated = ptrtoint ptr %status to i64
  %over = add i64 %length, {PART - 1}
  %parts = udiv i64 %over, {PART}
{stores}
  call void @rows(ptr %words, i64 0, i64 1)
  ret i64 0
}}"""
