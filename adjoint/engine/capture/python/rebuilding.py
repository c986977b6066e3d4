"""How a call makes again what the recorded one made: the objects in its result and its effects.

What was there before, and plain values, are the same at each call. Objects the observed code made
are made anew, in the state they had at the end; one that is met twice is made once.
"""

from __future__ import annotations

import collections
import functools
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from adjoint.engine.core.instances import written_in_c

from .errors import Refusal
from .plain import FIXED, MISSING, ObjectIdentity, can_change, is_a, is_plain
from .recorder import Recorder, cell_value, set_cell
from .symbols import CallValue


class Recipe(Protocol):
    """Makes a value in a call."""

    def make(self, call: CallObjects) -> Any:
        """The value in this call."""


class CallObjects:
    """What was made so far in one call, and what the engine knows of it."""

    __slots__ = ("engine", "objects")

    def __init__(self, engine: Any = None) -> None:
        self.objects: dict[int, Any] = {}
        self.engine = engine


@dataclass(frozen=True, slots=True)
class Same:
    """The same object at each call."""

    value: Any

    def make(self, call: CallObjects) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class ReadNumber:
    """A number that is read or drawn at each call."""

    read: Callable[[], Any]
    of: Any  # what stands for it in the recording

    def make(self, call: CallObjects) -> Any:
        return self.read()


@dataclass(frozen=True, slots=True)
class Immutable:
    """Something immutable made of parts: they come first."""

    number: int
    build: Callable[[list[Any]], Any]
    parts: tuple[Recipe, ...]

    def make(self, call: CallObjects) -> Any:
        if self.number not in call.objects:
            call.objects[self.number] = self.build([part.make(call) for part in self.parts])
        return call.objects[self.number]


class Mutable:
    """Something that is made empty and then filled, so that it may contain itself."""

    __slots__ = ("empty", "fill", "number", "parts")

    def __init__(
        self, number: int, empty: Callable[[], Any], fill: Callable[[Any, list[Any]], None]
    ) -> None:
        self.number, self.empty, self.fill = number, empty, fill
        self.parts: tuple[Recipe, ...] = ()

    def make(self, call: CallObjects) -> Any:
        if self.number in call.objects:
            return call.objects[self.number]
        value = call.objects[self.number] = self.empty()
        self.fill(value, [part.make(call) for part in self.parts])
        return value


class Describer:
    """Finds the recipes of values."""

    def __init__(
        self, recorder: Recorder, engines: Callable[[Any], Recipe | None] = lambda value: None
    ) -> None:
        self.recorder = recorder
        self.engines = engines  # recipes of the engine's values, and of the call's arguments
        self.known: dict[int, Recipe] = {}
        self.alive: list[Any] = []
        self.line = "the result"

    def recipe(self, value: Any) -> Recipe:
        """How each call comes by this value."""
        known = self.known.get(id(value))
        if known is not None:
            return known
        self.alive.append(value)
        recipe = self._describe(value)
        self.known[id(value)] = recipe
        return recipe

    def _describe(self, value: Any) -> Recipe:
        recorder = self.recorder
        kind = type(value)
        given = self.engines(value)
        if given is not None:
            return given
        if recorder.engine.is_symbol(value):
            return ReadNumber(recorder.engine.reader(value), value)
        if kind is tuple:
            return self._tuple(value, tuple)
        if kind is ObjectIdentity:
            return Immutable(id(value), lambda parts: id(parts[0]), (self.recipe(value.of),))
        if is_plain(value) or kind in FIXED or value is MISSING:
            return Same(value)
        if kind is slice:
            parts = tuple(map(self.recipe, (value.start, value.stop, value.step)))
            return Immutable(id(value), lambda parts: slice(*parts), parts)
        if kind is frozenset:
            return Immutable(id(value), frozenset, tuple(map(self.recipe, value)))
        if is_a(value, types.MethodType):
            parts = (self.recipe(value.__func__), self.recipe(value.__self__))
            return Immutable(id(value), lambda parts: types.MethodType(*parts), parts)
        if recorder.engine.holds_new(value):
            raise self.refuse(value)
        if not recorder.is_fresh(value):
            return Same(value)
        return self._fresh(value)

    def _tuple(self, value: Any, build: Any) -> Recipe:
        parts = tuple(map(self.recipe, value))
        if all(type(part) is Same for part in parts):
            return Same(value)
        return Immutable(id(value), build, parts)

    def _fresh(self, value: Any) -> Recipe:
        for cls, describe in _KINDS:
            if is_a(value, cls):
                return describe(self, value)
        kind: Any = type(value)
        if written_in_c(kind) is object:
            return _instance(self, value, lambda: object.__new__(kind))
        raise self.refuse(value)

    def refuse(self, value: Any) -> Refusal:
        """What is said of something that cannot be made again."""
        return Refusal(
            f"a {type(value).__name__}",
            "the function keeps or returns it, and a call could not make another like it",
            "Keep or return what it holds instead.",
            self.line,
        )

    def mutable(
        self, value: Any, empty: Callable[[], Any], parts: list[Any], fill: Callable[..., None]
    ) -> Recipe:
        """A recipe that may refer to itself."""
        recipe = Mutable(id(value), empty, fill)
        self.known[id(value)] = recipe
        recipe.parts = tuple(map(self.recipe, parts))
        return recipe


