"""Functions with a cache (`functools.lru_cache`): what is kept is looked at, and not asked for.

Note [cached functions]
    Asking such a function counts, and moves the answer to the front. So a recording only looks at
    what the cache keeps, each call looks again, and the program asks at its end, as often as the
    function did and in its order. An answer that is not there is computed by Python: that call is
    Python's as a whole, and the next one finds the answer.
"""

from __future__ import annotations

import functools
import gc
from typing import Any

from adjoint.engine.capture.python.errors import PlainCall
from adjoint.engine.capture.python.exposing import expose
from adjoint.engine.capture.python.locations import Answer
from adjoint.engine.capture.python.plain import MISSING, is_plain
from adjoint.engine.capture.python.recorder import Recorder
from adjoint.engine.core.state.context import CONTEXT

from . import methods

CACHED: Any = type(functools.lru_cache(abs))
# What a cached function refers to at its end: the table, the function, what comes before keywords
# in keys, two classes, attributes. Before that: itself a class, and by age key, answer and class.
_TABLE, _MARK, _LINK, _ATTRIBUTES = -6, -4, -3, -1


def call_cached(recorder: Recorder, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function with a cache answers."""
    if recorder.is_fresh(fn):
        return fn(*args, **kwargs)  # made with a function that is followed
    args = tuple(x if _by_identity(recorder, x) else expose(recorder, x) for x in args)
    given = (*args, *kwargs.values())
    if not all(is_plain(x) or _by_identity(recorder, x) for x in given):
        raise recorder.refuse(
            f"{fn.__qualname__} (cached)", "its cache is asked for something that may change",
            "Pass it plain values.",
        )  # fmt: skip
    if not _can_be_seen(fn):
        raise recorder.refuse(
            f"{fn.__qualname__} (cached)", "its cache cannot be looked at", "Call it outside."
        )
    place = Answer(cached_answer, (fn, args, tuple(kwargs.items())))
    if recorder.engine.only_records():
        with CONTEXT.having(capture=None):  # what its cache keeps outlives the recording
            return recorder.guard(place, fn(*args, **kwargs))
    answer = MISSING if _is_cleared(recorder, fn) else place.now()
    if answer is MISSING:
        recorder.refusal = PlainCall(
            f"{fn.__qualname__}: its cache has no answer to what is asked at {recorder.line()}, "
            "and one that is computed is no part of a recording. Call it before, or outside.",
            may_go_on=True,
        )
        raise recorder.refusal
    recorder.guard(place, answer)
    recorder.effect(_ask, fn, args, tuple(kwargs.items()))
    return answer


def cached_answer(fn: Any, args: tuple[Any, ...], named: tuple[tuple[str, Any], ...]) -> Any:
    """The answer that a cache keeps; MISSING where it has none. Nothing is counted."""
    seen = gc.get_referents(fn)
    options = fn.cache_parameters()
    key = _key(args, named, seen[_MARK], options["typed"])
    table: dict[Any, Any] = seen[_TABLE]
    if options["maxsize"] is None:
        return table.get(key, MISSING)
    if key not in table:
        return MISSING
    by_age = zip(seen[1:_TABLE:3], seen[2:_TABLE:3], strict=True)
    return next(answer for known, answer in by_age if known is key or known == key)


def _key(args: tuple[Any, ...], named: Any, mark: Any, typed: bool) -> Any:
    """As `functools` makes it."""
    if not typed and not named:
        return args[0] if len(args) == 1 and type(args[0]) in (int, str) else args
    key = args
    if named:
        key += (mark, *[part for pair in named for part in pair])
    if typed:
        key += (*map(type, args), *[type(value) for _, value in named])
    return key


def _can_be_seen(fn: Any) -> bool:
    """Whether a cached function refers to what it should; not so in some other Python."""
    seen = gc.get_referents(fn)
    return (
        len(seen) >= -_TABLE
        and type(seen[_TABLE]) is dict
        and type(seen[_MARK]) is object
        and getattr(seen[_LINK], "__name__", "") == "_lru_list_elem"
        and seen[_ATTRIBUTES] is fn.__dict__
        and "cache_parameters" in fn.__dict__
    )


def _ask(fn: Any, args: tuple[Any, ...], named: tuple[tuple[str, Any], ...]) -> None:
    fn(*args, **dict(named))


def _clear(recorder: Recorder, fn: Any, /) -> None:
    """`cache_clear()`: from then on there is no answer in this call."""
    if recorder.is_fresh(fn):
        fn.cache_clear()
        return
    recorder.shared["cleared caches", id(fn)] = fn
    recorder.effect(CACHED.cache_clear, fn)


def _info(recorder: Recorder, fn: Any, /) -> Any:
    """`cache_info()`, of which no recording could say the same in the next call."""
    if recorder.is_fresh(fn):
        return fn.cache_info()
    raise recorder.refuse(
        f"{fn.__qualname__}.cache_info", "what it counts is another number in each call",
        "Ask for it outside of the compiled function.",
    )  # fmt: skip


def _is_cleared(recorder: Recorder, fn: Any) -> bool:
    return ("cleared caches", id(fn)) in recorder.shared


def _by_identity(recorder: Recorder, value: Any) -> bool:
    """Whether a cache knows a value by its identity: a logger, the object of a method."""
    cls: Any = type(value)
    return (
        cls.__hash__ is object.__hash__
        and cls.__eq__ is object.__eq__
        and not recorder.is_fresh(value)
        and not recorder.is_given(value)
        and not recorder.engine.owns(value)
        and not recorder.engine.is_symbol(value)
    )


methods.CALLABLES[CACHED] = call_cached
methods.TABLE[CACHED] = {"cache_clear": _clear, "cache_info": _info}
