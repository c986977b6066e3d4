"""Operators, comparison, truth, length: special methods in Python are followed."""

from __future__ import annotations

import operator
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from adjoint.engine.capture.python.calling import call, is_python, unknown
from adjoint.engine.capture.python.exposing import _VIEWS, NeedsPython, expose
from adjoint.engine.capture.python.language import iteration
from adjoint.engine.capture.python.language.attributes import (
    PROXIES,
    class_lookup,
    kind_of,
    referent,
)
from adjoint.engine.capture.python.locations import Answer
from adjoint.engine.capture.python.plain import (
    MISSING,
    NUMBERS,
    PLAIN,
    can_change,
    elements,
    has,
    is_a,
)
from adjoint.engine.capture.python.recorder import Recorder

TELLS_COUNT = sys.version_info >= (3, 14)  # whether unpacking says how many values there were
SEQUENCES = (list, tuple, deque)
IMMUTABLE = (str, bytes, tuple, range, frozenset)


def method_of(recorder: Recorder, obj: Any, name: str) -> Any:
    """A special method of an object's class, unbound, or MISSING."""
    return class_lookup(recorder, kind_of(recorder, obj), name)


def behind(recorder: Recorder, value: Any) -> Any:
    """What a weak proxy stands for; any other value itself."""
    return referent(recorder, value) if type(value) in PROXIES else value


def refuse_operator(recorder: Recorder, name: str, a: Any, b: Any) -> Exception:
    """What is said where C would look into something that cannot be guarded."""
    return recorder.refuse(
        f"{type(a).__name__} {name} {type(b).__name__}",
        "a C operator would call Python code that is not observed",
        "Do it element by element, or outside.",
    )


# -- arithmetic -------------------------------------------------------------------------------


def binary(recorder: Recorder, name: str, a: Any, b: Any) -> Any:
    """`a <op> b`."""
    if type(a) in PLAIN and type(b) in PLAIN:
        return _OPERATORS[name](a, b)
    return _dispatch(recorder, name, a, b, f"__{name}__", f"__r{name}__")


def _dispatch(recorder: Recorder, name: str, a: Any, b: Any, left: str, right: str) -> Any:
    a, b = behind(recorder, a), behind(recorder, b)
    engine = recorder.engine
    ours = engine.is_symbol(a) or engine.is_symbol(b)
    first = MISSING if ours and engine.is_symbol(a) else method_of(recorder, a, left)
    second = MISSING if ours and engine.is_symbol(b) else method_of(recorder, b, right)
    followed = is_python(recorder, first) or is_python(recorder, second)
    if not followed:
        return _by_c(recorder, name, a, b)
    order = [(first, a, b), (second, b, a)]
    if type(a) is type(b):
        order.pop()
    elif issubclass(type(b), type(a)) and second is not method_of(recorder, a, right):
        order.reverse()
    for method, own, other in order:
        if method is MISSING or method is None:
            continue
        if is_python(recorder, method):
            result = call(recorder, method, (own, other), {})
        elif engine.owns(own):
            result = engine.call(method, (own, other), {})
        else:
            result = method(own, _exposed(recorder, name, own, other))
        if result is not NotImplemented:
            return result
    return _unsupported(name, a, b)


def _unsupported(name: str, a: Any, b: Any) -> Any:
    sign = _SIGNS[name]
    raise TypeError(
        f"unsupported operand type(s) for {sign}: '{type(a).__name__}' and '{type(b).__name__}'"
    )


def _exposed(recorder: Recorder, name: str, a: Any, b: Any) -> Any:
    try:
        return expose(recorder, b, shallow=name in ("add", "mul"))
    except NeedsPython:
        return b  # C answers NotImplemented to what it does not know


