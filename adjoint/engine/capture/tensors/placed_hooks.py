"""Hooks that a recorded function puts on tensors and modules from outside, or takes from them.

Handles write to tables of their own accord, which nobody observes. A hook may come and go within a
call, or be there before and go; one that would stay is refused: each call would add another.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from typing import Any

from adjoint.engine.autodiff.tape.graph_tools import MultiHandle
from adjoint.engine.autodiff.tape.hooks import Handle
from adjoint.engine.capture.python.errors import Refusal
from adjoint.engine.core.operations.record import is_tensor

_LEAVE = frozenset({"remove", "__exit__"})
_COME = frozenset({"register_hook", "register_post_accumulate_grad_hook"})


def handles_of(made: Any) -> tuple[Handle, ...]:
    """The handles that a registration returned: one, or those of several tensors."""
    if isinstance(made, MultiHandle):
        return made.handles
    return (made,) if isinstance(made, Handle) else ()


class PlacedHooks:
    """The hooks of one recording."""

    def __init__(self, recorder: Any, restores: list[Callable[[], None]]) -> None:
        self.recorder, self.restores = recorder, restores
        self.placed: list[tuple[dict[int, Any], int, str]] = []  # tables, numbers, lines

    def before(self, fn: Any, args: tuple[Any, ...]) -> None:
        """A function of the framework is about to be called."""
        if not args or not isinstance(args[0], (Handle, MultiHandle)) or fn.__name__ not in _LEAVE:
            return
        for handle in handles_of(args[0]):
            if self.has_placed(handle.table, handle.id) or handle.id not in handle.table:
                continue
            if self.recorder.is_fresh(handle):
                continue
            self.recorder.item(handle.table, handle.id)
            self.recorder.journal.writes(handle.table, handle.id)
            self.recorder.effect(Handle.remove, handle)

    def has_placed(self, table: dict[int, Any], number: int) -> bool:
        """Whether a hook came in this call."""
        return any(table is t and number == key for t, key, _ in self.placed)

    def after(self, fn: Any, args: tuple[Any, ...], result: Any) -> None:
        """A function of the framework was called."""
        name = getattr(fn, "__name__", "")
        made = args[0] if name == "__init__" and args else result
        if isinstance(made, MultiHandle):
            tensors = args[0] if args else ()
            for handle, tensor in zip_longest(made.handles, tensors):
                if tensor is None or self._lasts(tensor):
                    self._place(handle)
        elif name in _COME and isinstance(made, Handle):
            if is_tensor(args[0]) and self._lasts(args[0]):
                self._place(made)
        elif name == "__init__" and isinstance(made, Handle) and self._lasts(made.table):
            self._place(made)

    def _lasts(self, value: Any) -> bool:
        """Whether something was there before the call."""
        return not self.recorder.is_fresh(value)

    def _place(self, handle: Handle) -> None:
        """Note a hook on what is there when the call has ended."""
        self.placed.append((handle.table, handle.id, self.recorder.line()))
        self.restores.append(partial(_take_away, handle))

    def check(self) -> None:
        """Refuse a hook that would stay."""
        for table, key, line in self.placed:
            if key in table:
                raise Refusal(
                    "a hook that stays", "each call would add another one",
                    "Register it outside, or remove it in the function.", line,
                )  # fmt: skip


def _take_away(handle: Handle) -> None:
    handle.table.pop(handle.id, None)
