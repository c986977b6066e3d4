"""Functions of C's: builtins, and those of modules that only read what they are given."""

from __future__ import annotations

import _abc  # type: ignore[import-not-found]
import _collections  # type: ignore[import-not-found]
import _functools  # type: ignore[import-not-found]
import abc
import bisect
import builtins
import heapq
import math
import operator
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

from adjoint.engine.capture.python.calling import call, is_python
from adjoint.engine.capture.python.exposing import NeedsPython, expose
from adjoint.engine.capture.python.frames import current_exception
from adjoint.engine.capture.python.instructions.variables import variable_name
from adjoint.engine.capture.python.language import attributes, classes, items, iteration, operators
from adjoint.engine.capture.python.locations import Answer
from adjoint.engine.capture.python.plain import MISSING, PLAIN, ObjectIdentity, is_a, is_plain
from adjoint.engine.capture.python.recorder import Recorder

from .texts import WrittenText, text

Handler = Callable[..., Any]

PURE_MODULES = frozenset(
    "math cmath _operator _struct binascii zlib _json unicodedata _statistics _bisect _sre "
    "_datetime _decimal itertools _string _locale _hashlib _md5 _sha1 _sha2 _sha3 _blake2".split()
)


# Functions of a number, or of two, that give a number.
NUMERIC = frozenset(
    getattr(math, name)
    for name in (
        "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh degrees erf erfc exp expm1 "
        "fabs floor fmod gamma hypot ldexp lgamma log log10 log1p log2 pow radians sin sinh sqrt "
        "tan tanh trunc"
    ).split()
)


def _iterate(recorder: Recorder, iterable: Any) -> Any:
    return iteration.native(recorder, iterable)


def _sum(recorder: Recorder, iterable: Any, /, start: Any = 0) -> Any:
    if is_a(start, (str, bytes, bytearray)):
        return sum((), start)  # raises
    values = list(_iterate(recorder, iterable))
    if type(start) in PLAIN and all(type(x) in PLAIN for x in values):
        return sum(values, start)  # in one go: floats are summed with more digits from 3.12 on
    total = start
    for value in values:
        total = operators.binary(recorder, "add", total, value)
    return total


def _product(recorder: Recorder, iterable: Any, /, *, start: Any = 1) -> Any:
    total = start
    for value in _iterate(recorder, iterable):
        total = operators.binary(recorder, "mul", total, value)
    return total


def _extreme(name: str, sign: str) -> Handler:
    def best(recorder: Recorder, *args: Any, key: Any = None, default: Any = MISSING) -> Any:
        if not args:
            raise TypeError(f"{name} expected at least 1 argument, got 0")
        if len(args) > 1 and default is not MISSING:
            raise TypeError(
                f"Cannot specify a default for {name}() with multiple positional arguments"
            )
        values = list(args if len(args) > 1 else _iterate(recorder, args[0]))
        if key is None and any(map(recorder.engine.is_symbol, values)):
            chosen = recorder.engine.chosen(min if sign == "lt" else max, values)
            if chosen is not MISSING:
                return chosen
        winner: Any = MISSING
        rank: Any = None
        for value in values:
            mark = value if key is None else call(recorder, key, (value,), {})
            if winner is MISSING or operators.truth(
                recorder, operators.compare(recorder, sign, mark, rank)
            ):
                winner, rank = value, mark
        if winner is not MISSING:
            return winner
        if default is MISSING:
            word = "iterable argument" if sys.version_info >= (3, 12) else "arg"
            message = f"{name}() {word} is empty"
            raise ValueError(message if word != "arg" else f"{name}() arg is an empty sequence")
        return default

    return best


def _any(recorder: Recorder, iterable: Any, /) -> bool:
    return any(operators.truth(recorder, x) for x in _iterate(recorder, iterable))


def _all(recorder: Recorder, iterable: Any, /) -> bool:
    return all(operators.truth(recorder, x) for x in _iterate(recorder, iterable))


class Ranked:
    """An element that C puts in order: comparisons are followed."""

    __slots__ = ("mark", "recorder")

    def __init__(self, recorder: Recorder, mark: Any) -> None:
        self.recorder, self.mark = recorder, mark

    def __lt__(self, other: Ranked) -> bool:
        answer = operators.compare(self.recorder, "lt", self.mark, other.mark)
        return operators.truth(self.recorder, answer)

    def __eq__(self, other: object) -> bool:
        answer = operators.compare(self.recorder, "eq", self.mark, other.mark)  # type: ignore[attr-defined]
        return operators.truth(self.recorder, answer)

    __hash__ = None  # type: ignore[assignment]