def _by_c(recorder: Recorder, name: str, a: Any, b: Any) -> Any:
    engine = recorder.engine
    if is_a(a, str) or is_a(b, str):
        result = engine.of_texts(name, a, b)
        if result is not MISSING:
            return result
    if engine.is_symbol(a) and not engine.carries(a, name):
        a = recorder.concrete(a)
    if engine.is_symbol(b) and not engine.carries(b, name):
        b = recorder.concrete(b)
    if engine.is_symbol(a) or engine.is_symbol(b):
        if engine.is_symbol(a) and engine.is_symbol(b):
            return _OPERATORS[name](a, b)
        number = b if engine.is_symbol(a) else a
        if type(number) in NUMBERS:
            return _with_number(recorder, name, a, b)
        a, b = recorder.concrete(a), recorder.concrete(b)
    if engine.owns(a) or engine.owns(b):
        return engine.call(_OPERATORS[name], (a, b), {})
    shallow = name in ("add", "mul") and is_a(a, SEQUENCES) | is_a(b, SEQUENCES)
    if name == "or" and type(a) is dict and type(b) is dict:
        all_hashable(recorder, (*a, *b))
        shallow = True  # values are moved, keys looked up
    try:
        a, b = expose(recorder, a, shallow=shallow), expose(recorder, b, shallow=shallow)
    except NeedsPython:
        if not is_a(a, (list, tuple, str, bytes, dict, set)):
            return _OPERATORS[name](a, b)  # neither class has the method: raises
        raise refuse_operator(recorder, _SIGNS[name], a, b) from None
    return new_result(recorder, _OPERATORS[name](a, b))


def _with_number(recorder: Recorder, name: str, a: Any, b: Any) -> Any:
    """`a <op> b` of a symbol and a number: C's `0.5 * size` would be that of the present size."""
    first = recorder.engine.is_symbol(a)
    symbol, number, reflected = (a, b, "") if first else (b, a, "r")
    method = getattr(type(symbol), f"__{reflected}{name}__", None)
    result = NotImplemented if method is None else method(symbol, number)
    if result is not NotImplemented:
        return result
    return _OPERATORS[name](recorder.concrete(a), recorder.concrete(b))


def new_result(recorder: Recorder, value: Any) -> Any:
    """A result of C: new, if nobody else has it."""
    if type(value) in PLAIN or recorder.engine.owns(value) or recorder.engine.shares(value):
        return value
    if sys.getrefcount(value) <= _MOST:
        recorder.new(value)
        new_parts(recorder, value)
    return value


def _count() -> int:
    """How many references `made` sees of an object that only its caller's expression holds."""

    def seen(recorder: Any, value: Any) -> int:
        return sys.getrefcount(value)

    return seen(None, object())


_MOST = _count()


def new_parts(recorder: Recorder, value: Any) -> None:
    """Containers inside of a new one that nobody else has."""
    if is_a(value, dict):
        for key in value:
            if is_a(value[key], (list, tuple, dict, set)) and (sys.getrefcount(value[key]) <= 2):
                recorder.new(value[key])
                new_parts(recorder, value[key])
    if is_a(value, (list, tuple)):
        for i in range(len(value)):
            own = is_a(value[i], (list, tuple, dict, set)) or has(type(value[i]), "__next__")
            if own and sys.getrefcount(value[i]) <= 2:
                recorder.new(value[i])
                new_parts(recorder, value[i])


_IN_PLACE_WRITES = (list, set, dict, deque, bytearray)


def in_place(recorder: Recorder, name: str, a: Any, b: Any) -> Any:
    """`a <op>= b`."""
    if type(a) in PLAIN and type(b) in PLAIN:
        return _OPERATORS[name](a, b)
    if recorder.engine.is_symbol(a):
        return binary(recorder, name, a, b)
    method = method_of(recorder, a, f"__i{name}__")
    if method is MISSING:
        return binary(recorder, name, a, b)
    if is_python(recorder, method):
        result = call(recorder, method, (a, b), {})
        return binary(recorder, name, a, b) if result is NotImplemented else result
    if is_a(a, _IN_PLACE_WRITES):
        if is_a(a, set) and not is_a(b, (set, frozenset, _VIEWS[0], _VIEWS[2])):
            return _with_others(recorder, name, a, b)
        return _extend(recorder, name, a, b)
    if recorder.engine.owns(a) or recorder.engine.owns(b):
        return recorder.engine.call(_IN_PLACE[name], (a, b), {})
    if recorder.is_fresh(a):
        recorder.writes_to(a)
        return _IN_PLACE[name](a, expose(recorder, b))
    return recorder.engine.change(recorder, a, _IN_PLACE[name], (a, expose(recorder, b)))


