"""The native code that finds and runs a small call (Note [small calls]).

It compares as `meeting` does. Besides, no operand may be on the tape where that is on; results are
tensors; and a program that has no rows is a function of arrays or of tensors, which is called; a
generator among the operands is given to it as it is. `meet_into` has rows write their result to the
first operand (Note [small writes]): it gives True where they did, and what is to be written where a
function was called.

Note [asked first]
    Whether a public function's call may be met at all takes Python longer to ask than native code
    takes to meet it. So `meet_public` asks: that nobody overrides or listens, that the context is
    plain, that new tensors are the CPU's, that the tape follows no first operand of a function that
    has no programs on it. Then it does as `meet_call`; where the tape follows an operand, as
    `meet_taped` (Note [one operation]). What it does not know (inference mode, an
    argument by name that is a tensor, a device that is told) it leaves to `call_small`, which
    asks all of it again.
"""

from __future__ import annotations

from adjoint.engine.backends.llvm.ir.object_functions import ObjectFunction
from adjoint.engine.backends.llvm.runtime.peeking import HEAD
from adjoint.engine.backends.llvm.small.comparing import LIST, OBJECT, TENSOR, TUPLE
from adjoint.engine.backends.llvm.small.searching import OPERANDS, PARAMETERS, search
from adjoint.engine.backends.registers.vector import V, select
from adjoint.engine.core.device import CPU
from adjoint.engine.core.object_layout import slot_offset
from adjoint.engine.core.operations.met_calls import MOST_OPERANDS
from adjoint.engine.core.operations.overrides import OVERRIDES
from adjoint.engine.core.operations.small_calls import SmallCalls
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.tensor.tensor import Tensor


def computed(of_tensors: str) -> str:
    """Text that has %arrays by a program's rows, or where it %is.called by its function.

    An error, and None, are handed on; a label %hand is there for more of it.
    """
    return f"""
  br i1 %is.called, label %call, label %walk
call:
  %function = call ptr @PyTuple_GetItem(ptr %program, i64 6)
  %computed = call ptr @called(ptr %program, ptr %function, ptr %operands, i1 {of_tensors})
  br label %results.all
walk:
  %walked = call ptr @results_of(ptr %program, ptr %operands, ptr %slots)
  br label %results.all
results.all:
  %arrays = phi ptr [%computed, %call], [%walked, %walk]
  %error = icmp eq ptr %arrays, null
  %nothing.there = icmp eq ptr %arrays, %absent
  %as.is = or i1 %error, %nothing.there
  br i1 %as.is, label %hand, label %wrap
hand:
  ret ptr %arrays
wrap:"""


# What has no words is a function, of tensors or of arrays; what is on the tape is none's.
RUN = (
    """
  %words = call ptr @PyTuple_GetItem(ptr %program, i64 0)
  %is.viewed = icmp eq ptr %words, @false
  br i1 %is.viewed, label %view, label %taping
view:
  %views = call ptr @show_views(ptr %program, ptr %operands, ptr %taped)
  ret ptr %views
taping:
  %untaped = icmp eq ptr %taped, @false
  br i1 %untaped, label %compute, label %look
look:
  %free = call i1 @all_free(ptr %program, ptr %operands)
  br i1 %free, label %compute, label %none
compute:
  %of.arrays = icmp eq ptr %words, %absent
  %of.tensors = icmp eq ptr %words, @true
  %is.called = or i1 %of.arrays, %of.tensors"""
    + computed("%of.tensors")
    + """
  %tensors = call ptr @as_tensors(ptr %program, ptr %arrays)
  ret ptr %tensors"""
)

