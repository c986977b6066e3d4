"""Calls on a GPU whose arguments were looked at before: what they come to, and nothing else.

Note [calls heard before]
    A convolution of few elements is asked of a library, so it is no program (Note [calls on a
    device]); what it costs is Python that looks at its arguments. All of that depends on literals,
    on how tensors lie, and on whether the tape follows them. So a call that is met again and again
    is listened to once: which operations it ran, on what. Native code compares arguments as it
    does for programs (Note [met launches]), and the same operations are run on the new tensors, on
    the tape as well, which gives the same bytes. So are views: the chain of them is followed; and
    tensors made like others (`empty_like`; Note [made on a device]).

    Only functions that look at no elements are in `core.operations.small_calls.STRAIGHT`; a call
    that reads some all the same (a tensor in the place of a number) is not kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from adjoint.engine.core.device import CURRENT_INDEX
from adjoint.engine.core.dtype import DEFAULT_LISTENERS
from adjoint.engine.core.errors import raised_outside
from adjoint.engine.core.operations.listing import every
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.operations.small_calls import (
    DRAWING,
    VIEWING,
    VIEWING_SEVERAL,
    SmallCalls,
)
from adjoint.engine.core.state import switches
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.late_faults import look
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE
from adjoint.engine.graph.eager import device_calls, device_made
from adjoint.engine.graph.eager.enlisted import enlist_straight
from adjoint.engine.graph.eager.fragment import Unfit
from adjoint.engine.graph.eager.small_calls import (
    chains_of,
    copied,
    own_warnings,
)
from adjoint.engine.tensor.tensor import Tensor

Function = Callable[..., Any]  # of a call's operands
Pattern = tuple[bool, ...]  # whether the tape is on and which operands it follows
# Steps, and which of all tensors is the result, or are the results.
Way = tuple[tuple["Step", ...], int | tuple[int, ...]]
BY_KIND: dict[Any, Any] = {}  # an int: times sighted; None: it has none
DEFAULT_LISTENERS.append(BY_KIND.clear)
LISTENING = threading.Lock()  # doors are changed by one thread at a time


class Step(NamedTuple):
    """An operation of a call: of each operand its place among all tensors, or itself."""

    record: Record
    operands: tuple[tuple[bool, Any], ...]
    params: dict[str, Any]
    prepared: Callable[[tuple[Any, ...]], Any] | None  # the same, of operands looked at before
    in_place: bool  # whether the first operand's memory is nobody's else afterwards
    takes_all: bool  # whether its operands are the call's tensors in their order


def note(
    calls: SmallCalls, operands: tuple[Any, ...], params: dict[str, Any], call: Callable[[], Any]
) -> None:
    """One more call that nothing was found for: listen to it, if there were some of its kind."""
    if STREAM_CAPTURE.graph is not None or device_calls.is_inside_another():
        return
    kind = device_calls.kind_of(calls, operands, params, of_any_size=True)
    if kind is None:
        return
    entry, views = BY_KIND.get(kind, 0), calls.name in VIEWING
    if entry is None:
        return
    if entry.__class__ is int:
        if len(BY_KIND) > device_calls.KEPT:
            BY_KIND.clear()
        BY_KIND[kind] = entry + 1
        if entry < device_calls.SIGHTED:
            return
        BY_KIND[kind] = None
        several = calls.name in VIEWING_SEVERAL
        if views and not several and len(device_calls.tensors_of(operands)) != 1:
            return
    look()  # for what earlier calls reported, which is theirs
    settings: set[str] = set()
    before = CONTEXT.every_field()
    try:
        with own_warnings() as warned, CONTEXT.having(consulted=settings):
            known = None if entry.__class__ is int else entry
            if views:
                function = viewed(calls, operands, call, known)
            elif calls.name in DRAWING:
                function = likened(calls, operands, params, call, known)
            else:
                function = heard(calls, operands, call, known)
            if settings or warned:  # in one of its ways at least
                BY_KIND[kind] = None
                if isinstance(known, HeardCall):
                    known.ways.clear()
                return
            if function is None:
                return
            BY_KIND[kind] = function
            if any(entry[6] is function for entry in every(calls.straight)):
                return  # with one more way
            given = tuple([copied(x) for x in operands])
            own = {name: copied(x) for name, x in params.items()}
            owned = (calls, given, own, switches.computed_with)
            found = HOOKS.straight_entry(function, owned)
            if found is not None:
                enlist_straight(calls, found)
    except Exception as error:  # whatever it is, the call itself succeeds or says what is wrong
        if raised_outside(error):
            raise
        return
    finally:
        CONTEXT.__dict__.update(before)  # an interrupt may have left them


def viewed(
    calls: SmallCalls, operands: tuple[Any, ...], call: Callable[[], Any], known: Function | None
) -> Function | None:
    """What follows the chains of views that a call gives; None where it gives others."""
    if known is not None:  # pushed out by more recent ones
        return known
    sources = device_calls.tensors_of(operands)
    chains = chains_of(calls, sources, call)
    if chains is None:
        return None
    views, single = chains
    places = [next(k for k, x in enumerate(operands) if x is source) for source in sources]
    if len({which for which, _ in views}) > 1:
        each = [
            (places[which], HOOKS.view_call((links,), True, sources[which]._array))
            for which, links in views
        ]
        return lambda *given: tuple([show(given[place]) for place, show in each])
    which = views[0][0]
    every = tuple([links for _, links in views])
    follow: Function = HOOKS.view_call(every, single, sources[which]._array)
    place = places[which]
    return follow if place == 0 else lambda *given: follow(given[place])


def likened(
    calls: SmallCalls,
    operands: tuple[Any, ...],
    params: dict[str, Any],
    call: Callable[[], Any],
    known: Function | None,
) -> Function | None:
    """What makes a tensor like another, whose elements are drawn or nobody has written."""
    if known is not None:
        return known
    if params.get("requires_grad") or params.get("device") is not None:
        return None
    make = device_made.function_of(calls, list(operands), params, call)
    return lambda *_: make()


class HeardCall:
    """The operations of a call, by what of it is on the tape."""

    __slots__ = ("device", "places", "ways")

    def __init__(self, places: tuple[int, ...], device: int) -> None:
        self.places = places  # of tensors among the operands
        self.device = device
        self.ways: dict[Pattern, Way | None] = {}

    def pattern(self, tensors: list[Any]) -> Pattern:
        """What of a call is on the tape."""
        if not CONTEXT.grad_enabled:
            return (False,)
        found = [True]
        for x in tensors:  # `is_followed`, inline
            base = x._base
            found.append(x._requires_grad or (base is not None and base[0]._requires_grad))
        return tuple(found)

    def __call__(self, *operands: Any) -> Any:
        tensors = [operands[k] for k in self.places]
        way = self.ways.get(self.pattern(tensors))
        if way is None or CURRENT_INDEX["cuda"]() != self.device:
            return None
        (first, *more), _ = way
        if not more and first.prepared is not None and first.takes_all:
            out = first.prepared(tuple(tensors))
            if out is not None:
                return out
        return replayed(way, tensors)


def replayed(way: Way, tensors: list[Any]) -> Any:
    """The result of some operations."""
    run, (steps, result) = HOOKS.run, way
    for record, given, params, prepared, in_place, _ in steps:
        operands = tuple([tensors[x] if held else x for held, x in given])
        out = None if prepared is None else prepared(operands)
        if in_place and HOOKS.compute_into(record, *operands):
            out = operands[0]
        if out is None:
            out = run(record, operands, params)
        if out.__class__ is tuple:
            tensors += out
        else:
            tensors.append(out)
    if result.__class__ is int:
        return tensors[result]
    return tuple([tensors[k] for k in result])  # type: ignore[union-attr]


def heard(
    calls: SmallCalls, operands: tuple[Any, ...], call: Callable[[], Any], known: Any
) -> Function | None:
    """What runs the operations of a call; None where they cannot be told from it."""
    places = tuple([k for k, x in enumerate(operands) if isinstance(x, Tensor)])
    tensors = [operands[k] for k in places]
    devices = {int(x.device.index) for x in tensors}
    if devices != {CURRENT_INDEX["cuda"]()}:
        return None
    found: HeardCall = HeardCall(places, *devices) if known is None else known
    pattern = found.pattern(tensors)
    if pattern in found.ways:
        return found
    found.ways[pattern] = None  # if it cannot be told, it is not tried again
    with listening() as log:
        wanted = call()
    with CONTEXT.having(grad_enabled=False, consulted=set()):
        way = way_of(log, tensors, wanted, followed=any(pattern[1:]))
        again = replayed(way, list(tensors))
    if not device_calls.same(again, wanted):
        return None
    found.ways[pattern] = way
    return found


Heard = tuple[Record, tuple[Any, ...], dict[str, Any], Any]


@contextmanager
def listening() -> Iterator[list[Heard]]:
    """A block whose operations, those of this thread that no other one runs, are written down.

    It ends in `Unfit` where something else counts: elements were read, or an operation was kept
    from the tape.
    """
    if not LISTENING.acquire(blocking=False):
        raise Unfit  # another thread listens: another time
    log: list[Heard] = []
    thread, depth, before = threading.get_ident(), [0], HOOKS.run
    to_host, taped, unheard = HOOKS.array.to_host, CONTEXT.grad_enabled, [0]

    def run(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if threading.get_ident() != thread:
            return before(record, operands, params)
        unheard[0] += not depth[0] and CONTEXT.grad_enabled is not taped
        depth[0] += 1
        try:
            with CONTEXT.having(consulted=set()):  # by operations, which will do so again
                out = before(record, operands, params)
        finally:
            depth[0] -= 1
        if not depth[0]:
            log.append((record, operands, params, out))
        return out

    def read(array: Any) -> Any:
        unheard[0] += threading.get_ident() == thread and not depth[0]
        return to_host(array)

    doors = HOOKS.meet_on_device, HOOKS.meet_straight  # by which others would not be heard
    try:
        HOOKS.run, HOOKS.meet_on_device, HOOKS.meet_straight = run, nothing, nothing
        HOOKS.array.to_host = read
        yield log
    finally:
        HOOKS.run, HOOKS.array.to_host = before, to_host
        # Native code that was first made meanwhile has put its own there.
        if HOOKS.meet_on_device is nothing:
            HOOKS.meet_on_device = doors[0]
        if HOOKS.meet_straight is nothing:
            HOOKS.meet_straight = doors[1]
        LISTENING.release()
    if unheard[0]:
        raise Unfit


def nothing(*_: Any) -> None:
    """What is found while nothing is to be."""


def viewing_step(
    record: Record, operands: tuple[Any, ...], params: dict[str, Any]
) -> Callable[[tuple[Any, ...]], Any] | None:
    """What shows a tensor as a record of views does, its arguments looked at before."""
    if len(operands) != 1:
        return None
    follow: Function = HOOKS.view_call((((record, dict(params)),),), True, operands[0]._array)
    return lambda given: follow(given[0])


def is_passing(
    log: list[Heard], tensors: list[Any], record: Record, operands: tuple[Any, ...]
) -> bool:
    """Whether an operation of two operands is all that reads what a library has made."""
    first = operands[0]
    if record.family != "elementwise" or len(operands) != 2 or not is_tensor(first):
        return False
    made = any(first is out and r.by_library for r, _, _, out in log)
    reads = sum(x is first for _, given, _, _ in log for x in given)
    return made and reads == 1 and all(first is not x for x in tensors)


def has_tensor(x: Any) -> bool:
    """Whether a parameter is a tensor, or one is among its parts."""
    return any(map(has_tensor, x)) if isinstance(x, (tuple, list)) else is_tensor(x)


def way_of(log: list[Heard], tensors: list[Any], wanted: Any, *, followed: bool) -> Way:
    """Operations as steps; `Unfit` where one reads what is no operand, draws, or is written to.

    `followed`: the tape keeps what they read.
    """
    seen = {id(x): k for k, x in enumerate(tensors)}
    steps, count = [], len(tensors)
    for record, operands, params, out in log:
        several = out.__class__ is tuple
        outs = out if several else (out,)
        if record.draws or not all(map(is_tensor, outs)) or any(map(has_tensor, params.values())):
            raise Unfit
        if not record.is_view and any(made._storage.version for made in outs):
            raise Unfit  # written to, which was not heard
        given = []
        for x in operands:
            if id(x) not in seen and has_tensor(x):
                raise Unfit
            given.append((True, seen[id(x)]) if is_tensor(x) else (False, x))
        for number, made in enumerate(outs, count):
            seen[id(made)] = number
        count += len(outs)
        prepared = viewing_step(record, operands, params) if record.is_view else None
        prepared = prepared or HOOKS.prepared_step(record, operands, params)
        whole = not (followed or params) and is_passing(log, tensors, record, operands)
        alike = given == [(True, k) for k in range(len(tensors))]
        steps.append(Step(record, tuple(given), dict(params), prepared, whole, alike))
    several = wanted.__class__ is tuple
    results, made = wanted if several else (wanted,), {id(x) for x in results_of(log)}
    if not (results and all(x.__class__ is Tensor and id(x) in made for x in results)):
        raise Unfit
    used = {x for step in steps for held, x in step.operands if held}
    if not used.issuperset(seen[id(x)] for x in tensors):
        raise Unfit  # one counts for something that is no operation's
    places = tuple([seen[id(x)] for x in results])
    return tuple(steps), places if several else places[0]


def results_of(log: list[Heard]) -> list[Any]:
    """What operations gave."""
    return [x for *_, out in log for x in (out if out.__class__ is tuple else (out,))]
