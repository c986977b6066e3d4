"""Putting an operation on the tape, natively.

Note [noting]
    What the tape keeps of an operation is decided by its plan (`autodiff.tape.tape_plan`), and to
    follow one takes Python longer than a kernel of few elements. So a plan that asks for nothing
    rare says so in words (`TapePlan.noted`), and native code makes the node: edges, saved values
    and their versions, and specs of operands that are not like the result. Whatever it does not
    know it leaves as it was, and Python's own way is gone (`autodiff.tape.tape.attach`): for views
    whose base was written to, results that are not of a usual dtype, inference tensors.

    Where anything is made, the collector may run, and with it any Python code, which may give a
    tensor another node, base or chain. So what was read of one is held before anything is made.
    What is raised by Python code that is called here (an interrupt, say) is raised.
"""

from __future__ import annotations

from adjoint.engine.autodiff.tape.node import SEQUENCE, specs_of
from adjoint.engine.autodiff.tape.tape import RecordNode, attach
from adjoint.engine.autodiff.tape.tape_plan import (
    NOTED_AT_MOST,
    NOTED_CHECKS,
    NOTED_OUTPUTS,
    NOTED_SAVES,
    NOTED_SPECS,
    TapePlan,
)
from adjoint.engine.backends.llvm.ir.object_functions import ObjectFunction
from adjoint.engine.backends.llvm.runtime.peeking import HEAD, slow_address
from adjoint.engine.backends.llvm.small import calling, viewing
from adjoint.engine.backends.llvm.small.comparing import TUPLE
from adjoint.engine.backends.llvm.small.noted_tensors import (
    CARRIES,
    ON_HOST,
    UNUSUAL,
    NotedArrays,
    tensors_text,
)
from adjoint.engine.backends.llvm.small.searching import OPERANDS, PARAMETERS, REST, search
from adjoint.engine.backends.llvm.small.viewing import DONE, RAISED, UNKNOWN
from adjoint.engine.backends.registers.vector import V
from adjoint.engine.core.object_layout import slot_offset
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import NO_GRAD, Tensor

# Versions that nodes note, each tuple once: many are alike, and each would be one more object for
# the collector to look at while its node is on the tape.
SHARED_VERSIONS: dict[tuple[int, ...], tuple[int, ...]] = {}
SHARED_AT_MOST = 4096  # of them; then they are forgotten
NAMES = ("note", "show", "meet_noted", "meet_rules")  # the functions that Python calls
_TENSOR = (
    "_array", "_base", "_chain", "_grad_meta", "_node", "_nr", "_requires_grad", "_storage",
)  # fmt: skip
_NODE = (
    "edges", "extra", "out_specs", "outputs", "params", "plan", "saved", "sequence", "specs",
    "versions",
)  # fmt: skip
# The arrays that a record's program gives, or a rule's, which is where rows are or a function of
# arrays; what is none is handed on.
COMPUTED = """
  %words = call ptr @PyTuple_GetItem(ptr %program, i64 0)
  %is.called = icmp eq ptr %words, %absent""" + calling.computed("false")
# What operations with programs, of rows or of kernels, give: a tensor, on the tape where that is
# asked for (plans) and anybody is followed. Arrays, for Python to go on with, where there are
# several, or where the tape is Python's.
NOTED = f"""{COMPUTED}
  %results = call i64 @PyTuple_Size(ptr %arrays)
  %single = icmp eq i64 %results, 1
  br i1 %single, label %one, label %hand
one:
  %array = call ptr @PyTuple_GetItem(ptr %arrays, i64 0)
  %tensor = call ptr @tensor_of(ptr %array)
  %no.tensor = icmp eq ptr %tensor, null
  br i1 %no.tensor, label %fail, label %look
look:
  %unfollowed = icmp eq ptr %plans, %absent
  br i1 %unfollowed, label %done, label %follow
follow:
  %told = call i32 @noted_one(ptr %plans, ptr %operands, ptr %params, ptr %tensor)
  switch i32 %told, label %done [ i32 {UNKNOWN}, label %arrays.alone i32 {RAISED}, label %drop ]
arrays.alone:
  call void @Py_DecRef(ptr %tensor)
  ret ptr %arrays
drop:
  call void @Py_DecRef(ptr %tensor)
  br label %fail
fail:
  call void @Py_DecRef(ptr %arrays)
  ret ptr null
done:
  call void @Py_DecRef(ptr %arrays)
  ret ptr %tensor"""
