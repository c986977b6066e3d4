"""Objects of the framework whose methods run natively: what these read and write of them.

Nobody observes such a method. So a recording depends on all attributes of the object, and on what
is in lists, dicts and sets there, and is refused where one of them is another afterwards. Objects
that say themselves what a recording depends on (`capture_children`) see to their tensors, and to
what they make in the first call; which of their containers it leaves as they were is
`capture_unchanged`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from adjoint.engine.capture.python.errors import Refusal
from adjoint.engine.capture.python.plain import MISSING, PLAIN, has, same
from adjoint.engine.capture.tensors.callbacks import keeps_state
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.ownership import module_of

_CONTAINERS = (list, dict, set, deque, tuple)


class NativeState:
    """The objects that one recording met."""

    def __init__(self, recorder: Any, restores: list[Callable[[], None]]) -> None:
        self.recorder, self.restores = recorder, restores
        self.met: dict[int, tuple[Any, dict[str, Any], dict[str, Any], str]] = {}
        self.inside: list[tuple[Any, str, Any, Any, str]] = []  # containers in their attributes

    def meet(self, value: Any) -> None:
        """A method is about to be called, or a function that is given the object."""
        known = id(value) in self.met or is_tensor(value)
        if known or not keeps_state(module_of(type(value))):
            return
        table = None if self.recorder.is_fresh(value) else self.recorder.attributes(value)
        if table is None:
            return
        before = dict(table)
        for name in getattr(type(value), "capture_unchanged", ()):
            self._look_into(value, name, before[name])
        if has(type(value), "capture_children"):
            plain = {name: of for name, of in before.items() if type(of) in PLAIN}
            before = {name: of for name, of in plain.items() if of is not None}
        else:
            self.recorder.contents(table)
            for name, of in before.items():
                self._look_into(value, name, of)
        self.met[id(value)] = value, table, before, self.recorder.line()
        self.restores.append(lambda: table.update(before))

    def _look_into(self, value: Any, name: str, container: Any) -> None:
        """Depend on what is in a container, at whatever depth, and remember it."""
        kind = type(container)
        if kind not in _CONTAINERS or self.recorder.is_fresh(container):
            return
        if kind is not tuple:
            if any(seen is container for _, _, seen, _, _ in self.inside):
                return
            self.recorder.contents(container)
            before = container.copy()
            self.inside.append((value, name, container, before, self.recorder.line()))
            self.restores.append(lambda: _put_back(container, before))
        for part in container.values() if kind is dict else container:
            self._look_into(value, name, part)

    def check(self) -> None:
        """Refuse what was changed natively."""
        for value, table, before, line in self.met.values():
            written = self.recorder.journal.written.get(id(table), ())
            changed = [
                name
                for name, of in before.items()
                if not (written is None or name in written)
                and not same(table.get(name, MISSING), of)
            ]
            if changed:
                raise _refusal(value, changed[0], line)
        for value, name, container, before, line in self.inside:
            written = id(container) in self.recorder.journal.copies
            if not written and not _holds(container, before):
                raise _refusal(value, name, line)


def _refusal(value: Any, name: str, line: str) -> Refusal:
    kind = type(value)
    return Refusal(
        f"{kind.__name__}.{name}",
        "a method of the framework changes it, which no recording does again",
        getattr(kind, "capture_unchanged", {}).get(name, "Call that outside."),
        line,
    )


def _holds(container: Any, before: Any) -> bool:
    """Whether a container has in it what it had."""
    if isinstance(container, set):
        return bool(container == before)
    if len(container) != len(before):
        return False
    if isinstance(container, dict):
        return all(same(container.get(key, MISSING), of) for key, of in before.items())
    return all(map(same, container, before))


def _put_back(container: Any, before: Any) -> None:
    """Have in a container what was in it."""
    if not _holds(container, before):
        container.clear()
        (container.update if isinstance(container, (dict, set)) else container.extend)(before)
