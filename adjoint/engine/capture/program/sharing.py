"""What arguments, states and gradients of a call share with each other: memory, and bases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.capture.program.recipes import OutsideTensor
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.graph.record.sources import GradOf
from adjoint.engine.graph.record.trace import Trace
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import Tensor, root_of


def alias_pattern(leaves: Sequence[Any], states: list[Storage]) -> tuple[Any, ...]:
    """For each argument tensor, which state it shares its storage with, and from where on."""
    places = {s.identity: i for i, s in enumerate(states)}
    return tuple(
        [
            None if i is None else (i, x.storage_offset())
            for x in leaves
            if is_tensor(x)
            for i in (places.get(x._storage.identity),)
        ]
    )


def grad_pattern(
    leaves: Sequence[Any], states: list[Storage], grads: Sequence[Tensor]
) -> tuple[Any, ...]:
    """For each gradient, the state, argument or earlier gradient it shares its storage with."""
    places: dict[int, Any] = {s.identity: i for i, s in enumerate(states)}
    places |= {x._storage.identity: ("argument", i) for i, x in enumerate(leaves) if is_tensor(x)}
    sharers = []
    for i, grad in enumerate(grads):
        identity = grad._storage.identity
        sharers.append(places.get(identity))
        places.setdefault(identity, ("gradient", i))
    return tuple(sharers)


def reached_gradients(trace: Trace, reached: Sequence[Tensor]) -> list[Storage]:
    """Storages of gradients that the function reaches otherwise, too."""
    cells = [(t, trace.cells.get(t._storage.identity)) for t in reached]
    shared = {t._storage.identity: t._storage for t, c in cells if c and type(c.source) is GradOf}
    return list(shared.values())


def base_of(tensor: Tensor) -> Tensor | None:
    """What a tensor is a view of."""
    return None if tensor._base is None else root_of(tensor)


def bases(refs: Sequence[OutsideTensor], leaves: Sequence[Any]) -> list[tuple[int, Tensor | None]]:
    """What arguments are views of, where that decides what is put on the tape: `refs`."""
    plain = {ref.position for ref in refs if ref.position is not None}
    roots = {id(ref.tensor) for ref in refs if ref.position is None}
    views = [(i, base_of(x)) for i, x in enumerate(leaves) if is_tensor(x)]
    return [(i, base) for i, base in views if i in plain or id(base) in roots]
