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

import dis
import functools
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from adjoint.core.epoch import EPOCH, TrackedDict
from adjoint.core.record import is_tensor

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
DEPTH = 8
COMPILED = "__compiled__"  # the attribute under which an object keeps its compiled methods


def plain(value: Any) -> bool:
    """Whether a value is immutable through and through: compared, not identified."""
    if isinstance(value, tuple):
        return type(value) is tuple and all(map(plain, value))
    return isinstance(value, _PLAIN)


def describe(value: Any) -> Any:
    """A plain value for comparison. The type too: True == 1 == 1.0, yet they promote unalike."""
    if isinstance(value, tuple):
        return tuple(map(describe, value))
    return (type(value), repr(value) if value != value else value)


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

    def __init__(self, root: Any) -> None:
        self.owners: list[Any] = []
        self.epoch = EPOCH.count
        self.entries: list[Any] = []
        self.tensors: list[Any] = []
        self.loose: list[tuple[Any, Any]] = []
        self.kept: list[Any] = []
        seen: set[int] = set()
        pending = [root]
        while pending:
            owner = pending.pop()
            if id(owner) in seen:
                continue
            seen.add(id(owner))
            self.owners.append(owner)
            self.entries.append((id(owner), type(owner)))
            ignored = owner._moves_epoch
            self._add_all([i for i in vars(owner).items() if i[0] not in ignored], pending)

    def _add_all(self, items: Iterable[tuple[Any, Any]], pending: list[Any]) -> None:
        for name, value in items:
            if isinstance(value, TrackedDict):
                if value:
                    self.entries.append(name)
                    self._add_all(value.items(), pending)
            elif plain(value):
                self.entries.append((name, describe(value)))
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


def is_tracked(value: Any) -> bool:
    """Whether an object moves the epoch on every change to its attributes (a Module).

    Its class then names the attributes that do not matter in `_moves_epoch`.
    """
    return hasattr(type(value), "_moves_epoch")


class Environment:
    """What a captured function can see, looked at once per call."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.structures: dict[int, Structure] = {}

    def look(self, arguments: Iterable[Any] = ()) -> Fingerprint:
        """The present fingerprint; `arguments` are those that are neither tensors nor plain."""
        return Fingerprint(self, arguments)

    def owners(self) -> list[Any]:
        """The tracked objects within reach when last looked at, each once."""
        found = {id(x): x for s in self.structures.values() for x in s.owners}
        return list(found.values())

    def structure(self, root: Any) -> Structure:
        """The structure of a tree of modules, walked again if the epoch moved."""
        held = self.structures.get(id(root))
        if held is not None and held.epoch == EPOCH.count:
            return held
        found = Structure(root)
        if held is not None and held == found:
            held.epoch = found.epoch
            return held
        self.structures[id(root)] = found
        return found


class Fingerprint:
    """The reachable tensors and values, comparable; it keeps what it names alive."""

    __slots__ = ("entries", "environment", "epoch", "holders", "kept", "tensors", "watched")

    def __init__(self, environment: Environment, arguments: Iterable[Any] = ()) -> None:
        self.environment = environment
        self.epoch = EPOCH.count
        self.entries: list[Any] = []
        self.kept: list[Any] = []  # so that ids stay unique
        self.holders: list[Any] = [environment.fn]  # what can change without moving the epoch
        self.tensors: list[Any] = []
        self.watched: list[Any] = []  # tensors that nobody else looks at
        seen: set[int] = set()
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
            self.entries.append((name, describe(value)))
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
        if is_tracked(value):
            self._add_structure(value, seen, depth)
            return
        if not covered:
            self.holders.append(value)
        covers = value.capture_covers() if hasattr(type(value), "capture_covers") else ()
        for key, child in children(value):
            key = key if isinstance(key, (str, int)) else id(key)
            self._add(key, child, seen, depth + 1, covered or key in covers)

    def _add_structure(self, root: Any, seen: set[int], depth: int) -> None:
        structure = self.environment.structure(root)
        self.entries.append(structure)
        self.kept += structure.tensors
        self.tensors += structure.tensors
        self.watched += structure.tensors
        for name, value in structure.loose:
            self._add(name, value, seen, depth + 1)


_OPAQUE = (type, types.ModuleType, types.BuiltinFunctionType)


def children(value: Any) -> Iterable[tuple[Any, Any]]:
    """The parts of a value that can be looked into."""
    if hasattr(type(value), "capture_children"):  # says itself what a capture depends on
        return list(value.capture_children())
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return enumerate(value)
    if isinstance(value, types.FunctionType):
        return reached(value)
    if isinstance(value, types.MethodType):
        return [("self", value.__self__), ("fn", value.__func__)]
    if isinstance(value, _OPAQUE):
        return ()
    return [i for i in getattr(value, "__dict__", {}).items() if i[0] != COMPILED]


def is_own(fn: Callable[..., Any]) -> bool:
    """Whether a function is the framework's own: these do not change."""
    return (fn.__module__ or "").partition(".")[0] == __name__.partition(".")[0]


def reached(fn: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Closure cells, globals the code names, defaults and the bound object of a callable."""
    if isinstance(fn, types.MethodType):
        yield "self", fn.__self__
        fn = fn.__func__
    if not isinstance(fn, types.FunctionType):
        yield "object", fn
        return
    if is_own(fn):
        return
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not yet bound
            yield name, None
    for name in names_read(fn.__code__):
        if name in fn.__globals__:
            yield name, fn.__globals__[name]
    yield from enumerate(fn.__defaults__ or ())
    yield from (fn.__kwdefaults__ or {}).items()


def names_read(code: types.CodeType) -> frozenset[str]:
    """Global names read by a code object and the functions defined in it.

    Not every name in it: `optimizer.step()` does not read a global called `step`.
    """
    return names(code, ("LOAD_GLOBAL", "LOAD_NAME"))


@functools.lru_cache(maxsize=2048)
def names(code: types.CodeType, instructions: tuple[str, ...]) -> frozenset[str]:
    """What instructions of these kinds name, in a code object and the functions defined in it."""
    found = {i.argval for i in dis.get_instructions(code) if i.opname in instructions}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= names(constant, instructions)
    return frozenset(found)
