"""A stream of work on a GPU that is captured by hand (`cuda.graph`): what may not happen in it.

A captured graph does again what was launched, on the same memory. What the host decided meanwhile,
a number it read or drew, is not decided again: such operations are refused while one is captured.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.errors import CaptureError, users_line


class StreamCapture:
    """The graph that is being captured by hand, if there is one."""

    __slots__ = ("graph",)

    def __init__(self) -> None:
        self.graph: Any = None

    def refuse(self, what: str, remedy: str) -> None:
        """Raise, if a graph is being captured."""
        if self.graph is not None:
            raise CaptureError(
                f"cuda.graph: {what} at {users_line()}, while a graph is captured. {remedy}"
            )


STREAM_CAPTURE = StreamCapture()
