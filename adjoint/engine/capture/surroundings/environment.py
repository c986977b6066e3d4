"""What a function can see besides its arguments, as a value that changes when it changes.

A captured function is valid while the tensors it reaches through closures, globals, defaults and
attributes are the same objects and the plain values it finds there are equal. Replacing a
parameter or changing a flag therefore retraces; changing a tensor's elements does not.

Note [structures]
    A tree of modules is walked once per structural epoch (`core.epoch`). What the walk finds is
    kept as a Structure: names, flags and identities, which only a change that moves the epoch can
    alter; its tensors, whose own fields are compared at each call; and loose values (lists, plain
    objects, functions), which can change unnoticed and are walked at each call.
"""

from __future__ import annotations

import types
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from adjoint.engine.capture.surroundings.reach import (
    DEPTH,
    Names,
    children,
    is_tracked,
    is_users,
    own_names,
    plain,
    reached,
)
from adjoint.engine.core.number_key import number_key
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.epoch import EPOCH, TrackedDict


def tensor_fields(tensors: list[Any]) -> tuple[list[Any], tuple[Any, ...]]:
    """The objects behind tensors, and those fields of them that a recording depends on."""
    behind = [t._storage for t in tensors]
    try:
        behind += [t._array for t in tensors]
    except ValueError:
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


class Structure:
    """A tree of tracked objects as it was at an epoch."""

    __slots__ = ("entries", "epoch", "kept", "loose", "owners", "tensors")

    def __init__(self, root: Any, names: Names) -> None:
        self.owners: list[Any] = []
        self.epoch = EPOCH.count
        self.entries: list[Any] = []
        self.tensors: list[Any] = []
        self.loose: list[tuple[Any, Any]] = []
        self.kept: list[Any] = []
        seen: set[int] = set()
        pending = [root]
        self._add_all(vars(root._hooks_of_all).items(), pending)
        while pending:
            owner = pending.pop()
            if id(owner) in seen:
                continue
            seen.add(id(owner))
            self.owners.append(owner)
            self.entries.append((id(owner), type(owner)))
            self._add_all(owned(owner, names), pending)
        classes = {id(c): c for c in map(type, self.owners) if is_users(c)}
        self.loose += [("class", c) for c in classes.values()]

    def _add_all(self, items: Iterable[tuple[Any, Any]], pending: list[Any]) -> None:
        for name, value in items:
            if isinstance(value, TrackedDict):
                if value:
                    self.entries.append(name)
                    self._add_all(value.items(), pending)
            elif plain(value):
                self.entries.append((name, number_key(value)))
            else:
                self.entries.append((name, id(value)))
                self.kept.append(value)
                if is_tensor(value):
                    self.tensors.append(value)
                elif is_tracked(value):
                    pending.append(value)
                elif not isinstance(value, type):
                    self.loose.append((name, value))

    def difference(self, other: Structure) -> str | None:
        """The name of the first entry that differs."""
        for mine, theirs in zip(self.entries, other.entries, strict=False):
            if mine != theirs:
                return str(mine[0] if isinstance(mine, tuple) else mine)
        return None

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Structure) and self.entries == other.entries)

    __hash__ = None  # type: ignore[assignment]


def owned(owner: Any, names: Names) -> list[tuple[str, Any]]:
    """The attributes of a tracked object that a recording depends on; its tables always are."""
    ignored, kind = owner._moves_epoch, type(owner)
    if names.every or not is_users(kind):
        return [item for item in vars(owner).items() if item[0] not in ignored]
    by_base = own_names(kind)
    return [
        (name, value)
        for name, value in vars(owner).items()
        if name not in ignored
        and (isinstance(value, TrackedDict) or name in names.named or name in by_base)
    ]


def contents(array: Any) -> Any:
    """A NumPy array's elements for comparison."""
    if array.dtype.hasobject:
        return [id(x) for x in array.flat]
    return array.shape, array.dtype, zlib.crc32(np.ascontiguousarray(array).data)


