"""Chains of views kept short.

Note [long chains]
    A view knows the way from its storage's root (`Tensor._chain`), link by link, so `x = x.t()` in
    a loop makes it longer with every turn, and every turn costs more. So links are left out that
    lead back to where they began: a window of the same dtype, sizes, strides and offset shows the
    same elements, as no two elements of the root lie in one place. From `LONG` links on it is seen
    whether the view shows what its base does; at `MANY`, and whenever their number has doubled
    since, all windows between are compared, and slices of slices become one slice. What is left is
    followed as before, by writes, tape and recordings alike.

    The links of the view's base stay as they are, since a view's chain begins with its base's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.core.operations.record import HOOKS, Record
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.common.stop import STOP
from adjoint.engine.ops.shape.views import SLICE
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import Tensor, alias, root_of, symbolic, wrap

MANY = 64  # links that are worth a look at each

Link = tuple[Record, dict[str, Any]]
Chain = tuple[Link, ...]
State = tuple[Any, ...]  # all that decides which elements a window shows


def shortened(source: Tensor, array: Any, chain: Chain, *, detached: bool = False) -> Chain:
    """The chain of a view of `source` that shows `array`, of few links where that can be.

    One that is `detached` is nobody's view, so that all of its links may be left out.
    """
    known = CONTEXT.capture is None and not CONTEXT.levels and not CONTEXT.reference
    if not known or type(array) is Window:
        return chain
    root = source if source._base is None else root_of(source)
    if detached:
        if source._storage.buffer is None:
            return chain
        root = alias(source)
        root._array, root._chain = source._storage.buffer, ()
    before, count = len(root._chain), len(chain)
    whole = root._array
    if type(whole) is Window or root._storage is not source._storage:
        return chain
    back = whole.shape == array.shape and whole.strides == array.strides
    if not back and (count < MANY or count & (count - 1)):
        return chain
    if any(record is STOP for record, _ in chain[before:]):  # which is there for what it stops
        return chain
    if not is_spread(root.shape, root.stride()):
        return chain
    if back and whole.dtype == array.dtype:
        address = HOOKS.array.address
        if address(whole) == address(array):
            return chain[:before]
    if count < MANY or count & (count - 1):
        return chain
    links = joined(chain[before:])
    states = states_of(root, links)
    if not is_shown(states[-1], array):
        return chain
    return (*chain[:before], *without_rounds(links, states))


def joined(links: Chain) -> Chain:
    """Links with slices of slices as one."""
    out: list[Link] = []
    for record, params in links:
        if record is SLICE and out and out[-1][0] is SLICE:
            index = sliced_again(out[-1][1]["index"], params["index"])
            if index is not None:
                out[-1] = (SLICE, {"index": index})
                continue
        out.append((record, params))
    return tuple(out)


def sliced_again(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The index that shows what one index shows of what another does; None where there is none.

    >>> sliced_again(((2, 9, 2), 4), (None, (1, 3, 1)))
    (None, (4, 7, 2), 4)
    """
    left = list(second)
    out: list[Any] = []

    def of_next_dimension() -> Any:
        while left[0] is None:  # a new dimension before it
            out.append(left.pop(0))
        return left.pop(0)

    for entry in first:
        if isinstance(entry, int):
            out.append(entry)
            continue
        start, _, step = (0, 1, 1) if entry is None else entry
        again = of_next_dimension()
        if isinstance(again, int):
            if entry is not None:
                out.append(start + again * step)
            continue
        begin, end, by = again
        count = -((begin - end) // by)
        if entry is None:
            if count != 1:
                return None
            out.append(None)
        elif count:
            begin = start + begin * step
            out.append((begin, begin + (count - 1) * step * by + 1, step * by))
        else:
            out.append((start, start, step * by))
    return (*out, *left)


def is_spread(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether no two elements lie in one place: each step is over all before it.

    >>> is_spread((2, 3), (4, 1)), is_spread((2, 3), (2, 1)), is_spread((2, 1), (1, 0))
    (True, False, True)
    """
    reach = 1
    for step, size in sorted(zip(strides, shape, strict=True)):
        if size > 1:
            if step < reach:
                return False
            reach += step * (size - 1)
    return True


def states_of(root: Tensor, links: Chain) -> list[State]:
    """What the root and each link after it show."""
    at = symbolic(root._spec, root._storage, root.stride())
    states = [state_of(at)]
    for record, params in links:
        spec = record.infer(at._spec, **params)
        strides, offset = record.window(at, **params)  # type: ignore[misc]
        at = symbolic(spec, root._storage)
        at._array = Window(spec, strides, offset)
        states.append(state_of(at))
    return states


def state_of(x: Tensor) -> State:
    """All that decides which elements a window shows."""
    return x.dtype, tuple(x.shape), tuple(x.stride()), x.storage_offset()


def is_shown(state: State, array: Any) -> bool:
    """Whether a state is an array's, as far as that is known: its place in memory is not."""
    _, shape, strides, _ = state
    size = array.dtype.itemsize
    return bool(
        shape == array.shape
        and all(
            n == 1 or step * size == own
            for n, step, own in zip(shape, strides, array.strides, strict=True)
        )
    )


def without_rounds(links: Chain, states: list[State]) -> Chain:
    """Links without those between two equal states."""
    last = {state: k for k, state in enumerate(states)}
    out: list[Link] = []
    at = last[states[0]]
    while at < len(links):
        out.append(links[at])
        at = last[states[at + 1]]
    return tuple(out)


def place_of(x: Tensor) -> int:
    """Where in its storage a view begins.

    Of one without elements its links say it: an array library forgets where it was.
    """
    buffer = x._storage.buffer
    if x.numel() or not x._chain or buffer is None or type(x._array) is Window:
        return x.storage_offset()
    root = wrap(buffer)
    root._storage = x._storage
    place: int = states_of(root, tuple([e for e in x._chain if e[0] is not STOP]))[-1][3]
    return place


HOOKS.shortened = shortened
HOOKS.place_of = place_of
