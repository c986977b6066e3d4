"""Attributes: looked up as Python does, each place that was looked at a guard."""

from __future__ import annotations

import importlib.util
import sys
import types
import weakref
from typing import Any

from adjoint.engine.capture.python.calling import call, is_python
from adjoint.engine.capture.python.locations import Answer, ClassAttribute, Item, Kind, Order, Slot
from adjoint.engine.capture.python.plain import MISSING, can_change, has, is_a, is_plain
from adjoint.engine.capture.python.recorder import Recorder

_GETATTRIBUTES = {
    object.__getattribute__,
    type.__getattribute__,
    types.ModuleType.__getattribute__,
    super.__getattribute__,
    dict.__getattribute__,
    list.__getattribute__,
}
PROXIES = frozenset({weakref.ProxyType, weakref.CallableProxyType})
_OF_FRAMES = frozenset({"gi_code", "gi_frame", "gi_yieldfrom"})
_FIELDS = (types.MemberDescriptorType, types.GetSetDescriptorType)


# -- classes ----------------------------------------------------------------------------------


def class_lookup(recorder: Recorder, cls: type, name: str) -> Any:
    """What the classes in `cls.__mro__` say a name is, unbound; MISSING if nothing."""
    known = recorder.lookups.get((cls, name), recorder)
    if known is not recorder:
        return known
    value = _find(recorder, cls.__mro__, name)
    recorder.lookups[cls, name] = value
    if _is_watched(recorder, cls) and not recorder.engine.keeps(cls):
        recorder.guard(Order(cls), cls.__mro__)
    return value


def _find(recorder: Recorder, classes: tuple[type, ...], name: str) -> Any:
    for cls in classes:
        value = type.__dict__["__dict__"].__get__(cls).get(name, MISSING)
        if _is_watched(recorder, cls) and not recorder.journal.has_field(cls, name):
            value = recorder.read(ClassAttribute(cls, name), value)
        if value is not MISSING:
            return value
    return MISSING


def _is_watched(recorder: Recorder, cls: type) -> bool:
    """Whether somebody may give a class other attributes."""
    return can_change(cls) and not recorder.is_fresh(cls)


def _is_outside(recorder: Recorder, obj: Any, name: str) -> bool:
    """Whether an attribute of an object is as it was before, and may change."""
    return (
        recorder.needs_guards(obj)
        and not recorder.is_fresh(obj)
        and not recorder.journal.has_field(obj, name)
    )


def kind_of(recorder: Recorder, obj: Any) -> type:
    """The class of an object, which can be set to another one."""
    cls = type(obj)
    if (
        can_change(cls)
        and id(obj) not in recorder.kinds
        and not recorder.engine.keeps(cls)
        and _is_outside(recorder, obj, "__class__")
    ):
        recorder.guard(Kind(obj), cls)
        recorder.kinds.add(id(obj))
    return cls


def special(recorder: Recorder, obj: Any, name: str) -> Any:
    """A special method, bound, looked up on the class alone; MISSING if there is none."""
    cls = kind_of(recorder, obj)
    method = class_lookup(recorder, cls, name)
    return MISSING if method is MISSING else bind(recorder, method, obj, cls)


# -- reading ----------------------------------------------------------------------------------


