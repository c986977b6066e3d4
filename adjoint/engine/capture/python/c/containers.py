"""Methods of dicts, lists, deques and sets: what they read and change, place by place."""

from __future__ import annotations

import collections
from collections.abc import Callable
from itertools import chain
from typing import Any

from adjoint.engine.capture.python.calling import call, unknown
from adjoint.engine.capture.python.exposing import has_python_methods
from adjoint.engine.capture.python.language import attributes, items, iteration, operators
from adjoint.engine.capture.python.locations import Index, Length
from adjoint.engine.capture.python.plain import (
    MISSING,
    can_change,
    count,
    element_at,
    elements,
    is_a,
)
from adjoint.engine.capture.python.recorder import Recorder

from .constructors import pairs
from .functions import ranked
from .texts import text

Handler = Callable[..., Any]
Table = dict[str, Handler]


# -- dict -------------------------------------------------------------------------------------


def _dict_get(recorder: Recorder, table: Any, key: Any, default: Any = None, /) -> Any:
    key = operators.hashable(recorder, key, table)
    value = recorder.item(table, key)
    return default if value is MISSING else value


def _dict_pop(recorder: Recorder, table: Any, key: Any, /, *default: Any) -> Any:
    key = operators.hashable(recorder, key, table)
    value = recorder.item(table, key)
    if value is MISSING:
        if default:
            return default[0]
        raise KeyError(key)
    recorder.drop(table, key)
    return value


def _dict_setdefault(recorder: Recorder, table: Any, key: Any, default: Any = None, /) -> Any:
    key = operators.hashable(recorder, key, table)
    value = recorder.item(table, key)
    if value is MISSING:
        recorder.put(table, key, default)
        return default
    return value


def _dict_update(recorder: Recorder, table: Any, /, *args: Any, **kwargs: Any) -> None:
    for key, value in [*(pairs(recorder, args[0]) if args else ()), *kwargs.items()]:
        recorder.put(table, operators.hashable(recorder, key, table), value)


def _dict_init(recorder: Recorder, table: Any, /, *args: Any, **kwargs: Any) -> None:
    if is_a(table, collections.defaultdict) and args:
        attributes._put_field(recorder, table, "default_factory", args[0])
        args = args[1:]
    _dict_update(recorder, table, *args, **kwargs)


def _dict_ior(recorder: Recorder, table: Any, other: Any, /) -> Any:
    _dict_update(recorder, table, other)
    return table


def _dict_contains(recorder: Recorder, table: Any, key: Any, /) -> bool:
    key = operators.hashable(recorder, key, table)
    return recorder.item(table, key) is not MISSING


def _dict_set(recorder: Recorder, table: Any, key: Any, value: Any, /) -> None:
    key = operators.hashable(recorder, key, table)
    recorder.put(table, key, value)


def _dict_delete(recorder: Recorder, table: Any, key: Any, /) -> None:
    _dict_pop(recorder, table, key)


def _dict_clear(recorder: Recorder, table: Any, /) -> None:
    recorder.change(table, dict.clear)


def _ordered_update(recorder: Recorder, table: Any, /, *args: Any, **kwargs: Any) -> None:
    """C's ordered dict has its heirs' own methods set keys, which a dict does not."""
    for key, value in [*(pairs(recorder, args[0]) if args else ()), *kwargs.items()]:
        items.set_item(recorder, table, key, value)


def _ordered_ior(recorder: Recorder, table: Any, other: Any, /) -> Any:
    _ordered_update(recorder, table, other)
    return table


def _ordered_pop(recorder: Recorder, table: Any, /, key: Any, default: Any = MISSING) -> Any:
    return _dict_pop(recorder, table, key, *(() if default is MISSING else (default,)))


def _ordered_setdefault(recorder: Recorder, table: Any, /, key: Any, default: Any = None) -> Any:
    if type(table) is collections.OrderedDict:
        return _dict_setdefault(recorder, table, key, default)
    if items.contains(recorder, table, key):
        return items.get_item(recorder, table, key)
    items.set_item(recorder, table, key, default)
    return default


def _ordered_reduce(recorder: Recorder, table: Any, /) -> Any:
    """What `copy` makes another of an ordered dict from: its class, attributes and items."""
    own = recorder.attributes(table)
    state = None if not own else recorder.new(dict(own))
    if own:
        recorder.contents(own)
    listed = call(recorder, attributes.get(recorder, table, "items"), (), {})
    return type(table), (), state, None, iteration.iterator(recorder, listed)


def _view(name: str) -> Handler:
    def handler(recorder: Recorder, table: Any, /) -> Any:
        view = getattr(dict if not is_a(table, collections.OrderedDict) else
                       collections.OrderedDict, name)(table)  # fmt: skip
        if recorder.needs_guards(table):
            recorder.views[id(view)] = view, table
        else:
            recorder.new(view)
        return view

    return handler