def marks(recorder: Recorder, values: list[Any], key: Any) -> list[Any]:
    """What C compares to put values in order; one object has one mark, as C compares no twins."""
    keys = [x if key is None else call(recorder, key, (x,), {}) for x in values]
    if all(map(is_plain, keys)):
        return keys
    by_identity = {id(mark): Ranked(recorder, mark) for mark in keys}
    return [by_identity[id(mark)] for mark in keys]


def ranked(recorder: Recorder, values: list[Any], key: Any, reverse: Any) -> list[Any]:
    """`sorted`, with comparisons and keys followed."""
    order = marks(recorder, values, key)
    backwards = operators.truth(recorder, reverse)
    return [values[i] for i in sorted(range(len(values)), key=order.__getitem__, reverse=backwards)]


def _sorted(recorder: Recorder, iterable: Any, /, *, key: Any = None, reverse: Any = False) -> Any:
    return recorder.new(ranked(recorder, list(_iterate(recorder, iterable)), key, reverse))


def _reduce(recorder: Recorder, fn: Any, iterable: Any, initial: Any = MISSING, /) -> Any:
    values = iter(_iterate(recorder, iterable))
    total = next(values, MISSING) if initial is MISSING else initial
    if total is MISSING:
        raise TypeError("reduce() of empty iterable with no initial value")
    for value in values:
        total = call(recorder, fn, (total, value), {})
    return total


def _len(recorder: Recorder, value: Any, /) -> Any:
    return operators.length(recorder, value)


def _iter(recorder: Recorder, value: Any, /, *sentinel: Any) -> Any:
    if not sentinel:
        return iteration.iterator(recorder, value)
    return recorder.new(_until(recorder, value, sentinel[0]))


def _until(recorder: Recorder, fn: Any, sentinel: Any) -> Any:
    while True:
        try:
            value = call(recorder, fn, (), {})
        except StopIteration:
            return
        if operators.truth(recorder, operators.compare(recorder, "eq", value, sentinel)):
            return
        yield value


def _next(recorder: Recorder, asked: Any, /, *default: Any) -> Any:
    try:
        return iteration.step(recorder, asked)
    except StopIteration:
        if default:
            return default[0]
        raise


def _isinstance(recorder: Recorder, value: Any, cls: Any, /) -> bool:
    return _checked(recorder, value, cls, "__instancecheck__")


def _issubclass(recorder: Recorder, value: Any, cls: Any, /) -> bool:
    if is_a(value, type):
        attributes.class_lookup(recorder, value, "__mro__")
    return _checked(recorder, value, cls, "__subclasscheck__")


def _checked(recorder: Recorder, value: Any, cls: Any, name: str) -> bool:
    if type(cls) is tuple:
        return any(_checked(recorder, value, x, name) for x in cls)
    if is_a(cls, types.UnionType):
        return any(_checked(recorder, value, x, name) for x in cls.__args__)
    if recorder.engine.stands(value):
        value = recorder.engine.present(value)
    elif name == "__instancecheck__":
        operators.is_instance(recorder, value, object)
        if type(value) is cls:
            return True
    check = attributes.class_lookup(recorder, type(cls), name)
    if check is abc.ABCMeta.__dict__[name]:
        _guard_registered(recorder, cls, type(value) if name == "__instancecheck__" else value)
    elif is_python(recorder, check) and not recorder.engine.keeps(type(cls)):
        return operators.truth(recorder, call(recorder, check, (cls, value), {}))
    return isinstance(value, cls) if name == "__instancecheck__" else issubclass(value, cls)


_HOOKS_OF = ("_collections_abc", "typing")  # whose hooks look at classes, and at nothing else


def _guard_registered(recorder: Recorder, cls: Any, kind: Any) -> None:
    """Have a recording depend on what an abstract class takes for its subclasses."""
    recorder.guard(Answer(abc.get_cache_token, ()), abc.get_cache_token())
    hook = attributes.class_lookup(recorder, cls, "__subclasshook__")
    code = getattr(hook, "__func__", None)
    users = is_a(code, types.FunctionType) and code.__module__ not in _HOOKS_OF
    if users and is_a(kind, type):
        recorder.guard(Answer(issubclass, (kind, cls)), issubclass(kind, cls))


