"""Hooks that a recorded function puts on tensors and modules from outside, or takes from them.

Handles write to tables of their own accord, which nobody observes. A hook may come and go within a
call, or be there before and go; one that would stay is refused: each call would add another.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from adjoint.engine.autodiff.tape.hooks import Handle
from adjoint.engine.capture.python.errors import Refusal
from adjoint.engine.core.operations.record import is_tensor

_LEAVE = frozenset({"remove", "__exit__"})
_COME = frozenset({"register_hook", "register_post_accumulate_grad_hook"})


class PlacedHooks:
    """The hooks of one recording."""

    def __init__(self, recorder: Any, restores: list[Callable[[], None]]) -> None:
        self.recorder, self.restores = recorder, restores
        self.placed: list[tuple[dict[int, Any], int, str]] = []  # tables, numbers, lines

    def before(self, fn: Any, args: tuple[Any, ...]) -> None:
        """A function of the framework is about to be called."""
        handle = args[0] if args else None
        if not isinstance(handle, Handle) or fn.__name__ not in _LEAVE:
            return
        own = any(table is handle.table and key == handle.id for table, key, _ in self.placed)
        if own or handle.id not in handle.table or self.recorder.is_fresh(handle):
            return
        self.recorder.item(handle.table, handle.id)
        self.recorder.journal.writes(handle.table, handle.id)
        self.recorder.effect(Handle.remove, handle)

    def after(self, fn: Any, args: tuple[Any, ...], result: Any) -> None:
        """A function of the framework was called."""
        name = getattr(fn, "__name__", "")
        handle = args[0] if name == "__init__" and args else result
        if not isinstance(handle, Handle):
            return
        if name in _COME and is_tensor(args[0]):
            stays = not self.recorder.is_fresh(args[0])
        else:
            stays = name == "__init__" and not self.recorder.is_fresh(handle.table)
        if stays:
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
