"""Tensors that a traced function assigns: to attributes, entries, variables from outside it.

Note [assigned tensors]
    `self.hidden = h` inside a capture puts a traced tensor, without elements, where later calls and
    other code look for a real one. So when the trace is over every such place is as before, and
    each call of the program gives it a real tensor that the program writes. That is the one that
    is there if a program made it, so that a state carried from call to call is found in it again;
    else a new one, since a tensor of the user's must not change when another takes its place. The
    program that brought in a new one stands for the state before it. Entries that only change
    places (`self.a, self.b = self.b, self.a + x`) and arguments that are kept are copied alike.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from adjoint.core.context import CONTEXT
from adjoint.core.epoch import EPOCH, TrackedDict
from adjoint.core.record import is_tensor
from adjoint.graph.places import Table, tables_of
from adjoint.graph.sources import State
from adjoint.graph.trace import Trace
from adjoint.ops.creation import empty
from adjoint.tensor.storage import Window
from adjoint.tensor.tensor import Tensor

MISSING = object()
# Tensors made for places, by id, which programs may therefore write; equality is elementwise.
_OWN: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()

Assigned = tuple[Table, Any, Tensor, Any]  # a place, the tensor there now, what was there before


class Attributes:
    """The places a function can assign to, as they were before a trace.

    `owners` are modules; `holders` whatever else it reaches (`Fingerprint.holders`).
    """

    def __init__(self, owners: Iterable[Any], holders: Iterable[Any] = ()) -> None:
        self.settled: list[tuple[Table, Any, Tensor]] = []
        self.values: set[int] = set()  # ids of the traced tensors that were settled
        self.tables: list[tuple[Table, dict[Any, Any]]] = []
        for owner in owners:
            own = vars(owner)
            for table in (own, *[t for t in own.values() if isinstance(t, TrackedDict)]):
                self.tables.append((table, dict(table)))
        known = {id(table) for table, _ in self.tables}
        for holder in holders:
            tables = [table for table in tables_of(holder) if id(table) not in known]
            self.tables += [(table, dict(table.items())) for table in tables]

    def changed(self) -> list[Assigned]:
        """The places that hold another tensor than before."""
        return [
            (table, name, value, before.get(name, MISSING))
            for table, before in self.tables
            for name, value in table.items()
            if value is not before.get(name) and is_tensor(value)
        ]

    def settle(self, trace: Trace) -> list[tuple[State, Any]]:
        """Choose a real tensor for each place; the writes that give them their values."""
        changed = self.changed()
        _check_bodies(changed)
        writes = []
        taken: set[int] = set()
        for table, name, value, held in _assigned(changed, trace):
            fits = id(held) not in taken and _fits(held, value, trace)
            kept = held if fits else _blank(value)
            taken.add(id(kept))
            self.settled.append((table, name, kept))
            self.values.add(id(value))
            writes.append((State(kept._storage), trace.value_of(value)))
        return writes

    def check_tape(self, trace: Trace) -> None:
        """Refuse tensors on the tape: where a function may run as Python, they stay on it."""
        for _, name, value, _ in _assigned(self.changed(), trace):
            if value.requires_grad:
                raise RuntimeError(
                    f"compile: the function keeps a tensor gradients may be asked of, {name!r} "
                    f"({value._spec}), outside; a recording keeps its elements alone. Detach it."
                )

    def undo(self, trace: Trace) -> None:
        """Put back what traced tensors replaced."""
        changed = self.changed()
        for table, name, _, held in (*_assigned(changed, trace), *_left(changed)):
            if held is MISSING:
                del table[name]
            else:
                table[name] = held
            EPOCH.count += 1


def _assigned(changed: list[Assigned], trace: Trace) -> list[Assigned]:
    """The changed places that each call must give its own tensor."""
    moved = {id(held) for *_, held in changed}
    return [
        (table, name, value, held)
        for table, name, value, held in changed
        if value._storage.trace is trace
        or id(value) in moved
        or id(value) in trace.arguments
        or (value._storage.trace is None and type(value._array) is Window)
    ]


def _left(changed: list[Assigned]) -> list[Assigned]:
    """Those with tensors that bodies of loops and branches left behind."""
    return [
        entry
        for entry in changed
        if (trace := entry[2]._storage.trace) is not None and trace.closes
    ]


def _check_bodies(changed: list[Assigned]) -> None:
    """Refuse a body that reads an attribute and assigns it: each iteration would see the first.

    One that only assigns it, as a hook does that computes a weight, is fine; the attribute is
    as before when the trace is over.
    """
    for _, name, value, held in _left(changed):
        body: Any = value._storage.trace
        if id(held) in body.lifted:
            raise RuntimeError(
                f"{body.what}: a captured body reads and assigns the attribute {name!r} "
                f"({value._spec}), which would not be carried from iteration to iteration. "
                "Make it part of the carry: take it as an argument and return the new value."
            )


def _fits(held: Any, value: Tensor, trace: Trace) -> bool:
    """Whether the value may be written over the tensor that was there."""
    made: Any = _OWN.get(id(held))
    if made is None or made is not held or held._spec != value._spec:
        return False
    if held._chain or held.requires_grad:  # changed in place meanwhile
        return False
    cell = trace.cells.get(held._storage.identity)
    return cell is None or (isinstance(cell.source, State) and cell.value is cell.initial)


def _blank(value: Tensor) -> Any:
    """A real tensor of the same shape, dtype and device."""
    spec = value._spec
    with CONTEXT.having(capture=None, grad_enabled=False):
        made = empty(spec.shape, dtype=spec.dtype, device=spec.device)
    _OWN[id(made)] = made
    return made
