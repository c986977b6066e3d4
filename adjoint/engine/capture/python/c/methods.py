"""Methods of builtin objects, by the class that defines them; of containers, `containers`."""

from __future__ import annotations

import _thread
import collections
import copyreg
import functools
import gc
import itertools
import operator
import re
import string
import types
import weakref
from typing import Any

from adjoint.engine.capture.python.calling import call, entered, unknown
from adjoint.engine.capture.python.exposing import NeedsPython, expose, from_outside, is_iterator
from adjoint.engine.capture.python.language import attributes, classes, items, iteration, operators
from adjoint.engine.capture.python.language.operators import new_result, pure
from adjoint.engine.capture.python.locations import Answer
from adjoint.engine.capture.python.plain import FIXED, MISSING, can_change, is_a, is_plain
from adjoint.engine.capture.python.recorder import Recorder

from .containers import CONTAINERS, Handler, Table
from .texts import text


def call_method(
    recorder: Recorder, owner: type, name: str, bound: Any, args: tuple[Any, ...], kwargs: Any
) -> Any:
    """Call a method that C defines for `owner` on an object."""
    for cls in owner.__mro__:
        handler = TABLE.get(cls, {}).get(name)
        if handler is not None:
            return handler(recorder, bound, *args, **kwargs)
        if cls is not object and name in cls.__dict__:
            break
    method = getattr(owner, name)
    if recorder.engine.is_symbol(bound):
        bound = recorder.concrete(bound)  # C reads the number itself
    if recorder.engine.owns(bound) or recorder.engine.runs(method):
        return recorder.engine.call(method, (bound, *args), kwargs)
    if is_iterator(bound):
        return _of_iterator(recorder, method, bound, args, kwargs)
    fixed = type(bound) in FIXED or is_a(bound, (int, float, str, bytes, complex, re.Match))
    fresh = recorder.is_fresh(bound)
    container = is_a(bound, (list, dict, set, collections.deque, bytearray))
    if fixed or is_a(bound, (tuple, frozenset)) or (container and name in READS):
        return _reading(recorder, method, bound, args, kwargs, name)
    if container and name in WRITES:
        return _writing(recorder, method, bound, _positional(method, name, args, kwargs), name)
    if fresh and not can_change(type(bound)):
        return _reading(recorder, method, bound, args, kwargs, name)
    if is_a(bound, _LOCKS) or (is_a(bound, (property, BaseException)) and fresh):
        return new_result(recorder, method(bound, *args, **kwargs))
    if name in READS and recorder.engine.elements(bound) is not None:
        return _reading(recorder, method, bound, args, kwargs, name)
    raise unknown(recorder, method)


_LOCKS = (_thread.LockType, _thread.RLock)
READS = frozenset(
    "copy count index __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __add__ __mul__ __rmul__ __or__ "
    "__and__ __sub__ __xor__ __ror__ __rand__ __rsub__ __rxor__ union intersection difference "
    "symmetric_difference isdisjoint issubset issuperset __repr__ __reversed__ __sizeof__ "
    "__contains__ __iter__ __len__ __getitem__ tolist tobytes hex decode __str__ __format__ "
    "fromhex startswith endswith find __copy__ __reduce__ __reduce_ex__".split()
)
WRITES = frozenset(
    "insert pop remove reverse clear popitem popleft rotate discard difference_update "
    "intersection_update symmetric_difference_update __isub__ __iand__ __ixor__ __imul__ "
    "move_to_end appendleft append add __delitem__".split()
)
_NAMED = {"popitem": ("last",), "move_to_end": ("key", "last")}  # of ordered dicts
_BLIND = frozenset("append appendleft add clear discard".split())  # write without reading