def _iterated(recorder: Recorder, owner: Any, /) -> Any:
    if is_a(owner, dict):
        recorder.keys(owner)
    else:
        recorder.contents(owner)
    kind: Any = next(c for c in type(owner).__mro__ if not can_change(c))
    return recorder.new(kind.__iter__(owner))


# -- lists, deques, sets ----------------------------------------------------------------------


def _extend(recorder: Recorder, owner: Any, iterable: Any, /) -> None:
    values = recorder.new(list(iteration.native(recorder, iterable)))
    kind = next(c for c in type(owner).__mro__ if not can_change(c))
    recorder.change(owner, kind.extend, values)  # type: ignore[attr-defined]


def _extend_left(recorder: Recorder, owner: Any, iterable: Any, /) -> None:
    values = recorder.new(list(iteration.native(recorder, iterable)))
    recorder.change(owner, collections.deque.extendleft, values)


def _iadd(recorder: Recorder, owner: Any, iterable: Any, /) -> Any:
    _extend(recorder, owner, iterable)
    return owner


def _init(recorder: Recorder, owner: Any, iterable: Any = (), /, *args: Any) -> None:
    values = recorder.new(list(iteration.native(recorder, iterable)))
    if not recorder.writes_to(owner):
        next(c for c in type(owner).__mro__ if not can_change(c)).__init__(owner, values, *args)  # type: ignore[misc]
        return
    recorder.change(owner, list.__init__, values)


def _append(recorder: Recorder, owner: Any, value: Any, /) -> None:
    if recorder.writes_to(owner):
        recorder.journal.grows(owner)
        recorder.effect(list.append, owner, value)
    list.append(owner, value)


def _list_pop(recorder: Recorder, owner: Any, index: Any = -1, /) -> Any:
    index = items.index(recorder, index)
    if not recorder.writes_to(owner):
        return list.pop(owner, index)
    size = count(owner)
    if id(owner) in recorder.journal.copies:
        recorder.contents(owner)
    elif recorder.needs_guards(owner):
        recorder.guard(Length(owner), size)
        if -size <= index < size:
            recorder.guard(Index(owner, index), element_at(owner, index))
    if not -size <= index < size:
        return list.pop(owner, index)  # raises
    return recorder.change(owner, list.pop, index)


def _sort(recorder: Recorder, owner: Any, /, *, key: Any = None, reverse: Any = False) -> None:
    recorder.contents(owner)
    values = list(elements(owner))
    recorder.change(owner, list.clear)  # so that keys and comparisons find it empty, as in Python
    try:
        values = ranked(recorder, values, key, reverse)
    finally:
        changed = list(elements(owner))
        recorder.change(owner, list.__setitem__, slice(None), recorder.new(values))
    if changed:
        raise ValueError("list modified during sort")


def _remove(recorder: Recorder, owner: Any, value: Any, /) -> None:
    recorder.contents(owner)
    for index, element in enumerate(elements(owner)):
        if element is value or operators.truth(
            recorder, operators.compare(recorder, "eq", element, value)
        ):
            kind = collections.deque if is_a(owner, collections.deque) else list
            recorder.change(owner, kind.__delitem__, index)
            return
    raise ValueError("list.remove(x): x not in list" if is_a(owner, list) else
                     "deque.remove(x): x not in deque")  # fmt: skip


def _find(recorder: Recorder, owner: Any, value: Any, /, *bounds: Any) -> int:
    if not is_a(owner, tuple):
        recorder.contents(owner)
    bounds = tuple(recorder.concrete(x) for x in bounds)
    start, stop, _ = slice(
        *(bounds if len(bounds) > 1 else (*bounds, None)) if bounds else (None,)
    ).indices(count(owner))
    for index in range(start, stop):
        element = element_at(owner, index)
        if element is value or operators.truth(
            recorder, operators.compare(recorder, "eq", element, value)
        ):
            return index
    kind = type(owner).__name__
    if is_a(owner, list):
        raise ValueError(f"{text(recorder, value, '__repr__', repr)} is not in list")
    raise ValueError(f"{kind}.index(x): x not in {kind}")


def _count(recorder: Recorder, owner: Any, value: Any, /) -> int:
    if not is_a(owner, tuple):
        recorder.contents(owner)
    return sum(
        element is value
        or operators.truth(recorder, operators.compare(recorder, "eq", element, value))
        for element in list(elements(owner))
    )


def _set_update(recorder: Recorder, owner: Any, /, *sources: Any) -> None:
    for source in sources:
        values = operators.all_hashable(recorder, iteration.native(recorder, source), owner)
        recorder.change(owner, set.update, recorder.new(values))