def _with_others(recorder: Recorder, name: str, a: Any, b: Any) -> Any:
    """`a <op>= b` of a set and no set: what the other's class says, or an error."""
    method = method_of(recorder, b, f"__r{name}__")
    result = call(recorder, method, (b, a), {}) if is_python(recorder, method) else NotImplemented
    if result is not NotImplemented:
        return result
    raise TypeError(
        f"unsupported operand type(s) for {_SIGNS[name]}=: '{type(a).__name__}' and "
        f"'{type(b).__name__}'"
    )


def _extend(recorder: Recorder, name: str, a: Any, b: Any) -> Any:
    method = getattr(type(a), f"__i{name}__")
    if is_a(a, (list, deque)) and name == "add":
        b = list(iteration.native(recorder, b))
    elif is_a(a, list):
        b = recorder.concrete(b)
        recorder.contents(a)
    elif is_a(a, dict):
        b = (
            dict(iteration.mapping(recorder, b))
            if hasattr(b, "keys")
            else list(iteration.native(recorder, b))
        )
    else:
        b = expose(recorder, b)
        recorder.contents(a)
        b = set(b) if is_a(b, set) else b
    result = recorder.change(a, method, recorder.new(b) if is_a(b, (list, dict, set)) else b)
    return result if result is NotImplemented else a


def unary(recorder: Recorder, name: str, a: Any) -> Any:
    """`-a`, `+a`, `~a`."""
    if recorder.engine.is_symbol(a) and not recorder.engine.carries(a, name):
        a = recorder.concrete(a)
    if type(a) in PLAIN or recorder.engine.is_symbol(a):
        return _OPERATORS[name](a)
    method = method_of(recorder, a, f"__{name}__")
    if is_python(recorder, method):
        return call(recorder, method, (a,), {})
    if recorder.engine.owns(a):
        return recorder.engine.call(_OPERATORS[name], (a,), {})
    return new_result(recorder, _OPERATORS[name](expose(recorder, a)))


# -- comparison -------------------------------------------------------------------------------

_REFLECTED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def identical(recorder: Recorder, left: Any, right: Any) -> bool:
    """`left is right`; a container among the arguments may be any at another call."""
    if left is None or right is None:
        return left is right
    recorder.engine.compared(left, right)
    if left is right:
        return True
    is_symbol = recorder.engine.is_symbol
    if is_symbol(left) or is_symbol(right):
        if not all(is_symbol(x) or type(x) in NUMBERS for x in (left, right)):
            return False
        left, right = recorder.concrete(left), recorder.concrete(right)
        return left is right  # Python has one object for each small number
    if type(left) is type(right) and not (recorder.is_fresh(left) or recorder.is_fresh(right)):
        for one in (left, right):
            if id(one) in recorder.given:
                recorder.engine.identified(recorder, one)
    return False


def compare(recorder: Recorder, name: str, a: Any, b: Any) -> Any:
    """`a < b` and the like."""
    if type(a) in PLAIN and type(b) in PLAIN:
        return _OPERATORS[name](a, b)
    a, b = behind(recorder, a), behind(recorder, b)
    engine = recorder.engine
    if engine.is_symbol(a) and not engine.carries(a, "compare"):
        a = recorder.concrete(a)
    if engine.is_symbol(b) and not engine.carries(b, "compare"):
        b = recorder.concrete(b)
    if engine.is_symbol(a) or engine.is_symbol(b):
        if all(type(x) in PLAIN or engine.is_symbol(x) or engine.owns(x) for x in (a, b)):
            if type(a) is float:  # whose method takes a size, an int, as it is
                name, a, b = _REFLECTED[name], b, a
            return _OPERATORS[name](a, b)
        a, b = recorder.concrete(a), recorder.concrete(b)  # who knows what another class asks
    left, right = f"__{name}__", f"__{_REFLECTED[name]}__"
    first, second = method_of(recorder, a, left), method_of(recorder, b, right)
    if not (is_python(recorder, first) or is_python(recorder, second)):
        if name == "ne" and _eq_in_python(recorder, a, b):
            answer = compare(recorder, "eq", a, b)
            return not truth(recorder, answer)
        return _compare_c(recorder, name, a, b)
    order = [(first, a, b), (second, b, a)]
    if type(a) is not type(b) and issubclass(type(b), type(a)):
        order.reverse()
    for method, own, other in order:
        if is_python(recorder, method):
            answer = call(recorder, method, (own, other), {})
        elif engine.owns(own):
            answer = engine.call(method, (own, other), {})
        elif name == "ne" and method is object.__ne__ and _eq_in_python(recorder, own, other):
            answer = call(recorder, method_of(recorder, own, "__eq__"), (own, other), {})
            answer = answer if answer is NotImplemented else not truth(recorder, answer)
        else:
            answer = method(own, other) if method not in (MISSING, None) else NotImplemented
        if answer is not NotImplemented:
            return answer
    if name in ("eq", "ne"):
        return identical(recorder, a, b) == (name == "eq")
    raise TypeError(
        f"'{_SIGNS[name]}' not supported between instances of '{type(a).__name__}' and "
        f"'{type(b).__name__}'"
    )


