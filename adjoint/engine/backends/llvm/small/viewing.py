"""Views made natively, and put on the tape (Note [noting]).

What `tensor.window` and `tensor.mark_view` come to: one more link in the chain of a window, and the
root it is a view of, at the node that the root has now. Long chains, which may become shorter, and
views of what is no root, are left to Python, as is what native code does not put on the tape.

Note [views by words]
    A public function that gives views has programs of which the views are known: of each the
    operand that it shows and its links, and of each link how the array lies that shows it: rank,
    bytes from where the array before begins, sizes, strides. All that differs between calls is
    where the operand begins. So the array is made by NumPy's own function for that, which is told
    all of it, and the tensor as above. What a kernel gives was looked at once, of an operand that
    lies as all others do that the program fits. Where it gave no view of memory that may be
    written, the program is a function of Python's.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from numpy import ndarray

from adjoint.engine.backends.array.executor import find_kernel
from adjoint.engine.backends.llvm.ir.object_functions import ObjectFunction
from adjoint.engine.backends.llvm.runtime.peeking import DTYPE, HEAD, slow_address
from adjoint.engine.backends.llvm.small.comparing import TUPLE
from adjoint.engine.backends.llvm.small.searching import SLOTS
from adjoint.engine.backends.registers.vector import V
from adjoint.engine.core.object_layout import word_at
from adjoint.engine.core.operations.record import Record
from adjoint.engine.tensor.tensor import LONG

# What `@noted` tells: that nothing was done, that nothing is left to do, that an error is set.
UNKNOWN, DONE, RAISED = range(3)
FLAGS = DTYPE + HEAD // 2  # where arrays keep what may be done with them
WRITEABLE = 0x400  # of which this says that elements may be written
# The numbers of two functions in NumPy's C interface, since 1.7.
NEW_FROM_DTYPE, SET_BASE = 94, 282
ONE_OF_A_KIND = (1, 2)  # dtypes that are one object each: NumPy's own, and those it was told of
Links = Sequence[tuple[Record, dict[str, Any]]]
Shown = tuple[int, Links]  # which operand a view is of, and its links


def text(at: dict[str, int], arrays: int) -> str:
    """The functions, after those that look into objects and the one that makes nodes.

    Views are arrays of the class at this place among the words of the world.
    """
    return "\n".join((_chained(), _show(at, arrays)))


def _chained() -> str:
    """The links of a view of what has this chain; null where that would be many."""
    f = ObjectFunction("chained", "chain", "record", "params")
    refuse = f.ending("refuse", None)
    count = f.number("PyTuple_Size", "%chain")
    f.check(count + 1 < LONG, refuse)
    f.hold("%chain")
    link = f.made("PyTuple_New", 2, otherwise=refuse)
    links = f.made("PyTuple_New", count + 1, otherwise=refuse)
    f.put(link, 0, "%record")
    f.put(link, 1, "%params")
    f.each(count, lambda k: f.put(links, k, f.item("%chain", k)))
    f.put(links, count, link)
    f.let_go("%chain")
    f.tell(links)
    return f.text()


def _show(at: dict[str, int], arrays: int) -> str:
    """A tensor on an array that shows another tensor, on the tape where there are plans."""
    f = ObjectFunction("show", "self", "args", "i64 given", at=at)

    unlike = f.ending("unlike", "@nothing", forget=True)
    raised = f.ending("raised", None)
    source, array, record, params, plans = f.arguments(5)
    is_array = f.truth("is_a", f.call("class_of", array), arrays)
    f.check(f.truth("is_tensor", source) & is_array, unlike)
    followed = ~f.same(plans, "@nothing")
    base = f.field(source, "tensor._base")

    def of_view() -> list[str]:
        first, then = f.item(base, 0), f.item(base, 1)
        f.check(f.same(f.field(first, "tensor._base"), "@nothing"), unlike)
        return [first, then]

    root, marked = f.choose(f.same(base, "@nothing"), lambda: [source, "@nothing"], of_view)
    on = followed & ~f.same(marked, "@no_grad")
    mark = f.either(on, f.field(root, "tensor._node"), "@no_grad")
    f.hold(root, mark)
    of = f.made("PyTuple_New", 2, otherwise=unlike)
    f.put(of, 0, root)
    f.put(of, 1, mark)
    chain = f.field(source, "tensor._chain")
    links = f.made("chained", chain, record, params, otherwise=unlike)
    view = f.call("window_on", array, f.field(source, "tensor._storage"), links, of)
    f.let_go(links, of)
    f.refuse(f.is_null(view), unlike)
    f.end_where(~followed, lambda: f.tell(view))
    f.own(view)
    operands = f.made("PyTuple_New", 1, otherwise=unlike)
    f.put(operands, 0, source)
    told = f.number("noted_one", plans, operands, params, view, kind="i32")
    f.let_go(operands)
    f.refuse(told.eq(UNKNOWN), unlike)
    f.refuse(told.eq(RAISED), raised)
    f.tell(view)
    return f.text()


@cache
def array_makers() -> dict[str, int] | None:
    """NumPy's functions that make an array of memory and have it keep another; None: not found.

    >>> sorted(array_makers())
    ['new_array', 'set_base']
    """
    try:
        interface = sys.modules["numpy._core._multiarray_umath"]._ARRAY_API
    except (KeyError, AttributeError):
        return None
    samples = np.zeros(3), np.zeros((2, 3)).T
    samples[1].flags.writeable = False
    for array in samples:
        flags = ctypes.c_int.from_address(id(array) + FLAGS).value
        if bool(flags & WRITEABLE) != array.flags.writeable:
            return None
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = get(interface, None)
    word = ctypes.sizeof(ctypes.c_void_p)
    return {
        "new_array": word_at(table + NEW_FROM_DTYPE * word),
        "set_base": word_at(table + SET_BASE * word),
    }


def shower(
    views: Sequence[Shown], arrays: dict[int, Any], follow: Callable[..., Any]
) -> tuple[Any, ...] | Callable[..., Any]:
    """What native code makes views by (Note [views by words]), the arrays by operands; `follow`,
    which shows the tensors among the operands so, where it cannot."""
    chains = []
    for place, links in views:
        array, steps = arrays[place], []
        if array.__class__ is not ndarray or not array.flags.writeable:
            return follow
        for record, params in links:
            seen = partial(find_kernel(record), **params)(array)
            if seen.__class__ is not ndarray or not seen.flags.writeable or not seen.size:
                return follow
            if not np.may_share_memory(seen, array) or seen.dtype.isbuiltin not in ONE_OF_A_KIND:
                return follow
            ahead = slow_address(seen) - slow_address(array)
            words = np.array([seen.ndim, ahead, *seen.shape, *seen.strides], np.int64)
            steps.append((words, seen.dtype, record, params, record.tape))
            array = seen
        chains.append((place, tuple(steps)))
    return (tuple(chains), follow)


def followed_text() -> str:
    """The functions that show operands by words, after the others here and those of `calling`."""
    return "\n".join((DECLARED, _seen(), _follow(), _follow_of(), _show_views()))


DECLARED = """
@ndarray = external global i8
declare ptr @new_array(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare i32 @set_base(ptr, ptr)"""


def _seen() -> str:
    """The array that shows another by a link's words."""
    f = ObjectFunction("seen", "array", "link")
    refuse = f.ending("refuse", None)
    dtype, words = f.item("%link", 1), f.call("held", f.item("%link", 0), HEAD)
    rank, ahead, sizes = f.word(words, 0), f.word(words, 1), f.place("i64", words, 2)
    strides = f.place("i64", sizes, rank)
    data = f.place("i8", f.call("held", "%array", HEAD), ahead)
    writeable = f.word(f.place("i8", "%array", FLAGS), 0, "i32") & WRITEABLE
    short = rank.convert("i32")
    f.do("Py_IncRef", dtype)  # NumPy's functions own what they are given
    made = f.made(
        "new_array", "@ndarray", dtype, short, sizes, strides, data, writeable, None,
        otherwise=refuse,
    )  # fmt: skip
    f.do("Py_IncRef", "%array")
    f.refuse(f.number("set_base", made, "%array", kind="i32") < 0, refuse)
    f.tell(made)
    return f.text()


def _follow() -> str:
    """A view of a tensor by links, each of which shows what the one before does; None: unknown."""
    f = ObjectFunction("follow", "source", "first", "links", "taped")
    failed = f.ending("failed", None)
    untaped = f.same("%taped", "@false")
    f.hold("%source")

    def shown(k: V, x: str, array: str) -> list[str]:
        link = f.item("%links", k)
        shows = f.made("seen", array, link, otherwise=failed)
        plans = f.either(untaped, "@nothing", f.item(link, 4))
        given = f.listed(x, shows, f.item(link, 2), f.item(link, 3), plans)
        view = f.call("show", None, given, 5)
        f.let_go(shows)

        def leave() -> None:
            f.let_go(x)
            f.tell(view)

        f.end_where(f.is_null(view) | f.same(view, "@nothing"), leave)
        f.own(view)
        f.let_go(x)
        return [view, shows]

    view, _ = f.each(f.number("PyTuple_Size", "%links"), shown, "%source", "%first")
    f.tell(view)
    return f.text()


def _follow_of() -> str:
    """The same of one of the operands, by what its program says of it."""
    f = ObjectFunction("follow_of", "chain", "operands", "taped")
    place = f.number("PyLong_AsLongLong", f.item("%chain", 0))
    source = f.item("%operands", place)
    array = f.call("array_in", source)
    f.hold(array)
    view = f.own(f.call("follow", source, array, f.item("%chain", 1), "%taped"))
    f.let_go(array)
    f.tell(view)
    return f.text()


def _show_views() -> str:
    """All that a program shows of its operands; by Python's function, where words do not do it."""
    f = ObjectFunction("show_views", "program", "operands", "taped")
    shower = f.item("%program", 6)
    by_words = f.truth("is_a", f.call("class_of", shower), TUPLE)

    def tell_called(function: str) -> None:
        f.tell(f.call("called", "%program", function, "%operands", True))

    f.end_where(~by_words, lambda: tell_called(shower))

    def leave() -> None:
        f.do("Py_DecRef", "@nothing")  # in the place of a view that is not known
        tell_called(f.item(shower, 1))

    left = f.way_out("left", leave)
    refuse = f.ending("refuse", None)
    changed = f.ending("changed", "@nothing")
    chains = f.item(shower, 0)

    def tell_one() -> None:
        view = f.call("follow_of", f.item(chains, 0), "%operands", "%taped")
        f.refuse(f.same(view, "@nothing"), left)
        f.tell(view)

    f.end_where(~f.same(f.item("%program", 5), "@false"), tell_one)
    count = f.number("PyTuple_Size", chains)
    views = f.made("PyTuple_New", count, otherwise=refuse)
    f.check(f.truth("operands_fit", "%program", "%operands", f.room(SLOTS)), changed)

    def put(k: V) -> None:
        view = f.call("follow_of", f.item(chains, k), "%operands", "%taped")
        f.refuse(f.is_null(view), refuse)
        f.refuse(f.same(view, "@nothing"), left)
        f.put(views, k, f.own(view))

    f.each(count, put)
    f.tell(views)
    return f.text()