def _with_iterables(name: str) -> Handler:
    """Methods of sets that take any iterables: those of Python's are followed first."""

    def handler(recorder: Recorder, owner: Any, /, *sources: Any) -> Any:
        if not recorder.is_fresh(owner):
            recorder.contents(owner)
        given = [
            [operators.hashable(recorder, x) for x in iteration.native(recorder, source)]
            for source in sources
        ]
        kind = set if is_a(owner, set) else frozenset
        if any(has_python_methods(recorder, type(x), "__eq__") for x in chain(owner, *given)):
            raise unknown(recorder, getattr(kind, name))
        return operators.new_result(recorder, getattr(kind, name)(owner, *given))

    return handler


_OF_ITERABLES = {
    name: _with_iterables(name)
    for name in (
        "union intersection difference symmetric_difference issubset issuperset isdisjoint".split()
    )
}


def _set_init(recorder: Recorder, owner: Any, /, *source: Any) -> None:
    if len(source) > 1:
        set.__init__(set(), *source)  # raises
    values = [
        x for given in source
        for x in operators.all_hashable(recorder, iteration.native(recorder, given))
    ]  # fmt: skip
    recorder.change(owner, set.clear)
    recorder.change(owner, set.update, recorder.new(values))


def _set_remove(recorder: Recorder, owner: Any, value: Any, /) -> None:
    value = operators.hashable(recorder, value, owner)
    if not recorder.member(owner, value):
        raise KeyError(value)
    recorder.change(owner, set.remove, value)


def _set_contains(recorder: Recorder, owner: Any, value: Any, /) -> bool:
    return items.own_contains(recorder, owner, value)


def _length(recorder: Recorder, owner: Any, /) -> Any:
    return recorder.length(owner)


def _item(recorder: Recorder, owner: Any, key: Any, /) -> Any:
    if is_a(owner, dict):
        return items.dict_item(recorder, owner, key)
    return items.list_item(recorder, owner, key)


def _tuple_length(recorder: Recorder, owner: Any, /) -> int:
    return count(owner)


def _tuple_item(recorder: Recorder, owner: Any, key: Any, /) -> Any:
    return element_at(owner, items.index(recorder, key))


def _set_element(recorder: Recorder, owner: Any, key: Any, value: Any, /) -> None:
    items.set_element(recorder, owner, key, value)


CONTAINERS: dict[Any, Table] = {
    dict: {
        "get": _dict_get, "pop": _dict_pop, "setdefault": _dict_setdefault,
        "update": _dict_update, "__init__": _dict_init, "__ior__": _dict_ior,
        "__contains__": _dict_contains, "__getitem__": _item, "__setitem__": _dict_set,
        "__delitem__": _dict_delete, "clear": _dict_clear, "keys": _view("keys"),
        "values": _view("values"), "items": _view("items"), "__iter__": _iterated,
        "__len__": _length,
    },
    collections.OrderedDict: {
        "__reduce__": _ordered_reduce,
        "update": _ordered_update, "__setitem__": _dict_set, "__delitem__": _dict_delete,
        "pop": _ordered_pop, "setdefault": _ordered_setdefault, "keys": _view("keys"),
        "values": _view("values"), "items": _view("items"), "__iter__": _iterated,
        "__init__": _ordered_update, "__ior__": _ordered_ior,
    },
    collections.defaultdict: {
        "__init__": _dict_init,
        "__missing__": lambda recorder, owner, key, /: items.default_item(recorder, owner, key),
    },
    list: {
        "append": _append, "extend": _extend, "pop": _list_pop, "sort": _sort, "remove": _remove,
        "index": _find, "count": _count, "__iadd__": _iadd, "__init__": _init,
        "__iter__": _iterated, "__len__": _length, "__getitem__": _item,
        "__setitem__": _set_element,
        "__contains__": lambda recorder, owner, key, /: items.own_contains(recorder, owner, key),
    },
    tuple: {
        "index": _find, "count": _count, "__len__": _tuple_length, "__getitem__": _tuple_item,
        "__iter__": lambda recorder, owner, /: recorder.new(elements(owner)),
        "__contains__": lambda recorder, owner, key, /: items.own_contains(recorder, owner, key),
    },
    collections.deque: {
        "extend": _extend, "extendleft": _extend_left, "__iadd__": _iadd, "remove": _remove,
        "index": _find, "count": _count, "__init__": _init, "__iter__": _iterated,
        "__len__": _length, "__getitem__": _item, "__setitem__": _set_element,
    },
    frozenset: _OF_ITERABLES,
    set: {
        **_OF_ITERABLES,
        "update": _set_update, "remove": _set_remove, "__contains__": _set_contains,
        "__iter__": _iterated, "__len__": _length, "__init__": _set_init,
    },
}  # fmt: skip
