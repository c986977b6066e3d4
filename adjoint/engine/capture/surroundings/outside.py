"""What a function does to Python's own state while it is recorded: refused, and undone.

A replay does not run the function, so numbers it counts up and tensors it appends to lists would be
missing from every call but the first.
"""

from __future__ import annotations

import operator
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from functools import partial
from typing import Any, NamedTuple

from adjoint.engine.capture.surroundings.environment import owned
from adjoint.engine.capture.surroundings.moving import Moving
from adjoint.engine.capture.surroundings.places import Cells, Globals, tables_of
from adjoint.engine.capture.surroundings.reach import (
    DEPTH,
    Names,
    children,
    is_tracked,
    is_users,
    plain,
    reached,
)
from adjoint.engine.core.number_key import number_key
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.epoch import EPOCH, TrackedDict
from adjoint.engine.core.state.host import is_host
from adjoint.engine.tensor.memory import is_symbolic

# The way to a value: the way to its holder, the key there, whether that is an item's. It is spelt
# out only for a message: a key may be a parameter, and printing that takes its time.
Path = tuple[Any, Any, bool]


def spell(path: Path) -> str:
    """A way as Python writes it."""
    before, key, item = path
    if before is None:
        return str(key)
    return spell(before) + (f"[{key!r}]" if item else f".{key}")


class Numbers(NamedTuple):
    """The Python numbers in one holder, by name there."""

    holder: Any
    kind: type  # a lazy module that became an ordinary one is another holder
    parts: Callable[[Any], Iterable[tuple[Any, Any]]]  # what is in it
    path: Path | None
    item: bool
    values: dict[Any, Any]


class Outside:
    """The Python numbers in containers and objects a function can reach, by holder and name.

    Of lists, dicts and plain objects it keeps what is in them: what a function puts there, it puts
    there once.
    """

    __slots__ = ("contents", "kept", "moving", "numbers", "variables")

    def __init__(self, fn: Callable[..., Any], names: Names, arguments: Iterable[Any] = ()) -> None:
        self.variables = [(fn, _variables(fn))]  # of the function and those it calls
        self.numbers: list[Numbers] = []
        self.kept: dict[int, Any] = {}  # by identity, which stays unique while this lives
        self.contents: list[tuple[Path, Any, Any]] = []  # a container, and a copy
        self.moving = Moving(names)
        pending: list[tuple[Path, Any, int]] = []
        self._look(Numbers(fn, type(fn), reached, None, False, {}), 0, pending)
        self._look(Numbers(arguments, type(arguments), _named, None, False, {}), 0, pending)
        own = partial(_own, names=names)
        while pending:
            path, value, depth = pending.pop()
            self.moving.add(partial(spell, path), value)
            if isinstance(value, types.FunctionType):
                self.variables.append((value, _variables(value)))
            within = _contents(value)
            if within is not None:
                self.contents.append((path, within, _copy(within)))
            item = isinstance(value, (dict, list, tuple))
            self._look(Numbers(value, type(value), own, path, item, {}), depth + 1, pending)

    def _look(self, holder: Numbers, depth: int, pending: list[tuple[Path, Any, int]]) -> None:
        """Keep the numbers in something; look into what else is in it later."""
        _, _, parts, path, item, values = holder
        kept = self.kept
        for key, child in parts(holder.holder):
            if isinstance(child, _NUMBERS) and not is_host(child):
                if child.__class__ is not bool:
                    values[key] = child
            elif isinstance(child, TrackedDict) and not child:
                continue  # most tables of modules are empty
            elif not (is_tensor(child) or plain(child) or id(child) in kept or depth > DEPTH):
                kept[id(child)] = child
                pending.append(((path, key, item), child, depth))
        if values:
            self.numbers.append(holder)

    def check(self, *, counting: bool = False) -> None:
        """Refuse what a replay would not do; `counting`: except to change numbers."""
        self.moving.check()
        if not counting:
            for message in self.counted().values():
                raise RuntimeError(message)
        self.check_contents()

    def counted(self) -> dict[tuple[int, Any], str]:
        """The numbers the function has changed, by holder and name, with what to say of them."""
        found: dict[tuple[int, Any], str] = {}
        for holder, kind, parts, path, item, values in self.numbers:
            if type(holder) is not kind:
                continue
            now = dict(parts(holder))
            for key, value in values.items():
                after = now.get(key, value)
                number = isinstance(after, _NUMBERS) and after.__class__ is not bool
                if number and number_key(after) != number_key(value):
                    found[id(holder), key] = (
                        "compile: the function changes a Python number, "
                        f"{spell((path, key, item))}, from {value} to {after}; a recording would "
                        "not. Change it outside the function, or keep it in a tensor and write "
                        "that in place."
                    )
        return found

    def check_contents(self) -> None:
        """Refuse a function that adds traced tensors to a container: its replay would add none.

        What it assigns to places that there are is carried from call to call (`attributes`).
        """
        for path, value, before in self.contents:
            if isinstance(value, list):
                added: Iterable[Any] = value[len(before) :]
            else:
                added = value if isinstance(value, (set, deque)) else ()
            if any(map(_traced, added)):
                raise RuntimeError(
                    f"compile: the function appends a tensor to the {type(value).__name__} "
                    f"{spell(path)}{_LOST}"
                )

    def _assigned(self) -> Iterator[tuple[str, Callable[..., Any], Any]]:
        """Variables that hold a traced tensor: name, function that has it, value before."""
        for fn, before in self.variables:
            for name, value in _variables(fn).items():
                if _traced(value):
                    yield name, fn, before.get(name)

    def put_back(self) -> None:
        """After a recording that failed: numbers and containers as they were."""
        self.moving.put_back()
        for holder, *_, values in self.numbers:
            for key, value in values.items():
                _assign(holder, key, value)
        for name, fn, held in self._assigned():
            _assign(fn, name, held)
        for _, value, before in self.contents:
            if isinstance(value, (list, deque)):
                if len(value) != len(before) or any(map(operator.is_not, value, before)):
                    value.clear()
                    value.extend(before)
            elif isinstance(value, set):
                if value != before:
                    value.clear()
                    value.update(before)
            else:
                _restore(value, before)