# The same of what is written to the first operand, the result's slot is then its.
WRITE = f"""
  %wordsObject = call ptr @PyTuple_GetItem(ptr %program, i64 0)
  %untaped = icmp eq ptr %taped, @false
  br i1 %untaped, label %compute, label %look
look:
  %free = call i1 @all_free(ptr %program, ptr %operands)
  br i1 %free, label %compute, label %none
compute:
  %is.called = icmp eq ptr %wordsObject, %absent
  br i1 %is.called, label %call, label %walk
call:
  %function = call ptr @PyTuple_GetItem(ptr %program, i64 6)
  %computed = call ptr @called(ptr %program, ptr %function, ptr %operands, i1 false)
  %error = icmp eq ptr %computed, null
  br i1 %error, label %failed, label %wrap
failed:
  ret ptr null
wrap:
  %tensor = call ptr @as_tensors(ptr %program, ptr %computed)
  ret ptr %tensor
walk:
  %wordsAt = getelementptr i8, ptr %wordsObject, i64 {HEAD}
  %words = load ptr, ptr %wordsAt
  %wanted = call ptr @words_of(ptr %program, i64 1)
  %tensorsAt = getelementptr i64, ptr %wanted, i64 1
  %tensors = load i64, ptr %tensorsAt
  %resultSlot = add i64 %tensors, 1
  %targetAt = getelementptr i64, ptr %slots, i64 1
  %target = load i64, ptr %targetAt
  %resultAt = getelementptr i64, ptr %slots, i64 %resultSlot
  store i64 %target, ptr %resultAt
  %filled = add i64 %tensors, 2
  %wrong = call i64 @carry_out(ptr %words, ptr %slots, i64 %filled)
  %fine = icmp eq i64 %wrong, 0
  br i1 %fine, label %done, label %none
done:
  call void @Py_IncRef(ptr @true)
  ret ptr @true"""


def offsets() -> tuple[int, int] | None:
    """Where tensors keep whether they need a gradient, and what they are views of."""
    requires_grad, base = (
        slot_offset(Tensor.__dict__[name]) for name in ("_requires_grad", "_base")
    )
    return None if requires_grad is None or base is None else (requires_grad, base)


# What `meet_public` reads of a function's programs, and of those who take functions over.
ASKED = ("small", "taped", "joins", "off_tape", "unfollowed")
# Of the context, by name: what it is where a thread has set nothing is in `Context`.
FIELDS = ("plain", "grad_enabled", "device")


def places_asked() -> dict[str, int] | None:
    """Where those are, and whether anybody overrides."""
    places = {name: slot_offset(SmallCalls.__dict__[name]) for name in ASKED}
    places["active"] = slot_offset(type(OVERRIDES).__dict__["active"])
    known = {name: at for name, at in places.items() if at is not None}
    return known if len(known) == len(places) else None


def asked_symbols() -> dict[str, int]:
    """What its text names. All of it lives as long as Python does."""
    names = {f"{name}_name": id(name) for name in FIELDS}
    return {
        **names, "fields_name": id(FIELDS_NAME), "context": id(CONTEXT), "cpu": id(CPU),
        "overrides": id(OVERRIDES), "listeners": id(LISTENERS),
    }  # fmt: skip


FIELDS_NAME = "__dict__"


def asked_text(at: dict[str, int]) -> str:
    """The function that asks before it meets (Note [asked first]), after those of `noting`."""
    return "\n".join((OUTSIDE, _is_field(), _spread(), _meet_followed(at), _meet_public(at)))


OUTSIDE = """
@context = external global i8
@overrides = external global i8
@listeners = external global i8
@cpu = external global i8
@fields_name = external global i8
@plain_name = external global i8
@grad_enabled_name = external global i8
@device_name = external global i8
declare ptr @PyObject_GetAttr(ptr, ptr)"""


def _is_field() -> str:
    """Whether a field of the context is unset, or one of two values."""
    f = ObjectFunction("is_field", "fields", "name", "wanted", "otherwise", result="i1")
    value = f.call("PyDict_GetItemWithError", "%fields", "%name")
    f.tell(f.is_null(value) | f.same(value, "%wanted") | f.same(value, "%otherwise"))
    return f.text()


