"""What Python code can see: the variables and attributes it names, and what is found there.

Note [names]
    A recording depends on whatever the code it ran could read: variables of enclosing functions,
    globals and defaults of the functions within reach; attributes of objects, classes and modules.
    An attribute counts where code within reach names it, so a trainer may count its steps and keep
    its losses beside a compiled method that never looks at them. Code that reads by other means
    (`getattr`, `vars`) is taken to name every attribute. A method is within reach where it is
    named; those that operators or the framework call always are.

    The framework's own functions and Python's library do not change and are not looked into.
"""

from __future__ import annotations

import argparse
import dis
import functools
import os
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from adjoint.engine.core.state.host import is_host

PLAIN = (bool, int, float, complex, str, bytes, type(None))
DEPTH = 32  # how far objects are followed
COMPILED = "__compiled__"  # the attribute under which an object keeps its compiled methods
CONTAINERS = (list, tuple, set, frozenset, deque)
_OPAQUE: tuple[type, ...] = (
    types.BuiltinFunctionType,
    types.GetSetDescriptorType,
    types.MappingProxyType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
)
_BAGS = (types.SimpleNamespace, argparse.Namespace)  # of the library, and nothing but attributes
# Ways to read an attribute without naming it.
_BY_OTHER_MEANS = frozenset(
    "getattr hasattr setattr delattr vars dir eval exec globals locals __dict__ __getattribute__ "
    "attrgetter methodcaller asdict astuple replace copy deepcopy fields".split()
)
_OF_NO_CONSEQUENCE = frozenset(
    "__module__ __dict__ __weakref__ __doc__ __qualname__ __annotations__ __slots__ __match_args__ "
    "__firstlineno__ __static_attributes__ __dataclass_fields__ __dataclass_params__ "
    "__abstractmethods__ _abc_impl __parameters__ __orig_bases__ __repr__ __str__ __del__ "
    "__getstate__ __setstate__ __reduce__ __reduce_ex__ __annotate__ __annotate_func__ "
    "__annotations_cache__ __type_params__".split()
) | {COMPILED}
_LIBRARY = os.path.dirname(os.__file__)  # the folder of Python's library
_CONSTRUCTORS = frozenset({"__init__", "__new__", "__post_init__"})


T = TypeVar("T")


def per_class(find: Callable[[type], T]) -> Callable[[type], T]:
    """Have something found out once for each class that is alive."""
    known: weakref.WeakKeyDictionary[type, T] = weakref.WeakKeyDictionary()

    @functools.wraps(find)
    def found(cls: type) -> T:
        held = known.get(cls)
        if held is None:
            held = known[cls] = find(cls)
        return held

    return found


def plain(value: Any) -> bool:
    """Whether a value is immutable through and through: compared, not identified."""
    if isinstance(value, tuple):
        return type(value) is tuple and all(map(plain, value))
    return isinstance(value, PLAIN) and not is_host(value)


def is_tracked(value: Any) -> bool:
    """Whether an object moves the epoch on every change to its attributes (a Module).

    Its class then names the attributes that do not matter in `_moves_epoch`.
    """
    return hasattr(type(value), "_moves_epoch")


def is_own(fn: Any) -> bool:
    """Whether a function or class is the framework's own: these do not change."""
    return (fn.__module__ or "").partition(".")[0] == __name__.partition(".")[0]


class Names:
    """The attributes that code within reach names; it only grows."""

    def __init__(self) -> None:
        self.codes: set[types.CodeType] = set()
        self.named: set[str] = set()
        self.every = False

    def add(self, fn: types.FunctionType) -> None:
        """Take note of a function within reach."""
        if fn.__code__ not in self.codes and not is_own(fn):
            self._add(fn.__code__)

    def _add(self, code: types.CodeType) -> None:
        self.codes.add(code)
        self.named.update(code.co_names, code.co_freevars)
        self.every = self.every or not _BY_OTHER_MEANS.isdisjoint(code.co_names)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._add(constant)
            elif isinstance(constant, tuple):  # patterns of `match` name attributes so
                self.named.update(x for x in constant if isinstance(x, str))

    def __contains__(self, name: Any) -> bool:
        return self.every or name in self.named


