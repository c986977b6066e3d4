"""Kinds of values: those that are compared, those that cannot change, those that hold others."""

from __future__ import annotations

import collections
import datetime
import decimal
import re
import types
from typing import Any

from adjoint.engine.core.ownership import READ_NATIVELY

IMMUTABLE_TYPE = 1 << 8  # flag of classes that C defined and nobody can change
MISSING: Any = type("Missing", (), {"__repr__": lambda self: "nothing", "__slots__": ()})()

NUMBERS = frozenset({bool, int, float, complex})
# Compared by type and value.
PLAIN = NUMBERS | {str, bytes, type(None), type(Ellipsis), type(NotImplemented), range}
# Values that never change and whose operations depend on nothing else.
FIXED = PLAIN | {
    datetime.date,
    datetime.datetime,
    datetime.time,
    datetime.timedelta,
    datetime.timezone,
    decimal.Decimal,
    re.Match,
    re.Pattern,
    types.CodeType,
    types.EllipsisType,
}
CONTAINERS = (list, dict, set, collections.deque, bytearray)
_OWN = frozenset({*CONTAINERS, tuple, frozenset, collections.OrderedDict})
# Functions, classes and the like: C code that compares or hashes them looks at nothing inside.
BY_IDENTITY = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    types.MethodDescriptorType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)


class ObjectIdentity(int):
    """The identity of an object of this call: good as a key, of no meaning to another call."""

    of: Any

    @classmethod
    def made(cls, obj: Any) -> ObjectIdentity:
        """That of an object, which it keeps."""
        identity = cls(id(obj))
        identity.of = obj
        return identity


def is_a(value: object, kinds: Any) -> bool:
    """`isinstance` by the class alone: asking an object for it would run the user's code."""
    return issubclass(type(value), kinds)


def own_class(container: Any) -> Any:
    """Python's own class behind a container, whose methods know of none that heirs write."""
    kind = type(container)
    if kind in _OWN:
        return kind
    return next((base for base in kind.__mro__ if base in _OWN), kind)


def elements(container: Any) -> Any:
    """An iterator over what a container holds, whatever its class makes of iteration."""
    return own_class(container).__iter__(container)


def element_at(sequence: Any, index: Any) -> Any:
    """What a sequence holds at an index or slice, whatever its class makes of subscripts."""
    return own_class(sequence).__getitem__(sequence, index)


def count(container: Any) -> int:
    """How much a container holds, whatever its class says of its length."""
    return int(own_class(container).__len__(container))


def is_plain(value: Any) -> bool:
    """Whether a value is immutable through and through, and compared by its value."""
    kind = type(value)
    if kind in PLAIN:
        return True
    if kind is tuple or kind is frozenset:
        return all(map(is_plain, value))
    if kind is slice:
        return is_plain(value.start) and is_plain(value.stop) and is_plain(value.step)
    return False


def same(now: Any, then: Any) -> bool:
    """Whether a place holds what it held: the same object, or an equal plain value.

    >>> same(1, True), same(0.0, -0.0), same(float("nan"), float("nan")), same((1, 2), (1, 2))
    (False, False, True, True)
    """
    if now is then:
        return True
    kind = type(then)
    if type(now) is not kind:
        return False
    if kind in (float, complex):
        return repr(now) == repr(then)  # tells zeros apart, and takes a NaN for itself
    if kind is property:
        return READ_NATIVELY.get(now) is then
    if kind is tuple:
        return len(now) == len(then) and all(map(same, now, then))
    return is_plain(then) and bool(now == then)


def can_change(cls: type) -> bool:
    """Whether a class can be given other attributes."""
    return not cls.__flags__ & IMMUTABLE_TYPE


def has(cls: type, name: str) -> bool:
    """Whether a class or one of its bases has an attribute; nobody is asked, nothing loaded."""
    for base in cls.__mro__:  # noqa: SIM110  # several times as fast as any()
        if name in base.__dict__:
            return True
    return False


def short(value: Any) -> str:
    """A value in a message."""
    parts = value.items() if type(value) is dict else value
    if type(value) in PLAIN or (type(value) in (tuple, list, dict) and is_plain(tuple(parts))):
        text = repr(value)
    elif isinstance(value, (types.FunctionType, type)):
        text = value.__qualname__
    elif isinstance(value, types.ModuleType):
        text = f"module {value.__name__}"
    else:
        text = f"a {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."
