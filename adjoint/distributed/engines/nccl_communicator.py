"""Collectives by NCCL, on arrays of a GPU.

Operations are queued on the lane that is entered (`Lane.entered`), so they return at once. What
NCCL has no reduction for (bitwise ones, int16, products of complex numbers; MIN and MAX of floats,
where it loses NaN) is gathered and reduced here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.distributed.communication.reduce_op import PremulSum, RedOpType
from adjoint.distributed.engines.base import Buffer
from adjoint.distributed.engines.lanes import Lane
from adjoint.distributed.engines.nccl import NcclLibrary
from adjoint.engine.backends.array.buffers import address

BYTES = 1
NUMBERS = {
    "int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6,
    "float32": 7, "float64": 8, "bfloat16": 9,
}  # fmt: skip
OPERATIONS = {
    RedOpType.SUM: 0, RedOpType.PRODUCT: 1, RedOpType.MAX: 2, RedOpType.MIN: 3, RedOpType.AVG: 4,
}  # fmt: skip
# Of booleans, as bytes of 0 and 1; the sum of BXOR is odd or even.
LOGICAL = {
    RedOpType.SUM: RedOpType.MAX, RedOpType.PRODUCT: RedOpType.MIN, RedOpType.MIN: RedOpType.MIN,
    RedOpType.MAX: RedOpType.MAX, RedOpType.BAND: RedOpType.MIN, RedOpType.BOR: RedOpType.MAX,
    RedOpType.BXOR: RedOpType.SUM,
}  # fmt: skip
COMBINED = {
    RedOpType.BAND: "bitwise_and", RedOpType.BOR: "bitwise_or", RedOpType.BXOR: "bitwise_xor",
    RedOpType.MIN: "minimum", RedOpType.MAX: "maximum", RedOpType.SUM: "add",
    RedOpType.PRODUCT: "multiply",
}  # fmt: skip


class NcclCommunicator:
    """Some processes, each with a GPU."""

    def __init__(self, library: NcclLibrary, handle: int, rank: int, size: int, lane: Lane) -> None:
        self.library, self.handle, self.lane = library, handle, lane
        self.rank, self.size = rank, size

    def fault(self) -> None:
        """Raise what went wrong in the background."""
        status = self.library.fault(self.handle) if self.handle else 0
        if status:
            raise self.library.failure("NCCL, in the background", status)

    def _call(self, name: str, *arguments: Any) -> None:
        self.library.call(name, *arguments, self.handle, self.lane.stream)

    # -- moving: elements are bytes --------------------------------------------------------------

    def broadcast(self, buffer: Buffer, root: int) -> None:
        if buffer.size:
            place = address(buffer)
            self._call("Broadcast", place, place, buffer.nbytes, BYTES, root)

    def all_gather(self, out: Buffer, buffer: Buffer) -> None:
        if buffer.size:
            self._call("AllGather", address(buffer), address(out), buffer.nbytes, BYTES)

    def gather(self, out: Buffer | None, buffer: Buffer, root: int) -> None:
        gives = {root: (address(buffer), buffer.nbytes)}
        takes = {} if out is None else self._rows(out, [buffer.nbytes] * self.size)
        self._exchange(takes, gives)

    def scatter(self, out: Buffer, buffer: Buffer | None, root: int) -> None:
        gives = {} if buffer is None else self._rows(buffer, [out.nbytes] * self.size)
        self._exchange({root: (address(out), out.nbytes)}, gives)

    def all_to_all(
        self, out: Buffer, takes: Sequence[int], buffer: Buffer, gives: Sequence[int]
    ) -> None:
        size = buffer.dtype.itemsize
        self._exchange(
            self._rows(out, [n * size for n in takes]),
            self._rows(buffer, [n * size for n in gives]),
        )

    def send(self, buffer: Buffer, peer: int) -> None:
        """To one member; queued until that member's `receive` is."""
        self._exchange({}, {peer: (address(buffer), buffer.nbytes)})

    def receive(self, buffer: Buffer, peer: int) -> None:
        """From one member."""
        self._exchange({peer: (address(buffer), buffer.nbytes)}, {})

    def send_to_itself(self, out: Buffer, buffer: Buffer) -> None:
        """From this member to itself, which NCCL does only in one group of calls."""
        own = self.rank
        self._exchange({own: (address(out), out.nbytes)}, {own: (address(buffer), buffer.nbytes)})

    def _rows(self, array: Buffer, sizes: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Address and bytes of each member's part of an array."""
        starts = np.concatenate([[0], np.cumsum(sizes)])
        return {r: (address(array) + int(starts[r]), int(n)) for r, n in enumerate(sizes)}

    def _exchange(
        self, takes: dict[int, tuple[int, int]], gives: dict[int, tuple[int, int]]
    ) -> None:
        """Messages to and from members, all at once."""
        self.library.call("GroupStart")
        try:
            for peer, (place, count) in gives.items():
                if count:
                    self._call("Send", place, count, BYTES, peer)
            for peer, (place, count) in takes.items():
                if count:
                    self._call("Recv", place, count, BYTES, peer)
        finally:
            self.library.call("GroupEnd")

    # -- reducing --------------------------------------------------------------------------------

    def all_reduce(self, buffer: Buffer, op: Any) -> None:
        if not buffer.size:
            return
        kind = self._scaled(buffer, op)
        if self._gathers(buffer.dtype, kind):
            buffer[...] = self._combined(buffer, kind).reshape(buffer.shape)
            return
        flat, number, operation = self._numbers(buffer, kind)
        place = address(flat)
        self._call("AllReduce", place, place, flat.size, number, operation)
        self._settle(flat, buffer, op)

    def reduce(self, buffer: Buffer, op: Any, root: int) -> None:
        if not buffer.size:
            return
        kind = self._scaled(buffer, op)
        if self._gathers(buffer.dtype, kind):
            combined = self._combined(buffer, kind)
            if self.rank == root:
                buffer[...] = combined.reshape(buffer.shape)
            return
        flat, number, operation = self._numbers(buffer, kind)
        place = address(flat)
        self._call("Reduce", place, place, flat.size, number, operation, root)
        if self.rank == root:
            self._settle(flat, buffer, op)

    def reduce_scatter(self, out: Buffer, buffer: Buffer, op: Any) -> None:
        if not out.size:
            return
        if isinstance(op, PremulSum):
            buffer = buffer * buffer.dtype.type(op.factor)
        kind = RedOpType.SUM if isinstance(op, PremulSum) else op
        if self._gathers(buffer.dtype, kind):
            mine = slice(self.rank * out.size, (self.rank + 1) * out.size)
            out[...] = self._combined(buffer, kind)[mine].reshape(out.shape)
            return
        flat, number, operation = self._numbers(buffer, kind)
        part, _, _ = self._numbers(out, kind)
        self._call("ReduceScatter", address(flat), address(part), part.size, number, operation)
        self._settle(part, out, op)

    def _scaled(self, buffer: Buffer, op: Any) -> RedOpType:
        """The kind of reduction, after a factor was multiplied in."""
        if isinstance(op, PremulSum):
            buffer *= buffer.dtype.type(op.factor)
            return RedOpType.SUM
        return RedOpType(op)

    def _gathers(self, dtype: Any, kind: RedOpType) -> bool:
        """Whether a reduction is done here, from all values."""
        if dtype.kind == "b":
            return False
        if dtype.kind == "c":
            return kind not in (RedOpType.SUM, RedOpType.AVG)
        floats = dtype.kind in "fV"
        extremes = kind in (RedOpType.MIN, RedOpType.MAX) and floats
        return extremes or dtype.name not in NUMBERS or kind not in OPERATIONS

    def _numbers(self, array: Buffer, kind: RedOpType) -> tuple[Buffer, int, int]:
        """An array as NCCL sees it, the number of its dtype, and that of the reduction."""
        flat = array.reshape(-1)
        if array.dtype.kind == "b":
            return flat.view(np.uint8), NUMBERS["uint8"], OPERATIONS[LOGICAL[kind]]
        if array.dtype.kind == "c":
            flat = flat.view(np.float32 if array.dtype.itemsize == 8 else np.float64)
        return flat, NUMBERS[flat.dtype.name], OPERATIONS[kind]

    def _settle(self, flat: Buffer, out: Buffer, op: Any) -> None:
        """What is left to do with a result."""
        if out.dtype.kind == "b" and op is RedOpType.BXOR:
            flat &= np.uint8(1)

    def _combined(self, buffer: Buffer, kind: RedOpType) -> Buffer:
        """The reduction of all members' values, flat; of halves by way of float32."""
        xp = self.lane.xp
        whole = xp.empty((self.size, buffer.size), buffer.dtype)
        self.all_gather(whole, buffer)
        narrow = buffer.dtype.kind in "fV" and buffer.dtype.itemsize < 4
        values = whole.astype(np.float32) if narrow else whole
        combine = getattr(xp, COMBINED[RedOpType.SUM if kind is RedOpType.AVG else kind])
        total = values[0]
        for row in values[1:]:
            total = combine(total, row)
        total = total / self.size if kind is RedOpType.AVG else total
        return total.astype(buffer.dtype)

    # -- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the communicator; all its members do."""
        handle, self.handle = self.handle, 0
        if handle:
            self.library.call("CommDestroy", handle)

    def abort(self) -> None:
        """End what is under way, since some member is gone."""
        handle, self.handle = self.handle, 0
        if handle:
            self.library.call("CommAbort", handle)
