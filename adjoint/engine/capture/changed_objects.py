"""Objects among a call's arguments in which a function puts other tensors or numbers.

An object with a hash is told apart by which one it is. A cache of keys and values is a new object
for each text, though, and is longer at each call: recorded for the object, nothing fits again. So
where a function changes what such an object holds, calls of that function know objects of its
class by what they hold (Note [given containers]), and sizes that are seen to differ become dynamic.
A function that cannot be recorded so is recorded for each object, as before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from adjoint.engine.core.instances import reached, written_in_c
from adjoint.engine.core.ownership import module_of
from adjoint.engine.core.tree import DICTS

_FRAMEWORK = __name__.partition(".")[0]
_MOST = 10_000  # parts that are looked at
_SEQUENCES = frozenset({list, tuple, deque})


class LookAgain(Exception):
    """A call's arguments are to be looked at anew: its objects are known otherwise now."""


def can_be_taken_apart(kind: Any) -> bool:
    """Whether objects of a class are Python's, all of them, and compared by identity only.

    The framework's own (modules, optimizers) keep state that is reached in other ways, too; what
    has a finalizer would have it run for each recording's copy.
    """
    if written_in_c(kind) is not object or hasattr(kind, "__del__"):
        return False
    if any(module_of(base).partition(".")[0] == _FRAMEWORK for base in kind.__mro__):
        return False
    return kind.__hash__ is object.__hash__ and kind.__eq__ is object.__eq__


def classes_leading_to(owners: Collection[int], leaves: Sequence[Any]) -> frozenset[type]:
    """The classes of objects among arguments that hold one of these, by id, at whatever depth."""
    search = _ChangeSearch(owners)
    for leaf in leaves:
        search.look(leaf, frozenset())
    return search.classes


class _ChangeSearch:
    """A walk through objects to the dicts, lists and slots in which something changed."""

    def __init__(self, owners: Collection[int]) -> None:
        self.owners = owners
        self.classes: frozenset[type] = frozenset()
        self.met: set[int] = set()

    def look(self, value: Any, above: frozenset[type]) -> None:
        if id(value) in self.met or len(self.met) > _MOST:
            return
        parts = self._parts(value)
        if parts is None:
            return
        self.met.add(id(value))
        kind = type(value)
        classes = above if kind in DICTS or kind in _SEQUENCES else above | {kind}
        inside, own = parts
        if id(value) in self.owners or id(own) in self.owners:
            self.classes |= classes
        for part in inside:
            self.look(part, classes)

    def _parts(self, value: Any) -> tuple[Iterator[Any], Any] | None:
        """What a value holds, and the dict of its attributes; None where nobody looks into it."""
        kind = type(value)
        if kind in DICTS:
            return iter(list(value.values())), None
        if kind in _SEQUENCES:
            return iter(list(value)), None
        apart = reached(value) if can_be_taken_apart(kind) else None
        if apart is None:
            return None
        own, ways = apart
        return iter([part for _, part in ways]), own
