"""Where in its memory a tensor lies, for operations that depend on it: their recordings do, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import CaptureError, users_line
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def place_in_memory(x: Tensor) -> int:
    """The offset of a tensor's first element in its storage."""
    if CONTEXT.capture is not None:
        CONTEXT.capture.look_at_memory(x, _offset)
    return x.storage_offset()


def room_in_memory(x: Tensor) -> Any:
    """How many elements a tensor's storage has room for."""
    if CONTEXT.capture is not None:
        CONTEXT.capture.look_at_memory(x, _room)
    return HOOKS.array.room(x)


def check_inside(x: Tensor, begin: int, end: int) -> None:
    """Refuse to record a view that shows memory around an argument: a call has the argument alone.

    `begin` and `end` are places in the storage.
    """
    if CONTEXT.capture is None or begin >= end:
        return
    shown = CONTEXT.capture.shown_of_memory(x)
    if shown is not None and (begin < shown[0] or end > shown[1]):
        raise CaptureError(
            f"compile: {users_line()}: as_strided shows memory of an argument's storage that the "
            "argument does not show, which cannot be recorded. Pass the tensor that it is a view "
            "of, or leave such calls to Python (fullgraph=False)."
        )


def _offset(x: Tensor) -> int:
    return x.storage_offset()


def _room(x: Tensor) -> Any:
    return HOOKS.array.room(x)
