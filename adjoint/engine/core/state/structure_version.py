"""The structural epoch: a number that moves when any module's structure does.

A captured function reads attributes of modules; walking them all at each call would cost more than
a small step does. Modules bump this number on every change that goes through them (attributes,
parameters, buffers, submodules, hooks), so that an unchanged number means an unchanged tree. So do
hooks of leaves, and whatever makes a tensor show something else (`t_`, `set_`, `.data = `).
Recordings look at it as one guard (`capture.declared`); attributes that code read have their own.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any


class StructureVersion:
    """The counter; `STRUCTURE_VERSION` is the one instance."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


STRUCTURE_VERSION = StructureVersion()


class TrackedDict(dict[Any, Any]):
    """A dict whose every change moves the epoch: a module's tables."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        STRUCTURE_VERSION.count += 1
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        STRUCTURE_VERSION.count += 1
        super().__delitem__(key)

    def pop(self, *args: Any) -> Any:
        """Remove a key and return its value."""
        STRUCTURE_VERSION.count += 1
        return super().pop(*args)

    def popitem(self) -> tuple[Any, Any]:
        """Remove the last item and return it."""
        STRUCTURE_VERSION.count += 1
        return super().popitem()

    def clear(self) -> None:
        """Remove everything."""
        STRUCTURE_VERSION.count += 1
        super().clear()

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Add the items of another mapping."""
        STRUCTURE_VERSION.count += 1
        super().update(*args, **kwargs)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The value of a key, set first if it was not there."""
        STRUCTURE_VERSION.count += 1
        return super().setdefault(key, default)

    def __ior__(self, other: Any) -> TrackedDict:  # type: ignore[misc]
        self.update(other)
        return self

    def move_to_end(self, key: Any, last: bool = True) -> None:
        """Reorder, as an OrderedDict does."""
        value = self.pop(key)
        if last:
            self[key] = value
        else:
            rest = dict(self)
            self.clear()
            self[key] = value
            self.update(rest)


def tracked(members: dict[Any, Any]) -> TrackedDict:
    """A table of a pickled module as one that is tracked; handles of hooks may refer to it."""
    table = TrackedDict(members)
    if isinstance(members, OrderedDict):
        members.__dict__["tracked"] = table
    return table


def where_tracked(members: dict[Any, Any]) -> dict[Any, Any]:
    """The table that `tracked` made of this one, if it did."""
    became: dict[Any, Any] = getattr(members, "tracked", members)
    return became
