"""Backward's turn of a node, natively: its rules, and cotangents sent on (Note [pulled nodes]).

Note [pulled nodes]
    Where the rules of an operation on few elements have a program, Python would look at the node to
    tell that (`RecordNode.apply`): which way it goes, whether what it saved was written to since,
    what native code is to compare. Native code does all of this: it takes what the node saved, if
    that is tensors of their saved versions and numbers, and looks for the program (`meet_rules`).
    An operation that hands its cotangent on as it is has no program, and needs none. Whatever else
    a node is, is left as it was, for `apply`, which knows everything and refuses in its own words.

    The caller sees to it that nobody looks on: no levels, captures, listeners, hooks of the node.

    Cotangents are sent on (`pass_on`) where that is a matter of putting the first one that comes to
    a node beside it, and the node in the queue. Sums, leaves and missing cotangents are Python's,
    which is given those edges, in order.
"""

from __future__ import annotations

from heapq import heappush

from adjoint.engine.autodiff.tape.node import BackwardNode
from adjoint.engine.autodiff.tape.tape import RecordNode
from adjoint.engine.backends.llvm.ir.object_functions import ObjectFunction
from adjoint.engine.backends.llvm.small.comparing import FLOAT, INT, LIST, TUPLE
from adjoint.engine.backends.registers.vector import V, select

NAMES = ("pull", "pass_on")  # the functions that Python calls


def symbols() -> dict[str, int]:
    """Addresses that the text names."""
    classes = {"RecordNode": id(RecordNode), "BackwardNode": id(BackwardNode)}
    return {**classes, "heappush": id(heappush)}


def text(at: dict[str, int]) -> str:
    """The functions, after those that look into objects and those that search."""
    return "\n".join((
        OUTSIDE, _is_either(), _handed_on(), _unwritten(at), _kept_and_given(), _pull(at),
        _sent(at), _put_aside(), _pass_on(),
    ))  # fmt: skip


OUTSIDE = """
@RecordNode = external global i8
@BackwardNode = external global i8
@heappush = external global i8
declare i32 @PyList_Append(ptr, ptr)"""


# -- one node ------------------------------------------------------------------------------------


def _is_either() -> str:
    """Whether a class is that of lists, or of tuples."""
    f = ObjectFunction("is_either", "class", result="i1")
    f.tell(f.truth("is_a", "%class", LIST) | f.truth("is_a", "%class", TUPLE))
    return f.text()


def _handed_on() -> str:
    """The cotangent for each operand that it is handed on to, None for others."""
    f = ObjectFunction("handed_on", "handed", "g")
    refuse = f.ending("refuse", None)
    count = f.number("PyTuple_Size", "%handed")
    out = f.made("PyTuple_New", count, otherwise=refuse)

    def put(k: V) -> None:
        f.put(out, k, f.either(f.same(f.item("%handed", k), "@true"), "%g", "@nothing"))

    f.each(count, put)
    f.tell(out)
    return f.text()


def _unwritten(at: dict[str, int]) -> str:
    """Whether a value is a tensor that was not written to since, or a number."""
    f = ObjectFunction("unwritten", "x", "version", at=at, result="i1")
    kind = f.call("class_of", "%x")

    def tell_of_number() -> None:
        is_number = f.truth("is_a", kind, FLOAT) | f.truth("is_a", kind, INT)
        f.tell(is_number | f.same("%x", "@nothing"))

    f.end_where(~f.same(kind, "@Tensor"), tell_of_number)
    now = f.field(f.field("%x", "tensor._storage"), "storage.version")
    f.end_where(f.same(now, "%version"), lambda: f.tell(True))
    numbers = [f.number("PyLong_AsLongLong", x) for x in (now, "%version")]
    f.tell(numbers[0].eq(numbers[1]))
    return f.text()


def _kept_and_given() -> str:
    """What a node saved, and the cotangents that it is given; null where Python is to look."""
    f = ObjectFunction("kept_and_given", "saved", "versions", "grads")
    refuse = f.ending("refuse", None)
    s_list, v_list = (f.truth("is_a", f.call("class_of", x), LIST) for x in ("%saved", "%versions"))
    kept = f.number("size_of", "%saved", s_list)
    f.check(kept.eq(f.number("size_of", "%versions", v_list)), refuse)
    given = f.number("PyList_Size", "%grads")
    values = f.made("PyTuple_New", kept + given, otherwise=refuse)

    def keep(k: V) -> None:
        x = f.call("item_of", "%saved", k, s_list)
        version = f.call("item_of", "%versions", k, v_list)
        f.check(f.truth("unwritten", x, version), refuse)
        f.put(values, k, x)

    def give(k: V) -> None:
        g = f.call("PyList_GetItem", "%grads", k)
        f.check(f.same(f.call("class_of", g), "@Tensor"), refuse)
        f.put(values, kept + k, g)

    f.each(kept, keep)
    f.each(given, give)
    f.tell(values)
    return f.text()