# The same of rules: tensors, None where an operand gets no cotangent.
RULES = f"""{COMPUTED}
  %tensors = call ptr @all_as_tensors(ptr %arrays)
  ret ptr %tensors"""


DECLARED = """
@false = external global i8
@true = external global i8
declare ptr @PyLong_FromLongLong(i64)"""


def offsets() -> dict[str, int] | None:
    """Where tensors, storages, plans and nodes keep what is read and written; None: not known."""
    places = {f"tensor.{name}": Tensor.__dict__.get(name) for name in _TENSOR}
    places["storage.version"] = Storage.__dict__.get("version")
    for name in ("handed", "noted", "small"):
        places[f"plan.{name}"] = TapePlan.__dict__.get(name)
    for name in _NODE:
        owner = next((c for c in RecordNode.__mro__ if name in c.__dict__), RecordNode)
        places[f"node.{name}"] = owner.__dict__.get(name)
    found = {name: slot_offset(place) for name, place in places.items()}
    known = {name: offset for name, offset in found.items() if offset is not None}
    return known if len(known) == len(found) else None


def symbols(object_new: int, arrays: NotedArrays = ON_HOST) -> dict[str, int]:
    """Addresses that the text names."""
    return {
        "carrying": slow_address(arrays.carrying), "silent": slow_address(arrays.silent),
        "nothing": id(None), "no_grad": id(NO_GRAD), "zero": id(0),
        "no_arguments": id(()), "object_new": object_new, "Tensor": id(Tensor),
        "sequence": id(SEQUENCE), "specs_of": id(specs_of), "attach": id(attach),
        "SHARED_VERSIONS": id(SHARED_VERSIONS),
    }  # fmt: skip


def calls_text() -> str:
    """The functions that find programs, and put what they give on the tape."""
    return "\n".join((
        search("meet_noted", (OPERANDS, PARAMETERS), NOTED, fourth="plans"),
        search("meet_rules", (OPERANDS, PARAMETERS, REST), RULES),
    ))  # fmt: skip


def text(at: dict[str, int], arrays: NotedArrays = ON_HOST) -> str:
    """The functions that put results on the tape, and make views."""
    return "\n".join((
        OUTSIDE, tensors_text(at, arrays), _attached(), _noted_one(), _noted_all(), _placed_at(at),
        _shared(), _differs(at, arrays.type), _noted(at), _note(), viewing.text(at, arrays.type),
    ))  # fmt: skip


OUTSIDE = """
@nothing = external global i8
@no_grad = external global i8
@zero = external global i8
@no_arguments = external global i8
@Tensor = external global i8
@sequence = external global i8
@SHARED_VERSIONS = external global i8
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare void @PyDict_Clear(ptr)
@specs_of = external global i8
@attach = external global i8
@carrying = external global i64
@silent = external global i64
declare ptr @object_new(ptr, ptr, ptr)
declare ptr @PyIter_Next(ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyList_New(i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
"""


def _attached() -> str:
    """Have Python put a result on the tape; whether it raised nothing."""
    given = ("record", "operands", "params", "out")
    f = ObjectFunction("attached", *given, result="i1")
    no = f.ending("no", False)
    arguments = f.made("PyTuple_New", len(given), otherwise=no)
    for k, name in enumerate(given):
        f.put(arguments, k, f"%{name}")
    done = f.made("PyObject_Call", "@attach", arguments, None, otherwise=no)
    f.let_go(done, arguments)
    f.tell(True)
    return f.text()


def _noted_one() -> str:
    """The same as `noted` of one result."""
    f = ObjectFunction("noted_one", "plans", "operands", "params", "out", result="i32")
    given = ("%plans", "%operands", "%params", f.listed("%out"), 1)
    f.tell(f.number("noted", *given, kind="i32"))
    return f.text()


def _noted_all() -> str:
    """The same of a tuple of results."""
    f = ObjectFunction("noted_all", "plans", "operands", "params", "results", result="i32")
    unlike = f.ending("unlike", UNKNOWN)
    many = f.number("PyTuple_Size", "%results")
    f.check((many > 0) & (many <= NOTED_AT_MOST), unlike)
    outs = f.room(NOTED_AT_MOST)
    f.each(many, lambda k: f.point(outs, k, f.item("%results", k)))
    f.tell(f.number("noted", "%plans", "%operands", "%params", outs, many, kind="i32"))
    return f.text()