class Environment:
    """What a captured function can see, looked at once per call."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.structures: dict[int, Structure] = {}
        self.names = Names()  # Note [names]
        # NumPy arrays whose elements programs read at each call, by id; of others they are part of
        # what the function sees.
        self.live: dict[int, Any] = {}

    def read_at_each_call(self, buffers: Iterable[Any]) -> None:
        """Take note of memory that programs read: arrays that were made tensors are live."""
        for buffer in buffers:
            while isinstance(buffer, np.ndarray):
                self.live[id(buffer)] = buffer
                buffer = buffer.base

    def look(self, arguments: Iterable[Any] = ()) -> Fingerprint:
        """The present fingerprint; `arguments` are those that are neither tensors nor plain."""
        while True:
            known = len(self.names.codes)
            found = Fingerprint(self, arguments)
            if len(self.names.codes) == known:
                return found
            self.structures = {}  # more code was found, which may name more

    def owners(self) -> list[Any]:
        """The tracked objects within reach when last looked at, each once."""
        found = {id(x): x for s in self.structures.values() for x in s.owners}
        return list(found.values())

    def structure(self, root: Any) -> Structure:
        """The structure of a tree of modules, walked again if the epoch moved."""
        held = self.structures.get(id(root))
        if held is not None and held.epoch == EPOCH.count:
            return held
        found = Structure(root, self.names)
        if held is not None and held == found:
            held.epoch = found.epoch
            return held
        self.structures[id(root)] = found
        return found


class Fingerprint:
    """The reachable tensors and values, comparable; it keeps what it names alive."""

    __slots__ = (
        "arrays",
        "entries",
        "environment",
        "epoch",
        "holders",
        "kept",
        "tensors",
        "watched",
    )

    def __init__(self, environment: Environment, arguments: Iterable[Any] = ()) -> None:
        self.environment = environment
        self.epoch = EPOCH.count
        self.entries: list[Any] = []
        self.kept: list[Any] = []  # so that ids stay unique
        self.holders: list[Any] = [environment.fn]  # what can change without moving the epoch
        self.tensors: list[Any] = []
        self.watched: list[Any] = []  # tensors that nobody else looks at
        self.arrays: list[tuple[Any, Any]] = []  # of NumPy, and what is in them
        seen: set[int] = set()
        fn = getattr(environment.fn, "__func__", environment.fn)
        if isinstance(fn, types.FunctionType):
            environment.names.add(fn)
        for name, value in reached(environment.fn):
            self._add(name, value, seen, 0)
        for place, value in enumerate(arguments):
            self._add(place, value, seen, 0)
        behind, fields = tensor_fields(self.tensors)
        self.entries.append(fields)
        self.kept += behind

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Fingerprint) and self.entries == other.entries)

    __hash__ = None  # type: ignore[assignment]

    def storages(self) -> set[Any]:
        """The storages of the tensors within reach."""
        return {x._storage for x in self.tensors}

    def difference(self, other: Fingerprint) -> str | None:
        """The name of the first thing that differs, if one can be told."""
        for mine, theirs in zip(self.entries, other.entries, strict=False):
            if mine != theirs:
                if isinstance(mine, Structure) and isinstance(theirs, Structure):
                    return mine.difference(theirs)
                return str(mine[0]) if isinstance(mine, tuple) and len(mine) == 2 else None
        return None

    def _add(
        self, name: Any, value: Any, seen: set[int], depth: int, covered: bool = False
    ) -> None:
        """Add what is reached by a name; `covered` if somebody else watches what is in it."""
        if plain(value):
            self.entries.append((name, number_key(value)))
            return
        self.entries.append((name, id(value)))
        self.kept.append(value)
        if is_tensor(value):
            self.tensors.append(value)
            if not covered:
                self.watched.append(value)
            return
        if id(value) in seen or depth > DEPTH:
            return
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            if id(value) not in self.environment.live:
                self.arrays.append((value, contents(value)))
                self.entries.append(self.arrays[-1][1])
            return
        if is_tracked(value):
            self._add_structure(value, seen, depth)
            return
        if not covered:
            self.holders.append(value)
        if isinstance(value, types.FunctionType):
            self.environment.names.add(value)
        covers = value.capture_covers() if hasattr(type(value), "capture_covers") else ()
        for key, child in children(value, self.environment.names):
            if type(key) is not str and type(key) is not int:
                key = number_key(key) if plain(key) else id(key)
            self._add(key, child, seen, depth + 1, covered or key in covers)

    def _add_structure(self, root: Any, seen: set[int], depth: int) -> None:
        structure = self.environment.structure(root)
        self.entries.append(structure)
        self.kept += structure.tensors
        self.tensors += structure.tensors
        self.watched += structure.tensors
        for name, value in structure.loose:
            self._add(name, value, seen, depth + 1)
