"""Calls: Python functions are followed, C functions looked up in tables, the rest refused."""

from __future__ import annotations

import functools
import types
from typing import Any

from adjoint.engine.capture.python.c import caches as caches
from adjoint.engine.capture.python.c import functions, methods
from adjoint.engine.capture.python.c import helpers as helpers
from adjoint.engine.capture.python.c import process as process
from adjoint.engine.capture.python.c import randomness as randomness
from adjoint.engine.capture.python.c import telling as telling
from adjoint.engine.capture.python.c import variables as variables
from adjoint.engine.capture.python.calling import ENTRY, is_python, run_engines, unknown
from adjoint.engine.capture.python.frames import GENERATOR, Frame
from adjoint.engine.capture.python.language import attributes, binding, classes
from adjoint.engine.capture.python.language.operators import method_of, pure
from adjoint.engine.capture.python.locations import Slot
from adjoint.engine.capture.python.plain import MISSING, has, is_a
from adjoint.engine.capture.python.recorder import Recorder

_CODE = types.FunctionType.__code__
_OF_PARTIALS: tuple[Any, ...] = tuple(
    vars(functools.partial)[n] for n in ("func", "args", "keywords")
)
_COROUTINE = 0x80 | 0x200  # flags of coroutines and asynchronous generators
_OF_C = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
)


def call(recorder: Recorder, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`fn(*args, **kwargs)` under observation."""
    kind = type(fn)
    engine = recorder.engine
    if kind is types.FunctionType:
        if fn.__code__ is ENTRY:
            return call(recorder, fn.followed, args, kwargs)
        if engine.runs(fn):
            return run_engines(recorder, fn, args, kwargs)
        handler = functions.PYTHON.get(fn)
        if handler is not None:
            return handler(recorder, *args, **kwargs)
        return follow(recorder, fn, args, kwargs)
    if kind is types.MethodType:
        return call(recorder, fn.__func__, (fn.__self__, *args), kwargs)
    if is_a(fn, type):
        return classes.call_class(recorder, fn, args, kwargs)
    if is_a(fn, _OF_C):
        return call_c(recorder, fn, args, kwargs)
    if kind is functools.partial:
        return _call_partial(recorder, fn, args, kwargs)
    if kind is staticmethod:
        return call(recorder, fn.__func__, args, kwargs)
    if kind in attributes.PROXIES:
        return call(recorder, attributes.referent(recorder, fn), args, kwargs)
    if engine.runs(fn):
        return run_engines(recorder, fn, args, kwargs)
    handler = methods.CALLABLES.get(kind)
    if handler is not None:
        return handler(recorder, fn, args, kwargs)
    method = method_of(recorder, fn, "__call__")
    if method is MISSING:
        raise TypeError(f"'{kind.__name__}' object is not callable")
    if is_python(recorder, method):
        return call(recorder, attributes.bind(recorder, method, fn, kind), args, kwargs)
    if engine.owns(fn):
        return run_engines(recorder, fn, args, kwargs)
    handler = functions.OTHERS.get(fn) if has(kind, "__hash__") else None
    if handler is not None:
        return handler(recorder, *args, **kwargs)
    if args:  # functions of Cython's are of a kind of their own
        handler = methods.TABLE.get(type(args[0]), {}).get(getattr(fn, "__name__", ""))
        if handler is not None:
            return handler(recorder, *args, **kwargs)
    raise unknown(recorder, fn)


def follow(
    recorder: Recorder, fn: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Execute a Python function."""
    code = fn.__code__
    if id(fn) not in recorder.fresh and not recorder.engine.keeps_function(fn):
        recorder.guard(Slot(fn, _CODE), code)
    if code.co_flags & _COROUTINE:
        raise recorder.refuse(
            fn.__qualname__, "it is a coroutine, which the recorder does not follow",
            "Await it outside.",
        )  # fmt: skip
    if len(recorder.frames) >= recorder.most_frames:
        raise RecursionError("maximum recursion depth exceeded")
    fast = binding.bind(recorder, fn, args, kwargs)
    frame = Frame(recorder, code, fn.__globals__, fast, fn)
    if frame.plan.catches and not recorder.engine.keeps_function(fn):
        recorder.catches = True
    if frame.run() is GENERATOR:
        return recorder.new_generator(frame.generator())
    frame.fast.clear()  # what only its variables held is gone
    return frame.value


def _call_partial(
    recorder: Recorder, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if not recorder.is_fresh(fn):
        for field in _OF_PARTIALS:  # which `__setstate__` replaces
            recorder.guard(Slot(fn, field), field.__get__(fn))
        if fn.keywords:
            recorder.contents(fn.keywords)
    return call(recorder, fn.func, (*fn.args, *args), {**fn.keywords, **kwargs})


def call_c(recorder: Recorder, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function that is written in C."""
    try:
        handler = functions.TABLE.get(fn)
    except TypeError:
        handler = None
    if handler is not None:
        return handler(recorder, *args, **kwargs)
    if recorder.engine.runs(fn):
        return run_engines(recorder, fn, args, kwargs)
    name = fn.__name__
    if type(fn) in (types.MethodDescriptorType, types.WrapperDescriptorType):
        if not args or not is_a(args[0], fn.__objclass__):
            return fn(*args, **kwargs)  # raises
        owner, bound, args = fn.__objclass__, args[0], args[1:]
    else:
        bound = fn.__self__
        if bound is None or is_a(bound, types.ModuleType):
            return _module_function(recorder, fn, args, kwargs)
        if is_a(bound, type) and (name == "__new__" or not hasattr(type, name)):
            return methods.of_class(recorder, fn, bound, args, kwargs)
        owner = getattr(fn, "__objclass__", None) or _owner(fn, bound)
    return methods.call_method(recorder, owner, name, bound, args, kwargs)


def _owner(fn: Any, bound: Any) -> type:
    """The class that defines a bound method of C's."""
    return next(
        (c for c in type(bound).__mro__ if type(c.__dict__.get(fn.__name__)) in _OF_C), type(bound)
    )


def _module_function(
    recorder: Recorder, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if fn.__module__ in functions.PURE_MODULES:
        if fn in functions.NUMERIC and any(map(recorder.engine.is_symbol, args)) and not kwargs:
            answer = recorder.engine.computed(fn, args)
            if answer is not MISSING:
                return answer
        return pure(recorder, fn, args, kwargs)
    raise unknown(recorder, fn)