def get(recorder: Recorder, obj: Any, name: str) -> Any:
    """`obj.name`."""
    cls = type(obj)
    on_class = recorder.ordinary.get((cls, name), recorder)
    if on_class is not recorder:
        return _ordinary(recorder, obj, name, on_class)
    if cls is types.ModuleType:
        return _of_module(recorder, obj, name)
    if recorder.engine.is_symbol(obj):
        return getattr(recorder.concrete(obj), name)
    if cls is super:
        return _of_super(recorder, obj, name)
    if recorder.engine.owns(obj) and not (is_a(obj, type) and not recorder.engine.keeps(obj)):
        if name == "__dict__" and recorder.engine.is_given(obj):
            recorder.engine.identified(recorder, obj)
        on_class = class_lookup(recorder, cls, name)
        if on_class is MISSING and not is_a(obj, type):
            table = recorder.attributes(obj) if recorder.engine.lets_in(obj) else None
            value = MISSING if table is None else recorder.item(table, name)
            if table is not None:
                recorder.asked_for(obj, table, name)
            if value is not MISSING:
                return value
        users = type(on_class) is types.FunctionType and not recorder.engine.runs(on_class)
        if not users and not (
            type(on_class) is property and not recorder.engine.runs(on_class.fget)
        ):
            return recorder.engine.attribute(recorder, obj, name)
    if cls in PROXIES:
        return get(recorder, referent(recorder, obj), name)
    getter = class_lookup(recorder, kind_of(recorder, obj), "__getattribute__")
    if getter not in _GETATTRIBUTES:
        if is_python(recorder, getter):
            return _or_getattr(recorder, obj, name, lambda: call(recorder, getter, (obj, name), {}))
        if is_a(obj, types.ModuleType):
            return _of_module(recorder, obj, name)
    if is_a(obj, type):
        return _or_getattr(recorder, obj, name, lambda: _of_class(recorder, obj, name))
    on_class = class_lookup(recorder, cls, name)
    if getter is object.__getattribute__ and (
        on_class is MISSING or not is_data(recorder, on_class)
    ):
        recorder.ordinary[cls, name] = on_class
        return _ordinary(recorder, obj, name, on_class)
    if cls is types.MethodType and on_class is MISSING:
        return get(recorder, obj.__func__, name)  # a method has what its function has
    try:
        return generic(recorder, obj, name)
    except AttributeError as error:
        caught = error
    return _getattr(recorder, obj, name, caught)


def referent(recorder: Recorder, proxy: Any) -> Any:
    """The object that a weak proxy stands for, which it has to be in each call."""
    target = _proxied(proxy)
    reference = weakref.ref(target)
    if not recorder.is_fresh(target):
        recorder.guard(Answer(_proxied_id, (proxy,)), id(target))
        if id(target) not in recorder.ways.locations:
            recorder.weakly.setdefault(id(target), reference)
    recorder.alive.append(target)
    return target


def _proxied(proxy: Any) -> Any:
    return proxy.__sizeof__.__self__  # a proxy passes everything on but its class


def _proxied_id(proxy: Any) -> int | None:
    try:
        return id(_proxied(proxy))
    except ReferenceError:
        return None


def _ordinary(recorder: Recorder, obj: Any, name: str, on_class: Any) -> Any:
    """An attribute that an object may have itself; `on_class` is what its class has."""
    kind_of(recorder, obj)
    table = recorder.attributes(obj)
    if table is not None:
        value = recorder.item(table, name)
        if value is not MISSING:
            return value
    if on_class is not MISSING:
        try:
            return bind(recorder, on_class, obj, type(obj))
        except AttributeError as error:
            caught = error
    else:
        caught = _no_attribute(obj, name)
    return _getattr(recorder, obj, name, caught)


def _or_getattr(recorder: Recorder, obj: Any, name: str, find: Any) -> Any:
    try:
        return find()
    except AttributeError as error:
        caught = error
    return _getattr(recorder, obj, name, caught)


def _getattr(recorder: Recorder, obj: Any, name: str, error: AttributeError) -> Any:
    """What `__getattr__` says, where nothing was found."""
    fallback = class_lookup(recorder, type(obj), "__getattr__")
    if fallback is MISSING:
        raise error
    return call(recorder, bind(recorder, fallback, obj, type(obj)), (name,), {})


def generic(recorder: Recorder, obj: Any, name: str) -> Any:
    """What `object.__getattribute__` does."""
    cls = kind_of(recorder, obj)
    on_class = class_lookup(recorder, cls, name)
    if on_class is not MISSING and is_data(recorder, on_class):
        return bind(recorder, on_class, obj, cls)
    table = recorder.attributes(obj)
    if table is not None:
        value = recorder.item(table, name)
        if value is not MISSING:
            return value
    if on_class is not MISSING:
        return bind(recorder, on_class, obj, cls)
    raise _no_attribute(obj, name)