def _attributes(value: Any) -> tuple[list[str], list[Any], list[str], list[Any]]:
    """The attributes of an instance: in its dict, and in slots."""
    own = getattr(value, "__dict__", {})
    slots = [
        (name, getattr(value, name))
        for cls in type(value).__mro__
        for name, descriptor in vars(cls).items()
        if type(descriptor) is types.MemberDescriptorType and hasattr(value, name)
        and can_change(cls)
    ]  # fmt: skip
    return list(own), list(own.values()), [n for n, _ in slots], [v for _, v in slots]


def _instance(
    describer: Describer, value: Any, empty: Callable[[], Any], extra: Any = None
) -> Recipe:
    names, attributes, slots, fields = _attributes(value)
    count, total = len(attributes), len(attributes) + len(fields)
    more, fill_more = extra if extra is not None else ([], None)

    def fill(instance: Any, parts: list[Any]) -> None:
        if names:
            instance.__dict__.update(zip(names, parts[:count], strict=True))
        for name, part in zip(slots, parts[count:total], strict=True):
            object.__setattr__(instance, name, part)
        if fill_more is not None:
            fill_more(instance, parts[total:])

    return describer.mutable(value, empty, [*attributes, *fields, *more], fill)


def _list(describer: Describer, value: Any) -> Recipe:
    kind = type(value)
    if kind is list:
        return describer.mutable(value, list, value, lambda copy, parts: copy.extend(parts))
    extra = (list(list.__iter__(value)), lambda copy, parts: list.extend(copy, parts))
    return _instance(describer, value, lambda: list.__new__(kind), extra)


def _dict(describer: Describer, value: Any) -> Recipe:
    kind: Any = type(value)
    keys = list(dict.keys(value))
    count = len(keys)

    def fill(copy: Any, parts: list[Any]) -> None:
        base = collections.OrderedDict if issubclass(kind, collections.OrderedDict) else dict
        for key, part in zip(parts[:count], parts[count:], strict=True):
            base.__setitem__(copy, key, part)

    entries = [*keys, *[dict.__getitem__(value, key) for key in keys]]
    if kind is dict:
        return describer.mutable(value, dict, entries, fill)
    if issubclass(kind, collections.defaultdict):
        factory = value.default_factory
        return _instance(describer, value, lambda: _defaulting(kind, factory), (entries, fill))
    return _instance(describer, value, lambda: written_in_c(kind).__new__(kind), (entries, fill))


def _defaulting(kind: Any, factory: Any) -> Any:
    copy = collections.defaultdict.__new__(kind)
    collections.defaultdict.__init__(copy, factory)
    return copy


def _set(describer: Describer, value: Any) -> Recipe:
    kind = type(value)
    extra = (list(set.__iter__(value)), lambda copy, parts: set.update(copy, parts))
    return _instance(describer, value, lambda: set.__new__(kind), extra)


def _deque(describer: Describer, value: Any) -> Recipe:
    kind, size = type(value), value.maxlen
    elements = list(collections.deque.__iter__(value))
    extra = (elements, lambda copy, parts: collections.deque.extend(copy, parts))

    def empty() -> Any:
        copy = collections.deque.__new__(kind)
        collections.deque.__init__(copy, (), size)
        return copy

    return _instance(describer, value, empty, extra)


def _named_tuple(describer: Describer, value: Any) -> Recipe:
    kind: Any = type(value)
    items, own = list(tuple.__iter__(value)), getattr(value, "__dict__", {})
    names, count = list(own), len(items)

    def build(parts: list[Any]) -> Any:
        one = tuple.__new__(kind, parts[:count])
        if names:
            one.__dict__.update(zip(names, parts[count:], strict=True))
        return one

    return Immutable(id(value), build, tuple(map(describer.recipe, (*items, *own.values()))))


def _error(describer: Describer, value: Any) -> Recipe:
    kind = type(value)
    causes = [value.args, value.__cause__, value.__context__]
    suppressed = value.__suppress_context__

    def fill(copy: Any, parts: list[Any]) -> None:
        copy.args, copy.__cause__, copy.__context__ = parts
        copy.__suppress_context__ = suppressed

    return _instance(describer, value, lambda: kind.__new__(kind, *value.args), (causes, fill))


def _cell(describer: Describer, value: Any) -> Recipe:
    return describer.mutable(
        value, types.CellType, [cell_value(value)], lambda cell, parts: set_cell(cell, parts[0])
    )


