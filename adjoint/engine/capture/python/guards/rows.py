"""Guards as rows of numbers, which native code walks: what to look at, where, and what is wanted.

Objects are told by their addresses, so whoever keeps rows keeps the objects too. Where a layout is
not what it is expected to be, a guard has no row and is looked at in Python.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import types
from array import array
from functools import cache, lru_cache
from typing import Any

from adjoint.engine.capture.python.locations import (
    Answer,
    Cell,
    ClassAttribute,
    Contents,
    Index,
    Item,
    ItemKind,
    Kind,
    Length,
    Location,
    Member,
    Order,
    Slot,
    Table,
)
from adjoint.engine.capture.python.plain import MISSING
from adjoint.engine.core.object_layout import HEAD, place_of, slot_offset, type_offset, word_at

# What a row has native code look at; its other words are the owner, the key and what is wanted.
# Of a class whose version is the wanted one, as many rows as its key says need not be looked at.
# So with a dict.
KINDS = (
    "item item_kind field table length cell member items keys list index call class dict".split()
)
ITEM, ITEM_KIND, FIELD, TABLE, LENGTH, CELL, MEMBER, ITEMS, KEYS, LIST, INDEX, CALL = range(12)
CLASS, DICT = 12, 13
# The last word of a row is native code's own: where in a dict it found the key.
WORDS = 5
NOT_SOUGHT, NOT_FOUND = -2, -1

Row = tuple[int, int, int, int]
_SIZE_OF_CLASSES: int = type.__dict__["__basicsize__"].__get__(type)
_KNOWN_DICTS = ((3, 11), (3, 12), (3, 13), (3, 14))  # Pythons whose dicts are laid out alike
_KEYS = HEAD + 16, 10  # behind how many entries there are, and a word


class _A:
    pass


class _B(_A):
    pass


@cache
def _order_offset() -> int | None:
    return place_of([(x, x.__mro__) for x in (_A, _B, Location)], _SIZE_OF_CLASSES)


@cache
def _function_offset(name: str) -> int | None:
    def first(a: int = 1000, *, b: int = 1000) -> None:
        return None

    def second(a: int = 2000, *, b: int = 2000) -> int:
        return a

    samples = [(fn, getattr(fn, name)) for fn in (first, second)]
    return place_of(samples, types.FunctionType.__basicsize__)


@cache
def keys_kind() -> tuple[int, int] | None:
    """Where a dict says what its keys are: the offset of a pointer, and of a byte behind that.

    The byte is zero unless all keys are plain strings, so that looking for one runs nobody's code.
    """
    plain: list[dict[Any, Any]] = [{"a": 1, "b": 2}, vars(_A()), {}, {str(i): i for i in range(99)}]
    other: list[dict[Any, Any]] = [{1: 1}, {"a": 1, 2: 2}, {(): 1}, {_Word("a"): 1}]
    plain[1]["a"] = plain[2]["b"] = 1
    turned: dict[Any, Any] = {"a": 1}
    if sys.version_info[:2] not in _KNOWN_DICTS:  # elsewhere it may be no pointer
        return None
    right = all(map(keys_kind_of, plain)) and not any(map(keys_kind_of, other))
    right = right and bool(keys_kind_of(turned))
    turned[1] = 1
    return _KEYS if right and not keys_kind_of(turned) else None


def keys_kind_of(table: dict[Any, Any]) -> int:
    """That byte, of a dict (where `keys_kind` is known)."""
    pointer, byte = _KEYS
    return ctypes.c_uint8.from_address(word_at(id(table) + pointer) + byte).value


class _Word(str):
    pass


def dict_of(cls: type) -> dict[str, Any] | None:
    """The dict behind `cls.__dict__`."""
    referents = gc.get_referents(cls.__dict__)
    return referents[0] if len(referents) == 1 and type(referents[0]) is dict else None


@lru_cache(maxsize=1024)
def _has_own_dict(cls: Any) -> bool:
    """Whether `__dict__` of a class's objects is Python's own."""
    for base in cls.__mro__:
        if "__dict__" in base.__dict__:
            return type(base.__dict__["__dict__"]) is types.GetSetDescriptorType
    return False


@lru_cache(maxsize=1024)
def _iterates_as(cls: Any, kind: Any) -> bool:
    """Whether objects of a class are gone through as those of a builtin one."""
    names = ("__iter__", "values") if kind is dict else ("__iter__",)
    return issubclass(cls, kind) and all(getattr(cls, n) is getattr(kind, n) for n in names)


def row_of(place: Location, value: Any, alive: list[Any]) -> Row | None:
    """The row of a guard, if it has one; `alive` is given what must live as long."""
    make = _ROWS.get(type(place))
    return None if make is None else make(place, value, alive)


def _item(place: Location, value: Any, alive: list[Any]) -> Row | None:
    return ITEM, id(place.owner), id(place.key), 0 if value is MISSING else id(value)


def _item_kind(place: Location, value: Any, alive: list[Any]) -> Row | None:
    content = dict.get(place.owner, place.key)
    if type(content) is tuple and tuple(map(type, content)) == value:  # the same has the same in it
        alive.append(content)
        return ITEM, id(place.owner), id(place.key), id(content)
    return ITEM_KIND, id(place.owner), id(place.key), id(value)


def _class_attribute(place: Location, value: Any, alive: list[Any]) -> Row | None:
    table = dict_of(place.owner)
    if table is None:
        return None
    alive.append(table)
    return ITEM, id(table), id(place.key), 0 if value is MISSING else id(value)


def _field(owner: Any, offset: int | None, value: Any) -> Row | None:
    if offset is None or value is MISSING:
        return None
    return FIELD, id(owner), offset, id(value)


def _kind(place: Location, value: Any, alive: list[Any]) -> Row | None:
    return _field(place.owner, type_offset(), value)


def _order(place: Location, value: Any, alive: list[Any]) -> Row | None:
    return _field(place.owner, _order_offset(), value)


def _slot(place: Location, value: Any, alive: list[Any]) -> Row | None:
    owner, descriptor = place.owner, place.key
    offset = None
    if type(owner) is types.FunctionType and descriptor.__name__ in _OF_FUNCTIONS:
        offset = None if value is None else _function_offset(descriptor.__name__)
    elif issubclass(type(owner), descriptor.__objclass__):
        offset = slot_offset(descriptor)
    if offset is not None:
        return _field(owner, offset, value)
    get, given = descriptor.__get__, (owner,)
    alive += get, given
    return None if value is MISSING else (CALL, id(get), id(given), id(value))


def _table(place: Location, value: Any, alive: list[Any]) -> Row | None:
    cls: Any = type(place.owner)
    return (TABLE, id(place.owner), 0, id(value)) if _has_own_dict(cls) else None


def _length(place: Location, value: Any, alive: list[Any]) -> Row | None:
    return (LENGTH, id(place.owner), 0, value) if type(value) is int else None


def _cell(place: Location, value: Any, alive: list[Any]) -> Row | None:
    return CELL, id(place.owner), 0, 0 if value is MISSING else id(value)


def _member(place: Location, value: Any, alive: list[Any]) -> Row | None:
    return MEMBER, id(place.owner), id(place.key), int(value)


def _contents(place: Location, value: Any, alive: list[Any]) -> Row | None:
    cls: Any = type(place.owner)
    if place.key == "set" or not _iterates_as(cls, dict if place.key else list):
        return None
    block = array("Q", map(id, value))
    alive.append(block)
    count = len(value) // 2 if place.key == "items" else len(value)
    how = {"items": ITEMS, "keys": KEYS, None: LIST}[place.key]
    return how, id(place.owner), block.buffer_info()[0], count


def _index(place: Location, value: Any, alive: list[Any]) -> Row | None:
    if not issubclass(type(place.owner), list) or value is MISSING or type(place.key) is not int:
        return None
    return INDEX, id(place.owner), place.key, id(value)


def _answer(place: Location, value: Any, alive: list[Any]) -> Row | None:
    if value is MISSING or type(value) is tuple:  # made anew by each call
        return None
    return CALL, id(place.owner), id(place.key), id(value)


_OF_FUNCTIONS = ("__code__", "__defaults__", "__kwdefaults__")
_ROWS = {
    Answer: _answer, Cell: _cell, ClassAttribute: _class_attribute, Contents: _contents,
    Index: _index, Item: _item, ItemKind: _item_kind, Kind: _kind, Length: _length,
    Member: _member, Order: _order, Slot: _slot, Table: _table,
}  # fmt: skip