def _no_attribute(obj: Any, name: str) -> AttributeError:
    try:
        object.__getattribute__(obj, name)
    except AttributeError as error:
        return error.with_traceback(None)
    kind = type(obj).__name__
    return AttributeError(f"'{kind}' object has no attribute '{name}'", name=name, obj=obj)


def is_data(recorder: Recorder, descriptor: Any) -> bool:
    """Whether a descriptor comes before the object's own attributes."""
    kind = type(descriptor)
    if kind is types.FunctionType or recorder.engine.is_symbol(descriptor):
        return False
    if kind is property or kind in _FIELDS:
        return True
    if not can_change(kind):
        return has(kind, "__set__") or has(kind, "__delete__")
    return (
        class_lookup(recorder, kind, "__set__") is not MISSING
        or class_lookup(recorder, kind, "__delete__") is not MISSING
    )


def bind(recorder: Recorder, on_class: Any, obj: Any, cls: type) -> Any:
    """What a value found on a class is to an object of it."""
    kind = type(on_class)
    if kind is types.FunctionType:
        return types.MethodType(on_class, obj)
    if recorder.engine.is_symbol(on_class):
        return on_class
    if kind is property:
        getter = on_class.fget
        if getter is None:
            return on_class.__get__(obj, cls)  # raises
        return call(recorder, getter, (obj,), {})
    if kind in _FIELDS:
        return field(recorder, obj, on_class)
    if kind is staticmethod:
        return on_class.__func__
    if kind is classmethod:
        inner = on_class.__func__
        if type(inner) is types.FunctionType:
            return types.MethodType(inner, cls)
        return bind(recorder, inner, cls, type(cls)) if hasattr(inner, "__get__") else inner
    return got(recorder, on_class, obj, cls)


def got(recorder: Recorder, descriptor: Any, obj: Any, cls: type) -> Any:
    """What a descriptor's `__get__` gives; without one, the value itself."""
    kind = type(descriptor)
    if not can_change(kind):
        getter = getattr(kind, "__get__", None)
        return descriptor if getter is None else getter(descriptor, obj, cls)
    getter = class_lookup(recorder, kind, "__get__")
    if getter is MISSING:
        return descriptor
    return call(recorder, getter, (descriptor, obj, cls), {})


def field(recorder: Recorder, obj: Any, descriptor: Any) -> Any:
    """An attribute that C keeps: a slot, `__dict__`, a part of a builtin object."""
    name = descriptor.__name__
    if name in _OF_FRAMES and type(obj) is types.GeneratorType:
        raise recorder.refuse(
            f"{name} of a generator", "the recorder executes it in frames of its own",
            "Look at the generator outside.",
        )  # fmt: skip
    if name == "__dict__" and not is_a(obj, type):
        table = recorder.attributes(obj)
        if table is not None:
            return table
    if name == "__class__":
        return kind_of(recorder, obj)
    value = Slot(obj, descriptor).now()
    if value is MISSING:
        if _is_outside(recorder, obj, name):
            recorder.guard(Slot(obj, descriptor), MISSING)
        return descriptor.__get__(obj, type(obj))  # raises
    if recorder.is_fresh(obj) or not recorder.needs_guards(obj) or is_plain(obj):
        return value
    if recorder.journal.has_field(obj, name):
        return value
    if is_plain(value) or Slot(obj, descriptor).now() is value:
        return recorder.read(Slot(obj, descriptor), value)
    if type(value) is types.MappingProxyType:  # a class's dict
        recorder.views[id(value)] = value, obj
        return value
    raise recorder.refuse(
        f"{type(obj).__name__}.{name}",
        "it is made anew whenever it is read, so a recording cannot tell whether it changed",
        "Read it outside and pass the result.",
    )


