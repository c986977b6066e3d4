"""Tensors that a traced function assigns to attributes of modules.

Note [assigned attributes]
    `self.hidden = h` inside a capture puts a traced tensor, without elements, where later calls and
    other code look for a real one. So the attribute is given a real tensor that every call of the
    program writes: the one that was there, if it fits, so that a state carried from call to call
    is found in it again, else a new one; a program that brought in a new one stands for the state
    before it. If the trace fails, the attributes are as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from adjoint.core.context import CONTEXT
from adjoint.core.epoch import EPOCH, TrackedDict
from adjoint.core.record import is_tensor
from adjoint.graph.sources import State
from adjoint.graph.trace import Trace
from adjoint.ops.creation import empty
from adjoint.tensor.storage import Window
from adjoint.tensor.tensor import Tensor

MISSING = object()


class Attributes:
    """The attributes of tracked objects as they were before a trace."""

    def __init__(self, owners: Iterable[Any]) -> None:
        self.settled: list[tuple[dict[str, Any], str, Tensor]] = []
        self.replaced = False  # whether settling put a tensor where there was another, or none
        self.tables: list[tuple[dict[str, Any], dict[str, Any]]] = []
        for owner in owners:
            own = vars(owner)
            for table in (own, *[t for t in own.values() if isinstance(t, TrackedDict)]):
                self.tables.append((table, dict(table)))

    def assigned(self, trace: Trace) -> Iterator[tuple[dict[str, Any], str, Tensor, Any]]:
        """Table, name, the traced tensor that is there now, and what was there before."""
        for table, before in self.tables:
            for name, value in list(table.items()):
                if is_tensor(value) and value._storage.trace is trace:
                    yield table, name, value, before.get(name, MISSING)

    def settle(self, trace: Trace) -> list[tuple[State, Any]]:
        """Put real tensors in the place of traced ones; the writes that give them their values."""
        self.check_bodies()
        writes = []
        for table, name, value, held in self.assigned(trace):
            kept = held if _fits(held, value, trace) else _blank(value)
            self.replaced |= kept is not held
            self.settled.append((table, name, kept))
            table[name] = kept
            writes.append((State(kept._storage), trace.value_of(value)))
        EPOCH.count += bool(writes)
        return writes

    def left(self) -> Iterator[tuple[dict[str, Any], str, Tensor, Any]]:
        """The same for tensors that bodies of loops and branches left behind."""
        for table, before in self.tables:
            for name, value in list(table.items()):
                trace = value._storage.trace if is_tensor(value) else None
                if trace is not None and trace.closes:
                    yield table, name, value, before.get(name, MISSING)

    def check_bodies(self) -> None:
        """Refuse a body that reads an attribute and assigns it: each iteration would see the first.

        One that only assigns it, as a hook does that computes a weight, is fine; the attribute is
        as before when the trace is over.
        """
        for _, name, value, held in self.left():
            body: Any = value._storage.trace
            if id(held) in body.lifted:
                raise RuntimeError(
                    f"{body.what}: a captured body reads and assigns the attribute {name!r} "
                    f"({value._spec}), which would not be carried from iteration to iteration. "
                    "Make it part of the carry: take it as an argument and return the new value."
                )

    def undo(self, trace: Trace) -> None:
        """After a failure: put back what traced tensors replaced."""
        for table, name, _, held in (*self.assigned(trace), *self.left()):
            if held is MISSING:
                del table[name]
            else:
                table[name] = held
        EPOCH.count += 1


def _fits(held: Any, value: Tensor, trace: Trace) -> bool:
    """Whether the value may be written over the tensor that was there."""
    if not is_tensor(held) or type(held._array) is Window or held._chain or held.requires_grad:
        return False
    if held._spec != value._spec:
        return False
    cell = trace.cells.get(held._storage.identity)
    return cell is None or (isinstance(cell.source, State) and cell.value is cell.initial)


def _blank(value: Tensor) -> Any:
    """A real tensor of the same shape, dtype and device."""
    spec = value._spec
    with CONTEXT.having(capture=None, grad_enabled=False):
        return empty(spec.shape, dtype=spec.dtype, device=spec.device)
