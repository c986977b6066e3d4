"""Calls of public functions on the tape, on few elements, as the operation each comes to.

Note [one operation]
    Off the tape a public function's call is one program (Note [small calls]). On the tape it is the
    operations that have programs and nodes (Note [seen on the tape]), and most functions come to
    one: what lies between is Python that sorts arguments, longer than the operation. So a call that
    is met again and again is listened to once: which operation it ran, on which of its arguments,
    and which of its results it gave. Native code then compares arguments as it does for programs,
    besides which of them the tape follows, and runs that operation's program and makes its node.

    Only functions whose results their arguments' layouts and elements alone decide are noted, as
    off the tape, and only where a recording of the call can be made: else it looks at elements. The
    operation alone must give the same bytes. Settings that were asked for, warnings, draws, and
    tensors that were written to leave a call as it is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.core.dtype import DEFAULT_LISTENERS
from adjoint.engine.core.errors import raised_outside
from adjoint.engine.core.operations.met_calls import is_followed
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.operations.small_calls import CREATING, DRAWING, VIEWING, SmallCalls
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.eager.device_straight import LISTENING, Heard, has_tensor
from adjoint.engine.graph.eager.enlisted import enlist_taped
from adjoint.engine.graph.eager.fragment import Unfit
from adjoint.engine.graph.eager.small_calls import (
    KEPT,
    MOST,
    SIGHTED,
    agrees,
    copied,
    is_literal,
    kind_of,
    own_warnings,
)
from adjoint.engine.graph.eager.straight import straight_program
from adjoint.engine.tensor.tensor import Tensor

# By kind: how often it was sighted, what native code finds it by, None where it runs as it is.
BY_KIND: dict[Any, tuple[Any, ...] | int | None] = {}
DEFAULT_LISTENERS.append(BY_KIND.clear)
NOT_NOTED = VIEWING | DRAWING | CREATING  # whose results are not those of an operation alone


def note(
    calls: SmallCalls, operands: tuple[Any, ...], params: dict[str, Any], call: Callable[[], Any]
) -> None:
    """One more call on the tape that nothing was found for; listen to it, if there were some."""
    if not HOOKS.small_call_code or calls.name in NOT_NOTED or calls.into:
        return
    tensors = [x for x in operands if isinstance(x, Tensor)]
    if any(x._array.size > MOST for x in tensors):
        return
    kind = kind_of(calls, operands, params, of_any_size=True)
    if kind is None:
        return
    pattern = pattern_of(tensors)
    kind = (*kind, pattern)
    entry = BY_KIND.get(kind, 0)
    if entry.__class__ is int:
        if len(BY_KIND) > KEPT:
            BY_KIND.clear()
        BY_KIND[kind] = entry + 1
        if entry < SIGHTED:
            return
        BY_KIND[kind] = None
        try:
            entry = entry_of(calls, operands, params, call, pattern)
        except BaseException:  # an interrupt: another call shall try again
            BY_KIND.pop(kind, None)
            raise
        BY_KIND[kind] = entry
    if entry is not None:  # perhaps again: more recent ones had pushed it out
        enlist_taped(calls, entry)


def pattern_of(tensors: Sequence[Tensor]) -> int:
    """Which tensors the tape follows, as native code counts: a bit each, after a first one."""
    bits = 1
    for x in tensors:
        bits = 2 * bits + bool(is_followed(x))
    return bits


def entry_of(
    calls: SmallCalls,
    operands: tuple[Any, ...],
    params: dict[str, Any],
    call: Callable[[], Any],
    pattern: int,
) -> tuple[Any, ...] | None:
    """What native code compares with a call of this kind and does; None: it runs as it is."""
    settings: set[str] = set()
    before = CONTEXT.every_field()
    try:
        with own_warnings() as warned, CONTEXT.having(consulted=settings):
            step = step_of(calls, operands, call)
    except Exception as error:  # whatever it is, calls go on as before
        if raised_outside(error):
            raise
        return None
    finally:
        CONTEXT.__dict__.update(before)  # an interrupt may have left them
    if step is None or settings or warned:
        return None
    given = [copied(x) for x in operands]
    own = {name: copied(x) for name, x in params.items()}
    entry: tuple[Any, ...] | None = HOOKS.taped_entry(step, given, own, pattern)
    return entry


def step_of(
    calls: SmallCalls, operands: tuple[Any, ...], call: Callable[[], Any]
) -> tuple[Any, ...] | None:
    """The operation of a call, what it is given and which results are the call's; None: not one."""
    tensors = [x for x in operands if isinstance(x, Tensor)]
    if straight_program(tensors, call, of_call=True) is None:
        return None
    versions = [x._storage.version for x in tensors]
    wanted, log = heard(call)
    if [x._storage.version for x in tensors] != versions or len(log) != 1:
        return None
    record, given, params, out = log[0]
    outs = out if out.__class__ is tuple else (out,)
    if not is_alone(record) or any(x.__class__ is not Tensor or x._storage.version for x in outs):
        return None
    if not all(map(is_literal, params.values())):
        return None
    sources = sources_of(given, operands)
    picks = picks_of(wanted, outs)
    if sources is None or picks is None or not agrees(calls, type_of_several(wanted)):
        return None
    with CONTEXT.having(grad_enabled=False):
        again = record(*given, **params)
    arrays = [x._array for x in (again if again.__class__ is tuple else (again,))]
    if not HOOKS.same_arrays(arrays, [x._array for x in outs]):
        return None
    return record, sources, dict(params), picks


