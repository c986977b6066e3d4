"""Convolutions and attention by cuDNN in programs on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int64
from typing import Any

from adjoint.engine.backends.array.libraries import attention, convolutions
from adjoint.engine.backends.array.libraries.attention import CudnnAttention
from adjoint.engine.backends.array.libraries.convolutions import Convolution
from adjoint.engine.backends.array.libraries.cudnn import Planned, cudnn_of, is_used

CONVOLUTION = 3  # addresses of a convolution: two operands and the result


class CudnnConvolver:
    """The convolutions of one GPU, whose plans are chosen by timing them; and its attention and
    depthwise convolutions, of whose plans the first is the fastest (others take a second to build,
    or to run)."""

    def __init__(self, index: int) -> None:
        self.index = index

    def planned(self, call: Convolution | CudnnAttention) -> Planned | None:
        """A call with its plan; None where cuDNN has none, is not installed, or switched off."""
        if not is_used():
            return None
        if isinstance(call, CudnnAttention):
            return cudnn_of(self.index).planned(attention.operation(call), timed=False)
        wanted = convolutions.operation(call)
        return cudnn_of(self.index).planned(wanted, timed=not call.is_depthwise)

    def room(self, call: Convolution | CudnnAttention) -> int | None:
        """Bytes of workspace that a call wants; None if it cannot be run."""
        plan = self.planned(call)
        return None if plan is None else plan.workspace

    def attention_room(self, call: CudnnAttention) -> int | None:
        """The same of attention."""
        return self.room(call)

    def prepare(self, call: Convolution | CudnnAttention) -> Callable[[int], None]:
        """What runs a call, given the address of its words on the host."""
        plan: Any = self.planned(call)
        count = len(call.strides) if isinstance(call, CudnnAttention) else CONVOLUTION

        def run(words: int) -> None:
            *addresses, workspace = (c_int64 * (count + 1)).from_address(words)
            plan(addresses, workspace)

        return run
