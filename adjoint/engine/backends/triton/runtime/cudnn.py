"""Convolutions by cuDNN in programs on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int64
from typing import Any

from adjoint.engine.backends.array.libraries.convolutions import Convolution, operation
from adjoint.engine.backends.array.libraries.cudnn import Planned, cudnn_of, is_used

WORDS = 4  # addresses of two operands, the result and the workspace


class CudnnConvolver:
    """The convolutions of one GPU; plans are chosen by timing them."""

    def __init__(self, index: int) -> None:
        self.index = index

    def planned(self, call: Convolution) -> Planned | None:
        """A call with its plan; None where cuDNN has none, is not installed, or switched off."""
        return cudnn_of(self.index).planned(operation(call), timed=True) if is_used() else None

    def room(self, call: Convolution) -> int | None:
        """Bytes of workspace that a call wants; None if it cannot be run."""
        plan = self.planned(call)
        return None if plan is None else plan.workspace

    def prepare(self, call: Convolution) -> Callable[[int], None]:
        """What runs a call, given the address of its words on the host."""
        plan: Any = self.planned(call)

        def run(words: int) -> None:
            *addresses, workspace = (c_int64 * WORDS).from_address(words)
            plan(addresses, workspace)

        return run