def _reading(
    recorder: Recorder, method: Any, bound: Any, args: tuple[Any, ...], kwargs: Any, name: str
) -> Any:
    """C reads the object and its arguments, and changes neither."""
    shallow = name in ("copy", "__add__", "__mul__", "__rmul__", "__getitem__", "__copy__")
    try:
        expose(recorder, bound, shallow=shallow)
        given = [expose(recorder, x, shallow=shallow) for x in args]
        named = {key: expose(recorder, x) for key, x in kwargs.items()}
    except NeedsPython:
        raise unknown(recorder, method) from None
    if name == "__iter__":
        return recorder.new(method(bound, *given))
    return new_result(recorder, method(bound, *given, **named))


def _positional(method: Any, name: str, args: tuple[Any, ...], kwargs: Any) -> tuple[Any, ...]:
    """The arguments of a method that changes a container, all of them by position."""
    if not kwargs:
        return args
    left = list(_NAMED.get(name, ())[len(args) :])
    if set(kwargs) - set(left) or left[: len(kwargs)] != [x for x in left if x in kwargs]:
        raise TypeError(f"{method.__qualname__}() takes no such keyword arguments: {[*kwargs]}")
    return (*args, *[kwargs[x] for x in left if x in kwargs])


def _writing(recorder: Recorder, method: Any, bound: Any, args: tuple[Any, ...], name: str) -> Any:
    """C changes a container."""
    try:
        if name not in _BLIND:
            deep = name in ("remove",) or is_a(bound, set)
            expose(recorder, bound, shallow=not deep)
        if name in ("insert", "rotate", "pop", "__imul__", "remove"):
            args = tuple(expose(recorder, x) if i == 0 else x for i, x in enumerate(args))
        elif is_a(bound, set):
            args = tuple(
                operators.hashable(recorder, x, bound)
                if name in ("add", "discard")
                else expose(recorder, x)
                for x in args
            )
    except NeedsPython:
        raise unknown(recorder, method) from None
    if not recorder.writes_to(bound):
        return method(bound, *args)
    recorder.journal.before(bound)
    result = method(bound, *args)  # where it raises, nothing was changed
    recorder.journal.overwrites(bound)
    recorder.effect(method, bound, *args)
    return bound if name.startswith("__i") else result


def _of_iterator(
    recorder: Recorder, method: Any, bound: Any, args: tuple[Any, ...], kwargs: Any
) -> Any:
    if recorder.is_fresh(bound):
        return method(bound, *args, **kwargs)
    if method.__name__ == "__next__":
        return iteration.step(recorder, bound)
    if method.__name__ == "__iter__":
        return bound
    raise from_outside(recorder, bound)


def of_class(recorder: Recorder, fn: Any, cls: type, args: tuple[Any, ...], kwargs: Any) -> Any:
    """Class methods and constructors of C's: `dict.fromkeys`, `object.__new__`."""
    name = fn.__name__
    if name == "__new__":
        kind = args[0] if args else cls
        if cls in (object,) or issubclass(cls, BaseException):
            return recorder.new(fn(*args, **kwargs))
        if issubclass(cls, (tuple, frozenset)):
            given = [list(iteration.native(recorder, x)) for x in args[1:]]
            return recorder.new(fn(kind, *given))
        if issubclass(cls, (list, dict, set)):
            return recorder.new(fn(kind))
        if cls in (int, float, str, complex, bytes):
            return recorder.new(fn(*[expose(recorder, x) for x in args], **kwargs))
        if cls is type:
            return recorder.new(fn(*args, **kwargs))
    if name == "fromkeys" and issubclass(cls, dict):
        keys = operators.all_hashable(recorder, iteration.native(recorder, args[0]))
        return (
            recorder.new(dict.fromkeys(keys, *args[1:]))
            if cls is dict
            else recorder.new(fn(keys, *args[1:]))
        )
    if name == "from_iterable" and cls is itertools.chain:
        return recorder.new(_chained(recorder, args[0]))
    if name in ("__init_subclass__", "__subclasshook__"):
        return fn(*args, **kwargs)
    known = cls in FIXED or cls.__module__ in ("builtins", "datetime", "decimal")
    if known and not can_change(cls) and name not in ("now", "today", "utcnow"):
        return pure(recorder, fn, args, kwargs)
    raise unknown(recorder, fn)