def _of_abstract(check: Any) -> Handler:
    """What an abstract class's metaclass asks C; C remembers answers until the token changes.

    It is asked by way of the metaclass: protocols look at who asks.
    """

    def handler(recorder: Recorder, cls: Any, value: Any, /) -> Any:
        if recorder.engine.stands(value):
            value = recorder.engine.present(value)
        else:
            operators.is_instance(recorder, value, object)
        by_class = check is abc.ABCMeta.__subclasscheck__
        _guard_registered(recorder, cls, value if by_class else type(value))
        return check(cls, value)

    return handler


def _getattr(recorder: Recorder, obj: Any, name: Any, /, *default: Any) -> Any:
    if not is_a(name, str):
        return getattr(obj, name)  # raises
    try:
        return attributes.get(recorder, obj, name)
    except AttributeError:
        if default:
            return default[0]
        raise


def _hasattr(recorder: Recorder, obj: Any, name: Any, /) -> bool:
    try:
        attributes.get(recorder, obj, name)
    except AttributeError:
        return False
    return True


def _setattr(recorder: Recorder, obj: Any, name: str, value: Any, /) -> None:
    attributes.put(recorder, obj, name, value)


def _delattr(recorder: Recorder, obj: Any, name: str, /) -> None:
    attributes.drop(recorder, obj, name)


def _callable(recorder: Recorder, obj: Any, /) -> bool:
    if not is_a(obj, (types.FunctionType, type)):
        operators.method_of(recorder, obj, "__call__")
    return callable(obj)


def _repr(recorder: Recorder, value: Any, /) -> Any:
    return text(recorder, value, "__repr__", repr)


def _ascii(recorder: Recorder, value: Any, /) -> str:
    return ascii(WrittenText(_repr(recorder, value)))


def _format(recorder: Recorder, value: Any, spec: Any = "", /) -> Any:
    if type(value) in PLAIN:
        return format(value, spec)
    if recorder.engine.is_symbol(value):
        return recorder.engine.written(format, value, spec)
    method = operators.method_of(recorder, value, "__format__")
    if is_python(recorder, method):
        return call(recorder, method, (value, spec), {})
    if method is object.__format__:
        if spec:
            return format(_Plain(type(value)), spec)  # raises
        return text(recorder, value, "__str__", str)
    if recorder.engine.owns(value):
        return recorder.engine.call(format, (value, spec), {})
    return format(expose(recorder, value), spec)


def _Plain(cls: type) -> Any:
    return type(cls.__name__, (), {})()


def _hash(recorder: Recorder, value: Any, /) -> Any:
    if type(value) not in PLAIN and not recorder.engine.is_symbol(value):
        method = operators.method_of(recorder, value, "__hash__")
        if is_python(recorder, method):
            return call(recorder, method, (value,), {})
        if recorder.is_fresh(value) and method is object.__hash__:
            raise recorder.refuse(
                "hash() of a new object", "it is its address in memory", "Use it as a key itself."
            )
    key = operators.hashable(recorder, value)
    recorder.identified(key)
    return hash(key)


def _id(recorder: Recorder, value: Any, /) -> int:
    own = recorder.is_fresh(value) or recorder.is_given(value)
    return ObjectIdentity.made(value) if own else id(value)


def _abs(recorder: Recorder, value: Any, /) -> Any:
    return operators.unary(recorder, "abs", value) if type(value) not in PLAIN else abs(value)


def _round(recorder: Recorder, number: Any, ndigits: Any = None) -> Any:
    if recorder.engine.is_symbol(number) and not recorder.engine.carries(number, "round"):
        number = recorder.concrete(number)
    if type(number) in PLAIN or recorder.engine.is_symbol(number):
        return round(number, recorder.concrete(ndigits))
    method = operators.method_of(recorder, number, "__round__")
    args = (number,) if ndigits is None else (number, ndigits)
    if is_python(recorder, method):
        return call(recorder, method, args, {})
    if recorder.engine.owns(number):
        return recorder.engine.call(round, args, {})
    return round(expose(recorder, number), recorder.concrete(ndigits))


