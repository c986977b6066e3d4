"""Builtin classes that are called."""

from __future__ import annotations

import _random
import collections
import datetime
import decimal
import functools
import itertools
import operator
import types
import weakref
from collections.abc import Callable
from typing import Any

from adjoint.engine.capture.python.calling import call, entered, is_python
from adjoint.engine.capture.python.exposing import NeedsPython, expose, has_python_methods
from adjoint.engine.capture.python.language import attributes, items, iteration, operators
from adjoint.engine.capture.python.plain import MISSING, NUMBERS, PLAIN, has, is_a
from adjoint.engine.capture.python.recorder import Recorder, cell_value

from .texts import text

Handler = Callable[..., Any]

FIXED = {
    int, float, complex, str, bytes, bytearray, bool, range, slice, tuple, frozenset,
    datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone,
    decimal.Decimal, types.SimpleNamespace, memoryview, types.GenericAlias,
}  # fmt: skip
CONTAINERS = {list, dict, set, tuple, frozenset, collections.deque, collections.OrderedDict,
              collections.defaultdict}  # fmt: skip


def _type(recorder: Recorder, *args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs:
        value = args[0]
        if recorder.engine.stands(value):
            return type(recorder.engine.present(value))
        return attributes.kind_of(recorder, value)
    name, bases, namespace = args
    for base in bases:
        hook = attributes.class_lookup(recorder, base, "__init_subclass__")
        if is_python(recorder, getattr(hook, "__func__", hook)):
            raise recorder.refuse(
                f"type({name!r}, ...)", "a base class has an __init_subclass__",
                "Make the class outside.",
            )  # fmt: skip
    recorder.contents(namespace)
    return recorder.new(type(name, bases, namespace, **kwargs))


def _number(cls: type, method: str) -> Handler:
    def handler(recorder: Recorder, *args: Any, **kwargs: Any) -> Any:
        if not args or type(args[0]) in PLAIN or len(args) > 1:
            return cls(*(recorder.concrete(x) for x in args), **kwargs)
        value = args[0]
        if recorder.engine.is_symbol(value):
            return recorder.engine.convert(cls, value)
        for name in (method, "__index__", "__trunc__"):
            converter = operators.method_of(recorder, value, name)
            if is_python(recorder, converter):
                number = call(recorder, converter, (value,), {})
                if recorder.engine.is_symbol(number):
                    return recorder.engine.convert(cls, number)
                return cls(number)
        if recorder.engine.owns(value):
            return recorder.engine.call(cls, args, kwargs)
        return cls(expose(recorder, value))

    return handler


def _bool(recorder: Recorder, value: Any = False, /) -> bool:
    return operators.truth(recorder, value)


def _str(recorder: Recorder, *args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs:
        return text(recorder, args[0], "__str__", str)
    return str(*(expose(recorder, x) for x in args), **kwargs)


def _list(recorder: Recorder, iterable: Any = (), /) -> Any:
    return recorder.new(list(iteration.native(recorder, iterable)))


def _tuple(recorder: Recorder, iterable: Any = (), /) -> Any:
    return iterable if type(iterable) is tuple else tuple(iteration.native(recorder, iterable))


def _set(recorder: Recorder, iterable: Any = (), /) -> Any:
    values = operators.all_hashable(recorder, iteration.native(recorder, iterable))
    return recorder.new(set(values))


def _frozenset(recorder: Recorder, iterable: Any = (), /) -> Any:
    if type(iterable) is frozenset:
        return iterable
    return frozenset(operators.all_hashable(recorder, iteration.native(recorder, iterable)))


def pairs(recorder: Recorder, given: Any) -> list[tuple[Any, Any]]:
    """The items a dict takes over: of a mapping, or pairs."""
    if is_a(given, dict) or hasattr(given, "keys"):
        return _with_keys(recorder, list(iteration.mapping(recorder, given).items()))
    entries = []
    for number, pair in enumerate(iteration.native(recorder, given)):
        parts = list(iteration.native(recorder, pair))
        if len(parts) != 2:
            raise ValueError(
                f"dictionary update sequence element #{number} has length {len(parts)}; 2 is "
                "required"
            )
        entries.append((parts[0], parts[1]))
    return _with_keys(recorder, entries)


def _with_keys(recorder: Recorder, entries: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    keys = operators.all_hashable(recorder, [key for key, _ in entries])
    return [(key, value) for key, (_, value) in zip(keys, entries, strict=True)]


def _mapping(cls: type) -> Handler:
    def handler(recorder: Recorder, *args: Any, **kwargs: Any) -> Any:
        if len(args) > 1:
            return cls(*args)  # raises
        return recorder.new(cls([*(pairs(recorder, args[0]) if args else ()), *kwargs.items()]))

    return handler


def _defaultdict(recorder: Recorder, *args: Any, **kwargs: Any) -> Any:
    items = pairs(recorder, args[1]) if len(args) > 1 else []
    factory: Any = args[0] if args else None
    return recorder.new(collections.defaultdict(factory, [*items, *kwargs.items()]))


def _deque(recorder: Recorder, iterable: Any = (), maxlen: Any = None) -> Any:
    values = list(iteration.native(recorder, iterable))
    return recorder.new(collections.deque(values, recorder.concrete(maxlen)))


def of_subclass(recorder: Recorder, cls: type, base: type, args: Any, kwargs: Any) -> Any:
    """An instance of a class derived from a builtin container, by its own constructor."""
    if base is collections.defaultdict:
        raise recorder.refuse(cls.__name__, "C would fill it unseen", "Fill it after making it.")
    given = args
    if args:
        listed = (
            pairs(recorder, args[0])
            if issubclass(base, dict)
            else list(iteration.native(recorder, args[0]))
        )
        given = (listed, *args[1:])
    return recorder.new(type.__call__(cls, *given, **kwargs))


def _iterating(cls: Any) -> Handler:
    """Iterators of C's: their sources are guarded, the functions they call followed."""

    def handler(recorder: Recorder, *args: Any, **kwargs: Any) -> Any:
        def ready(value: Any) -> Any:
            if type(value) in NUMBERS or value is None or recorder.engine.is_symbol(value):
                return recorder.concrete(value)
            if callable(value) and not has(type(value), "__iter__"):
                return entered(recorder, value)
            return _lazily(recorder, value)

        if cls in _ASKING:
            args = _ASKING[cls](recorder, *args, **kwargs)
            kwargs = {}
        named = {key: ready(x) for key, x in kwargs.items()}
        return recorder.new(cls(*map(ready, args), **named))

    return handler


# -- iterators that ask their elements something: C would not be observed ----------------------


def _choosing(recorder: Recorder, predicate: Any, iterable: Any) -> tuple[Any, ...]:
    """What `filter` and its like are given: a function that says True or False."""

    def chosen(value: Any) -> bool:
        answer = value if predicate in (None, bool) else call(recorder, predicate, (value,), {})
        return operators.truth(recorder, answer)

    return chosen, iterable


def _compressed(recorder: Recorder, data: Any, selectors: Any) -> tuple[Any, ...]:
    chosen = (operators.truth(recorder, x) for x in iteration.native(recorder, selectors))
    return data, recorder.new(chosen)


def _accumulated(
    recorder: Recorder, iterable: Any, func: Any = None, *, initial: Any = None
) -> tuple[Any, ...]:
    def together(total: Any, value: Any) -> Any:
        if func is None:
            return operators.binary(recorder, "add", total, value)
        return call(recorder, func, (total, value), {})

    values = iteration.native(recorder, iterable)
    start = () if initial is None else (initial,)
    return recorder.new(itertools.chain(start, values)), together


def _grouped(recorder: Recorder, iterable: Any, key: Any = None) -> tuple[Any, ...]:
    def mark(value: Any) -> Any:
        answer = value if key is None else call(recorder, key, (value,), {})
        if has_python_methods(recorder, type(answer), "__eq__"):
            raise recorder.refuse(
                "itertools.groupby", "C would compare keys by Python code that is not observed",
                "Group by plain values.",
            )  # fmt: skip
        return recorder.concrete(answer) if recorder.engine.is_symbol(answer) else answer

    return iterable, mark


_ASKING: dict[Any, Callable[..., tuple[Any, ...]]] = {
    filter: _choosing,
    itertools.filterfalse: _choosing,
    itertools.takewhile: _choosing,
    itertools.dropwhile: _choosing,
    itertools.compress: _compressed,
    itertools.accumulate: _accumulated,
    itertools.groupby: _grouped,
}


def _lazily(recorder: Recorder, value: Any) -> Any:
    if not has(type(value), "__iter__") and not has(type(value), "__getitem__"):
        return value  # C says that it cannot be iterated
    return iteration.native(recorder, value)


def _repeat(recorder: Recorder, object: Any, *times: Any, **named: Any) -> Any:
    given = {name: recorder.concrete(x) for name, x in named.items()}
    return recorder.new(itertools.repeat(object, *map(recorder.concrete, times), **given))


def _reversed(recorder: Recorder, value: Any, /) -> Any:
    method = operators.method_of(recorder, value, "__reversed__")
    if is_python(recorder, method):
        return call(recorder, method, (value,), {})
    if is_a(value, (list, tuple, str, bytes, range, dict, collections.deque)):
        iteration.native(recorder, value)
        return recorder.new(reversed(value))
    if method is not MISSING and method is not None:
        return recorder.new(iter(reversed(iteration.listed(recorder, value))))
    count = operators.length(recorder, value)
    return recorder.new(_backwards(recorder, value, recorder.concrete(count)))


def _backwards(recorder: Recorder, value: Any, count: int) -> Any:
    for index in range(count - 1, -1, -1):
        yield items.get_item(recorder, value, index)


def _super(recorder: Recorder, *args: Any) -> Any:
    if args:
        return recorder.new(super(*args))
    frame = recorder.frames[-1]
    code = frame.code
    if not code.co_argcount:
        raise RuntimeError("super(): no arguments")
    own = frame.fast[0]
    if is_a(own, types.CellType) and code.co_varnames[0] in code.co_cellvars:
        own = cell_value(own)
    if own is MISSING:
        raise RuntimeError("super(): arg[0] deleted")
    if "__class__" not in code.co_freevars:
        raise RuntimeError("super(): __class__ cell not found")
    place = len(frame.fast) - len(code.co_freevars) + code.co_freevars.index("__class__")
    cls = recorder.cell(frame.fast[place], "__class__")
    if cls is MISSING:
        raise RuntimeError("super(): empty __class__ cell")
    return recorder.new(super(cls, own))


def _object(recorder: Recorder, *args: Any) -> Any:
    return recorder.new(object(*args))


def _wrapping(cls: Any) -> Handler:
    """Classes that only keep what they are given."""
    return lambda recorder, *args, **kwargs: recorder.new(cls(*args, **kwargs))


def _weak_reference(recorder: Recorder, referent: Any, callback: Any = None, /) -> Any:
    by_library = is_a(callback, types.FunctionType) and callback.__module__ in _WEAK_TABLES
    if callback is not None and recorder.is_fresh(referent) and not by_library:
        raise recorder.refuse(
            f"a callback for the end of a {type(referent).__name__}",
            "a call could not tell when to run it", "Make the object outside.",
        )  # fmt: skip
    return recorder.new(weakref.ref(referent, callback))


_WEAK_TABLES = ("weakref", "_weakrefset")  # whose callbacks take entries out


def _slice(recorder: Recorder, *args: Any) -> Any:
    return slice(*args)


def _cached(recorder: Recorder, fn: Any, *args: Any) -> Any:
    inner = entered(recorder, fn)
    functools.update_wrapper(inner, fn, assigned=("__module__", "__name__", "__qualname__"))
    kind: Any = type(functools.lru_cache(abs))
    return recorder.new(kind(inner, *args))


def _pure(cls: Any) -> Handler:
    def handler(recorder: Recorder, *args: Any, **kwargs: Any) -> Any:
        try:
            given = [expose(recorder, x) for x in args]
            named = {key: expose(recorder, x) for key, x in kwargs.items()}
        except NeedsPython:
            raise recorder.refuse(
                cls.__name__, "C would call Python code that is not observed",
                "Pass it plain values.",
            ) from None  # fmt: skip
        return recorder.new(cls(*given, **named))

    return handler


def _range(recorder: Recorder, *args: Any) -> Any:
    return range(*(items.index(recorder, x) for x in args))


def _partial(recorder: Recorder, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    return recorder.new(functools.partial(fn, *args, **kwargs))


def _random_made(recorder: Recorder, *args: Any) -> Any:
    raise recorder.refuse("random.Random()", "a new generator may be seeded by the clock",
                          "Make it outside.")  # fmt: skip


TABLE: dict[Any, Handler] = {
    bool: _bool,
    bytearray: _pure(bytearray),
    bytes: _pure(bytes),
    classmethod: _wrapping(classmethod),
    complex: _number(complex, "__complex__"),
    dict: _mapping(dict),
    float: _number(float, "__float__"),
    frozenset: _frozenset,
    int: _number(int, "__int__"),
    list: _list,
    memoryview: _pure(memoryview),
    object: _object,
    property: _wrapping(property),
    range: _range,
    reversed: _reversed,
    set: _set,
    slice: _slice,
    staticmethod: _wrapping(staticmethod),
    str: _str,
    super: _super,
    tuple: _tuple,
    type: _type,
    types.CellType: _wrapping(types.CellType),
    types.FunctionType: _wrapping(types.FunctionType),
    types.MappingProxyType: _wrapping(types.MappingProxyType),
    types.MethodType: _wrapping(types.MethodType),
    types.SimpleNamespace: _wrapping(types.SimpleNamespace),
    operator.attrgetter: _wrapping(operator.attrgetter),
    operator.itemgetter: _wrapping(operator.itemgetter),
    operator.methodcaller: _wrapping(operator.methodcaller),
    weakref.ref: _weak_reference,
    collections.OrderedDict: _mapping(collections.OrderedDict),
    collections.defaultdict: _defaultdict,
    collections.deque: _deque,
    functools.partial: _partial,
    type(functools.lru_cache(abs)): _cached,
    _random.Random: _random_made,
    itertools.repeat: _repeat,
    **{
        cls: _iterating(cls)
        for cls in (
            enumerate, filter, map, zip, itertools.accumulate, itertools.chain,
            itertools.combinations, itertools.combinations_with_replacement,
            itertools.compress, itertools.count, itertools.cycle, itertools.dropwhile,
            itertools.filterfalse, itertools.groupby, itertools.islice, itertools.pairwise,
            itertools.permutations, itertools.product, itertools.starmap, itertools.takewhile,
            itertools.zip_longest,
        )
    },
    **{cls: _pure(cls) for cls in (datetime.date, datetime.datetime, datetime.time,
                                   datetime.timedelta, datetime.timezone, decimal.Decimal)},
}  # fmt: skip
if hasattr(itertools, "batched"):
    TABLE[itertools.batched] = _iterating(itertools.batched)
