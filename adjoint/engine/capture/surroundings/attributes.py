"""Tensors that a traced function assigns: to attributes, entries, variables from outside it.

Note [assigned tensors]
    `self.hidden = h` inside a capture puts a traced tensor, without elements, where later calls and
    other code look for a real one. So when the trace is over every such place is as before, and
    each call of the program gives it a real tensor that the program writes. That is the one that
    is there if a program made it, so that a state carried from call to call is found in it again;
    else a new one, since a tensor of the user's must not change when another takes its place. The
    program that brought in a new one stands for the state before it. Entries that only change
    places (`self.a, self.b = self.b, self.a + x`) and arguments that are kept are copied alike.

    Containers of tensors (`self.hidden = (h, c)`) are one container that holds such tensors. Plain
    values (`self.ready = True`, `modes["last"] = "train"`, `del cache["x"]`) are put back and
    given by each call in the same way: the recording stands for the state before it, and a call
    that finds another state finds another recording, or makes it. Numbers that were numbers before
    are refused (`graph.outside`): a count would be another state at each call.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from operator import is_
from typing import Any, NamedTuple

from adjoint.engine.capture.surroundings.places import MISSING, Slots, Table, tables_of
from adjoint.engine.capture.surroundings.reach import plain
from adjoint.engine.core.number_key import number_key
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.epoch import EPOCH, TrackedDict
from adjoint.engine.core.tree import flatten, unflatten
from adjoint.engine.graph.record.sources import State
from adjoint.engine.graph.record.trace import Trace, has_symbols
from adjoint.engine.ops.create.creation import empty
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import Tensor

# Tensors made for places, by id, which programs may therefore write; equality is elementwise.
_OWN: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()

Kept = tuple[Table, Any, Any]  # a place, and what calls put there; MISSING: nothing any more


class Change(NamedTuple):
    """A place that holds something else than before."""

    table: Table
    name: Any
    value: Any  # MISSING: nothing any more
    held: Any  # what was there before; MISSING: nothing
    plain: bool  # whether plain values there are to be given by each call

    def tensors(self) -> list[Tensor]:
        """The tensors there."""
        return [leaf for leaf in flatten(self.value)[0] if is_tensor(leaf)]

    def is_carried(self) -> bool:
        """Whether there are plain values, or containers of them, or nothing any more."""
        return self.plain and all(leaf is MISSING or plain(leaf) for leaf in flatten(self.value)[0])

    def is_same(self) -> bool:
        """Whether what is there is equal to what was."""
        (old, before), (new, now) = flatten(self.held), flatten(self.value)
        return before == now and all(
            plain(a) and number_key(a) == number_key(b) for a, b in zip(old, new, strict=True)
        )

    def put_back(self) -> None:
        """Have the place as it was."""
        if self.held is MISSING:
            del self.table[self.name]
        else:
            self.table[self.name] = self.held
        EPOCH.count += 1


class Attributes:
    """The places a function can assign to, as they were before a trace.

    `owners` are modules; `holders` whatever else it reaches (`Fingerprint.holders`).
    """

    def __init__(self, owners: Iterable[Any], holders: Iterable[Any] = ()) -> None:
        self.settled: list[Kept] = []
        self.values: set[int] = set()  # ids of the traced tensors that were settled
        self.tables: list[tuple[Table, dict[Any, Any], Any, type]] = []  # with whose they are
        known: set[int] = set()
        for owner in owners:
            own = vars(owner)
            for table in (own, *[t for t in own.values() if isinstance(t, TrackedDict)]):
                self.tables.append((table, dict(table), owner, type(owner)))
                known.add(id(table))
        for holder in holders:
            told = holder.capture_tables() if hasattr(type(holder), "capture_tables") else ()
            for table in (*tables_of(holder), *told):
                if id(table) not in known:
                    self.tables.append((table, dict(table.items()), holder, type(holder)))
                    known.add(id(table))

    def changed(self) -> list[Change]:
        """The places that hold something else than before."""
        found: list[Change] = []
        for table, before, holder, kind in self.tables:
            if _is_untouched(table, before):
                continue
            now = dict(table.items())
            # What a lazy module does when it becomes another one happens once.
            plain = type(holder) is kind and not hasattr(kind, "capture_children")
            found += [
                Change(table, name, value, held, plain)
                for name, value in now.items()
                if value is not (held := before.get(name, MISSING))
                and not (held is MISSING and isinstance(table, Slots))  # appended: happens once
            ]
            if not isinstance(table, Slots) and not now.keys() >= before.keys():
                gone = [name for name in before if name not in now]
                found += [Change(table, name, MISSING, before[name], plain) for name in gone]
        return found

    def settle(self, trace: Trace) -> list[tuple[State, Any]]:
        """Choose what each place gets; the writes that give tensors there their values."""
        changed = self.changed()
        _check_bodies(changed)
        fresh = _fresh(changed, trace)
        kept: dict[int, Any] = {}  # the tensors chosen, by id
        writes: list[tuple[State, Any]] = []
        for change in changed:
            if not fresh.isdisjoint(map(id, change.tensors())):
                made = self._choose(change, fresh, trace, kept, writes)
                self.settled.append((change.table, change.name, made))
            elif change.is_carried() and not change.is_same():
                self.settled.append((change.table, change.name, change.value))
        return writes

    def _choose(
        self,
        change: Change,
        fresh: set[int],
        trace: Trace,
        kept: dict[int, Any],
        writes: list[tuple[State, Any]],
    ) -> Any:
        """What calls put in a place where there are traced tensors: the same at each call."""
        leaves, structure = flatten(change.value)
        before, then = flatten(change.held)
        alike = then == structure
        made: list[Any] = []
        for i, value in enumerate(leaves):
            held = before[i] if alike else None
            if id(value) not in fresh:
                made.append(held if plain(value) and plain(held) and held == value else value)
                continue
            fits = id(held) not in kept and _fits(held, value, trace)
            made.append(held if fits else _blank(value))
            kept[id(made[-1])] = made[-1]
            self.values.add(id(value))
            writes.append((State(made[-1]._storage), trace.value_of(value)))
        if alike and all(a is b for a, b in zip(made, before, strict=True)):
            return change.held
        return unflatten(structure, made)

    def check_tape(self, trace: Trace) -> None:
        """Refuse tensors on the tape: where a function may run as Python, they stay on it."""
        changed = self.changed()
        fresh = _fresh(changed, trace)
        for change in changed:
            for value in change.tensors():
                if id(value) in fresh and value.requires_grad:
                    raise RuntimeError(
                        "compile: the function keeps a tensor gradients may be asked of, "
                        f"{change.name!r} ({value._spec}), outside; a recording keeps its elements "
                        "alone. Detach it."
                    )

    def check_sizes(self) -> None:
        """Refuse to keep a size that is a symbol."""
        for _, name, kept in self.settled:
            if has_symbols(flatten(kept)[0]):
                raise RuntimeError(f"compile: the function keeps a size outside, in {name!r}")

    def undo(self, trace: Trace) -> None:
        """Put back what traced tensors and plain values replaced."""
        changed = self.changed()
        fresh = _fresh(changed, trace)
        for change in changed:
            tensors = change.tensors()
            if (
                not fresh.isdisjoint(map(id, tensors))
                or any(map(_is_left, tensors))
                or change.is_carried()
            ):
                change.put_back()


def _is_untouched(table: Table, before: dict[Any, Any]) -> bool:
    """Whether a dict has the very items it had, as most have: told at a glance."""
    return (
        isinstance(table, dict)
        and len(table) == len(before)
        and (
            not before
            or (all(map(is_, table, before)) and all(map(is_, table.values(), before.values())))
        )
    )


def _fresh(changed: list[Change], trace: Trace) -> set[int]:
    """The ids of tensors in changed places that each call must give its own."""
    moved = {id(leaf) for change in changed for leaf in flatten(change.held)[0]}
    return {
        id(value)
        for change in changed
        for value in change.tensors()
        if value._storage.trace is trace
        or id(value) in moved
        or id(value) in trace.arguments
        or (value._storage.trace is None and type(value._array) is Window)
    }


def _is_left(value: Tensor) -> bool:
    """Whether the body of a loop or branch left a tensor behind."""
    trace = value._storage.trace
    return trace is not None and trace.closes


def _check_bodies(changed: list[Change]) -> None:
    """Refuse a body that reads an attribute and assigns it: each iteration would see the first.

    One that only assigns it, as a hook does that computes a weight, is fine; the attribute is
    as before when the trace is over.
    """
    for change in changed:
        for value in filter(_is_left, change.tensors()):
            body: Any = value._storage.trace
            if any(id(leaf) in body.lifted for leaf in flatten(change.held)[0]):
                raise RuntimeError(
                    f"{body.what}: a captured body reads and assigns the attribute {change.name!r} "
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
