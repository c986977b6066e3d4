"""Arguments to parameters, as Python binds them."""

from __future__ import annotations

import types
from typing import Any

from adjoint.engine.capture.python.locations import Item, Slot
from adjoint.engine.capture.python.plain import MISSING
from adjoint.engine.capture.python.recorder import Recorder

_DEFAULTS = types.FunctionType.__defaults__
_KWDEFAULTS = types.FunctionType.__kwdefaults__
_STAR, _DOUBLE_STAR = 4, 8


def slots_of(code: types.CodeType) -> int:
    """How many variables a frame has: locals, cells, free variables."""
    cells = [name for name in code.co_cellvars if name not in code.co_varnames]
    return len(code.co_varnames) + len(cells) + len(code.co_freevars)


def bind(
    recorder: Recorder, fn: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Any]:
    """The variables of a frame for a call; raises as Python does."""
    code = fn.__code__
    count = code.co_argcount
    fast: list[Any] = [MISSING] * slots_of(code)
    flags = code.co_flags
    if not kwargs and len(args) == count and not code.co_kwonlyargcount and not flags & 12:
        fast[:count] = args
        return fast
    total = count + code.co_kwonlyargcount
    names = code.co_varnames
    taken = min(len(args), count)
    fast[:taken] = args[:taken]
    if flags & _STAR:
        fast[total] = tuple(args[count:])
    elif len(args) > count:
        return _mismatch(fn, args, kwargs)
    if not _named(recorder, code, fast, kwargs, names, total):
        return _mismatch(fn, args, kwargs)
    if not _defaults(recorder, fn, fast, taken, count, total):
        return _mismatch(fn, args, kwargs)
    return fast


def _named(
    recorder: Recorder,
    code: types.CodeType,
    fast: list[Any],
    kwargs: dict[str, Any],
    names: tuple[str, ...],
    total: int,
) -> bool:
    """Keyword arguments; whether they fit."""
    rest: dict[str, Any] = {}
    allowed = names[code.co_posonlyargcount : total]
    for key, value in kwargs.items():
        if key in allowed:
            place = names.index(key, code.co_posonlyargcount)
            if fast[place] is not MISSING:
                return False
            fast[place] = value
        elif code.co_flags & _DOUBLE_STAR:
            rest[key] = value
        else:
            return False
    if code.co_flags & _DOUBLE_STAR:
        fast[total + bool(code.co_flags & _STAR)] = recorder.new(rest)
    return True


def _defaults(
    recorder: Recorder,
    fn: types.FunctionType,
    fast: list[Any],
    taken: int,
    count: int,
    total: int,
) -> bool:
    """Defaults for what was not given; whether nothing is missing."""
    code = fn.__code__
    outside = id(fn) not in recorder.fresh and not recorder.engine.keeps_function(fn)
    missing = [i for i in range(taken, count) if fast[i] is MISSING]
    if missing:
        defaults = fn.__defaults__ or ()
        if outside and not recorder.journal.has_field(fn, "__defaults__"):
            recorder.guard(Slot(fn, _DEFAULTS), fn.__defaults__)
        first = count - len(defaults)
        for i in missing:
            if i < first:
                return False
            fast[i] = defaults[i - first]
    for i in range(count, total):
        if fast[i] is MISSING:
            of_keywords = fn.__kwdefaults__
            name = code.co_varnames[i]
            if of_keywords is None or name not in of_keywords:
                return False
            if outside:
                recorder.guard(Slot(fn, _KWDEFAULTS), of_keywords)
                recorder.guard(Item(of_keywords, name), of_keywords[name])
            fast[i] = of_keywords[name]
    return True


def _mismatch(fn: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Raise what Python raises: the arguments do not fit, so the function does not run."""
    fn(*args, **kwargs)
    raise SystemError(f"{fn.__qualname__}: Python binds arguments that the recorder does not")
