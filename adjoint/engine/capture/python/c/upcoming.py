"""Iterators from outside: what they give next is a place like any other.

Each `next` reads such a place, by looking ahead in a copy, and has the iterator advanced as an
effect of the call. So a recording depends on what it was given, and an iterator stands still while
code is recorded, or while guards look.
"""

from __future__ import annotations

import itertools
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from adjoint.engine.capture.python.exposing import from_outside
from adjoint.engine.capture.python.locations import Location
from adjoint.engine.capture.python.plain import MISSING

if TYPE_CHECKING:
    from adjoint.engine.capture.python.recorder import Recorder

_WARNS = sys.version_info >= (3, 12)  # that iterators of itertools will not be copied any more
_PAIRED = (zip, enumerate)  # whose tuples are made anew for each value: their parts are places


class CannotCopy(Exception):
    """An iterator whose next value only the iterator itself can tell."""


class Upcoming(Location):
    """What an iterator gives after some others; of a tuple that it makes, one of the parts.

    The key is how many come before it and, for a part, the indices that lead there.
    """

    __slots__ = ()

    def now(self) -> Any:
        ahead = copied(self.owner)
        count, *path = self.key
        value = next(itertools.islice(ahead, count, None), MISSING)
        for index in path:
            value = value if value is MISSING else value[index]
        return value

    def way(self) -> str:
        return f": what it gives {('next', 'then')[self.key[0] > 0]}"


def copied(iterator: Any) -> Iterator[Any]:
    """An iterator at the same place of the same things, to look ahead."""
    if not _WARNS:
        return _copied(iterator, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _copied(iterator, {})


def _copied(iterator: Any, copies: dict[int, Iterator[Any]]) -> Iterator[Any]:
    """The same; what is met twice, as in `zip(it, it)`, is copied once."""
    if isinstance(iterator, types.GeneratorType):
        raise CannotCopy
    if id(iterator) not in copies:
        count = type(iterator) is itertools.count
        copies[id(iterator)] = _counting(iterator) if count else _rebuilt(iterator, copies)
    return copies[id(iterator)]


def _counting(count: Any) -> Iterator[Any]:
    """A copy of a count, by what it says of itself: `count(3)`, `count(3, 2)`."""
    numbers = repr(count).removeprefix("count(").removesuffix(")").split(", ")
    try:
        return itertools.count(
            *[int(n) if n.lstrip("-").isdecimal() else float(n) for n in numbers]
        )
    except ValueError:
        raise CannotCopy from None


def _rebuilt(iterator: Any, copies: dict[int, Iterator[Any]]) -> Iterator[Any]:
    try:
        make, given, *state = iterator.__reduce__()
    except TypeError:
        raise CannotCopy from None
    again: Any = make(*[_part(x, copies) for x in given])
    if state and state[0] is not None:
        again.__setstate__(_state(state[0], copies))
    rebuilt: Iterator[Any] = again
    return rebuilt


def _part(value: Any, copies: dict[int, Iterator[Any]]) -> Any:
    if isinstance(value, Iterator):
        return _copied(value, copies)
    if callable(value) and type(value) not in (type, types.BuiltinFunctionType):
        raise CannotCopy  # looking ahead would call what only a call may
    return value


def _state(value: Any, copies: dict[int, Iterator[Any]]) -> Any:
    if type(value) is tuple:
        return tuple([_state(x, copies) for x in value])
    return list(value) if type(value) is list else _part(value, copies)


def _sources(iterator: Any) -> list[Any]:
    """The iterator, the containers it goes through, and those inside of it."""
    sources: list[Any] = [iterator]
    if type(iterator) is itertools.count:
        return sources
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, given, *_ = iterator.__reduce__()
    for value in given:
        sources += _sources(value) if isinstance(value, Iterator) else [value]
    return sources


def advance_once(iterator: Iterator[Any]) -> None:
    """What a call does again for each value that was taken."""
    next(iterator, None)


class Ahead:
    """An iterator from outside while code that takes from it is recorded."""

    __slots__ = ("count", "shadow", "sources")

    def __init__(self, recorder: Recorder, iterator: Any) -> None:
        try:
            self.shadow = copied(iterator)
        except CannotCopy:
            raise from_outside(recorder, iterator) from None
        self.sources = _sources(iterator)
        self.count = 0
        inside = {id(x) for x in self.sources if isinstance(x, Iterator)}
        if any(id(x) in inside for other in recorder.ahead.values() for x in other.sources):
            raise from_outside(recorder, iterator)  # two ways to one iterator

    def take(self, recorder: Recorder, iterator: Any) -> Any:
        """The next value, MISSING at the end; a call of the recording takes it, too."""
        if any(id(source) in recorder.journal.copies for source in self.sources):
            raise recorder.refuse(
                f"a {type(iterator).__name__} from outside",
                "the function changes what it goes through before it takes from it",
                "Take from it first, or go through the container itself.",
            )
        value = next(self.shadow, MISSING)
        upcoming = _read(recorder, iterator, (self.count,), value, type(iterator) in _PAIRED)
        self.count += 1
        recorder.effect(advance_once, iterator)
        return upcoming


def _read(recorder: Recorder, iterator: Any, key: tuple[int, ...], value: Any, paired: bool) -> Any:
    if not paired or type(value) is not tuple:
        return recorder.read(Upcoming(iterator, key), value)
    read: Callable[[int, Any], Any] = lambda i, v: _read(recorder, iterator, (*key, i), v, True)
    return tuple([read(i, v) for i, v in enumerate(value)])


def take(recorder: Recorder, iterator: Any) -> Any:
    """The next value of an iterator from outside, MISSING at its end."""
    known = recorder.ahead.get(id(iterator))
    if known is None:
        known = recorder.ahead[id(iterator)] = Ahead(recorder, iterator)
        recorder.alive.append(iterator)
    return known.take(recorder, iterator)