def children(value: Any, names: Names) -> Iterable[tuple[Any, Any]]:
    """The parts of a value that code with these names can look into."""
    if isinstance(value, types.FunctionType):
        return reached(value)
    if isinstance(value, types.MethodType):
        return [("self", value.__self__), ("fn", value.__func__)]
    if isinstance(value, type):
        return class_parts(value, names)
    if isinstance(value, types.ModuleType):
        return module_parts(value, names)
    if isinstance(value, functools.partial):
        return [("func", value.func), ("args", value.args), ("keywords", value.keywords)]
    if isinstance(value, property):
        return [("fget", value.fget), ("fset", value.fset)]
    if isinstance(value, (staticmethod, classmethod)):
        return [("fn", value.__func__)]
    if isinstance(value, functools.cached_property):
        return [("func", value.func)]
    if isinstance(value, _OPAQUE):
        return ()
    found = _contents(value, names)
    return [*found, ("class", type(value))] if is_users(type(value)) else found


def _contents(value: Any, names: Names) -> Iterable[tuple[Any, Any]]:
    if hasattr(type(value), "capture_children"):  # says itself what a capture depends on
        return list(value.capture_children())
    own = attributes(value, names)
    if isinstance(value, dict):
        return [*value.items(), *own]
    if isinstance(value, CONTAINERS):
        return [*enumerate(value), *own]
    return own


def attributes(value: Any, names: Names) -> list[tuple[str, Any]]:
    """The attributes of an object that the names show."""
    own = getattr(value, "__dict__", None)
    found = list(own.items()) if isinstance(own, dict) else []
    kind = type(value)
    found += [(name, getattr(value, name)) for name in slots(kind) if hasattr(value, name)]
    if names.every or not (is_users(kind) or isinstance(value, _BAGS)):
        return [item for item in found if item[0] != COMPILED]
    return [item for item in found if item[0] in names.named or item[0] in own_names(kind)]


@per_class
def slots(cls: type) -> tuple[str, ...]:
    """The attributes that instances of a user's class keep in slots."""
    found: list[str] = []
    for base in cls.__mro__:
        given = base.__dict__.get("__slots__", ()) if is_users(base) else ()
        for name in (given,) if isinstance(given, str) else given:
            private = name.startswith("__") and not name.endswith("__")
            found.append(f"_{base.__name__.lstrip('_')}{name}" if private else name)
    return tuple(name for name in found if name not in ("__dict__", "__weakref__"))


def class_parts(cls: type, names: Names) -> list[tuple[str, Any]]:
    """What of a user's class code can see: data and methods that are named, and its bases."""
    if not is_users(cls):
        return []
    own = own_names(cls)
    called = _is_called(cls)
    found: list[tuple[str, Any]] = [(base.__name__, base) for base in cls.__bases__]
    for name, value in vars(cls).items():
        if name in _OF_NO_CONSEQUENCE or isinstance(value, _OPAQUE):
            continue
        if name in _CONSTRUCTORS:
            shown = cls.__name__ in names.named
        elif isinstance(value, types.FunctionType) and name.startswith("__"):
            shown = value.__code__.co_filename != "<string>"  # else made by `dataclass`
        else:
            code = isinstance(value, (types.FunctionType, staticmethod, classmethod))
            shown = name in names or name in own or (called and code)
        if shown:
            found.append((name, value))
    return found


def class_names(cls: type, names: Names) -> list[str]:
    """What of a user's class and its bases code can see, by name."""
    found: dict[str, None] = {}
    for base in cls.__mro__:
        own = vars(base)
        found.update(dict.fromkeys(name for name, _ in class_parts(base, names) if name in own))
    return list(found)


