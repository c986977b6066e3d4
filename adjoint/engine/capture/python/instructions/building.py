"""Operators, containers, text, unpacking, patterns, functions and calls."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from adjoint.engine.capture.python.frames import Frame
from adjoint.engine.capture.python.language import attributes, calls, items, iteration, operators
from adjoint.engine.capture.python.plain import MISSING, has

from .variables import NULL

_BINARY = "add and floordiv lshift matmul mul mod or pow rshift sub truediv xor".split()


def binary_op(frame: Frame, which: int) -> None:
    right = frame.stack.pop()
    stack = frame.stack
    if which == 26:  # 3.14: a subscription
        stack[-1] = items.get_item(frame.recorder, stack[-1], right)
    elif which < 13:
        stack[-1] = operators.binary(frame.recorder, _BINARY[which], stack[-1], right)
    else:
        stack[-1] = operators.in_place(frame.recorder, _BINARY[which - 13], stack[-1], right)


def _unary(name: str) -> Callable[[Frame, Any], None]:
    def do(frame: Frame, operand: Any) -> None:
        frame.stack[-1] = operators.unary(frame.recorder, name, frame.stack[-1])

    return do


unary_negative, unary_positive, unary_invert = map(_unary, ("neg", "pos", "invert"))


def unary_not(frame: Frame, operand: Any) -> None:
    frame.stack[-1] = not operators.truth(frame.recorder, frame.stack[-1])


def _compare(frame: Frame, which: int) -> Any:
    right, left = frame.stack.pop(), frame.stack.pop()
    return operators.compare(
        frame.recorder, ("lt", "le", "eq", "ne", "gt", "ge")[which], left, right
    )


def compare_op(frame: Frame, which: int) -> None:
    frame.stack.append(_compare(frame, which))


def compare_op_shifted(frame: Frame, operand: int) -> None:
    """As 3.12 has it: the operator above four bits."""
    frame.stack.append(_compare(frame, operand >> 4))


def compare_op_flagged(frame: Frame, operand: int) -> None:
    """As 3.13 has it: the operator above five bits, one of which asks for a bool."""
    answer = _compare(frame, operand >> 5)
    frame.stack.append(operators.truth(frame.recorder, answer) if operand & 16 else answer)


def is_op(frame: Frame, invert: int) -> None:
    right, left = frame.stack.pop(), frame.stack.pop()
    frame.stack.append(operators.identical(frame.recorder, left, right) != bool(invert))


def contains_op(frame: Frame, invert: int) -> None:
    right, left = frame.stack.pop(), frame.stack.pop()
    frame.stack.append(items.contains(frame.recorder, right, left) != bool(invert))


# -- subscripts -------------------------------------------------------------------------------


def binary_subscr(frame: Frame, operand: Any) -> None:
    key = frame.stack.pop()
    frame.stack[-1] = items.get_item(frame.recorder, frame.stack[-1], key)


def store_subscr(frame: Frame, operand: Any) -> None:
    key, owner, value = frame.stack.pop(), frame.stack.pop(), frame.stack.pop()
    items.set_item(frame.recorder, owner, key, value)


def delete_subscr(frame: Frame, operand: Any) -> None:
    key, owner = frame.stack.pop(), frame.stack.pop()
    items.delete_item(frame.recorder, owner, key)


def binary_slice(frame: Frame, operand: Any) -> None:
    stop, start = frame.stack.pop(), frame.stack.pop()
    frame.stack[-1] = items.get_item(frame.recorder, frame.stack[-1], slice(start, stop))


def store_slice(frame: Frame, operand: Any) -> None:
    stop, start = frame.stack.pop(), frame.stack.pop()
    owner, value = frame.stack.pop(), frame.stack.pop()
    items.set_item(frame.recorder, owner, slice(start, stop), value)


# -- containers -------------------------------------------------------------------------------


def _top(frame: Frame, count: int) -> list[Any]:
    if not count:
        return []
    taken = frame.stack[-count:]
    del frame.stack[-count:]
    return taken


def build_tuple(frame: Frame, count: int) -> None:
    frame.stack.append(tuple(_top(frame, count)))


def build_list(frame: Frame, count: int) -> None:
    frame.stack.append(frame.recorder.new(_top(frame, count)))


def build_set(frame: Frame, count: int) -> None:
    elements = operators.all_hashable(frame.recorder, _top(frame, count))
    frame.stack.append(frame.recorder.new(set(elements)))


def build_map(frame: Frame, count: int) -> None:
    parts = _top(frame, 2 * count)
    keys = operators.all_hashable(frame.recorder, parts[::2])
    frame.stack.append(frame.recorder.new(dict(zip(keys, parts[1::2], strict=True))))


def build_const_key_map(frame: Frame, count: int) -> None:
    keys = frame.stack.pop()
    frame.stack.append(frame.recorder.new(dict(zip(keys, _top(frame, count), strict=True))))


def build_slice(frame: Frame, count: int) -> None:
    frame.stack.append(slice(*_top(frame, count)))


def build_string(frame: Frame, count: int) -> None:
    frame.stack.append(frame.recorder.engine.joined(_top(frame, count)))


def list_append(frame: Frame, depth: int) -> None:
    value = frame.stack.pop()
    frame.stack[-depth].append(value)


def set_add(frame: Frame, depth: int) -> None:
    value = frame.stack.pop()
    elements = frame.stack[-depth]
    elements.add(operators.hashable(frame.recorder, value, elements))


def map_add(frame: Frame, depth: int) -> None:
    value, key = frame.stack.pop(), frame.stack.pop()
    table = frame.stack[-depth]
    table[operators.hashable(frame.recorder, key, table)] = value


def list_extend(frame: Frame, depth: int) -> None:
    given = frame.stack.pop()
    try:
        source = iteration.native(frame.recorder, given)
    except TypeError:
        if not has(type(given), "__iter__") and not has(type(given), "__getitem__"):
            raise TypeError(
                f"Value after * must be an iterable, not {type(given).__name__}"
            ) from None
        raise
    frame.stack[-depth].extend(source)


def set_update(frame: Frame, depth: int) -> None:
    source = iteration.native(frame.recorder, frame.stack.pop())
    elements = frame.stack[-depth]
    for value in source:
        elements.add(operators.hashable(frame.recorder, value, elements))


def dict_update(frame: Frame, depth: int) -> None:
    given = frame.stack.pop()
    if not hasattr(given, "keys"):
        raise TypeError(f"'{type(given).__name__}' object is not a mapping")
    table = frame.stack[-depth]
    for key, value in iteration.mapping(frame.recorder, given).items():
        table[operators.hashable(frame.recorder, key, table)] = value


def dict_merge(frame: Frame, depth: int) -> None:
    given = frame.stack.pop()
    target = frame.stack[-depth]
    name = _called(frame.stack[-depth - 2 - (sys.version_info >= (3, 13))])
    if not hasattr(given, "keys"):
        raise TypeError(f"{name} argument after ** must be a mapping, not {type(given).__name__}")
    for key, value in iteration.mapping(frame.recorder, given).items():
        if key in target:
            raise TypeError(f"{name} got multiple values for keyword argument '{key}'")
        target[key] = value


def _called(fn: Any) -> str:
    """What messages call a function."""
    name, module = getattr(fn, "__qualname__", None), getattr(fn, "__module__", None)
    if name is None:
        return f"{fn!r}"
    return f"{name}()" if module in (None, "builtins") else f"{module}.{name}()"


def list_to_tuple(frame: Frame, operand: Any) -> None:
    frame.stack[-1] = tuple(frame.stack[-1])


def get_len(frame: Frame, operand: Any) -> None:
    frame.stack.append(operators.length(frame.recorder, frame.stack[-1]))


# -- text -------------------------------------------------------------------------------------

_CONVERSIONS = {1: str, 2: repr, 3: ascii}


def format_value(frame: Frame, flags: int) -> None:
    spec = frame.stack.pop() if flags & 4 else ""
    value = frame.stack.pop()
    if flags & 3:
        value = calls.call(frame.recorder, _CONVERSIONS[flags & 3], (value,), {})
    frame.stack.append(calls.call(frame.recorder, format, (value, spec), {}))


def convert_value(frame: Frame, which: int) -> None:
    value = frame.stack.pop()
    frame.stack.append(calls.call(frame.recorder, _CONVERSIONS[which], (value,), {}))


def format_simple(frame: Frame, operand: Any) -> None:
    value = frame.stack.pop()
    if type(value) is not str:
        value = calls.call(frame.recorder, format, (value, ""), {})
    frame.stack.append(value)


def format_with_spec(frame: Frame, operand: Any) -> None:
    spec, value = frame.stack.pop(), frame.stack.pop()
    frame.stack.append(calls.call(frame.recorder, format, (value, spec), {}))


# -- unpacking --------------------------------------------------------------------------------


def unpack_sequence(frame: Frame, count: int) -> None:
    given = frame.stack.pop()
    if type(given) is tuple and len(given) == count:
        frame.stack.extend(reversed(given))
        return
    source = iter(_unpackable(frame, given))
    values: list[Any] = []
    for value in source:
        if len(values) == count:
            raise ValueError(_too_many(given, count))
        values.append(value)
    if len(values) < count:
        raise ValueError(f"not enough values to unpack (expected {count}, got {len(values)})")
    frame.stack.extend(reversed(values))


def _too_many(given: Any, count: int) -> str:
    known = isinstance(given, (tuple, list, dict)) and operators.TELLS_COUNT
    received = f", got {len(given)}" if known else ""
    return f"too many values to unpack (expected {count}{received})"


def unpack_ex(frame: Frame, counts: int) -> None:
    before, after = counts & 255, counts >> 8
    values = list(_unpackable(frame, frame.stack.pop()))
    if len(values) < before + after:
        least = f"expected at least {before + after}"
        raise ValueError(f"not enough values to unpack ({least}, got {len(values)})")
    middle = frame.recorder.new(values[before : len(values) - after])
    parts = [*values[:before], middle, *values[len(values) - after :]]
    frame.stack.extend(reversed(parts))


def _unpackable(frame: Frame, given: Any) -> Any:
    if not has(type(given), "__iter__") and not has(type(given), "__getitem__"):
        raise TypeError(f"cannot unpack non-iterable {type(given).__name__} object")
    return iteration.native(frame.recorder, given)


# -- patterns ---------------------------------------------------------------------------------


def match_mapping(frame: Frame, operand: Any) -> None:
    frame.stack.append(operators.is_instance(frame.recorder, frame.stack[-1], Mapping))


def match_sequence(frame: Frame, operand: Any) -> None:
    given = frame.stack[-1]
    text = isinstance(given, (str, bytes, bytearray))
    frame.stack.append(not text and operators.is_instance(frame.recorder, given, Sequence))


def match_keys(frame: Frame, operand: Any) -> None:
    keys, subject = frame.stack[-1], frame.stack[-2]
    for place, key in enumerate(keys):
        if key in keys[:place]:
            raise ValueError(f"mapping pattern checks duplicate key ({key!r})")
    get = attributes.get(frame.recorder, subject, "get")
    values = [calls.call(frame.recorder, get, (key, MISSING), {}) for key in keys]
    frame.stack.append(None if MISSING in map(_itself, values) else tuple(values))


def _itself(value: Any) -> Any:
    return value if value is MISSING else None


def match_class(frame: Frame, count: int) -> None:
    names, cls, subject = frame.stack.pop(), frame.stack.pop(), frame.stack.pop()
    frame.stack.append(_matched(frame, subject, cls, count, names))


_SELF_MATCHED = (
    bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple
)  # fmt: skip


def _matched(frame: Frame, subject: Any, cls: Any, count: int, names: tuple[str, ...]) -> Any:
    recorder = frame.recorder
    if not isinstance(cls, type):
        raise TypeError("called match pattern must be a class")
    if not operators.is_instance(recorder, subject, cls):
        return None
    parts: list[Any] = []
    if count:
        matched = attributes.class_lookup(recorder, cls, "__match_args__")
        if matched is MISSING:
            if not issubclass(cls, _SELF_MATCHED):
                raise TypeError(
                    f"{cls.__name__}() accepts 0 positional sub-patterns ({count} given)"
                )
            if count > 1:
                raise TypeError(
                    f"{cls.__name__}() accepts 1 positional sub-pattern ({count} given)"
                )
            parts.append(subject)
        else:
            if not isinstance(matched, tuple):
                kind = type(matched).__name__
                raise TypeError(f"{cls.__name__}.__match_args__ must be a tuple (got {kind})")
            if count > len(matched):
                plural = "" if len(matched) == 1 else "s"
                raise TypeError(
                    f"{cls.__name__}() accepts {len(matched)} positional sub-pattern{plural} "
                    f"({count} given)"
                )
            names = (*matched[:count], *names)
    for place, name in enumerate(names):
        if name in names[:place]:
            raise TypeError(f"{cls.__name__}() got multiple sub-patterns for attribute {name!r}")
        try:
            parts.append(attributes.get(recorder, subject, name))
        except AttributeError:
            return None
    return tuple(parts)


# -- functions --------------------------------------------------------------------------------


def make_function(frame: Frame, flags: int) -> None:
    recorder, stack = frame.recorder, frame.stack
    code = stack.pop()
    closure = stack.pop() if flags & 8 else None
    function = types.FunctionType(code, frame.globals, closure=closure)
    if flags & 4:
        noted = stack.pop()
        if isinstance(noted, tuple):
            noted = recorder.new(dict(zip(noted[::2], noted[1::2], strict=True)))
        function.__annotations__ = noted
    if flags & 2:
        function.__kwdefaults__ = stack.pop()
    if flags & 1:
        function.__defaults__ = stack.pop()
    _named(frame, function)
    stack.append(recorder.new(function))


def _named(frame: Frame, function: types.FunctionType) -> None:
    function.__qualname__ = function.__code__.co_qualname
    module = frame.globals.get("__name__")
    if module is not None:
        function.__module__ = module


def make_function_bare(frame: Frame, operand: Any) -> None:
    code = frame.stack.pop()
    closure = tuple(types.CellType() for _ in code.co_freevars) or None
    function = types.FunctionType(code, frame.globals, closure=closure)
    _named(frame, function)
    frame.stack.append(frame.recorder.new(function))


def set_function_attribute(frame: Frame, which: int) -> None:
    stack = frame.stack
    function: Any = stack.pop()
    value = stack.pop()
    if which == 1:
        function.__defaults__ = value
    elif which == 2:
        function.__kwdefaults__ = value
    elif which == 4:
        if isinstance(value, tuple):
            value = frame.recorder.new(dict(zip(value[::2], value[1::2], strict=True)))
        function.__annotations__ = value
    elif which == 8:  # a closure cannot be set afterwards: the function is made again with it
        whole = types.FunctionType(function.__code__, frame.globals, closure=value)
        whole.__defaults__, whole.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
        _named(frame, whole)
        if function.__annotations__:
            whole.__annotations__ = function.__annotations__
        function = frame.recorder.new(whole)
    elif which == 16:
        function.__annotate__ = value
    stack.append(function)


# -- calls ------------------------------------------------------------------------------------


def kw_names(frame: Frame, names: tuple[str, ...]) -> None:
    frame.kw_names = names


def _arguments(frame: Frame, count: int, names: tuple[str, ...]) -> tuple[Any, Any]:
    args = _top(frame, count)
    if not names:
        return tuple(args), {}
    split = count - len(names)
    return tuple(args[:split]), dict(zip(names, args[split:], strict=True))


def call(frame: Frame, count: int) -> None:
    """As 3.11 and 3.12 have it: nothing below what is called, or a method below its object."""
    names, frame.kw_names = frame.kw_names, ()
    args, kwargs = _arguments(frame, count, names)
    fn, below = frame.stack.pop(), frame.stack.pop()
    if below is not NULL:
        fn, args = below, (fn, *args)
    frame.stack.append(calls.call(frame.recorder, fn, args, kwargs))


def call_null_after(frame: Frame, count: int) -> None:
    """As 3.13 has it: nothing, or an object, above what is called."""
    _call_null_after(frame, count, ())


def call_kw(frame: Frame, count: int) -> None:
    _call_null_after(frame, count, frame.stack.pop())


def _call_null_after(frame: Frame, count: int, names: tuple[str, ...]) -> None:
    args, kwargs = _arguments(frame, count, names)
    bound, fn = frame.stack.pop(), frame.stack.pop()
    if bound is not NULL:
        args = (bound, *args)
    frame.stack.append(calls.call(frame.recorder, fn, args, kwargs))


def call_function_ex(frame: Frame, flags: int) -> None:
    """As 3.11 and 3.12 have it."""
    kwargs = frame.stack.pop() if flags & 1 else {}
    given, fn = frame.stack.pop(), frame.stack.pop()
    frame.stack.pop()
    frame.stack.append(_call_spread(frame, fn, given, kwargs))


def call_function_ex_null_after(frame: Frame, flags: int) -> None:
    kwargs = frame.stack.pop() if flags & 1 else {}
    given = frame.stack.pop()
    frame.stack.pop()
    frame.stack.append(_call_spread(frame, frame.stack.pop(), given, kwargs))


def call_function_ex_always(frame: Frame, flags: int) -> None:
    """As 3.14 has it: keywords are always there, or nothing."""
    kwargs = frame.stack.pop()
    given = frame.stack.pop()
    frame.stack.pop()
    kwargs = {} if kwargs is NULL else kwargs
    frame.stack.append(_call_spread(frame, frame.stack.pop(), given, kwargs))


def _call_spread(frame: Frame, fn: Any, given: Any, kwargs: Any) -> Any:
    if type(given) is not tuple:
        if not has(type(given), "__iter__") and not has(type(given), "__getitem__"):
            kind = type(given).__name__
            raise TypeError(f"{_called(fn)} argument after * must be an iterable, not {kind}")
        given = tuple(iteration.native(frame.recorder, given))
    named = dict(iteration.mapping(frame.recorder, kwargs)) if kwargs else {}
    return calls.call(frame.recorder, fn, given, named)


def load_build_class(frame: Frame, operand: Any) -> None:
    frame.stack.append(__build_class__)


_INTRINSICS_1 = {
    5: lambda frame: unary_positive(frame, None),
    6: lambda frame: list_to_tuple(frame, None),
}


def call_intrinsic_1(frame: Frame, which: int) -> None:
    if which == 3:
        from .flow import stop_iteration_error

        stop_iteration_error(frame)
    elif which in _INTRINSICS_1:
        _INTRINSICS_1[which](frame)
    else:
        raise frame.recorder.refuse(
            "type parameters", "the recorder does not follow them", "Define them outside."
        )


_COMMON = (AssertionError, NotImplementedError, tuple, all, any)


def load_common_constant(frame: Frame, which: int) -> None:
    frame.stack.append(_COMMON[which])


def load_small_int(frame: Frame, value: int) -> None:
    frame.stack.append(value)
