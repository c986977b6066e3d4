"""Calls of public functions on a GPU as one program each.

Note [calls on a device]
    What is true of small calls on the CPU (Note [small calls]) is true on a GPU up to millions of
    elements, through which it goes in microseconds: Python around several launches takes longer.
    So a call that is met again and again with arguments of one kind is recorded whole and compiled
    as a fragment is. It stands for the call if it gave the same bytes once (where sums come in any
    order, the same but for rounding), and where nobody can tell: nothing is on the tape, no setting
    was asked for, nobody warned. Native code finds and
    launches it (Note [met launches]). While a stream is captured nothing is tried: that would wait
    for the GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DEFAULT_LISTENERS
from adjoint.engine.core.errors import raised_outside
from adjoint.engine.core.operations import public
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS, LONG_LINE
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.operations.small_calls import SHAPE, VIEWING, SmallCalls
from adjoint.engine.core.state import switches
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.late_faults import look
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE
from adjoint.engine.graph.eager.enlisted import enlist_on_device
from adjoint.engine.graph.eager.fragments import FRAGMENTS, elsewhere
from adjoint.engine.graph.eager.recorded import compiled
from adjoint.engine.graph.eager.small_calls import (
    agrees,
    copied,
    is_literal,
    own_warnings,
)
from adjoint.engine.graph.ir import frozen
from adjoint.engine.tensor.tensor import Tensor

SIGHTED = 2  # times that a kind is looked at before it gets a program
MOST = 1 << 21  # elements of a tensor: beyond, the GPU is what a call costs
KEPT = 4096  # kinds
PUBLIC = public.__file__
BY_KIND: dict[Any, tuple[Any, ...] | int | None] = {}  # an int: times sighted; None: it has none
TRIED: dict[SmallCalls, int] = {}  # kinds of a function that were tried
# What atomics add up, in the order in which they come to it.
SUMMED_ANYHOW = frozenset({"embedding_bag", "index_add", "scatter_add", "scatter_reduce"})
SORTING = frozenset(
    {"argsort", "kthvalue", "median", "msort", "nanmedian", "nanquantile", "quantile", "sort"}
)
MOVING_CALLS = frozenset(SHAPE.split())
# Which read few elements of one tensor, however many it has.
PICKING_CALLS = frozenset({"embedding", "embedding_bag", "gather", "index_select", "take"})
ROUNDED = 256  # roundings of a sum
# By bytes: numbers that are compared as bits.
WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
MOST_TRIED = 16  # of them: to try one takes milliseconds, or what its kernels take to compile
DEFAULT_LISTENERS.append(BY_KIND.clear)  # recordings depend on the default dtype


def note(
    calls: SmallCalls, operands: tuple[Any, ...], params: dict[str, Any], call: Callable[[], Any]
) -> None:
    """One more call without a program: give its kind one, if there were some of that kind."""
    if STREAM_CAPTURE.graph is not None or is_inside_another() or is_uneven(calls, operands):
        return
    kind = kind_of(calls, operands, params)
    if kind is None:
        return
    entry = BY_KIND.get(kind, 0)
    if entry.__class__ is int:
        if len(BY_KIND) > KEPT:
            BY_KIND.clear()
        if entry < SIGHTED:
            BY_KIND[kind] = entry + 1
            return
        BY_KIND[kind] = None
        if TRIED.get(calls, 0) >= MOST_TRIED:
            return
        TRIED[calls] = TRIED.get(calls, 0) + 1
        look()  # for what earlier calls reported, which is theirs
        with CONTEXT.having(grad_enabled=False):
            wanted = call()
        given = tensors_of(operands)
        of_few = bool(given) and all(x._array.size <= MOST for x in given)
        if not of_few and wanted.numel() > MOST:  # of which only this one tells
            return
        entry = BY_KIND[kind] = tried(calls, operands, params, call, wanted)
    if entry is not None:  # perhaps again: more recent ones had pushed it out
        enlist_on_device(calls, entry)


def is_uneven(calls: SmallCalls, operands: tuple[Any, ...]) -> bool:
    """Whether a call is about bags that offsets divide: one kernel of the eager table does that."""
    first = operands[0] if operands else None
    return calls.name == "embedding_bag" and isinstance(first, Tensor) and first.ndim == 1


def is_inside_another() -> bool:
    """Whether the call was made by another public function, whose program would do without it."""
    frame, seen = sys._getframe(2), 0
    while frame is not None and seen < 2:
        code = frame.f_code
        seen += code.co_name == "variant" and code.co_filename == PUBLIC
        frame = frame.f_back  # type: ignore[assignment]
    return seen > 1


def kind_of(
    calls: SmallCalls, operands: tuple[Any, ...], params: dict[str, Any], of_any_size: bool = False
) -> Any:
    """What decides the program of a call; None where it cannot have one."""
    kind: list[Any] = [calls, switches.computed_with]
    tensors: list[int] = []
    any_size = of_any_size or calls.name in VIEWING
    free = len(operands) if any_size else calls.name in PICKING_CALLS  # of any size
    for x in operands:
        if isinstance(x, Tensor):
            array = x._array
            free -= array.size > MOST
            if array.__class__ not in DEVICE_LAYOUTS or free < 0:
                return None
            if array.dtype.kind == "c" and calls.name in MOVING_CALLS:
                return None  # numbers as words are one kernel's each, their parts two (`as_words`)
            if calls.name in SORTING and is_one_line(calls.name, array, operands, params):
                return None
            tensors.append(id(x))
            kind += (Tensor, *elsewhere(array))
        elif is_literal(x):
            kind.append((frozen(x),))
        else:
            return None
    if not all(is_literal(x) or x.__class__ is Device for x in params.values()):
        return None
    kind += [(name, frozen(value)) for name, value in params.items()]
    return (*kind, *map(tensors.index, tensors))


def is_one_line(name: str, array: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> bool:
    """Whether a function sorts one line so long that the eager table does it better."""
    given = {"median": 1, "nanmedian": 1, "nanquantile": 2, "quantile": 2}.get(name, 0)
    flat = len(operands) <= given and "dim" not in params
    return bool(array.size >= LONG_LINE) and (array.ndim == 1 or flat)


def tried(
    calls: SmallCalls,
    operands: tuple[Any, ...],
    params: dict[str, Any],
    call: Callable[[], Any],
    wanted: Any,
) -> tuple[Any, ...] | None:
    """What native code compares with a call of this kind; None: it runs as it is."""
    given = tuple([copied(x) for x in operands])
    own = {name: copied(x) for name, x in params.items()}
    settings: set[str] = set()
    before = CONTEXT.every_field()
    try:
        with own_warnings() as warned, CONTEXT.having(consulted=settings):
            entry = entry_of(calls, given, own, call, wanted)
    except MemoryError:
        raise
    except Exception as error:  # whatever it is, calls go on as before
        if raised_outside(error):
            raise
        return None
    finally:
        CONTEXT.__dict__.update(before)  # an interrupt may have left them
    return None if settings or warned else entry


def entry_of(
    calls: SmallCalls,
    operands: tuple[Any, ...],
    params: dict[str, Any],
    call: Callable[[], Any],
    wanted: Any,
) -> tuple[Any, ...] | None:
    """The same of a call that can be recorded, if its program gives the same bytes."""
    tensors = tensors_of(operands)
    fragment = compiled(tensors, (), lambda _: call(), FRAGMENTS.shared)
    kind = None if fragment.structure is None else fragment.structure.kind
    if not agrees(calls, kind) or any(r is None or not r.as_made for r in fragment.results):
        return None
    found, loosely = fragment(tensors, ()), calls.name in SUMMED_ANYHOW
    native = same(found, wanted, loosely) and getattr(fragment.executable, "native", None)
    if not native:
        return None
    rest, there = switches.computed_with, [True] * len(fragment.results)
    owned = (calls, operands, params, rest)
    entry: tuple[Any, ...] | None = HOOKS.device_entry(
        native, fragment.places, type(Ellipsis), owned, there, kind is None
    )
    if entry is None:
        return None
    met = HOOKS.meet_on_device(calls.name, (entry,), operands, params, rest)
    return entry if met is not None and same(met, wanted, loosely) else None


def tensors_of(operands: tuple[Any, ...]) -> list[Tensor]:
    """The tensors among the operands of a call."""
    return [x for x in operands if isinstance(x, Tensor)]


def same(one: Any, other: Any, loosely: bool = False) -> bool:
    """Whether results lie alike and are the same in every byte, or `loosely` but for rounding."""
    mine, theirs = (x if isinstance(x, Sequence) else (x,) for x in (one, other))
    return len(mine) == len(theirs) and all(
        a.dtype is b.dtype
        and tuple(a.shape) == tuple(b.shape)
        and a.stride() == b.stride()
        and alike_there(a._array, b._array, loosely)
        for a, b in zip(mine, theirs, strict=True)
    )


def alike_there(a: Any, b: Any, loosely: bool) -> bool:
    """`are_alike` of arrays of a GPU's; many bytes are compared there."""
    kind = WORDS.get(a.dtype.itemsize)
    if a.size > MOST and kind is not None and not loosely:
        return bool((a.view(kind) == b.view(kind)).all())
    return are_alike(HOOKS.array.to_host(a), HOOKS.array.to_host(b), loosely)


def are_alike(a: Any, b: Any, loosely: bool) -> bool:
    """Whether arrays of the CPU's are the same in every byte, or `loosely` but for rounding."""
    if a.tobytes() == b.tobytes():
        return True
    if not loosely or not np.issubdtype(a.dtype, np.floating):
        return False
    error = ROUNDED * float(np.finfo(a.dtype).eps)
    return bool(np.allclose(a, b, rtol=error, atol=error, equal_nan=True))
