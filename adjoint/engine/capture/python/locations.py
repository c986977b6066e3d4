"""Places where Python keeps values: each can be looked at again and says so in one expression.

A place is an object and a key, never a path: what led to the object was itself a place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .plain import MISSING, short

Namer = Callable[[Any], str]  # gives an object a name in generated code


@dataclass(frozen=True, slots=True, eq=False)
class Location:
    """An object and a key of it."""

    owner: Any
    key: Any = None

    def __hash__(self) -> int:
        return hash((type(self), id(self.owner), self.identity()))

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is type(self)
            and other.owner is self.owner
            and self.identity() == other.identity()
        )

    def identity(self) -> Any:
        """What tells keys apart: 1, True and 1.0 are three."""
        return type(self.key), self.key

    def now(self) -> Any:
        """What is there; MISSING: nothing."""
        raise NotImplementedError

    def text(self, name: Namer) -> str:
        """An expression for what is there; it may raise where nothing is."""
        raise NotImplementedError

    def way(self) -> str:
        """The place in a message."""
        raise NotImplementedError


class Item(Location):
    """A key of a dict; a variable of a module, an attribute of an object."""

    __slots__ = ()

    def now(self) -> Any:
        return dict.get(self.owner, self.key, MISSING)

    def text(self, name: Namer) -> str:
        if type(self.owner) is dict:
            return f"{name(self.owner)}[{name(self.key)}]"
        return f"{name(dict.__getitem__)}({name(self.owner)}, {name(self.key)})"

    def way(self) -> str:
        return f"[{short(self.key)}]"


class Index(Location):
    """An element of a list or deque."""

    __slots__ = ()

    def now(self) -> Any:
        try:
            kind: Any = type(self.owner).__mro__[-2]  # past what a subclass says
            return kind.__getitem__(self.owner, self.key)
        except IndexError:
            return MISSING

    def text(self, name: Namer) -> str:
        return f"{name(self.owner)}[{self.key}]"

    def way(self) -> str:
        return f"[{self.key}]"


class Length(Location):
    """How many elements a container has."""

    __slots__ = ()

    def now(self) -> Any:
        return len(self.owner)

    def text(self, name: Namer) -> str:
        return f"len({name(self.owner)})"

    def way(self) -> str:
        return "its length"


class Contents(Location):
    """All that is in a container, in order: a tuple of keys, elements, or keys and values.

    Of a set, whose order means nothing, the members and their types.
    """

    __slots__ = ()

    def now(self) -> Any:
        if self.key == "set":
            return members(self.owner)
        if self.key == "items":
            return (*self.owner, *self.owner.values())
        return tuple(self.owner)

    def text(self, name: Namer) -> str:
        owner = name(self.owner)
        return f"(*{owner}, *{owner}.values())" if self.key == "items" else f"(*{owner},)"

    def way(self) -> str:
        return "its contents"


def members(given: Any) -> frozenset[Any]:
    """What is in a set, for comparison: 1, True and 1.0 are three."""
    return frozenset((type(x), x) for x in given)


class Member(Location):
    """Whether something is in a set or among the keys of a dict."""

    __slots__ = ()

    def identity(self) -> Any:
        return type(self.key), id(self.key) if self.key.__hash__ is None else self.key

    def now(self) -> Any:
        return self.key in self.owner

    def text(self, name: Namer) -> str:
        return f"{name(self.key)} in {name(self.owner)}"

    def way(self) -> str:
        return f"whether {short(self.key)} is in it"


class Cell(Location):
    """A variable that functions share."""

    __slots__ = ()

    def now(self) -> Any:
        try:
            return self.owner.cell_contents
        except ValueError:
            return MISSING

    def text(self, name: Namer) -> str:
        return f"{name(self.owner)}.cell_contents"

    def way(self) -> str:
        return f"the variable {self.key}"


class Slot(Location):
    """An attribute that a descriptor of C keeps: a slot, or a field of a builtin object."""

    __slots__ = ()

    def identity(self) -> Any:
        return id(self.key)

    def now(self) -> Any:
        try:
            return self.key.__get__(self.owner, type(self.owner))
        except AttributeError:
            return MISSING

    def text(self, name: Namer) -> str:
        return f"{name(self.key.__get__)}({name(self.owner)})"

    def way(self) -> str:
        return f".{self.key.__name__}"


class Kind(Location):
    """The class of an object."""

    __slots__ = ()

    def now(self) -> Any:
        return type(self.owner)

    def text(self, name: Namer) -> str:
        return f"type({name(self.owner)})"

    def way(self) -> str:
        return "its class"


class Table(Location):
    """The dict of an object's attributes."""

    __slots__ = ()

    def now(self) -> Any:
        return self.owner.__dict__

    def text(self, name: Namer) -> str:
        return f"{name(self.owner)}.__dict__"

    def way(self) -> str:
        return ".__dict__"


class Order(Location):
    """The classes in which attributes of a class are looked for."""

    __slots__ = ()

    def now(self) -> Any:
        return self.owner.__mro__

    def text(self, name: Namer) -> str:
        return f"{name(self.owner)}.__mro__"

    def way(self) -> str:
        return "its base classes"


class ClassAttribute(Location):
    """An attribute in the dict of a class."""

    __slots__ = ()

    def now(self) -> Any:
        return type.__dict__["__dict__"].__get__(self.owner).get(self.key, MISSING)

    def text(self, name: Namer) -> str:
        return f"{name(self.owner)}.__dict__[{self.key!r}]"

    def way(self) -> str:
        return f".{self.key}"


class Answer(Location):
    """What a call that changes nothing answers: the owner is called with the key."""

    __slots__ = ()

    def identity(self) -> Any:
        return tuple(map(id, self.key))

    def now(self) -> Any:
        try:
            return self.owner(*self.key)
        except Exception:
            return MISSING

    def text(self, name: Namer) -> str:
        return f"{name(self.owner)}({', '.join(map(name, self.key))})"

    def way(self) -> str:
        called = getattr(self.owner, "__qualname__", type(self.owner).__name__)
        return f"{called}({', '.join(map(short, self.key))})"
