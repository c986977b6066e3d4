"""What a recording depends on besides guards: what the framework's objects declare, and tensors."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from adjoint.engine.capture.python.plain import has, is_plain, same
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.state.structure_version import STRUCTURE_VERSION


class Declared:
    """What the framework's objects said of themselves, and the tensors met: compared quickly."""

    __slots__ = ("epoch", "fields", "flags", "given", "list_things", "tensors", "things")

    def __init__(self, holders: list[Any], tensors: list[Any]) -> None:
        self.given = holders, tensors
        listings: list[Callable[[], list[Any]]] = []
        found = {id(t): t for t in tensors}
        for holder in holders:
            for listed, met in _listings(holder, set()):
                listings.append(listed)
                found |= {id(t): t for t in met}
        self.list_things = listings
        self.things = self._look()
        self.tensors = list(found.values())
        self.flags = [t._requires_grad for t in self.tensors]
        self.fields = tensor_fields(self.tensors)
        self.epoch = STRUCTURE_VERSION.count

    def _look(self) -> list[Any]:
        return list(chain.from_iterable([listed() for listed in self.list_things]))

    def holds(self) -> bool:
        """Whether everything is as it was."""
        if self.list_things:
            now = self._look()
            if HOOKS.lists_differ(now, self.things) and not (
                len(now) == len(self.things) and all(map(same, now, self.things))
            ):
                return False
        if [t._requires_grad for t in self.tensors] != self.flags:
            return False
        return STRUCTURE_VERSION.count == self.epoch or self._holds_in_full()

    def _holds_in_full(self) -> bool:
        """The same after something moved: hooks, memory, what objects have to say."""
        epoch, now = STRUCTURE_VERSION.count, Declared(*self.given)
        alike = len(now.things) == len(self.things) and all(map(same, now.things, self.things))
        if not alike or now.fields[1] != self.fields[1]:
            return False
        self.epoch = epoch
        return True


def _listings(holder: Any, seen: set[int]) -> Iterator[tuple[Callable[[], list[Any]], list[Any]]]:
    """Functions that list what an object and what is in it depend on, and the tensors there."""
    if id(holder) in seen:
        return
    seen.add(id(holder))
    kind = type(holder)
    parts: list[Any] = []
    if has(kind, "capture_children"):
        children = dict(holder.capture_children())
        if has(kind, "capture_watch"):
            covered = holder.capture_covers() if has(kind, "capture_covers") else ()
            yield holder.capture_watch(), []
            for name in covered:
                parts += [v for held in children.get(name, {}).values() for v in held.values()]
            parts += [v for name, v in children.items() if name not in covered]
        else:
            yield (lambda: [v for _, v in holder.capture_children()]), []
            parts = list(children.values())
    elif isinstance(holder, dict):
        yield (lambda: [*holder, *holder.values()]), []
        parts = [*holder, *holder.values()]
    elif isinstance(holder, (list, tuple, deque)):
        yield (lambda: [*holder]), []
        parts = list(holder)
    elif isinstance(own := getattr(holder, "__dict__", None), dict) and not isinstance(
        holder, (type, types.ModuleType, types.FunctionType)
    ):
        yield (lambda: [*own, *own.values()]), []
        parts = list(own.values())
    yield list, [p for p in parts if is_tensor(p)]
    for part in parts:
        if not is_tensor(part) and not is_plain(part):
            yield from _listings(part, seen)


def tensor_fields(tensors: list[Any]) -> tuple[list[Any], tuple[Any, ...]]:
    """The objects behind tensors, and those fields of them that a recording depends on."""
    behind = [t._storage for t in tensors]
    behind += map(_array_of, tensors)
    hooks = [
        (i, *(m.hooks or ()), *(m.accumulate_hooks or ()))
        for i, t in enumerate(tensors)
        if (m := t._meta) is not None and (m.hooks or m.accumulate_hooks)
    ]
    return behind, ([*map(id, behind)], [t._requires_grad for t in tensors], hooks)


def _array_of(tensor: Any) -> Any:
    """What a tensor shows; of a lazy module's, without a shape yet, the tensor."""
    try:
        return tensor._array
    except ValueError:
        return tensor