def _placed_at(at: dict[str, int]) -> str:
    """Make a tensor the result of a node, of this number."""
    f = ObjectFunction("placed_at", "out", "node", "i64 k", at=at, result="void")
    number = f.own(f.call("PyLong_FromLongLong", f.parameter("k")))
    fields = ("tensor._node", "tensor._nr", "tensor._requires_grad")
    before = [f.own(f.field("%out", name)) for name in fields]
    for name, value in zip(fields, ("%node", number, "@true"), strict=True):
        f.fill("%out", name, value)
    f.let_go(*before)  # which may run anything, so the tensor is whole by now
    f.tell()
    return f.text()


def _shared() -> str:
    """The tuple that all nodes have for such versions; it owns what it is given."""
    f = ObjectFunction("shared", "numbers")
    f.own("%numbers")
    before = f.call("PyDict_GetItemWithError", "@SHARED_VERSIONS", "%numbers")

    def tell_known() -> None:
        f.hold(before)
        f.let_go("%numbers")
        f.tell(before)

    f.end_where(~f.is_null(before), tell_known)
    f.do("PyErr_Clear")
    is_full = f.number("PyDict_Size", "@SHARED_VERSIONS") >= SHARED_AT_MOST
    f.when(is_full, lambda: f.do("PyDict_Clear", "@SHARED_VERSIONS"))
    pair = ("%numbers", "%numbers")
    unset = f.number("PyDict_SetItem", "@SHARED_VERSIONS", *pair, kind="i32") < 0
    f.when(unset, lambda: f.do("PyErr_Clear"))
    f.tell("%numbers")
    return f.text()


SAME, OTHER, NO_ARRAY = range(3)  # what `@differs` tells


def _differs(at: dict[str, int], arrays: int) -> str:
    """Whether one of the operands that a plan checks is not like the result."""
    f = ObjectFunction("differs", "words", "operands", "out", at=at, result="i32")
    other = f.ending("other", OTHER)
    no_array = f.ending("no_array", NO_ARRAY)
    f.refuse(f.word("%words", NOTED_SPECS).ne(0), other)
    array = f.field("%out", "tensor._array")
    checks = f.place("i64", "%words", NOTED_CHECKS)

    def check(k: V) -> None:
        operand = f.field(f.item("%operands", f.word(checks, k + 1)), "tensor._array")
        f.check(f.truth("is_a", f.call("class_of", operand), arrays), no_array)
        f.check(f.truth("alike", operand, array), other)

    f.each(f.word(checks, 0), check)
    f.tell(SAME)
    return f.text()


def _noted(at: dict[str, int]) -> str:
    """Put results on the tape by a plan's words; DONE too where nobody follows an operand."""
    f = ObjectFunction(
        "noted", "plans", "operands", "params", "outs", "i64 many", at=at, result="i32"
    )

    unknown = f.ending("unknown", UNKNOWN, forget=True)
    raised = f.ending("raised", RAISED)
    many = f.parameter("many")
    edges, bits = _edges(f, unknown)
    plan = _plan(f, bits, unknown)
    noted = f.field(plan, "plan.noted")
    f.refuse(f.same(noted, "@nothing"), unknown)
    words = f.call("held", f.item(noted, 0), HEAD)
    f.check(f.word(words, NOTED_OUTPUTS).eq(many), unknown)

    def check_usual(k: V) -> None:
        kind = f.number("carried", f.pointer("%outs", k), kind="i32")
        f.refuse(kind.eq(UNUSUAL), unknown)

    f.each(many, check_usual)
    specs = _specs(f, words, unknown, raised)
    saved, versions = _saved(f, f.place("i64", words, NOTED_SAVES), unknown)
    node = f.made("object_new", f.item(noted, 1), "@no_arguments", None, otherwise=unknown)
    turn = f.made("PyIter_Next", "@sequence", otherwise=unknown)
    outputs = f.own(f.call("PyLong_FromLongLong", many))
    for name, value in (
        ("edges", edges), ("sequence", turn), ("specs", specs), ("saved", saved),
        ("versions", versions), ("outputs", outputs), ("extra", "@nothing"), ("plan", plan),
        ("params", "%params"), ("out_specs", "@nothing"),
    ):  # fmt: skip
        f.fill(node, f"node.{name}", value)

    def place(k: V) -> None:
        out = f.pointer("%outs", k)
        carries = f.number("carried", out, kind="i32").eq(CARRIES)
        f.when(carries, lambda: f.do("placed_at", out, node, k))

    f.each(many, place)
    f.let_go(node)
    f.tell(DONE)
    return f.text()


