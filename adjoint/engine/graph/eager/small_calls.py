"""Calls of public functions on few elements as one program each.

Note [small calls]
    Between a public function and the kernels it comes to lies more Python than PyTorch's whole call
    takes: arguments are sorted, several operations bound, their results wrapped. So what is true
    of a small composite (Note [straight programs]) is done for calls of the functions in
    `core.operations.small_calls` as well: one that is met again and again with arguments of one
    kind (literals, and of each tensor dtype, shape and strides) is recorded, kept if it gives the
    same bytes, and found by native code (Note [meeting]), as rows or as calls of kernels. One that
    is a single fragment, and no quicker as rows, is that one's launches (Note [met fragments]).

    A program stands for the call only where nobody can tell: no operand is on the tape, results are
    new tensors, no setting was asked for and nobody warned. A call that reads elements cannot be
    recorded, so it has no program. Of calls that no program fits the first are looked at, and one
    in `EVERY` of others, so that functions of ever new shapes pay little.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from numpy import ndarray

from adjoint.engine.core.dtype import DEFAULT_LISTENERS, DType
from adjoint.engine.core.errors import raised_outside
from adjoint.engine.core.layout import MemoryFormat
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.operations.small_calls import (
    DRAWING,
    FILLED,
    LIKE,
    PICKING,
    VIEWING,
    VIEWING_SEVERAL,
    SmallCalls,
)
from adjoint.engine.core.spec import Size
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.loading import brought
from adjoint.engine.core.state.rng import Generator
from adjoint.engine.graph.eager import drawn, enlisted
from adjoint.engine.graph.eager.fragments import FRAGMENTS
from adjoint.engine.graph.eager.recorded import compiled
from adjoint.engine.graph.eager.straight import (
    LOADED,
    is_one_fragment,
    is_scaled_sum,
    straight_program,
)
from adjoint.engine.graph.ir import frozen
from adjoint.engine.tensor.tensor import Tensor, wrap
from adjoint.engine.tensor.writing.mutation import BY_ELEMENT

SIGHTED = 3  # times that a kind is looked at before it gets a program
MOST = 1 << 15  # elements of a tensor: beyond, Python is no longer what a call costs
# The same of a call that is one fragment, whose launches are its own, in place too
# (`entry_of_update`).
MOST_OF_FRAGMENT = 1 << 18
MOST_COPIED = 1 << 12  # the same of a target whose elements are made apart and copied to it
BY_PLACE = frozenset({"tril", "triu"})  # which ask where an element is
MOST_DRAWN = 1 << 15  # the same where two operations and more, compiled apart, become one program
MOST_FILLED = 1 << 20  # bytes of a new tensor: beyond, all cores write them (`memory.filling`)
KEPT = 4096  # kinds
LITERALS = frozenset({int, float, bool, str, type(None), DType})


class SmallCallPrograms:
    """What native code compares for each kind of call; None for kinds that run as they are."""

    def __init__(self) -> None:
        self.by_kind: dict[Any, tuple[Any, ...] | int | None] = {}  # an int: times sighted
        self.sighted = 0

    def forget(self) -> None:
        """Make every program anew."""
        self.by_kind.clear()


PROGRAMS = SmallCallPrograms()
DEFAULT_LISTENERS.append(PROGRAMS.forget)  # recordings depend on the default dtype


def note(
    calls: SmallCalls, operands: tuple[Any, ...], params: dict[str, Any], call: Callable[[], Any]
) -> None:
    """One more call without a program: give its kind one, if there were some of that kind."""
    PROGRAMS.sighted += 1
    kind = kind_of(calls, operands, params)
    if kind is None:
        return
    entry = PROGRAMS.by_kind.get(kind, 0)
    if entry.__class__ is int:
        if len(PROGRAMS.by_kind) > KEPT:
            PROGRAMS.by_kind.clear()
        unloaded = not HOOKS.small_code and PROGRAMS.sighted < LOADED
        if entry < SIGHTED or unloaded:
            PROGRAMS.by_kind[kind] = entry + 1
            return
        PROGRAMS.by_kind[kind] = None  # to make one takes calls of this kind, which run as they are
        try:
            entry = entry_of(calls, operands, params, call)
        except BaseException:  # an interrupt: another call shall try again
            PROGRAMS.by_kind.pop(kind, None)
            raise
        if calls.into and entry is not None and not gives_its_like(entry, operands):
            entry = None
        PROGRAMS.by_kind[kind] = entry
    if entry is not None:  # perhaps again: more recent ones had pushed it out
        enlisted.enlist(calls, entry)


def kind_of(
    calls: SmallCalls, operands: tuple[Any, ...], params: dict[str, Any], of_any_size: bool = False
) -> Any:
    """What decides the program of a call; None where it cannot have one.

    `of_any_size`: how many elements tensors have, and whether the tape follows them, is not asked.
    """
    kind: list[Any] = [calls]
    tensors: list[int] = []
    any_size = of_any_size or calls.name in VIEWING or calls.name in drawn.FILLING
    for x in operands:
        if isinstance(x, Tensor):
            array = x._array
            first = x is operands[0] and calls.name in PICKING and not calls.into
            if array.__class__ is not ndarray or not (any_size or is_small(x, calls, first)):
                return None
            tensors.append(id(x))
            kind += (Tensor, array.dtype, array.shape, array.strides)
        elif calls.draws and x is operands[-1] and isinstance(x, Generator):
            kind.append(Generator)
        elif is_literal(x) or x.__class__ is MemoryFormat:
            kind.append((frozen(x), classes_of(x)))
        else:
            return None
    for name, value in params.items():
        if not is_literal(value) and value.__class__ is not MemoryFormat:
            return None
        kind += (name, frozen(value), classes_of(value))
    return (*kind, *map(tensors.index, tensors))


def is_small(x: Tensor, calls: SmallCalls, of_any_size: bool = False) -> bool:
    """Whether a tensor has few elements, or few of them are read, and needs no tape."""
    most = MOST_DRAWN if calls.draws else MOST_OF_FRAGMENT
    if x._array.size > most and not of_any_size and calls.name not in LIKE:
        return False
    return calls.unfollowed or not (CONTEXT.grad_enabled and x.requires_grad)


def is_literal(x: Any) -> bool:
    """Whether native code can tell an equal one from others."""
    kind = type(x)
    if kind in LITERALS:
        return True
    return (kind is tuple or kind is list or kind is Size) and all(map(is_literal, x))


def classes_of(x: Any) -> Any:
    """The classes that native code tells apart in a literal: a shape is no equal tuple to it."""
    if x.__class__ in (tuple, list, Size):
        return (x.__class__, *map(classes_of, x))
    return x.__class__


def copied(x: Any) -> Any:
    """A literal that nobody else can change."""
    return [copied(item) for item in x] if x.__class__ is list else x


Entry = tuple[Any, ...] | None
Arguments = tuple[list[Any], dict[str, Any]]  # operands and parameters that nobody else can change


def entry_of(
    calls: SmallCalls, operands: tuple[Any, ...], params: dict[str, Any], call: Callable[[], Any]
) -> Entry:
    """What native code compares with a call of this kind and runs; None: it runs as it is."""
    tensors = [x for x in operands if isinstance(x, Tensor)]
    given = [copied(x) for x in operands], {name: copied(x) for name, x in params.items()}
    settings: set[str] = set()
    before = CONTEXT.every_field()
    try:
        taped = CONTEXT.grad_enabled and not calls.unfollowed
        with own_warnings() as warned, CONTEXT.having(consulted=settings, grad_enabled=taped):
            entry = None
            if calls.name in VIEWING_SEVERAL and not is_seen_apart(tensors):
                return None
            if (len(tensors) == 1 and calls.name in VIEWING) or calls.name in VIEWING_SEVERAL:
                entry = entry_of_views(calls, tensors, given, call)
            if calls.name in drawn.FILLING:
                entry = entry_of_filling(calls, tensors, given, call)
            elif entry is None and all(is_small(x, calls, calls.name in PICKING) for x in tensors):
                make = entry_of_draw if calls.name in DRAWING else entry_of_new
                entry = make(calls, tensors, given, call)
    except Exception as error:  # whatever it is, calls go on as before
        if raised_outside(error):
            raise
        return None
    finally:
        CONTEXT.__dict__.update(before)  # an interrupt may have left them
    return None if settings or warned else entry


def gives_its_like(entry: tuple[Any, ...], operands: Sequence[Any]) -> bool:
    """Whether a program gives one result that can be written to its first operand.

    Rows write to it as to a result, so it must lie as one does; each of its elements is apart.
    """
    words, *_, single, found, _ = entry
    if found == ():
        return True  # nothing is made: what writes to its operand itself was tried on one
    target = operands[0]._array
    reach = target.itemsize
    for step, size in sorted(zip(map(abs, target.strides), target.shape, strict=True)):
        if size > 1 and step < reach:
            return False
        reach += step * (size - 1)
    if single is not True:
        return False
    if words is None:  # a function in the place of makers
        like = found(*[x._array for x in operands if isinstance(x, Tensor)])[0]
    else:
        ((make, given),) = found
        like = make(*given)
        if like.strides != target.strides:
            return False
    return bool(like.dtype == target.dtype and like.shape == target.shape)


@contextlib.contextmanager
def own_warnings() -> Iterator[list[Any]]:
    """The warnings of this thread, which are not shown; those of others are.

    So are those about resources: what the collector finds just now is nobody's here.
    """
    warned: list[Any] = []
    thread = threading.get_ident()
    with warnings.catch_warnings():
        show = warnings.showwarning

        def note_or_show(message: Any, category: type[Warning], *about: Any, **more: Any) -> None:
            if threading.get_ident() == thread and not issubclass(category, ResourceWarning):
                warned.append(message)
            else:
                show(message, category, *about, **more)

        warnings.showwarning = note_or_show
        warnings.simplefilter("always")
        yield warned


def entry_of_new(
    calls: SmallCalls, tensors: list[Tensor], given: Arguments, call: Callable[[], Any]
) -> Entry:
    """The same of a call whose results are new tensors."""
    if calls.name in FILLED and call()._array.nbytes > MOST_FILLED:
        return None
    if calls.name in PICKING and call()._array.size > MOST:
        return None
    few = calls.name in LIKE or calls.name in PICKING or all(x._array.size <= MOST for x in tensors)
    program = straight_program(tensors, call, of_call=True) if few or calls.into else None
    if program is None:
        entry_of_one = entry_of_update if calls.into else entry_of_fragment
        return entry_of_one(calls, tensors, given, call)
    if not all(program.gaps) or not agrees(calls, program.structure):
        return None
    arrays, single = [x._array for x in tensors], program.structure is None
    entry: Entry = HOOKS.small_entry(program.rows, program.kernels, arrays, (*given, single))
    if entry is not None and entry[0] is None and program.looped:
        return None  # no rows: what it is without a program is quicker than its kernels
    if entry is not None and entry[0] is None and calls.into and arrays[0].size >= MOST_COPIED:
        return None  # no rows: its result would be copied, where as it is few elements are written
    return entry


def entry_of_fragment(
    calls: SmallCalls, tensors: list[Tensor], given: Arguments, call: Callable[[], Any]
) -> Entry:
    """The same of a call that is one fragment (Note [met fragments])."""
    if not is_one_fragment(tensors, call):
        return None
    with CONTEXT.having(grad_enabled=False, consulted=None):  # how many workers launch is no matter
        fragment = compiled(tensors, (), lambda _: call(), FRAGMENTS.shared)
        if not HOOKS.same_arrays([fragment(tensors, ())._array], [call()._array]):
            return None
        entry = fragment.entry((), (calls, *given, True))
        return entry if HOOKS.small_call_code else None


def entry_of_update(
    calls: SmallCalls, tensors: list[Tensor], given: Arguments, call: Callable[[], Any]
) -> Entry:
    """The same where a fragment's result is written to the first tensor (Note [updates]).

    A fragment's launches may read an operand after they wrote results. Those of an update are told
    that their target is one; that others share no memory with it is asked before each call.
    """
    operands, params = given
    target = operands[0]
    if not tensors or tensors[0] is not target or len({*map(id, tensors)}) < len(tensors):
        return None
    array = target._array
    if calls.name not in BY_ELEMENT and calls.name != "copy":
        return None
    if any(x._array.shape != array.shape or not x._array.flags.c_contiguous for x in tensors):
        return None
    if not (is_one_fragment(tensors, call) or is_scaled_sum(tensors, call)):
        return None
    if calls.name in BY_PLACE and target.dtype.is_half and array.size > MOST:
        return None  # of triangles of halves only what is zeroed is touched (`zero_triangle`)

    def rule(stand_ins: Sequence[Tensor], _: Any) -> None:
        stand_ins[0].copy_(call())

    with CONTEXT.having(grad_enabled=False, consulted=None):
        made = brought("adjoint.engine.graph.eager.recorded_updates").compiled
        update = made(tensors, (), {}, rule)
        entry: Entry = None
        if update.written == (0,):
            entry = HOOKS.small_update(update.executable, update.places, operands, params)
        if entry is None or not HOOKS.small_call_code:
            return None
        trial = wrap(array.copy())
        done = HOOKS.meet_into_small((entry,), (trial, *operands[1:]), params, False)
        return (
            entry if done is True and HOOKS.same_arrays([trial._array], [call()._array]) else None
        )


def entry_of_draw(
    calls: SmallCalls, tensors: list[Tensor], given: Arguments, call: Callable[[], Any]
) -> Entry:
    """The same of a call that draws random numbers, or leaves elements as they are in memory."""
    draw = drawn.program_of(drawn.drawing_of(calls, tensors, given, call))
    entry: Entry = HOOKS.small_entry(None, draw, (), (*given, True), of="tensors to arrays")
    return entry


def entry_of_filling(
    calls: SmallCalls, tensors: list[Tensor], given: Arguments, call: Callable[[], Any]
) -> Entry:
    """The same of a call that draws into its first tensor."""
    fill = drawn.filling_of(drawn.drawing_of(calls, tensors, given, call))
    entry: Entry = HOOKS.small_entry(None, fill, (), (*given, True), of="tensors")
    return entry


def entry_of_views(
    calls: SmallCalls, tensors: list[Tensor], given: Arguments, call: Callable[[], Any]
) -> Entry:
    """The same of a call whose results are views of the tensors it is given; None where not."""
    found = chains_of(calls, tensors, call)
    if found is None:
        return None
    views, single = found
    places = [k for k, x in enumerate(given[0]) if isinstance(x, Tensor)]
    arrays = {place: x._array for place, x in zip(places, tensors, strict=True)}
    if len(tensors) == 1:
        follow = HOOKS.view_call(tuple([links for _, links in views]), single, tensors[0]._array)
    else:
        follow = shown_apart(
            [
                (which, HOOKS.view_call((links,), True, tensors[which]._array))
                for which, links in views
            ],
            single,
        )
    named = [(places[which], links) for which, links in views]
    entry: Entry = HOOKS.small_entry(
        None, HOOKS.small_views(named, arrays, follow), (), (*given, single)
    )
    return entry


def is_seen_apart(tensors: list[Tensor]) -> bool:
    """Whether there are tensors, and each is of a storage of its own."""
    return 0 < len(tensors) == len({id(x._storage) for x in tensors})


def shown_apart(views: list[tuple[int, Callable[..., Any]]], single: bool) -> Callable[..., Any]:
    """A function of tensors that gives views, each of the one at its place."""

    def follow(*sources: Any) -> Any:
        outs = [show(sources[which]) for which, show in views]
        return outs[0] if single else tuple(outs)

    return follow


def chains_of(
    calls: SmallCalls, sources: list[Tensor], call: Callable[[], Any]
) -> tuple[tuple[tuple[int, Any], ...], bool] | None:
    """The views of tensors that a call gives, each as which it is a view of and its links, and
    whether it is one alone.

    None where it gives something else.
    """
    with CONTEXT.having(grad_enabled=False, reference=True):
        out = call()
    single = isinstance(out, Tensor)
    if not single and out.__class__ is not tuple:
        return None
    views = []
    for view in (out,) if single else out:
        which = shown_source(view, sources)
        if which is None:
            return None
        source = sources[which]
        links = view._chain[len(source._chain) :]
        if view is source or not links:
            return None
        if not all(record.is_view for record, _ in links):
            return None
        views.append((which, links))
    if not views or not agrees(calls, None if single else tuple):
        return None
    return tuple(views), single


def shown_source(view: Tensor, sources: list[Tensor]) -> int | None:
    """Which of some tensors a view is a view of: of several in its chain, the last; None: neither.

    Of two that look the same way at the same memory nothing tells which one it is.
    """
    found: int | None = None
    for k, x in enumerate(sources):
        if x._storage is not view._storage or view._chain[: len(x._chain)] != x._chain:
            continue
        if found is None or len(x._chain) > len(sources[found]._chain):
            found = k
        elif x is not sources[found] and len(x._chain) == len(sources[found]._chain):
            return None
    return found


def agrees(calls: SmallCalls, kind: Any) -> bool:
    """Whether results come in what several results of the function's other programs come in."""
    if kind is None:
        return True
    if kind.__class__ is not type:
        return False
    if calls.kind is None:
        calls.kind, calls.rebuild = kind, getattr(kind, "_make", kind)
    return calls.kind is kind


HOOKS.note_call = note