def _eq_in_python(recorder: Recorder, a: Any, b: Any) -> bool:
    return any(is_python(recorder, method_of(recorder, x, "__eq__")) for x in (a, b))


def _compare_c(recorder: Recorder, name: str, a: Any, b: Any) -> Any:
    engine = recorder.engine
    if engine.owns(a) or engine.owns(b):
        return engine.call(_OPERATORS[name], (a, b), {})
    if name in ("eq", "ne") and vars(object)["__eq__"] is getattr(type(a), "__eq__", None):
        identical(recorder, a, b)  # has arguments of the call told apart, or refuses to
    if is_a(a, types.SimpleNamespace) and is_a(b, types.SimpleNamespace) and name in ("eq", "ne"):
        return compare(recorder, name, recorder.attributes(a), recorder.attributes(b))
    alike = is_a(a, (list, tuple)) and type(a) is type(b)
    if alike and any(map(engine.is_symbol, (*a, *b))):
        return _compare_sequences(recorder, name, a, b)
    try:
        a, b = expose(recorder, a), expose(recorder, b)
    except NeedsPython:
        if type(a) is type(b) and is_a(a, (list, tuple)):
            return _compare_sequences(recorder, name, a, b)
        if is_a(a, dict) and is_a(b, dict) and name in ("eq", "ne"):
            return _same_items(recorder, a, b) == (name == "eq")
        if name in ("eq", "ne") and not is_a(a, (set, frozenset, dict, list, tuple)):
            return _OPERATORS[name](a, b)
        raise refuse_operator(recorder, _SIGNS[name], a, b) from None
    if _holds_engines(recorder, a) or _holds_engines(recorder, b):
        if type(a) is type(b) and is_a(a, (list, tuple)):
            return _compare_sequences(recorder, name, a, b)
        raise refuse_operator(recorder, _SIGNS[name], a, b)
    return _OPERATORS[name](a, b)


def _holds_engines(recorder: Recorder, value: Any) -> bool:
    if is_a(value, dict):
        value = value.values()
    elif not is_a(value, (list, tuple, set, frozenset)):
        return recorder.engine.owns(value)
    return any(_holds_engines(recorder, x) for x in value)


def _compare_sequences(recorder: Recorder, name: str, a: Any, b: Any) -> Any:
    """Element by element, as C does it."""
    recorder.contents(a) if is_a(a, list) else None
    recorder.contents(b) if is_a(b, list) else None
    if name in ("eq", "ne") and len(a) != len(b):
        return name == "ne"
    for x, y in zip(a, b, strict=False):
        if x is not y and not truth(recorder, compare(recorder, "eq", x, y)):
            return name == "ne" if name in ("eq", "ne") else compare(recorder, name, x, y)
    return _OPERATORS[name](len(a), len(b))


