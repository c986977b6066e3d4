"""Objects as what they hold: the items of the container that they are, slots, and attributes.

What a class says of itself (`__iter__`, `__getattr__`, registered functions) is not asked: an object
that is made again of these parts is the same to every reader.
"""

from __future__ import annotations

import contextlib
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from adjoint.engine.core.errors import CaptureError

_IMMUTABLE_TYPE = 1 << 8  # the flag of C's classes; a few have none, and make instances themselves
Key = Any
Step = Callable[[Any, Any], Any]  # from an object and a key to what it holds there


def written_in_c(kind: type) -> Any:
    """The class that says what C knows of an instance: `object` for most, `dict` for its heirs."""
    for base in kind.__mro__:
        new = vars(base).get("__new__")
        if base.__flags__ & _IMMUTABLE_TYPE or isinstance(new, types.BuiltinFunctionType):
            return base
    return object


@dataclass(frozen=True, slots=True)
class Held:
    """How the parts of an object are divided: items, then slots, then attributes."""

    items: int
    slots: int
    more: Any = None  # a defaultdict's factory, a deque's greatest length


@dataclass(frozen=True, slots=True)
class _Base:
    """A class of C's whose instances, and those of its heirs, can be taken apart."""

    items: Callable[[Any], tuple[Sequence[Any], list[Any]]]
    fill: Callable[[Any, Sequence[Any], Sequence[Any], Any], None]
    step: Step = object.__getattribute__
    more: Callable[[Any], Any] = lambda value: None


def _no_items(value: Any) -> tuple[Sequence[Any], list[Any]]:
    return (), []


def _fill_nothing(made: Any, keys: Sequence[Any], items: Sequence[Any], more: Any) -> None:
    pass


def _fill_defaulting(made: Any, keys: Sequence[Any], items: Sequence[Any], more: Any) -> None:
    defaultdict.__init__(made, more, zip(keys, items, strict=True))


def _fill_set(made: Any, keys: Sequence[Any], items: Sequence[Any], more: Any) -> None:
    set.update(made, items)
    if list(set.__iter__(made)) != list(items):
        raise CaptureError(
            "compile: a set among the arguments is iterated in an order that another one of these "
            "elements has not. Pass a frozenset, or a list."
        )


def _mapping(kind: Any) -> _Base:
    def fill(made: Any, keys: Sequence[Any], items: Sequence[Any], more: Any) -> None:
        for key, item in zip(keys, items, strict=True):
            kind.__setitem__(made, key, item)

    return _Base(lambda value: (tuple(kind.keys(value)), list(kind.values(value))), fill,
                 kind.__getitem__)  # fmt: skip


def _numbered(kind: Any) -> Callable[[Any], tuple[Sequence[Any], list[Any]]]:
    def items(value: Any) -> tuple[Sequence[Any], list[Any]]:
        held = list(kind.__iter__(value))
        return range(len(held)), held

    return items


_BASES: dict[Any, _Base] = {
    object: _Base(_no_items, _fill_nothing),
    types.SimpleNamespace: _Base(_no_items, _fill_nothing),
    dict: _mapping(dict),
    OrderedDict: _mapping(OrderedDict),
    defaultdict: _Base(
        _mapping(dict).items, _fill_defaulting, dict.__getitem__, lambda value: value.default_factory
    ),
    list: _Base(_numbered(list), lambda made, keys, items, more: list.extend(made, items),
                list.__getitem__),
    deque: _Base(_numbered(deque), lambda made, keys, items, more: deque.__init__(made, items, more),
                 deque.__getitem__, lambda value: value.maxlen),
    set: _Base(_numbered(set), _fill_set),
}  # fmt: skip


def _slots(kind: type) -> list[tuple[str, Any]]:
    """The slots that Python classes gave their instances, by name."""
    known = written_in_c(kind).__mro__
    return [
        (name, descriptor)
        for base in kind.__mro__
        if base not in known
        for name, descriptor in vars(base).items()
        if type(descriptor) is types.MemberDescriptorType
    ]


def _own_attributes(value: Any) -> dict[str, Any] | None:
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return own if type(own) is dict else None


def taken_apart(value: Any) -> tuple[type, tuple[Key, ...], list[Any], Held] | None:
    """The class of an object, names for its parts, the parts, and how they are divided."""
    kind: Any = type(value)
    base = _BASES.get(written_in_c(kind))
    if base is None:
        return None
    keys, items = base.items(value)
    slots: list[tuple[str, Any]] = []
    for name, descriptor in _slots(kind):
        with contextlib.suppress(AttributeError):  # not set yet
            slots.append((name, descriptor.__get__(value, kind)))
    own = _own_attributes(value) or {}
    names = (*keys, *[name for name, _ in slots], *own)
    parts = [*items, *[held for _, held in slots], *own.values()]
    return kind, names, parts, Held(len(items), len(slots), base.more(value))


def remade(kind: Any, names: Sequence[Key], parts: Sequence[Any], held: Held) -> Any:
    """An object that holds such parts; nothing of its class is called."""
    base = written_in_c(kind)
    made = base.__new__(kind)
    _BASES[base].fill(made, names[: held.items], parts[: held.items], held.more)
    slots, rest = dict(_slots(kind)), held.items + held.slots
    for name, part in zip(names[held.items : rest], parts[held.items : rest], strict=True):
        slots[name].__set__(made, part)
    if len(names) > rest:
        object.__getattribute__(made, "__dict__").update(
            zip(names[rest:], parts[rest:], strict=True)
        )
    return made


def reached(value: Any) -> tuple[Any, list[tuple[tuple[tuple[Step, Any], ...], Any]]] | None:
    """The dict of an object's attributes, and its parts with the steps that lead to each."""
    apart = taken_apart(value)
    if apart is None:
        return None
    kind, names, parts, held = apart
    item = _BASES[written_in_c(kind)].step
    rest = held.items + held.slots
    ways: list[tuple[tuple[tuple[Step, Any], ...], Any]] = []
    for index, (name, part) in enumerate(zip(names, parts, strict=True)):
        if index < held.items:
            if not isinstance(value, set):  # what is in one cannot be found again, nor written to
                ways.append((((item, name),), part))
        elif index < rest:
            ways.append((((object.__getattribute__, name),), part))
        else:
            steps = ((object.__getattribute__, "__dict__"), (dict.__getitem__, name))
            ways.append((steps, part))
    return _own_attributes(value), ways