def heard(call: Callable[[], Any]) -> tuple[Any, list[Heard]]:
    """What a call gives, and the operations it ran that no other one runs.

    `Unfit` where elements were read, or an operation was kept from the tape. What is changed for
    that is put back by statements alone, between which no interrupt comes.
    """
    log: list[Heard] = []
    thread, depth, unheard = threading.get_ident(), [0], [0]
    before, to_host, taped = HOOKS.run, HOOKS.array.to_host, CONTEXT.grad_enabled

    def run(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if threading.get_ident() != thread:
            return before(record, operands, params)
        unheard[0] += not depth[0] and CONTEXT.grad_enabled is not taped
        depth[0] += 1
        try:
            out = before(record, operands, params)
        finally:
            depth[0] -= 1
        if not depth[0]:
            log.append((record, operands, params, out))
        return out

    def read(array: Any) -> Any:
        unheard[0] += threading.get_ident() == thread and not depth[0]
        return to_host(array)

    if not LISTENING.acquire(blocking=False):
        raise Unfit  # another thread listens: another time
    try:
        HOOKS.run = run
        HOOKS.array.to_host = read
        wanted = call()
    finally:
        HOOKS.run = before
        HOOKS.array.to_host = to_host
        LISTENING.release()
    if unheard[0]:
        raise Unfit
    return wanted, log


def is_alone(record: Record) -> bool:
    """Whether all that an operation does is to compute, and to have one node."""
    if record.draws or record.creates or record.opaque or record.communicates:
        return False
    return record.window is None and record.one_node


def sources_of(given: Sequence[Any], operands: Sequence[Any]) -> tuple[Any, ...] | None:
    """Of each operand of the operation its place among the call's, or itself, if it is a literal;
    None where something else counts, or a tensor counts for nothing."""
    places: dict[int, int] = {}
    for k, x in enumerate(operands):
        if is_tensor(x):
            places.setdefault(id(x), k)
    sources = []
    for x in given:
        if id(x) in places and is_tensor(x):
            sources.append((True, places[id(x)]))
        elif has_tensor(x) or not is_literal(x):
            return None
        else:
            sources.append((False, x))
    used = {place for held, place in sources if held}
    return tuple(sources) if used == {*places.values()} else None


def picks_of(wanted: Any, outs: Sequence[Any]) -> Any:
    """Which of the operation's results a call gives, or which in order; None: something else."""
    places = {id(x): k for k, x in enumerate(outs)}
    if isinstance(wanted, Tensor):
        return places.get(id(wanted))
    if not isinstance(wanted, tuple) or any(id(x) not in places for x in wanted):
        return None
    return tuple([places[id(x)] for x in wanted])


def type_of_several(wanted: Any) -> Any:
    """What several results come in."""
    return None if isinstance(wanted, Tensor) else type(wanted)