def _is_called(cls: type) -> bool:
    """Whether the framework may call any method: of all its base classes but modules."""
    return not hasattr(cls, "_moves_epoch") and any(map(is_own, cls.__mro__))


@per_class
def own_names(cls: type) -> frozenset[str]:
    """The attributes that the framework's classes among the bases of a class name."""
    found: set[str] = set()
    for base in cls.__mro__:
        for value in vars(base).values() if is_own(base) else ():
            fn = getattr(value, "__func__", getattr(value, "fget", value))
            if isinstance(fn, types.FunctionType):
                found.update(fn.__code__.co_names)
    return frozenset(found)


def module_parts(module: types.ModuleType, names: Names) -> list[tuple[str, Any]]:
    """What of a user's module is named."""
    if _is_library(module.__name__) or "site-packages" in (getattr(module, "__file__", "") or ""):
        return []
    own = vars(module)
    return [(name, own[name]) for name in sorted(names.named) if name in own]


def is_users(cls: type) -> bool:
    """Whether a class is neither the framework's nor the library's."""
    return not _is_library(cls.__module__)


@functools.lru_cache(maxsize=2048)
def _is_library(module: str) -> bool:
    """Whether a module is the framework's or one of Python's library."""
    top = module.partition(".")[0]
    if top in (__name__.partition(".")[0], "builtins"):
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return top in sys.stdlib_module_names
    return file.startswith(_LIBRARY) and "site-packages" not in file


def reached(fn: Callable[..., Any]) -> Iterator[tuple[Any, Any]]:
    """Closure cells, globals the code names, defaults and the bound object of a callable."""
    if isinstance(fn, types.MethodType):
        yield "self", fn.__self__
        fn = fn.__func__
    if not isinstance(fn, types.FunctionType):
        yield "object", fn
        return
    if is_own(fn):
        return
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not yet bound
            yield name, None
    for name in names_read(fn.__code__):
        if name in fn.__globals__:
            yield name, fn.__globals__[name]
    for name in names_imported(fn.__code__):
        if name in sys.modules:
            yield name, sys.modules[name]
    yield from enumerate(fn.__defaults__ or ())
    yield from (fn.__kwdefaults__ or {}).items()


def names_read(code: types.CodeType) -> frozenset[str]:
    """Global names read by a code object and the functions defined in it.

    Not every name in it: `optimizer.step()` does not read a global called `step`.
    """
    return _global_names(code)[0]


def names_stored(code: types.CodeType) -> frozenset[str]:
    """Global names assigned by a code object and the functions defined in it."""
    return _global_names(code)[1]


def names_imported(code: types.CodeType) -> frozenset[str]:
    """Modules imported by a code object and the functions defined in it."""
    return _global_names(code)[2]


_LOAD_GLOBAL, _LOAD_NAME, _STORE_GLOBAL, _IMPORT_NAME, _EXTENDED = map(
    dis.opmap.__getitem__,
    ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "IMPORT_NAME", "EXTENDED_ARG"),
)


@functools.lru_cache(maxsize=2048)
def _global_names(code: types.CodeType) -> tuple[frozenset[str], ...]:
    """Global names read and assigned, modules imported; `dis` says so too, but slowly."""
    read: set[str] = set()
    stored: set[str] = set()
    imported: set[str] = set()
    names, text, high = code.co_names, code.co_code, 0
    for op, low in zip(text[::2], text[1::2], strict=True):
        argument = high | low
        high = argument << 8 if op == _EXTENDED else 0
        if op == _LOAD_GLOBAL:
            read.add(names[argument >> 1])  # the lowest bit says how it is called
        elif op == _LOAD_NAME:
            read.add(names[argument])
        elif op == _STORE_GLOBAL:
            stored.add(names[argument])
        elif op == _IMPORT_NAME:
            imported.add(names[argument])
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            read |= names_read(constant)
            stored |= names_stored(constant)
            imported |= names_imported(constant)
    return frozenset(read), frozenset(stored), frozenset(imported)
