"""How the places of a recording were reached, in words; made only when somebody asks."""

from __future__ import annotations

from typing import Any

from .locations import Cell, Contents, Item, Length, Location, Member
from .plain import BY_IDENTITY, is_a, short

_NAMED = (*BY_IDENTITY, type)  # others may answer to any name


class Ways:
    """Where objects were first met, and whose attributes a dict has."""

    __slots__ = ("locations", "tables")

    def __init__(self) -> None:
        self.locations: dict[int, Location] = {}  # by the identity of what is there
        self.tables: dict[int, Any] = {}  # dicts of attributes, and whose they are

    def close(self) -> None:
        """Forget what is not kept by a guard: its identity will be another's."""
        self.tables = {key: own for key, own in self.tables.items() if key in self.locations}

    def to(self, owner: Any) -> str:
        """How an object was reached."""
        parts: list[str] = []
        seen: set[int] = set()
        while id(owner) not in seen:
            seen.add(id(owner))
            attributes = self.tables.get(id(owner))
            if attributes is not None:
                owner = attributes
            place = self.locations.get(id(owner))
            if place is None:
                break
            table = id(place.owner) in self.tables and isinstance(place, Item)
            parts.append(f".{place.key}" if table else place.way())
            owner = place.owner
            if isinstance(place, Cell):  # a name of its own
                return "".join([parts.pop(), *reversed(parts)])
        known = getattr(owner, "__name__", None) if is_a(owner, _NAMED) else None
        if isinstance(owner, dict):
            known = owner.get("__name__")
            if parts and parts[-1].startswith("["):
                parts[-1] = f".{parts[-1][2:-2]}"
        return f"{known or short(owner)}{''.join(reversed(parts))}"

    def described(self, place: Location) -> str:
        """A place in words."""
        if isinstance(place, (Length, Contents, Member)):
            return f"{place.way()} of {self.to(place.owner)}"
        if isinstance(place, Item) and id(place.owner) in self.tables:
            return f"{self.to(self.tables[id(place.owner)])}.{place.key}"
        if isinstance(place, Item) and "__name__" in place.owner and isinstance(place.key, str):
            return f"{place.owner['__name__']}.{place.key}"
        if isinstance(place, Cell):
            return place.way()
        return f"{self.to(place.owner)}{place.way()}"
