"""Classes: called, and made by class statements."""

from __future__ import annotations

import types
from typing import Any

from adjoint.engine.capture.python.c import constructors
from adjoint.engine.capture.python.calling import call, is_python, run_engines, unknown
from adjoint.engine.capture.python.exposing import NeedsPython, expose
from adjoint.engine.capture.python.frames import Frame
from adjoint.engine.capture.python.language.attributes import bind, class_lookup
from adjoint.engine.capture.python.language.binding import slots_of
from adjoint.engine.capture.python.plain import MISSING, can_change
from adjoint.engine.capture.python.recorder import Recorder, cell_value

_UNREAD = (object.__new__, BaseException.__new__)  # these look at no argument


def call_class(recorder: Recorder, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`cls(*args, **kwargs)`."""
    handler = constructors.TABLE.get(cls)
    if handler is not None:
        return handler(recorder, *args, **kwargs)
    if recorder.engine.runs(cls):
        return run_engines(recorder, cls, args, kwargs)
    meta = class_lookup(recorder, type(cls), "__call__")
    if is_python(recorder, meta):
        return call(recorder, bind(recorder, meta, cls, type(cls)), args, kwargs)
    return construct(recorder, cls, args, kwargs)


def construct(recorder: Recorder, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `type.__call__` does."""
    if recorder.needs_guards(cls) and can_change(cls):
        flags = cls.__dict__.get("__abstractmethods__")
        if flags is not None:
            class_lookup(recorder, cls, "__abstractmethods__")
    if can_change(cls) and is_python(recorder, class_lookup(recorder, cls, "__del__")):
        raise recorder.refuse(
            f"{cls.__name__}()", "it has a __del__, and a call could not tell when to run it",
            "Make the object outside, or give it a method that is called.",
        )  # fmt: skip
    maker = class_lookup(recorder, cls, "__new__")
    starter = class_lookup(recorder, cls, "__init__")
    maker = getattr(maker, "__func__", maker)
    if not is_python(recorder, maker) and not is_python(recorder, starter):
        return _of_c(recorder, cls, maker, starter, args, kwargs)
    if is_python(recorder, maker):
        obj = call(recorder, maker, (cls, *args), kwargs)
    else:
        obj = _made_by_c(recorder, cls, maker, args, kwargs, starter)
    if not isinstance(obj, cls):
        return obj
    starter = class_lookup(recorder, type(obj), "__init__")
    if is_python(recorder, starter):
        returned = call(recorder, bind(recorder, starter, obj, type(obj)), args, kwargs)
        if returned is not None:
            kind = type(returned).__name__
            raise TypeError(f"__init__() should return None, not '{kind}'")
    elif starter is not object.__init__:
        starter(obj, *args, **kwargs)
    elif not is_python(recorder, maker) or args or kwargs:
        pass
    return obj


def _made_by_c(
    recorder: Recorder, cls: type, maker: Any, args: tuple[Any, ...], kwargs: Any, starter: Any
) -> Any:
    """An object whose `__new__` is C's and whose `__init__` is Python's."""
    if maker is object.__new__:
        return recorder.new(maker(cls))
    if issubclass(cls, BaseExceptionGroup):
        args = _members_read(recorder, args)
    if maker in _UNREAD or issubclass(cls, (dict, list, set, BaseException)):
        return recorder.new(maker(cls, *args, **kwargs))
    given = [expose(recorder, x) for x in args]
    return recorder.new(maker(cls, *given, **kwargs))


def _members_read(recorder: Recorder, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a group of exceptions, which looks at what it is a group of."""
    if len(args) == 2 and isinstance(args[1], list):
        recorder.contents(args[1])
    return args


def _of_c(
    recorder: Recorder, cls: type, maker: Any, starter: Any, args: tuple[Any, ...], kwargs: Any
) -> Any:
    """An object that C makes alone."""
    if issubclass(cls, BaseExceptionGroup):
        args = _members_read(recorder, args)
    if issubclass(cls, BaseException) or (maker is object.__new__ and starter is object.__init__):
        return recorder.new(type.__call__(cls, *args, **kwargs))
    known = next((c for c in cls.__mro__ if not can_change(c)), object)
    if known in constructors.FIXED or cls in constructors.FIXED:
        try:
            given = [expose(recorder, x) for x in args]
            named = {key: expose(recorder, x) for key, x in kwargs.items()}
        except NeedsPython:
            pass
        else:
            return recorder.new(type.__call__(cls, *given, **named))
    handler = constructors.TABLE.get(known)
    if handler is not None and known in constructors.CONTAINERS:
        return constructors.of_subclass(recorder, cls, known, args, kwargs)
    raise unknown(recorder, cls)


def build_class(recorder: Recorder, body: Any, name: str, *bases: Any, **kwargs: Any) -> Any:
    """What a class statement does: `__build_class__`."""
    resolved = types.resolve_bases(bases)
    meta, namespace, kwargs = types.prepare_class(name, resolved, kwargs)
    if (
        is_python(recorder, class_lookup(recorder, type(meta), "__prepare__"))
        and type(namespace) is not dict
    ):
        raise recorder.refuse(
            f"class {name}", "its metaclass prepares a namespace of its own", "Define it outside."
        )
    frame = Frame(recorder, body.__code__, body.__globals__, _class_fast(body), body)
    frame.names = recorder.new(namespace)
    frame.run()
    cell = frame.value
    if resolved is not bases:
        namespace["__orig_bases__"] = bases
    for base in resolved:
        hook = class_lookup(recorder, base, "__init_subclass__")
        if is_python(recorder, getattr(hook, "__func__", hook)):
            raise recorder.refuse(
                f"class {name}", "a base class has an __init_subclass__ that C would call",
                "Define the class outside.",
            )  # fmt: skip
    for value in namespace.values():
        if is_python(recorder, class_lookup(recorder, type(value), "__set_name__")):
            raise recorder.refuse(
                f"class {name}", "an attribute has a __set_name__ that C would call",
                "Define the class outside.",
            )  # fmt: skip
    if meta is type:
        cls = type(name, resolved, namespace)
    else:
        cls = call(recorder, meta, (name, resolved, namespace), kwargs)
    recorder.new(cls)
    if isinstance(cls, type) and isinstance(cell, types.CellType):
        _check_cell(cls, cell_value(cell), name)
    return cls


def _check_cell(cls: type, content: Any, name: str) -> None:
    """Whether a metaclass passed on the variable `__class__` of the class's methods."""
    if content is MISSING:
        raise RuntimeError(
            f"__class__ not set defining {name!r} as {cls!r}. Was __classcell__ propagated to "
            "type.__new__?"
        )
    if content is not cls:
        raise TypeError(f"__class__ set to {content!r} defining {name!r} as {cls!r}")


def _class_fast(body: Any) -> list[Any]:
    return [MISSING] * slots_of(body.__code__)