def _spread() -> str:
    """Operands of which the first is a list or tuple, as its length, its items and the rest.

    Only the first `count` of them are looked at: none where a function joins no tensors.
    """
    f = ObjectFunction("spread", "operands", "i64 count")

    refuse = f.ending("refuse", None, forget=True)
    same = f.ending("same", "%operands")
    count = f.parameter("count")
    f.refuse(count.eq(0), same)
    group = f.item("%operands", 0)
    kind = f.call("class_of", group)
    is_list = f.truth("is_a", kind, LIST)
    f.check(is_list | f.truth("is_a", kind, TUPLE), same)
    many = f.number("size_of", group, is_list)
    f.check(many + count <= MOST_OPERANDS, refuse)
    length = f.made("PyLong_FromLongLong", many, otherwise=refuse)
    joined = f.made("PyTuple_New", many + count, otherwise=refuse)
    f.put(joined, 0, length)
    f.each(many, lambda k: f.put(joined, k + 1, f.call("item_of", group, k, is_list)))
    f.each(count - 1, lambda k: f.put(joined, many + k + 1, f.item("%operands", k + 1)))
    f.tell(joined)
    return f.text()


def _meet_followed(at: dict[str, int]) -> str:
    """What a call gives whose operands the tape follows; None where nobody knows."""
    f = ObjectFunction("meet_followed", "self", "small", "operands", "params", at=at)
    known = f.field("%small", "taped")
    none = f.ending("none", "@nothing")
    f.refuse(f.number("PyTuple_Size", known).eq(0), none)
    f.hold(known)
    given = f.listed(known, "%operands", "%params", "@nothing")
    found = f.own(f.call("meet_taped", "%self", given, 4))
    f.let_go(known)
    f.tell(found)
    return f.text()


def _meet_public(at: dict[str, int]) -> str:
    """What a call of a public function gives; None where Python is to look."""
    f = ObjectFunction("meet_public", "self", "args", "i64 given", at=at)
    none = f.ending("none", "@nothing")

    def forget() -> None:
        f.do("PyErr_Clear")
        f.take(none)

    small, positional, params = f.arguments(3)
    nobody = f.same(f.field("@overrides", "active"), "@false")
    f.check(nobody & f.number("PyList_Size", "@listeners").eq(0), none)
    clear = f.way_out("clear", forget)
    fields = f.made("PyObject_GetAttr", "@context", "@fields_name", otherwise=clear)
    plain = f.truth("is_field", fields, "@plain_name", "@true", "@true")
    here = f.truth("is_field", fields, "@device_name", "@nothing", "@cpu")
    tape_on = f.call("PyDict_GetItemWithError", fields, "@grad_enabled_name")
    f.let_go(fields)
    f.check(plain & here, none)
    untaped = f.same(tape_on, "@false") | f.same(f.field(small, "unfollowed"), "@true")
    count = f.number("PyTuple_Size", positional)
    f.check(count <= MOST_OPERANDS, none)
    joins = f.same(f.field(small, "joins"), "@true")
    operands = f.made("spread", positional, select(joins, count, 0), otherwise=none)
    where = joins.convert("i64")
    has_first = f.number("PyTuple_Size", operands) > where
    looked_at = f.same(f.field(small, "off_tape"), "@true") & has_first & ~untaped

    def tell_followed() -> None:
        found = f.own(f.call("meet_followed", "%self", small, operands, params))
        f.let_go(operands)
        f.tell(found)

    def is_followed() -> list[V]:
        x = f.item(operands, where)
        is_tensor = f.truth("is_a", f.call("class_of", x), TENSOR)
        return f.choose(is_tensor, lambda: [~f.truth("is_free", x, False)], lambda: [is_tensor])

    followed, *_ = f.choose(looked_at, is_followed, lambda: [looked_at])
    f.end_where(followed, tell_followed)
    listed = f.field(small, "small")
    f.hold(listed)
    taped = f.either(untaped, "@false", "@true")
    met = f.call("meet_call", "%self", f.listed(listed, operands, params, taped), 4)
    f.let_go(listed)

    def tell_followed_after_all() -> None:
        f.do("Py_DecRef", met)
        tell_followed()

    f.end_where(f.same(met, "@nothing") & looked_at, tell_followed_after_all)
    f.own(met)
    f.let_go(operands)
    f.tell(met)
    return f.text()


