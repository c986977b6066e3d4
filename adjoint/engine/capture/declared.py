"""What a recording depends on besides what was read: what objects declare, and tensors' fields.

Objects of the framework that run natively say what a recording that met them depends on: those with
`capture_watch` name places, of the others all that is in them counts.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Collection, Iterator
from typing import Any

from adjoint.engine.capture.python.guards.guard import Guard
from adjoint.engine.capture.python.locations import (
    Answer,
    ClassAttribute,
    Contents,
    Item,
    ItemKind,
    Length,
    Location,
    Slot,
)
from adjoint.engine.capture.python.plain import has, is_plain
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.structure_version import STRUCTURE_VERSION, StructureVersion
from adjoint.engine.tensor.tensor import Tensor

_FLAG = Tensor.__dict__["_requires_grad"]
_COUNT = StructureVersion.__dict__["count"]
_NAMED = {
    "item": Item,
    "kind": ItemKind,
    "length": Length,
    "items": Contents,
    "stated": ClassAttribute,
}


def declared(holders: list[Any], tensors: list[Any], given: Collection[int]) -> list[Guard]:
    """Guards on what objects declare, on flags of tensors, and on what moves with the epoch.

    Tensors that are `given` as arguments, by id, may show other memory at each call.
    """
    places, met = looked_at(holders, tensors)
    guards = [Guard(place, place.now()) for place in places]
    guards += [Guard(Slot(tensor, _FLAG), tensor._requires_grad) for tensor in met]
    guards.append(Structure(holders, tensors, places, met, given))
    return guards


class Structure(Guard):
    """That the epoch has not moved; or that nothing of what is looked at moved with it.

    Hooks of tensors, the memory they show, and which places objects declare are looked at again
    only when the epoch says that some may have changed.
    """

    __slots__ = ("behind", "fields", "given", "roots", "tokens")

    def __init__(
        self,
        holders: list[Any],
        tensors: list[Any],
        places: list[Location],
        met: list[Any],
        given: Collection[int],
    ) -> None:
        super().__init__(Slot(STRUCTURE_VERSION, _COUNT), STRUCTURE_VERSION.count)
        self.roots = holders, tensors
        self.given = given
        self.tokens = [place.token() for place in places]
        self.behind, self.fields = tensor_fields(met, given)

    def accepts(self, now: Any) -> bool:
        """Whether everything is as it was at this count of the epoch."""
        if now == self.value:
            return True
        places, met = looked_at(*self.roots)
        if [place.token() for place in places] != self.tokens:
            return False
        if tensor_fields(met, self.given)[1] != self.fields:
            return False
        self.value = now
        return True

    def failure(self) -> str:
        """What changed, in words."""
        return "an optimizer's state, or a tensor's memory or hooks changed"


def looked_at(holders: list[Any], tensors: list[Any]) -> tuple[list[Location], list[Any]]:
    """The places that objects declare, and the tensors there and elsewhere."""
    places: list[Location] = []
    by_identity = {id(t): t for t in tensors}
    seen: set[int] = set()
    for holder in holders:
        for place, met in _declares(holder, seen):
            places += place
            by_identity |= {id(t): t for t in met}
    return places, list(by_identity.values())


def _declares(holder: Any, seen: set[int]) -> Iterator[tuple[list[Location], list[Any]]]:
    """Places that an object and what is in it depend on, and the tensors there."""
    if id(holder) in seen:
        return
    seen.add(id(holder))
    places, parts = _of(holder)
    yield places, [part for part in parts if is_tensor(part)]
    for part in parts:
        if not is_tensor(part) and not is_plain(part):
            yield from _declares(part, seen)


def _of(holder: Any) -> tuple[list[Location], list[Any]]:
    """The places an object depends on itself, and what there may have places of its own."""
    kind = type(holder)
    if has(kind, "capture_children"):
        children = dict(holder.capture_children())
        if not has(kind, "capture_watch"):
            return [Answer(_children, (holder,))], list(children.values())
        covered = holder.capture_covers() if has(kind, "capture_covers") else ()
        parts = [
            v for n in covered for group in children.get(n, {}).values() for v in group.values()
        ]
        parts += [value for name, value in children.items() if name not in covered]
        return [_NAMED[name](*where) for name, *where in holder.capture_watch()], parts
    if isinstance(holder, dict):
        return [Contents(holder, "items")], [*holder, *holder.values()]
    if isinstance(holder, (list, tuple, deque)):
        return ([] if kind is tuple else [Contents(holder)]), list(holder)
    own = getattr(holder, "__dict__", None)
    if isinstance(own, dict) and not isinstance(
        holder, (type, types.ModuleType, types.FunctionType)
    ):
        return [Contents(own, "items")], list(own.values())
    return [], []


def _children(holder: Any) -> tuple[Any, ...]:
    return tuple([value for _, value in holder.capture_children()])


def tensor_fields(
    tensors: list[Any], given: Collection[int] = ()
) -> tuple[list[Any], tuple[Any, ...]]:
    """The objects behind tensors, and those fields of them that a recording depends on."""
    fixed = [t for t in tensors if id(t) not in given] if given else tensors
    behind = [t._storage for t in fixed]
    behind += map(_array_of, fixed)
    hooks = [
        (i, *(m.hooks or ()), *(m.accumulate_hooks or ()))
        for i, t in enumerate(tensors)
        if (m := t._grad_meta) is not None and (m.hooks or m.accumulate_hooks)
    ]
    return behind, ([*map(id, behind)], hooks)


def _array_of(tensor: Any) -> Any:
    """What a tensor shows; of a lazy module's, without a shape yet, the tensor."""
    try:
        return tensor._array
    except ValueError:
        return tensor