def _divmod(recorder: Recorder, a: Any, b: Any, /) -> Any:
    if type(a) in PLAIN and type(b) in PLAIN:
        return divmod(a, b)
    if recorder.engine.is_symbol(a) or recorder.engine.is_symbol(b):
        return (
            operators.binary(recorder, "floordiv", a, b),
            operators.binary(recorder, "mod", a, b),
        )
    return operators._dispatch(recorder, "divmod", a, b, "__divmod__", "__rdivmod__")


def _pow(recorder: Recorder, base: Any, exp: Any, mod: Any = None) -> Any:
    if mod is None:
        return operators.binary(recorder, "pow", base, exp)
    return pow(*(recorder.concrete(x) for x in (base, exp, mod)))


def _vars(recorder: Recorder, *args: Any) -> Any:
    if not args:
        return _locals(recorder)
    return attributes.get(recorder, args[0], "__dict__")


def _globals(recorder: Recorder) -> Any:
    return recorder.frames[-1].globals


def _locals(recorder: Recorder) -> Any:
    frame = recorder.frames[-1]
    if frame.names is not None:
        return frame.names
    variables: dict[str, Any] = {}
    for index, value in enumerate(frame.fast):
        if is_a(value, types.CellType):
            value = recorder.cell(value, variable_name(frame.code, index))
        if value is not MISSING:
            variables[variable_name(frame.code, index)] = value
    return recorder.new(variables)


def _dir(recorder: Recorder, *args: Any) -> Any:
    if not args:
        return recorder.new(sorted(_locals(recorder)))
    names = dir(args[0])
    recorder.guard(Answer(_names, (args[0],)), tuple(names))
    return recorder.new(names)


def _names(obj: Any) -> tuple[str, ...]:
    return tuple(dir(obj))


def _print(recorder: Recorder, *args: Any, **kwargs: Any) -> None:
    """Done again at each call, with what is printed then; nothing is printed while recording."""
    owns = recorder.engine.owns
    args = tuple(text(recorder, x, "__str__", str) if owns(x) else x for x in args)
    recorder.effect(print_again, args, recorder.new(dict(kwargs)))


