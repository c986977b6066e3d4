"""Objects of the framework whose methods run natively: what these read and write of them.

Nobody observes such a method. So a recording depends on all attributes of the object and is refused
where one of them is another afterwards. Objects that say themselves what a recording depends on
(`capture_children`) see to their tensors, and to what they make in the first call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine.capture.python.errors import Refusal
from adjoint.engine.capture.python.plain import MISSING, PLAIN, has, same
from adjoint.engine.capture.tensors.callbacks import keeps_state
from adjoint.engine.core.operations.record import is_tensor


class NativeState:
    """The objects that one recording met."""

    def __init__(self, recorder: Any, restores: list[Callable[[], None]]) -> None:
        self.recorder, self.restores = recorder, restores
        self.met: dict[int, tuple[Any, dict[str, Any], dict[str, Any], str]] = {}

    def meet(self, value: Any) -> None:
        """A method is about to be called, or a function that is given the object."""
        known = id(value) in self.met or is_tensor(value)
        if known or not keeps_state(type(value).__module__):
            return
        table = None if self.recorder.is_fresh(value) else self.recorder.attributes(value)
        if table is None:
            return
        before = dict(table)
        if has(type(value), "capture_children"):
            plain = {name: of for name, of in before.items() if type(of) in PLAIN}
            before = {name: of for name, of in plain.items() if of is not None}
        else:
            self.recorder.contents(table)
        self.met[id(value)] = value, table, before, self.recorder.line()
        self.restores.append(lambda: table.update(before))

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
                raise Refusal(
                    f"{type(value).__name__}.{changed[0]}",
                    "a method of the framework changes it, which no recording does again",
                    "Call that outside.",
                    line,
                )