def _pull(at: dict[str, int]) -> str:
    """The cotangents of a node's operands; None where Python is to compute them."""
    f = ObjectFunction("pull", "self", "args", "i64 given", at=at)

    none = f.ending("none", "@nothing", forget=True)
    node, grads = f.arguments(2)
    kind = f.call("class_of", node)
    f.check(f.number("PyType_IsSubtype", kind, "@RecordNode", kind="i32").ne(0), none)
    names = ("plan", "saved", "versions", "specs", "out_specs", "params")
    plan, saved, versions, specs, out_specs, params = (f.field(node, f"node.{n}") for n in names)
    f.check(f.truth("is_either", f.call("class_of", saved)), none)
    handed = f.field(plan, "plan.handed")

    def hand_on() -> None:
        f.check(f.same(specs, "@nothing"), none)
        f.tell(f.call("handed_on", handed, f.call("PyList_GetItem", grads, 0)))

    f.end_where(~f.same(handed, "@nothing"), hand_on)
    small = f.field(plan, "plan.small")
    f.check(f.number("PyTuple_Size", small) > 0, none)
    f.hold(small, params, specs, out_specs, saved, versions)
    values = f.call("kept_and_given", saved, versions, grads)
    f.let_go(saved, versions)
    f.refuse(f.is_null(values), none)
    f.own(values)
    rest = f.made("PyTuple_New", 3, otherwise=none)
    for k, x in enumerate((specs, out_specs, "@nothing")):
        f.put(rest, k, x)
    results = f.own(f.call("meet_rules", "%self", f.listed(small, values, params, rest), 4))
    f.let_go(values, rest, params, small)
    f.tell(results)
    return f.text()


# -- cotangents sent on --------------------------------------------------------------------------

SENT, LEFT, WRONG = range(3)  # what `@sent` tells: left to Python, or an error that is set


def _sent(at: dict[str, int]) -> str:
    """Put the first cotangent that comes to a node beside it, and the node in the queue."""
    f = ObjectFunction("sent", "buffers", "queue", "edge", "grad", at=at, result="i32")
    left = f.ending("left", LEFT)
    wrong = f.ending("wrong", WRONG)
    f.refuse(f.same("%grad", "@nothing"), left)
    target = f.item("%edge", 0)
    kind = f.call("class_of", target)
    f.check(f.number("PyType_IsSubtype", kind, "@BackwardNode", kind="i32").ne(0), left)
    f.check(f.number("PyLong_AsLongLong", f.field(target, "node.outputs")).eq(1), left)
    f.check(f.is_null(f.call("PyDict_GetItemWithError", "%buffers", target)), left)
    turn = f.field(target, "node.sequence")
    f.check(f.truth("is_a", f.call("class_of", turn), INT), left)
    f.hold(target)
    first = f.whole(0) - f.number("PyLong_AsLongLong", turn)  # the latest node comes first
    order = f.made("PyLong_FromLongLong", first, otherwise=wrong)
    entry = f.made("PyTuple_New", 2, otherwise=wrong)
    given = f.made("PyTuple_New", 2, otherwise=wrong)
    grads = f.made("PyList_New", 1, otherwise=wrong)
    f.put(entry, 0, order)
    f.put(entry, 1, target)
    f.put(given, 0, "%queue")
    f.put(given, 1, entry)
    f.put_in_list(grads, 0, "%grad")
    unset = f.number("PyDict_SetItem", "%buffers", target, grads, kind="i32") < 0
    f.let_go(grads)
    f.refuse(unset, wrong)
    pushed = f.made("PyObject_Call", "@heappush", given, None, otherwise=wrong)
    f.let_go(pushed, given)
    f.tell(SENT)
    return f.text()


def _put_aside() -> str:
    """The list of what is left to Python, which is taken over, and one edge more; null: none yet,
    or an error."""
    f = ObjectFunction("put_aside", "left", "edge", "grad")
    failed = f.ending("failed", None)
    f.own("%left")

    def new() -> list[str]:
        f.hand_on("%left")  # there is none
        return [f.made("PyList_New", 0, otherwise=failed)]

    (left,) = f.choose(f.is_null("%left"), new, lambda: ["%left"])
    pair = f.made("PyTuple_New", 2, otherwise=failed)
    f.put(pair, 0, "%edge")
    f.put(pair, 1, "%grad")
    unadded = f.number("PyList_Append", left, pair, kind="i32") < 0
    f.let_go(pair)
    f.refuse(unadded, failed)
    f.tell(left)
    return f.text()


def _pass_on() -> str:
    """Send cotangents on; None, or what is left to Python. False where nothing was looked at."""
    f = ObjectFunction("pass_on", "self", "args", "i64 given")
    unknown = f.ending("unknown", "@false")
    failed = f.ending("failed", None)
    buffers, queue, edges, grads = f.arguments(4)
    kinds = [f.call("class_of", x) for x in (edges, grads)]
    f.check(f.truth("is_either", kinds[0]) & f.truth("is_either", kinds[1]), unknown)
    e_list, g_list = (f.truth("is_a", kind, LIST) for kind in kinds)

    def count() -> V:  # the queue may run Python code, which may change lists
        m, n = f.number("size_of", edges, e_list), f.number("size_of", grads, g_list)
        return select(m < n, m, n)

    def send(k: V, left: str) -> list[str]:
        edge, grad = f.call("item_of", edges, k, e_list), f.call("item_of", grads, k, g_list)

        def to_node() -> list[str]:
            f.hold(edge, grad)
            told = f.number("sent", buffers, queue, edge, grad, kind="i32")
            f.refuse(told.eq(WRONG), failed)

            def aside() -> list[str]:
                f.hand_on(left)
                return [f.made("put_aside", left, edge, grad, otherwise=failed)]

            after = f.choose(told.eq(LEFT), aside, lambda: [left])
            f.let_go(edge, grad)
            return after

        return f.choose(f.same(edge, "@nothing"), lambda: [left], to_node)

    (left,) = f.each(count, send, f.own("null"))

    def tell_all_sent() -> None:
        f.hand_on(left)
        f.tell_held("@nothing")

    f.end_where(f.is_null(left), tell_all_sent)
    f.tell(left)
    return f.text()