def _same_items(recorder: Recorder, a: dict[Any, Any], b: dict[Any, Any]) -> bool:
    recorder.contents(a)
    recorder.contents(b)
    if len(a) != len(b):
        return False
    for key, value in a.items():
        other = dict.get(b, hashable(recorder, key, b), MISSING)
        if other is MISSING:
            return False
        if value is not other and not truth(recorder, compare(recorder, "eq", value, other)):
            return False
    return True


def truth(recorder: Recorder, value: Any) -> bool:
    """`bool(value)`."""
    if value is True or value is False or value is None:
        return bool(value)
    if type(value) in PLAIN or recorder.engine.is_symbol(value):
        return bool(value)
    if is_a(value, (list, dict, set, deque, bytearray)) and not can_change(type(value)):
        return bool(recorder.length(value))
    value = behind(recorder, value)
    method = method_of(recorder, value, "__bool__")
    if is_python(recorder, method):
        answer = call(recorder, method, (value,), {})
        if not is_a(answer, bool):
            raise TypeError(f"__bool__ should return bool, returned {type(answer).__name__}")
        return answer
    if recorder.engine.owns(value):
        return bool(recorder.engine.call(bool, (value,), {}))
    if method is not MISSING:
        return bool(expose(recorder, value))
    if method_of(recorder, value, "__len__") is not MISSING:
        return bool(length(recorder, value))
    return True


def is_instance(recorder: Recorder, value: Any, cls: Any) -> bool:
    """`isinstance(value, cls)` of a class whose metaclass is Python's own or an ABC's."""
    if recorder.engine.is_symbol(value):
        value = recorder.engine.present(value)
    if recorder.needs_guards(value):
        kind_of(recorder, value)
    kind = type(value)
    if can_change(kind) and not recorder.is_fresh(kind) and not recorder.engine.keeps(kind):
        class_lookup(recorder, kind, "__class__")
    return isinstance(value, cls)


# -- hashing, length --------------------------------------------------------------


def hashable(recorder: Recorder, key: Any, table: Any = None) -> Any:
    """A key as C takes it into a dict or set: symbols pinned, methods in Python followed.

    Those are `__hash__`, and `__eq__` between the key and those of the same hash in `table`.
    An argument that is known by what it holds is another object at the next call, of another hash.
    """
    if type(key) in PLAIN:
        return key
    if recorder.engine.is_symbol(key):
        return recorder.concrete(key)
    if is_a(key, tuple) and method_of(recorder, key, "__hash__") is tuple.__hash__:
        parts = [hashable(recorder, x) for x in tuple.__iter__(key)]
        if not all(x is y for x, y in zip(parts, tuple.__iter__(key), strict=True)):
            key = with_parts(key, parts)
    else:
        _follow_hash(recorder, key)
    if table is not None and _equals_in_python(recorder, key):
        wanted = hash(key)
        for present in list(elements(table)):
            if present is not key and _hash(recorder, present) == wanted:
                _asked_by_c(recorder, lambda own=present: compare(recorder, "eq", own, key))  # type: ignore[misc]
    return key


def with_parts(key: Any, parts: list[Any]) -> Any:
    """A tuple of the same class, without the symbols that were in it."""
    kind: Any = type(key)
    pinned = tuple.__new__(kind, parts)
    if kind.__dictoffset__:
        pinned.__dict__.update(key.__dict__)
    return pinned


def all_hashable(recorder: Recorder, keys: Iterable[Any], table: Any = None) -> list[Any]:
    """Keys that C takes into one dict or set, one after another."""
    taken, by_hash = [], dict[int, list[Any]]()
    for given in keys:
        key = hashable(recorder, given, table)
        if _equals_in_python(recorder, key):
            alike = by_hash.setdefault(hash(key), [])
            hashable(recorder, key, alike)
            alike.append(key)
        taken.append(key)
    return taken


def _follow_hash(recorder: Recorder, key: Any) -> None:
    method = method_of(recorder, key, "__hash__")
    if is_python(recorder, method):
        _asked_by_c(recorder, lambda: call(recorder, method, (key,), {}))
        recorder.shared["followed", method] = True
        _pin_fields(recorder, key)
    elif method is weakref.ref.__hash__:  # that of what it refers to
        hashable(recorder, key())
    elif method is object.__hash__ and id(key) in recorder.given:
        recorder.engine.identified(recorder, key)


