"""Finding the operation that a public function's call on the tape comes to (Note [one operation]).

`meet_taped` searches as `meet_call` does, and asks which operands the tape follows. The operation's
operands are made of the call's, and what it gives, and its node, is `meet_noted`'s affair; where it
has no program, neither has the call. The node is Python's where native code does not know it.
"""

from __future__ import annotations

import sys

from adjoint.engine.backends.llvm.ir.object_functions import ObjectFunction
from adjoint.engine.backends.llvm.small.comparing import INT, OBJECT, TENSOR
from adjoint.engine.backends.llvm.small.searching import OPERANDS, PARAMETERS, search
from adjoint.engine.backends.llvm.small.viewing import RAISED, UNKNOWN
from adjoint.engine.backends.registers.vector import V

# The parts of a step: a record, its operands, its parameters, and which of its results are given.
RECORD, SOURCES, PARAMS, PICKS = range(4)
FOLLOWED = ("", "call i1 @followed_as(ptr %program, ptr %operands)")
RUN = """
  %step = call ptr @PyTuple_GetItem(ptr %program, i64 6)
  %out = call ptr @done_as(ptr %step, ptr %operands)
  ret ptr %out"""
ATTRIBUTES = [sys.intern(name) for name in ("small", "tape")]  # of a record


def symbols() -> dict[str, int]:
    """What the text names, beside what `noting` does."""
    return {f"record_{name}": id(name) for name in ATTRIBUTES}


def text() -> str:
    """The functions."""
    return "\n".join((
        "@record_small = external global i8\n@record_tape = external global i8",
        _followed_as(), _given_by(), _picked(), _is_attached(), _done_as(),
        search("meet_taped", (OPERANDS, PARAMETERS, FOLLOWED), RUN),
    ))  # fmt: skip


def _followed_as() -> str:
    """Whether the tape follows the operands that a program says: a bit for each, after a one."""
    f = ObjectFunction("followed_as", "program", "operands", result="i1")
    wanted = f.call("words_of", "%program", 1)
    asked = f.number("PyLong_AsLongLong", f.item("%program", 5))

    def look(k: V, bits: V) -> list[V]:
        own = f.call("operand_in", wanted, k)
        no_tensor = f.word(own, 0).eq(0) | f.word(own, 3).eq(OBJECT)

        def with_bit() -> list[V]:
            free = f.truth("is_free", f.item("%operands", k), False)
            return [(bits << 1) | (~free).convert("i64")]

        return f.choose(no_tensor, lambda: [bits], with_bit)

    (bits,) = f.each(f.word(wanted, 0), look, f.whole(1))
    f.tell(bits.eq(asked))
    return f.text()


def _given_by() -> str:
    """The operation's operands: some of the call's, by their numbers, and values."""
    f = ObjectFunction("given_by", "sources", "operands")
    refuse = f.ending("refuse", None)
    count = f.number("PyTuple_Size", "%sources")
    given = f.made("PyTuple_New", count, otherwise=refuse)

    def put(k: V) -> None:
        source = f.item("%sources", k)
        value = f.item(source, 1)

        def operand() -> list[str]:
            return [f.item("%operands", f.number("PyLong_AsLongLong", value))]

        (x,) = f.choose(f.same(f.item(source, 0), "@true"), operand, lambda: [value])
        f.put(given, k, x)

    f.each(count, put)
    f.tell(given)
    return f.text()


def _picked() -> str:
    """The result of a number, or those of several."""
    f = ObjectFunction("picked", "results", "picks")
    refuse = f.ending("refuse", None)

    def result(number: str) -> str:
        return f.item("%results", f.number("PyLong_AsLongLong", number))

    one = f.truth("is_a", f.call("class_of", "%picks"), INT)
    f.end_where(one, lambda: f.tell_held(result("%picks")))
    count = f.number("PyTuple_Size", "%picks")
    out = f.made("PyTuple_New", count, otherwise=refuse)
    f.each(count, lambda k: f.put(out, k, result(f.item("%picks", k))))
    f.tell(out)
    return f.text()


def _is_attached() -> str:
    """Put results on the tape; one alone, and what native code does not know, is Python's."""
    given = ("record", "given", "params", "plans", "results")
    f = ObjectFunction("is_attached", *given, result="i1")
    one = f.number("PyTuple_Size", "%results").eq(1)

    def tell(out: str) -> None:
        f.tell(f.truth("attached", "%record", "%given", "%params", out))

    f.end_where(one, lambda: tell(f.item("%results", 0)))
    told = f.number("noted_all", "%plans", "%given", "%params", "%results", kind="i32")
    f.end_where(told.eq(UNKNOWN), lambda: tell("%results"))
    f.tell(told.ne(RAISED))
    return f.text()


def _done_as() -> str:
    """What the operation gives; None where it has no program, null with an error."""
    f = ObjectFunction("done_as", "step", "operands")
    failed = f.ending("failed", None)
    record, params = f.item("%step", RECORD), f.item("%step", PARAMS)
    given = f.made("given_by", f.item("%step", SOURCES), "%operands", otherwise=failed)
    programs = f.made("PyObject_GetAttr", record, "@record_small", otherwise=failed)
    plans = f.made("PyObject_GetAttr", record, "@record_tape", otherwise=failed)
    out = f.call("meet_noted", None, f.listed(programs, given, params, plans), 4)
    f.let_go(programs)

    def hand_on() -> None:
        f.let_go(plans, given)
        f.tell(out)

    f.end_where(f.is_null(out) | f.same(out, "@nothing"), hand_on)
    f.end_where(f.truth("is_a", f.call("class_of", out), TENSOR), hand_on)
    results = f.made("all_as_tensors", out, otherwise=failed)  # which owns the arrays
    f.check(f.truth("is_attached", record, given, params, plans, results), failed)
    picked = f.own(f.call("picked", results, f.item("%step", PICKS)))
    f.let_go(results, plans, given)
    f.tell(picked)
    return f.text()
