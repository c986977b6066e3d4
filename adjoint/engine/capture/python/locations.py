"""Places where Python keeps values: each can be looked at again.

A place is an object and a key, never a path: what led to the object was itself a place.
"""

from __future__ import annotations

from typing import Any

from .plain import MISSING, count, element_at, elements, own_class, short


class Location:
    """An object and a key of it."""

    __slots__ = ("key", "owner")

    def __init__(self, owner: Any, key: Any = None) -> None:
        self.owner = owner
        self.key = key

    def __hash__(self) -> int:
        return hash(self.token())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Location) and self.token() == other.token()

    def token(self) -> tuple[Any, ...]:
        """What tells places apart while their owners live: 1, True and 1.0 are three keys."""
        return self.__class__, id(self.owner), self.key.__class__, self.key

    def now(self) -> Any:
        """What is there; MISSING: nothing."""
        raise NotImplementedError

    def way(self) -> str:
        """The place in a message."""
        raise NotImplementedError


class Item(Location):
    """A key of a dict; a variable of a module, an attribute of an object."""

    __slots__ = ()

    def now(self) -> Any:
        return dict.get(self.owner, self.key, MISSING)

    def way(self) -> str:
        return f"[{short(self.key)}]"


class ItemKind(Location):
    """The class of what a dict has under a key; of a tuple, the classes of what is in it."""

    __slots__ = ()

    def now(self) -> Any:
        value = dict.get(self.owner, self.key, MISSING)
        return tuple(map(type, value)) if type(value) is tuple else type(value)

    def way(self) -> str:
        return f"the kind of [{short(self.key)}]"


class Index(Location):
    """An element of a list or deque."""

    __slots__ = ()

    def now(self) -> Any:
        try:
            return element_at(self.owner, self.key)
        except IndexError:
            return MISSING

    def way(self) -> str:
        return f"[{self.key}]"


class Length(Location):
    """How many elements a container has."""

    __slots__ = ()

    def now(self) -> Any:
        return count(self.owner)

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
            keys = tuple(elements(self.owner))
            return (*keys, *[dict.__getitem__(self.owner, key) for key in keys])
        return tuple(elements(self.owner))

    def way(self) -> str:
        return "its contents"


def members(given: Any) -> frozenset[Any]:
    """What is in a set, for comparison: 1, True and 1.0 are three."""
    return frozenset((type(x), x) for x in elements(given))


class Member(Location):
    """Whether something is in a set or among the keys of a dict."""

    __slots__ = ()

    def token(self) -> tuple[Any, ...]:
        key = self.key
        return Member, id(self.owner), type(key), id(key) if key.__hash__ is None else key

    def now(self) -> Any:
        return own_class(self.owner).__contains__(self.owner, self.key)

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

    def way(self) -> str:
        return f"the variable {self.key}"


class Slot(Location):
    """An attribute that a descriptor of C keeps: a slot, or a field of a builtin object."""

    __slots__ = ()

    def token(self) -> tuple[Any, ...]:
        return Slot, id(self.owner), id(self.key)

    def now(self) -> Any:
        try:
            return self.key.__get__(self.owner, type(self.owner))
        except AttributeError:
            return MISSING

    def way(self) -> str:
        return f".{self.key.__name__}"


class Kind(Location):
    """The class of an object."""

    __slots__ = ()

    def now(self) -> Any:
        return type(self.owner)

    def way(self) -> str:
        return ".__class__"


class Table(Location):
    """The dict of an object's attributes."""

    __slots__ = ()

    def now(self) -> Any:
        return object.__getattribute__(self.owner, "__dict__")

    def way(self) -> str:
        return ".__dict__"


class Order(Location):
    """The classes in which attributes of a class are looked for."""

    __slots__ = ()

    def now(self) -> Any:
        return self.owner.__mro__

    def way(self) -> str:
        return ".__mro__"


class ClassAttribute(Location):
    """An attribute in the dict of a class."""

    __slots__ = ()

    def now(self) -> Any:
        return type.__dict__["__dict__"].__get__(self.owner).get(self.key, MISSING)

    def way(self) -> str:
        return f".{self.key}"


class Referred(Location):
    """A place of an object that is only referred to weakly: nobody keeps it for the guard's sake.

    The owner is the weak reference, the key the kind of place and its key.
    """

    __slots__ = ()

    def now(self) -> Any:
        owner = self.owner()
        kind, key = self.key
        return MISSING if owner is None else kind(owner, key).now()

    def way(self) -> str:
        return f"() {self.key[0].__name__.lower()}"


class Answer(Location):
    """What a call that changes nothing answers: the owner is called with the key."""

    __slots__ = ()

    def token(self) -> tuple[Any, ...]:
        return Answer, id(self.owner), *map(id, self.key)

    def now(self) -> Any:
        try:
            return self.owner(*self.key)
        except Exception:
            return MISSING

    def way(self) -> str:
        called = getattr(self.owner, "__qualname__", type(self.owner).__name__)
        return f"{called}({', '.join(map(short, self.key))})"