def _function(describer: Describer, value: types.FunctionType) -> Recipe:
    closure = value.__closure__ or ()
    names = [*value.__dict__]
    parts = [value.__defaults__, value.__kwdefaults__, *value.__dict__.values()]
    cells = [describer.recipe(cell) for cell in closure]
    code, variables = value.__code__, value.__globals__
    name, qualified, doc = value.__name__, value.__qualname__, value.__doc__

    def fill(function: Any, parts: list[Any]) -> None:
        function.__defaults__, function.__kwdefaults__ = parts[:2]
        function.__qualname__, function.__doc__ = qualified, doc
        function.__dict__.update(zip(names, parts[2:], strict=True))

    recipe = _RebuiltFunction(id(value), lambda: None, fill)
    describer.known[id(value)] = recipe
    recipe.build = lambda call: types.FunctionType(
        code, variables, name, None, tuple(cell.make(call) for cell in cells) or None
    )
    recipe.parts = tuple(map(describer.recipe, parts))
    return recipe


class _RebuiltFunction(Mutable):
    """A function: its cells come first."""

    __slots__ = ("build",)
    build: Callable[[CallObjects], Any]

    def make(self, call: CallObjects) -> Any:
        if self.number in call.objects:
            return call.objects[self.number]
        value = self.build(call)
        if self.number in call.objects:  # a cell held the function itself
            return call.objects[self.number]
        call.objects[self.number] = value
        self.fill(value, [part.make(call) for part in self.parts])
        return value


def _partial(describer: Describer, value: Any) -> Recipe:
    parts = tuple(map(describer.recipe, (value.func, value.args, value.keywords)))
    return Immutable(
        id(value), lambda parts: functools.partial(parts[0], *parts[1], **parts[2]), parts
    )


def _bytes(describer: Describer, value: Any) -> Recipe:
    content = bytes(value)
    return describer.mutable(value, lambda: bytearray(content), [], lambda copy, parts: None)


def _number(describer: Describer, value: Any) -> Recipe:
    """Numbers and text of a class of one's own."""
    kind = type(value)
    base: Any = next(c for c in (int, float, str, bytes, complex) if is_a(value, c))
    if not can_change(kind):
        return Same(value)  # of a class of C's: nobody changes it
    plain = base(value)
    return _instance(describer, value, lambda: base.__new__(kind, plain))


def _reference(describer: Describer, value: Any) -> Recipe:
    referent = value()
    if referent is None or type(value) not in (weakref.ref, weakref.KeyedRef):
        raise describer.refuse(value)
    extra = [value.key] if is_a(value, weakref.KeyedRef) else []
    parts = tuple(map(describer.recipe, (referent, value.__callback__, *extra)))
    return Immutable(id(value), lambda parts: type(value)(*parts), parts)


def _class(describer: Describer, value: Any) -> Recipe:
    raise describer.refuse(value)


def _plain_object(describer: Describer, value: Any) -> Recipe:
    kind: Any = type(value)
    return _instance(describer, value, lambda: kind.__new__(kind))


def _iterator(describer: Describer, value: Any) -> Recipe:
    """An iterator of Python's at its place, made as a copy of it is."""
    make, given, *state = value.__reduce__()

    def part(x: Any) -> Recipe:
        if not is_a(x, Iterator) or describer.recorder.is_fresh(x):
            return describer.recipe(x)
        if not is_a(x, _ITERATORS):  # the recorder's own, which sees what is taken
            raise describer.refuse(value)
        if id(x) not in describer.known:  # C made it
            describer.alive.append(x)
            describer.known[id(x)] = _iterator(describer, x)
        return describer.known[id(x)]

    parts = (describer.recipe(make), *map(part, given))

    def build(parts: Any) -> Any:
        iterator = parts[0](*parts[1:])
        if state and state[0] is not None:
            iterator.__setstate__(state[0])
        return iterator

    return Immutable(id(value), build, parts)


def _of_call(describer: Describer, value: Any) -> Recipe:
    return Immutable(id(value), lambda parts: value.now(), ())


def _view(describer: Describer, value: Any) -> Recipe:
    raise describer.refuse(value)


# Those whose places are numbers, and those that go on where others are.
_ITERATORS: tuple[type, ...] = (
    type(iter([])), type(iter(())), type(iter(range(0))), type(iter("")), type(reversed([])),
    enumerate, zip,
)  # fmt: skip
_KINDS: tuple[tuple[Any, Callable[[Describer, Any], Recipe]], ...] = (
    (CallValue, _of_call),
    (list, _list),
    (dict, _dict),
    (set, _set),
    (tuple, _named_tuple),
    (collections.deque, _deque),
    (BaseException, _error),
    (types.CellType, _cell),
    (types.FunctionType, _function),
    (functools.partial, _partial),
    (bytearray, _bytes),
    ((int, float, str, bytes, complex), _number),
    (weakref.ReferenceType, _reference),
    (type, _class),
    (types.SimpleNamespace, _plain_object),
    (_ITERATORS, _iterator),
)
