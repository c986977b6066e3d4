"""A quick check that nothing a captured function can see has changed since it was looked at.

A Fingerprint is a value to compare, made by a walk; a Watch only notices that something may have
changed, in a few microseconds: the epoch of modules, and the identity of everything in closure
cells, globals, containers and plain objects. Identical objects mean an unchanged fingerprint: plain
values are immutable, and whatever can change without its holder noticing is itself a holder.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable
from typing import Any

from adjoint.engine.capture.surroundings.environment import Fingerprint, contents
from adjoint.engine.capture.surroundings.reach import (
    Names,
    attributes,
    class_names,
    is_own,
    module_parts,
    names_read,
    slots,
)
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.epoch import EPOCH


class Watch:
    """What a fingerprint saw, by identity."""

    __slots__ = ("arrays", "epoch", "flags", "list_things", "tensors", "things")

    def __init__(self, seen: Fingerprint) -> None:
        self.epoch = seen.epoch
        writer = _Writer(seen.environment.names)
        for holder in seen.holders:
            writer.add(holder)
        self.list_things = writer.function()
        self.things = self.list_things()
        unique = {id(t): t for t in seen.watched}
        self.tensors = list(unique.values())
        self.flags = [t._requires_grad for t in self.tensors]
        self.arrays = seen.arrays

    def holds(self) -> bool:
        """Whether everything is as it was."""
        if EPOCH.count != self.epoch:
            return False
        try:
            now = self.list_things()
        except ValueError:  # a variable of an enclosing function is not bound at the moment
            return False
        if HOOKS.differ(now, self.things):
            return False
        if self.arrays and any(contents(array) != before for array, before in self.arrays):
            return False
        return [t._requires_grad for t in self.tensors] == self.flags


class _Writer:
    """Writes the expression that lists everything the holders hold, in order.

    Generated, because a loop over kinds of holders would take longer than the look itself.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self.terms: dict[str, None] = {}  # in order, each once
        self.scope: dict[str, Any] = {}
        self.known: dict[int, str] = {}  # variables, by what they stand for
        self.getters: dict[int, str] = {}  # those that read a dict, by the dict

    def name(self, value: Any) -> str:
        """A variable of the expression."""
        name = self.known.setdefault(id(value), f"h{len(self.scope)}")
        self.scope[name] = value
        return name

    def write(self, *terms: str) -> None:
        """Terms of the expression."""
        self.terms.update(dict.fromkeys(terms))

    def add(self, holder: Any) -> None:
        """What one holder holds."""
        kind = type(holder)
        if hasattr(kind, "capture_watch"):
            self.write(f"*{self.name(holder.capture_watch())}()")
        elif hasattr(kind, "capture_children"):
            children = self.name(holder.capture_children)
            self.write(f"*[child for _, child in {children}()]")
        elif isinstance(holder, types.MethodType):
            self._add_function(holder.__func__)
        elif isinstance(holder, types.FunctionType):
            self._add_function(holder)
        elif isinstance(holder, type):
            self._add_entries(vars(holder), class_names(holder, self.names))
        elif isinstance(holder, types.ModuleType):
            self._add_entries(vars(holder), [k for k, _ in module_parts(holder, self.names)])
        else:
            if isinstance(holder, dict):
                self.write(f"*{self.name(holder)}", f"*{self.name(holder)}.values()")
            elif isinstance(holder, (list, set, deque)):
                self.write(f"*{self.name(holder)}")
            self._add_attributes(holder)

    def _add_attributes(self, holder: Any) -> None:
        """The attributes of an object: all there are, or those that are named."""
        own = getattr(holder, "__dict__", None)
        shown = [name for name, _ in attributes(holder, self.names)]
        if slots(type(holder)):
            get, it = self.name(getattr), self.name(holder)
            self.write(*[f"{get}({it}, {k!r}, None)" for k in slots(type(holder)) if k in shown])
        if not isinstance(own, dict):
            return
        if len(shown) < len(own):
            self._add_entries(own, [name for name in shown if name in own])
        else:
            self.write(f"*{self.name(own)}", f"*{self.name(own)}.values()")
        hidden = class_names(type(holder), self.names)  # what the instance may come to hide
        self._add_entries(own, [name for name in hidden if not name.startswith("__")])

    def _add_entries(self, table: Any, names: list[str]) -> None:
        """Some of what is in a dict."""
        if not names:
            return
        if id(table) not in self.getters:  # the getter keeps the table, and its id, alive
            self.getters[id(table)] = self.name(table.get)
        get = self.getters[id(table)]
        self.write(*[f"{get}({name!r})" for name in names])

    def _add_function(self, fn: Any) -> None:
        if not isinstance(fn, types.FunctionType) or is_own(fn):
            return
        self.write(*[f"{self.name(cell)}.cell_contents" for cell in fn.__closure__ or ()])
        table = fn.__globals__
        self._add_entries(table, sorted(names_read(fn.__code__)))
        if fn.__defaults__ or fn.__kwdefaults__:
            name = self.name(fn)
            self.write(f"{name}.__defaults__", f"*({name}.__kwdefaults__ or {{}}).values()")

    def function(self) -> Callable[[], list[Any]]:
        """The expression as a function."""
        given = ", ".join(f"{name}={name}" for name in self.scope)
        text = f"def things({given}):\n    return [{', '.join(self.terms)}]\n"
        scope = dict(self.scope)
        exec(compile(text, "<watch>", "exec"), scope)
        found: Callable[[], list[Any]] = scope["things"]
        return found
