"""Tensors whose operations native code puts on the tape: what it reads of them (Note [noting])."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint.engine.backends.llvm.ir.object_functions import FIELDS, ObjectFunction
from adjoint.engine.backends.llvm.runtime.peeking import DTYPE, RANK, SAME_WORDS, SIZES
from adjoint.engine.backends.llvm.small.comparing import FLOAT, INT, NDARRAY

CARRIES, SILENT, UNUSUAL = range(3)  # what a result is to gradients


@dataclass(frozen=True, slots=True)
class NotedArrays:
    """How native code looks at the arrays of tensors that it puts on the tape."""

    type: int  # their class, by its place among the words of the world
    # @kind_in, @rank_in and @sizes_in of an array: its dtype, rank, and the address of its sizes.
    layout: str
    # Words: how many dtypes there are whose results carry gradients, and which; the same of those
    # whose do not. Of others Python asks.
    carrying: Any
    silent: Any


def listed(dtypes: Sequence[Any]) -> Any:
    """How many dtypes there are, and which."""
    return np.array([len(dtypes), *map(id, dtypes)], np.int64)


# NumPy's own.
ON_HOST = NotedArrays(
    NDARRAY,
    f"""
define ptr @kind_in(ptr %array) alwaysinline {{
  %kind = call ptr @held(ptr %array, i64 {DTYPE})
  ret ptr %kind
}}
define i64 @rank_in(ptr %array) alwaysinline {{
  %at = getelementptr i8, ptr %array, i64 {RANK}
  %short = load i32, ptr %at
  %rank = sext i32 %short to i64
  ret i64 %rank
}}
define ptr @sizes_in(ptr %array) alwaysinline {{
  %sizes = call ptr @held(ptr %array, i64 {SIZES})
  ret ptr %sizes
}}""",
    listed((np.dtype("float32"), np.dtype("float64"))),
    listed((np.dtype("int64"), np.dtype("bool"))),
)


def tensors_text(at: dict[str, int], arrays: NotedArrays) -> str:
    """Functions of tensors: where their gradients go, windows on them, how their arrays lie."""
    return "\n".join((
        FIELDS, _is_tensor(), _edge_of(at), SAME_WORDS, _alike(), _is_among(),
        _carried(at, arrays.type), _window_on(at), _same_window(at), arrays.layout,
    ))  # fmt: skip


def _is_tensor() -> str:
    """Whether an object is a tensor, of whichever class."""
    f = ObjectFunction("is_tensor", "x", result="i1")
    kind = f.call("class_of", "%x")
    f.end_where(f.same(kind, "@Tensor"), lambda: f.tell(True))
    f.tell(f.number("PyType_IsSubtype", kind, "@Tensor", kind="i32").ne(0))
    return f.text()


def _edge_of(at: dict[str, int]) -> str:
    """Where the gradient of an operand goes, None where it has none; null where Python knows."""
    f = ObjectFunction("edge_of", "x", at=at)
    unknown = f.ending("unknown", None)

    def tell_of_number() -> None:
        kind = f.call("class_of", "%x")
        is_number = f.truth("is_a", kind, FLOAT) | f.truth("is_a", kind, INT)
        f.check(is_number | f.same("%x", "@nothing"), unknown)
        f.tell_held("@nothing")

    f.end_where(~f.truth("is_tensor", "%x"), tell_of_number)
    base = f.field("%x", "tensor._base")

    def look_at_root() -> None:  # which may have been written to since it was looked at
        now = f.field(f.item(base, 0), "tensor._node")
        f.check(f.same(now, f.item(base, 1)), unknown)

    f.when(~f.same(base, "@nothing"), look_at_root)
    is_asked = f.same(f.field("%x", "tensor._requires_grad"), "@true")
    f.end_where(~is_asked, lambda: f.tell_held("@nothing"))
    node, number = f.field("%x", "tensor._node"), f.field("%x", "tensor._nr")
    is_leaf = f.same(node, "@nothing")
    target, number = f.either(is_leaf, "%x", node), f.either(is_leaf, "@zero", number)
    f.hold(target, number)
    pair = f.made("PyTuple_New", 2, otherwise=unknown)
    f.put(pair, 0, target)
    f.put(pair, 1, number)
    f.tell(pair)
    return f.text()


def _alike() -> str:
    """Whether two arrays have one dtype and one shape."""
    f = ObjectFunction("alike", "one", "other", result="i1")
    no = f.ending("no", False)
    kinds = f.same(f.call("kind_in", "%one"), f.call("kind_in", "%other"))
    rank = f.number("rank_in", "%one")
    f.check(kinds & rank.eq(f.number("rank_in", "%other")), no)
    sizes = f.call("sizes_in", "%one"), f.call("sizes_in", "%other")
    f.tell(f.truth("same_words", *sizes, rank))
    return f.text()


def _is_among() -> str:
    """Whether a dtype is among those listed: how many there are, and which."""
    f = ObjectFunction("is_among", "kind", "listed", result="i1")
    yes = f.ending("yes", True)
    f.each(
        f.word("%listed", 0),
        lambda k: f.refuse(f.same("%kind", f.pointer("%listed", k + 1)), yes),
    )
    f.tell(False)
    return f.text()


def _carried(at: dict[str, int], arrays: int) -> str:
    """What a result is to gradients."""
    f = ObjectFunction("carried", "x", at=at, result="i32")
    unknown = f.ending("unknown", UNUSUAL)
    f.check(f.truth("is_tensor", "%x"), unknown)
    array = f.field("%x", "tensor._array")
    f.check(f.truth("is_a", f.call("class_of", array), arrays), unknown)
    kind = f.call("kind_in", array)
    f.end_where(f.truth("is_among", kind, "@carrying"), lambda: f.tell(CARRIES))
    f.check(f.truth("is_among", kind, "@silent"), unknown)
    f.tell(SILENT)
    return f.text()


def _window_on(at: dict[str, int]) -> str:
    """A new tensor on an array and a storage, which nobody follows."""
    given = ("array", "storage", "chain", "base")
    f = ObjectFunction("window_on", *given, at=at)
    f.hold(*[f"%{name}" for name in given])
    refuse = f.ending("refuse", None)
    out = f.made("object_new", "@Tensor", "@no_arguments", None, otherwise=refuse)
    for name in given:
        f.fill(out, f"tensor._{name}", f"%{name}")
    f.fill(out, "tensor._requires_grad", "@false")
    f.fill(out, "tensor._node", "@nothing")
    f.fill(out, "tensor._nr", "@zero")
    f.fill(out, "tensor._grad_meta", "@nothing")
    f.tell(out)
    return f.text()


def _same_window(at: dict[str, int]) -> str:
    """A new tensor on what another one shows."""
    f = ObjectFunction("same_window", "x", at=at)
    shown = [f.field("%x", f"tensor.{name}") for name in ("_array", "_storage", "_chain")]
    f.tell(f.call("window_on", *shown, "@nothing"))
    return f.text()