def _edges(f: ObjectFunction, unknown: str) -> tuple[str, V]:
    """Where gradients of operands go, and which of them go anywhere: a bit for each, after a one.

    Where none does, the function has nothing left to do.
    """
    count = f.number("PyTuple_Size", "%operands")
    f.check((count >= 0) & (count <= NOTED_AT_MOST), unknown)
    edges = f.made("PyList_New", count, otherwise=unknown)

    def put(k: V, bits: V) -> list[V]:
        edge = f.made("edge_of", f.item("%operands", k), otherwise=unknown)
        f.put_in_list(edges, k, edge)
        return [(bits << 1) | (~f.same(edge, "@nothing")).convert("i64")]

    (bits,) = f.each(count, put, f.whole(1))

    def tell_done() -> None:
        f.let_go(edges)
        f.tell(DONE)

    f.end_where(bits.eq(f.whole(1) << count), tell_done)
    return edges, bits


def _plan(f: ObjectFunction, bits: V, unknown: str) -> str:
    """The plan for such operands."""
    key = f.made("PyLong_FromLongLong", bits, otherwise=unknown)
    plan = f.call("PyDict_GetItemWithError", "%plans", key)
    f.let_go(key)
    f.refuse(f.is_null(plan) | f.same(plan, "@nothing"), unknown)
    return plan


def _specs(f: ObjectFunction, words: str, unknown: str, raised: str) -> str:
    """Specs of the operands; None where each is like the result."""
    told = f.number("differs", words, "%operands", f.pointer("%outs", 0), kind="i32")
    f.refuse(told.eq(NO_ARRAY), unknown)

    def none() -> list[str]:
        f.hold("@nothing")
        return ["@nothing"]

    def asked() -> list[str]:
        given = f.made("PyTuple_New", 1, otherwise=unknown)
        f.put(given, 0, "%operands")
        specs = f.call("PyObject_Call", "@specs_of", given, None)
        f.let_go(given)
        f.refuse(f.is_null(specs), raised)
        return [f.own(specs)]

    (specs,) = f.choose(told.eq(SAME), none, asked)
    return specs


def _saved(f: ObjectFunction, saves: str, unknown: str) -> list[str]:
    """What a node saves, and the versions of that."""
    count = f.word(saves, 0)

    def nothing() -> list[str]:
        f.hold("@no_arguments", "@no_arguments")
        return ["@no_arguments", "@no_arguments"]

    def all_of_it() -> list[str]:
        saved = f.made("PyList_New", count, otherwise=unknown)
        versions = f.made("PyTuple_New", count, otherwise=unknown)
        f.each(count, lambda k: _save(f, f.word(saves, k + 1), k, saved, versions, unknown))
        f.hand_on(versions)
        return [saved, f.own(f.call("shared", versions))]

    return f.choose(count.eq(0), nothing, all_of_it)


def _save(f: ObjectFunction, code: V, k: V, saved: str, versions: str, unknown: str) -> None:
    """Put an operand, or a window on a result, among what is saved, and its version beside it."""

    def result() -> list[str]:
        out = f.pointer("%outs", f.whole(-1) - code)
        return [f.made("same_window", out, otherwise=unknown)]

    def operand() -> list[str]:
        x = f.item("%operands", code)
        f.hold(x)
        return [x]

    (value,) = f.choose(code < 0, result, operand)
    f.put_in_list(saved, k, value)

    def version() -> list[str]:
        writes = f.field(f.field(value, "tensor._storage"), "storage.version")
        f.refuse(f.number("PyLong_AsLongLong", writes) < 0, unknown)  # an inference tensor's
        return [writes]

    (now,) = f.choose(f.truth("is_tensor", value), version, lambda: ["@zero"])
    f.put(versions, k, now)


def _note() -> str:
    """What Python calls: put a result, or several, on the tape; whether that is done."""
    f = ObjectFunction("note", "self", "args", "i64 given")
    raised = f.ending("raised", None)
    given = f.arguments(4)
    several = f.truth("is_a", f.call("class_of", given[-1]), TUPLE)
    (told,) = f.choose(
        several,
        lambda: [f.number("noted_all", *given, kind="i32")],
        lambda: [f.number("noted_one", *given, kind="i32")],
    )
    f.refuse(told.eq(RAISED), raised)
    f.tell_held(f.either(told.eq(DONE), "@true", "@false"))
    return f.text()
