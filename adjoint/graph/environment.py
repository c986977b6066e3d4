"""What a function can see besides its arguments, as a value that changes when it changes.

A captured function is valid while the tensors it reaches through closures, globals, defaults and
attributes are the same objects and the plain values it finds there are equal. Replacing a
parameter or changing a flag therefore retraces; changing a tensor's elements does not.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

from adjoint.core.record import is_tensor

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_DEPTH = 8


class Fingerprint:
    """The reachable tensors and values, comparable; it keeps what it names alive."""

    __slots__ = ("entries", "kept")

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.entries: list[Any] = []
        self.kept: list[Any] = []  # so that ids stay unique
        seen: set[int] = set()
        for name, value in _reached(fn):
            self._add(name, value, seen, 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fingerprint) and self.entries == other.entries

    __hash__ = None  # type: ignore[assignment]

    def storages(self) -> set[Any]:
        """The storages of the tensors within reach."""
        return {x._storage for x in self.kept if is_tensor(x)}

    def _add(self, name: Any, value: Any, seen: set[int], depth: int) -> None:
        if isinstance(value, _PLAIN):
            # The type too: True == 1 == 1.0, yet they promote differently.
            self.entries.append((name, type(value), repr(value) if value != value else value))
            return
        self.entries.append((name, id(value)))
        self.kept.append(value)
        if id(value) in seen or depth > _DEPTH or is_tensor(value):
            return
        seen.add(id(value))
        if isinstance(value, dict):
            children: Any = list(value.items())
        elif isinstance(value, (list, tuple, set, frozenset)):
            children = enumerate(value)
        elif isinstance(value, types.FunctionType):
            children = _reached(value)
        elif isinstance(value, types.MethodType):
            children = [("self", value.__self__), ("fn", value.__func__)]
        elif isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)):
            return
        else:
            children = list(getattr(value, "__dict__", {}).items())
        for key, child in children:
            self._add(key if isinstance(key, (str, int)) else id(key), child, seen, depth + 1)


def _reached(fn: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Closure cells, globals the code names, defaults and the bound object of a callable."""
    if isinstance(fn, types.MethodType):
        yield "self", fn.__self__
        fn = fn.__func__
    if not isinstance(fn, types.FunctionType):
        yield "object", fn
        return
    if fn.__module__.partition(".")[0] == __name__.partition(".")[0]:
        return  # the framework's own functions do not change
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not yet bound
            yield name, None
    for name in _names(fn.__code__):
        if name in fn.__globals__:
            yield name, fn.__globals__[name]
    yield from enumerate(fn.__defaults__ or ())
    yield from (fn.__kwdefaults__ or {}).items()


def _names(code: types.CodeType) -> set[str]:
    """Global names used by a code object and the functions defined in it."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found