def _hash(recorder: Recorder, present: Any) -> int:
    """The hash of a key that is in a table; C knows it, and asks nobody."""
    method = method_of(recorder, present, "__hash__")
    if is_python(recorder, method) and ("followed", method) not in recorder.shared:
        _follow_hash(recorder, present)
    return hash(present)


def _equals_in_python(recorder: Recorder, key: Any) -> bool:
    if type(key) is tuple:
        return any(_equals_in_python(recorder, part) for part in key)
    if type(key) in PLAIN or recorder.engine.owns(key):  # tensors are told apart by identity
        return False
    return is_python(recorder, method_of(recorder, key, "__eq__"))


def _asked_by_c(recorder: Recorder, ask: Callable[[], Any]) -> None:
    """Follow a method that C calls too, as often as it likes: it must not change anything.

    One that keeps its answer changes something the first time alone.
    """
    if recorder.changes(ask) and recorder.changes(ask):
        raise recorder.refuse(
            "a __hash__ or __eq__ that changes something",
            "dicts and sets call it as often as they like, where it is not observed",
            "Change it elsewhere.",
        )


def _pin_fields(recorder: Recorder, key: Any) -> None:
    """Have no numbers of each call in a new key, whose `__hash__` the dict calls by itself."""
    if not recorder.is_fresh(key):
        return
    for name, value in list(getattr(key, "__dict__", {}).items()):
        if recorder.engine.is_symbol(value):
            key.__dict__[name] = recorder.concrete(value)
    fields = [f for base in type(key).__mro__ for f in base.__dict__.values()]
    for field in fields:
        if type(field) is types.MemberDescriptorType:
            value = field.__get__(key) if hasattr(key, field.__name__) else None
            if recorder.engine.is_symbol(value):
                field.__set__(key, recorder.concrete(value))


def length(recorder: Recorder, value: Any) -> Any:
    """`len(value)`."""
    if is_a(value, IMMUTABLE) and not can_change(type(value)):
        return len(value)
    if recorder.engine.owns(value):
        return recorder.engine.length(value)
    method = method_of(recorder, value, "__len__")
    if is_python(recorder, method):
        size = call(recorder, method, (value,), {})
        return _valid_length(recorder, size)
    if is_a(value, (list, dict, set, deque, bytearray)):
        return recorder.length(value)
    if is_a(value, _VIEWS):
        table = recorder.shown(value)
        return len(value) if table is None else recorder.length(table)
    if method is MISSING or recorder.is_fresh(value) or is_a(value, IMMUTABLE):
        return len(value)
    return recorder.guard(Answer(len, (value,)), len(value))


def _valid_length(recorder: Recorder, size: Any) -> Any:
    if type(size) is int and size >= 0:
        return size
    if recorder.engine.is_symbol(size):
        return size

    class Claim:
        def __len__(self) -> Any:
            return size

    return len(Claim())  # raises as Python does


_SIGNS = {
    "add": "+", "and": "&", "floordiv": "//", "lshift": "<<", "matmul": "@", "mul": "*",
    "mod": "%", "or": "|", "pow": "** or pow()", "rshift": ">>", "sub": "-", "truediv": "/",
    "xor": "^", "lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">", "ge": ">=",
    "neg": "-", "pos": "+", "invert": "~", "abs": "abs", "divmod": "divmod()",
}  # fmt: skip
_BINARY_NAMES = "add and floordiv lshift matmul mul mod or pow rshift sub truediv xor".split()
_OPERATORS: dict[str, Any] = {
    name: getattr(operator, f"{name}_" if name in ("and", "or") else name)
    for name in _SIGNS
    if name != "divmod"
} | {"divmod": divmod}
_IN_PLACE = {
    name: getattr(operator, f"i{name}") for name in _SIGNS if hasattr(operator, f"i{name}")
}


def pure(recorder: Recorder, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a C function that only reads what it is given."""
    try:
        given = [expose(recorder, x) for x in args]
        named = {key: expose(recorder, x) for key, x in kwargs.items()}
    except NeedsPython:
        raise unknown(recorder, fn) from None
    return new_result(recorder, fn(*given, **named))
