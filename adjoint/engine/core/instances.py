"""Objects as what they hold: the items of the container that they are, slots, and attributes.

What a class says of itself (`__iter__`, `__getattr__`, registered functions) is not asked: an
object that is made again of these parts is the same to every reader.
"""

from __future__ import annotations

import contextlib
import operator
import random
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from adjoint.engine.core.errors import CaptureError

_ORDERS_TRIED = 128
_IMMUTABLE_TYPE = 1 << 8  # the flag of C's classes; a few have none, and make instances themselves
Step = Callable[[Any, Any], Any]  # from an object and a key to what it holds there
Way = tuple[tuple[Step, Any], ...]


def written_in_c(kind: type) -> Any:
    """The class that says what C knows of an instance: `object` for most, `dict` for its heirs."""
    for base in kind.__mro__:
        new = vars(base).get("__new__")
        if base.__flags__ & _IMMUTABLE_TYPE or isinstance(new, types.BuiltinFunctionType):
            return base
    return object


@dataclass(frozen=True, slots=True)
class ObjectParts:
    """How the parts of an object are divided: items, then slots, then attributes."""

    items: int
    slots: int
    more: Any = None  # a defaultdict's factory, a deque's greatest length


@dataclass(frozen=True, slots=True)
class _Base:
    """A class of C's whose instances, and those of its heirs, can be taken apart."""

    items: Callable[[Any], tuple[Sequence[Any], list[Any]]]  # keys and what is there
    fill: Callable[[Any, Sequence[Any], Sequence[Any], Any], Any]  # from keys, items and `more`
    step: Step = object.__getattribute__  # how an item is reached
    more: Callable[[Any], Any] = lambda value: None


def _no_items(value: Any) -> tuple[Sequence[Any], list[Any]]:
    return (), []


def _keyed(kind: Any) -> Callable[[Any], tuple[Sequence[Any], list[Any]]]:
    return lambda value: (tuple(kind.keys(value)), list(kind.values(value)))


def _numbered(kind: Any) -> Callable[[Any], tuple[Sequence[Any], list[Any]]]:
    def items(value: Any) -> tuple[Sequence[Any], list[Any]]:
        members = list(kind.__iter__(value))
        return range(len(members)), members

    return items


def _fill_nothing(target: Any, keys: Sequence[Any], items: Sequence[Any], more: Any) -> None:
    pass


def _fill_dict(kind: Any) -> Callable[[Any, Sequence[Any], Sequence[Any], Any], None]:
    def fill(target: Any, keys: Sequence[Any], items: Sequence[Any], more: Any) -> None:
        for key, item in zip(keys, items, strict=True):
            kind.__setitem__(target, key, item)

    return fill


def _fill_defaultdict(target: Any, keys: Sequence[Any], items: Sequence[Any], more: Any) -> None:
    defaultdict.__init__(target, more, zip(keys, items, strict=True))


def _fill_list(target: Any, keys: Sequence[Any], items: Sequence[Any], more: Any) -> None:
    list.extend(target, items)


def _fill_deque(target: Any, keys: Sequence[Any], items: Sequence[Any], more: Any) -> None:
    deque.__init__(target, items, more)


def _fill_set(target: Any, keys: Sequence[Any], items: Sequence[Any], more: Any) -> None:
    """Elements that fall on one place of the table are iterated by who came first: tried out."""
    order, draws = list(items), random.Random(0)
    for attempt in range(_ORDERS_TRIED):
        set.clear(target)
        for item in order:
            set.add(target, item)
        pairs = zip(set.__iter__(target), items, strict=True)
        wrong = next(((at, wanted) for at, wanted in pairs if at is not wanted), None)
        if wrong is None:
            return
        first, second = (next(i for i, x in enumerate(order) if x is item) for item in wrong)
        order[first], order[second] = order[second], order[first]
        if attempt % 8 == 7:  # exchanges that undo each other
            draws.shuffle(order)
    raise CaptureError(
        "compile: a set among the arguments is iterated in an order that another one of these "
        "elements has not. Pass a frozenset, or a list."
    )


_PLAIN = _Base(_no_items, _fill_nothing)
_BASES: dict[Any, _Base] = {
    object: _PLAIN,
    types.SimpleNamespace: _PLAIN,
    dict: _Base(_keyed(dict), _fill_dict(dict), dict.__getitem__),
    OrderedDict: _Base(_keyed(OrderedDict), _fill_dict(OrderedDict), dict.__getitem__),
    defaultdict: _Base(
        _keyed(dict), _fill_defaultdict, dict.__getitem__, operator.attrgetter("default_factory")
    ),
    list: _Base(_numbered(list), _fill_list, list.__getitem__),
    deque: _Base(_numbered(deque), _fill_deque, deque.__getitem__, operator.attrgetter("maxlen")),
    set: _Base(_numbered(set), _fill_set),
}


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


def taken_apart(value: Any) -> tuple[type, tuple[Any, ...], list[Any], ObjectParts] | None:
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
    parts = [*items, *[content for _, content in slots], *own.values()]
    return kind, names, parts, ObjectParts(len(items), len(slots), base.more(value))


def remade(kind: Any, names: Sequence[Any], parts: Sequence[Any], counts: ObjectParts) -> Any:
    """An object that holds such parts; nothing of its class is called."""
    base = written_in_c(kind)
    result = base.__new__(kind)
    _BASES[base].fill(result, names[: counts.items], parts[: counts.items], counts.more)
    slots, rest = dict(_slots(kind)), counts.items + counts.slots
    for name, part in zip(names[counts.items : rest], parts[counts.items : rest], strict=True):
        slots[name].__set__(result, part)
    if len(names) > rest:
        object.__getattribute__(result, "__dict__").update(
            zip(names[rest:], parts[rest:], strict=True)
        )
    return result


def reached(value: Any) -> tuple[dict[str, Any] | None, list[tuple[Way, Any]]] | None:
    """The dict of an object's attributes, and its parts with the steps that lead to each."""
    apart = taken_apart(value)
    if apart is None:
        return None
    kind, names, parts, counts = apart
    item = _BASES[written_in_c(kind)].step
    rest = counts.items + counts.slots
    ways: list[tuple[Way, Any]] = []
    for index, (name, part) in enumerate(zip(names, parts, strict=True)):
        if index < counts.items:
            if not isinstance(value, set):  # what is in one cannot be found again, nor written to
                ways.append((((item, name),), part))
        elif index < rest:
            ways.append((((object.__getattribute__, name),), part))
        else:
            steps = ((object.__getattribute__, "__dict__"), (dict.__getitem__, name))
            ways.append((steps, part))
    return _own_attributes(value), ways
