"""A quick check that nothing a captured function can see has changed since it was looked at.

A Fingerprint is a value to compare, made by a walk; a Watch only notices that something may have
changed, in a few microseconds: the epoch of modules, and the identity of everything in closure
cells, globals, containers and plain objects. Identical objects mean an unchanged fingerprint: plain
values are immutable, and whatever can change without its holder noticing is itself a holder.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from adjoint.core.epoch import EPOCH
from adjoint.core.record import HOOKS
from adjoint.graph.environment import COMPILED, Fingerprint, is_own, names_read


class Watch:
    """What a fingerprint saw, by identity."""

    __slots__ = ("epoch", "flags", "list_things", "tensors", "things")

    def __init__(self, seen: Fingerprint) -> None:
        self.epoch = seen.epoch
        writer = _Writer()
        for holder in seen.holders:
            writer.add(holder)
        self.list_things = writer.function()
        self.things = self.list_things()
        unique = {id(t): t for t in seen.watched}
        self.tensors = list(unique.values())
        self.flags = [t._requires_grad for t in self.tensors]

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
        return [t._requires_grad for t in self.tensors] == self.flags


class _Writer:
    """Writes the expression that lists everything the holders hold, in order.

    Generated, because a loop over kinds of holders would take longer than the look itself.
    """

    def __init__(self) -> None:
        self.terms: list[str] = []
        self.scope: dict[str, Any] = {}

    def name(self, value: Any) -> str:
        """A variable of the expression."""
        name = f"h{len(self.scope)}"
        self.scope[name] = value
        return name

    def add(self, holder: Any) -> None:
        """What one holder holds."""
        kind = type(holder)
        if hasattr(kind, "capture_watch"):
            self.terms.append(f"*{self.name(holder.capture_watch())}()")
        elif hasattr(kind, "capture_children"):
            children = self.name(holder.capture_children)
            self.terms.append(f"*[child for _, child in {children}()]")
        elif isinstance(holder, dict):
            self._add_dict(holder)
        elif isinstance(holder, (list, set)):
            self.terms.append(f"*{self.name(holder)}")
        elif isinstance(holder, types.MethodType):
            self._add_function(holder.__func__)
        elif isinstance(holder, types.FunctionType):
            self._add_function(holder)
        elif not isinstance(holder, (tuple, frozenset, type, types.ModuleType)):
            self._add_dict(getattr(holder, "__dict__", {}))

    def _add_dict(self, table: dict[Any, Any]) -> None:
        name = self.name(table)
        if COMPILED in table:  # changes without consequence
            self.terms.append(f"*[x for i in {name}.items() if i[0] != {COMPILED!r} for x in i]")
        else:
            self.terms += [f"*{name}", f"*{name}.values()"]

    def _add_function(self, fn: Any) -> None:
        if not isinstance(fn, types.FunctionType) or is_own(fn):
            return
        self.terms += [f"{self.name(cell)}.cell_contents" for cell in fn.__closure__ or ()]
        found = self.name(fn.__globals__.get)
        self.terms += [f"{found}({name!r})" for name in sorted(names_read(fn.__code__))]
        if fn.__defaults__ or fn.__kwdefaults__:
            name = self.name(fn)
            self.terms += [f"{name}.__defaults__", f"*({name}.__kwdefaults__ or {{}}).values()"]

    def function(self) -> Callable[[], list[Any]]:
        """The expression as a function."""
        given = ", ".join(f"{name}={name}" for name in self.scope)
        text = f"def things({given}):\n    return [{', '.join(self.terms)}]\n"
        scope = dict(self.scope)
        exec(compile(text, "<watch>", "exec"), scope)
        found: Callable[[], list[Any]] = scope["things"]
        return found