def _chained(recorder: Recorder, sources: Any) -> Any:
    for source in iteration.native(recorder, sources):
        yield from iteration.native(recorder, source)


# -- text -------------------------------------------------------------------------------------


def _join(recorder: Recorder, separator: Any, iterable: Any, /) -> Any:
    parts = list(iteration.native(recorder, iterable))
    if not any(map(recorder.engine.is_symbol, parts)):
        return separator.join(parts)
    apart = [x for part in parts for x in (separator, part)][1:]
    return recorder.engine.joined(apart)


def _str_format(recorder: Recorder, pattern: str, /, *args: Any, **kwargs: Any) -> Any:
    if all(map(is_plain, (*args, *kwargs.values()))):
        return pattern.format(*args, **kwargs)
    formatter = recorder.new(string.Formatter())
    return call(recorder, string.Formatter.vformat, (formatter, pattern, args, kwargs), {})


def _percent(recorder: Recorder, pattern: Any, values: Any, /) -> Any:
    return operators.binary(recorder, "mod", pattern, values)


def _substitute(name: str) -> Handler:
    def handler(
        recorder: Recorder, pattern: Any, replace: Any, text: Any, /, *args: Any, **kwargs: Any
    ) -> Any:
        if not is_a(replace, (str, bytes)):
            replace = entered(recorder, replace)
        return getattr(re.Pattern, name)(pattern, replace, text, *args, **kwargs)

    return handler


# -- object -----------------------------------------------------------------------------------


def _object_set(recorder: Recorder, obj: Any, name: str, value: Any, /) -> None:
    attributes.generic_put(recorder, obj, name, value)


def _object_delete(recorder: Recorder, obj: Any, name: str, /) -> None:
    attributes.generic_put(recorder, obj, name, MISSING)


def _object_get(recorder: Recorder, obj: Any, name: str, /) -> Any:
    if is_a(obj, type):
        return attributes._of_class(recorder, obj, name)
    return attributes.generic(recorder, obj, name)


def _object_init(recorder: Recorder, obj: Any, /, *args: Any, **kwargs: Any) -> None:
    object.__init__(obj, *args, **kwargs)


def _object_eq(recorder: Recorder, obj: Any, other: Any, /) -> Any:
    return True if obj is other else NotImplemented


def _object_ne(recorder: Recorder, obj: Any, other: Any, /) -> Any:
    equal = call(recorder, attributes.get(recorder, obj, "__eq__"), (other,), {})
    return equal if equal is NotImplemented else not operators.truth(recorder, equal)


def _object_hash(recorder: Recorder, obj: Any, /) -> Any:
    return object.__hash__(obj)


def _object_repr(recorder: Recorder, obj: Any, /) -> Any:
    return text(recorder, obj, "__repr__", repr)


def _object_format(recorder: Recorder, obj: Any, spec: str, /) -> Any:
    return text(recorder, obj, "__str__", str) if not spec else object.__format__(obj, spec)


def _object_str(recorder: Recorder, obj: Any, /) -> Any:
    return text(recorder, obj, "__repr__", repr)


def _field_get(recorder: Recorder, descriptor: Any, obj: Any, owner: Any = None, /) -> Any:
    """`descriptor.__get__(obj)` of a field that C keeps."""
    if obj is None:
        return descriptor
    if is_a(obj, type):
        return attributes._class_field(recorder, obj, descriptor.__name__)
    return attributes.field(recorder, obj, descriptor)


HEAP_TYPE = 1 << 9  # the flag of classes that Python code made