def print_again(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """What a call prints."""
    print(*args, **kwargs)


def _exc_info(recorder: Recorder) -> Any:
    error = current_exception(recorder)
    return (None, None, None) if error is None else (type(error), error, error.__traceback__)


def _exception(recorder: Recorder) -> Any:
    return _exc_info(recorder)[1]


def _count_elements(recorder: Recorder, mapping: Any, iterable: Any, /) -> None:
    get = attributes.get(recorder, mapping, "get")
    for element in _iterate(recorder, iterable):
        count = call(recorder, get, (element, 0), {})
        items.set_item(recorder, mapping, element, operators.binary(recorder, "add", count, 1))


def _reads(fn: Any) -> Handler:
    """Functions that only read the plain value they are given."""
    return lambda recorder, *args, **kwargs: operators.pure(recorder, fn, args, kwargs)


def _rewrites(fn: Any) -> Handler:
    """Functions that change the list they are given, by its contents."""

    def handler(recorder: Recorder, target: list[Any], *args: Any) -> Any:
        try:
            expose(recorder, target)
            args = tuple(expose(recorder, x) for x in args)
        except NeedsPython:
            raise recorder.refuse(
                fn.__name__, "it compares elements by Python code that is not observed",
                "Use elements that are plain values.",
            ) from None  # fmt: skip
        return recorder.change(target, fn, *args)

    return handler


def _binary(name: str) -> Handler:
    return lambda recorder, a, b, /: operators.binary(recorder, name, a, b)


def _comparison(name: str) -> Handler:
    return lambda recorder, a, b, /: operators.compare(recorder, name, a, b)


def _in_place(name: str) -> Handler:
    return lambda recorder, a, b, /: operators.in_place(recorder, name, a, b)


def _refused(what: str, why: str, remedy: str) -> Handler:
    def handler(recorder: Recorder, *args: Any, **kwargs: Any) -> Any:
        raise recorder.refuse(what, why, remedy)

    return handler


def _called(recorder: Recorder, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    return call(recorder, fn, args, kwargs)


def _import(
    recorder: Recorder, name: str, globals: Any = None, locals: Any = None,
    fromlist: Any = (), level: int = 0,
) -> Any:  # fmt: skip
    return attributes.imported(recorder, globals or {}, name, fromlist, level)


def _index(recorder: Recorder, value: Any, /) -> Any:
    number = items.index(recorder, value)
    return number if recorder.engine.is_symbol(number) else operator.index(number)


# Python's notice that the list of filters changed; from 3.14 on, under another name.
_FILTERS_CHANGED: Any = getattr(
    warnings, "_filters_mutated", getattr(warnings, "_filters_mutated_lock_held", None)
)
TABLE: dict[Any, Handler] = {
    builtins.__build_class__: classes.build_class,
    builtins.__import__: _import,
    abs: _abs,
    all: _all,
    any: _any,
    ascii: _ascii,
    callable: _callable,
    delattr: _delattr,
    dir: _dir,
    divmod: _divmod,
    format: _format,
    getattr: _getattr,
    globals: _globals,
    hasattr: _hasattr,
    hash: _hash,
    id: _id,
    isinstance: _isinstance,
    issubclass: _issubclass,
    iter: _iter,
    len: _len,
    locals: _locals,
    max: _extreme("max", "gt"),
    min: _extreme("min", "lt"),
    next: _next,
    pow: _pow,
    print: _print,
    repr: _repr,
    round: _round,
    setattr: _setattr,
    sorted: _sorted,
    sum: _sum,
    vars: _vars,
    _abc._abc_instancecheck: _of_abstract(abc.ABCMeta.__instancecheck__),
    _abc._abc_subclasscheck: _of_abstract(abc.ABCMeta.__subclasscheck__),
    _collections._count_elements: _count_elements,
    _functools.reduce: _reduce,
    math.prod: _product,
    sys.exc_info: _exc_info,
    sys.intern: lambda recorder, text, /: sys.intern(recorder.concrete(text)),
    sys.getrecursionlimit: lambda recorder: sys.getrecursionlimit(),
    # Says that the list of filters changed, which is an effect of its own.
    _FILTERS_CHANGED: lambda recorder: _FILTERS_CHANGED(),
    operator.truth: lambda recorder, value, /: operators.truth(recorder, value),
    operator.not_: lambda recorder, value, /: not operators.truth(recorder, value),
    operator.contains: lambda recorder, a, b, /: items.contains(recorder, a, b),
    operator.getitem: lambda recorder, a, b, /: items.get_item(recorder, a, b),
    operator.setitem: lambda recorder, a, b, c, /: items.set_item(recorder, a, b, c),
    operator.delitem: lambda recorder, a, b, /: items.delete_item(recorder, a, b),
    operator.is_: lambda recorder, a, b, /: operators.identical(recorder, a, b),
    operator.is_not: lambda recorder, a, b, /: not operators.identical(recorder, a, b),
    operator.index: _index,
    operator.neg: lambda recorder, a, /: operators.unary(recorder, "neg", a),
    operator.pos: lambda recorder, a, /: operators.unary(recorder, "pos", a),
    operator.abs: _abs,
    **{
        getattr(operator, f"{name}_" if name in ("and", "or") else name): _binary(name)
        for name in operators._BINARY_NAMES
    },
    **{getattr(operator, f"i{name}"): _in_place(name) for name in operators._BINARY_NAMES},
    **{getattr(operator, name): _comparison(name) for name in operators._REFLECTED},
    heapq.heappush: _rewrites(heapq.heappush),
    heapq.heappop: _rewrites(heapq.heappop),
    heapq.heapify: _rewrites(heapq.heapify),
    heapq.heappushpop: _rewrites(heapq.heappushpop),
    heapq.heapreplace: _rewrites(heapq.heapreplace),
    bisect.insort_right: _rewrites(bisect.insort_right),
    bisect.insort_left: _rewrites(bisect.insort_left),
    **{fn: _reads(fn) for fn in (bin, oct, hex, chr, ord, compile)},
    operator.call: _called,
    **{fn: _reads(fn) for fn in (str.maketrans, bytes.maketrans, bytearray.maketrans)},
    eval: _refused("eval()", "the code it runs is not observed", "Write it as a function."),
    exec: _refused("exec()", "the code it runs is not observed", "Write it as a function."),
    open: _refused("open()", "files may change between calls", "Read them outside."),
    input: _refused("input()", "it asks anew at each call", "Ask outside."),
}  # fmt: skip
if hasattr(sys, "exception"):
    TABLE[sys.exception] = _exception

PYTHON: dict[Any, Handler] = {}  # Python functions that are not followed but done by hand
OTHERS: dict[Any, Handler] = {}  # functions of kinds of their own, such as Cython's