_NUMBERS = (int, float, complex)
_CODE = (type, types.ModuleType, types.BuiltinFunctionType, types.FunctionType, types.MethodType)
_LOST = (
    "; a recording would not. Return the tensor and put it there outside the function, or keep it "
    "in a tensor that was there before and write that in place."
)


def _traced(value: Any) -> bool:
    """Whether this is a tensor without elements."""
    return is_tensor(value) and is_symbolic(value)


def _variables(fn: Callable[..., Any]) -> dict[str, Any]:
    """The variables outside a function that it may assign, by name."""
    if not isinstance(fn, (types.FunctionType, types.MethodType)):
        return {}
    return {name: value for table in tables_of(fn) for name, value in table.items()}


def _contents(value: Any) -> Any:
    """The list or dict in which a value keeps what can be put there, unless others look after it.

    Attributes of modules are `attributes.Attributes`'s, an optimizer's state is its own.
    """
    if isinstance(value, (list, dict, set, deque)):
        return None if isinstance(value, TrackedDict) else value
    looked_after = is_tracked(value) or hasattr(type(value), "capture_children")
    return None if looked_after or isinstance(value, _CODE) else getattr(value, "__dict__", None)


def _copy(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else copy(value)


def _restore(table: dict[Any, Any], before: dict[Any, Any]) -> None:
    """Give a dict the items it had."""
    for key in [k for k in table if k not in before]:
        del table[key]
    for key, value in before.items():
        if key not in table or table[key] is not value:
            table[key] = value


def _assign(holder: Any, key: Any, value: Any) -> None:
    """Give a number back to what held it, if it is another one now."""
    if isinstance(holder, types.MethodType):
        holder = holder.__func__
    if isinstance(holder, types.FunctionType):
        cells, variables = Cells(holder), Globals(holder)
        if key in cells.cells:
            cells[key] = value
        elif key in variables.names:
            variables[key] = value
        return
    if isinstance(holder, type):
        setattr(holder, key, value)
        return
    table = holder if isinstance(holder, (dict, list)) else getattr(holder, "__dict__", None)
    if isinstance(table, list):
        if key < len(table) and number_key(table[key]) != number_key(value):
            table[key] = value
    elif table is not None and key in table and number_key(table[key]) != number_key(value):
        table[key] = value
        EPOCH.count += is_tracked(holder)


def _named(arguments: Iterable[Any]) -> Iterable[tuple[str, Any]]:
    """Arguments as parts of a call."""
    return [(f"argument {i}", x) for i, x in enumerate(arguments)]


def _own(value: Any, names: Names) -> Iterable[tuple[Any, Any]]:
    """The parts of a value that a function can change and a recording depends on."""
    if is_tracked(value):
        shown = owned(value, names)
        return [*shown, ("class", type(value))] if is_users(type(value)) else shown
    return () if isinstance(value, (set, frozenset)) else children(value, names)