def _object_reduce(recorder: Recorder, obj: Any, protocol: int = 4, /) -> Any:
    """What `copy` makes another of an object from: its class and a copy of its attributes."""
    cls = type(obj)
    method = attributes.class_lookup(recorder, cls, "__reduce__")
    if method is not object.__reduce__:
        return call(recorder, method, (obj,), {})
    made_otherwise = any(hasattr(cls, name) for name in ("__getnewargs__", "__getnewargs_ex__"))
    by_items = next((kind for kind in (list, dict) if is_a(obj, kind)), None)
    in_python = all(base.__flags__ & HEAP_TYPE or base is by_items for base in cls.__mro__[:-1])
    if made_otherwise or not in_python or copyreg._slotnames(cls):  # type: ignore[attr-defined]
        raise recorder.refuse(
            f"copying a {cls.__name__}", "only its class knows what it is made of",
            "Copy it outside and pass the copy.",
        )  # fmt: skip
    getter = attributes.class_lookup(recorder, cls, "__getstate__")
    if getter is getattr(object, "__getstate__", MISSING) or getter is MISSING:
        table = recorder.attributes(obj)
        full = table is not None and operators.truth(recorder, table)
        state = call(recorder, dict.copy, (table,), {}) if full else None
    else:
        state = call(recorder, getter, (obj,), {})
    listed = iteration.iterator(recorder, obj) if by_items is list else None
    pairs = None
    if by_items is dict:
        items_of = attributes.get(recorder, obj, "items")
        pairs = iteration.iterator(recorder, call(recorder, items_of, (), {}))
    return copyreg.__newobj__, (cls,), state, listed, pairs  # type: ignore[attr-defined]


def _namespace_reduce(recorder: Recorder, obj: Any, /) -> Any:
    """What `copy` makes another namespace from: its class and a copy of its attributes."""
    table = recorder.attributes(obj)
    return type(obj), (), call(recorder, dict.copy, (table,), {})


def _type_call(recorder: Recorder, cls: type, /, *args: Any, **kwargs: Any) -> Any:
    return classes.construct(recorder, cls, args, kwargs)


def _unwatched(method: Any) -> Handler:
    """Methods that touch nothing but a new object."""
    return lambda recorder, *args, **kwargs: method(*args, **kwargs)


def _exception_init(recorder: Recorder, error: Any, /, *args: Any, **kwargs: Any) -> None:
    BaseException.__init__(error, *args, **kwargs)


def _exception_note(recorder: Recorder, error: Any, note: str, /) -> None:
    """A note goes to a list among the attributes, which the first one makes."""
    notes = getattr(error, "__notes__", None)
    if not is_a(note, str) or not (notes is None or is_a(notes, list)):
        error.add_note(note)  # raises
    try:
        notes = attributes.get(recorder, error, "__notes__")
    except AttributeError:
        notes = recorder.new([])
        attributes.put(recorder, error, "__notes__", notes)
    call(recorder, list.append, (notes, note), {})


def _exception_text(recorder: Recorder, error: Any, /) -> Any:
    return text(recorder, error.args[0], "__str__", str) if len(error.args) == 1 else (
        "" if not error.args else text(recorder, error.args, "__str__", str)
    )  # fmt: skip


# -- views of mappings -------------------------------------------------------------------------


def _proxied(name: str) -> Handler:
    """Methods of a view of a mapping: those of what it shows."""

    def handler(recorder: Recorder, view: Any, /, *args: Any) -> Any:
        _, owner = recorder.views.get(id(view), (None, None))
        if not is_a(owner, type):
            (mapping,) = gc.get_referents(view)
            return call(recorder, attributes.get(recorder, mapping, name), args, {})
        expose(recorder, view)
        return recorder.new(getattr(view, name)(*[expose(recorder, x) for x in args]))

    return handler


