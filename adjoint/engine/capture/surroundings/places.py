"""Places a function can assign to besides modules' attributes, as tables of names and values."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from adjoint.engine.capture.surroundings.reach import is_own, is_users, names_stored, slots

MISSING = object()  # stands for what is not there


class Table(Protocol):
    """As much of a dict as is needed."""

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Names and what they hold now."""

    def get(self, name: Any, default: Any = None, /) -> Any:
        """What a name holds."""

    def __setitem__(self, name: Any, value: Any, /) -> None: ...

    def __delitem__(self, name: Any, /) -> None: ...


class Slots:
    """The elements of a list."""

    def __init__(self, held: list[Any]) -> None:
        self.held = held

    def items(self) -> Iterable[tuple[int, Any]]:
        return list(enumerate(self.held))

    def get(self, index: int, default: Any = None, /) -> Any:
        return self.held[index] if index < len(self.held) else default

    def __setitem__(self, index: int, value: Any) -> None:
        self.held[index] = value

    def __delitem__(self, index: int) -> None:
        del self.held[index]


class Members:
    """What is in a set: each member holds True."""

    def __init__(self, held: set[Any]) -> None:
        self.held = held

    def items(self) -> Iterable[tuple[Any, bool]]:
        return [(member, True) for member in self.held]

    def get(self, member: Any, default: Any = None, /) -> Any:
        return True if member in self.held else default

    def __setitem__(self, member: Any, value: Any) -> None:
        self.held.add(member)

    def __delitem__(self, member: Any) -> None:
        self.held.remove(member)


class SlotAttributes:
    """The attributes an object keeps in slots."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def items(self) -> Iterable[tuple[str, Any]]:
        names = slots(type(self.held))
        return [(name, getattr(self.held, name)) for name in names if hasattr(self.held, name)]

    def get(self, name: str, default: Any = None, /) -> Any:
        return getattr(self.held, name, default)

    def __setitem__(self, name: str, value: Any) -> None:
        object.__setattr__(self.held, name, value)

    def __delitem__(self, name: str) -> None:
        object.__delattr__(self.held, name)


class Cells:
    """The variables of enclosing functions that a function reaches."""

    def __init__(self, fn: types.FunctionType) -> None:
        self.cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))

    def items(self) -> Iterable[tuple[str, Any]]:
        bound = [(name, self.get(name, MISSING)) for name in self.cells]
        return [(name, value) for name, value in bound if value is not MISSING]

    def get(self, name: str, default: Any = None, /) -> Any:
        try:
            return self.cells[name].cell_contents
        except ValueError:  # not bound
            return default

    def __setitem__(self, name: str, value: Any) -> None:
        self.cells[name].cell_contents = value

    def __delitem__(self, name: str) -> None:
        self.cells[name].cell_contents = None


class Globals:
    """The global variables that a function assigns."""

    def __init__(self, fn: types.FunctionType) -> None:
        self.names = names_stored(fn.__code__)
        self.held = fn.__globals__

    def items(self) -> Iterable[tuple[str, Any]]:
        return [(name, self.held[name]) for name in self.names if name in self.held]

    def get(self, name: str, default: Any = None, /) -> Any:
        return self.held.get(name, default)

    def __setitem__(self, name: str, value: Any) -> None:
        self.held[name] = value

    def __delitem__(self, name: str) -> None:
        del self.held[name]


class ClassAttributes:
    """The attributes of a class."""

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def items(self) -> Iterable[tuple[str, Any]]:
        return list(vars(self.cls).items())

    def get(self, name: str, default: Any = None, /) -> Any:
        return vars(self.cls).get(name, default)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self.cls, name, value)

    def __delitem__(self, name: str) -> None:
        delattr(self.cls, name)


def tables_of(holder: Any) -> list[Table]:
    """What can be assigned to in one thing a function reaches."""
    if isinstance(holder, dict):
        return [holder]
    if isinstance(holder, list):
        return [Slots(holder)]
    if isinstance(holder, set):
        return [Members(holder)]
    if isinstance(holder, types.MethodType):
        return tables_of(holder.__func__)
    if isinstance(holder, types.FunctionType):
        return [] if is_own(holder) else [Cells(holder), Globals(holder)]
    if isinstance(holder, type):
        return [ClassAttributes(holder)] if is_users(holder) else []
    own = getattr(holder, "__dict__", None)
    kept: list[Table] = [SlotAttributes(holder)] if slots(type(holder)) else []
    return [own, *kept] if isinstance(own, dict) else kept


def keep_states(holders: Iterable[Any]) -> Callable[[], None]:
    """What puts optimizers' state back as it is now: recording a first step makes it."""
    undo = [x.capture_keep() for x in holders if hasattr(type(x), "capture_keep")]

    def restore() -> None:
        for put_back in undo:
            put_back()

    return restore