def _of_class(recorder: Recorder, cls: type, name: str) -> Any:
    """What `type.__getattribute__` does."""
    meta = type(cls)
    above = class_lookup(recorder, meta, name)
    if above is not MISSING and is_data(recorder, above):
        if type(above) in _FIELDS:
            return _class_field(recorder, cls, name)
        return bind(recorder, above, cls, meta)
    attribute = class_lookup(recorder, cls, name)
    if attribute is not MISSING:
        kind = type(attribute)
        if (
            recorder.engine.is_symbol(attribute)
            or kind is types.FunctionType
            or kind is property
            or kind in _FIELDS
        ):
            return attribute
        if kind is staticmethod or kind is classmethod:
            return bind(recorder, attribute, None, cls)
        return got(recorder, attribute, None, cls)
    if above is not MISSING:
        return bind(recorder, above, cls, meta)
    return type.__getattribute__(cls, name)  # raises


def _class_field(recorder: Recorder, cls: type, name: str) -> Any:
    value = getattr(cls, name)
    if not can_change(cls) or recorder.is_fresh(cls) or recorder.engine.keeps(cls):
        return value
    if name == "__dict__":
        recorder.views[id(value)] = value, cls
        recorder.alive.append(value)
        return value
    return recorder.guard(Answer(getattr, (cls, name)), value)


def _of_module(recorder: Recorder, module: Any, name: str) -> Any:
    table = module.__dict__
    if name not in table and recorder.engine.runs(table.get("__getattr__")):
        getattr(module, name, None)  # the engine loads its own when it is asked for
    value = recorder.item(table, name)
    if value is not MISSING:
        return value
    if hasattr(types.ModuleType, name):
        return getattr(module, name)
    fallback = recorder.item(table, "__getattr__")
    if fallback is MISSING:
        return types.ModuleType.__getattribute__(module, name)  # raises
    return call(recorder, fallback, (name,), {})


def _of_super(recorder: Recorder, view: Any, name: str) -> Any:
    start, obj, cls = view.__thisclass__, view.__self__, view.__self_class__
    if obj is not None and name != "__class__":
        order = cls.__mro__
        class_lookup(recorder, cls, "__mro__")  # guards the order
        attribute = _find(recorder, order[order.index(start) + 1 :], name)
        if attribute is not MISSING:
            if obj is cls and type(attribute) is types.FunctionType:
                return attribute
            return bind(recorder, attribute, None if obj is cls else obj, cls)
    return object.__getattribute__(view, name) if name == "__class__" else getattr(view, name)


# -- writing ----------------------------------------------------------------------------------


def put(recorder: Recorder, obj: Any, name: str, value: Any) -> None:
    """`obj.name = value`."""
    if recorder.engine.is_symbol(obj):
        setattr(recorder.concrete(obj), name, value)  # raises
    if type(obj) in PROXIES:
        obj = referent(recorder, obj)
    cls = kind_of(recorder, obj)
    setter = class_lookup(recorder, cls, "__setattr__")
    if is_python(recorder, setter) or _is_borrowed(setter):
        call(recorder, setter, (obj, name, value), {})
    else:
        generic_put(recorder, obj, name, value)


def drop(recorder: Recorder, obj: Any, name: str) -> None:
    """`del obj.name`."""
    if type(obj) in PROXIES:
        obj = referent(recorder, obj)
    cls = kind_of(recorder, obj)
    deleter = class_lookup(recorder, cls, "__delattr__")
    if is_python(recorder, deleter) or _is_borrowed(deleter):
        call(recorder, deleter, (obj, name), {})
    else:
        generic_put(recorder, obj, name, MISSING)


def _is_borrowed(method: Any) -> bool:
    """Whether a class has another method of C's set its attributes: `dict.__setitem__`."""
    borrowed = is_a(method, (types.WrapperDescriptorType, types.MethodDescriptorType))
    return borrowed and method.__name__ not in ("__setattr__", "__delattr__")


def set_attribute(obj: Any, name: str, value: Any) -> None:
    """Set or delete an attribute as C does, past any `__setattr__` of Python's."""
    kind = type if is_a(obj, type) else object
    if value is MISSING:
        kind.__delattr__(obj, name)
    else:
        kind.__setattr__(obj, name, value)