TABLE: dict[Any, Table] = {
    **CONTAINERS,
    str: {"join": _join, "format": _str_format, "__mod__": _percent},
    bytes: {"join": _join},
    re.Pattern: {"sub": _substitute("sub"), "subn": _substitute("subn")},
    object: {
        "__setattr__": _object_set, "__delattr__": _object_delete,
        "__getattribute__": _object_get, "__init__": _object_init, "__eq__": _object_eq,
        "__ne__": _object_ne, "__hash__": _object_hash, "__repr__": _object_repr,
        "__str__": _object_str, "__format__": _object_format, "__reduce_ex__": _object_reduce,
    },
    type: {
        "__call__": _type_call, "__setattr__": _object_set, "__delattr__": _object_delete,
        "__getattribute__": _object_get, "__init__": lambda recorder, cls, /, *args, **kwargs: None,
        "mro": lambda recorder, cls, /: recorder.new(type.mro(cls)),
        "__instancecheck__": lambda recorder, cls, x, /: type.__instancecheck__(cls, x),
        "__subclasscheck__": lambda recorder, cls, x, /: type.__subclasscheck__(cls, x),
    },
    types.ModuleType: {"__getattribute__": lambda recorder, m, name, /: attributes._of_module(
        recorder, m, name)},
    BaseException: {
        "__init__": _exception_init, "add_note": _exception_note, "__str__": _exception_text,
        "with_traceback": lambda recorder, error, traceback, /: error.with_traceback(traceback),
    },
    property: {
        name: _unwatched(getattr(property, name)) for name in ("getter", "setter", "deleter")
    },
    types.MappingProxyType: {
        name: _proxied(name)
        for name in "get keys values items copy __contains__ __iter__ __len__ __or__".split()
    },
    types.SimpleNamespace: {"__reduce__": _namespace_reduce},
    slice: {"indices": lambda recorder, part, size, /: expose(recorder, part).indices(
        expose(recorder, size))},
    types.FunctionType: {"__get__": _unwatched(types.FunctionType.__get__)},
    types.GetSetDescriptorType: {"__get__": _field_get},
    types.MemberDescriptorType: {"__get__": _field_get},
}  # fmt: skip


# -- objects of C's that are called -----------------------------------------------------------


def _attrgetter(recorder: Recorder, fn: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    _, names = fn.__reduce__()
    (obj,) = args

    def follow(name: str) -> Any:
        value = obj
        for part in name.split("."):
            value = attributes.get(recorder, value, part)
        return value

    values = tuple(map(follow, names))
    return values[0] if len(names) == 1 else values


def _itemgetter(recorder: Recorder, fn: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    _, keys = fn.__reduce__()
    (obj,) = args
    values = tuple(items.get_item(recorder, obj, key) for key in keys)
    return values[0] if len(keys) == 1 else values


def _methodcaller(recorder: Recorder, fn: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    made_by, parts = fn.__reduce__()
    named = made_by.keywords if is_a(made_by, functools.partial) else {}
    name = made_by.args[0] if is_a(made_by, functools.partial) else parts[0]
    given = parts if is_a(made_by, functools.partial) else parts[1:]
    return call(recorder, attributes.get(recorder, args[0], name), tuple(given), dict(named))


def _reference(recorder: Recorder, fn: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    """What is referred to; a guard on which object that is must not keep it."""
    referent = fn()
    if not recorder.is_fresh(fn):
        recorder.guard(Answer(_identity, (fn,)), _identity(fn))
        if referent is not None and id(referent) not in recorder.ways.locations:
            recorder.weakly.setdefault(id(referent), fn)
            recorder.alive.append(referent)
    return referent


def _identity(reference: Any) -> int | None:
    referent = reference()
    return None if referent is None else id(referent)


CALLABLES: dict[type, Handler] = {
    operator.attrgetter: _attrgetter,
    operator.itemgetter: _itemgetter,
    operator.methodcaller: _methodcaller,
    weakref.ReferenceType: _reference,
    weakref.KeyedRef: _reference,
}