def text(requires_grad_at: int, base_at: int) -> str:
    """The functions."""
    at = {"requires_grad": requires_grad_at, "base": base_at}
    return "\n".join((
        "@false = external global i8\n@true = external global i8\ndeclare ptr @tensor_of(ptr)",
        _is_free(at), _all_free(), _called(), _as_tensors(), _all_as_tensors(),
        search("meet_call", (OPERANDS, PARAMETERS), RUN, fourth="taped"),
        search("meet_into", (OPERANDS, PARAMETERS), WRITE, fourth="taped"),
    ))  # fmt: skip


def _is_free(at: dict[str, int]) -> str:
    """Whether the tape follows neither a tensor nor what it is a view of."""
    f = ObjectFunction("is_free", "x", "i1 is.root", at=at, result="i1")

    no = f.ending("no", False)
    yes = f.ending("yes", True)
    f.check(f.same(f.field("%x", "requires_grad"), "@false"), no)
    base = f.field("%x", "base")
    f.refuse(f.same(base, "@nothing"), yes)
    f.refuse(f.parameter("is.root", "i1"), no)
    root = f.item(base, 0)
    f.refuse(f.is_null(root), f.ending("forget", False, forget=True))
    f.tell(f.truth("is_free", root, True))
    return f.text()


def _all_free() -> str:
    """The same of all tensors among operands."""
    f = ObjectFunction("all_free", "program", "operands", result="i1")
    no = f.ending("no", False)
    wanted = f.call("words_of", "%program", 1)

    def look(k: V) -> None:
        own = f.call("operand_in", wanted, k)
        is_tensor = f.word(own, 0).ne(0) & f.word(own, 3).ne(OBJECT)
        f.when(is_tensor, lambda: f.check(f.truth("is_free", f.item("%operands", k), False), no))

    f.each(f.word(wanted, 0), look)
    f.tell(True)
    return f.text()


def _called() -> str:
    """What a program's function gives: of the operands in slots, or of their arrays."""
    f = ObjectFunction("called", "program", "function", "operands", "i1 of.tensors")
    failed = f.ending("failed", None)
    wanted = f.call("words_of", "%program", 1)
    given = f.made("PyTuple_New", f.word(wanted, 1), otherwise=failed)

    def look(k: V) -> None:
        own = f.call("operand_in", wanted, k)
        slot = f.word(own, 0)

        def put() -> None:
            x = f.item("%operands", k)
            as_is = f.parameter("of.tensors", "i1") | f.word(own, 3).eq(OBJECT)
            (argument,) = f.choose(as_is, lambda: [x], lambda: [f.call("array_in", x)])
            f.put(given, slot - 1, argument)

        f.when(slot.ne(0), put)

    f.each(f.word(wanted, 0), look)
    out = f.own(f.call("PyObject_Call", "%function", given, None))
    f.let_go(given)
    f.tell(out)
    return f.text()


def _as_tensors() -> str:
    """One tensor or several, as a program says, of arrays, which are taken over."""
    f = ObjectFunction("as_tensors", "program", "arrays")
    several = f.same(f.item("%program", 5), "@false")
    f.end_where(several, lambda: f.tell(f.call("all_as_tensors", "%arrays")))
    f.own("%arrays")
    tensor = f.own(f.call("tensor_of", f.item("%arrays", 0)))
    f.let_go("%arrays")
    f.tell(tensor)
    return f.text()


def _all_as_tensors() -> str:
    """A tuple of tensors of a tuple of arrays, which is taken over; what is None stays None."""
    f = ObjectFunction("all_as_tensors", "arrays")
    failed = f.ending("failed", None)
    f.own("%arrays")
    count = f.number("PyTuple_Size", "%arrays")
    tensors = f.made("PyTuple_New", count, otherwise=failed)

    def put(k: V) -> None:
        array = f.item("%arrays", k)

        def none() -> list[str]:
            f.hold("@nothing")
            return ["@nothing"]

        def tensor() -> list[str]:
            return [f.made("tensor_of", array, otherwise=failed)]

        (x,) = f.choose(f.same(array, "@nothing"), none, tensor)
        f.put(tensors, k, x)

    f.each(count, put)
    f.let_go("%arrays")
    f.tell(tensors)
    return f.text()