def generic_put(recorder: Recorder, obj: Any, name: str, value: Any) -> None:
    """What `object.__setattr__`, `type.__setattr__` and their deletions do."""
    cls = type(obj)
    if is_a(obj, type):
        _put_class(recorder, obj, name, value)
        return
    on_class = class_lookup(recorder, cls, name)
    kind = type(on_class)
    if on_class is not MISSING and is_data(recorder, on_class):
        if kind is property:
            _put_property(recorder, obj, on_class, value)
        elif kind in _FIELDS or not can_change(kind):
            _put_field(recorder, obj, name, value)
        else:
            method = "__delete__" if value is MISSING else "__set__"
            setter = class_lookup(recorder, kind, method)
            if setter is MISSING:
                raise AttributeError(method)
            args = (on_class, obj) if value is MISSING else (on_class, obj, value)
            call(recorder, setter, args, {})
        return
    if recorder.engine.owns(obj) and recorder.engine.sets(recorder, obj, name, value):
        return
    table = recorder.attributes(obj)
    if table is None:
        set_attribute(obj, name, value)  # raises
    elif value is MISSING:
        if recorder.item(table, name) is MISSING:
            set_attribute(obj, name, value)  # raises
        recorder.drop(table, name)
    else:
        recorder.put(table, name, value)


def _put_property(recorder: Recorder, obj: Any, descriptor: Any, value: Any) -> None:
    setter = descriptor.fdel if value is MISSING else descriptor.fset
    given = (obj,) if value is MISSING else (obj, value)
    if setter is None:
        name = "__delete__" if value is MISSING else "__set__"
        getattr(property, name)(descriptor, *given)  # raises
    call(recorder, setter, given, {})


def _put_field(recorder: Recorder, obj: Any, name: str, value: Any) -> None:
    """A slot, or a part of a builtin object."""
    if recorder.is_fresh(obj):
        recorder.writes_to(obj)
        set_attribute(obj, name, value)
        return
    if recorder.engine.owns(obj) and recorder.engine.sets(recorder, obj, name, value):
        return
    before = getattr(obj, name, MISSING)
    if value is MISSING:
        get(recorder, obj, name)
    recorder.put_field(obj, name, before, set_attribute, value)


def _put_class(recorder: Recorder, cls: type, name: str, value: Any) -> None:
    meta = type(cls)
    above = class_lookup(recorder, meta, name)
    if above is not MISSING and is_data(recorder, above) and type(above) is property:
        _put_property(recorder, cls, above, value)
        return
    before = type.__dict__["__dict__"].__get__(cls).get(name, MISSING)
    recorder.lookups.clear()
    recorder.ordinary.clear()
    if not can_change(cls):
        set_attribute(cls, name, value)  # raises
    if value is MISSING and before is not MISSING:
        recorder.guard(ClassAttribute(cls, name), before)
    recorder.put_field(cls, name, before, set_attribute, value)


# -- imports ----------------------------------------------------------------------------------


def imported(
    recorder: Recorder, variables: dict[str, Any], name: str, from_list: Any, level: int
) -> Any:
    """The module an import statement names; what is imported already is a guard."""
    package = variables.get("__package__") or ""
    full = importlib.util.resolve_name("." * level + name, package) if level else name
    module = __import__(name, variables, None, from_list or (), level)
    recorder.guard(Item(sys.modules, full), sys.modules.get(full, MISSING))
    if module.__name__ != full and module.__name__ in sys.modules:
        recorder.guard(Item(sys.modules, module.__name__), module)
    return module


def import_from(recorder: Recorder, module: Any, name: str) -> Any:
    """`from module import name`."""
    try:
        return get(recorder, module, name)
    except AttributeError:
        pass
    full = f"{module.__name__}.{name}"
    submodule = sys.modules.get(full)
    if submodule is None:
        where = getattr(module, "__file__", None) or "unknown location"
        raise ImportError(
            f"cannot import name {name!r} from {module.__name__!r} ({where})",
            name=module.__name__,
            path=where,
        )
    return recorder.guard(Item(sys.modules, full), submodule)
